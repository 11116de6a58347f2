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

use hashbrown::{HashMap, HashSet};

use super::rule::{Rule, Truth, Window, WindowRow};
use super::rule_index::RuleIndex;
use super::state::{Judged, RuleState};
use crate::report::gain::{EncodedGain, Sum};
use crate::report::histogram::Histogram;
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

#[derive(Debug)]
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

/// Facts about a step beside its rows.
#[derive(Debug, Clone, Copy, Default)]
struct StepOf {
    covered_secs: u64,
    has_other: bool,
    grand: Totals,
}

/// The windows over one report that share an evaluation interval.
#[derive(Debug)]
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
    steps: VecDeque<StepOf>,
    running: StepOf,
    /// Number of completed steps.
    over: u64,
}

impl Windows {
    /// Creates windows for these rules, which watch one report. `step` may be longer than the
    /// rules' own.
    #[must_use]
    pub fn new(report: &str, step: u64, rules: &[(usize, &Rule)]) -> Self {
        let length = |rule: &Rule| rule.entry.window.div_ceil(step).max(1);
        let mut lengths: Vec<u64> = rules.iter().map(|it| length(it.1)).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let place = |rule| lengths.partition_point(|it| *it < length(rule));
        let mut index = RuleIndex::default();
        (0_u32..).zip(rules).for_each(|(at, it)| index.add(at, it.1));
        Self {
            report: report.to_owned(),
            step,
            rules: rules.iter().map(|it| (it.0, place(it.1))).collect(),
            index,
            lengths,
            rows: HashMap::default(),
            steps: VecDeque::new(),
            running: StepOf::default(),
            over: 0,
        }
    }

    /// Adds the gain of the running step.
    pub fn gain(&mut self, gained: &ReportGain, all: &[Arc<Rule>], room: &mut Room) {
        self.running.grand += &gained.grand;
        self.running.has_other |= gained.has_other;
        let longest = self.lengths.last().copied().unwrap_or_default();
        for RowGain { id, key, packed, extremes } in &gained.rows {
            if !self.rows.contains_key(id) {
                let possible = self.index.possible(key);
                let rules: Box<[u32]> = possible
                    .filter(|place| all[self.rules[*place as usize].0].concerns(key))
                    .collect();
                if rules.is_empty() {
                    continue;
                }
                if !room.take(ROW_BYTES + 2 * key.len()) {
                    // Treated as if it had gone to `(other)`.
                    self.running.has_other = true;
                    continue;
                }
                let row = Row {
                    key: key.clone(),
                    rules,
                    frames: VecDeque::new(),
                    running: None,
                    windows: vec![(0, Totals::ZERO); self.lengths.len()].into(),
                    partial_until: 0,
                };
                self.rows.insert(*id, row);
            }
            let Some(row) = self.rows.get_mut(id) else {
                continue;
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
        let longest = self.lengths.last().copied().unwrap_or_default();
        while self.steps.len() as u64 > longest {
            self.steps.pop_front();
        }
        let (over, lengths, mut bytes) = (self.over, &self.lengths, Vec::new());
        self.rows.retain(|_, row| {
            if let Some((sum, extremes)) = row.running.take() {
                sum.encode(&mut bytes, true);
                if room.take(FRAME_BYTES + bytes.len()) {
                    row.frames.push_back(Frame {
                        step: over,
                        packed: bytes.as_slice().into(),
                        extremes,
                    });
                    let windows = row.windows.iter_mut();
                    windows.for_each(|it| it.1 += &sum.totals);
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

    /// Returns the facts about the last `length` steps.
    fn window(&self, length: u64) -> Window {
        let steps = self.steps.iter().rev().take(length as usize);
        let mut window = Window::default();
        for step in steps {
            window.covered_secs += step.covered_secs;
            window.has_other |= step.has_other;
            window.grand += &step.grand;
        }
        window
    }

    /// Has each rule judge the rows it selects; passes on the rule's index, the window and the
    /// judgements.
    pub fn judge(
        &self,
        all: &[Arc<Rule>],
        states: &mut [RuleState],
        mut evaluated: impl FnMut(usize, &mut RuleState, &Window, &[Judged<'_>]),
    ) {
        let keys = self.rules.iter().map(|(at, _)| {
            let keys = states[*at].episodes.keys().filter_map(Option::as_deref);
            keys.collect::<HashSet<&[u8], ahash::RandomState>>()
        });
        let keys: Vec<_> = keys.collect();
        let mut concerned: Vec<Vec<&Row>> = vec![Vec::new(); self.rules.len()];
        for row in self.rows.values() {
            for place in &row.rules {
                let place = *place as usize;
                let (at, which) = self.rules[place];
                let (rule, (first, totals)) = (&all[at], &row.windows[which]);
                let is_there = *first < row.frames.len() || row.partial_until > self.over;
                // The others cannot be decided and have no alert.
                let matters = rule.is_of_absence()
                    || totals.requests >= rule.min_requests
                    || keys[place].contains(&*row.key);
                if is_there && matters {
                    concerned[place].push(row);
                }
            }
        }
        drop(keys);
        let windows: Vec<Window> = self.lengths.iter().map(|it| self.window(*it)).collect();
        for (&(at, which), rows) in self.rules.iter().zip(concerned) {
            let (rule, state, window) = (&all[at], &mut states[at], &windows[which]);
            let rows = rows.iter().map(|row| row.of(which, rule, self.over));
            let rows: Vec<WindowRow<'_>> = rows.collect();
            let judged = rule.judge(window, &rows);
            let judged =
                rows.iter().zip(judged).map(|(row, (truth, value))| (row.key, truth, value));
            let judged: Vec<Judged<'_>> = match rule.is_of_absence() {
                true => judged.collect(),
                false => {
                    let keys = state.episodes.keys().filter_map(Option::as_deref);
                    let keys: HashSet<&[u8], ahash::RandomState> = keys.collect();
                    let matters = |it: &Judged<'_>| it.1 == Truth::True || keys.contains(it.0);
                    judged.filter(matters).collect()
                }
            };
            evaluated(at, state, window, &judged);
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
            let counts = sum.histogram().map(Histogram::iter);
            // Without one, some of the gain was dropped before it got here.
            is_partial = counts.is_none();
            histogram = counts.map(|counts| {
                let mut all = Histogram::new();
                counts.for_each(|(bucket, count)| all.add(bucket, count));
                all
            });
        }
        WindowRow { key: &self.key, totals, extremes, histogram, is_partial }
    }
}
