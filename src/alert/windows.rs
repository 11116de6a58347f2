//! What the rows of a report gained in the windows of rules.
//!
//! ```text
//!   seconds -> running step -> frames of a row, one a step, up to the longest window
//!                                |<---- a window: its sums are kept, its histogram is added up when a rule asks ---->|
//! ```
//!
//! One [`Windows`] for each report and step. Only rows that a rule concerns are kept, in the memory
//! of [`Room`]: what finds none makes its row unknown for as long as the longest window is. Owned
//! by the thread that evaluates.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use super::rule::{Rule, Truth, Window, WindowRow};
use super::state::{Judged, RuleState};
use crate::report::counts::Histogram;
use crate::report::gain::{EncodedGain, Sum};
use crate::report::reading::Extremes;
use crate::report::totals::Totals;

/// What a row takes beside its key, with its place in a table.
const ROW_BYTES: usize = 2 * size_of::<Row>();
/// What a frame takes beside its bytes, with what the allocator adds.
const FRAME_BYTES: usize = size_of::<Frame>() + 16;

/// Bytes for all windows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Room {
    /// Taken.
    pub used: usize,
    /// All.
    pub max: usize,
}

impl Room {
    fn take(&mut self, bytes: usize) -> bool {
        let has_room = self.used + bytes <= self.max;
        self.used += if has_room { bytes } else { 0 };
        has_room
    }
}

/// What a row gained in a second.
#[derive(Debug, Clone)]
pub struct RowGain {
    /// Its id.
    pub id: u64,
    /// Its key.
    pub key: Box<[u8]>,
    /// Sums and histogram, packed.
    pub packed: Box<[u8]>,
    /// Its extremes.
    pub extremes: Extremes,
}

/// What a report gained in a second: rows that a rule concerns, and what is known of all.
#[derive(Debug, Clone, Default)]
pub struct ReportGain {
    /// Its name.
    pub report: String,
    /// Its rows.
    pub rows: Vec<RowGain>,
    /// All rows together.
    pub grand: Totals,
    /// Something found no row of its own.
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
    /// Rules that it concerns, by their places among those of its windows.
    rules: Box<[u32]>,
    frames: VecDeque<Frame>,
    /// The step that is not over.
    running: Option<(Sum, Extremes)>,
    /// Of each window: its first frame, and its sums.
    windows: Box<[(usize, Totals)]>,
    /// Something that it gained up to this step is missing.
    partial_until: u64,
}

/// What is known of a step beside rows.
#[derive(Debug, Clone, Copy, Default)]
struct StepOf {
    covered_secs: u64,
    has_other: bool,
    grand: Totals,
}

/// The windows of one report that are looked at every so many seconds.
#[derive(Debug)]
pub struct Windows {
    /// Of which report.
    pub report: String,
    /// Seconds.
    pub step: u64,
    /// Places of the rules, and which of the windows each looks at.
    rules: Vec<(usize, usize)>,
    /// Lengths in steps, the longest last.
    lengths: Vec<u64>,
    rows: HashMap<u64, Row, ahash::RandomState>,
    /// Those that are over, the newest last.
    steps: VecDeque<StepOf>,
    running: StepOf,
    /// Steps that are over.
    over: u64,
}

impl Windows {
    /// Those of these rules, which are about one report and have one step (`step`, which may be
    /// longer than their own).
    #[must_use]
    pub fn new(report: &str, step: u64, rules: &[(usize, &Rule)]) -> Self {
        let length = |rule: &Rule| rule.entry.window.div_ceil(step).max(1);
        let mut lengths: Vec<u64> = rules.iter().map(|it| length(it.1)).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let place = |rule| lengths.partition_point(|it| *it < length(rule));
        Self {
            report: report.to_owned(),
            step,
            rules: rules.iter().map(|it| (it.0, place(it.1))).collect(),
            lengths,
            rows: HashMap::default(),
            steps: VecDeque::new(),
            running: StepOf::default(),
            over: 0,
        }
    }

    /// Takes in what was gained in the running step.
    pub fn gain(&mut self, gained: &ReportGain, all: &[Arc<Rule>], room: &mut Room) {
        self.running.grand += &gained.grand;
        self.running.has_other |= gained.has_other;
        let longest = self.lengths.last().copied().unwrap_or_default();
        for RowGain {
            id,
            key,
            packed,
            extremes,
        } in &gained.rows
        {
            if !self.rows.contains_key(id) {
                let rules = (0_u32..).zip(&self.rules);
                let concerned = rules.filter(|(_, it)| all[it.0].concerns(key));
                let rules: Box<[u32]> = concerned.map(|it| it.0).collect();
                if rules.is_empty() {
                    continue;
                }
                if !room.take(ROW_BYTES + 2 * key.len()) {
                    // As if it were among the others.
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

    /// Time has passed, of which so many seconds were counted; `is_end`: the step is over. Gives
    /// that back.
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

    /// What is known of a window of so many steps.
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

    /// Lets each of its rules judge what it concerns: gives the place of the rule, the window and
    /// what was found.
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
                // Of others nothing can be said, and nothing has been.
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
            let judged = rows
                .iter()
                .zip(judged)
                .map(|(row, (truth, value))| (row.key, truth, value));
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

    /// Adds how many rows each rule concerns now.
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
            // Without one, some of it had found no room before it came here.
            is_partial = counts.is_none();
            histogram = counts.map(|counts| {
                let mut all = Histogram::new();
                counts.for_each(|(bucket, count)| all.add(bucket, count));
                all
            });
        }
        WindowRow {
            key: &self.key,
            totals,
            extremes,
            histogram,
            is_partial,
        }
    }
}
