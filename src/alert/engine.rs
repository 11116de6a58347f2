//! The rules, the contents of their windows and their alerts, advanced second by second.
//!
//! [`Engine::take`] is called for every second once it is over: by the daemon's alerts thread with
//! seconds of the stream, by `pinbad alert test` with minutes of history. Steps are multiples of
//! the time that has passed since the wall-clock second at which the engine started, so setting the
//! clock moves nothing. Pure: no clock, no thread.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::objective::{Budget, Count, Objective, verdict};
use super::rule::{Rule, Truth, Window};
use super::state::{Episode, Evaluation, Event, Phase, RowKey, RuleState};
use super::windows::{ReportGain, Room, RowGain, Windows};
use crate::report::row_key::{key_texts, push_key};

/// Longest stop that a pending alert survives, seconds.
const PENDING_AWAY_SECS: u64 = 3_600;

/// The gain of one or several seconds, complete.
#[derive(Debug, Clone, Default)]
pub struct Gain {
    /// Unix second at which it begins.
    pub unix: u64,
    /// Seconds that passed.
    pub secs: u64,
    /// Seconds, out of `secs`, in which requests were counted.
    pub covered_secs: u64,
    /// Seconds lost just before this gain.
    pub lost_secs: u64,
    /// Reports that were watched, whether or not anything was counted in them.
    pub reports: Vec<ReportGain>,
    /// Counts of the objectives whose report was watched.
    pub counts: Vec<(Arc<Objective>, Count)>,
}

impl Gain {
    /// Size in memory, bytes.
    pub(super) fn bytes(&self) -> usize {
        let row = |row: &RowGain| size_of::<RowGain>() + row.key.len() + row.packed.len() + 32;
        let rows = self.reports.iter().flat_map(|it| &it.rows);
        rows.map(row).sum::<usize>()
            + self.reports.len() * size_of::<ReportGain>()
            + self.counts.len() * size_of::<(Arc<Objective>, Count)>()
    }
}

/// A rule's alerts as saved across a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedRule {
    name: String,
    identity: String,
    /// By key texts; `null` stands for the rows without an alert of their own.
    episodes: Vec<(Option<Vec<String>>, Episode)>,
    known: Vec<Vec<String>>,
}

/// The active rules and their state.
#[derive(Debug)]
pub struct Engine {
    /// The rules.
    pub rules: Vec<Arc<Rule>>,
    /// Their alerts, in the order of `rules`.
    pub states: Vec<RuleState>,
    /// Alerts of removed rules, kept until they are forgotten.
    pub gone: Vec<(Arc<Rule>, RuleState)>,
    /// Windows by report and step.
    pub windows: Vec<Windows>,
    /// Memory budget of the windows.
    pub room: Room,
    /// Error budgets of the objectives.
    pub budgets: Vec<Budget>,
    /// Shortest step, seconds: more than 1 where only coarser rows are available.
    step_min: u64,
    /// Time of the stream in seconds: starts at the wall clock's and advances with the stream.
    now: Option<u64>,
}

impl Engine {
    /// Creates an engine for `rules` without alerts; all windows together take at most `memory`
    /// bytes.
    #[must_use]
    pub fn new(rules: Vec<Arc<Rule>>, memory: usize, step_min: u64) -> Self {
        let mut engine = Self {
            states: vec![RuleState::default(); rules.len()],
            rules,
            gone: Vec::new(),
            windows: Vec::new(),
            room: Room { used: 0, max: memory },
            budgets: Vec::new(),
            step_min,
            now: None,
        };
        engine.make_windows();
        engine
    }

    /// Recreates the windows empty; keeps the budget of an unchanged objective.
    fn make_windows(&mut self) {
        let mut budgets = std::mem::take(&mut self.budgets);
        for rule in &self.rules {
            let is_new = |it: &&Arc<Objective>| {
                self.budgets.iter().all(|known| !Arc::ptr_eq(&known.objective, it))
            };
            let Some(objective) = rule.objective().filter(is_new) else {
                continue;
            };
            let is_it = |it: &Budget| it.objective.counts_as(objective);
            let old = budgets.iter().position(is_it);
            let mut budget = match old {
                Some(at) => budgets.swap_remove(at),
                None => Budget::new(Arc::clone(objective)),
            };
            budget.objective = Arc::clone(objective);
            self.budgets.push(budget);
        }
        self.windows.clear();
        self.room.used = 0;
        let step = |rule: &Rule| rule.step.max(self.step_min);
        let mut places: Vec<usize> = (0..self.rules.len()).collect();
        places.retain(|at| self.rules[*at].objective().is_none());
        let of = |at: &usize| (&self.rules[*at].entry.report, step(&self.rules[*at]));
        places.sort_by(|a, b| of(a).cmp(&of(b)));
        for same in places.chunk_by(|a, b| of(a) == of(b)) {
            let rules: Vec<_> = same.iter().map(|&at| (at, &*self.rules[at])).collect();
            let (report, step) = of(&same[0]);
            self.windows.push(Windows::new(report, step, &rules));
        }
    }

    /// Replaces the rules. Unchanged rules keep their alerts; all windows start empty.
    pub fn replace(&mut self, rules: Vec<Arc<Rule>>, unix: u64) {
        let old = std::mem::take(&mut self.rules);
        let mut old: Vec<_> = old.into_iter().zip(self.states.drain(..)).collect();
        for rule in &rules {
            let is_it = |it: &(Arc<Rule>, RuleState)| {
                it.0.entry.name == rule.entry.name && it.0.identity() == rule.identity()
            };
            let found = old.iter().position(is_it);
            let state = found.map(|at| old.swap_remove(at).1);
            self.states.push(state.unwrap_or_default());
        }
        for (rule, mut state) in old {
            state.end(unix);
            self.gone.push((rule, state));
        }
        self.rules = rules;
        self.make_windows();
    }

    /// Advances by the seconds of `gain` and passes each state change to `each`, with its rule.
    pub fn take(&mut self, gain: &Gain, each: &mut impl FnMut(&Rule, &Event)) {
        let mut now = *self.now.get_or_insert(gain.unix);
        let Self { rules, states, windows, room, budgets, .. } = self;
        let end_of_lost = now + gain.lost_secs;
        let end = end_of_lost + gain.secs;
        let mut is_fed = false;
        while now < end {
            // A gain of several seconds is booked in its first one; the others only advance the
            // clock.
            if now == end_of_lost {
                for gained in &gain.reports {
                    let of_report = windows.iter_mut().filter(|it| it.report == gained.report);
                    of_report.for_each(|it| it.gain(gained, rules, room));
                }
                for (objective, count) in &gain.counts {
                    let mut all = budgets.iter_mut();
                    let budget = all.find(|it| Arc::ptr_eq(&it.objective, objective));
                    budget.into_iter().for_each(|it| it.gain(count));
                }
                is_fed = true;
            }
            let passed = match gain.lost_secs {
                0 if self.step_min > 1 => gain.secs,
                _ => 1,
            };
            now += passed;
            let is_covered = is_fed && now <= end_of_lost + gain.covered_secs.max(passed);
            let covered = if is_covered { gain.covered_secs.min(passed) } else { 0 };
            let unix = (gain.unix + gain.secs).saturating_sub(end - now);
            let time = Evaluation { unix, passed };
            let mut events = Vec::new();
            for budget in budgets.iter_mut() {
                (now - passed..now).for_each(|second| budget.pass(second + 1));
                let burns = budget.burns();
                let of_budget = |rule: &Rule| {
                    let of = rule.objective();
                    of.is_some_and(|it| Arc::ptr_eq(it, &budget.objective))
                };
                let mut is_paged = false;
                for (rule, state) in rules.iter().zip(&mut *states) {
                    if !of_budget(rule) {
                        continue;
                    }
                    let (truth, value) = match is_paged {
                        true => (Truth::False, None),
                        false => verdict(&burns, &rule.entry.severity),
                    };
                    is_paged |= truth == Truth::True;
                    let judged = [(&[][..], truth, value)];
                    state.evaluate(rule, time, &Window::default(), &judged, &mut events);
                    events.drain(..).for_each(|event| each(rule, &event));
                }
            }
            for windows in windows.iter_mut() {
                let is_watched = gain.reports.iter().any(|it| it.report == windows.report);
                let covered = if is_watched { covered } else { 0 };
                if !windows.pass(covered, now.is_multiple_of(windows.step), room) {
                    continue;
                }
                let time = Evaluation { unix, passed: windows.step };
                windows.judge(rules, states, |at, state, window, judged| {
                    state.evaluate(&rules[at], time, window, judged, &mut events);
                    events.drain(..).for_each(|event| each(&rules[at], &event));
                });
            }
        }
        self.now = Some(now);
        let passed = gain.lost_secs + gain.secs;
        self.gone.retain_mut(|(_, state)| state.fade(passed));
    }

    /// Returns all alerts with their rules.
    pub fn alerts(&self) -> impl Iterator<Item = (&Arc<Rule>, &RowKey, &Episode)> {
        let now = self.rules.iter().zip(&self.states);
        let gone = self.gone.iter().map(|it| (&it.0, &it.1));
        now.chain(gone).flat_map(|(rule, state)| {
            let alerts = state.episodes.iter();
            alerts.map(move |(key, episode)| (rule, key, episode))
        })
    }

    /// Returns the state to save across a restart.
    #[must_use]
    pub fn save(&self) -> Vec<SavedRule> {
        let texts = |key: &[u8]| key_texts(key).map(str::to_owned).collect();
        let saved = self.rules.iter().zip(&self.states).map(|(rule, state)| SavedRule {
            name: rule.entry.name.clone(),
            identity: rule.identity(),
            episodes: state
                .episodes
                .iter()
                .map(|(key, episode)| (key.as_deref().map(texts), episode.clone()))
                .collect(),
            known: state.known.keys().map(|key| texts(key)).collect(),
        });
        saved.collect()
    }

    /// Restores the state saved by a process that ended `away` seconds ago.
    pub fn restore(&mut self, saved: Vec<SavedRule>, away: u64) {
        let key = |texts: &[String]| -> Box<[u8]> {
            let mut key = Vec::new();
            texts.iter().for_each(|text| push_key(&mut key, text));
            key.into()
        };
        for saved in saved {
            let is_it = |rule: &Arc<Rule>| {
                rule.entry.name == saved.name && rule.identity() == saved.identity
            };
            let Some(at) = self.rules.iter().position(is_it) else {
                continue;
            };
            let state = &mut self.states[at];
            let fits = |texts: &Vec<String>| texts.len() == self.rules[at].keys.len();
            let episodes = saved.episodes.into_iter();
            let episodes = episodes.filter(|(texts, episode)| {
                texts.as_ref().is_none_or(fits)
                    && (episode.phase != Phase::Pending || away <= PENDING_AWAY_SECS)
            });
            state.episodes =
                episodes.map(|(texts, episode)| (texts.map(|it| key(&it)), episode)).collect();
            let known = saved.known.iter().filter(|it| fits(it));
            state.known = known.map(|texts| (key(texts), ())).collect();
        }
    }
}
