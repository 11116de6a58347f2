//! Alerts: rules over the gains of report rows, and the receivers notified when they hold.
//!
//! ```text
//!   series thread: Second -> Intake -(rows that a rule selects)-> queue
//!   alerts thread: queue -> Engine: windows -> rules -> state of each alert -> View, state file
//!   one thread each: View -(minus what it confirmed)-> Alertmanager, webhook
//! ```
//!
//! An objective is expressed as two rules over the budget that [`objective`] keeps. Front ends hold
//! an [`Alerts`]: the view is replaced as a whole, so readers never wait. Without an `[[alert]]` or
//! `[[slo]]` entry no thread runs and nothing is kept. Bounded by `alerting.memory`, by the queue
//! and by the number of rows per rule ([`crate::limits`]).

pub mod engine;
pub mod expression;
pub mod intake;
pub mod objective;
pub mod receiver;
pub mod rule;
mod rule_index;
pub mod silence;
pub mod state;
pub mod thread;
pub mod windows;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use self::engine::Gain;
use self::objective::{Budget, Burn, Count, Objective};
use self::receiver::{Protocol, Receiver};
use self::rule::Rule;
use self::silence::{Silence, Silences};
use self::state::{Episode, Phase, RowKey};
use crate::config::Config;
use crate::limits::ALERT_QUEUE_BYTES_MAX;
use crate::report::row_key::key_texts;
use crate::value::text::counted;

/// The active rules.
pub type Rules = Vec<Arc<Rule>>;

/// An alert as front ends show it.
#[derive(Debug, Clone)]
pub struct Alert {
    /// The rule that raised it.
    pub rule: Arc<Rule>,
    /// Key of the row; `None` for the rows without an alert of their own.
    pub key: RowKey,
    /// Its state.
    pub episode: Episode,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Link to the page of the row.
    pub link: String,
    /// Number of the silence that applies.
    pub silenced_by: Option<u64>,
}

impl Alert {
    /// Returns the annotations: texts sent beside the labels.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let value = self.episode.value;
        let summary = self.rule.summary(self.key.as_deref(), value);
        let mut annotations = BTreeMap::from([
            ("summary".to_owned(), summary),
            ("threshold".to_owned(), self.rule.threshold()),
        ]);
        annotations.extend(value.map(|it| ("value".to_owned(), self.value_text(it))));
        annotations
    }

    /// Returns a value with its unit; of the rows without an alert of their own it is their number.
    #[must_use]
    pub fn value_text(&self, value: f64) -> String {
        match self.key {
            Some(_) => self.rule.value_text(value),
            None => counted(value as u64, "row"),
        }
    }

    /// Returns the key texts, paired with the names of the report's keys.
    pub fn key_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let key = self.key.as_deref().unwrap_or_default();
        self.rule.keys.iter().map(String::as_str).zip(key_texts(key))
    }
}

/// All alerts at one moment.
#[derive(Debug, Default)]
pub struct View {
    /// Firing alerts first, then pending ones, then resolved ones.
    pub alerts: Vec<Alert>,
    /// The rules, each with the number of rows it selects now.
    pub rules: Vec<(Arc<Rule>, usize)>,
    /// Rows whose condition holds but that have no alert of their own.
    pub more: usize,
    /// The objectives.
    pub objectives: Vec<ObjectiveView>,
    /// Memory used by windows, bytes.
    pub memory_used: usize,
}

impl View {
    /// Returns the severity of the firing alert of `objective`, if one fires.
    #[must_use]
    pub fn firing(&self, objective: &Arc<Objective>) -> Option<&str> {
        let is_it = |it: &&Alert| {
            let of = it.rule.objective();
            it.episode.phase == Phase::Firing && of.is_some_and(|it| Arc::ptr_eq(it, objective))
        };
        let found = self.alerts.iter().find(is_it)?;
        Some(&found.rule.entry.severity)
    }
}

/// An objective as front ends show it.
#[derive(Debug)]
pub struct ObjectiveView {
    /// The objective.
    pub objective: Arc<Objective>,
    /// Requests counted in its period.
    pub count: Count,
    /// Part of the budget that is left, negative when it is overspent; `None` without requests.
    pub left: Option<f64>,
    /// Burn rates and whether they alert.
    pub burns: [Burn; 3],
    /// Burn rate over each window, by the window's name.
    pub burn_windows: [(&'static str, Option<f64>); 5],
    /// Budget left at the end of each counted hour of the period.
    pub course: Vec<Option<f64>>,
}

impl ObjectiveView {
    fn of(budget: &Budget) -> Self {
        let (objective, count) = (&budget.objective, budget.period());
        let burn = |(name, secs)| (name, objective.burn(&budget.window(secs)));
        Self {
            left: objective.burn(&count).map(|burn| 1.0 - burn),
            burns: budget.burns(),
            burn_windows: BURN_WINDOWS.map(burn),
            course: budget.course(),
            objective: Arc::clone(objective),
            count,
        }
    }
}

/// Windows of burn rates: name and seconds.
pub const BURN_WINDOWS: [(&str, u64); 5] =
    [("5m", 300), ("30m", 1_800), ("1h", 3_600), ("6h", 21_600), ("3d", 259_200)];

/// Handle to the alerts of a daemon; cheap to clone.
#[derive(Debug, Clone)]
pub struct Alerts(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    rules: RwLock<Arc<Rules>>,
    queue: Mutex<Queue>,
    view: RwLock<Arc<View>>,
    silences: Mutex<Silences>,
    receivers: Vec<Receiver>,
    /// Set when the state has to be written.
    changed: AtomicBool,
    page: String,
    is_persistent: bool,
}

/// Seconds waiting to be evaluated.
#[derive(Debug, Default)]
struct Queue {
    gains: VecDeque<(Gain, usize)>,
    bytes: usize,
    /// Seconds dropped because the queue was full.
    lost_secs: u64,
}

impl Queue {
    fn push(&mut self, gain: Gain) {
        let bytes = gain.bytes();
        self.bytes += bytes;
        self.gains.push_back((gain, bytes));
        while self.bytes > ALERT_QUEUE_BYTES_MAX && self.gains.len() > 1 {
            if let Some((gone, bytes)) = self.gains.pop_front() {
                self.bytes -= bytes;
                self.lost_secs += gone.secs + gone.lost_secs;
            }
        }
    }

    fn pop(&mut self) -> Option<Gain> {
        let (mut gain, bytes) = self.gains.pop_front()?;
        self.bytes -= bytes;
        gain.lost_secs += std::mem::take(&mut self.lost_secs);
        Some(gain)
    }
}

impl Alerts {
    /// Creates an instance without rules or receivers, for tests of front ends.
    #[must_use]
    pub fn none() -> Self {
        Self(Arc::default())
    }

    /// Creates the alerts of a configuration, with these rules.
    #[must_use]
    pub fn new(config: &Config, rules: Rules) -> Self {
        let settings = &config.alerting;
        let managers = settings.alertmanager.iter();
        let managers = managers.map(|url| (Protocol::Alertmanager, url));
        let webhook = [&settings.webhook].into_iter().filter(|it| !it.is_empty());
        let all = managers.chain(webhook.map(|url| (Protocol::Webhook, url)));
        let receivers = all.map(|(protocol, url)| Receiver::new(protocol, url, settings));
        let page = match (settings.page.as_str(), config.http.listen) {
            ("", Some(address)) => match config.http.front().tls() {
                Some(_) => format!("https://{address}"),
                None => format!("http://{address}"),
            },
            (page, _) => page.trim_end_matches('/').to_owned(),
        };
        Self(Arc::new(Shared {
            rules: RwLock::new(Arc::new(rules)),
            receivers: receivers.collect(),
            page,
            is_persistent: config.state.dir.is_some(),
            ..Shared::default()
        }))
    }

    /// Returns the active rules.
    #[must_use]
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.0.rules.read())
    }

    /// Returns the names of the reports that rules watch.
    #[must_use]
    pub fn reports(&self) -> Vec<String> {
        let rules = self.rules();
        rules.iter().map(|it| it.entry.report.clone()).collect()
    }

    /// Replaces the rules from the next second on; unchanged rules keep their alerts.
    pub fn replace_rules(&self, rules: Rules) {
        *self.0.rules.write() = Arc::new(rules);
    }

    /// Returns the current view.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.0.view.read())
    }

    /// Returns the receivers.
    #[must_use]
    pub fn receivers(&self) -> &[Receiver] {
        &self.0.receivers
    }

    /// Returns the base URL of this daemon's page.
    #[must_use]
    pub fn page(&self) -> &str {
        &self.0.page
    }

    /// Returns true if silences survive a restart.
    #[must_use]
    pub fn persistent(&self) -> bool {
        self.0.is_persistent
    }

    /// Returns the silences in force.
    #[must_use]
    pub fn silences(&self, now: u64) -> Vec<Silence> {
        self.0.silences.lock().at(now).cloned().collect()
    }

    /// Adds a silence; returns `None` if there are too many.
    #[must_use]
    pub fn silence(&self, silence: Silence, now: u64) -> Option<Silence> {
        let added = self.0.silences.lock().add(silence, now);
        self.changed();
        added
    }

    /// Ends a silence; returns false if no silence has this number.
    #[must_use]
    pub fn end_silence(&self, id: u64) -> bool {
        let ended = self.0.silences.lock().end(id);
        self.changed();
        ended
    }

    /// Counts alerts by name, state and severity. `silenced` is reported as a state of its own, in
    /// addition to those of the state table.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, &'static str, String), u64> {
        let mut counts = BTreeMap::new();
        for alert in &self.view().alerts {
            let entry = &alert.rule.entry;
            let state = match (alert.episode.phase, alert.silenced_by) {
                (Phase::Resolved, _) => continue,
                (Phase::Firing, Some(_)) => "silenced",
                (phase, _) => phase.name(),
            };
            let name = (entry.name.clone(), state, entry.severity.clone());
            *counts.entry(name).or_default() += 1;
        }
        counts
    }

    fn push(&self, gain: Gain) {
        self.0.queue.lock().push(gain);
    }

    fn changed(&self) {
        self.0.changed.store(true, Ordering::Relaxed);
    }

    /// Returns the link to the page of an alert's row.
    fn link(&self, rule: &Rule, key: &RowKey) -> String {
        let report = utf8_percent_encode(&rule.entry.report, NON_ALPHANUMERIC);
        let Some(key) = key.as_deref().filter(|it| !it.is_empty()) else {
            return format!("{}/reports/{report}", self.0.page);
        };
        let pairs = rule.keys.iter().zip(key_texts(key)).map(|(name, text)| {
            let [name, text] = [name, text].map(|it| utf8_percent_encode(it, NON_ALPHANUMERIC));
            format!("{name}={text}")
        });
        let pairs: Vec<String> = pairs.collect();
        format!("{}/reports/{report}/row?{}", self.0.page, pairs.join("&"))
    }
}
