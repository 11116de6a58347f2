//! Gains of a report's rows over the windows of rules.
//!
//! ```text
//!   seconds -> running step -> frames of a row, one a step
//!                                |<---- the window: its sums are kept, its histogram is added up when a rule asks ---->|
//! ```
//!
//! One [`Windows`] for each report and length of a window. Only rows that a rule selects are kept,
//! within the memory of [`Room`]. A row whose gain does not fit is unknown for the length of the
//! window. Owned by the thread that evaluates.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use hashbrown::{HashMap, HashSet};

use super::row::{Frame, Row, RuleSet, Running};
use super::rule::{Rule, Window};
use super::rule_index::RuleIndex;
use super::state::{Events, Moment, RuleState};
use crate::report::encoded_gain::EncodedGain;
use crate::report::totals::{Extremes, Totals};

/// Size of a row beside its key, including its place in a hash table.
const ROW_BYTES: usize = 2 * size_of::<Row>();
/// Size of a frame beside its encoded bytes, including the allocator's overhead and the id of its
/// row in a list.
const FRAME_BYTES: usize = size_of::<Frame>() + 24;

/// Size of a row without its frames and its rules, which it shares.
fn row_bytes(key: &[u8]) -> usize {
    ROW_BYTES + 2 * key.len()
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

/// Gain of a row in a second.
#[derive(Debug, Clone, Copy)]
pub struct RowGain<'a> {
    /// Its id.
    pub id: u64,
    /// Its key.
    pub key: &'a [u8],
    /// Encoded sums and histogram.
    pub packed: &'a [u8],
    /// Its extremes.
    pub extremes: Extremes,
}

/// Gain of a report in a second: the rows that a rule selects, and totals of all rows.
#[derive(Debug, Clone, Default)]
pub struct ReportGain {
    /// Its name.
    pub report: String,
    /// Of each row: its id and extremes, and the lengths of its key and its encoded gain.
    rows: Vec<(u64, Extremes, [usize; 2])>,
    /// Keys and gains, in the order of the rows.
    bytes: Vec<u8>,
    /// Totals of all rows.
    pub grand: Totals,
    /// True if some gain went to `(other)`.
    pub has_other: bool,
}

impl ReportGain {
    /// Returns the gain of a report in which nothing was counted.
    #[must_use]
    pub fn nothing(report: &str) -> Self {
        Self { report: report.to_owned(), ..Self::default() }
    }

    /// Adds the gain of a row.
    pub fn push(&mut self, RowGain { id, key, packed, extremes }: RowGain<'_>) {
        self.rows.push((id, extremes, [key.len(), packed.len()]));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(packed);
    }

    /// Returns the gains of its rows.
    pub fn rows(&self) -> impl Iterator<Item = RowGain<'_>> {
        let mut rest = &*self.bytes;
        self.rows.iter().map(move |&(id, extremes, lengths)| {
            let [key, packed] = lengths.map(|len| rest.split_off(..len).unwrap_or_default());
            RowGain { id, key, packed, extremes }
        })
    }

    /// Size in memory, bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.rows.capacity() * size_of::<(u64, Extremes, [usize; 2])>()
    }
}

/// The windows of one length over the rows of one report.
#[derive(Debug, Default)]
pub struct Windows {
    /// Name of the report.
    pub report: String,
    /// Evaluation interval, seconds.
    pub step: u64,
    /// Length in steps.
    length: u64,
    /// Index of each rule.
    rules: Vec<usize>,
    index: RuleIndex,
    /// The rules of each row.
    sets: HashSet<Arc<RuleSet>, ahash::RandomState>,
    rows: HashMap<u64, Row, ahash::RandomState>,
    /// Gains of the running step, `None` where there was no room, and the rows with one in each
    /// completed step of the window.
    touched: Vec<(u64, Option<Running>)>,
    gained: VecDeque<Vec<u64>>,
    /// Completed steps, newest last.
    steps: VecDeque<Window>,
    pub(super) running: Window,
    /// Number of completed steps.
    over: u64,
    /// The step until which rows that come are incomplete: rules before did not select them.
    whole_from: u64,
}

impl Windows {
    /// Creates windows for the rules at `places`, which watch one report over one length. `step`
    /// may be longer than the rules' own.
    pub(super) fn new(step: u64, places: &[usize], all: &[Arc<Rule>]) -> Self {
        let entry = &all[places[0]].entry;
        let mut index = RuleIndex::default();
        places.iter().for_each(|at| index.add(&all[*at]));
        Self {
            report: entry.report.clone(),
            step,
            length: entry.window.div_ceil(step).max(1),
            rules: places.to_vec(),
            index,
            ..Self::default()
        }
    }

    /// Returns whether other windows are over the same report and as long.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|it| &it.index.rules[0]);
        own.report == others.report && own.entry.window == others.entry.window
    }

    /// Gives the rows to windows alike of other rules.
    pub(super) fn with_rules(mut self, mut new: Self) -> Self {
        self.rows.retain(|_, row| {
            let rules = new.index.of_row(&row.key);
            let is_selected = !rules.numbers.is_empty();
            if is_selected {
                row.rules = Arc::clone(new.sets.get_or_insert(Arc::new(rules)));
            }
            is_selected
        });
        if !self.index.has_all(&new.index) {
            self.whole_from = self.over + self.length + 1;
        }
        let Self { rules, index, sets, .. } = new;
        Self { rules, index, sets, ..self }
    }

    /// Size of its rows, bytes.
    pub(super) fn bytes(&self) -> usize {
        let frames = self.rows.values().flat_map(|it| &it.frames);
        let frames = frames.map(|it| FRAME_BYTES + it.packed.len());
        let rows = self.rows.values().map(|it| row_bytes(&it.key));
        frames.chain(rows).chain(self.sets.iter().map(|it| it.bytes())).sum()
    }

    /// Adds the gain of the running step.
    pub fn gain(&mut self, gained: &ReportGain, room: &mut Room) {
        self.running.grand += &gained.grand;
        self.running.has_other |= gained.has_other;
        for RowGain { id, key, packed, extremes } in gained.rows() {
            let row = match self.rows.entry(id) {
                Entry::Occupied(row) => row.into_mut(),
                Entry::Vacant(place) => {
                    let rules = self.index.of_row(key);
                    if rules.numbers.is_empty() {
                        continue;
                    }
                    let known = self.sets.get(&rules);
                    let set_bytes = if known.is_none() { rules.bytes() } else { 0 };
                    if !room.take(row_bytes(key) + set_bytes) {
                        // Treated as if it had gone to `(other)`.
                        self.running.has_other = true;
                        continue;
                    }
                    let rules = Arc::clone(self.sets.get_or_insert(Arc::new(rules)));
                    let (key, whole_from) = (key.into(), self.whole_from);
                    place.insert(Row { key, rules, whole_from, ..Row::default() })
                }
            };
            match self.touched.get_mut(row.running.wrapping_sub(1) as usize) {
                Some((_, running)) => running.iter_mut().for_each(|it| it.add(packed, &extremes)),
                None => {
                    let frame = Frame { step: self.over + 1, packed: packed.into(), extremes };
                    let running = Some(Running { frame, sum: None });
                    self.touched.push((id, running.filter(|_| room.used < room.max)));
                    row.running = self.touched.len() as u32;
                }
            }
        }
    }

    /// Completes the running step. Only rows that gain something, or lose some of it, are visited.
    pub fn end_step(&mut self, room: &mut Room) {
        self.over += 1;
        self.steps.push_back(std::mem::take(&mut self.running));
        if self.steps.len() as u64 > self.length {
            self.steps.pop_front();
        }
        let touched = std::mem::take(&mut self.touched).into_iter();
        let gained = touched.filter_map(|(id, running)| {
            let row = self.rows.get_mut(&id)?;
            row.running = 0;
            let frame = running.map(Running::frame);
            match frame.filter(|it| room.take(FRAME_BYTES + it.packed.len())) {
                Some(frame) => {
                    row.totals += &EncodedGain(&frame.packed).read().0;
                    row.frames.push_back(frame);
                }
                None => row.whole_from = self.over + self.length,
            }
            Some(id)
        });
        self.gained.push_back(gained.collect());
        if self.gained.len() as u64 > self.length {
            let losing = self.gained.pop_front().unwrap_or_default();
            losing.into_iter().for_each(|id| self.forget(id, room));
        }
    }

    /// Removes frames that have left the window from a row, and the row if nothing is left of it.
    fn forget(&mut self, id: u64, room: &mut Room) {
        let Entry::Occupied(mut place) = self.rows.entry(id) else { return };
        let row = place.get_mut();
        let last_gone = self.over.saturating_sub(self.length);
        while let Some(gone) = row.frames.pop_front_if(|it| it.step <= last_gone) {
            row.totals -= &EncodedGain(&gone.packed).read().0;
            room.used -= FRAME_BYTES + gone.packed.len();
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
    pub fn evaluate(&self, states: &mut [RuleState], now: Moment, each: &mut Events<'_>) {
        let mut concerned: Vec<Vec<&Row>> = vec![Vec::new(); self.rules.len()];
        let rows = self.rows.values();
        for row in rows.filter(|row| row.totals.requests >= row.rules.min_requests) {
            for place in row.rules.each() {
                // The others cannot be decided.
                if row.totals.requests >= self.index.rules[place].min_requests {
                    concerned[place].push(row);
                }
            }
        }
        let mut window = Window { step: self.over, ..Window::default() };
        for step in &self.steps {
            window.covered_secs += step.covered_secs;
            window.has_other |= step.has_other;
            window.grand += &step.grand;
        }
        for (at, rows) in self.rules.iter().zip(concerned) {
            let state = &mut states[*at];
            let judged = state.rule.judge(&window, &rows);
            state.evaluate(now, &window, &judged, each);
        }
    }

    /// Adds the number of rows that each rule selects now.
    pub fn count(&self, rows: &mut [usize]) {
        for set in &self.sets {
            set.each().for_each(|place| rows[self.rules[place]] += Arc::strong_count(set) - 1);
        }
    }
}
