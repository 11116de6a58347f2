//! The data of the last hour: the points of each row, and the seconds for which nothing is known of
//! rows without points.
//!
//! Written by the series thread alone, under the lock. Memory is bounded: when all points take
//! more, the lightest rows go, the next heavier ones lose their histograms, and the total of a
//! report, which weighs most, stays.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use ahash::RandomState;

use super::points::Points;
use crate::report::encoded_gain::EncodedGain;
use crate::report::{FIRST_ID, OTHER_ID, TOTAL_ID};
use crate::value::row_memory::{Heft, Weight, divide};

/// Most recent seconds, kept individually.
pub(super) const FINE_SECS: u64 = 300;
/// Older seconds are merged in slots of this many.
pub(super) const COARSE_SECS: u64 = 10;
/// How long data is kept, in seconds.
pub(super) const HOUR_SECS: u64 = 3_600;

/// Decay of a weight in ten seconds: it halves in ten minutes.
const FADING: f64 = 0.988_514;

/// Bytes of a row in addition to its points: its place in a table that is two thirds full, what
/// `malloc` adds, and its entry in the list of all rows while room is made.
const ROW_BYTES: usize = (size_of::<Row>() + size_of::<u64>()) * 3 / 2 + 16 + size_of::<Heft>();

/// A second, or the ten wall-clock seconds that were merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) second: u64,
    pub(super) secs: u64,
    /// Requests of lost seconds before it.
    pub(super) missed: u64,
}

impl Slot {
    pub(super) fn end(&self) -> u64 {
        self.second + self.secs
    }
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    /// Its recent time, which decides who keeps room when there is too little.
    weight: f64,
    /// Whether it has room for histograms.
    is_full: bool,
    pub(super) points: Points,
}

impl Row {
    fn bytes(&self) -> usize {
        ROW_BYTES + self.points.bytes()
    }

    /// A rank that is larger for heavier rows. Ids break ties, so that rows of equal weight do not
    /// take turns.
    fn rank(&self, id: u64) -> Weight {
        (self.weight.to_bits(), id)
    }
}

/// The gains of one report.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// The first second in which it was watched.
    pub(super) since: u64,
    /// By id, with all of them together under [`TOTAL_ID`].
    pub(super) rows: HashMap<u64, Row, RandomState>,
    /// Seconds in which some rows gained what is in the total alone.
    pub(super) folded: BTreeSet<u64>,
}

/// All data of the last hour.
#[derive(Debug, Default)]
pub(super) struct LastHour {
    /// Reports by number.
    pub(super) reports: BTreeMap<u64, Report>,
    /// Completed slots, oldest first: tens, then seconds.
    pub(super) slots: VecDeque<Slot>,
    /// Unix second of second 0. It moves when the wall clock is set: a minute ago is still a minute
    /// ago.
    pub(super) base: u64,
    /// Bytes of all rows.
    pub(super) bytes: usize,
    bytes_max: usize,
    /// A new row has to weigh more than this.
    weight_min: f64,
    /// Rows whose gain in the newest second is in the total only.
    pub(super) folded: usize,
}

impl LastHour {
    /// An empty one of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Adds the gain of a row in a second, with its weight.
    pub(super) fn add(
        &mut self,
        second: u64,
        (report, id): (u64, u64),
        weight: f64,
        gained: EncodedGain<'_>,
    ) {
        let Some(report) = self.reports.get_mut(&report) else { return };
        let row = match report.rows.entry(id) {
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(place) if id != OTHER_ID && weight >= self.weight_min => {
                self.bytes += ROW_BYTES;
                place.insert(Row { weight: 0.0, is_full: true, points: Points::default() })
            }
            Entry::Vacant(_) => {
                report.folded.insert(second);
                self.folded += 1;
                return;
            }
        };
        row.weight += weight;
        let before = row.points.bytes();
        row.points.push(second, gained, row.is_full);
        self.bytes += row.points.bytes() - before;
        if self.bytes > self.bytes_max {
            self.make_room(second);
        }
    }

    /// Drops the other reports.
    pub(super) fn retain(&mut self, is_kept: impl Fn(u64) -> bool) {
        if !self.reports.keys().all(|&report| is_kept(report)) {
            self.reports.retain(|&report, _| is_kept(report));
            self.measure();
        }
    }

    fn measure(&mut self) {
        let rows = self.reports.values().flat_map(|it| it.rows.values());
        self.bytes = rows.map(Row::bytes).sum();
    }

    /// The second after the newest.
    pub(super) fn end(&self) -> Option<u64> {
        self.slots.back().map(Slot::end)
    }

    /// The oldest second kept, and the oldest one kept individually; `None` if there is none yet.
    pub(super) fn reaches(&self) -> Option<(u64, u64)> {
        let fine = self.slots.iter().rev().take_while(|slot| slot.secs == 1);
        let fine_from = fine.last().or(self.slots.back())?.second;
        Some((self.slots.front()?.second, fine_from))
    }

    /// Called every ten seconds: merges seconds older than [`FINE_SECS`] by tens of the wall clock,
    /// and drops those older than an hour.
    pub(super) fn age(&mut self) {
        let end = self.end().unwrap_or_default();
        let ten = |second| (self.base + second) / COARSE_SECS;
        let mut slots: VecDeque<Slot> = VecDeque::with_capacity(self.slots.len());
        let is_kept = |slot: &&Slot| slot.end() + HOUR_SECS > end;
        for slot in self.slots.iter().filter(is_kept) {
            let is_old = ten(slot.second) + FINE_SECS / COARSE_SECS < ten(end);
            match slots.back_mut() {
                Some(last) if is_old && ten(last.second) == ten(slot.second) => {
                    last.secs += slot.secs;
                    last.missed += slot.missed;
                }
                _ => slots.push_back(*slot),
            }
        }
        let begin = |second: u64| {
            let at = slots.partition_point(|slot| slot.second <= second);
            Some(slots[at.checked_sub(1)?].second)
        };
        let has_room = self.bytes < self.bytes_max / 4 * 3;
        for report in self.reports.values_mut() {
            report.folded = report.folded.iter().filter_map(|&it| begin(it)).collect();
            report.rows.retain(|_, row| {
                row.points.regroup(begin, true);
                row.weight *= FADING;
                row.is_full |= has_room;
                row.points.bytes() > 0
            });
            report.rows.shrink_to(report.rows.len() * 2);
        }
        self.slots = slots;
        self.weight_min = if has_room { 0.0 } else { self.weight_min * FADING };
        self.measure();
    }

    /// Decides which rows keep their data when there is too little room.
    fn make_room(&mut self, newest: u64) {
        let reports = self.reports.values().flat_map(|it| &it.rows);
        let heft = |(&id, row): (&u64, &Row)| {
            let histograms = row.points.histograms;
            let rest = row.bytes().saturating_sub(histograms);
            (row.rank(id), rest as u32, histograms as u32)
        };
        let rows: Vec<Heft> = reports.map(heft).collect();
        // Frees more than is missing, so that this is rarely done. Sums may take part of the room:
        // a chart of counts is worth more than percentiles of few rows.
        let room = self.bytes_max / 8 * 7;
        let [gone, without] = divide(rows, room, room / 5 * 3);
        self.weight_min = gone.map_or(0.0, |(weight, _)| f64::from_bits(weight));
        for report in self.reports.values_mut() {
            let folded = &mut report.folded;
            report.rows.retain(|&id, row| {
                let rank = Some(row.rank(id));
                let is_total = id == TOTAL_ID;
                if rank <= gone && !is_total {
                    folded.extend(row.points.iter().map(|(second, _)| second));
                    self.folded += usize::from(row.points.newest == newest);
                    return false;
                }
                row.is_full = rank > without;
                if !row.is_full && row.points.histograms > 0 {
                    row.points.regroup(Some, false);
                }
                true
            });
        }
        self.measure();
    }

    /// Numbers of all rows, and of those with and without histograms in the newest second.
    pub(super) fn count(&self) -> (usize, usize, usize) {
        let (mut all, mut counts) = (0, [0; 2]);
        let newest = self.end().unwrap_or_default().saturating_sub(1);
        for report in self.reports.values() {
            let rows = report.rows.iter().filter(|(id, _)| **id >= FIRST_ID);
            for (_, row) in rows {
                all += 1;
                counts[usize::from(row.is_full)] += usize::from(row.points.newest == newest);
            }
        }
        (all, counts[1], counts[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::encoded_gain::encode;
    use crate::report::totals::Totals;

    /// The gain of a row with this many requests, of 50 different times.
    fn gained(requests: u64) -> Vec<u8> {
        let mut packed = Vec::new();
        let totals = Totals { requests, time: u128::from(requests) * 1000, ..Totals::ZERO };
        let pairs = (100..150).map(|bucket| (bucket, 1));
        encode(&mut packed, &totals, Some(pairs));
        packed
    }

    /// The data of rows 2 to 101 over `seconds`; the heaviest has the largest id.
    fn hour(bytes_max: usize, seconds: u64) -> LastHour {
        let mut hour = LastHour::new(bytes_max);
        hour.reports.insert(7, Report::default());
        for second in 0..seconds {
            hour.folded = 0;
            for row in 2..102 {
                hour.add(second, (7, row), row as f64, EncodedGain(&gained(row)));
                assert!(hour.bytes <= bytes_max);
            }
            let all = gained((2..102).sum());
            hour.add(second, (7, TOTAL_ID), f64::INFINITY, EncodedGain(&all));
            hour.slots.push_back(Slot { second, secs: 1, missed: 0 });
        }
        hour
    }

    fn requests(row: &Row) -> u64 {
        let points = row.points.iter().map(|(_, gained)| gained.read().0);
        points.map(|totals| totals.requests).sum()
    }

    #[test]
    fn with_room_every_row_is_kept_in_full() {
        let mut hour = hour(1 << 20, 10);
        assert_eq!((hour.count(), hour.folded), ((100, 100, 0), 0));
        let row = &hour.reports[&7].rows[&77];
        assert_eq!((requests(row), row.points.iter().count()), (770, 10));
        let all = hour.bytes;
        for second in 10..4_000 {
            hour.slots.push_back(Slot { second, secs: 1, missed: 0 });
            if second == 399 {
                hour.age();
                let row = &hour.reports[&7].rows[&77];
                assert_eq!((requests(row), row.points.iter().count()), (770, 1));
                assert!(hour.bytes < all / 2);
                assert_eq!(hour.reaches(), Some((0, 100)));
            }
        }
        hour.age();
        assert_eq!((hour.count(), hour.bytes), ((0, 0, 0), 0), "an hour later");
        hour.retain(|_| false);
        assert!(hour.reports.is_empty());
    }

    #[test]
    fn without_room_weight_decides_and_totals_stay() {
        let mut hour = hour(100_000, 100);
        let (rows, full, without) = hour.count();
        assert_eq!(rows, full + without);
        assert!(full > 3 && without > full && hour.folded > 0);
        let report = &hour.reports[&7];
        let total = &report.rows[&TOTAL_ID];
        assert_eq!(requests(total), 100 * (2..102).sum::<u64>());
        assert!(total.points.histograms > 0);
        // From the heaviest down: full, sums, folded.
        let mut kept: Vec<_> = report
            .rows
            .iter()
            .filter(|(id, _)| **id >= FIRST_ID)
            .map(|(id, row)| (*id, row.is_full))
            .collect();
        kept.sort_unstable();
        let last = 102 - rows as u64;
        let expected = (last..102).map(|id| (id, id >= 102 - full as u64));
        assert_eq!(kept, expected.collect::<Vec<_>>());
        // Absent rows are unknown in seconds in which some had no room.
        assert_eq!(report.folded.len(), 100);
        // Later there is room again.
        hour.slots.push_back(Slot { second: 3_690, secs: 1, missed: 0 });
        hour.age();
        hour.age();
        let row = (7, FIRST_ID);
        hour.add(3_691, row, 1.0, EncodedGain(&gained(1)));
        assert!(hour.reports[&7].rows[&FIRST_ID].is_full);
    }
}
