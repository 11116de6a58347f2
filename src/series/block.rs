//! A block: what all tracked reports gained in one second, or in ten, packed and never changed again.
//!
//! The series thread makes one from a [`Draft`] when a second closes; readers share it. A draft may be larger than the
//! memory it is given: then the rows of most weight keep their sums and histogram, lighter ones their sums, and the
//! lightest are added up in one entry, so that totals stay exact. Never decides who came first.
//!
//! ```text
//!   sheet of a report:  rows  | TOTAL | OTHER | 2 | 7 | 31 | ...     ascending
//!                       ends  |   41  |   52  | ...                  where each row's bytes end
//!                       bytes | packed rows, one behind the other
//! ```

use super::pack::{Packed, write_pairs, write_totals};
use crate::report::counts::Histogram;
use crate::report::totals::Totals;

/// All rows of a report together.
pub(super) const TOTAL: u32 = 0;
/// What found no room of its own in this block.
pub(super) const OTHER: u32 = 1;
/// The first number that a row can have.
pub(super) const FIRST_ROW: u32 = 2;

/// One report in one block.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    rows: Box<[u32]>,
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Sheet {
    /// What a row gained; `None` when it is not in here.
    pub(super) fn get(&self, row: u32) -> Option<Packed<'_>> {
        let at = self.rows.binary_search(&row).ok()?;
        Some(self.nth(at))
    }

    /// Whether some rows were added up instead of kept apart.
    pub(super) fn has_other(&self) -> bool {
        self.rows.get(1) == Some(&OTHER)
    }

    /// Every row with what it gained, [`TOTAL`] and [`OTHER`] included.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (u32, Packed<'_>)> {
        let rows = self.rows.iter().enumerate();
        rows.map(|(at, &row)| (row, self.nth(at)))
    }

    /// What the row at a place of [`iter`](Self::iter) gained.
    pub(super) fn nth(&self, at: usize) -> Packed<'_> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        Packed(&self.bytes[start as usize..self.ends[at] as usize])
    }

    fn heap_bytes(&self) -> usize {
        self.rows.len() * 2 * size_of::<u32>() + self.bytes.len()
    }
}

/// Some seconds of all tracked reports.
#[derive(Debug)]
pub(super) struct Block {
    /// Its first second, in the count of the series thread.
    pub(super) second: u64,
    /// How many seconds: 1 or 10.
    pub(super) secs: u64,
    /// Requests that were merged and left the pool before they were seen.
    pub(super) missed: u64,
    /// By number of the report; shorter when a report came later.
    pub(super) sheets: Vec<Sheet>,
}

impl Block {
    /// Bytes that it takes, the parts that every block has included.
    pub(super) fn bytes(&self) -> usize {
        let sheets: usize = self.sheets.iter().map(Sheet::heap_bytes).sum();
        sheets + block_bytes(self.sheets.len())
    }

    /// One report; `None` when it was not tracked yet.
    pub(super) fn sheet(&self, report: usize) -> Option<&Sheet> {
        self.sheets.get(report)
    }
}

/// What a block takes beside its rows.
pub(super) fn block_bytes(reports: usize) -> usize {
    size_of::<Block>() + 64 + reports * (size_of::<Sheet>() + 48)
}

/// How much of a row is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Sums and histogram.
    Full,
    /// Sums.
    Sums,
    /// Nothing of its own.
    Folded,
}

/// One row of a draft.
#[derive(Debug, Clone, Copy)]
pub(super) struct DraftRow {
    pub(super) report: usize,
    /// Its number; 0 while it has none.
    pub(super) row: u32,
    /// Where its owner finds it again.
    pub(super) slot: u32,
    /// Who keeps room when there is too little.
    pub(super) weight: f64,
    pub(super) kept: Kept,
    start: usize,
    head: usize,
    len: usize,
}

impl DraftRow {
    /// Bytes in a sheet as it is kept.
    fn bytes(&self) -> usize {
        2 * size_of::<u32>()
            + match self.kept {
                Kept::Full => self.len,
                Kept::Sums => self.head,
                Kept::Folded => 0,
            }
    }
}

/// A block that is being made.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) rows: Vec<DraftRow>,
    bytes: Vec<u8>,
    totals: Vec<DraftRow>,
    order: Vec<u32>,
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
    /// Forgets all, keeps the memory, but not that of an unusual rush.
    pub(super) fn clear(&mut self) {
        const BYTES_KEPT: usize = 1 << 20;
        self.rows.clear();
        self.bytes.clear();
        self.totals.clear();
        self.rows.shrink_to(BYTES_KEPT / size_of::<DraftRow>());
        self.bytes.shrink_to(BYTES_KEPT);
        self.order.shrink_to(0);
    }

    /// Adds a row. `None`: its histogram is not known.
    pub(super) fn push(
        &mut self,
        (report, row, slot): (usize, u32, u32),
        weight: f64,
        totals: &Totals,
        histogram: Option<&Histogram>,
    ) {
        let row = self.pack((report, row, slot), weight, totals, histogram);
        self.rows.push(row);
    }

    /// Adds what had no room of its own in an earlier block and is not to get any here.
    pub(super) fn push_other(&mut self, report: usize, totals: &Totals) {
        let mut row = self.pack((report, OTHER, 0), 0.0, totals, None);
        row.kept = Kept::Folded;
        self.rows.push(row);
    }

    /// Adds all rows of a report together.
    pub(super) fn push_total(
        &mut self,
        report: usize,
        totals: &Totals,
        histogram: Option<&Histogram>,
    ) {
        let row = self.pack((report, TOTAL, 0), 0.0, totals, histogram);
        self.totals.push(row);
    }

    fn pack(
        &mut self,
        (report, row, slot): (usize, u32, u32),
        weight: f64,
        totals: &Totals,
        histogram: Option<&Histogram>,
    ) -> DraftRow {
        let start = self.bytes.len();
        write_totals(&mut self.bytes, totals, histogram.is_some());
        let head = self.bytes.len() - start;
        let pairs = histogram.into_iter().flat_map(Histogram::iter);
        write_pairs(&mut self.bytes, pairs);
        DraftRow {
            report,
            row,
            slot,
            weight,
            kept: if histogram.is_some() {
                Kept::Full
            } else {
                Kept::Sums
            },
            start,
            head,
            len: self.bytes.len() - start,
        }
    }

    /// Decides what of each row is kept in `allowance` bytes; what is folded already stays so.
    pub(super) fn choose(&mut self, allowance: usize) {
        let all = |rows: &[DraftRow]| rows.iter().map(DraftRow::bytes).sum::<usize>();
        let totals = all(&self.totals);
        if totals + all(&self.rows) <= allowance {
            return;
        }
        self.order.clear();
        self.order.extend(0..self.rows.len() as u32);
        let rows = &mut self.rows;
        // Numbers break ties, so that rows of one weight do not take turns.
        self.order.sort_unstable_by(|&a, &b| {
            let (a, b) = (&rows[a as usize], &rows[b as usize]);
            b.weight.total_cmp(&a.weight).then(a.row.cmp(&b.row))
        });
        // Sums first, in a part of the room: a chart of counts is worth more than percentiles of few rows.
        let mut left = allowance.saturating_sub(totals);
        let mut for_sums = left / 5 * 3;
        for &at in &self.order {
            let row = &mut rows[at as usize];
            let bytes = 2 * size_of::<u32>() + row.head;
            if row.kept == Kept::Folded {
                continue;
            }
            if bytes > for_sums {
                for_sums = 0;
                row.kept = Kept::Folded;
            } else {
                for_sums -= bytes;
                left -= bytes;
            }
        }
        for &at in &self.order {
            let row = &mut rows[at as usize];
            let histogram = row.len - row.head;
            if row.kept == Kept::Full && histogram > left {
                left = 0;
                row.kept = Kept::Sums;
            } else if row.kept == Kept::Full {
                left -= histogram;
            }
        }
    }

    /// The sheets of `reports` reports. Every row that is kept has its number by now.
    pub(super) fn finish(&mut self, reports: usize) -> (Vec<Sheet>, Fit) {
        let mut fit = Fit::default();
        self.rows.sort_unstable_by_key(|row| (row.report, row.row));
        let mut rows = self.rows.as_slice();
        let mut totals = self.totals.as_slice();
        let mut sheets = Vec::with_capacity(reports);
        for report in 0..reports {
            let of_report = rows.partition_point(|row| row.report <= report);
            let (of_report, others) = rows.split_at(of_report);
            rows = others;
            let total = totals.first().filter(|total| total.report == report);
            if total.is_some() {
                totals = &totals[1..];
            }
            sheets.push(self.sheet(total, of_report, &mut fit));
        }
        (sheets, fit)
    }

    fn sheet(&self, total: Option<&DraftRow>, rows: &[DraftRow], fit: &mut Fit) -> Sheet {
        let mut folded = Totals::ZERO;
        let mut bytes = Vec::with_capacity(rows.iter().map(DraftRow::bytes).sum::<usize>() + 64);
        let (mut numbers, mut ends) = (Vec::new(), Vec::new());
        let mut push = |row: u32, head: &[u8], histogram: Option<&[u8]>| {
            numbers.push(row);
            let at = bytes.len();
            bytes.extend_from_slice(head);
            bytes[at] = u8::from(histogram.is_some());
            bytes.extend_from_slice(histogram.unwrap_or_default());
            ends.push(bytes.len() as u32);
        };
        let packed = |row: &DraftRow| &self.bytes[row.start..row.start + row.len];
        if let Some(total) = total {
            let (head, histogram) = packed(total).split_at(total.head);
            push(TOTAL, head, (total.kept == Kept::Full).then_some(histogram));
        }
        for row in rows.iter().filter(|row| row.kept == Kept::Folded) {
            folded += &Packed(packed(row)).read().0;
            fit.folded += 1;
        }
        // A report whose rows are folded has at least its total.
        if folded != Totals::ZERO {
            let mut head = Vec::with_capacity(64);
            write_totals(&mut head, &folded, false);
            push(OTHER, &head, None);
        }
        for row in rows.iter().filter(|row| row.kept != Kept::Folded) {
            let (head, histogram) = packed(row).split_at(row.head);
            let full = row.kept == Kept::Full;
            fit.full += usize::from(full);
            fit.sums += usize::from(!full);
            push(row.row, head, full.then_some(histogram));
        }
        Sheet {
            rows: numbers.into(),
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

    /// Rows 2 to 101; the heaviest has the largest number.
    fn draft() -> Draft {
        let mut draft = Draft::default();
        let mut histogram = Histogram::new();
        (100..150).for_each(|bucket| histogram.add(bucket, 1));
        let mut sum = Totals::ZERO;
        for row in 2..102 {
            let totals = totals(u64::from(row));
            sum += &totals;
            draft.push((0, row, row), f64::from(row), &totals, Some(&histogram));
        }
        draft.push_total(0, &sum, Some(&histogram));
        draft
    }

    #[test]
    fn with_room_every_row_is_kept_in_full() {
        let mut draft = draft();
        draft.choose(1 << 20);
        let (sheets, fit) = draft.finish(1);
        assert_eq!((fit.full, fit.sums, fit.folded), (100, 0, 0));
        let (read, pairs) = sheets[0].get(77).unwrap().read();
        assert_eq!((read, pairs.unwrap().count()), (totals(77), 50));
        assert!(!sheets[0].has_other() && sheets[0].get(102).is_none());
        let sum: u64 = (2..102).sum();
        assert_eq!(sheets[0].get(TOTAL).unwrap().read().0, totals(sum));
    }

    #[test]
    fn without_room_weight_decides_and_sums_stay_exact() {
        let mut draft = draft();
        let allowance = 2_000;
        draft.choose(allowance);
        let (sheets, fit) = draft.finish(1);
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
        let sheet = block.sheet(0).unwrap();
        assert!(sheet.has_other());
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
        for (row, packed) in sheet.iter() {
            if row != TOTAL {
                sum += &packed.read().0;
            }
        }
        assert_eq!(sheet.get(TOTAL).unwrap().read().0, sum);
    }
}
