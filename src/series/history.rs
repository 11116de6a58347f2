//! The last hour: 300 blocks of a second, 360 of ten, in a fixed share of memory each.
//!
//! Written by the series thread, a block a second; readers take the blocks they need (a list of references) and let go of
//! the lock before they compute. A block may take its even share of the memory, and an eighth of what the others
//! left: a quiet daemon keeps everything, a busy one the same amount for each second.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{Block, Draft, OTHER, Sheet, TOTAL, block_bytes};
use super::pack::Pairs;
use crate::report::histogram::LOG_LINEAR_BUCKETS;
use crate::report::totals::Totals;

/// Seconds that are kept one by one.
pub const FINE_SECS: u64 = 300;
/// Seconds of a coarse block.
pub const COARSE_SECS: u64 = 10;
/// Coarse blocks: an hour.
pub(super) const COARSE_MAX: usize = 360;

/// Blocks of one width, oldest first.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) blocks: VecDeque<Arc<Block>>,
    bytes: usize,
    budget: usize,
    blocks_max: usize,
}

impl Lane {
    fn new(blocks_max: usize, budget: usize) -> Self {
        Self {
            blocks: VecDeque::with_capacity(blocks_max),
            bytes: 0,
            budget,
            blocks_max,
        }
    }

    /// Bytes that the next block may take for its rows; the oldest gives way to it first.
    fn allowance(&mut self, reports: usize) -> usize {
        if self.blocks.len() == self.blocks_max
            && let Some(oldest) = self.blocks.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
        let share = self.budget / self.blocks_max;
        let to_come = self.blocks_max - self.blocks.len();
        let spare = self.budget.saturating_sub(self.bytes + share * to_come);
        (share + spare / 8).saturating_sub(block_bytes(reports))
    }

    fn push(&mut self, block: Arc<Block>) {
        self.bytes += block.bytes();
        self.blocks.push_back(block);
    }

    /// The blocks with seconds in `from..to`.
    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Arc<Block>> {
        let start = self
            .blocks
            .partition_point(|block| block.second + block.secs <= from);
        let end = self.blocks.partition_point(|block| block.second < to);
        self.blocks.range(start..end.max(start))
    }
}

/// All blocks that are kept.
#[derive(Debug)]
pub(super) struct History {
    pub(super) fine: Lane,
    pub(super) coarse: Lane,
}

impl History {
    /// An empty history that takes `budget` bytes at most.
    pub(super) fn new(budget: usize) -> Self {
        Self {
            fine: Lane::new(FINE_SECS as usize, budget / 2),
            coarse: Lane::new(COARSE_MAX, budget - budget / 2),
        }
    }

    /// Room for the rows of the next second.
    pub(super) fn fine_allowance(&mut self, reports: usize) -> usize {
        self.fine.allowance(reports)
    }

    /// Room for the rows of the next ten seconds.
    pub(super) fn coarse_allowance(&mut self, reports: usize) -> usize {
        self.coarse.allowance(reports)
    }

    /// Adds a second.
    pub(super) fn push_fine(&mut self, block: Arc<Block>) {
        self.fine.push(block);
    }

    /// Adds ten seconds.
    pub(super) fn push_coarse(&mut self, block: Arc<Block>) {
        self.coarse.push(block);
    }

    /// Bytes that all blocks take.
    pub(super) fn bytes(&self) -> usize {
        self.fine.bytes + self.coarse.bytes
    }

    /// The oldest second that is kept, and the oldest that is kept by itself; `None` before there is any.
    pub(super) fn reaches(&self) -> Option<(u64, u64)> {
        let fine = self.fine.blocks.front()?.second;
        let coarse = self.coarse.blocks.front();
        Some((coarse.map_or(fine, |block| block.second.min(fine)), fine))
    }

    /// The second behind the newest.
    pub(super) fn end(&self) -> Option<u64> {
        self.fine.blocks.back().map(|block| block.second + 1)
    }

    /// The blocks of `from..to`, oldest first, none twice: seconds as far back as there are any, then tens. The flag says
    /// whether there are tens among them.
    pub(super) fn blocks(&self, from: u64, to: u64) -> (Vec<Arc<Block>>, bool) {
        let Some((oldest, fine_from)) = self.reaches() else {
            return (Vec::new(), false);
        };
        if from >= fine_from || oldest == fine_from {
            return (self.fine.within(from, to).cloned().collect(), false);
        }
        // Tens up to the first whole one that the seconds cover as well.
        let coarse = &self.coarse.blocks;
        let at = coarse.partition_point(|block| block.second < fine_from);
        let turn = at
            .checked_sub(1)
            .and_then(|last| coarse.get(last))
            .map_or(fine_from, |last| last.second + last.secs);
        let tens = self.coarse.within(from, to.min(turn));
        let seconds = self.fine.within(from.max(turn), to);
        (tens.chain(seconds).cloned().collect(), true)
    }

    /// The last so many seconds.
    pub(super) fn last(&self, secs: u64) -> Vec<Arc<Block>> {
        let end = self.end().unwrap_or_default();
        let from = end.saturating_sub(secs);
        self.fine.within(from, end).cloned().collect()
    }
}

/// A histogram being added up: one place for each log-linear bucket, and the span in use.
#[derive(Debug)]
pub(super) struct Dense {
    counts: Vec<u64>,
    low: usize,
    high: usize,
}

impl Dense {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; LOG_LINEAR_BUCKETS as usize],
            low: usize::MAX,
            high: 0,
        }
    }

    pub(super) fn add(&mut self, pairs: impl Iterator<Item = (u32, u64)>) {
        for (bucket, count) in pairs {
            self.add_one(bucket, count);
        }
    }

    #[inline]
    pub(super) fn add_one(&mut self, bucket: u32, count: u64) {
        let at = (bucket as usize).min(self.counts.len() - 1);
        self.counts[at] = self.counts[at].saturating_add(count);
        self.low = self.low.min(at);
        self.high = self.high.max(at);
    }

    /// Moves what was added to `to`, buckets ascending.
    pub(super) fn take(&mut self, to: &mut Vec<(u32, u64)>) {
        to.clear();
        if self.low <= self.high {
            for (at, count) in self.counts[self.low..=self.high].iter_mut().enumerate() {
                if *count > 0 {
                    to.push(((self.low + at) as u32, std::mem::take(count)));
                }
            }
        }
        self.low = usize::MAX;
        self.high = 0;
    }
}

/// Adds up what rows gained in several blocks.
#[derive(Debug)]
pub(super) struct Merging {
    dense: Dense,
    pairs: Vec<(u32, u64)>,
    entries: Vec<(u32, u32, u32)>,
}

impl Merging {
    pub(super) fn new() -> Self {
        Self {
            dense: Dense::new(),
            pairs: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Drafts the sum of `blocks` for report number `report`. What was folded in one of them stays folded.
    pub(super) fn draft(
        &mut self,
        blocks: &[Arc<Block>],
        report: usize,
        weight: impl Fn(u32) -> f64,
        draft: &mut Draft,
    ) {
        let sheets: Vec<&Sheet> = blocks.iter().filter_map(|it| it.sheet(report)).collect();
        self.entries.clear();
        for (sheet, of) in sheets.iter().zip(0..) {
            let rows = sheet.iter().zip(0..);
            self.entries
                .extend(rows.map(|((row, _), at)| (row, of, at)));
        }
        self.entries.sort_unstable();
        let mut rest = self.entries.as_slice();
        while let Some(&(row, ..)) = rest.first() {
            let same = rest.partition_point(|&(other, ..)| other == row);
            let (run, others) = rest.split_at(same);
            rest = others;
            let mut totals = Totals::ZERO;
            let mut whole = true;
            for &(_, of, at) in run {
                let (gained, pairs) = sheets[of as usize].nth(at as usize).read();
                totals += &gained;
                whole &= pairs.is_some();
                self.dense.add(pairs.into_iter().flatten());
            }
            self.dense.take(&mut self.pairs);
            let pairs = whole.then_some(self.pairs.as_slice());
            match row {
                TOTAL => draft.push_total(report, &totals, pairs),
                OTHER => draft.push_other(report, &totals),
                row => draft.push((report, row, 0), weight(row), &totals, pairs),
            }
        }
    }
}

/// Sums and histogram of one row over the blocks of one point.
#[derive(Debug)]
pub(super) struct Adding {
    pub(super) totals: Totals,
    /// Seconds that are known.
    pub(super) secs: u64,
    dense: Dense,
    whole: bool,
    pairs: Vec<(u32, u64)>,
}

impl Adding {
    pub(super) fn new() -> Self {
        Self {
            totals: Totals::ZERO,
            secs: 0,
            dense: Dense::new(),
            whole: true,
            pairs: Vec::new(),
        }
    }

    /// Adds what a row gained.
    pub(super) fn add(&mut self, gained: &Totals, pairs: Option<Pairs<'_>>) {
        self.totals += gained;
        match pairs {
            Some(pairs) => self.dense.add(pairs),
            None => self.whole = false,
        }
    }

    /// The histogram, if all that was added had one; to be called once, before the next point.
    pub(super) fn histogram(&mut self) -> Option<&[(u32, u64)]> {
        self.dense.take(&mut self.pairs);
        self.whole.then_some(self.pairs.as_slice())
    }

    /// Starts the next point.
    pub(super) fn clear(&mut self) {
        self.dense.take(&mut self.pairs);
        self.totals = Totals::ZERO;
        self.secs = 0;
        self.whole = true;
    }
}
