//! The desk of one report: what its rows gain in the running second.
//!
//! Only the series thread sees it. A row lies on the desk while it is busy, so that a record finds it by the hash of what
//! it was made from (a cache) and not by its texts. Times go into one list of (row, bucket), which is sorted when the
//! second closes: cheaper than a histogram for each row, and bounded. When the desk is full, idle rows leave; when
//! so many rows were busy in one second that this does not help, the lightest of those that no frame and no metric knows
//! are added up. When the list is full, the lightest rows go without a histogram for this second.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;

use super::history::Dense;
use crate::report::totals::Totals;

/// The row that takes what found no room; always there.
pub(super) const OTHER_SLOT: u32 = 0;
/// A record that is none of this report's.
pub(super) const NOT_COUNTED: u32 = u32::MAX;

/// Bits of a bucket in an event; a log-linear bucket has less than 2^12.
const BUCKET_BITS: u32 = 12;
/// Most rows, by the bits that an event has for them.
pub(super) const SLOTS_MAX: usize = 1 << 20;

/// Least rows of a desk, however little memory there is.
const ROWS_MIN: usize = 16;

/// Places of the cache.
const CACHE_PLACES: usize = 1 << CACHE_BITS;
const CACHE_BITS: u32 = 14;
/// Seconds without a request after which a row leaves a full desk first.
const IDLE_SECS: u64 = 10;
/// Least (row, bucket) of a second: more than three rows can have, so that the lightest half of the rows is never nothing.
const EVENTS_MIN: usize = 1 << 14;
/// Bytes that a row takes beside its counts for metrics, its key and its place in the table included.
const DESK_ROW_BYTES: usize = size_of::<DeskRow>() + 96;
/// Bytes that a desk takes beside its rows and events.
const DESK_BYTES: usize = CACHE_PLACES * size_of::<(u64, u32)>() + (64 << 10);

/// A busy row.
#[derive(Debug)]
pub(super) struct DeskRow {
    pub(super) key: Arc<[u8]>,
    /// Its number in frames; 0: none yet.
    pub(super) row: u32,
    /// What the metrics know it by; 0: not at all.
    pub(super) mark: u32,
    /// Whether its times of this second were not kept.
    pub(super) blind: bool,
    last_request: u64,
    last_second: u64,
    pub(super) totals: Totals,
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
    pub(super) hits: u64,
    pub(super) error: bool,
    /// What goes into the histogram, and how often.
    pub(super) sample: u64,
    pub(super) bucket: u32,
    pub(super) weight: u32,
}

/// The busy rows of one report.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) rows: Vec<DeskRow>,
    by_key: HashTable<u32>,
    hasher: RandomState,
    unused: Vec<u32>,
    cache: Box<[(u64, u32)]>,
    rows_max: usize,
    events: Vec<u64>,
    scratch: Vec<u64>,
    events_max: usize,
    /// Times whose row went without a histogram: the total has them.
    spilled: Dense,
    /// Upper bounds of the buckets that metrics want, microseconds; empty: none.
    bounds: Arc<[u64]>,
    /// Per row one count for each bound, and one for what is above.
    counts: Vec<u64>,
    second: u64,
}

impl Desk {
    /// A desk of so many bytes, with room for so many (row, bucket).
    pub(super) fn new(bytes: usize, events_max: usize, bounds: Arc<[u64]>) -> Self {
        let counts = if bounds.is_empty() {
            0
        } else {
            bounds.len() + 1
        };
        let row_bytes = DESK_ROW_BYTES + counts * size_of::<u64>();
        let rows_max = bytes.saturating_sub(DESK_BYTES) / row_bytes;
        let rows_max = rows_max.clamp(ROWS_MIN, SLOTS_MAX);
        // All that it can hold, at once: doubled step by step it would take more. Pages are resident when they are used.
        let mut desk = Self {
            rows: Vec::with_capacity(rows_max + 1),
            by_key: HashTable::with_capacity(rows_max),
            hasher: RandomState::new(),
            unused: Vec::new(),
            cache: vec![(0, OTHER_SLOT); CACHE_PLACES].into(),
            rows_max,
            events: Vec::new(),
            scratch: Vec::new(),
            events_max: events_max.max(EVENTS_MIN),
            spilled: Dense::new(),
            bounds,
            counts: Vec::with_capacity((rows_max + 1) * counts),
            second: 0,
        };
        desk.add_row(Arc::from([].as_slice()));
        desk
    }

    /// The row of what has this identity; `None`: ask for its key.
    #[inline]
    pub(super) fn cached(&self, identity: u64) -> Option<u32> {
        let (known, slot) = self.cache[place(identity)];
        (known == identity && slot != OTHER_SLOT).then_some(slot)
    }

    /// Remembers that what has this identity is none of this report's.
    pub(super) fn skip(&mut self, identity: u64) {
        self.cache[place(identity)] = (identity, NOT_COUNTED);
    }

    /// Forgets what has which identity.
    pub(super) fn forget_identities(&mut self) {
        self.cache.fill((0, OTHER_SLOT));
    }

    /// The row of a key, laid on the desk if there is room.
    pub(super) fn row_of(&mut self, identity: u64, key: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let rows = &self.rows;
        let found = self
            .by_key
            .find(hash, |&slot| *rows[slot as usize].key == *key);
        let slot = match found {
            Some(&slot) => slot,
            None if self.is_full(0) => return OTHER_SLOT,
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
        self.cache[place(identity)] = (identity, slot);
        slot
    }

    fn add_row(&mut self, key: Arc<[u8]>) -> u32 {
        let row = DeskRow {
            key,
            row: 0,
            mark: 0,
            blind: false,
            last_request: 0,
            last_second: self.second,
            totals: Totals::ZERO,
        };
        match self.unused.pop() {
            Some(slot) => {
                self.rows[slot as usize] = row;
                slot
            }
            None => {
                self.rows.push(row);
                self.counts.resize(self.rows.len() * self.stride(), 0);
                (self.rows.len() - 1) as u32
            }
        }
    }

    /// Whether fewer than `room` further rows fit.
    pub(super) fn is_full(&self, room: usize) -> bool {
        self.rows.len() - self.unused.len() + room >= self.rows_max
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
        if gain.weight == 0 {
            return;
        }
        if self.events.len() >= self.events_max {
            self.make_room();
        }
        self.events.push(event(slot, gain.bucket, gain.weight));
    }

    /// Rows of so many events are one after the other, each bucket once, when this returns.
    fn compact(&mut self) {
        sort(&mut self.events, &mut self.scratch);
        let mut kept = 0;
        for at in 0..self.events.len() {
            let event = self.events[at];
            let same = kept > 0 && self.events[kept - 1] >> 32 == event >> 32;
            let sum = if same {
                (self.events[kept - 1] & COUNT_MAX) + (event & COUNT_MAX)
            } else {
                0
            };
            if same && sum <= COUNT_MAX {
                self.events[kept - 1] = (event & !COUNT_MAX) | sum;
            } else {
                self.events[kept] = event;
                kept += 1;
            }
        }
        self.events.truncate(kept);
    }

    /// Makes room in the list of events: first by adding up what is the same, then at the cost of the lightest rows.
    #[cold]
    fn make_room(&mut self) {
        self.compact();
        if self.events.len() < self.events_max / 4 * 3 {
            return;
        }
        let mut rows: Vec<(u128, u32)> = Vec::new();
        for group in self.events.chunk_by(|a, b| slot_of(*a) == slot_of(*b)) {
            let slot = slot_of(group[0]);
            rows.push((self.rows[slot as usize].totals.time, slot));
        }
        let half = rows.len() / 2;
        if rows.len() > 1 {
            rows.select_nth_unstable(half);
        }
        for &(_, slot) in &rows[..half] {
            self.rows[slot as usize].blind = true;
        }
        let Self {
            events,
            rows,
            spilled,
            ..
        } = self;
        events.retain(|&event| {
            let blind = rows[slot_of(event) as usize].blind;
            if blind {
                spilled.add(std::iter::once((bucket_of(event), event & COUNT_MAX)));
            }
            !blind
        });
    }

    /// Lets rows leave until a quarter of the desk is free. Not to be called while slots are under way.
    pub(super) fn sweep(&mut self) {
        let enough = self.rows_max / 4;
        let second = self.second;
        self.leave(|row| row.totals.requests == 0 && row.last_second + IDLE_SECS < second);
        if self.is_full(enough) {
            self.leave(|row| row.totals.requests == 0);
        }
        if self.is_full(enough) {
            self.fold_lightest();
        }
        self.forget_identities();
    }

    fn leave(&mut self, goes: impl Fn(&DeskRow) -> bool) {
        for slot in 1..self.rows.len() as u32 {
            let row = &self.rows[slot as usize];
            let hash = self.hasher.hash_one(&*row.key);
            if goes(row)
                && let Ok(entry) = self.by_key.find_entry(hash, |&other| other == slot)
            {
                entry.remove();
                self.rows[slot as usize].key = Arc::from([].as_slice());
                self.unused.push(slot);
            }
        }
    }

    /// Adds up the lighter half of the rows that nobody knows yet.
    fn fold_lightest(&mut self) {
        let new = |row: &DeskRow| row.row == 0 && row.mark == 0 && row.totals.requests > 0;
        let slots = (1..self.rows.len() as u32).filter(|&slot| new(&self.rows[slot as usize]));
        let mut rows: Vec<(u128, u32)> = slots
            .map(|slot| (self.rows[slot as usize].totals.time, slot))
            .collect();
        let half = rows.len() / 2;
        if rows.len() > 1 {
            rows.select_nth_unstable(half);
        }
        let stride = self.stride();
        for &(_, slot) in &rows[..half] {
            let totals = std::mem::take(&mut self.rows[slot as usize].totals);
            self.rows[OTHER_SLOT as usize].totals += &totals;
            for at in 0..stride {
                let count = std::mem::take(&mut self.counts[slot as usize * stride + at]);
                self.counts[OTHER_SLOT as usize * stride + at] += count;
            }
        }
        let Self {
            events,
            rows,
            spilled,
            ..
        } = self;
        // What has events but no requests any more was folded.
        events.retain(|&event| {
            let folded = rows[slot_of(event) as usize].totals.requests == 0;
            if folded {
                spilled.add(std::iter::once((bucket_of(event), event & COUNT_MAX)));
            }
            !folded
        });
        self.leave(|row| row.totals.requests == 0);
    }

    /// Closes the second: gives every row that gained something to `each`, with its times ((bucket, count), ascending;
    /// `None`: not kept), and then adds the times of all rows up in `all`. What rows gained is still there afterwards.
    pub(super) fn close(
        &mut self,
        all: &mut Dense,
        pairs: &mut Vec<(u32, u64)>,
        mut each: impl FnMut(u32, &DeskRow, Option<&[(u32, u64)]>),
    ) {
        self.compact();
        let mut events = self.events.as_slice();
        for (row, slot) in self.rows.iter().zip(0..) {
            if row.totals.requests == 0 {
                continue;
            }
            let mine = events.partition_point(|&event| slot_of(event) <= slot);
            let (mine, others) = events.split_at(mine);
            events = others;
            pairs.clear();
            for &event in mine {
                let (bucket, count) = (bucket_of(event), event & COUNT_MAX);
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
    pub(super) fn gained(&mut self, mut each: impl FnMut(u32, &mut DeskRow, &[u64])) {
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
                row.totals = Totals::ZERO;
                row.last_second = second;
                row.blind = false;
                self.counts[slot * stride..(slot + 1) * stride].fill(0);
            }
        }
        self.events.clear();
        self.second = second;
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
fn place(identity: u64) -> usize {
    (identity.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - CACHE_BITS)) as usize
}

/// Digits of a sort: eleven bits each, of the 32 that tell events apart.
const DIGITS: [u32; 3] = [32, 43, 54];
/// What a digit can be.
const DIGIT: usize = 1 << 11;

/// Sorts events by row and bucket, whatever their count: digit by digit, which takes a third of the time that comparing
/// would for the tens of thousands of a busy second.
fn sort(events: &mut Vec<u64>, scratch: &mut Vec<u64>) {
    if events.len() < DIGIT {
        events.sort_unstable();
        return;
    }
    scratch.resize(events.len(), 0);
    for shift in DIGITS {
        let digit = |event: u64| (event >> shift) as usize % DIGIT;
        let mut starts = [0_u32; DIGIT];
        for &event in &*events {
            starts[digit(event)] += 1;
        }
        if starts.contains(&(events.len() as u32)) {
            // All have the same: reports of few rows know few digits.
            continue;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += std::mem::replace(start, sum);
        }
        for &event in &*events {
            let start = &mut starts[digit(event)];
            scratch[*start as usize] = event;
            *start += 1;
        }
        std::mem::swap(events, scratch);
    }
}

const COUNT_MAX: u64 = u32::MAX as u64;

fn event(slot: u32, bucket: u32, count: u32) -> u64 {
    (u64::from(slot) << BUCKET_BITS | u64::from(bucket)) << 32 | u64::from(count)
}

fn slot_of(event: u64) -> u32 {
    (event >> (32 + BUCKET_BITS)) as u32
}

fn bucket_of(event: u64) -> u32 {
    (event >> 32) as u32 & ((1 << BUCKET_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_sorted_by_row_and_bucket() {
        let mut seed = 5u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for (rows, count) in [(1, 10), (1, 5_000), (40, 5_000), (SLOTS_MAX as u64, 20_000)] {
            let mut events: Vec<u64> = (0..count)
                .map(|_| event(next(rows) as u32, next(2_944) as u32, next(9) as u32 + 1))
                .collect();
            let mut expected: Vec<u64> = events.iter().map(|event| event >> 32).collect();
            expected.sort_unstable();
            let counts: u64 = events.iter().map(|event| event & COUNT_MAX).sum();
            sort(&mut events, &mut Vec::new());
            assert_eq!(
                events.iter().map(|event| event & COUNT_MAX).sum::<u64>(),
                counts
            );
            let sorted: Vec<u64> = events.iter().map(|event| event >> 32).collect();
            assert!(sorted == expected, "{rows} rows");
        }
    }

    /// More rows, and more times, than there is room for: sums stay exact, and the heaviest row keeps its times.
    #[test]
    fn without_room_the_lightest_go_first() {
        let bytes = DESK_BYTES + 200 * (DESK_ROW_BYTES + 16);
        let mut desk = Desk::new(bytes, 0, Arc::from([1_000].as_slice()));
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
            bucket: crate::report::histogram::Layout::LogLinear.bucket(time),
            weight: 1,
        };
        let mut request = 0;
        for round in 0..2_000_u64 {
            if desk.is_full(16) {
                desk.sweep();
            }
            for row in 0..16_u32 {
                request += 1;
                // Row 0 is always the same, the others never.
                let key = if row == 0 { 0 } else { request };
                let slot = desk.row_of(request, &key.to_le_bytes());
                let time = if row == 0 {
                    1_000_000 + round
                } else {
                    round % 3_000
                };
                desk.add(slot, &gain(request, time));
            }
        }
        let (mut all, mut pairs) = (Dense::new(), Vec::new());
        let (mut requests, mut heaviest) = (0, None);
        desk.close(&mut all, &mut pairs, |_, row, pairs| {
            requests += row.totals.requests;
            if *row.key == 0_u64.to_le_bytes() {
                let counted = pairs.map(|pairs| pairs.iter().map(|(_, count)| count).sum());
                heaviest = Some((row.totals.requests, counted));
            }
        });
        assert_eq!(requests, request);
        assert_eq!(heaviest, Some((2_000, Some(2_000))));
        all.take(&mut pairs);
        let times: u64 = pairs.iter().map(|(_, count)| count).sum();
        assert_eq!(times, request, "the total has every time");
        let mut buckets = 0;
        desk.gained(|_, _, counts| buckets += counts.iter().sum::<u64>());
        assert_eq!(buckets, request, "and so have the metrics");
        desk.clear(1);
        desk.close(&mut all, &mut pairs, |_, _, _| panic!("nothing is left"));
    }
}
