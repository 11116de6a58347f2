//! Gains of a report's rows over the windows of rules.
//!
//! ```text
//!   seconds -> running step -> frames of a row, one a step, up to the longest window
//!                                |<---- a window: its sums are kept, its histogram is added up when a rule asks ---->|
//! ```
//!
//! One [`Windows`] for each report and step. Only rows that a rule selects are kept, within the
//! memory of [`Room`]. A row whose gain does not fit is unknown for the length of the longest
//! window. Owned by the thread that evaluates.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::rule::{Rule, Window, WindowRow};
use super::rule_index::RuleIndex;
use super::state::{Event, Moment, RuleState};
use crate::report::gain::{EncodedGain, Sum};
use crate::report::reading::Extremes;
use crate::report::totals::Totals;

/// Size of a row beside its key, including its place in a hash table.
const ROW_BYTES: usize = 2 * size_of::<Row>();
/// Size of a frame beside its encoded bytes, including the allocator's overhead.
const FRAME_BYTES: usize = size_of::<Frame>() + 16;

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

/// Gain of a report in a second: the rows that a rule selects, and totals of all rows.
#[derive(Debug, Clone, Default)]
pub struct ReportGain {
    /// Its name.
    pub report: String,
    /// Its rows.
    pub rows: Vec<RowGain>,
    /// Totals of all rows.
    pub grand: Totals,
    /// True if some gain went to `(other)`.
    pub has_other: bool,
}

/// Gain of a row in a step.
#[derive(Debug)]
struct Frame {
    step: u64,
    packed: Box<[u8]>,
    extremes: Extremes,
}

#[derive(Debug, Default)]
struct Row {
    key: Box<[u8]>,
    /// Rules that select the row, as indexes into those of its windows.
    rules: Box<[u32]>,
    frames: VecDeque<Frame>,
    /// Gain of the running step.
    running: Option<(Sum, Extremes)>,
    /// For each window, the index of its first frame, and its sums.
    windows: Box<[(usize, Totals)]>,
    /// Step up to which the row is incomplete, because some of its gain did not fit.
    partial_until: u64,
}

/// The windows over one report that share an evaluation interval.
#[derive(Debug, Default)]
pub struct Windows {
    /// Name of the report.
    pub report: String,
    /// Evaluation interval, seconds.
    pub step: u64,
    /// Index of each rule, and of the window it uses.
    rules: Vec<(usize, usize)>,
    index: RuleIndex,
    /// Lengths in steps, in ascending order.
    lengths: Vec<u64>,
    rows: HashMap<u64, Row, ahash::RandomState>,
    /// Completed steps, newest last.
    steps: VecDeque<Window>,
    running: Window,
    /// Number of completed steps.
    over: u64,
}

impl Windows {
    /// Creates windows for the rules at `places`, which watch one report. `step` may be longer than
    /// the rules' own.
    pub(super) fn new(step: u64, places: &[usize], all: &[Arc<Rule>]) -> Self {
        let length = |at: &usize| all[*at].entry.window.div_ceil(step).max(1);
        let mut lengths: Vec<u64> = places.iter().map(length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let which = |at| lengths.partition_point(|it| *it < length(at));
        let mut index = RuleIndex::default();
        places.iter().for_each(|at| index.add(&all[*at]));
        Self {
            report: all[places[0]].entry.report.clone(),
            step,
            rules: places.iter().map(|at| (*at, which(at))).collect(),
            index,
            lengths,
            ..Self::default()
        }
    }

    fn longest(&self) -> u64 {
        self.lengths.last().copied().unwrap_or_default()
    }

    /// Adds the gain of the running step.
    pub fn gain(&mut self, gained: &ReportGain, room: &mut Room) {
        self.running.grand += &gained.grand;
        self.running.has_other |= gained.has_other;
        let longest = self.longest();
        for RowGain { id, key, packed, extremes } in &gained.rows {
            let row = match self.rows.entry(*id) {
                Entry::Occupied(row) => row.into_mut(),
                Entry::Vacant(place) => {
                    let rules: Box<[u32]> = self.index.selecting(key).collect();
                    if rules.is_empty() {
                        continue;
                    }
                    if !room.take(ROW_BYTES + 2 * key.len()) {
                        // Treated as if it had gone to `(other)`.
                        self.running.has_other = true;
                        continue;
                    }
                    let windows = vec![(0, Totals::ZERO); self.lengths.len()].into();
                    place.insert(Row { key: key.clone(), rules, windows, ..Row::default() })
                }
            };
            if row.running.is_none() && room.used >= room.max {
                row.partial_until = self.over + longest + 1;
                continue;
            }
            let (sum, seen) = row.running.get_or_insert_default();
            sum.add(EncodedGain(packed));
            seen.widen(extremes);
        }
    }

    /// Advances the time, of which `covered` seconds were counted. If `is_end`, completes the step.
    /// Returns `is_end`.
    pub fn pass(&mut self, covered: u64, is_end: bool, room: &mut Room) -> bool {
        self.running.covered_secs += covered;
        if !is_end {
            return false;
        }
        self.steps.push_back(std::mem::take(&mut self.running));
        self.over += 1;
        let (over, longest) = (self.over, self.longest());
        if self.steps.len() as u64 > longest {
            self.steps.pop_front();
        }
        let (lengths, mut bytes) = (&self.lengths, Vec::new());
        self.rows.retain(|_, row| {
            if let Some((sum, extremes)) = row.running.take() {
                sum.encode(&mut bytes, true);
                if room.take(FRAME_BYTES + bytes.len()) {
                    let packed = bytes.as_slice().into();
                    row.frames.push_back(Frame { step: over, packed, extremes });
                    row.windows.iter_mut().for_each(|it| it.1 += &sum.totals);
                } else {
                    row.partial_until = over + longest;
                }
            }
            for ((first, totals), length) in row.windows.iter_mut().zip(lengths) {
                while let Some(frame) = row.frames.get(*first)
                    && frame.step + length <= over
                {
                    *totals -= &EncodedGain(&frame.packed).read().0;
                    *first += 1;
                }
            }
            while row.windows.iter().all(|it| it.0 > 0) {
                row.windows.iter_mut().for_each(|it| it.0 -= 1);
                let gone = row.frames.pop_front();
                room.used -= gone.map_or(0, |it| FRAME_BYTES + it.packed.len());
            }
            let stays = !row.frames.is_empty() || row.partial_until > over;
            if !stays {
                room.used -= ROW_BYTES + 2 * row.key.len();
            }
            stays
        });
        true
    }

    /// Has each rule judge the rows it selects, and applies the judgements to its alerts.
    pub fn evaluate(
        &self,
        states: &mut [RuleState],
        unix: u64,
        each: &mut impl FnMut(&Rule, &Event<'_>),
    ) {
        let mut concerned: Vec<Vec<&Row>> = vec![Vec::new(); self.rules.len()];
        for row in self.rows.values() {
            for place in &row.rules {
                let place = *place as usize;
                let (at, which) = self.rules[place];
                let (state, (first, totals)) = (&states[at], &row.windows[which]);
                let is_there = *first < row.frames.len() || row.partial_until > self.over;
                // The others cannot be decided and have no alert.
                let matters = state.rule.is_of_absence()
                    || totals.requests >= state.rule.min_requests
                    || state.episodes.contains_key(&row.key);
                if is_there && matters {
                    concerned[place].push(row);
                }
            }
        }
        let windows = self.lengths.iter().map(|length| {
            let mut window = Window::default();
            for step in self.steps.iter().rev().take(*length as usize) {
                window.covered_secs += step.covered_secs;
                window.has_other |= step.has_other;
                window.grand += &step.grand;
            }
            window
        });
        let windows: Vec<Window> = windows.collect();
        let now = Moment { unix, passed: self.step };
        for (&(at, which), rows) in self.rules.iter().zip(concerned) {
            let (state, window) = (&mut states[at], &windows[which]);
            let rows = rows.iter().map(|row| row.of(which, &state.rule, self.over));
            let rows: Vec<WindowRow<'_>> = rows.collect();
            let judged = state.rule.judge(window, &rows);
            state.evaluate(now, window, &judged, each);
        }
    }

    /// Adds the number of rows that each rule selects now.
    pub fn count(&self, rows: &mut [usize]) {
        let rules = self.rows.values().flat_map(|it| &it.rules);
        rules.for_each(|place| rows[self.rules[*place as usize].0] += 1);
    }
}

impl Row {
    fn of<'a>(&'a self, which: usize, rule: &Rule, over: u64) -> WindowRow<'a> {
        let (first, totals) = self.windows[which];
        let frames = || self.frames.iter().skip(first);
        let mut extremes = Extremes::NOTHING;
        frames().for_each(|it| extremes.widen(&it.extremes));
        let mut is_partial = self.partial_until > over;
        let mut histogram = None;
        if rule.wants_histogram(&totals) && !is_partial {
            let mut sum = Sum::default();
            frames().for_each(|it| sum.add(EncodedGain(&it.packed)));
            histogram = sum.histogram().cloned();
            // Without one, some of the gain was dropped before it got here.
            is_partial = histogram.is_none();
        }
        WindowRow { key: &self.key, totals, extremes, histogram, is_partial }
    }
}
