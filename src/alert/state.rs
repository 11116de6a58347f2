//! What becomes of a rule's alerts: the state table, and nothing else.
//!
//! ```text
//!            true                        false                      unknown
//!   none     pending, or firing          -                          -
//!   pending  firing after `for`          dropped                    the clock stops; dropped after max(window, for)
//!   firing   stays                       resolved after `keep`      holds; resolved after max(2 windows, 10 min): "no data"
//!   resolved a new episode               forgotten after 15 min     as false
//! ```
//!
//! [`RuleState::evaluate`] is the one function for that: the daemon calls it, `pinbad alert test`
//! and the tests. Time is what has passed of the stream of seconds; what the wall clock shows is
//! only written down. Bounded: [`ALERT_ROWS_MAX`] rows a rule.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Truth, Window};
use crate::limits::{ALERT_KNOWN_ROWS_MAX, ALERT_ROWS_MAX};

/// How long an alert that is over is remembered, seconds.
pub const RESOLVED_SECS: u64 = 15 * 60;
/// An alert without data is over after this at the earliest, seconds.
const NO_DATA_SECS: u64 = 10 * 60;

/// A row's key, or `None` for all rows without an alert of their own.
pub type RowKey = Option<Box<[u8]>>;

/// In which state an alert is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The condition holds, not for long enough yet.
    Pending,
    /// It has held.
    Firing,
    /// It is over.
    Resolved,
}

impl Phase {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// One row's alert, from the first time that its condition holds until it is forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Its state.
    pub phase: Phase,
    /// When the condition began to hold, unix seconds.
    pub since: u64,
    /// When it fired.
    pub started: u64,
    /// When it was over.
    pub ended: u64,
    /// Why it was, if not because the condition does not hold.
    pub reason: String,
    /// The last number that was seen.
    pub value: Option<f64>,
    /// Pending: for how long the condition held. Firing: for how long it has not held. Resolved:
    /// for how long it has been over.
    clock: u64,
    /// Firing: whether the clock runs.
    is_ending: bool,
    /// For how long nothing could be said.
    unknown: Option<u64>,
    /// When the episode before this one had fired, and when it was over.
    pub before: Option<(u64, u64)>,
}

/// The alerts of a rule.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuleState {
    /// By row.
    pub episodes: BTreeMap<RowKey, Episode>,
    /// Rows whose condition holds and that have no alert of their own.
    pub more: usize,
    /// Of a rule of absence: rows that have been there.
    pub known: BTreeMap<Box<[u8]>, ()>,
}

/// What an evaluation looks at.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// What the wall clock shows, unix seconds.
    pub unix: u64,
    /// Seconds since the evaluation before.
    pub passed: u64,
}

/// An alert has got into another state.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Of which row.
    pub key: RowKey,
    /// When, unix seconds.
    pub unix: u64,
    /// What it is now; `None`: dropped or forgotten.
    pub phase: Option<Phase>,
}

/// A row and what was found.
pub type Judged<'a> = (&'a [u8], Truth, Option<f64>);

impl RuleState {
    /// Takes in what was found: all rows of the window whose condition holds, and all others that
    /// have an alert. Of a rule of absence: all rows of the window.
    pub fn evaluate(
        &mut self,
        rule: &Rule,
        now: Moment,
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

    /// Ends all alerts of a rule that is not there any more.
    pub fn end(&mut self, unix: u64) {
        self.known.clear();
        self.episodes.retain(|_, it| it.phase != Phase::Pending);
        for episode in self.episodes.values_mut() {
            if episode.phase == Phase::Firing {
                episode.resolve(unix, "rule");
            }
        }
    }

    /// Time passes for what is left of such a rule; whether anything is.
    pub fn fade(&mut self, passed: u64) -> bool {
        self.episodes.retain(|_, it| {
            it.clock += passed;
            it.clock < RESOLVED_SECS
        });
        !self.episodes.is_empty()
    }

    /// The oldest that is over goes when there are many.
    fn make_room(&mut self) {
        if self.episodes.len() > 2 * ALERT_ROWS_MAX {
            let over = self
                .episodes
                .iter()
                .filter(|it| it.1.phase == Phase::Resolved);
            let oldest = over.max_by_key(|it| it.1.clock).map(|it| it.0.clone());
            oldest.map(|key| self.episodes.remove(&key));
        }
    }

    fn step(
        &mut self,
        rule: &Rule,
        now: Moment,
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
        // An episode that follows another at once is one more event.
        let is_new = episode
            .as_ref()
            .is_some_and(|it| it.since == now.unix && truth == Truth::True);
        if after != before || is_new && before == Some(Phase::Resolved) {
            events.push(Event {
                key: key.clone(),
                unix: now.unix,
                phase: after,
            });
        }
        if let Some(episode) = episode {
            self.episodes.insert(key, episode);
        }
    }
}

impl Episode {
    fn begin(rule: &Rule, now: Moment, value: Option<f64>, before: Option<(u64, u64)>) -> Self {
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

    fn step(mut self, rule: &Rule, now: Moment, truth: Truth, value: Option<f64>) -> Option<Self> {
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
                self.clock = if self.is_ending {
                    self.clock + now.passed
                } else {
                    0
                };
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
