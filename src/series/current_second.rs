//! The table of one report: what its rows gain in the running second.
//!
//! Only the series thread sees it. A row lies on the table while it is busy, so that a record finds it by the hash of what
//! it was made from (a cache) and not by its texts. When the table is full, what comes is added up as `(other)` until the
//! second is over; then idle rows leave, and if that does not help, those that took the least time. When the histograms
//! take more than they may, the lighter half of the rows is *blind* until the second is over: their times go into the total
//! alone.

use std::sync::Arc;

use ahash::RandomState;

use crate::pool::table::Table;
use crate::report::counts::{Histogram, grown};
use crate::report::totals::Totals;

/// The row that takes what found no room; always there.
pub(super) const OTHER_SLOT: u32 = 0;
/// A record that is none of this report's.
pub(super) const NOT_COUNTED: u32 = u32::MAX - 1;
/// Least rows of a table, however little memory there is.
const ROWS_MIN: usize = 16;
/// Most rows.
const ROWS_MAX: usize = 1 << 20;
/// Least memory of its histograms: several rows' with every bucket.
const HISTOGRAM_BYTES_MIN: usize = 128 << 10;

/// Slots of the cache.
const CACHE_PLACES: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 14;
/// Seconds without a request after which a row leaves a crowded table first.
const IDLE_SECS: u64 = 10;
/// Bytes that a row takes beside its counts for metrics, its key and its place in the table included.
const SECOND_ROW_BYTES: usize = size_of::<SecondRow>() + size_of::<u32>() + 96;
/// Bytes that a table takes beside its rows and events.
const SECOND_BYTES: usize = CACHE_PLACES * size_of::<Place>() + (64 << 10);

/// A busy row.
#[derive(Debug)]
pub(super) struct SecondRow {
    pub(super) key: Arc<[u8]>,
    /// Its number in blocks; 0: none yet.
    pub(super) row: u32,
    /// What the metrics know it by; 0: not at all.
    pub(super) mark: u32,
    /// Its times of this second, unless it is blind.
    histogram: Histogram,
    blind: bool,
    last_request: u64,
    last_second: u64,
    /// What it took in the last second that it was busy in, microseconds.
    last_time: u64,
    pub(super) totals: Totals,
}

impl SecondRow {
    fn new(key: Arc<[u8]>, second: u64) -> Self {
        Self {
            key,
            row: 0,
            mark: 0,
            histogram: Histogram::new(),
            blind: false,
            last_request: 0,
            last_second: second,
            last_time: 0,
            totals: Totals::ZERO,
        }
    }

    /// Takes its times and their memory, and returns how much that was.
    fn forget_histogram(&mut self) -> usize {
        let bytes = self.histogram.heap_bytes();
        self.histogram.reset();
        bytes
    }

    /// What it counts for when rows must leave: the least leaves first.
    fn worth(&self, second: u64) -> (bool, u64) {
        if self.last_second + IDLE_SECS < second {
            (false, 0)
        } else {
            (self.mark != 0, self.last_time + 1)
        }
    }
}

/// What one record adds to a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gain {
    pub(super) request: u64,
    pub(super) time: u64,
    pub(super) ru_utime: u64,
    pub(super) ru_stime: u64,
    pub(super) traffic: u32,
    pub(super) memory: u32,
    pub(super) hits: u32,
    pub(super) error: bool,
    /// What goes into the histogram, its bucket, and how often.
    pub(super) sample: u64,
    pub(super) bucket: u32,
    pub(super) weight: u32,
}

/// A place of the cache: an identity and one more than the slot of its row; 0: nothing. A tuple, so that a vector of empty
/// ones takes no memory before it is used.
type Place = (u64, u32);

/// The busy rows of one report.
#[derive(Debug)]
pub(super) struct CurrentSecond {
    pub(super) rows: Table<SecondRow>,
    hasher: RandomState,
    cache: Box<[Place]>,
    rows_max: usize,
    /// Bytes that histograms take, and may take.
    histogram_bytes: usize,
    histogram_bytes_max: usize,
    /// Times of `(other)` and of rows whose own are not kept: the total has them.
    spilled: Histogram,
    /// Upper bounds of the buckets that metrics want, microseconds; empty: none.
    bounds: Arc<[u64]>,
    /// Per row one count for each bound, and one for what is above.
    counts: Vec<u64>,
    second: u64,
    /// Whether rows were let go in this second.
    swept: bool,
}

impl CurrentSecond {
    /// A table of so many bytes, and so many for its histograms.
    pub(super) fn new(bytes: usize, histogram_bytes: usize, bounds: Arc<[u64]>) -> Self {
        let stride = stride(&bounds);
        let row_bytes = SECOND_ROW_BYTES + stride * size_of::<u64>();
        let rows_max = bytes.saturating_sub(SECOND_BYTES) / row_bytes;
        let rows_max = rows_max.clamp(ROWS_MIN, ROWS_MAX);
        // All that it can hold, at once: doubled step by step it would take more. Pages are resident when they are used.
        let mut counts = Vec::with_capacity((rows_max + 1) * stride);
        counts.resize(stride, 0);
        Self {
            rows: Table::new(rows_max, [SecondRow::new(Arc::from([].as_slice()), 0)]),
            hasher: RandomState::new(),
            cache: vec![(0, 0); CACHE_PLACES].into(),
            rows_max,
            histogram_bytes: 0,
            histogram_bytes_max: histogram_bytes.max(HISTOGRAM_BYTES_MIN),
            spilled: Histogram::new(),
            bounds,
            counts,
            second: 0,
            swept: false,
        }
    }

    /// The row of what has this identity; `None`: ask for its key.
    #[inline]
    pub(super) fn cached(&self, identity: u64) -> Option<u32> {
        let (known, after_slot) = self.cache[place_of(identity)];
        after_slot.checked_sub(1).filter(|_| known == identity)
    }

    fn remember(&mut self, identity: u64, slot: u32) {
        self.cache[place_of(identity)] = (identity, slot + 1);
    }

    /// Remembers that what has this identity is none of this report's.
    pub(super) fn skip(&mut self, identity: u64) {
        self.remember(identity, NOT_COUNTED);
    }

    /// Forgets what has which identity.
    pub(super) fn forget_identities(&mut self) {
        self.cache.fill((0, 0));
    }

    /// The row of a key, laid on the table if there is room.
    pub(super) fn row_of(&mut self, identity: u64, key: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let found = self.rows.find(hash, |row| *row.key == *key);
        let slot = match found {
            Some(slot) => slot,
            None if self.rows.room() == 0 => OTHER_SLOT,
            None => {
                let row = SecondRow::new(key.into(), self.second);
                let hash_of = |row: &SecondRow| self.hasher.hash_one(&*row.key);
                let slot = self.rows.insert(hash, row, hash_of);
                let counts = self.rows.end() * stride(&self.bounds);
                self.counts.resize(counts, 0);
                slot
            }
        };
        self.remember(identity, slot);
        slot
    }

    /// Adds records to their rows, but for those that are [not counted](NOT_COUNTED).
    pub(super) fn add_all(&mut self, slots: &[u32], gains: &[Gain]) {
        let before = grown();
        for (&slot, gain) in slots.iter().zip(gains) {
            if slot != NOT_COUNTED {
                self.add(slot, gain);
            }
        }
        let grown = grown().wrapping_sub(before);
        self.histogram_bytes = self.histogram_bytes.wrapping_add(grown);
        if self.histogram_bytes > self.histogram_bytes_max {
            self.shrink_histograms();
        }
    }

    #[inline]
    fn add(&mut self, slot: u32, gain: &Gain) {
        let row = &mut self.rows[slot];
        let totals = &mut row.totals;
        totals.time += u128::from(gain.time);
        totals.ru_utime += u128::from(gain.ru_utime);
        totals.ru_stime += u128::from(gain.ru_stime);
        totals.traffic += u128::from(gain.traffic);
        totals.memory += u128::from(gain.memory);
        totals.hits += u128::from(gain.hits);
        // Several timers of one request may be in one row.
        totals.requests += u64::from(row.last_request != gain.request);
        row.last_request = gain.request;
        totals.errors += u64::from(gain.error);
        if !self.bounds.is_empty() {
            let at = self.bounds.partition_point(|&bound| bound < gain.sample);
            self.counts[slot as usize * stride(&self.bounds) + at] += u64::from(gain.weight);
        }
        if row.blind || slot == OTHER_SLOT {
            self.spilled.add(gain.bucket, gain.weight.into());
        } else if gain.weight > 0 {
            row.histogram.add(gain.bucket, gain.weight.into());
        }
    }

    /// Takes the memory of the histograms that are idle; if that does not help for long, that of the lighter half of the rows.
    #[cold]
    fn shrink_histograms(&mut self) {
        let Self {
            rows,
            histogram_bytes,
            ..
        } = self;
        for row in rows.entries() {
            if row.totals.requests == 0 {
                *histogram_bytes -= row.forget_histogram();
            }
        }
        if *histogram_bytes <= self.histogram_bytes_max / 4 * 3 {
            return;
        }
        let seeing = rows.entries().iter_mut().filter(|row| !row.blind);
        let mut seeing: Vec<&mut SecondRow> = seeing.collect();
        let half = seeing.len() / 2;
        seeing.sort_unstable_by_key(|row| row.totals.time);
        for row in &mut seeing[..half] {
            row.blind = true;
            for (bucket, count) in row.histogram.iter() {
                self.spilled.add(bucket, count);
            }
            *histogram_bytes -= row.forget_histogram();
        }
    }

    /// Lets rows leave, at most once a second, so that others find room. Not to be called while slots are under way.
    pub(super) fn sweep(&mut self) {
        if self.swept || self.rows.room() >= self.rows_max / 4 {
            return;
        }
        self.swept = true;
        // What has whose slot changes, and what was `(other)` may have one.
        self.forget_identities();
        let second = self.second;
        self.leave(|row| row.last_second + IDLE_SECS < second);
        if self.rows.room() >= self.rows_max / 16 {
            return;
        }
        let going = (self.rows_max / 8).saturating_sub(self.rows.room());
        let rows = self.rows.entries().iter().skip(1);
        let quiet = rows.filter(|row| row.totals.requests == 0);
        let mut worths: Vec<(bool, u64)> = quiet.map(|row| row.worth(second)).collect();
        if worths.len() > going {
            let (_, &mut bound, _) = worths.select_nth_unstable(going);
            self.leave(|row| row.worth(second) < bound);
        } else {
            self.leave(|_| true);
        }
    }

    /// Lets those leave that gained nothing yet in this second.
    fn leave(&mut self, goes: impl Fn(&SecondRow) -> bool) {
        for slot in 1..self.rows.end() as u32 {
            let row = &self.rows[slot];
            if row.totals.requests > 0 || !goes(row) {
                continue;
            }
            let hash = self.hasher.hash_one(&*row.key);
            if self.rows.remove(hash, slot) {
                let row = &mut self.rows[slot];
                row.key = Arc::from([].as_slice());
                self.histogram_bytes -= row.forget_histogram();
            }
        }
    }

    /// Closes the second: gives every row that gained something to `each`, with its times (`None`: not kept), and then the
    /// times of all rows together in `all`. What rows gained is still there afterwards.
    pub(super) fn close(
        &mut self,
        all: &mut Histogram,
        mut each: impl FnMut(u32, &SecondRow, Option<&Histogram>),
    ) {
        all.clear();
        let mut add = |histogram: &Histogram| {
            for (bucket, count) in histogram.iter() {
                all.add(bucket, count);
            }
        };
        for (row, slot) in self.rows.entries().iter().zip(0..) {
            if row.totals.requests > 0 {
                add(&row.histogram);
                let whole = !row.blind && slot != OTHER_SLOT;
                each(slot, row, whole.then_some(&row.histogram));
            }
        }
        add(&self.spilled);
    }

    /// Every row that gained something in this second, for the metrics.
    pub(super) fn gained(&mut self, mut each: impl FnMut(u32, &mut SecondRow, &[u64])) {
        let stride = stride(&self.bounds);
        for (slot, row) in self.rows.entries().iter_mut().enumerate() {
            if row.totals.requests > 0 {
                let counts = &self.counts[slot * stride..(slot + 1) * stride];
                each(slot as u32, row, counts);
            }
        }
    }

    /// Starts the next second.
    pub(super) fn clear(&mut self, second: u64) {
        let stride = stride(&self.bounds);
        for (slot, row) in self.rows.entries().iter_mut().enumerate() {
            if row.totals.requests > 0 {
                row.last_time = u64::try_from(row.totals.time).unwrap_or(u64::MAX - 1);
                row.totals = Totals::ZERO;
                row.last_second = self.second;
                self.counts[slot * stride..(slot + 1) * stride].fill(0);
            }
            row.histogram.clear();
            row.blind = false;
        }
        self.spilled.clear();
        self.second = second;
        self.swept = false;
    }

    /// Rows that lost their number.
    pub(super) fn forget_numbers(&mut self, is_known: impl Fn(u32) -> bool) {
        for row in self.rows.entries() {
            if row.row != 0 && !is_known(row.row) {
                row.row = 0;
            }
        }
    }
}

/// Counts per row for metrics.
fn stride(bounds: &[u64]) -> usize {
    match bounds.len() {
        0 => 0,
        bounds => bounds + 1,
    }
}

/// Where the cache has an identity: identities may differ in any of their bits.
fn place_of(identity: u64) -> usize {
    (identity.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More rows, and more times, than there is room for: sums stay exact, the heaviest row stays and keeps its times.
    #[test]
    fn without_room_the_lightest_go_first() {
        let bytes = SECOND_BYTES + 200 * (SECOND_ROW_BYTES + 16);
        let mut current = CurrentSecond::new(bytes, 0, Arc::from([1_000].as_slice()));
        let gain = |request, time: u64| Gain {
            request,
            time,
            ru_utime: 0,
            ru_stime: 0,
            traffic: 1,
            memory: 0,
            hits: 0,
            error: false,
            sample: time,
            bucket: crate::report::histogram::BucketLayout::LogLinear.bucket(time),
            weight: 1,
        };
        let mut all = Histogram::new();
        let sum = |times: &Histogram| times.iter().map(|(_, count)| count).sum::<u64>();
        let mut request = 0;
        for second in 1..=5 {
            current.clear(second);
            let before = request;
            for round in 0..2_000_u64 {
                current.sweep();
                // Row 0 is always the same, the others never; and in no second but the first is it the first.
                let rows: &[u64] = match (second, round) {
                    (1, _) | (_, 1..) => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
                    _ => &[1; 300],
                };
                for &row in rows {
                    request += 1;
                    let key = if row == 0 { 0 } else { request };
                    let slot = current
                        .cached(key)
                        .unwrap_or_else(|| current.row_of(key, &key.to_le_bytes()));
                    let time = if row == 0 {
                        1_000_000 + round
                    } else {
                        round % 3_000
                    };
                    current.add_all(&[slot], &[gain(request, time)]);
                }
            }
            let (mut requests, mut heaviest) = (0, None);
            current.close(&mut all, |_, row, times| {
                requests += row.totals.requests;
                if *row.key == 0_u64.to_le_bytes() {
                    heaviest = Some((row.totals.requests, times.map(sum)));
                }
            });
            assert_eq!(requests, request - before);
            let expected = if second == 1 { 2_000 } else { 1_999 };
            assert_eq!(heaviest, Some((expected, Some(expected))), "{second}");
            assert_eq!(sum(&all), request - before, "the total has every time");
            let mut buckets = 0;
            current.gained(|_, _, counts| buckets += counts.iter().sum::<u64>());
            assert_eq!(buckets, request - before, "and so have the metrics");
        }
        current.clear(6);
        current.close(&mut all, |_, _, _| panic!("nothing is left"));
    }

    /// A place that was given to another row is not found by what had it before.
    #[test]
    fn who_left_is_not_found_any_more() {
        let mut current = CurrentSecond::new(0, 0, Arc::from([].as_slice()));
        let first = current.row_of(1, b"first");
        assert_eq!(current.cached(1), Some(first));
        for key in 2..=ROWS_MIN as u64 {
            current.row_of(key, &key.to_le_bytes());
        }
        assert_eq!(current.row_of(99, b"too many"), OTHER_SLOT);
        assert_eq!(current.cached(99), Some(OTHER_SLOT));
        current.clear(100);
        current.sweep();
        assert_eq!((current.cached(1), current.cached(99)), (None, None));
        assert_ne!(current.row_of(99, b"too many"), OTHER_SLOT);
    }
}
