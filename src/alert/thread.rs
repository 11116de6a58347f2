//! The thread `alerts`: evaluates the rules over the seconds that the series thread queued,
//! publishes the result and saves it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::engine::{Engine, SavedRule};
use super::objective::{BURNS, Budget};
use super::receiver::ToldAlerts;
use super::refill::{Past, Refill};
use super::rule::Rule;
use super::silence::Silences;
use super::state::{Event, Phase};
use super::{Alert, Alerts, ObjectiveView, Rules, View};
use crate::clock::Clock;
use crate::shutdown::Shutdown;
use crate::state::StateError;
use crate::state::document::{Document, VERSION};
use crate::state::folder::KeptFolder;

/// Interval between checks for completed seconds.
const PERIOD: Duration = Duration::from_millis(100);
/// Shortest time between two saves, milliseconds.
const SAVE_MS: u64 = 900;
/// Interval at which the clocks of running alerts are saved, milliseconds.
const SAVE_CLOCKS_MS: u64 = 10_000;
/// Longest time for which the past is read between two evaluations, milliseconds.
const REFILL_MS: u64 = 300;

/// Contents of `alerts.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Contents {
    version: u64,
    unix: u64,
    alerts: Vec<SavedRule>,
    /// Confirmed messages by the receiver's URL.
    receivers: BTreeMap<String, ToldAlerts>,
    silences: Silences,
}

/// State of the thread.
pub(crate) struct Evaluation {
    alerts: Arc<Alerts>,
    /// The rules that the engine has.
    rules: Arc<Rules>,
    engine: Engine,
    saved_ms: u64,
    past: Arc<dyn Past>,
    /// The past being read, of the first objective that lacks it.
    refill: Option<Refill>,
}

impl Evaluation {
    /// Restores the state kept in `folder`, if any, so that firing alerts keep firing.
    ///
    /// # Errors
    /// If the state file exists but cannot be read.
    pub(crate) fn open(
        alerts: Arc<Alerts>,
        memory: usize,
        folder: Option<&KeptFolder>,
        clock: &dyn Clock,
        past: Arc<dyn Past>,
    ) -> Result<Self, StateError> {
        let rules = alerts.rules();
        let mut engine = Engine::new(&rules, memory, 1);
        let open = |it| Document::open::<Contents>(it, "alerts", "the alerts", clock.unix_secs());
        let (document, read) = folder.map(open).transpose()?.unzip();
        if let Some(mut read) = read.flatten() {
            engine.restore(read.alerts, (clock.unix_ms() / 1_000).saturating_sub(read.unix));
            *alerts.silences.lock() = read.silences;
            for receiver in &alerts.receivers {
                *receiver.told.lock() = read.receivers.remove(&receiver.url).unwrap_or_default();
            }
        }
        let evaluation = Self { alerts, rules, engine, saved_ms: 0, past, refill: None };
        let contents = evaluation.contents(clock);
        *evaluation.alerts.file.lock() = document.map(|document| (document, contents));
        evaluation.show(clock.unix_ms() / 1_000);
        Ok(evaluation)
    }

    /// Evaluates rules until shutdown.
    pub(crate) fn run(mut self, clock: &dyn Clock, stop: &Shutdown) {
        while !stop.requested() {
            self.turn(clock);
            std::thread::sleep(PERIOD);
        }
        self.turn(clock);
        self.save(clock);
    }

    /// Evaluates the queued seconds, publishes the view and saves the state.
    pub(crate) fn turn(&mut self, clock: &dyn Clock) {
        let now = clock.unix_ms() / 1_000;
        let mut is_news = false;
        // A closure, so that the queue is not locked while the loop runs.
        let next = || self.alerts.queue.lock().pop_front();
        while let Some(gain) = next() {
            is_news = true;
            self.engine.take(&gain, &mut |rule, event| {
                log(rule, event);
                self.alerts.changed();
            });
        }
        // After the seconds that the series thread queued for the old ones.
        let rules = self.alerts.rules();
        if !Arc::ptr_eq(&rules, &self.rules) {
            self.engine.replace(&rules, now, &mut log);
            (self.rules, self.refill) = (rules, None);
            self.alerts.changed();
        }
        let is_refilled = self.refill(clock);
        let is_changed = || self.alerts.changed.load(Ordering::Relaxed);
        if is_news || is_refilled || is_changed() {
            self.show(now);
        }
        let passed = clock.mono_ms().saturating_sub(self.saved_ms);
        let has_clocks = || self.engine.alerts().next().is_some();
        if is_changed() && passed >= SAVE_MS || passed >= SAVE_CLOCKS_MS && has_clocks() {
            self.save(clock);
        }
    }

    /// Reads the past of an objective that lacks it, for a short time, so that rules do not wait.
    /// Returns whether all of it has been read.
    fn refill(&mut self, clock: &dyn Clock) -> bool {
        let give_up = clock.mono_ms() + REFILL_MS;
        let mut refill = self.refill.take().or_else(|| self.begin_refill(clock));
        while let Some(running) = refill.as_mut().filter(|it| it.at < it.now) {
            if clock.mono_ms() > give_up {
                self.refill = refill;
                return false;
            }
            running.step();
        }
        refill.map(|it| self.engine.refill(it.budget)).is_some()
    }

    /// Begins with the first objective that lacks its past, if that can be read now.
    fn begin_refill(&mut self, clock: &dyn Clock) -> Option<Refill> {
        let mut lacking = self.engine.budgets.iter_mut().filter(|it| !it.has_past);
        let (budget, counts) = lacking.find_map(|it| {
            let counts = self.past.of(&it.objective)?;
            // What was counted live is all there is.
            it.has_past = counts.is_none();
            Some((it, counts?))
        })?;
        // A second comes into history and into the queue at once. With nothing queued, history has
        // exactly the seconds that the engine has taken.
        if !self.alerts.queue.lock().is_empty() {
            return None;
        }
        let past = Budget::new(Arc::clone(&budget.objective));
        // Counts what arrives while the past is read.
        *budget = Budget::new(Arc::clone(&past.objective));
        let now = clock.unix_ms() / 1_000;
        let longest = BURNS.iter().map(|it| it.long).fold(budget.objective.hours(), u64::max);
        // On an hour, as the period begins that is counted live.
        let at = (now - now % 3_600).saturating_sub(longest);
        Some(Refill { budget: past, counts, at, now })
    }

    /// Publishes the view.
    fn show(&self, now: u64) {
        let silences = self.alerts.silences(now);
        let alerts = self.engine.alerts().map(|(rule, key, episode)| {
            let labels = rule.labels(key);
            Alert {
                silenced_by: silences.iter().find(|it| it.fits(&labels)).map(|it| it.id),
                link: self.alerts.link(rule, key),
                rule: Arc::clone(rule),
                key: key.map(Box::from),
                episode: episode.clone(),
                labels,
            }
        });
        let mut alerts: Vec<Alert> = alerts.collect();
        alerts.sort_by_key(|it| (it.episode.phase, Reverse(it.episode.since)));
        let mut rows = vec![0; self.rules.len()];
        self.engine.windows.iter().for_each(|it| it.count(&mut rows));
        let objectives = self.engine.budgets.iter().map(|budget| {
            // A few seconds would show a budget that is not the period's.
            let is_partial = self.refill.is_some() && !budget.has_past;
            let nothing = Budget::new(Arc::clone(&budget.objective));
            ObjectiveView::of(if is_partial { &nothing } else { budget }, &alerts)
        });
        let view = View {
            objectives: objectives.collect(),
            alerts,
            rules: self.rules.iter().cloned().zip(rows).collect(),
            more: self.engine.rules.iter().map(|it| it.more).sum(),
        };
        *self.alerts.view.write() = Arc::new(view);
    }

    fn save(&mut self, clock: &dyn Clock) {
        self.saved_ms = clock.mono_ms();
        self.alerts.changed.store(false, Ordering::Relaxed);
        if let Some((_, contents)) = &mut *self.alerts.file.lock() {
            *contents = self.contents(clock);
        }
        self.alerts.keep();
    }

    fn contents(&self, clock: &dyn Clock) -> Contents {
        let (unix, alerts) = (clock.unix_ms() / 1_000, self.engine.save());
        Contents { version: VERSION, unix, alerts, ..Contents::default() }
    }
}

impl Alerts {
    /// Writes the state, with the silences as they are now; returns whether it will be there after
    /// a restart. See [`why_not_kept`](Self::why_not_kept).
    pub(crate) fn keep(&self) -> bool {
        let mut file = self.file.lock();
        let Some((document, contents)) = &mut *file else { return false };
        let receivers = self.receivers.iter();
        contents.receivers = receivers.map(|it| (it.url.clone(), it.told.lock().clone())).collect();
        contents.silences = self.silences.lock().clone();
        let error = document.write(contents).err().map(|error| error.to_string());
        let mut failure = self.failure.lock();
        if let Some(error) = &error {
            self.changed();
            if failure.is_none() {
                warn!(error, "The state of alerts cannot be kept; trying again.");
            }
        }
        *failure = error;
        failure.is_none()
    }

    /// Returns the error of the last attempt to write the state, if it failed.
    pub(crate) fn why_not_kept(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

fn log(rule: &Rule, event: &Event<'_>) {
    let Some(episode) = event.episode else { return };
    let (alert, severity) = (&rule.entry.name, &rule.entry.severity);
    let row = rule.summary(event.key, episode.value);
    let reason = Some(&episode.reason).filter(|reason| !reason.is_empty());
    match episode.phase {
        Phase::Firing => warn!(alert, severity, row, "An alert fires."),
        Phase::Resolved => info!(alert, severity, row, reason, "An alert is over."),
        Phase::Pending => {}
    }
}
