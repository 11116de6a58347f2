//! `[[stat]]`: a thread for each socket, and one that turns the data into samples.

use std::sync::Arc;

use tracing::info;

use super::error::StartError;
use super::threads::Worker;
use crate::clock::Clock;
use crate::config::Config;
use crate::input::record::Hasher;
use crate::input::rewrite::{NameRules, RuleCounters};
use crate::input::stat::client;
use crate::profile::{Intake, Names, Profile};
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

/// The profile and its threads. Dropping it stops them, readers first.
#[derive(Debug)]
pub(super) struct RunningProfile {
    pub(super) profile: Arc<Profile>,
    clients: Vec<Worker>,
    _intake: Worker,
}

/// Starts the threads; nothing without a `[[stat]]`.
pub(super) fn start(
    config: &Config,
    counters: &Counters,
    rule_counters: &Arc<RuleCounters>,
    clock: &Arc<dyn Clock>,
    hasher: &Hasher,
) -> Result<Option<RunningProfile>, StartError> {
    if counters.stats.is_empty() {
        return Ok(None);
    }
    let sources = counters.stats.clone();
    let profile = Profile::new(sources, config.profile.pool_size, Arc::clone(clock));
    let rules = (!config.rewrites.is_empty())
        .then(|| NameRules::new(&config.rewrites, hasher.clone(), Arc::clone(rule_counters)));
    let intake = Intake::new(Arc::clone(&profile), Names::new(rules));
    let run = move |stop: &Shutdown| intake.run(stop);
    let intake = Worker::start("profile", "the profile thread", run)?;
    let clients = counters.stats.iter().enumerate().map(|(at, source)| {
        info!(stream = %source.config.stream, "Reading samples of a stat extension.");
        let (source, clock) = (Arc::clone(source), Arc::clone(clock));
        let run = move |stop: &Shutdown| client::run(&source, &*clock, stop);
        Worker::start(&format!("stat-{at}"), "a thread for a stat extension", run)
    });
    Ok(Some(RunningProfile {
        profile,
        clients: clients.collect::<Result<_, _>>()?,
        _intake: intake,
    }))
}

impl Drop for RunningProfile {
    fn drop(&mut self) {
        // All at once: each closes its connection.
        self.clients.iter().for_each(Worker::request_stop);
        self.clients.clear();
    }
}
