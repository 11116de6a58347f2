//! The table of one report: what its rows gain in the running second.
//!
//! Only the series thread sees it. A row lies on the table while it is busy, so that a record finds it by the hash of what
//! it was made from (a cache) and not by its texts. When the table is full, what comes is added up as `(other)` until the
//! second is over; then idle rows leave, and if that does not help, those that took the least time. A row whose
//! percentiles would find no room in a block anyway is *dim*: its times go into the total alone.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;

use super::history::Dense;
use super::times::{Event, SLOTS_MAX, Times};
use crate::report::totals::Totals;

/// The row that takes what found no room; always there.
pub(super) const OTHER_SLOT: u32 = 0;
/// A record that is none of this report's.
pub(super) const NOT_COUNTED: u32 = u32::MAX;
/// Least rows of a table, however little memory there is.
const ROWS_MIN: usize = 16;

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
    /// Whether its times are not kept, from the next second on.
    pub(super) dim: bool,
    /// Whether its times of this second are not kept.
    blind: bool,
    last_request: u64,
    last_second: u64,
    /// What it took in the last second that it was busy in, microseconds.
    last_time: u64,
    pub(super) totals: Totals,
}

impl SecondRow {
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

/// A place of the cache: an identity, its row, and the generation of that row when it was found ([`OTHER_SLOT`]: of the
/// table). A tuple, so that a vector of [`NOTHING`] takes no memory before it is used.
type Place = (u64, u32, u32);

/// Says nothing of any identity: generations of the table begin at 1.
const NOTHING: Place = (0, OTHER_SLOT, 0);

/// The busy rows of one report.
#[derive(Debug)]
pub(super) struct CurrentSecond {
    pub(super) rows: Vec<SecondRow>,
    /// How often each place in `rows` was given to another row.
    generations: Vec<u32>,
    by_key: HashTable<u32>,
    hasher: RandomState,
    unused: Vec<u32>,
    cache: Box<[Place]>,
    rows_max: usize,
    times: Times,
    /// Times of `(other)` and of rows whose own are not kept: the total has them.
    spilled: Dense,
    /// Upper bounds of the buckets that metrics want, microseconds; empty: none.
    bounds: Arc<[u64]>,
    /// Per row one count for each bound, and one for what is above.
    counts: Vec<u64>,
    second: u64,
    /// Whether rows were let go in this second.
    swept: bool,
    /// One more than how often rows were.
    generation: u32,
}

impl CurrentSecond {
    /// A table of so many bytes, with room for so many (row, bucket).
    pub(super) fn new(bytes: usize, times_max: usize, bounds: Arc<[u64]>) -> Self {
        let counts = if bounds.is_empty() {
            0
        } else {
            bounds.len() + 1
        };
        let row_bytes = SECOND_ROW_BYTES + counts * size_of::<u64>();
        let rows_max = bytes.saturating_sub(SECOND_BYTES) / row_bytes;
        let rows_max = rows_max.clamp(ROWS_MIN, SLOTS_MAX);
        // All that it can hold, at once: doubled step by step it would take more. Pages are resident when they are used.
        let mut current = Self {
            rows: Vec::with_capacity(rows_max + 1),
            generations: Vec::with_capacity(rows_max + 1),
            by_key: HashTable::with_capacity(rows_max),
            hasher: RandomState::new(),
            unused: Vec::new(),
            cache: vec![NOTHING; CACHE_PLACES].into(),
            rows_max,
            times: Times::new(times_max),
            spilled: Dense::new(),
            bounds,
            counts: Vec::with_capacity((rows_max + 1) * counts),
            second: 0,
            swept: false,
            generation: 1,
        };
        current.add_row(Arc::from([].as_slice()));
        current
    }

    /// The row of what has this identity; `None`: ask for its key.
    #[inline]
    pub(super) fn cached(&self, identity: u64) -> Option<u32> {
        let (known, slot, generation) = self.cache[place_of(identity)];
        (known == identity && generation == self.generation_of(slot)).then_some(slot)
    }

    fn generation_of(&self, slot: u32) -> u32 {
        match slot {
            NOT_COUNTED => 0,
            OTHER_SLOT => self.generation,
            slot => self.generations[slot as usize],
        }
    }

    fn remember(&mut self, identity: u64, slot: u32) {
        self.cache[place_of(identity)] = (identity, slot, self.generation_of(slot));
    }

    /// Remembers that what has this identity is none of this report's.
    pub(super) fn skip(&mut self, identity: u64) {
        self.remember(identity, NOT_COUNTED);
    }

    /// Forgets what has which identity.
    pub(super) fn forget_identities(&mut self) {
        self.cache.fill(NOTHING);
    }

    /// The row of a key, laid on the table if there is room.
    pub(super) fn row_of(&mut self, identity: u64, key: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let rows = &self.rows;
        let found = self
            .by_key
            .find(hash, |&slot| *rows[slot as usize].key == *key);
        let slot = match found {
            Some(&slot) => slot,
            None if self.room() == 0 => OTHER_SLOT,
            None => {
                let slot = self.add_row(key.into());
                let Self {
                    by_key,
                    rows,
                    hasher,
                    ..
                } = self;
                by_key.insert_unique(hash, slot, |&slot| {
                    hasher.hash_one(&*rows[slot as usize].key)
                });
                slot
            }
        };
        self.remember(identity, slot);
        slot
    }

    fn add_row(&mut self, key: Arc<[u8]>) -> u32 {
        let row = SecondRow {
            key,
            row: 0,
            mark: 0,
            dim: false,
            blind: false,
            last_request: 0,
            last_second: self.second,
            last_time: 0,
            totals: Totals::ZERO,
        };
        match self.unused.pop() {
            Some(slot) => {
                self.rows[slot as usize] = row;
                slot
            }
            None => {
                self.rows.push(row);
                self.generations.push(0);
                self.counts.resize(self.rows.len() * self.stride(), 0);
                (self.rows.len() - 1) as u32
            }
        }
    }

    /// How many further rows fit.
    fn room(&self) -> usize {
        (self.rows_max + self.unused.len()).saturating_sub(self.rows.len())
    }

    /// Counts per row for metrics.
    fn stride(&self) -> usize {
        if self.bounds.is_empty() {
            0
        } else {
            self.bounds.len() + 1
        }
    }

    /// Adds a record to its row.
    #[inline]
    pub(super) fn add(&mut self, slot: u32, gain: &Gain) {
        let row = &mut self.rows[slot as usize];
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
            let stride = self.bounds.len() + 1;
            self.counts[slot as usize * stride + at] += u64::from(gain.weight);
        }
        if row.blind || slot == OTHER_SLOT {
            self.spilled.add_one(gain.bucket, u64::from(gain.weight));
        } else if gain.weight > 0 {
            if self.times.is_full() {
                self.make_room();
            }
            self.times.push(slot, gain.bucket, gain.weight);
        }
    }

    /// Makes room in the list of times: first by adding up what is the same, then at the cost of the lightest rows.
    #[cold]
    fn make_room(&mut self) {
        self.times.compact();
        if !self.times.is_crowded() {
            return;
        }
        let of_row = |events: &[Event]| {
            let slot = events[0].slot();
            (self.rows[slot as usize].totals.time, slot)
        };
        let mut rows: Vec<(u128, u32)> = self.times.rows().map(of_row).collect();
        let half = rows.len() / 2;
        if rows.len() > 1 {
            rows.select_nth_unstable(half);
        }
        for &(_, slot) in &rows[..half] {
            self.rows[slot as usize].blind = true;
        }
        let Self {
            times,
            rows,
            spilled,
            ..
        } = self;
        times.retain(|event| {
            let blind = rows[event.slot() as usize].blind;
            if blind {
                let (bucket, count) = event.pair();
                spilled.add_one(bucket, count);
            }
            !blind
        });
    }

    /// Lets rows leave, at most once a second, so that others find room. Not to be called while slots are under way.
    pub(super) fn sweep(&mut self) {
        if self.swept || self.room() >= self.rows_max / 4 {
            return;
        }
        self.swept = true;
        self.generation = self.generation.wrapping_add(1).max(1);
        let second = self.second;
        self.leave(|row| row.last_second + IDLE_SECS < second);
        if self.room() >= self.rows_max / 16 {
            return;
        }
        let going = (self.rows_max / 8).saturating_sub(self.room());
        let rows = self.rows.iter().skip(1);
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
        for slot in 1..self.rows.len() as u32 {
            let row = &self.rows[slot as usize];
            if row.totals.requests > 0 || !goes(row) {
                continue;
            }
            let hash = self.hasher.hash_one(&*row.key);
            if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == slot) {
                entry.remove();
                self.rows[slot as usize].key = Arc::from([].as_slice());
                let generation = &mut self.generations[slot as usize];
                *generation = generation.wrapping_add(1);
                self.unused.push(slot);
            }
        }
    }

    /// Closes the second: gives every row that gained something to `each`, with its times ((bucket, count), ascending;
    /// `None`: not kept), and then adds the times of all rows up in `all`. What rows gained is still there afterwards.
    pub(super) fn close(
        &mut self,
        all: &mut Dense,
        pairs: &mut Vec<(u32, u64)>,
        mut each: impl FnMut(u32, &SecondRow, Option<&[(u32, u64)]>),
    ) {
        self.times.compact();
        let mut timed = self.times.rows().peekable();
        for (row, slot) in self.rows.iter().zip(0..) {
            if row.totals.requests == 0 {
                continue;
            }
            pairs.clear();
            let mine = timed.next_if(|events| events[0].slot() == slot);
            for event in mine.unwrap_or_default() {
                let (bucket, count) = event.pair();
                match pairs.last_mut() {
                    Some((last, sum)) if *last == bucket => *sum += count,
                    _ => pairs.push((bucket, count)),
                }
            }
            all.add(pairs.iter().copied());
            let whole = !row.blind && slot != OTHER_SLOT;
            each(slot, row, whole.then_some(pairs.as_slice()));
        }
        self.spilled.take(pairs);
        all.add(pairs.iter().copied());
    }

    /// Every row that gained something in this second, for the metrics.
    pub(super) fn gained(&mut self, mut each: impl FnMut(u32, &mut SecondRow, &[u64])) {
        let stride = self.stride();
        for (slot, row) in self.rows.iter_mut().enumerate() {
            if row.totals.requests > 0 {
                let counts = &self.counts[slot * stride..(slot + 1) * stride];
                each(slot as u32, row, counts);
            }
        }
    }

    /// Starts the next second.
    pub(super) fn clear(&mut self, second: u64) {
        let stride = self.stride();
        for (slot, row) in self.rows.iter_mut().enumerate() {
            if row.totals.requests > 0 {
                row.last_time = u64::try_from(row.totals.time).unwrap_or(u64::MAX - 1);
                row.totals = Totals::ZERO;
                row.last_second = self.second;
                self.counts[slot * stride..(slot + 1) * stride].fill(0);
            }
            row.blind = row.dim;
        }
        self.times.clear();
        self.second = second;
        self.swept = false;
    }

    /// Rows that lost their number.
    pub(super) fn forget_numbers(&mut self, is_known: impl Fn(u32) -> bool) {
        for row in &mut self.rows {
            if row.row != 0 && !is_known(row.row) {
                row.row = 0;
            }
        }
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
        let (mut all, mut pairs) = (Dense::new(), Vec::new());
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
                    current.add(slot, &gain(request, time));
                }
            }
            let (mut requests, mut heaviest) = (0, None);
            current.close(&mut all, &mut pairs, |_, row, pairs| {
                requests += row.totals.requests;
                if *row.key == 0_u64.to_le_bytes() {
                    let counted = pairs.map(|pairs| pairs.iter().map(|(_, count)| count).sum());
                    heaviest = Some((row.totals.requests, counted));
                }
            });
            assert_eq!(requests, request - before);
            let expected = if second == 1 { 2_000 } else { 1_999 };
            assert_eq!(heaviest, Some((expected, Some(expected))), "{second}");
            all.take(&mut pairs);
            let times: u64 = pairs.iter().map(|(_, count)| count).sum();
            assert_eq!(times, request - before, "the total has every time");
            let mut buckets = 0;
            current.gained(|_, _, counts| buckets += counts.iter().sum::<u64>());
            assert_eq!(buckets, request - before, "and so have the metrics");
        }
        current.clear(6);
        current.close(&mut all, &mut pairs, |_, _, _| panic!("nothing is left"));
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
