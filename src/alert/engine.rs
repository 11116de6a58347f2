//! The rules, the contents of their windows and their alerts, advanced second by second.
//!
//! [`Engine::take`] is called for every second once it is over: by the daemon's alerts thread with
//! seconds of the stream, by `pinbad alert test` with minutes of history. Steps are multiples of
//! the time that has passed since the wall-clock second at which the engine started, so setting the
//! clock moves nothing. Pure: no clock, no thread.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::objective::{Budget, Objective, verdict};
use super::rule::Rule;
use super::state::{Episode, Moment, RuleState, Sink};
use super::windows::{Gain, Room, Windows};
use crate::report::row_key::{key_of, key_texts};

/// Longest stop that a pending alert survives, seconds.
const PENDING_AWAY_SECS: u64 = 3_600;

/// A rule's alerts as saved across a restart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedRule {
    name: String,
    identity: String,
    /// Labels that all its alerts have.
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    /// By key texts; `null` stands for the rows without an alert of their own.
    episodes: Vec<(Option<Vec<String>>, Episode)>,
    known: Vec<Vec<String>>,
    /// For how many seconds each of these has been away.
    #[serde(default)]
    away: Vec<u64>,
}

/// The active rules and their state.
#[derive(Debug, Default)]
pub struct Engine {
    /// The rules and their alerts.
    pub rules: Vec<RuleState>,
    /// Alerts of removed rules, kept until they are forgotten.
    pub gone: Vec<RuleState>,
    /// Windows by report and length.
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
    pub(crate) fn new(rules: &[Arc<Rule>], memory: usize, step_min: u64) -> Self {
        let mut engine = Self { room: Room { used: 0, max: memory }, step_min, ..Self::default() };
        engine.replace(rules, 0, &mut |_, _| ());
        engine
    }

    /// Replaces the rules. Unchanged rules keep their alerts, unchanged objectives their budgets,
    /// and windows over an unchanged report their contents. Passes each alert that ends with its
    /// rule to `each`.
    pub fn replace(&mut self, rules: &[Arc<Rule>], unix: u64, each: Sink<'_>) {
        let mut old = std::mem::take(&mut self.rules);
        for rule in rules {
            let like = old.extract_if(.., |it| it.rule.is_like(rule)).next();
            let mut state = like.unwrap_or_else(|| RuleState::new(Arc::clone(rule)));
            // What is over keeps the labels that it had.
            if state.rule.labels(None) != rule.labels(None) {
                self.gone.push(state.take_over());
            }
            self.rules.push(RuleState { rule: Arc::clone(rule), ..state });
        }
        old.iter_mut().for_each(|it| it.end(unix, each));
        self.gone.append(&mut old);

        let mut old = std::mem::take(&mut self.budgets);
        for objective in Objective::each(rules) {
            let mut like = old.extract_if(.., |it| it.objective.counts_as(objective));
            let mut budget = like.next().unwrap_or_else(|| Budget::new(Arc::clone(objective)));
            budget.objective = Arc::clone(objective);
            self.budgets.push(budget);
        }

        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (at, rule) in rules.iter().enumerate().filter(|it| it.1.objective().is_none()) {
            alike.entry((&rule.entry.report, rule.entry.window)).or_default().push(at);
        }
        let mut old = std::mem::take(&mut self.windows);
        let windows = alike.into_values().map(|places| {
            let new = Windows::new(self.step_min, places, rules);
            let kept = old.extract_if(.., |it| it.is_like(&new)).next();
            new.after(kept)
        });
        self.windows = windows.collect();
        self.room.used = self.windows.iter().map(Windows::bytes).sum();
    }

    /// Advances by the seconds of `gain` and passes each state change to `each`, with its rule.
    /// Rules are evaluated at its end, and at each second that was lost before it.
    pub fn take(&mut self, gain: &Gain, each: Sink<'_>) {
        self.now.get_or_insert(gain.unix);
        for left in (1..=gain.lost_secs).rev() {
            let unix = gain.unix.saturating_sub(left);
            self.pass(&Gain { unix, secs: 1, ..Gain::default() }, each);
        }
        self.pass(gain, each);
    }

    fn pass(&mut self, gain: &Gain, each: Sink<'_>) {
        let Self { rules, windows, room, budgets, .. } = self;
        let before = self.now.unwrap_or_default();
        let (now, unix) = (before + gain.secs, gain.unix + gain.secs);
        let moment = Moment { unix, passed: gain.secs };
        for (objective, count) in &gain.counts {
            let of = budgets.iter_mut().filter(|it| it.objective.counts_as(objective));
            of.for_each(|it| it.total += count);
        }
        for budget in budgets.iter_mut() {
            (before..now).for_each(|second| budget.pass(second + 1));
            let burns = budget.burns();
            let mut is_paged = false;
            for state in rules.iter_mut().filter(|it| it.rule.is_of(&budget.objective)) {
                let own = || verdict(&burns, &state.rule.entry.severity);
                let judgement = if is_paged { Some((false, None)) } else { own() };
                is_paged |= judgement.is_some_and(|it| it.0);
                state.step(moment, Some(Box::default()), judgement, each);
            }
        }
        for windows in windows.iter_mut() {
            let passed = windows.pass(before, gain, room);
            if passed > 0 {
                windows.evaluate(rules, Moment { unix, passed }, each);
            }
        }
        self.now = Some(now);
        self.gone.retain_mut(|it| it.fade(gain.secs));
    }

    /// Gives an objective its past; what has been counted since is added to that.
    pub(super) fn refill(&mut self, mut past: Budget) {
        let mut budgets = self.budgets.iter_mut();
        if let Some(budget) = budgets.find(|it| it.objective.counts_as(&past.objective)) {
            past.go_on(budget, self.now.unwrap_or_default());
            *budget = past;
        }
    }

    /// Returns all alerts with their rules and the keys of their rows.
    pub fn alerts(&self) -> impl Iterator<Item = (&Arc<Rule>, Option<&[u8]>, &Episode)> {
        let all = self.rules.iter().chain(&self.gone);
        all.flat_map(|of| of.alerts().map(|(key, episode)| (&of.rule, key, episode)))
    }

    /// Returns the state to save across a restart.
    pub(super) fn save(&self) -> Vec<SavedRule> {
        let texts = |key: &[u8]| key_texts(key).map(str::to_owned).collect();
        let saved = self.rules.iter().map(|it| SavedRule {
            name: it.rule.entry.name.clone(),
            identity: it.rule.identity(),
            labels: Some(it.rule.labels(None)),
            episodes: it.alerts().map(|(key, it)| (key.map(texts), it.clone())).collect(),
            known: it.known.keys().map(|key| texts(key)).collect(),
            away: it.known.values().copied().collect(),
        });
        saved.collect()
    }

    /// Restores the state saved by a process that ended `stopped` seconds ago.
    pub fn restore(&mut self, saved: Vec<SavedRule>, stopped: u64) {
        for SavedRule { name, identity, labels, episodes, known, away } in saved {
            let mut rules = self.rules.iter_mut();
            // Files of older versions have identities without the keys.
            let is_like = |it: &Rule| it.entry.name == name && it.identity().ends_with(&identity);
            let Some(state) = rules.find(|it| is_like(&it.rule)) else { continue };
            let keys = state.rule.keys.len();
            let fits = |texts: &Vec<String>| texts.len() == keys;
            let key = |texts: Vec<String>| Box::<[u8]>::from(key_of(texts));
            let kept = episodes.into_iter().filter(|it| it.0.as_ref().is_none_or(fits));
            state.episodes.extend(kept.map(|(texts, it)| (texts.map(key), it)));
            if stopped > PENDING_AWAY_SECS {
                state.drop_pending();
            }
            if labels.is_some_and(|it| it != state.rule.labels(None)) {
                // Receivers know it by other labels.
                let _over = state.take_over();
            }
            let known = known.into_iter().zip(away.into_iter().chain(iter::repeat(0)));
            let known = known.filter(|it| fits(&it.0));
            state.known = known.map(|(texts, away)| (key(texts), away)).collect();
        }
    }
}
