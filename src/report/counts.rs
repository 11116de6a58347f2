//! The histogram of one row: counts by bucket, in as little memory as possible.
//!
//! Most rows have a few dozen different buckets: a sorted run of (bucket, count), four bytes each,
//! is small and fast enough. A busy row has hundreds; there searching costs more than anything
//! else, so it becomes an array of counts over the span of its buckets, indexed by subtraction.
//! Counts are integers, so additions can be subtracted exactly.
//!
//! ```text
//! sorted:  | bucket (14 bits), count (18 bits) | ...
//! dense:   | count of `first` | count of `first + 1` | ...                    32 bits each
//! wide:    | bucket, count | ...                           sorted, when a count outgrows both
//! ```

use std::cell::Cell;

const COUNT_BITS: u32 = 18;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// Largest bucket number.
pub(crate) const BUCKET_MAX: u32 = (1 << (32 - COUNT_BITS)) - 1;

/// Sorted runs of at least this many entries become dense, if their buckets are close enough
/// together.
const DENSE_AT: usize = 24;

/// Most places of a dense histogram per bucket in use.
const PLACES_PER_BUCKET: usize = 12;

/// When counts outgrow their bits, any with fewer places than this becomes dense.
const DENSE_PLACES: usize = 1024;

/// `first` of a sorted histogram.
const SORTED: u32 = u32::MAX;

thread_local! {
    /// Bytes by which histograms have grown on this thread; growth is rare, and asking each of them
    /// after every record would not be.
    static GROWN: Cell<usize> = const { Cell::new(0) };
}

/// Bytes by which histograms have grown on this thread, since start, minus those freed by changes
/// of shape. Wraps: only differences matter.
pub(crate) fn grown() -> usize {
    GROWN.get()
}

fn changed(before: usize, after: usize) {
    let grown = after.wrapping_sub(before);
    GROWN.set(GROWN.get().wrapping_add(grown));
}

/// Samples of one bucket, as in a sorted histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sample(u32);

impl Sample {
    /// This many samples in a bucket; does not [fit](Self::fits) if they are too many.
    #[inline]
    pub(crate) fn new(bucket: u32, count: u32) -> Self {
        let fits = u64::from(count) <= COUNT_MAX;
        Self(if fits {
            bucket << COUNT_BITS | count
        } else {
            0
        })
    }

    /// Whether it represents any samples.
    #[inline]
    pub(crate) fn fits(self) -> bool {
        u64::from(self.0) & COUNT_MAX != 0
    }

    /// Its bucket and count.
    #[inline]
    pub(crate) fn pair(self) -> (u32, u64) {
        (self.0 >> COUNT_BITS, u64::from(self.0) & COUNT_MAX)
    }
}

/// Counts by bucket.
#[derive(Debug, Clone)]
pub(crate) enum Histogram {
    /// Sorted or dense.
    Narrow(Counts),
    Wide(Vec<(u32, u64)>),
}

const _: () = assert!(size_of::<Histogram>() == size_of::<Counts>());

/// Counts in 32 bits.
#[derive(Debug, Clone)]
pub(crate) struct Counts {
    entries: Vec<u32>,
    /// The bucket of the first place, or [`SORTED`].
    first: u32,
    /// Buckets in use, when dense.
    used: u32,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self::Narrow(Counts::new())
    }

    /// Reads memory near the place that [`add`](Self::add) would write.
    #[inline]
    pub(crate) fn peek(&self, bucket: u32) -> u32 {
        match self {
            Self::Narrow(counts) => counts.peek(bucket),
            Self::Wide(_) => 0,
        }
    }

    /// Adds `count` to `bucket`.
    #[inline]
    pub(crate) fn add(&mut self, bucket: u32, count: u64) {
        let added = match self {
            Self::Narrow(counts) => counts.add(bucket, count),
            Self::Wide(_) => false,
        };
        if !added {
            self.add_wide(bucket, count);
        }
    }

    /// Counts samples, in any order.
    pub(crate) fn add_samples(&mut self, samples: &mut [Sample]) {
        for (bucket, count) in samples.iter().map(|it| it.pair()) {
            self.add(bucket, count);
        }
    }

    /// Adds (bucket, count), buckets ascending and distinct.
    pub(crate) fn add_pairs(&mut self, pairs: &[(u32, u64)]) {
        let merged = match self {
            Self::Narrow(counts) if counts.first == SORTED => counts.merge(pairs),
            _ => false,
        };
        if !merged {
            for &(bucket, count) in pairs {
                self.add(bucket, count);
            }
        }
    }

    /// Reserves room for this many buckets between these two, if there is none yet.
    pub(crate) fn reserve(&mut self, first: u32, last: u32, buckets: usize) {
        if let Self::Narrow(counts) = self
            && counts.entries.is_empty()
            && buckets >= DENSE_AT
            && ((last - first) as usize) < buckets * PLACES_PER_BUCKET / 2
        {
            counts.make_dense(first as usize, last as usize);
        }
    }

    #[cold]
    fn add_wide(&mut self, bucket: u32, count: u64) {
        let before = self.heap_bytes();
        if let Self::Narrow(counts) = self {
            *self = Self::Wide(counts.iter().collect());
        }
        if let Self::Wide(pairs) = self {
            match pairs.binary_search_by_key(&bucket, |it| it.0) {
                Ok(at) => pairs[at].1 = pairs[at].1.saturating_add(count),
                Err(at) => pairs.insert(at, (bucket, count)),
            }
        }
        changed(before, self.heap_bytes());
    }

    /// Subtracts `count`, added before, from `bucket`.
    #[inline]
    pub(crate) fn subtract(&mut self, bucket: u32, count: u64) {
        match self {
            Self::Narrow(counts) => counts.subtract(bucket, count),
            Self::Wide(pairs) => {
                if let Ok(at) = pairs.binary_search_by_key(&bucket, |it| it.0) {
                    pairs[at].1 = pairs[at].1.saturating_sub(count);
                }
                pairs.retain(|it| it.1 > 0);
            }
        }
    }

    /// Frees memory that subtractions have left unused.
    pub(crate) fn tidy(&mut self) {
        match self {
            Self::Narrow(counts) => counts.tidy(),
            Self::Wide(pairs) => pairs.shrink_to(pairs.len() * 2),
        }
    }

    /// (bucket, count), buckets distinct and ascending, counts not 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let places = match self {
            Self::Narrow(counts) => counts.entries.len(),
            Self::Wide(pairs) => pairs.len(),
        };
        let pairs = (0..places).map(|place| match self {
            Self::Narrow(counts) => counts.pair(place),
            Self::Wide(pairs) => pairs[place],
        });
        pairs.filter(|&(_, count)| count > 0)
    }

    /// Adds all counts of another histogram.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.len() == 0 {
            let before = self.heap_bytes();
            *self = other.clone();
            changed(before, self.heap_bytes());
            return;
        }
        for (bucket, count) in other.iter() {
            self.add(bucket, count);
        }
    }

    /// Upper bound of its growth by [`add_all`](Self::add_all), in bytes: estimated from sizes.
    pub(crate) fn growth_max(&self, other: &Self) -> usize {
        let buckets = self.len() + other.len();
        let bytes = match (self, other) {
            _ if self.len() == 0 => other.heap_bytes(),
            (Self::Narrow(counts), Self::Narrow(others)) if counts.spans(others) => 0,
            (Self::Narrow(_), _) if buckets < DENSE_AT => (buckets * 3 / 2 + 6) * 4,
            (Self::Narrow(_), _) => (buckets + 2) * PLACES_PER_BUCKET * 5 / 4 * 4,
            (Self::Wide(_), _) => buckets * 2 * size_of::<(u32, u64)>(),
        };
        bytes.saturating_sub(self.heap_bytes())
    }

    /// Number of pairs from [`iter`](Self::iter).
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Narrow(counts) => counts.len(),
            Self::Wide(pairs) => pairs.len(),
        }
    }

    /// Clears all counts, keeps the memory and, when dense, the span.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Narrow(counts) => counts.clear(),
            Self::Wide(pairs) => pairs.clear(),
        }
    }

    /// Clears all counts and the span, keeps the memory.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Narrow(counts) => {
                counts.entries.clear();
                (counts.first, counts.used) = (SORTED, 0);
            }
            Self::Wide(_) => *self = Self::new(),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Narrow(counts) => counts.heap_bytes(),
            Self::Wide(pairs) => pairs.capacity() * size_of::<(u32, u64)>(),
        }
    }
}

impl Counts {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            first: SORTED,
            used: 0,
        }
    }

    #[inline]
    fn peek(&self, bucket: u32) -> u32 {
        let place = bucket.wrapping_sub(self.first) as usize;
        let entry = self.entries.get(place).or(self.entries.first());
        entry.copied().unwrap_or_default()
    }

    /// Adds; returns false and adds nothing if there are too few bits.
    #[inline]
    fn add(&mut self, bucket: u32, count: u64) -> bool {
        // Sorted: `first` is larger than any bucket, so the difference wraps and no place is found.
        let place = bucket.wrapping_sub(self.first) as usize;
        if self.first != SORTED
            && let Some(entry) = self.entries.get_mut(place)
        {
            let Ok(sum) = u32::try_from(u64::from(*entry) + count) else {
                return false;
            };
            self.used += u32::from(*entry == 0);
            *entry = sum;
            true
        } else {
            self.add_elsewhere(bucket, count)
        }
    }

    fn add_elsewhere(&mut self, bucket: u32, count: u64) -> bool {
        if self.first == SORTED {
            return self.add_sorted(bucket, count);
        }
        let (low, high) = self.span_with(bucket);
        if high - low < (self.used as usize + 1) * PLACES_PER_BUCKET {
            self.make_dense(low, high);
            self.add(bucket, count)
        } else {
            self.sort() && self.add_sorted(bucket, count)
        }
    }

    /// The first and the last bucket.
    fn span(&self) -> Option<(u32, u32)> {
        let last = self.entries.len().checked_sub(1)?;
        Some((self.pair(0).0, self.pair(last).0))
    }

    /// The span extended to `bucket`.
    fn span_with(&self, bucket: u32) -> (usize, usize) {
        let (low, high) = self.span().unwrap_or((bucket, bucket));
        (low.min(bucket) as usize, high.max(bucket) as usize)
    }

    /// Whether it is dense, with places for all buckets of `others`.
    fn spans(&self, others: &Self) -> bool {
        let spans = self.span().zip(others.span());
        self.first != SORTED
            && spans.is_some_and(|(own, others)| own.0 <= others.0 && others.1 <= own.1)
    }

    fn add_sorted(&mut self, bucket: u32, count: u64) -> bool {
        let at = self.find(bucket);
        let has = self.entries.get(at).map(|_| self.pair(at));
        let has = has.filter(|it| it.0 == bucket).map(|it| it.1);
        if has.unwrap_or(0) + count > COUNT_MAX {
            let (low, high) = self.span_with(bucket);
            let fits = high - low < DENSE_PLACES;
            if fits {
                self.make_dense(low, high);
            }
            return fits && self.add(bucket, count);
        }
        if has.is_some() {
            self.entries[at] += count as u32;
            return true;
        }
        self.reserve(1);
        self.entries.insert(at, bucket << COUNT_BITS | count as u32);
        self.make_dense_if_worth();
        true
    }

    /// Adds (bucket, count) to a sorted histogram, buckets ascending and distinct; returns false
    /// and adds nothing if that is better done one by one: a count may outgrow its bits.
    fn merge(&mut self, pairs: &[(u32, u64)]) -> bool {
        const SUM_MAX: u64 = COUNT_MAX / 2;
        let few = |entry: &u32| u64::from(*entry) & COUNT_MAX <= SUM_MAX;
        let fits = pairs.iter().all(|it| it.1 <= SUM_MAX) && self.entries.iter().all(few);
        if !fits {
            return false;
        }
        let bucket_of = |entry: u32| entry >> COUNT_BITS;
        let mut entries = self.entries.iter().peekable();
        let is_new = |&&(bucket, _): &&(u32, u64)| {
            while entries
                .next_if(|&&entry| bucket_of(entry) < bucket)
                .is_some()
            {}
            entries
                .peek()
                .is_none_or(|&&entry| bucket_of(entry) > bucket)
        };
        let new = pairs.iter().filter(is_new).count();
        let mut from = self.entries.len();
        self.reserve(new);
        self.entries.resize(from + new, 0);
        let mut to = from + new;
        for &(bucket, count) in pairs.iter().rev() {
            while from > 0 && bucket_of(self.entries[from - 1]) > bucket {
                (from, to) = (from - 1, to - 1);
                self.entries[to] = self.entries[from];
            }
            to -= 1;
            if from > 0 && bucket_of(self.entries[from - 1]) == bucket {
                from -= 1;
                self.entries[to] = self.entries[from] + count as u32;
            } else {
                self.entries[to] = bucket << COUNT_BITS | count as u32;
            }
        }
        self.make_dense_if_worth();
        true
    }

    /// Makes a sorted histogram dense if it is large enough and its buckets are close together.
    fn make_dense_if_worth(&mut self) {
        if self.entries.len() >= DENSE_AT
            && let Some((low, high)) = self.span()
            && ((high - low) as usize) < self.entries.len() * PLACES_PER_BUCKET / 2
        {
            self.make_dense(low as usize, high as usize);
        }
    }

    /// Makes places for the buckets from `low` to `high`, which include all in use, and a few more
    /// on either side.
    fn make_dense(&mut self, low: usize, high: usize) {
        let slack = (high - low) / 8 + 4;
        let low = low.saturating_sub(slack);
        let high = (high + slack).min(BUCKET_MAX as usize);
        let mut places = vec![0; high - low + 1];
        for (bucket, count) in self.iter() {
            places[bucket as usize - low] = count as u32;
        }
        self.become_shape(Self {
            used: self.len() as u32,
            entries: places,
            first: low as u32,
        });
    }

    fn become_shape(&mut self, other: Self) {
        changed(self.heap_bytes(), other.heap_bytes());
        *self = other;
    }

    /// Converts a dense histogram to a sorted one; returns false if its counts do not fit.
    fn sort(&mut self) -> bool {
        let fits = self.iter().all(|(_, count)| count <= COUNT_MAX);
        if fits {
            let mut entries = Vec::with_capacity(self.used as usize + 1);
            let pairs = self.iter();
            entries.extend(pairs.map(|(bucket, count)| bucket << COUNT_BITS | count as u32));
            self.become_shape(Self {
                entries,
                ..Self::new()
            });
        }
        fits
    }

    #[inline]
    fn subtract(&mut self, bucket: u32, count: u64) {
        let is_sorted = self.first == SORTED;
        let at = match is_sorted {
            true => self.find(bucket),
            false => bucket.wrapping_sub(self.first) as usize,
        };
        let has = self.entries.get(at).map(|_| self.pair(at));
        let Some((_, has)) = has.filter(|it| it.0 == bucket && it.1 >= count) else {
            debug_assert!(false, "subtracted what was never added");
            return;
        };
        self.entries[at] -= count as u32;
        if has == count {
            match is_sorted {
                true => drop(self.entries.remove(at)),
                false => self.used -= 1,
            }
        }
    }

    fn tidy(&mut self) {
        if self.first != SORTED && (self.used as usize) < DENSE_AT / 2 {
            self.sort();
        }
        if self.first == SORTED && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// The bucket of a place, and its count.
    #[inline]
    fn pair(&self, place: usize) -> (u32, u64) {
        let entry = self.entries[place];
        if self.first == SORTED {
            (entry >> COUNT_BITS, u64::from(entry) & COUNT_MAX)
        } else {
            (self.first + place as u32, entry.into())
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let pairs = (0..self.entries.len()).map(|place| self.pair(place));
        pairs.filter(|&(_, count)| count > 0)
    }

    fn len(&self) -> usize {
        if self.first == SORTED {
            self.entries.len()
        } else {
            self.used as usize
        }
    }

    fn clear(&mut self) {
        if self.first == SORTED {
            self.entries.clear();
        } else {
            self.entries.fill(0);
            self.used = 0;
        }
    }

    fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u32>()
    }

    fn find(&self, bucket: u32) -> usize {
        let wanted = bucket << COUNT_BITS;
        self.entries.partition_point(|&entry| entry < wanted)
    }

    /// Reserves room for this many more entries.
    fn reserve(&mut self, more: usize) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity - len < more {
            let before = self.heap_bytes();
            // Small steps: most histograms stay small, and there are as many as rows. The allocator
            // gives at least six.
            self.entries.reserve_exact((len / 2).max(6).max(more));
            changed(before, self.heap_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
