//! A block: what all tracked reports gained in one second, or in ten, packed and never changed again.
//!
//! The series thread makes one from a [`Draft`] when a second is over; readers share it. A draft may be larger than the
//! memory it is given: then the rows of most weight keep their sums and histogram, lighter ones their sums, and the
//! lightest are added up in one entry, so that totals stay exact. Never decides who came first.
//!
//! ```text
//!   sheet of a report:  rows  | TOTAL | OTHER | id | id | ...        ascending
//!                       ends  |   41  |   52  | ...                  where each row's bytes end
//!                       bytes | packed rows, one behind the other
//! ```

use std::ops::Range;

use crate::delta::{OTHER_ID, TOTAL_ID};
use crate::report::counts::Histogram;
use crate::report::packed::{Packed, write_pairs, write_totals};
use crate::report::totals::Totals;

/// Bytes of a row's id and of where it ends.
const ROW_BYTES: usize = size_of::<u64>() + size_of::<u32>();

/// Room for an entry that others are added up in.
const OTHER_BYTES: usize = ROW_BYTES + 64;

/// One report in one block.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rows: Box<[u64]>,
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Sheet {
    /// What a row gained; `None` when it is not in here.
    pub(super) fn get(&self, row: u64) -> Option<Packed<'_>> {
        let at = self.rows.binary_search(&row).ok()?;
        Some(self.nth(at))
    }

    /// Every row, with [`TOTAL_ID`] and [`OTHER_ID`].
    pub(super) fn rows(&self) -> &[u64] {
        &self.rows
    }

    /// What the row at a place of [`rows`](Self::rows) gained.
    pub(super) fn nth(&self, at: usize) -> Packed<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Packed(&self.bytes[start as usize..self.ends[at] as usize])
    }
}

/// Some seconds of all tracked reports.
#[derive(Debug)]
pub(super) struct Block {
    /// Its first second, in the count of the series thread.
    pub(super) second: u64,
    /// How many seconds: 1 or 10.
    pub(super) secs: u64,
    /// Requests of seconds that were lost before it.
    pub(super) missed: u64,
    /// By number of the report.
    pub(super) sheets: Vec<Sheet>,
}

impl Block {
    /// Bytes that it takes, the parts that every block has included.
    pub(super) fn bytes(&self) -> usize {
        let rows = |sheet: &Sheet| sheet.rows.len() * ROW_BYTES + sheet.bytes.len();
        block_bytes(self.sheets.len()) + self.sheets.iter().map(rows).sum::<usize>()
    }
}

/// What a block takes beside its rows.
pub(super) fn block_bytes(reports: usize) -> usize {
    size_of::<Block>() + 64 + reports * (size_of::<Sheet>() + 48)
}

/// One row of a draft.
#[derive(Debug)]
struct DraftRow {
    report: usize,
    row: u64,
    /// Who keeps room when there is too little.
    weight: f64,
    sums: Range<usize>,
    histogram: Range<usize>,
    /// Whether it keeps its histogram.
    full: bool,
}

impl DraftRow {
    /// Bytes in a sheet without a histogram.
    fn sums_bytes(&self) -> usize {
        ROW_BYTES + self.sums.len()
    }
}

/// A block that is being made.
#[derive(Debug)]
pub(super) struct Draft {
    rows: Vec<DraftRow>,
    bytes: Vec<u8>,
    bytes_max: usize,
    /// By number of the report: what has no entry of its own.
    others: Vec<Totals>,
    fit: Fit,
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
    /// Nothing yet of so many reports, in about so many bytes.
    pub(super) fn new(reports: usize, bytes_max: usize) -> Self {
        Self {
            rows: Vec::new(),
            bytes: Vec::new(),
            bytes_max,
            others: vec![Totals::ZERO; reports],
            fit: Fit::default(),
        }
    }

    /// Adds a row. Without `histogram`, that is not known.
    pub(super) fn push(
        &mut self,
        (report, row): (usize, u64),
        weight: f64,
        totals: &Totals,
        histogram: Option<&Histogram>,
    ) {
        if row == OTHER_ID {
            self.others[report] += totals;
            self.fit.folded += 1;
            return;
        }
        let sums = self.bytes.len();
        write_totals(&mut self.bytes, totals, false);
        let pairs = self.bytes.len();
        write_pairs(
            &mut self.bytes,
            histogram.into_iter().flat_map(Histogram::iter),
        );
        self.rows.push(DraftRow {
            report,
            row,
            weight,
            sums: sums..pairs,
            histogram: pairs..self.bytes.len(),
            full: histogram.is_some(),
        });
        if self.bytes.len() + self.rows.len() * size_of::<DraftRow>() > self.bytes_max {
            self.halve();
        }
    }

    /// Adds all rows of a report together.
    pub(super) fn push_total(&mut self, report: usize, totals: &Totals, all: Option<&Histogram>) {
        self.push((report, TOTAL_ID), f64::INFINITY, totals, all);
    }

    /// Adds up the lighter half of the rows.
    fn halve(&mut self) {
        self.sort_by_weight();
        self.keep(self.rows.len() / 2);
        let rows = std::mem::take(&mut self.rows);
        let bytes = std::mem::take(&mut self.bytes);
        let mut copy = |range: Range<usize>| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&bytes[range]);
            start..self.bytes.len()
        };
        let rows = rows.into_iter().map(|row| DraftRow {
            sums: copy(row.sums),
            histogram: copy(row.histogram),
            ..row
        });
        self.rows = rows.collect();
    }

    /// Heaviest first. Ids break ties, so that rows of one weight do not take turns.
    fn sort_by_weight(&mut self) {
        self.rows
            .sort_unstable_by(|a, b| b.weight.total_cmp(&a.weight).then(a.row.cmp(&b.row)));
    }

    /// Keeps so many rows and all totals; adds up the others.
    fn keep(&mut self, rows: usize) {
        let mut at = 0;
        let Self {
            bytes, others, fit, ..
        } = self;
        self.rows.retain(|row| {
            at += 1;
            let keeps = at <= rows || row.row == TOTAL_ID;
            if !keeps {
                others[row.report] += &Packed(&bytes[row.sums.clone()]).read().0;
                fit.folded += 1;
            }
            keeps
        });
    }

    /// Decides what is kept in `allowance` bytes, and tells `kept` the report, id and weight of each row that is.
    pub(super) fn choose(&mut self, allowance: usize, mut kept: impl FnMut(usize, u64, f64)) {
        self.sort_by_weight();
        // Sums first, and if there is too little for all, in a part of the room: a chart of counts is worth more than
        // percentiles of few rows.
        let bytes = |row: &DraftRow| row.sums_bytes() + row.histogram.len();
        let all: usize = self.rows.iter().map(bytes).sum();
        let totals = self.rows.iter().take_while(|row| row.row == TOTAL_ID);
        let totals = totals.map(bytes).sum();
        let left = allowance.saturating_sub(totals);
        let mut for_sums = if all <= allowance { all } else { left / 5 * 3 };
        let fits = self.rows.iter().take_while(|row| {
            let wanted = if row.row == TOTAL_ID {
                0
            } else {
                row.sums_bytes()
            };
            let fits = wanted <= for_sums;
            for_sums -= if fits { wanted } else { 0 };
            fits
        });
        let rows = fits.count();
        self.keep(rows);
        let sums: usize = self.rows.iter().map(DraftRow::sums_bytes).sum();
        let others = self.others.iter().filter(|other| **other != Totals::ZERO);
        let mut left = allowance.saturating_sub(sums + others.count() * OTHER_BYTES);
        for row in &mut self.rows {
            row.full &= row.histogram.len() <= left || row.row == TOTAL_ID;
            left = if row.full {
                left.saturating_sub(row.histogram.len())
            } else {
                0
            };
            if row.row != TOTAL_ID {
                kept(row.report, row.row, row.weight);
            }
        }
    }

    /// The sheets; the draft is empty again, and keeps its memory, but not that of an unusual rush.
    pub(super) fn finish(&mut self) -> (Vec<Sheet>, Fit) {
        const BYTES_KEPT: usize = 1 << 20;
        self.rows.sort_unstable_by_key(|row| (row.report, row.row));
        let mut rows = self.rows.as_slice();
        let mut sheets = Vec::with_capacity(self.others.len());
        for report in 0..self.others.len() {
            let of_report = rows.partition_point(|row| row.report <= report);
            sheets.push(self.sheet(report, &rows[..of_report]));
            rows = &rows[of_report..];
        }
        let named = self.rows.iter().filter(|row| row.row != TOTAL_ID);
        let mut fit = self.fit;
        for row in named {
            fit.full += usize::from(row.full);
            fit.sums += usize::from(!row.full);
        }
        self.rows.clear();
        self.bytes.clear();
        self.rows.shrink_to(BYTES_KEPT / size_of::<DraftRow>());
        self.bytes.shrink_to(BYTES_KEPT);
        self.others.fill(Totals::ZERO);
        self.fit = Fit::default();
        (sheets, fit)
    }

    fn sheet(&self, report: usize, rows: &[DraftRow]) -> Sheet {
        let (mut ids, mut ends, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        let total = rows.iter().take_while(|row| row.row == TOTAL_ID).count();
        for (at, row) in rows.iter().map(Some).chain([None]).enumerate() {
            if at == total && self.others[report] != Totals::ZERO {
                ids.push(OTHER_ID);
                write_totals(&mut bytes, &self.others[report], false);
                ends.push(bytes.len() as u32);
            }
            let Some(row) = row else { break };
            ids.push(row.row);
            bytes.push(u8::from(row.full));
            let sums = &self.bytes[row.sums.clone()];
            bytes.extend_from_slice(sums.get(1..).unwrap_or_default());
            if row.full {
                bytes.extend_from_slice(&self.bytes[row.histogram.clone()]);
            }
            ends.push(bytes.len() as u32);
        }
        Sheet {
            rows: ids.into(),
            ends: ends.into(),
            bytes: bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(requests: u64) -> Totals {
        Totals {
            requests,
            time: u128::from(requests) * 1000,
            ..Totals::ZERO
        }
    }

    /// Rows 2 to 101; the heaviest has the largest id.
    fn draft(bytes_max: usize) -> Draft {
        let mut draft = Draft::new(1, bytes_max);
        let mut histogram = Histogram::new();
        (100..150).for_each(|bucket| histogram.add(bucket, 1));
        let mut sum = Totals::ZERO;
        for row in 2..102 {
            let totals = totals(row);
            sum += &totals;
            draft.push((0, row), row as f64, &totals, Some(&histogram));
        }
        draft.push_total(0, &sum, Some(&histogram));
        draft
    }

    #[test]
    fn with_room_every_row_is_kept_in_full() {
        let mut draft = draft(1 << 20);
        let mut kept = 0;
        draft.choose(1 << 20, |_, _, _| kept += 1);
        let (sheets, fit) = draft.finish();
        assert_eq!((fit.full, fit.sums, fit.folded, kept), (100, 0, 0, 100));
        let (read, pairs) = sheets[0].get(77).unwrap().read();
        assert_eq!((read, pairs.unwrap().count()), (totals(77), 50));
        assert!(sheets[0].get(OTHER_ID).is_none() && sheets[0].get(102).is_none());
        let sum: u64 = (2..102).sum();
        assert_eq!(sheets[0].get(TOTAL_ID).unwrap().read().0, totals(sum));
    }

    #[test]
    fn without_room_weight_decides_and_sums_stay_exact() {
        // The second time the draft itself is too large.
        for bytes_max in [1 << 20, 10_000] {
            let mut draft = draft(bytes_max);
            let allowance = 2_000;
            draft.choose(allowance, |_, _, _| {});
            let (sheets, fit) = draft.finish();
            let block = Block {
                second: 0,
                secs: 1,
                missed: 0,
                sheets,
            };
            assert!(block.bytes() <= allowance + block_bytes(1));
            assert!(
                fit.full > 3 && fit.sums > fit.full && fit.folded > 0,
                "{fit:?}"
            );
            let sheet = &block.sheets[0];
            // From the heaviest down: full, sums, folded.
            let shown: Vec<_> = (2..102)
                .rev()
                .map(|row| sheet.get(row).map(|packed| packed.read().1.is_some()))
                .collect();
            let mut expected = vec![Some(true); fit.full];
            expected.extend(vec![Some(false); fit.sums]);
            expected.extend(vec![None; fit.folded]);
            assert_eq!(shown, expected);
            let mut sum = Totals::ZERO;
            for (at, &row) in sheet.rows().iter().enumerate() {
                if row != TOTAL_ID {
                    sum += &sheet.nth(at).read().0;
                }
            }
            assert_eq!(sheet.get(TOTAL_ID).unwrap().read().0, sum);
        }
    }
}
