//! Alerts: rules over the gains of report rows, and the receivers notified when they hold.
//!
//! ```text
//!   series thread: Second -> Intake -(rows that a rule selects)-> queue
//!   alerts thread: queue -> Engine: windows -> rules -> state of each alert -> View, state file
//!   one thread each: View -(minus what it confirmed)-> Alertmanager, webhook
//! ```
//!
//! An objective is expressed as two rules over the budget that [`objective`] keeps. Front ends hold
//! the [`Alerts`]: the view is replaced as a whole, so readers never wait. Without an `[[alert]]`
//! or `[[slo]]` entry no thread runs and nothing is kept. Bounded by `alerting.memory`, by the
//! queue and by the number of rows per rule ([`crate::limits`]).

pub mod engine;
pub mod expression;
pub mod intake;
pub mod objective;
pub mod receiver;
pub mod refill;
mod row;
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

use self::objective::{Budget, Burn, Count, Objective};
use self::receiver::Receiver;
use self::rule::Rule;
use self::silence::{Silence, Silences};
use self::state::{Episode, Phase, RowKey};
use self::thread::Contents;
use self::windows::Gain;
use crate::config::Config;
use crate::limits::{ALERT_QUEUE_BYTES_MAX, SILENCES_MAX};
use crate::state::document::Document;
use crate::value::link::row_page;

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
    /// Returns its value with the unit; of the rows without an alert of their own it is their
    /// number.
    pub(crate) fn value_text(&self) -> Option<String> {
        self.episode.value.map(|it| self.rule.value_text(self.key.as_deref(), it))
    }

    /// Returns the key texts, paired with the names of the report's keys.
    pub fn key_texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rule.key_texts(self.key.as_deref().unwrap_or_default())
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
}

/// An objective as front ends show it.
#[derive(Debug)]
pub struct ObjectiveView {
    /// The objective.
    pub objective: Arc<Objective>,
    /// Severity of its firing alert, if one fires.
    pub firing: Option<String>,
    /// Requests counted in its period.
    pub count: Count,
    /// False if the number of bad ones is an upper bound.
    pub is_exact: bool,
    /// Part of the budget that is left, negative when it is overspent; `None` without requests.
    pub left: Option<f64>,
    /// Burn rates and whether they alert.
    pub burns: [Burn; 3],
    /// Burn rate over each window, by the window's name; `None` as in [`Burn`].
    pub burn_windows: [(&'static str, Option<f64>); 5],
    /// Budget left at the end of each counted hour of the period.
    pub course: Vec<Option<f64>>,
}

impl ObjectiveView {
    /// Its state as long as no alert fires: "unknown" if too little was counted for every window.
    pub(crate) fn quiet_state(&self) -> &'static str {
        if self.burns.iter().any(|burn| burn.holds.is_some()) { "ok" } else { "unknown" }
    }

    fn of(budget: &Budget, alerts: &[Alert]) -> Self {
        let (objective, count) = (&budget.objective, budget.period());
        let burn = |(name, secs)| (name, objective.burn_in_window(secs, &budget.window(secs)));
        let mut firing = alerts.iter().filter(|it| it.episode.phase == Phase::Firing);
        let firing = firing.find(|it| it.rule.is_of(objective));
        Self {
            firing: firing.map(|it| it.rule.entry.severity.clone()),
            is_exact: objective.is_exact && count.blurred == 0,
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

/// The alerts of a daemon, shared by its threads; without rules and receivers by default.
#[derive(Debug, Default)]
pub struct Alerts {
    rules: RwLock<Arc<Rules>>,
    /// Seconds waiting to be evaluated.
    queue: Mutex<VecDeque<Gain>>,
    view: RwLock<Arc<View>>,
    silences: Mutex<Silences>,
    /// Set when the state has to be written.
    changed: AtomicBool,
    /// The receivers.
    pub receivers: Vec<Receiver>,
    /// Base URL of this daemon's page.
    pub page: String,
    /// The file of the state and what is written to it, if it is kept.
    file: Mutex<Option<(Document, Contents)>>,
    /// Why it could not be written, if so.
    failure: Mutex<Option<String>>,
}

impl Alerts {
    /// Creates the alerts of a configuration, with these rules.
    pub(crate) fn new(config: &Config, rules: Rules) -> Self {
        let settings = &config.alerting;
        let managers = settings.alertmanager.iter().map(|it| Receiver::new(false, it, settings));
        let webhook = Some(&settings.webhook).filter(|it| !it.is_empty());
        let receivers = managers.chain(webhook.map(|it| Receiver::new(true, it, settings)));
        let page = match (settings.page.as_str(), config.http.listen) {
            ("", Some(address)) => {
                let scheme = if config.http.front().tls().is_some() { "https" } else { "http" };
                format!("{scheme}://{address}")
            }
            (page, _) => page.trim_end_matches('/').to_owned(),
        };
        Self {
            rules: RwLock::new(Arc::new(rules)),
            receivers: receivers.collect(),
            page,
            ..Self::default()
        }
    }

    /// Queues a gain; the oldest ones that there is no room for are lost before the next.
    fn push(&self, gain: Gain) {
        let mut gains = self.queue.lock();
        gains.push_back(gain);
        let mut bytes: usize = gains.iter().map(Gain::bytes).sum();
        while bytes > ALERT_QUEUE_BYTES_MAX && gains.len() > 1 {
            let gone = gains.pop_front().unwrap_or_default();
            bytes -= gone.bytes();
            gains[0].lost_secs += gone.secs + gone.lost_secs;
        }
    }

    /// Returns the active rules.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read())
    }

    /// Returns the names of the reports that rules watch.
    pub(crate) fn reports(&self) -> Vec<String> {
        self.rules().iter().map(|it| it.entry.report.clone()).collect()
    }

    /// Replaces the rules from the next second on; unchanged rules keep their alerts.
    pub fn replace_rules(&self, rules: Rules) {
        *self.rules.write() = Arc::new(rules);
    }

    /// Returns the current view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read())
    }

    /// Returns the silences in force.
    pub(crate) fn silences(&self, now: u64) -> Vec<Silence> {
        let all = self.silences.lock();
        all.list.iter().filter(|it| it.starts <= now && now < it.ends).cloned().collect()
    }

    /// Adds a silence; returns `None` if there are too many.
    pub(crate) fn silence(&self, mut silence: Silence, now: u64) -> Option<Silence> {
        let mut all = self.silences.lock();
        self.changed();
        all.list.retain(|it| it.ends > now);
        if all.list.len() >= SILENCES_MAX {
            return None;
        }
        all.last_id += 1;
        silence.id = all.last_id;
        all.list.push(silence.clone());
        Some(silence)
    }

    /// Ends a silence; returns false if no silence has this number.
    pub(crate) fn end_silence(&self, id: u64) -> bool {
        let mut all = self.silences.lock();
        self.changed();
        all.list.extract_if(.., |it| it.id == id).next().is_some()
    }

    fn changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Returns the link to the page of an alert's row.
    fn link(&self, rule: &Rule, key: Option<&[u8]>) -> String {
        let keys = rule.key_texts(key.unwrap_or_default());
        self.page.clone() + &row_page(&rule.entry.report, keys, [])
    }
}
