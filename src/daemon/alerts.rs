//! Alerts in a daemon: their rules, and the threads that evaluate them and notify receivers.

use std::sync::Arc;

use tracing::warn;

use super::error::StartError;
use super::threads::Worker;
use super::{Daemon, defaults};
use crate::alert::rule::{Rule, RuleError};
use crate::alert::thread::Evaluation;
use crate::alert::{Alerts, Rules};
use crate::clock::Clock;
use crate::config::Config;
use crate::query::catalog::Catalog;
use crate::report::DefinedBy;
use crate::report::definition::Definition;
use crate::state;

/// The rules of a configuration over these reports. While `state.dir` lacks reports that were made
/// at run time, one whose report is not there waits: it must not keep the daemon from receiving.
pub(super) fn rules(
    config: &Config,
    reports: &[(Definition, DefinedBy)],
) -> Result<Rules, Vec<RuleError>> {
    let mut config = config.clone();
    if config.state.dir.as_deref().is_some_and(state::lacks_reports) {
        let is_there = |rule: &str, report: &str| {
            let is_there = reports.iter().any(|it| it.0.name == report);
            if !is_there {
                warn!(
                    rule,
                    report,
                    "This rule waits: its report is not there, and reports.json in state.dir could not be read. Make the report again and reload."
                );
            }
            is_there
        };
        config.alerts.retain(|it| is_there(&it.name, &it.report));
        config.slos.retain(|it| is_there(&it.name, &it.report));
    }
    let rules = Rule::all(&config, reports, &defaults(&config));
    let refused = config.folder_refused.as_ref().filter(|_| config.state.dir.is_none());
    rules.map_err(|mut errors| {
        // Reports made at run time lie there.
        let unknown = errors.iter_mut().filter(|it| it.problem.starts_with("there is no report"));
        for error in unknown {
            error.problem.extend(refused.map(|why| format!(" ({why})")));
        }
        errors
    })
}

/// The error that ends a start.
pub(super) fn first(errors: Vec<RuleError>) -> StartError {
    errors.into_iter().next().expect("there is one, or they would be rules").into()
}

/// Starts the threads, if there is a rule or a receiver; the one that writes the state last ends
/// last.
pub(super) fn start(
    alerts: &Arc<Alerts>,
    config: &Config,
    clock: &Arc<dyn Clock>,
    catalog: &Arc<Catalog>,
) -> Result<Vec<Worker>, StartError> {
    if alerts.rules().is_empty() && alerts.receivers.is_empty() {
        return Ok(Vec::new());
    }
    let memory = config.alerting.memory;
    let folder = catalog.status.snapshots.as_ref().map(|it| &it.folder);
    let past = Arc::<Catalog>::clone(catalog);
    let evaluation = Evaluation::open(Arc::clone(alerts), memory, folder, &**clock, past)?;
    let mut workers = Vec::new();
    for at in 0..alerts.receivers.len() {
        let agent = alerts.receivers[at].agent().map_err(StartError::Push)?;
        let (alerts, clock) = (Arc::clone(alerts), Arc::clone(clock));
        let run = move |stop: &_| alerts.receivers[at].run(&agent, &alerts, &*clock, stop);
        let what = "a thread that sends alerts";
        workers.push(Worker::start("alert-send", what, run)?);
    }
    let clock = Arc::clone(clock);
    let run = move |stop: &_| evaluation.run(&*clock, stop);
    workers.push(Worker::start("alerts", "the thread of alerts", run)?);
    Ok(workers)
}

impl Daemon {
    /// Replaces the rules in force.
    pub(super) fn replace_rules(&self, rules: Rules, config: &Config) -> Result<(), StartError> {
        self.alerts.replace_rules(rules);
        self.catalog.watch_for_alerts(self.alerts.reports());
        let mut threads = self.alert_threads.lock();
        if threads.is_empty() {
            *threads = start(&self.alerts, config, &self.clock, &self.catalog)?;
        }
        Ok(())
    }
}
