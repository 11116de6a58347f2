//! The histogram of one row: counts by bucket, in as little memory as the row needs.
//!
//! Most rows see a few dozen different buckets: a sorted run of (bucket, count), eight bytes each, is small and quick
//! enough. A busy row sees hundreds; there searching costs more than anything else, so it becomes an array of counts over
//! the span of its buckets, found by subtraction. Counts are integers: what is added can be taken away without a trace.
//!
//! ```text
//! sorted:  | bucket (28 bits), count (36 bits) | ...      a count that outgrows its bits gets a second entry
//! spread:  | count of `first` | count of `first + 1` | ...
//! ```

use std::cell::Cell;

const COUNT_BITS: u32 = 36;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// The largest bucket number that can be kept.
pub(crate) const BUCKET_MAX: u32 = (1 << (64 - COUNT_BITS)) - 1;

/// Sorted runs of at least so many entries are spread out, if their buckets lie close enough together.
const DENSE_AT: usize = 24;

/// A spread histogram has at most so many places per bucket in use.
const PLACES_PER_BUCKET: usize = 12;

/// `first` of a sorted histogram.
const SORTED: u32 = u32::MAX;

thread_local! {
    /// Bytes that histograms have grown by on this thread; where they grow is seldom reached, and asking each of them
    /// after every record is not.
    static GROWN: Cell<usize> = const { Cell::new(0) };
}

/// Bytes by which histograms have grown on this thread, ever; what they gave back when they changed their shape is taken
/// off. Wraps: what counts is the difference of two looks.
pub(crate) fn grown() -> usize {
    GROWN.get()
}

/// Counts by bucket.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    entries: Vec<u64>,
    /// The bucket of the first place, or [`SORTED`].
    first: u32,
    /// Buckets in use, when spread.
    used: u32,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
            first: SORTED,
            used: 0,
        }
    }

    /// Reads from where [`add`](Self::add) would write, or near it.
    #[inline]
    pub(crate) fn peek(&self, bucket: u32) -> u64 {
        let place = if self.first == SORTED {
            0
        } else {
            bucket.wrapping_sub(self.first) as usize
        };
        self.entries.get(place).copied().unwrap_or_default()
    }

    /// Counts `count` more in `bucket`.
    #[inline]
    pub(crate) fn add(&mut self, bucket: u32, count: u64) {
        // Sorted: `first` is larger than any bucket, the difference wraps and no place is found.
        let place = bucket.wrapping_sub(self.first) as usize;
        if self.first != SORTED
            && let Some(entry) = self.entries.get_mut(place)
        {
            self.used += u32::from(*entry == 0);
            *entry += count;
        } else {
            self.add_elsewhere(bucket, count);
        }
    }

    fn add_elsewhere(&mut self, bucket: u32, count: u64) {
        if self.first == SORTED {
            self.add_sorted(bucket, count);
            return;
        }
        let (low, high) = self.span_with(bucket);
        if high - low < (self.used as usize + 1) * PLACES_PER_BUCKET {
            self.make_dense(low, high);
            self.add(bucket, count);
        } else {
            self.sort();
            self.add_sorted(bucket, count);
        }
    }

    /// First and last bucket of the places, `bucket` included.
    fn span_with(&self, bucket: u32) -> (usize, usize) {
        let first = self.first as usize;
        let last = first + self.entries.len() - 1;
        (first.min(bucket as usize), last.max(bucket as usize))
    }

    fn add_sorted(&mut self, bucket: u32, count: u64) {
        let mut left = count;
        let mut at = self.find(bucket);
        while left > 0 {
            match self.entries.get_mut(at) {
                Some(entry) if *entry >> COUNT_BITS == u64::from(bucket) => {
                    let taken = left.min(COUNT_MAX - (*entry & COUNT_MAX));
                    *entry += taken;
                    left -= taken;
                    at += 1;
                }
                _ => {
                    let taken = left.min(COUNT_MAX);
                    self.insert(at, (u64::from(bucket) << COUNT_BITS) | taken);
                    left -= taken;
                }
            }
        }
        if self.entries.len() >= DENSE_AT {
            let low = (self.entries[0] >> COUNT_BITS) as usize;
            let high = (self.entries[self.entries.len() - 1] >> COUNT_BITS) as usize;
            if high - low < self.entries.len() * PLACES_PER_BUCKET / 2 {
                self.make_dense(low, high);
            }
        }
    }

    /// Makes places for the buckets from `low` to `high`, which include all in use, and a few more on either side.
    fn make_dense(&mut self, low: usize, high: usize) {
        let slack = (high - low) / 8 + 4;
        let low = low.saturating_sub(slack);
        let high = (high + slack).min(BUCKET_MAX as usize);
        let mut places = vec![0; high - low + 1];
        let mut used = 0;
        for (bucket, count) in self.iter() {
            let place = &mut places[bucket as usize - low];
            used += u32::from(*place == 0);
            *place += count;
        }
        self.become_shape(Self {
            entries: places,
            first: low as u32,
            used,
        });
    }

    fn become_shape(&mut self, other: Self) {
        let grown = other.heap_bytes().wrapping_sub(self.heap_bytes());
        GROWN.set(GROWN.get().wrapping_add(grown));
        *self = other;
    }

    /// Turns a spread histogram into a sorted one.
    fn sort(&mut self) {
        let mut sorted = Self::new();
        sorted.entries.reserve_exact(self.used as usize + 1);
        for (bucket, mut count) in self.iter() {
            while count > 0 {
                let taken = count.min(COUNT_MAX);
                sorted
                    .entries
                    .push((u64::from(bucket) << COUNT_BITS) | taken);
                count -= taken;
            }
        }
        self.become_shape(sorted);
    }

    /// Counts `count` less in `bucket`; it was added before.
    #[inline]
    pub(crate) fn subtract(&mut self, bucket: u32, count: u64) {
        let place = bucket.wrapping_sub(self.first) as usize;
        if self.first != SORTED
            && let Some(entry) = self.entries.get_mut(place)
        {
            debug_assert!(*entry >= count, "subtracted what was never added");
            *entry = entry.saturating_sub(count);
            self.used -= u32::from(*entry == 0);
        } else {
            self.subtract_sorted(bucket, count);
        }
    }

    fn subtract_sorted(&mut self, bucket: u32, count: u64) {
        let mut left = count;
        let at = self.find(bucket);
        while left > 0 {
            let entry = self.entries.get_mut(at);
            let Some(entry) = entry.filter(|e| **e >> COUNT_BITS == u64::from(bucket)) else {
                debug_assert!(false, "subtracted what was never added");
                return;
            };
            let taken = left.min(*entry & COUNT_MAX);
            *entry -= taken;
            left -= taken;
            if *entry & COUNT_MAX == 0 {
                self.entries.remove(at);
            }
        }
    }

    /// Gives back memory that many subtractions have left unused.
    pub(crate) fn tidy(&mut self) {
        if self.first != SORTED && (self.used as usize) < DENSE_AT / 2 {
            self.sort();
        }
        if self.first == SORTED && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// (bucket, count), buckets ascending, counts not 0; a bucket may come more than once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let first = self.first;
        self.entries
            .iter()
            .enumerate()
            .filter_map(move |(place, &entry)| {
                let (bucket, count) = if first == SORTED {
                    ((entry >> COUNT_BITS) as u32, entry & COUNT_MAX)
                } else {
                    (first + place as u32, entry)
                };
                (count > 0).then_some((bucket, count))
            })
    }

    /// Counts all that another one has.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.entries.is_empty() {
            self.become_shape(other.clone());
            return;
        }
        for (bucket, count) in other.iter() {
            self.add(bucket, count);
        }
    }

    /// Puts (bucket, count) into `pairs`, each bucket once, in ascending order.
    pub(crate) fn pairs(&self, pairs: &mut Vec<(u32, u64)>) {
        pairs.clear();
        for (bucket, count) in self.iter() {
            match pairs.last_mut() {
                Some((last, sum)) if *last == bucket => *sum += count,
                _ => pairs.push((bucket, count)),
            }
        }
    }

    /// How many pairs [`iter`](Self::iter) gives.
    pub(crate) fn len(&self) -> usize {
        if self.first == SORTED {
            self.entries.len()
        } else {
            self.used as usize
        }
    }

    /// Forgets all counts, keeps the memory and, when spread, the span.
    pub(crate) fn clear(&mut self) {
        if self.first == SORTED {
            self.entries.clear();
        } else {
            self.entries.fill(0);
            self.used = 0;
        }
    }

    /// Forgets all counts and gives the memory back.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    fn find(&self, bucket: u32) -> usize {
        let wanted = u64::from(bucket) << COUNT_BITS;
        self.entries.partition_point(|&entry| entry < wanted)
    }

    fn insert(&mut self, at: usize, entry: u64) {
        // Small steps: most histograms stay small, and there are as many as rows.
        if self.entries.len() == self.entries.capacity() {
            let before = self.heap_bytes();
            self.entries.reserve_exact((self.entries.len() / 2).max(2));
            let grown = self.heap_bytes() - before;
            GROWN.set(GROWN.get().wrapping_add(grown));
        }
        self.entries.insert(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn subtracting_leaves_no_trace() {
        let mut histogram = Histogram::new();
        for (bucket, count) in [(5, 1), (3, 2), (900, 7), (5, 4), (0, 1), (BUCKET_MAX, 3)] {
            histogram.add(bucket, count);
        }
        let pairs: Vec<_> = histogram.iter().collect();
        assert_eq!(pairs, [(0, 1), (3, 2), (5, 5), (900, 7), (BUCKET_MAX, 3)]);
        for (bucket, count) in [(900, 7), (5, 2), (5, 3), (0, 1), (3, 2), (BUCKET_MAX, 3)] {
            histogram.subtract(bucket, count);
        }
        assert_eq!((histogram.len(), histogram.iter().next()), (0, None));
    }

    #[test]
    fn counts_beyond_an_entry_take_a_second_one() {
        let mut histogram = Histogram::new();
        histogram.add(7, COUNT_MAX - 1);
        histogram.add(7, 5);
        histogram.add(7, COUNT_MAX * 3);
        histogram.add(8, 1);
        let total: u64 = histogram
            .iter()
            .filter(|&(bucket, _)| bucket == 7)
            .map(|(_, c)| c)
            .sum();
        assert_eq!(total, COUNT_MAX * 4 + 4);
        histogram.subtract(7, COUNT_MAX * 4 + 4);
        assert_eq!(histogram.iter().collect::<Vec<_>>(), [(8, 1)]);
    }

    /// Whatever shape it takes, it counts like a map.
    #[test]
    fn counts_like_a_map_in_either_shape() {
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let (mut distribution, mut sorted) = (false, false);
        for round in 0..200 {
            let mut histogram = Histogram::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let width = [4, 60, 900, 70_000, u64::from(BUCKET_MAX)][round % 5];
            for step in 0..600 {
                let bucket = if next(40) == 0 {
                    next(width * 3 + 1)
                } else {
                    next(width) + width
                };
                let bucket = bucket.min(u64::from(BUCKET_MAX)) as u32;
                if step > 300 && next(3) > 0 {
                    let Some((&bucket, &count)) = model.range(bucket..).next() else {
                        continue;
                    };
                    let less = next(count) + 1;
                    histogram.subtract(bucket, less);
                    model.insert(bucket, count - less);
                    model.retain(|_, count| *count > 0);
                    histogram.tidy();
                } else {
                    let count = next(1000) + 1;
                    histogram.add(bucket, count);
                    *model.entry(bucket).or_default() += count;
                }
                distribution |= histogram.first != SORTED;
                sorted |= histogram.first == SORTED && step > 100;
                assert_eq!(histogram.len(), model.len(), "round {round} step {step}");
            }
            let pairs: Vec<_> = histogram.iter().collect();
            assert_eq!(
                pairs,
                model.into_iter().collect::<Vec<_>>(),
                "round {round}"
            );
            histogram.clear();
            assert_eq!((histogram.len(), histogram.iter().next()), (0, None));
        }
        assert!(distribution && sorted, "both shapes were tried");
    }
}
