//! The rules, what their windows hold, and their alerts: second after second.
//!
//! [`Engine::take`] is given every second once it is over. The thread of the daemon does that with
//! seconds of the stream, `pinbad alert test` with minutes of history. Steps are multiples of the
//! time that has passed, by the wall clock's seconds at the start: when that is set, nothing moves.
//! Pure: no clock, no thread.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::objective::{Budget, Count, Objective, verdict};
use super::rule::{Rule, Truth, Window};
use super::state::{Episode, Event, Moment, Phase, RowKey, RuleState};
use super::windows::{ReportGain, Room, RowGain, Windows};
use crate::report::row_key::{key_texts, push_key};

/// A pending alert does not outlive a stop longer than this, seconds.
const PENDING_AWAY_SECS: u64 = 3_600;

/// A second, or some of them, of which everything is known.
#[derive(Debug, Clone, Default)]
pub struct Gain {
    /// The wall clock's second at its beginning.
    pub unix: u64,
    /// How many seconds passed.
    pub secs: u64,
    /// Of these, in how many requests were counted.
    pub covered_secs: u64,
    /// Seconds before it that were lost.
    pub lost_secs: u64,
    /// Reports in which anything was counted, or could have been.
    pub reports: Vec<ReportGain>,
    /// What objectives count, of those whose report was watched.
    pub counts: Vec<(Arc<Objective>, Count)>,
}

impl Gain {
    /// What it takes, bytes.
    pub(super) fn bytes(&self) -> usize {
        let row = |row: &RowGain| size_of::<RowGain>() + row.key.len() + row.packed.len() + 32;
        let rows = self.reports.iter().flat_map(|it| &it.rows);
        rows.map(row).sum::<usize>()
            + self.reports.len() * size_of::<ReportGain>()
            + self.counts.len() * size_of::<(Arc<Objective>, Count)>()
    }
}

/// A rule's alerts as they are kept over a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedRule {
    name: String,
    identity: String,
    /// `null`: of the rows without an alert of their own.
    episodes: Vec<(Option<Vec<String>>, Episode)>,
    known: Vec<Vec<String>>,
}

/// All rules at work.
#[derive(Debug)]
pub struct Engine {
    /// The rules.
    pub rules: Vec<Arc<Rule>>,
    /// Their alerts, in the same order.
    pub states: Vec<RuleState>,
    /// Alerts of rules that are gone, until they are forgotten.
    pub gone: Vec<(Arc<Rule>, RuleState)>,
    /// Windows by report and step.
    pub windows: Vec<Windows>,
    /// What they take.
    pub room: Room,
    /// Those of objectives.
    pub budgets: Vec<Budget>,
    /// Least step, seconds: more than 1 where only coarser rows are known.
    step_min: u64,
    /// Seconds of the stream: those of the wall clock when it began.
    now: Option<u64>,
}

impl Engine {
    /// Rules with no alerts, in windows of so many bytes together.
    #[must_use]
    pub fn new(rules: Vec<Arc<Rule>>, memory: usize, step_min: u64) -> Self {
        let mut engine = Self {
            states: vec![RuleState::default(); rules.len()],
            rules,
            gone: Vec::new(),
            windows: Vec::new(),
            room: Room {
                used: 0,
                max: memory,
            },
            budgets: Vec::new(),
            step_min,
            now: None,
        };
        engine.make_windows();
        engine
    }

    /// Windows begin anew; a budget that is the same goes on.
    fn make_windows(&mut self) {
        let mut budgets = std::mem::take(&mut self.budgets);
        for rule in &self.rules {
            let is_new = |it: &&Arc<Objective>| {
                self.budgets
                    .iter()
                    .all(|known| !Arc::ptr_eq(&known.objective, it))
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

    /// Other rules: those that stay keep their alerts, and all windows begin anew.
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

    /// A second is over: gives each change to `each`, with its rule.
    pub fn take(&mut self, gain: &Gain, each: &mut impl FnMut(&Rule, &Event)) {
        let mut now = *self.now.get_or_insert(gain.unix);
        let Self {
            rules,
            states,
            windows,
            room,
            budgets,
            ..
        } = self;
        let end_of_lost = now + gain.lost_secs;
        let end = end_of_lost + gain.secs;
        let mut is_fed = false;
        while now < end {
            // A gain of several seconds is one of its first; the clock went on without the others.
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
            let covered = if is_covered {
                gain.covered_secs.min(passed)
            } else {
                0
            };
            let unix = (gain.unix + gain.secs).saturating_sub(end - now);
            let moment = Moment { unix, passed };
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
                    state.evaluate(rule, moment, &Window::default(), &judged, &mut events);
                    events.drain(..).for_each(|event| each(rule, &event));
                }
            }
            for windows in windows.iter_mut() {
                let is_watched = gain.reports.iter().any(|it| it.report == windows.report);
                let covered = if is_watched { covered } else { 0 };
                if !windows.pass(covered, now.is_multiple_of(windows.step), room) {
                    continue;
                }
                let moment = Moment {
                    unix,
                    passed: windows.step,
                };
                windows.judge(rules, states, |at, state, window, judged| {
                    state.evaluate(&rules[at], moment, window, judged, &mut events);
                    events.drain(..).for_each(|event| each(&rules[at], &event));
                });
            }
        }
        self.now = Some(now);
        let passed = gain.lost_secs + gain.secs;
        self.gone.retain_mut(|(_, state)| state.fade(passed));
    }

    /// All alerts, with their rules.
    pub fn alerts(&self) -> impl Iterator<Item = (&Arc<Rule>, &RowKey, &Episode)> {
        let now = self.rules.iter().zip(&self.states);
        let gone = self.gone.iter().map(|it| (&it.0, &it.1));
        now.chain(gone).flat_map(|(rule, state)| {
            let alerts = state.episodes.iter();
            alerts.map(move |(key, episode)| (rule, key, episode))
        })
    }

    /// What is to be kept over a restart.
    #[must_use]
    pub fn save(&self) -> Vec<SavedRule> {
        let texts = |key: &[u8]| key_texts(key).map(str::to_owned).collect();
        let saved = self
            .rules
            .iter()
            .zip(&self.states)
            .map(|(rule, state)| SavedRule {
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

    /// Goes on where a process ended, `away` seconds ago.
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
            state.episodes = episodes
                .map(|(texts, episode)| (texts.map(|it| key(&it)), episode))
                .collect();
            let known = saved.known.iter().filter(|it| fits(it));
            state.known = known.map(|texts| (key(texts), ())).collect();
        }
    }
}
