//! From the seconds of the stream to blocks: one a second, and one of ten seconds after every tenth.
//!
//! Runs on the series thread alone.

use std::sync::Arc;

use super::block::{Block, Draft};
use super::history::{COARSE_SECS, FINE_SECS, each_row};
use super::{Shared, State};
use crate::delta::{Consumer, ReportRows, Second, TOTAL_ID};
use crate::report::counts::Histogram;
use crate::report::totals::Totals;

/// What bounds the last hour, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budgets {
    pub(super) blocks: usize,
    pub(super) weights: usize,
    pub(super) stream: usize,
    pub(super) draft: usize,
}

impl Budgets {
    /// How `memory` is divided: six tenths for blocks, a tenth for the weights of the rows in them, two for seconds on their way here, one
    /// for the block that is being made.
    pub(super) fn of(memory: usize) -> Self {
        let tenth = memory / 10;
        Self {
            blocks: tenth * 6,
            weights: tenth,
            stream: tenth * 2,
            draft: tenth,
        }
    }
}

/// The state of the series thread.
#[derive(Debug)]
pub(super) struct Fold {
    shared: Arc<Shared>,
    reports: Vec<ReportRows>,
    budgets: Budgets,
    /// The next second, in the count of the blocks: that goes on although the wall clock is set, for what was a minute ago
    /// still was.
    next: u64,
    draft: Draft,
}

impl Consumer for Fold {
    fn take(&mut self, second: &Second, missed: u64) {
        let number = self.next;
        self.next += second.secs;
        let mut state = self.shared.state.write();
        state.base = second.unix_secs.saturating_sub(number);
        state.missed += missed;
        state.counted += second.requests;
        drop(state);
        self.draft(second);
        self.close(number, missed);
        // After a long stop there is no point in a block for each second of it.
        for quiet in (number + 1).max(self.next.saturating_sub(FINE_SECS))..self.next {
            self.close(quiet, 0);
        }
    }
}

impl Fold {
    pub(super) fn new(shared: Arc<Shared>, reports: Vec<ReportRows>) -> Self {
        let budgets = Budgets::of(shared.memory);
        Self {
            shared,
            draft: Draft::new(reports.len(), budgets.draft),
            reports,
            budgets,
            // So that the hour before fits.
            next: 2 * 3_600,
        }
    }

    /// Puts what all rows gained into the draft.
    fn draft(&mut self, second: &Second) {
        let Self {
            reports,
            draft,
            shared,
            ..
        } = self;
        for (report, rows) in reports.iter_mut().enumerate() {
            let mut state = shared.state.write();
            let weights = &mut state.reports[report].weights;
            let (mut sum, mut all) = (Totals::ZERO, Histogram::new());
            // The only row of a report without keys is its total.
            let has_keys = !rows.definition.keys.is_empty();
            rows.each(second, |row| {
                sum += &row.totals;
                all.add_all(&row.histogram);
                if !has_keys {
                    return;
                }
                // Its time, and a little for each request, so that requests without time count too.
                let gained = row.totals.time as f64 + row.totals.requests as f64;
                let weight = weights.add(row.id, gained).unwrap_or(gained);
                let id = (report, row.id);
                draft.push(id, weight, &row.totals, Some(&row.histogram));
            });
            if sum != Totals::ZERO {
                draft.push_total(report, &sum, Some(&all));
            }
        }
    }

    /// Makes a block of the draft, and one of ten if it was the last of them.
    fn close(&mut self, second: u64, missed: u64) {
        let mut state = self.shared.state.write();
        let State {
            reports, history, ..
        } = &mut *state;
        let allowance = history.fine.allowance(self.reports.len());
        self.draft.choose(allowance, |report, row, weight| {
            reports[report].weights.set(row, weight);
        });
        let share = self.budgets.weights / self.reports.len().max(1);
        for tracked in reports {
            tracked.weights.prune(share);
        }
        let (sheets, fit) = self.draft.finish();
        let block = Block {
            second,
            secs: 1,
            missed,
            sheets,
        };
        history.fine.push(Arc::new(block));
        state.fit = fit;
        let last_of_ten = (state.base + second + 1).is_multiple_of(COARSE_SECS);
        drop(state);
        if last_of_ten {
            self.close_ten(second + 1);
        }
    }

    /// Makes a block of the last ten seconds before `end`.
    fn close_ten(&mut self, end: u64) {
        let mut state = self.shared.state.write();
        for tracked in &mut state.reports {
            tracked.weights.fade();
        }
        let allowance = state.history.coarse.allowance(self.reports.len());
        let fine = &state.history.fine;
        let blocks = fine.within(end.saturating_sub(COARSE_SECS), end);
        let blocks: Vec<Arc<Block>> = blocks.cloned().collect();
        drop(state);
        // Only this thread writes: what is read here is still so when the block is added.
        let state = self.shared.state.read();
        let draft = &mut self.draft;
        for (report, tracked) in state.reports.iter().enumerate() {
            each_row(&blocks, report, |row, sum| {
                let (totals, histogram) = (sum.totals, sum.histogram());
                if row == TOTAL_ID {
                    draft.push_total(report, &totals, histogram);
                } else {
                    let weight = tracked.weights.get(row).unwrap_or_default();
                    draft.push((report, row), weight, &totals, histogram);
                }
            });
        }
        drop(state);
        draft.choose(allowance, |_, _, _| {});
        let (sheets, _) = draft.finish();
        let Some(oldest) = blocks.first().map(|block| block.second) else {
            return;
        };
        let block = Arc::new(Block {
            second: oldest,
            secs: end - oldest,
            missed: blocks.iter().map(|block| block.missed).sum(),
            sheets,
        });
        self.shared.state.write().history.coarse.push(block);
    }
}
