//! From the seconds of the stream to blocks: one a second, and one of ten seconds after every tenth.
//!
//! Runs on the series thread alone, which alone writes: what it reads under the lock is still so when it adds a block.

use std::sync::Arc;

use super::block::{Block, Draft, Fit};
use super::history::{COARSE_SECS, FINE_SECS, each_row};
use super::weights::Weights;
use super::{DRAFT, Shared, WEIGHTS};
use crate::delta::Second;
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
        let number = self.next;
        self.next += second.secs;
        self.follow(second, number);
        let mut state = self.shared.state.write();
        state.base = second.unix_secs.saturating_sub(number);
        state.missed += missed;
        state.counted += second.requests;
        drop(state);
        let mut draft = self.draft();
        for report in second.reports() {
            self.count(second, report, &mut draft);
        }
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

    /// Puts what all rows of a report gained into the draft.
    fn count(&mut self, second: &Second, report: &Watched, draft: &mut Draft) {
        let mut all = Sum::default();
        // The only row of a report without keys is its total.
        let has_keys = !report.key_names.is_empty();
        second.rows(report, |row| {
            all.add_sum(&row.gain.sum);
            if has_keys {
                let id = (report.number, row.id);
                // Its time, and a little for each request, so that requests without time count too.
                let totals = &row.gain.sum.totals;
                let gained = totals.time as f64 + totals.requests as f64;
                let weight = self.weights.add(id, gained).unwrap_or(gained);
                draft.push(id, weight, &row.gain.sum);
            }
        });
        if all.totals != Totals::ZERO {
            draft.push((report.number, TOTAL_ID), f64::INFINITY, &all);
        }
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
                draft.push((report, row), weight, sum);
            });
        }
        draft.fit_into(allowance);
        let missed = blocks.iter().map(|block| block.missed).sum();
        let begin = blocks.first().map_or(end, |oldest| oldest.second);
        block(draft, begin, end - begin, missed).0
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
