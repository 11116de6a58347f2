//! A block: what all watched reports gained in one second, or in ten, packed and never changed again.
//!
//! The series thread makes one from a [`Draft`] when a second is over; readers share it. A draft may be larger than the
//! memory it is given: then the rows of most weight keep their sums and histogram, lighter ones their sums, and the
//! lightest are added up in one entry, so that totals stay exact. Never decides who came first.
//!
//! ```text
//!   rows of a report:   rows  | TOTAL | OTHER | id | id | ...        ascending
//!                       ends  |   41  |   52  | ...                  where each row's bytes end
//!                       bytes | packed rows, one behind the other
//! ```

use std::collections::BTreeMap;

use crate::report::counts::Histogram;
use crate::report::packed::{Packed, Sum, write_pairs, write_totals};
use crate::report::totals::Totals;
use crate::report::{OTHER_ID, TOTAL_ID};

/// Bytes of a row's id and of where it ends.
const ROW_BYTES: usize = size_of::<u64>() + size_of::<u32>();

/// Room for an entry that others are added up in.
const OTHER_BYTES: usize = ROW_BYTES + 64;

/// A row of a report: the report's number, and the row's id.
pub(super) type RowId = (u64, u64);

/// One report in one block.
#[derive(Debug, Clone)]
pub(super) struct ReportRows {
    report: u64,
    /// Every row, with [`TOTAL_ID`] and [`OTHER_ID`].
    pub(super) rows: Box<[u64]>,
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl ReportRows {
    /// Rows of one report, ascending.
    fn new(rows: &[DraftRow], packed: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(rows.iter().map(DraftRow::bytes).sum());
        let ends = rows.iter().map(|row| {
            bytes.extend_from_slice(row.of(packed));
            bytes.len() as u32
        });
        Self {
            report: rows[0].id.0,
            ends: ends.collect(),
            rows: rows.iter().map(|row| row.id.1).collect(),
            bytes: bytes.into(),
        }
    }

    /// What the row at a place of `rows` gained.
    pub(super) fn nth(&self, at: usize) -> Packed<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Packed(&self.bytes[start as usize..self.ends[at] as usize])
    }
}

/// Some seconds of all watched reports.
#[derive(Debug, Clone)]
pub(super) struct Block {
    /// Its first second, in the count of the series thread.
    pub(super) second: u64,
    /// How many seconds: 1 or 10.
    pub(super) secs: u64,
    /// Requests of seconds that were lost before it.
    pub(super) missed: u64,
    /// Of reports that gained something.
    pub(super) reports: Vec<ReportRows>,
}

impl Block {
    /// What a report gained.
    pub(super) fn of_report(&self, report: u64) -> Option<&ReportRows> {
        self.reports.iter().find(|it| it.report == report)
    }

    /// What a row gained, when it has an entry of its own.
    pub(super) fn row(&self, (report, row): RowId) -> Option<Packed<'_>> {
        let report = self.of_report(report)?;
        let at = report.rows.binary_search(&row).ok()?;
        Some(report.nth(at))
    }

    /// Drops what a report gained.
    pub(super) fn forget(&mut self, report: u64) {
        self.reports.retain(|it| it.report != report);
        self.reports.shrink_to_fit();
    }

    /// Bytes that it takes, the parts that every block has included.
    pub(super) fn bytes(&self) -> usize {
        let rows = |report: &ReportRows| report.rows.len() * ROW_BYTES + report.bytes.len();
        block_bytes(self.reports.len()) + self.reports.iter().map(rows).sum::<usize>()
    }
}

/// What a block takes beside its rows.
pub(super) fn block_bytes(reports: usize) -> usize {
    size_of::<Block>() + 64 + reports * (size_of::<ReportRows>() + 48)
}

/// One row of a draft.
#[derive(Debug)]
struct DraftRow {
    id: RowId,
    /// Who keeps room when there is too little.
    weight: f64,
    /// Where it is packed: its sums, and behind them the histogram.
    start: usize,
    sums: usize,
    end: usize,
    /// Whether its weight is known already.
    is_weighed: bool,
}

impl DraftRow {
    /// What it gained.
    fn of<'a>(&self, packed: &'a [u8]) -> &'a [u8] {
        &packed[self.start..self.end]
    }

    fn bytes(&self) -> usize {
        self.end - self.start
    }

    fn is_total(&self) -> bool {
        self.id.1 == TOTAL_ID
    }

    /// Bytes without a histogram.
    fn sums_bytes(&self) -> usize {
        ROW_BYTES + self.sums - self.start
    }

    fn histogram_bytes(&self) -> usize {
        self.end - self.sums
    }

    /// Bytes in a draft.
    fn draft_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes()
    }
}

/// A block that is being made.
#[derive(Debug)]
pub(super) struct Draft {
    rows: Vec<DraftRow>,
    /// The rows, packed, and what is left of some that were dropped.
    packed: Vec<u8>,
    bytes: usize,
    bytes_max: usize,
    /// Rows that weigh less find no room.
    lightest: f64,
    /// By number of the report: what has no entry of its own.
    others: BTreeMap<u64, Totals>,
    folded: usize,
}

/// How a draft went into its block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Fit {
    /// Rows with sums and histogram.
    pub(super) full: usize,
    /// Rows with sums only.
    pub(super) sums: usize,
    /// Rows that were added up.
    pub(super) folded: usize,
}

impl Draft {
    /// Nothing yet, in about so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            rows: Vec::new(),
            packed: Vec::new(),
            bytes: 0,
            bytes_max,
            lightest: f64::NEG_INFINITY,
            others: BTreeMap::new(),
            folded: 0,
        }
    }

    /// Adds what a row gained, or a report's rows together. `is_weighed`: its weight is known elsewhere.
    pub(super) fn push(&mut self, id: RowId, weight: f64, is_weighed: bool, sum: &Sum) {
        if id.1 == OTHER_ID || weight < self.lightest {
            *self.others.entry(id.0).or_default() += &sum.totals;
            self.folded += 1;
            return;
        }
        self.add(id, weight, is_weighed, &sum.totals, sum.histogram());
        if self.bytes > self.bytes_max {
            let rows = self.rows.len();
            self.fit_into(self.bytes_max / 2);
            // A block has less room than that: what is lighter than all these would not come into it.
            if let Some(last) = self.rows.last().filter(|_| self.rows.len() < rows) {
                self.lightest = last.weight;
            }
            self.tidy();
        }
    }

    fn add(
        &mut self,
        id: RowId,
        weight: f64,
        is_weighed: bool,
        totals: &Totals,
        histogram: Option<&Histogram>,
    ) {
        let packed = &mut self.packed;
        let start = packed.len();
        write_totals(packed, totals, histogram.is_some());
        let sums = packed.len();
        if let Some(histogram) = histogram {
            write_pairs(packed, histogram.iter());
        }
        let row = DraftRow {
            id,
            weight,
            start,
            sums,
            end: packed.len(),
            is_weighed,
        };
        self.bytes += row.draft_bytes();
        self.rows.push(row);
    }

    /// Gives back what dropped rows have left.
    fn tidy(&mut self) {
        let mut packed = Vec::with_capacity(self.packed.len());
        for row in &mut self.rows {
            let (start, sums) = (packed.len(), row.sums - row.start);
            packed.extend_from_slice(row.of(&self.packed));
            (row.start, row.sums, row.end) = (start, start + sums, packed.len());
        }
        self.packed = packed;
    }

    /// Decides what is kept in `allowance` bytes.
    pub(super) fn fit_into(&mut self, allowance: usize) {
        // Heaviest first, totals before all. Ids break ties, so that rows of one weight do not take turns.
        self.rows
            .sort_unstable_by(|a, b| b.weight.total_cmp(&a.weight).then(a.id.1.cmp(&b.id.1)));
        let totals = self.rows.partition_point(DraftRow::is_total);
        let bytes = |row: &DraftRow| row.sums_bytes() + row.histogram_bytes();
        let of_totals: usize = self.rows[..totals].iter().map(bytes).sum();
        let all = self.rows.iter().map(bytes).sum::<usize>() + self.others.len() * OTHER_BYTES;
        // Sums first, and if there is too little for all, in a part of the room: a chart of counts is worth more than
        // percentiles of few rows.
        let room = allowance.saturating_sub(of_totals);
        let mut for_sums = if all <= allowance { all } else { room / 5 * 3 };
        let fits = self.rows[totals..].iter().take_while(|row| {
            let rest = for_sums.checked_sub(row.sums_bytes());
            for_sums = rest.unwrap_or_default();
            rest.is_some()
        });
        let kept = totals + fits.count();
        for row in self.rows.drain(kept..) {
            let (totals, _) = Packed(row.of(&self.packed)).read();
            *self.others.entry(row.id.0).or_default() += &totals;
            self.folded += 1;
        }
        let sums = self.rows[totals..].iter().map(DraftRow::sums_bytes);
        let mut left = room.saturating_sub(sums.sum::<usize>() + self.others.len() * OTHER_BYTES);
        for row in &mut self.rows[totals..] {
            let rest = left.checked_sub(row.histogram_bytes());
            left = rest.unwrap_or_default();
            if rest.is_none() {
                row.end = row.sums;
                self.packed[row.start] = 0;
            }
        }
        self.bytes = self.rows.iter().map(DraftRow::draft_bytes).sum();
    }

    /// The rows that have entries of their own and nobody knows the weights of, and these.
    pub(super) fn weights(&self) -> impl Iterator<Item = (RowId, f64)> {
        let rows = self.rows.iter();
        let rows = rows.filter(|row| !row.is_weighed && !row.is_total());
        rows.map(|row| (row.id, row.weight))
    }

    /// The reports.
    pub(super) fn finish(mut self) -> (Vec<ReportRows>, Fit) {
        let named = || self.rows.iter().filter(|row| !row.is_total());
        let full = named().filter(|row| self.packed[row.start] == 1).count();
        let fit = Fit {
            full,
            sums: named().count() - full,
            folded: self.folded,
        };
        for (report, totals) in std::mem::take(&mut self.others) {
            self.add((report, OTHER_ID), 0.0, true, &totals, None);
        }
        let Self {
            mut rows, packed, ..
        } = self;
        rows.sort_unstable_by_key(|row| row.id);
        let reports = rows.chunk_by(|a, b| a.id.0 == b.id.0);
        (
            reports.map(|rows| ReportRows::new(rows, &packed)).collect(),
            fit,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row of so many requests, of 50 different times.
    fn sum(requests: u64) -> Sum {
        let mut packed = Vec::new();
        write_totals(&mut packed, &totals(requests), true);
        write_pairs(&mut packed, (100..150).map(|bucket| (bucket, 1)));
        let mut sum = Sum::default();
        sum.add(Packed(&packed));
        sum
    }

    fn totals(requests: u64) -> Totals {
        Totals {
            requests,
            time: u128::from(requests) * 1000,
            ..Totals::ZERO
        }
    }

    /// Rows 2 to 101; the heaviest has the largest id.
    fn draft(bytes_max: usize) -> Draft {
        let mut draft = Draft::new(bytes_max);
        for row in 2..102 {
            draft.push((7, row), row as f64, false, &sum(row));
        }
        draft.push((7, TOTAL_ID), f64::INFINITY, true, &sum((2..102).sum()));
        draft
    }

    fn block(reports: Vec<ReportRows>) -> Block {
        Block {
            second: 0,
            secs: 1,
            missed: 0,
            reports,
        }
    }

    #[test]
    fn with_room_every_row_is_kept_in_full() {
        let mut draft = draft(1 << 20);
        draft.fit_into(1 << 20);
        assert_eq!(draft.weights().count(), 100);
        let (reports, fit) = draft.finish();
        assert_eq!((fit.full, fit.sums, fit.folded), (100, 0, 0));
        let mut block = block(reports);
        let (read, pairs) = block.row((7, 77)).unwrap().read();
        assert_eq!((read, pairs.unwrap().count()), (totals(77), 50));
        for none in [(7, OTHER_ID), (7, 102), (8, 77)] {
            assert!(block.row(none).is_none());
        }
        let all = block.row((7, TOTAL_ID)).unwrap().read().0;
        assert_eq!(all, totals((2..102).sum()));
        block.forget(7);
        assert_eq!(block.bytes(), block_bytes(0));
    }

    #[test]
    fn without_room_weight_decides_and_sums_stay_exact() {
        // The second time the draft itself is too large.
        for bytes_max in [1 << 20, 10_000] {
            let mut draft = draft(bytes_max);
            let allowance = 2_000;
            draft.fit_into(allowance);
            let (reports, fit) = draft.finish();
            let block = block(reports);
            assert!(block.bytes() <= allowance + block_bytes(1));
            assert!(
                fit.full > 3 && fit.sums > fit.full && fit.folded > 0,
                "{fit:?}"
            );
            // From the heaviest down: full, sums, folded.
            let shown: Vec<_> = (2..102)
                .rev()
                .map(|row| block.row((7, row)).map(|it| it.read().1.is_some()))
                .collect();
            let mut expected = vec![Some(true); fit.full];
            expected.extend(vec![Some(false); fit.sums]);
            expected.extend(vec![None; fit.folded]);
            assert_eq!(shown, expected);
            let (report, mut sum) = (&block.reports[0], Totals::ZERO);
            for (at, &row) in report.rows.iter().enumerate() {
                if row != TOTAL_ID {
                    sum += &report.nth(at).read().0;
                }
            }
            assert_eq!(block.row((7, TOTAL_ID)).unwrap().read().0, sum);
        }
    }
}
