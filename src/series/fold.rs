//! From the seconds of the stream to blocks: one a second, and one of ten seconds after every tenth.
//!
//! Runs on the series thread alone, which alone writes: what it reads under the lock is still so when it adds a block.

use std::sync::Arc;

use super::block::{Block, Draft, Fit};
use super::history::{COARSE_SECS, FINE_SECS, each_row};
use super::weights::Weights;
use super::{DRAFT, Shared, WEIGHTS};
use crate::delta::{RowDelta, RowReader, Second};
use crate::report::packed::Sum;
use crate::report::totals::Totals;
use crate::report::{TOTAL_ID, Watched};

/// What makes blocks.
#[derive(Debug)]
pub struct Fold {
    shared: Arc<Shared>,
    weights: Weights,
    /// The next second, in the count of the blocks: that goes on although the wall clock is set, for what was a minute ago
    /// still was.
    next: u64,
}

impl Fold {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            weights: Weights::default(),
            // So that the hour before fits.
            next: 2 * 3_600,
        }
    }

    /// Takes a second in. `missed`: requests of seconds before it that were dropped unread.
    pub fn take(&mut self, second: &Second, missed: u64) {
        self.take_rows(second, missed, |rows| second.read(&mut [rows]));
    }

    /// The same, with its rows from `read`.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        let number = self.next;
        self.next += second.secs;
        self.follow(second, number);
        let mut state = self.shared.state.write();
        state.base = second.unix_secs.saturating_sub(number);
        state.missed += missed;
        state.counted += second.requests;
        drop(state);
        let mut drafting = Drafting {
            draft: self.draft(),
            weights: &mut self.weights,
            report: 0,
            has_keys: false,
            all: Sum::default(),
        };
        read(&mut drafting);
        let draft = drafting.draft;
        self.close(number, missed, draft);
        // After a long stop there is no point in a block for each second of it.
        for quiet in (number + 1).max(self.next.saturating_sub(FINE_SECS))..self.next {
            self.close(quiet, 0, self.draft());
        }
    }

    /// Begins with the reports that were first watched in a second, and forgets those that are watched no more.
    fn follow(&mut self, second: &Second, number: u64) {
        let watched = self.shared.watched.now();
        let is_watched = |report: u64| watched.iter().any(|it| it.number == report);
        let mut state = self.shared.state.write();
        for report in second.reports() {
            state.since.entry(report.number).or_insert(number);
        }
        let gone = state.since.keys().copied().filter(|it| !is_watched(*it));
        for report in gone.collect::<Vec<u64>>() {
            state.since.remove(&report);
            state.history.forget(report);
            self.weights.forget(report);
        }
    }

    fn draft(&self) -> Draft {
        Draft::new(self.shared.memory / 40 * DRAFT)
    }

    /// Makes a block of the draft, and one of ten if it was the last of them.
    fn close(&mut self, second: u64, missed: u64, mut draft: Draft) {
        let mut state = self.shared.state.write();
        let reports = state.since.len();
        let allowance = state.history.fine.allowance(reports);
        drop(state);
        draft.fit_into(allowance);
        for (row, weight) in draft.weights() {
            self.weights.set(row, weight);
        }
        self.weights.prune(self.shared.memory / 40 * WEIGHTS);
        let (block, fit) = block(draft, second, 1, missed);
        let mut state = self.shared.state.write();
        state.history.fine.push(block);
        state.fit = fit;
        state.rows = self.weights.len();
        let end = second + 1;
        if (state.base + end).is_multiple_of(COARSE_SECS) {
            self.weights.fade();
            let allowance = state.history.coarse.allowance(reports);
            // Ten seconds, unless the wall clock was set meanwhile.
            let begin = state.history.coarse.end().unwrap_or_default();
            let ten: Vec<Arc<Block>> = state.history.fine.within(begin, end).cloned().collect();
            let reports: Vec<u64> = state.since.keys().copied().collect();
            drop(state);
            let ten = self.ten(&ten, end, &reports, allowance);
            self.shared.state.write().history.coarse.push(ten);
        }
    }

    /// One block of those before `end`.
    fn ten(
        &self,
        blocks: &[Arc<Block>],
        end: u64,
        reports: &[u64],
        allowance: usize,
    ) -> Arc<Block> {
        let mut draft = self.draft();
        for &report in reports {
            each_row(blocks, report, |row, sum| {
                let weight = match row {
                    TOTAL_ID => f64::INFINITY,
                    row => self.weights.get((report, row)).unwrap_or_default(),
                };
                draft.push((report, row), weight, true, sum);
            });
        }
        draft.fit_into(allowance);
        let missed = blocks.iter().map(|block| block.missed).sum();
        let begin = blocks.first().map_or(end, |oldest| oldest.second);
        block(draft, begin, end - begin, missed).0
    }
}

/// Puts what rows gained, and all of a report together, into a draft.
struct Drafting<'a> {
    draft: Draft,
    weights: &'a mut Weights,
    /// The number of the report at hand.
    report: u64,
    /// The only row of a report without keys is its total.
    has_keys: bool,
    all: Sum,
}

impl RowReader for Drafting<'_> {
    fn begin(&mut self, report: &Watched) {
        self.report = report.number;
        self.has_keys = !report.key_names.is_empty();
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let sum = &row.gain.sum;
        self.all.add_sum(sum);
        if self.has_keys {
            let id = (self.report, row.id);
            // Its time, and a little for each request, so that requests without time count too.
            let gained = sum.totals.time as f64 + sum.totals.requests as f64;
            let known = self.weights.add(id, gained);
            self.draft
                .push(id, known.unwrap_or(gained), known.is_some(), sum);
        }
    }

    fn end(&mut self) {
        let all = std::mem::take(&mut self.all);
        if all.totals != Totals::ZERO {
            self.draft
                .push((self.report, TOTAL_ID), f64::INFINITY, true, &all);
        }
    }
}

fn block(draft: Draft, second: u64, secs: u64, missed: u64) -> (Arc<Block>, Fit) {
    let (reports, fit) = draft.finish();
    let block = Block {
        second,
        secs,
        missed,
        reports,
    };
    (Arc::new(block), fit)
}
