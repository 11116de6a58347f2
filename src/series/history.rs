//! The last hour: 300 blocks of a second, 360 of ten, in a fixed share of memory each.
//!
//! Written by the series thread, a block a second; readers take the blocks they need (a list of references) and let go of
//! the lock before they compute. A block may take its even share of the memory, and an eighth of what the others
//! left: a quiet daemon keeps everything, a busy one the same amount for each second.

use std::collections::VecDeque;
use std::sync::Arc;

use super::block::{Block, ReportRows, RowId, block_bytes};
use crate::report::packed::Sum;

/// Seconds that are kept one by one.
pub(super) const FINE_SECS: u64 = 300;
/// Seconds of a coarse block.
pub(super) const COARSE_SECS: u64 = 10;
/// Coarse blocks: an hour.
pub(super) const COARSE_MAX: usize = 360;

/// Blocks of one width, oldest first.
#[derive(Debug)]
pub(super) struct Lane {
    blocks: VecDeque<Arc<Block>>,
    budget: usize,
    blocks_max: usize,
}

impl Lane {
    fn new(blocks_max: usize, budget: usize) -> Self {
        Self {
            blocks: VecDeque::with_capacity(blocks_max),
            budget,
            blocks_max,
        }
    }

    /// Bytes that the next block may take for its rows; the oldest gives way to it first.
    pub(super) fn allowance(&mut self, reports: usize) -> usize {
        if self.blocks.len() == self.blocks_max {
            self.blocks.pop_front();
        }
        let share = self.budget / self.blocks_max;
        let to_come = self.blocks_max - self.blocks.len();
        let spare = self.budget.saturating_sub(self.bytes() + share * to_come);
        (share + spare / 8).saturating_sub(block_bytes(reports))
    }

    /// Adds the next block.
    pub(super) fn push(&mut self, block: Arc<Block>) {
        self.blocks.push_back(block);
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.bytes()).sum()
    }

    /// The second behind the newest.
    pub(super) fn end(&self) -> Option<u64> {
        self.blocks.back().map(|block| block.second + block.secs)
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
        self.fine.bytes() + self.coarse.bytes()
    }

    /// Drops what a report gained.
    pub(super) fn forget(&mut self, report: u64) {
        for block in self.fine.blocks.iter_mut().chain(&mut self.coarse.blocks) {
            Arc::make_mut(block).forget(report);
        }
    }

    /// Whether a row has an entry of its own in some block.
    pub(super) fn has(&self, row: RowId) -> bool {
        let mut blocks = self.fine.blocks.iter().chain(&self.coarse.blocks);
        blocks.any(|block| block.row(row).is_some())
    }

    /// The oldest second that is kept, and the oldest that is kept by itself; `None` before there is any.
    pub(super) fn reaches(&self) -> Option<(u64, u64)> {
        let fine = self.fine.blocks.front()?.second;
        let coarse = self.coarse.blocks.front();
        Some((coarse.map_or(fine, |block| block.second.min(fine)), fine))
    }

    /// The second behind the newest.
    pub(super) fn end(&self) -> Option<u64> {
        self.fine.end()
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

/// Adds up what each row of a report gained in `blocks`, and gives `each` the row and its sum. What was folded in one of
/// them stays folded.
pub(super) fn each_row(blocks: &[Arc<Block>], report: u64, mut each: impl FnMut(u64, &Sum)) {
    let reports = blocks.iter().filter_map(|it| it.of_report(report));
    let reports: Vec<&ReportRows> = reports.collect();
    let mut entries: Vec<(u64, usize, usize)> = Vec::new();
    for (of, report) in reports.iter().enumerate() {
        let rows = report.rows.iter().enumerate();
        entries.extend(rows.map(|(at, &row)| (row, of, at)));
    }
    entries.sort_unstable();
    for of_row in entries.chunk_by(|a, b| a.0 == b.0) {
        let mut sum = Sum::default();
        for &(_, of, at) in of_row {
            sum.add(reports[of].nth(at));
        }
        each(of_row[0].0, &sum);
    }
}
