//! Gains of a report's rows over the windows of rules.
//!
//! ```text
//!   seconds -> frames of a row, one a step, the running one last
//!                |<---- the window: its sums are kept, its histogram is added up when a rule asks ---->|
//! ```
//!
//! One [`Windows`] for each report and length of a window. Only rows that a rule selects are kept,
//! within the memory of [`Room`]. A row whose gain does not fit is unknown for the length of the
//! window. Owned by the thread that evaluates.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::objective::{Count, Objective};
use super::row::{Frame, Row, RuleSet};
use super::rule::{Rule, Window};
use super::rule_index::RuleIndex;
use super::state::{Moment, RuleState, Sink};
use crate::report::totals::{Extremes, Totals};

/// Size of a row and its place in a hash table, without its frames and its rules, which it shares.
fn row_bytes(key: &[u8]) -> usize {
    2 * size_of::<Row>() + 2 * key.len()
}

/// Memory budget of all windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    /// Bytes in use.
    pub used: usize,
    /// Maximum, bytes.
    pub max: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.used + bytes <= self.max;
        self.used += if has_room { bytes } else { 0 };
        has_room
    }
}

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
        let row = |it: &RowGain| size_of::<RowGain>() + it.key.len() + it.packed.len();
        let rows: usize = self.reports.iter().flat_map(|it| &it.rows).map(row).sum();
        size_of::<Self>() + size_of_val(&*self.reports) + rows + size_of_val(&*self.counts)
    }
}

/// Gain of a row in a second.
#[derive(Debug, Clone)]
pub struct RowGain {
    /// Its id.
    pub id: u64,
    /// Its key.
    pub key: Box<[u8]>,
    /// Encoded sums and histogram.
    pub packed: Box<[u8]>,
    /// Its extremes.
    pub extremes: Extremes,
}

/// Gain of a report in a second.
#[derive(Debug, Clone, Default)]
pub struct ReportGain {
    /// Its name.
    pub report: String,
    /// Those of its rows that a rule selects.
    pub rows: Vec<RowGain>,
    /// Totals of all rows.
    pub grand: Totals,
    /// True if some gain went to `(other)`.
    pub has_other: bool,
}

impl ReportGain {
    /// Returns the gain of a report in which nothing was counted.
    pub(crate) fn nothing(report: &str) -> Self {
        Self { report: report.to_owned(), ..Self::default() }
    }
}

/// Keeps a frame of a row, if there is room; otherwise the row is unknown for the length of the
/// window.
fn keep(row: &mut Row, frame: Frame, room: &mut Room, length: u64) {
    if room.take(frame.bytes()) {
        row.totals += &frame.totals();
        row.frames.push_back(frame);
    } else {
        row.whole_from = frame.step + length;
    }
}

/// A step of a report's windows.
#[derive(Debug, Default)]
struct Step {
    window: Window,
    /// The rows that gained something in it.
    gained: Vec<u64>,
    /// Number of steps before this one in which a part of its gain came: nothing was merged in
    /// them.
    early: u64,
}

/// The windows of one length over the rows of one report.
#[derive(Debug, Default)]
pub struct Windows {
    /// Evaluation interval, seconds.
    step: u64,
    /// Length in steps.
    length: u64,
    /// Index of each rule.
    rules: Vec<usize>,
    index: RuleIndex,
    /// The rules of each row.
    sets: HashSet<Arc<RuleSet>, ahash::RandomState>,
    rows: HashMap<u64, Row, ahash::RandomState>,
    /// Completed steps, newest last.
    steps: VecDeque<Step>,
    running: Step,
    /// Number of completed steps.
    over: u64,
    /// The step until which rows that come are incomplete: rules before did not select them.
    whole_from: u64,
}

impl Windows {
    /// Creates windows for the rules at `places`, which watch one report over one length, with
    /// steps no shorter than `step_min`.
    pub(super) fn new(step_min: u64, places: Vec<usize>, all: &[Arc<Rule>]) -> Self {
        let Rule { entry, step, .. } = &*all[places[0]];
        let step = step_min.max(*step);
        let mut index = RuleIndex::default();
        places.iter().for_each(|at| index.add(&all[*at]));
        Self {
            step,
            length: entry.window.div_ceil(step).max(1),
            rules: places,
            index,
            ..Self::default()
        }
    }

    /// Returns whether other windows are over the same report and as long.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| &it.index.rules[0]);
        own.report == others.report && own.entry.window == others.entry.window
    }

    /// Takes over the rows of windows alike, which other rules had.
    pub(super) fn after(mut self, kept: Option<Self>) -> Self {
        let Some(mut kept) = kept else { return self };
        kept.rows.retain(|_, row| {
            let rules = self.index.of_row(&row.key);
            let rules = rules.map(|it| Arc::clone(self.sets.get_or_insert(Arc::new(it))));
            rules.map(|it| row.rules = it).is_some()
        });
        let is_known = |rule: &Arc<Rule>| kept.index.rules.iter().any(|it| it.is_like(rule));
        if !self.index.rules.iter().all(is_known) {
            kept.whole_from = kept.over + kept.length + 1;
        }
        let Self { rules, index, sets, .. } = self;
        Self { rules, index, sets, ..kept }
    }

    /// Size of its rows, bytes.
    pub(super) fn bytes(&self) -> usize {
        let frames = self.rows.values().flat_map(|it| &it.frames).map(Frame::bytes);
        let rows = self.rows.values().map(|it| row_bytes(&it.key));
        frames.chain(rows).chain(self.sets.iter().map(|it| it.bytes())).sum()
    }

    /// Advances by the seconds of a gain, after `before` of the stream; returns the length of the
    /// steps completed by them.
    pub(super) fn pass(&mut self, before: u64, gain: &Gain, room: &mut Room) -> u64 {
        let report = &self.index.rules[0].entry.report;
        let gained: Vec<_> = gain.reports.iter().filter(|it| it.report == *report).collect();
        let covered = before + if gained.is_empty() { 0 } else { gain.covered_secs };
        let (now, over) = (before + gain.secs, self.over);
        // Requests of the seconds in which none were merged come with the last one.
        let booked = (now - now % self.step).max(before + 1);
        for second in before + 1..=now {
            if second == booked {
                self.running.early = self.over - over;
                gained.iter().for_each(|it| self.gain(it, room));
            }
            self.running.window.covered_secs += u64::from(second <= covered);
            if second.is_multiple_of(self.step) {
                self.end_step(room);
            }
        }
        (self.over - over) * self.step
    }

    /// Adds the gain of the running step.
    fn gain(&mut self, gained: &ReportGain, room: &mut Room) {
        let Step { window, gained: ids, .. } = &mut self.running;
        window.grand += &gained.grand;
        window.has_other |= gained.has_other;
        for RowGain { id, key, packed, extremes } in &gained.rows {
            let row = match self.rows.entry(*id) {
                Entry::Occupied(row) => row.into_mut(),
                Entry::Vacant(place) => {
                    let Some(rules) = self.index.of_row(key) else { continue };
                    let set_bytes = if self.sets.contains(&rules) { 0 } else { rules.bytes() };
                    if !room.take(row_bytes(key) + set_bytes) {
                        // Treated as if it had gone to `(other)`.
                        window.has_other = true;
                        continue;
                    }
                    let rules = Arc::clone(self.sets.get_or_insert(Arc::new(rules)));
                    let (key, whole_from) = (key.clone(), self.whole_from);
                    place.insert(Row { key, rules, whole_from, ..Row::default() })
                }
            };
            let step = self.over + 1;
            if std::mem::replace(&mut row.gained_in, step) < step {
                ids.push(*id);
                let frame = Frame { step, packed: packed.clone(), extremes: *extremes };
                keep(row, frame, room, self.length);
            } else if let Some(mut frame) = row.frames.pop_back_if(|it| it.step == step) {
                row.totals -= &frame.totals();
                room.used -= frame.bytes();
                frame.add(packed, extremes);
                keep(row, frame, room, self.length);
            }
        }
    }

    /// Completes the running step. Only rows that lose some of their gain are visited.
    fn end_step(&mut self, room: &mut Room) {
        self.over += 1;
        self.steps.push_back(std::mem::take(&mut self.running));
        if self.steps.len() as u64 > self.length {
            let losing = self.steps.pop_front().map(|it| it.gained);
            losing.into_iter().flatten().for_each(|id| self.forget(id, room));
        }
    }

    /// Removes frames that have left the window from a row, and the row if nothing is left of it.
    fn forget(&mut self, id: u64, room: &mut Room) {
        let last_gone = self.over.saturating_sub(self.length);
        let Entry::Occupied(mut place) = self.rows.entry(id) else { return };
        let row = place.get_mut();
        while let Some(gone) = row.frames.pop_front_if(|it| it.step <= last_gone) {
            row.totals -= &gone.totals();
            room.used -= gone.bytes();
        }
        if row.frames.is_empty() && row.whole_from <= self.over {
            let Row { key, rules, .. } = place.remove();
            room.used -= row_bytes(&key);
            // This one, and that of the sets.
            if Arc::strong_count(&rules) == 2 && self.sets.remove(&rules) {
                room.used -= rules.bytes();
            }
        }
    }

    /// Has each rule judge the rows it selects, and applies the judgements to its alerts.
    pub fn evaluate(&self, states: &mut [RuleState], now: Moment, each: Sink<'_>) {
        let mut concerned: Vec<Vec<&Row>> = vec![Vec::new(); self.rules.len()];
        // The others cannot be decided.
        let is_enough = |row: &&Row, least: u64| row.totals.requests >= least;
        for row in self.rows.values().filter(|row| is_enough(row, row.rules.min_requests)) {
            let places = row.rules.numbers.iter();
            let places = places.filter(|it| is_enough(&row, self.index.rules[**it].min_requests));
            places.for_each(|place| concerned[*place].push(row));
        }
        let mut window = Window { step: self.over, ..Window::default() };
        for Step { window: step, .. } in &self.steps {
            window.covered_secs += step.covered_secs;
            window.has_other |= step.has_other;
            window.grand += &step.grand;
        }
        let cut = self.cut(window);
        for (at, rows) in self.rules.iter().zip(concerned) {
            let state = &mut states[*at];
            let mut judged = state.rule.judge(&window, &rows);
            if let Some((step, window)) = &cut {
                let rows: Vec<Row> = rows.iter().map(|row| row.without(*step)).collect();
                let rows: Vec<&Row> = rows.iter().collect();
                for ((_, most), (_, least)) in
                    judged.iter_mut().zip(state.rule.judge(window, &rows))
                {
                    *most = most.filter(|it| least.is_some_and(|least| least.0 == it.0));
                }
            }
            state.evaluate(now, &window, &judged, each);
        }
    }

    /// Returns the step with a gain inside which the window begins, and the window without that
    /// step: an unknown part of the gain came in the window.
    fn cut(&self, mut window: Window) -> Option<(u64, Window)> {
        let (place, step) = (1..).zip(&self.steps).find(|(place, step)| step.early >= *place)?;
        window.grand -= &step.window.grand;
        Some((self.over.saturating_sub(self.length) + place, window))
    }

    /// Adds the number of rows that each rule selects now.
    pub fn count(&self, rows: &mut [usize]) {
        for set in &self.sets {
            let places = set.numbers.iter();
            places.for_each(|place| rows[self.rules[*place]] += Arc::strong_count(set) - 1);
        }
    }
}
