//! The state machine of a rule's alerts.
//!
//! ```text
//!            true                        false                      unknown
//!   none     pending, or firing          -                          -
//!   pending  firing after `for`          dropped, or the           the clock stops; the same
//!                                        resolved one before it    after max(window, for)
//!   firing   stays                       resolved after `keep`      holds; resolved after max(2 windows, 10 min): "no data"
//!   resolved a new episode               forgotten after 15 min     as false
//! ```
//!
//! [`RuleState::evaluate`] is the only implementation: the daemon, `pinbad alert test` and the
//! tests call it. Time is the time that passed in the stream of seconds; the wall clock is only
//! recorded. Bounded by [`ALERT_ROWS_MAX`] rows per rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::rule::{Rule, Window};
use crate::limits::{ALERT_KNOWN_ROWS_MAX, ALERT_ROWS_MAX};
use crate::telemetry::counter::counted;

/// Time for which a resolved alert is remembered, seconds.
pub const RESOLVED_SECS: u64 = 15 * 60;
/// Shortest time without data after which an alert is resolved, seconds.
const NO_DATA_SECS: u64 = 10 * 60;
/// Time after which a rule of absence forgets a row, seconds: it was taken down for good.
const AWAY_SECS_MAX: u64 = 7 * 86_400;

/// A row's key, or `None` for all rows without an alert of their own.
pub type RowKey = Option<Box<[u8]>>;

counted! {
    /// State of an alert, in the order in which alerts are listed.
    #[derive(Default, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Phase {
        /// The condition has held for long enough.
        Firing = "firing",
        /// The condition holds, but not yet for long enough.
        #[default]
        Pending = "pending",
        /// The alert is over.
        Resolved = "resolved",
    }
}

/// The alert of one row, from the first time its condition holds until it is forgotten.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Its state.
    pub phase: Phase,
    /// Time at which the condition began to hold, unix seconds.
    pub since: u64,
    /// Time at which it fired, unix seconds.
    pub started: u64,
    /// Time at which it was resolved, unix seconds.
    pub ended: u64,
    /// How often the row's alert has fired since it was last forgotten, this time included; 0 while
    /// it is pending.
    #[serde(default)]
    pub firings: u64,
    /// Time at which it did for the first time, unix seconds.
    #[serde(default)]
    pub first_started: u64,
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
    pub unknown: Option<u64>,
    /// The previous episode, which is over; restored if this one never fires.
    #[serde(default)]
    pub previous: Option<Box<Self>>,
}

/// A rule and its alerts.
#[derive(Debug)]
pub struct RuleState {
    /// The rule.
    pub rule: Arc<Rule>,
    /// Its alerts by row; under `None` the one that all rows without one of their own share.
    pub episodes: BTreeMap<RowKey, Episode>,
    /// Rows whose condition holds but that have no alert of their own.
    pub more: usize,
    /// Rows that a rule of absence has seen, and for how many seconds each has been away.
    pub known: BTreeMap<Box<[u8]>, u64>,
}

/// The time of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Wall clock, unix seconds.
    pub unix: u64,
    /// Seconds since the previous evaluation.
    pub passed: u64,
}

/// A change of an alert's state.
#[derive(Debug)]
pub struct Event<'a> {
    /// The row; `None` for the rows without an alert of their own.
    pub key: Option<&'a [u8]>,
    /// Time, unix seconds.
    pub unix: u64,
    /// The alert as it is now; `None` if it was dropped or forgotten.
    pub episode: Option<&'a Episode>,
}

/// Takes changes of alerts, each with its rule.
pub type Sink<'a> = &'a mut (dyn FnMut(&Rule, &Event<'_>) + 'a);

/// Whether a condition holds, and the value of its left side; `None` if too little is known.
pub type Judgement = Option<(bool, Option<f64>)>;

/// A row's key and the judgement of the row.
pub type Judged<'a> = (&'a [u8], Judgement);

impl RuleState {
    /// Creates the state of a rule without alerts.
    pub(super) fn new(rule: Arc<Rule>) -> Self {
        Self { rule, episodes: BTreeMap::new(), more: 0, known: BTreeMap::new() }
    }

    /// Returns the alerts, each with the row's key.
    pub fn alerts(&self) -> impl Iterator<Item = (Option<&[u8]>, &Episode)> {
        self.episodes.iter().map(|(key, episode)| (key.as_deref(), episode))
    }

    /// Applies the judgements of a window: `rows` has at least all rows that can be judged; others
    /// that have an alert are judged as rows without gain, which comes to the same. For a rule of
    /// absence it has all rows of the window.
    pub fn evaluate(&mut self, now: Moment, window: &Window, rows: &[Judged<'_>], each: Sink<'_>) {
        let is_of_absence = self.rule.is_of_absence();
        for (key, _) in rows.iter().filter(|_| is_of_absence) {
            if self.known.len() < ALERT_KNOWN_ROWS_MAX || self.known.contains_key(*key) {
                self.known.insert((*key).into(), 0);
            }
        }
        self.known.retain(|_, away| {
            *away += now.passed;
            *away <= AWAY_SECS_MAX
        });
        // Those that are judged without gain too.
        let expected = self.known.keys().chain(self.episodes.keys().flatten());
        let mut found: BTreeMap<&[u8], _> = expected.map(|key| (&**key, None)).collect();
        for &(key, judgement) in rows {
            if judgement.is_some_and(|it| it.0) || found.contains_key(key) {
                found.insert(key, Some(judgement));
            }
        }
        let judged = found.into_iter().map(|(key, judgement)| {
            let is_judged = !is_of_absence || self.known.contains_key(key);
            let missing = || is_judged.then(|| self.rule.judge_missing(window, key)).flatten();
            (Some(key.into()), judgement.unwrap_or_else(missing))
        });
        // An alert that is over has no place; it needs one to begin again.
        let is_over = |it: &Episode| it.phase == Phase::Resolved;
        let is_new = |(key, judgement): &(RowKey, Judgement)| {
            judgement.is_some_and(|it| it.0) && self.episodes.get(key).is_none_or(is_over)
        };
        let (new, old): (Vec<_>, Vec<_>) = judged.partition(is_new);
        for (key, judgement) in old {
            self.step(now, key, judgement, each);
        }
        let taken = self.episodes.iter().filter(|it| it.0.is_some() && !is_over(it.1)).count();
        let places = ALERT_ROWS_MAX.saturating_sub(taken);
        self.more = new.len().saturating_sub(places);
        for (at, (key, judgement)) in new.into_iter().enumerate() {
            if at < places {
                self.make_room();
            }
            self.step(now, key, judgement.filter(|_| at < places), each);
        }
        let of_more = match self.more {
            0 => self.rule.judge_present(window),
            more => Some((true, Some(more as f64))),
        };
        self.step(now, None, of_more, each);
    }

    /// Drops pending alerts, and brings back those before them.
    pub(super) fn drop_pending(&mut self) {
        let fired = self.episodes.iter().filter_map(|it| Some((it.0.clone(), it.1.last_fired()?)));
        self.episodes = fired.map(|(key, it)| (key, it.clone())).collect();
    }

    /// Takes out the alerts that are over, also those before pending ones.
    pub(super) fn take_over(&mut self) -> Self {
        let episodes = self.episodes.clone();
        let mut over = Self { episodes, ..Self::new(Arc::clone(&self.rule)) };
        over.drop_pending();
        over.episodes.retain(|_, it| it.phase == Phase::Resolved);
        self.episodes.retain(|_, it| it.phase != Phase::Resolved);
        self.episodes.values_mut().for_each(|it| it.previous = None);
        over
    }

    /// Ends all alerts of a rule that was removed, and passes on those that fired.
    pub fn end(&mut self, unix: u64, each: Sink<'_>) {
        self.known.clear();
        self.drop_pending();
        for (key, episode) in self.episodes.iter_mut().filter(|it| it.1.phase == Phase::Firing) {
            episode.resolve(unix, "rule");
            each(&self.rule, &Event { key: key.as_deref(), unix, episode: Some(episode) });
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
            let own = self.episodes.iter().filter(|it| it.0.is_some());
            let over = own.filter(|it| it.1.phase == Phase::Resolved);
            let oldest = over.max_by_key(|it| it.1.clock).map(|it| it.0.clone());
            oldest.map(|key| self.episodes.remove(&key));
        }
    }

    /// Advances the alert of a row, and passes on a change of its state.
    pub(super) fn step(&mut self, now: Moment, row: RowKey, judgement: Judgement, each: Sink<'_>) {
        let before = self.episodes.remove(&row);
        let phase = before.as_ref().map(|it| it.phase);
        let episode = match (before, judgement) {
            (Some(episode), _) => episode.step(&self.rule, now, judgement),
            (None, Some((true, value))) => Some(Episode::begin(&self.rule, now, value, None)),
            (None, _) => None,
        };
        // One that was dropped is dropped, although the one before it is there again.
        let dropped = (Some(Phase::Pending), Phase::Resolved);
        let shown = episode.as_ref().filter(|it| (phase, it.phase) != dropped);
        if shown.map(|it| it.phase) != phase {
            each(&self.rule, &Event { key: row.as_deref(), unix: now.unix, episode: shown });
        }
        self.episodes.extend(episode.map(|it| (row, it)));
    }
}

impl Episode {
    fn begin(rule: &Rule, now: Moment, value: Option<f64>, previous: Option<Box<Self>>) -> Self {
        let mut episode = Self { since: now.unix, value, previous, ..Self::default() };
        if rule.entry.hold == 0 {
            episode.fire(now.unix);
        }
        episode
    }

    fn fire(&mut self, unix: u64) {
        let before = self.last_fired().map(|it| (it.firings, it.first_started));
        // Files of older versions do not have them.
        let (firings, first_started) = before.filter(|it| it.0 > 0).unwrap_or((0, unix));
        (self.firings, self.first_started) = (firings + 1, first_started);
        (self.phase, self.started, self.clock) = (Phase::Firing, unix, 0);
    }

    /// Returns the last episode that fired, if it is remembered: this one, or the one before a
    /// pending one.
    pub(super) fn last_fired(&self) -> Option<&Self> {
        match self.phase {
            Phase::Pending => self.previous.as_deref().filter(|it| it.clock < RESOLVED_SECS),
            _ => Some(self),
        }
    }

    fn resolve(&mut self, unix: u64, reason: &str) {
        (self.phase, self.clock, self.unknown) = (Phase::Resolved, 0, None);
        self.ended = unix.max(self.started);
        self.reason = reason.to_owned();
    }

    fn step(mut self, rule: &Rule, now: Moment, judgement: Judgement) -> Option<Self> {
        let (entry, (holds, value)) = (&rule.entry, judgement.unzip());
        let value = value.flatten();
        if self.phase == Phase::Resolved {
            self.clock += now.passed;
            if holds == Some(true) {
                self.previous = None;
                return Some(Self::begin(rule, now, value, Some(Box::new(self))));
            }
            return (self.clock < RESOLVED_SECS).then_some(self);
        }
        if let Some(previous) = &mut self.previous {
            previous.clock += now.passed;
        }
        self.value = value.or(self.value);
        let unknown = self.unknown.map_or(0, |secs| secs + now.passed);
        self.unknown = holds.is_none().then_some(unknown);
        match (self.phase, holds) {
            (Phase::Pending, Some(true)) => {
                self.clock += now.passed;
                if self.clock >= entry.hold {
                    self.fire(now.unix);
                }
            }
            (Phase::Pending, None) if unknown < entry.window.max(entry.hold) => {}
            (Phase::Pending, Some(false) | None) => return self.last_fired().cloned(),
            (Phase::Firing, Some(true)) => (self.clock, self.is_ending) = (0, false),
            (Phase::Firing, Some(false)) => {
                self.clock = if self.is_ending { self.clock + now.passed } else { 0 };
                self.is_ending = true;
                if self.clock >= entry.keep {
                    self.resolve(now.unix, "");
                }
            }
            (Phase::Firing, None) if unknown >= (2 * entry.window).max(NO_DATA_SECS) => {
                self.resolve(now.unix, "no data");
            }
            _ => {}
        }
        Some(self)
    }
}
