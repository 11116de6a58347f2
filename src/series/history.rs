//! The last hour: 300 blocks of a second, 360 of ten, in a fixed share of memory each.
//!
//! Written by the series thread, a block a second; readers take the blocks they need (a list of references) and let go of
//! the lock before they compute. A block may take its even share of the memory, and an eighth of what the others
//! left: a quiet daemon keeps everything, a busy one the same amount for each second.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{Block, Sheet, block_bytes};
use crate::report::counts::Histogram;
use crate::report::packed::Pairs;
use crate::report::totals::Totals;

/// Seconds that are kept one by one.
pub(super) const FINE_SECS: u64 = 300;
/// Seconds of a coarse block.
pub(super) const COARSE_SECS: u64 = 10;
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
    pub(super) fn allowance(&mut self, reports: usize) -> usize {
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

    /// Adds the next block.
    pub(super) fn push(&mut self, block: Arc<Block>) {
        self.bytes += block.bytes();
        self.blocks.push_back(block);
    }

    /// The blocks with seconds in `from..to`.
    pub(super) fn within(&self, from: u64, to: u64) -> impl Iterator<Item = &Arc<Block>> {
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

    /// The blocks of `from..to`, oldest first, none twice: seconds as far back as there are any, then tens.
    pub(super) fn blocks(&self, from: u64, to: u64) -> Vec<Arc<Block>> {
        let Some((oldest, fine_from)) = self.reaches() else {
            return Vec::new();
        };
        // Tens up to the first whole one that the seconds cover as well.
        let coarse = &self.coarse.blocks;
        let at = coarse.partition_point(|block| block.second < fine_from);
        let turn = match at.checked_sub(1).and_then(|last| coarse.get(last)) {
            Some(last) if from < fine_from && oldest < fine_from => last.second + last.secs,
            _ => 0,
        };
        let tens = self.coarse.within(from, to.min(turn));
        let seconds = self.fine.within(from.max(turn), to);
        tens.chain(seconds).cloned().collect()
    }
}

/// Sums and histogram of one row over several blocks.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) totals: Totals,
    /// Seconds that are known.
    pub(super) secs: u64,
    histogram: Histogram,
    /// Whether something that was added had no histogram.
    lacks_some: bool,
}

impl Sum {
    /// Adds what a row gained.
    pub(super) fn add(&mut self, gained: &Totals, pairs: Option<Pairs<'_>>) {
        self.totals += gained;
        self.lacks_some |= pairs.is_none();
        for (bucket, count) in pairs.into_iter().flatten() {
            self.histogram.add(bucket, count);
        }
    }

    /// The histogram, if all that was added had one.
    pub(super) fn histogram(&self) -> Option<&Histogram> {
        (!self.lacks_some).then_some(&self.histogram)
    }

    /// Starts again with nothing.
    pub(super) fn clear(&mut self) {
        self.totals = Totals::ZERO;
        self.secs = 0;
        self.histogram.clear();
        self.lacks_some = false;
    }
}

/// Adds up what each row of report number `report` gained in `blocks`, and gives `each` the row and its sum. What was folded
/// in one of them stays folded.
pub(super) fn each_row(blocks: &[Arc<Block>], report: usize, mut each: impl FnMut(u64, &mut Sum)) {
    let sheets: Vec<&Sheet> = blocks.iter().map(|it| &it.sheets[report]).collect();
    let mut entries: Vec<(u64, u32, u32)> = Vec::new();
    for (sheet, of) in sheets.iter().zip(0..) {
        let rows = sheet.rows().iter().zip(0..);
        entries.extend(rows.map(|(&row, at)| (row, of, at)));
    }
    entries.sort_unstable();
    let mut sum = Sum::default();
    for of_row in entries.chunk_by(|a, b| a.0 == b.0) {
        for &(_, of, at) in of_row {
            let (gained, pairs) = sheets[of as usize].nth(at as usize).read();
            sum.add(&gained, pairs);
        }
        each(of_row[0].0, &mut sum);
        sum.clear();
    }
}
