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

/// The samples, none yet; `None` without a `[[stat]]`.
pub(super) fn open(
    config: &Config,
    counters: &Counters,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<Profile>> {
    let sources = counters.stats.clone();
    let pool_size = config.profile.pool_size;
    (!sources.is_empty()).then(|| Profile::new(sources, pool_size, Arc::clone(clock)))
}

/// Starts the threads.
pub(super) fn start(
    config: &Config,
    profile: Option<Arc<Profile>>,
    rule_counters: &Arc<RuleCounters>,
    clock: &Arc<dyn Clock>,
    hasher: &Hasher,
) -> Result<Option<RunningProfile>, StartError> {
    let Some(profile) = profile else { return Ok(None) };
    let rules = NameRules::new(&config.rewrites, hasher.clone(), Arc::clone(rule_counters));
    let intake = Intake::new(Arc::clone(&profile), Names::new(rules));
    let intake = Worker::start("profile", "the profile thread", move |stop| intake.run(stop))?;
    let clients = profile.sources.iter().enumerate().map(|(at, source)| {
        info!(stream = %source.config.stream, "Reading samples of a stat extension.");
        let (source, clock) = (Arc::clone(source), Arc::clone(clock));
        let run = move |stop: &Shutdown| client::run(&source, &*clock, stop);
        Worker::start(&format!("stat-{at}"), "a thread for a stat extension", run)
    });
    let clients = clients.collect::<Result<_, _>>()?;
    Ok(Some(RunningProfile { profile, clients, _intake: intake }))
}

impl Drop for RunningProfile {
    fn drop(&mut self) {
        // All at once: each closes its connection.
        self.clients.iter().for_each(Worker::request_stop);
        self.clients.clear();
    }
}
