//! The state machine of a rule's alerts.
//!
//! ```text
//!            true                        false                      unknown
//!   none     pending, or firing          -                          -
//!   pending  firing after `for`          dropped                    the clock stops; dropped after max(window, for)
//!   firing   stays                       resolved after `keep`      holds; resolved after max(2 windows, 10 min): "no data"
//!   resolved a new episode               forgotten after 15 min     as false
//! ```
//!
//! [`RuleState::evaluate`] is the only implementation: the daemon, `pinbad alert test` and the
//! tests call it. Time is the time that passed in the stream of seconds; the wall clock is only
//! recorded. Bounded by [`ALERT_ROWS_MAX`] rows per rule.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Truth, Window};
use crate::limits::{ALERT_KNOWN_ROWS_MAX, ALERT_ROWS_MAX};

/// Time for which a resolved alert is remembered, seconds.
pub const RESOLVED_SECS: u64 = 15 * 60;
/// Shortest time without data after which an alert is resolved, seconds.
const NO_DATA_SECS: u64 = 10 * 60;

/// A row's key, or `None` for all rows without an alert of their own.
pub type RowKey = Option<Box<[u8]>>;

/// State of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The condition holds, but not yet for long enough.
    Pending,
    /// The condition has held for long enough.
    Firing,
    /// The alert is over.
    Resolved,
}

impl Phase {
    /// Returns the name of the state.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// The alert of one row, from the first time its condition holds until it is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Its state.
    pub phase: Phase,
    /// Time at which the condition began to hold, unix seconds.
    pub since: u64,
    /// Time at which it fired, unix seconds.
    pub started: u64,
    /// Time at which it was resolved, unix seconds.
    pub ended: u64,
    /// Reason for its end, if other than that the condition no longer holds.
    pub reason: String,
    /// Last known value.
    pub value: Option<f64>,
    /// Seconds for which the condition has held (pending), has not held (firing), or since the end
    /// (resolved).
    clock: u64,
    /// True if the clock of a firing alert runs.
    is_ending: bool,
    /// Seconds without a judgement.
    unknown: Option<u64>,
    /// Start and end of the previous episode.
    pub before: Option<(u64, u64)>,
}

/// The alerts of a rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleState {
    /// By row.
    pub episodes: BTreeMap<RowKey, Episode>,
    /// Rows whose condition holds but that have no alert of their own.
    pub more: usize,
    /// Rows seen so far, for a rule of absence.
    pub known: BTreeMap<Box<[u8]>, ()>,
}

/// The time of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation {
    /// Wall clock, unix seconds.
    pub unix: u64,
    /// Seconds since the previous evaluation.
    pub passed: u64,
}

/// A change of an alert's state.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The row.
    pub key: RowKey,
    /// Time, unix seconds.
    pub unix: u64,
    /// The new state; `None` if the alert was dropped or forgotten.
    pub phase: Option<Phase>,
    /// The value then.
    pub value: Option<f64>,
    /// Reason for the end, if other than that the condition no longer holds.
    pub reason: String,
}

/// A row, its result and the value of the condition's left side.
pub type Judged<'a> = (&'a [u8], Truth, Option<f64>);

impl RuleState {
    /// Applies the judgements of a window: `rows` has all rows whose condition holds and all others
    /// that have an alert. For a rule of absence it has all rows of the window.
    pub fn evaluate(
        &mut self,
        rule: &Rule,
        now: Evaluation,
        window: &Window,
        rows: &[Judged<'_>],
        events: &mut Vec<Event>,
    ) {
        let mut found: BTreeMap<&[u8], (Truth, Option<f64>)> = BTreeMap::new();
        for (key, truth, value) in rows {
            found.insert(key, (*truth, *value));
            let has_room = self.known.len() < ALERT_KNOWN_ROWS_MAX;
            if rule.is_of_absence() && has_room && !self.known.contains_key(*key) {
                self.known.insert((*key).into(), ());
            }
        }
        let known = self.known.keys();
        let absent = known.filter(|key| !found.contains_key(&***key));
        let absent: Vec<Box<[u8]>> = absent.cloned().collect();
        for key in &absent {
            let (truth, value) = rule.judge_missing(window, key);
            found.insert(key, (truth, value));
        }
        let keys: Vec<RowKey> = self.episodes.keys().cloned().collect();
        for key in keys {
            let Some(row) = key.as_deref() else { continue };
            let missing = || rule.judge_missing(window, row);
            let (truth, value) = found.remove(row).unwrap_or_else(missing);
            self.step(rule, now, key, truth, value, events);
        }
        let is_own = |it: &(&RowKey, &Episode)| it.0.is_some() && it.1.phase != Phase::Resolved;
        let mut own = self.episodes.iter().filter(is_own).count();
        self.more = 0;
        for (key, (_, value)) in found.into_iter().filter(|it| it.1.0 == Truth::True) {
            if own < ALERT_ROWS_MAX {
                own += 1;
                self.make_room();
                self.step(rule, now, Some(key.into()), Truth::True, value, events);
            } else {
                self.more += 1;
            }
        }
        let (truth, value) = match self.more {
            0 => (rule.of_the_rest(window), None),
            more => (Truth::True, Some(more as f64)),
        };
        self.step(rule, now, None, truth, value, events);
    }

    /// Ends all alerts of a rule that was removed.
    pub fn end(&mut self, unix: u64) {
        self.known.clear();
        self.episodes.retain(|_, it| it.phase != Phase::Pending);
        for episode in self.episodes.values_mut() {
            if episode.phase == Phase::Firing {
                episode.resolve(unix, "rule");
            }
        }
    }

    /// Advances the clocks of a removed rule's alerts; returns whether any are left.
    pub fn fade(&mut self, passed: u64) -> bool {
        self.episodes.retain(|_, it| {
            it.clock += passed;
            it.clock < RESOLVED_SECS
        });
        !self.episodes.is_empty()
    }

    /// Removes the longest resolved alert when there are too many.
    fn make_room(&mut self) {
        if self.episodes.len() > 2 * ALERT_ROWS_MAX {
            let over = self.episodes.iter().filter(|it| it.1.phase == Phase::Resolved);
            let oldest = over.max_by_key(|it| it.1.clock).map(|it| it.0.clone());
            oldest.map(|key| self.episodes.remove(&key));
        }
    }

    fn step(
        &mut self,
        rule: &Rule,
        now: Evaluation,
        key: RowKey,
        truth: Truth,
        value: Option<f64>,
        events: &mut Vec<Event>,
    ) {
        let before = self.episodes.get(&key).map(|it| it.phase);
        let episode = match self.episodes.remove(&key) {
            None if truth != Truth::True => return,
            None => Some(Episode::begin(rule, now, value, None)),
            Some(episode) => episode.step(rule, now, truth, value),
        };
        let after = episode.as_ref().map(|it| it.phase);
        // An episode that directly follows another is an event too.
        let is_new =
            episode.as_ref().is_some_and(|it| it.since == now.unix && truth == Truth::True);
        if after != before || is_new && before == Some(Phase::Resolved) {
            events.push(Event {
                key: key.clone(),
                unix: now.unix,
                phase: after,
                value: episode.as_ref().and_then(|it| it.value),
                reason: episode.as_ref().map_or_else(String::new, |it| it.reason.clone()),
            });
        }
        if let Some(episode) = episode {
            self.episodes.insert(key, episode);
        }
    }
}

impl Episode {
    fn begin(rule: &Rule, now: Evaluation, value: Option<f64>, before: Option<(u64, u64)>) -> Self {
        let fires = rule.entry.hold == 0;
        Self {
            phase: if fires { Phase::Firing } else { Phase::Pending },
            since: now.unix,
            started: if fires { now.unix } else { 0 },
            ended: 0,
            reason: String::new(),
            value,
            clock: 0,
            is_ending: false,
            unknown: None,
            before,
        }
    }

    fn resolve(&mut self, unix: u64, reason: &str) {
        self.phase = Phase::Resolved;
        self.ended = unix.max(self.started);
        self.reason = reason.to_owned();
        self.clock = 0;
        self.unknown = None;
    }

    fn step(
        mut self,
        rule: &Rule,
        now: Evaluation,
        truth: Truth,
        value: Option<f64>,
    ) -> Option<Self> {
        let entry = &rule.entry;
        if self.phase == Phase::Resolved {
            if truth == Truth::True {
                let before = Some((self.started, self.ended));
                return Some(Self::begin(rule, now, value, before));
            }
            self.clock += now.passed;
            return (self.clock < RESOLVED_SECS).then_some(self);
        }
        self.value = value.or(self.value);
        self.unknown = match (truth, self.unknown) {
            (Truth::Unknown, None) => Some(0),
            (Truth::Unknown, Some(secs)) => Some(secs + now.passed),
            _ => None,
        };
        let unknown = self.unknown.unwrap_or_default();
        match (self.phase, truth) {
            (Phase::Pending, Truth::False) => return None,
            (Phase::Pending, Truth::True) => {
                self.clock += now.passed;
                if self.clock >= entry.hold {
                    self.phase = Phase::Firing;
                    self.started = now.unix;
                    self.clock = 0;
                }
            }
            (Phase::Pending, Truth::Unknown) if unknown >= entry.window.max(entry.hold) => {
                return None;
            }
            (Phase::Firing, Truth::True) => (self.clock, self.is_ending) = (0, false),
            (Phase::Firing, Truth::False) => {
                self.clock = if self.is_ending { self.clock + now.passed } else { 0 };
                self.is_ending = true;
                if self.clock >= entry.keep {
                    self.resolve(now.unix, "");
                }
            }
            (Phase::Firing, Truth::Unknown) if unknown >= (2 * entry.window).max(NO_DATA_SECS) => {
                self.resolve(now.unix, "no data");
            }
            _ => {}
        }
        Some(self)
    }
}
