//! The thread `alerts`: evaluates the rules over the seconds that the series thread queued,
//! publishes the result and saves it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::engine::{Engine, SavedRule};
use super::objective::{Count, Objective};
use super::receiver::ToldAlerts;
use super::rule::Rule;
use super::silence::Silences;
use super::state::{Event, Phase};
use super::{Alert, Alerts, ObjectiveView, View};
use crate::clock::Clock;
use crate::shutdown::Shutdown;
use crate::state::StateError;
use crate::state::document::{Document, VERSION};
use crate::state::folder::STATE;

/// Interval between checks for completed seconds.
const PERIOD: Duration = Duration::from_millis(100);
/// Shortest time between two saves, milliseconds.
const SAVE_MS: u64 = 900;
/// Interval at which the clocks of running alerts are saved, milliseconds.
const SAVE_CLOCKS_MS: u64 = 10_000;

/// Contents of `alerts.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    version: u64,
    unix: u64,
    alerts: Vec<SavedRule>,
    /// Confirmed messages by the receiver's URL.
    receivers: BTreeMap<String, ToldAlerts>,
    silences: Silences,
}

/// State of the thread.
#[derive(Debug)]
pub struct Evaluation {
    alerts: Alerts,
    engine: Engine,
    /// File of the state.
    document: Option<Document>,
    saved_ms: u64,
    is_failing: bool,
    past: Arc<dyn Past>,
    /// Objectives whose past has been read.
    refilled: Vec<Arc<Objective>>,
}

/// Source of an objective's past.
pub trait Past: std::fmt::Debug + Send + Sync {
    /// Returns the count of an objective over a span of whole minutes, unix seconds, or `None` if
    /// exactly that span is not available.
    fn counted(&self, objective: &Objective, span: &Range<u64>) -> Option<Count>;
}

impl Evaluation {
    /// Restores the state kept in `dir`, if any, so that firing alerts keep firing.
    ///
    /// # Errors
    /// If the state file exists but cannot be read.
    pub fn open(
        alerts: Alerts,
        memory: usize,
        dir: Option<&Path>,
        clock: &dyn Clock,
        past: Arc<dyn Past>,
    ) -> Result<Self, StateError> {
        let mut engine = Engine::new(alerts.rules().to_vec(), memory, 1);
        let mut document = None;
        if let Some(dir) = dir {
            let (opened, read) =
                Document::open::<Contents>(STATE, dir, "alerts", "the alerts", clock.unix_secs())?;
            document = Some(opened);
            if let Some(read) = read {
                let away = (clock.unix_ms() / 1_000).saturating_sub(read.unix);
                engine.restore(read.alerts, away);
                *alerts.0.silences.lock() = read.silences;
                let mut told = read.receivers;
                for receiver in alerts.receivers() {
                    *receiver.told.lock() = told.remove(&receiver.url).unwrap_or_default();
                }
            }
        }
        let evaluation = Self {
            alerts,
            engine,
            document,
            saved_ms: 0,
            is_failing: false,
            past,
            refilled: Vec::new(),
        };
        evaluation.show(clock.unix_ms() / 1_000);
        Ok(evaluation)
    }

    /// Evaluates rules until shutdown.
    pub fn run(mut self, clock: &dyn Clock, stop: &Shutdown) {
        while !stop.requested() {
            self.turn(clock);
            std::thread::sleep(PERIOD);
        }
        self.turn(clock);
        self.save(clock);
    }

    /// Evaluates the queued seconds, publishes the view and saves the state.
    pub fn turn(&mut self, clock: &dyn Clock) {
        let now = clock.unix_ms() / 1_000;
        let rules = self.alerts.rules();
        let is_same = |(a, b): (&Arc<Rule>, &Arc<Rule>)| Arc::ptr_eq(a, b);
        let before = &self.engine.rules;
        if before.len() != rules.len() || !before.iter().zip(&*rules).all(is_same) {
            self.engine.replace(rules.to_vec(), now);
            self.alerts.changed();
        }
        let is_refilled = self.refill(now);
        let mut is_news = is_refilled || self.alerts.0.changed.load(Ordering::Relaxed);
        loop {
            let gain = self.alerts.0.queue.lock().pop();
            let Some(gain) = gain else { break };
            is_news = true;
            let alerts = self.alerts.clone();
            self.engine.take(&gain, &mut |rule, event| {
                log(rule, event);
                alerts.changed();
            });
        }
        if is_news {
            self.show(now);
        }
        let passed = clock.mono_ms().saturating_sub(self.saved_ms);
        let has_clocks = || self.engine.alerts().next().is_some();
        let is_changed = self.alerts.0.changed.load(Ordering::Relaxed);
        if is_changed && passed >= SAVE_MS || passed >= SAVE_CLOCKS_MS && has_clocks() {
            self.save(clock);
        }
    }

    /// Reads the past of newly added objectives, at a resolution that coarsens with age as the
    /// windows do. Returns whether there were any.
    fn refill(&mut self, now: u64) -> bool {
        let mut is_new = false;
        let budgets = self.engine.budgets.iter_mut();
        let is_known =
            |it: &Arc<Objective>| self.refilled.iter().any(|known| Arc::ptr_eq(known, it));
        for budget in budgets.filter(|it| !is_known(&it.objective)) {
            is_new = true;
            let objective = Arc::clone(&budget.objective);
            // An objective kept across a reload has its past already.
            let is_empty = budget.period() == Count::default();
            let minute = now - now % 60;
            let mut at = minute.saturating_sub(objective.entry.period);
            while is_empty && at < now {
                let ago = minute.saturating_sub(at);
                let steps = [(3_600, 60), (21_600, 300), (259_200, 3_600), (u64::MAX, 21_600)];
                let step = steps.iter().find(|it| ago <= it.0).map_or(60, |it| it.1);
                // Of the running minute, history has only the part before now.
                let end = match at < minute {
                    true => (at - at % step + step).min(minute),
                    false => at + 60,
                };
                let found = self.past.counted(&objective, &(at..end));
                budget.gain(&found.unwrap_or_default());
                (at..end.min(now)).for_each(|second| budget.pass(second + 1));
                at = end;
            }
        }
        let known = self.engine.budgets.iter().map(|it| Arc::clone(&it.objective));
        self.refilled = known.collect();
        is_new
    }

    /// Publishes the view.
    fn show(&self, now: u64) {
        let silences = self.alerts.0.silences.lock().clone();
        let alerts = self.engine.alerts().map(|(rule, key, episode)| {
            let labels = rule.labels(key.as_deref());
            Alert {
                silenced_by: silences.of(&labels, now),
                link: self.alerts.link(rule, key),
                rule: Arc::clone(rule),
                key: key.clone(),
                episode: episode.clone(),
                labels,
            }
        });
        let mut alerts: Vec<Alert> = alerts.collect();
        let rank = |alert: &Alert| match alert.episode.phase {
            Phase::Firing => 0,
            Phase::Pending => 1,
            Phase::Resolved => 2,
        };
        alerts.sort_by_key(|it| (rank(it), std::cmp::Reverse(it.episode.since)));
        let mut rows = vec![0; self.engine.rules.len()];
        let windows = self.engine.windows.iter();
        windows.for_each(|it| it.count(&mut rows));
        let rules = self.engine.rules.iter().cloned().zip(rows);
        let view = View {
            alerts,
            objectives: self.engine.budgets.iter().map(ObjectiveView::of).collect(),
            rules: rules.collect(),
            more: self.engine.states.iter().map(|it| it.more).sum(),
            memory_used: self.engine.room.used,
        };
        *self.alerts.0.view.write() = Arc::new(view);
    }

    fn save(&mut self, clock: &dyn Clock) {
        self.saved_ms = clock.mono_ms();
        self.alerts.0.changed.store(false, Ordering::Relaxed);
        let Some(document) = &self.document else {
            return;
        };
        let receivers = self.alerts.receivers().iter();
        let contents = Contents {
            version: VERSION,
            unix: clock.unix_ms() / 1_000,
            alerts: self.engine.save(),
            receivers: receivers.map(|it| (it.url.clone(), it.told.lock().clone())).collect(),
            silences: self.alerts.0.silences.lock().clone(),
        };
        let written = document.write(&contents);
        if let Err(error) = &written {
            self.alerts.changed();
            if !self.is_failing {
                warn!(%error, "The state of alerts cannot be kept; trying again.");
            }
        }
        self.is_failing = written.is_err();
    }
}

fn log(rule: &Rule, event: &Event) {
    let (alert, severity) = (&rule.entry.name, &rule.entry.severity);
    let row = rule.summary(event.key.as_deref(), event.value);
    let reason = Some(&event.reason).filter(|reason| !reason.is_empty());
    match event.phase {
        Some(Phase::Firing) => warn!(alert, severity, row, "An alert fires."),
        Some(Phase::Resolved) => info!(alert, severity, row, reason, "An alert is over."),
        Some(Phase::Pending) | None => {}
    }
}
