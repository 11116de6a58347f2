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

/// Samples of one bucket, as in a sorted histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sample(u32);

impl Sample {
    /// This many samples in a bucket; does not [fit](Self::fits) if they are too many.
    #[inline]
    pub(crate) fn new(bucket: u32, count: u32) -> Self {
        let fits = u64::from(count) <= COUNT_MAX;
        Self(if fits { bucket << COUNT_BITS | count } else { 0 })
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
    /// Entries as in a [`Sample`], ascending.
    Sorted(Vec<u32>),
    Dense(Dense),
    /// (bucket, count), ascending.
    Wide(Vec<(u32, u64)>),
}

const _: () = assert!(size_of::<Histogram>() == size_of::<Dense>());

/// Counts of consecutive buckets.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    counts: Vec<u32>,
    /// The first bucket.
    first: u32,
    /// Number of counts that are not 0.
    used: u32,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self::Sorted(Vec::new())
    }

    /// Reads memory of it, so that it is cached.
    pub(crate) fn touch(&self) -> u32 {
        match self {
            Self::Sorted(entries) => entries.first().copied().unwrap_or_default(),
            Self::Dense(dense) => dense.counts[0],
            Self::Wide(_) => 0,
        }
    }

    /// Adds `count` to `bucket`.
    #[inline]
    pub(crate) fn add(&mut self, bucket: u32, count: u64) {
        if let Self::Dense(dense) = self
            && let Some(has) = dense.counts.get_mut(bucket.wrapping_sub(dense.first) as usize)
            && let Ok(sum) = u32::try_from(u64::from(*has) + count)
        {
            dense.used += u32::from(*has == 0);
            *has = sum;
        } else {
            self.add_elsewhere(bucket, count);
        }
    }

    /// Likewise without a place in a dense one.
    fn add_elsewhere(&mut self, bucket: u32, count: u64) {
        match self {
            Self::Sorted(entries) => {
                let at = sorted_place(entries, bucket);
                let known = entries.get_mut(at);
                match known.filter(|it| **it >> COUNT_BITS == bucket) {
                    Some(has) if (u64::from(*has) & COUNT_MAX) + count <= COUNT_MAX => {
                        *has += count as u32;
                        return;
                    }
                    None if count <= COUNT_MAX => {
                        grow(entries, 1);
                        entries.insert(at, bucket << COUNT_BITS | count as u32);
                        return self.make_dense_if_worth();
                    }
                    _ => {}
                }
                // A count outgrows its bits.
                let (low, high) = self.span_with(bucket);
                match high - low < DENSE_PLACES {
                    true => self.make_dense(low, high),
                    false => self.make_wide(),
                }
            }
            Self::Dense(dense) => {
                let (used, last) = (dense.used as usize, dense.first as usize + dense.counts.len());
                let is_outside = bucket < dense.first || bucket as usize >= last;
                let (low, high) = self.span_with(bucket);
                if is_outside && high - low < (used + 1) * PLACES_PER_BUCKET {
                    self.make_dense(low, high);
                } else if !(is_outside && self.sort()) {
                    self.make_wide();
                }
            }
            Self::Wide(pairs) => {
                return match pairs.binary_search_by_key(&bucket, |it| it.0) {
                    Ok(at) => pairs[at].1 = pairs[at].1.saturating_add(count),
                    Err(at) => pairs.insert(at, (bucket, count)),
                };
            }
        }
        // In another shape now.
        self.add(bucket, count);
    }

    /// Adds (bucket, count), buckets ascending and distinct.
    pub(crate) fn add_pairs(&mut self, pairs: &[(u32, u64)]) {
        if !self.merge(pairs) {
            for &(bucket, count) in pairs {
                self.add(bucket, count);
            }
        }
    }

    /// Likewise to a sorted histogram; returns false and adds nothing if that is better done one by
    /// one: a count may outgrow its bits.
    fn merge(&mut self, pairs: &[(u32, u64)]) -> bool {
        const SUM_MAX: u64 = COUNT_MAX / 2;
        let Self::Sorted(entries) = self else { return false };
        let few = |entry: &u32| u64::from(*entry) & COUNT_MAX <= SUM_MAX;
        if !(pairs.iter().all(|it| it.1 <= SUM_MAX) && entries.iter().all(few)) {
            return false;
        }
        let bucket_of = |entry: u32| entry >> COUNT_BITS;
        let mut known = entries.iter().map(|it| bucket_of(*it)).peekable();
        let is_new = |&&(bucket, _): &&(u32, u64)| {
            while known.next_if(|&it| it < bucket).is_some() {}
            known.peek() != Some(&bucket)
        };
        let new = pairs.iter().filter(is_new).count();
        let mut from = entries.len();
        grow(entries, new);
        entries.resize(from + new, 0);
        let mut to = from + new;
        for &(bucket, count) in pairs.iter().rev() {
            while from > 0 && bucket_of(entries[from - 1]) > bucket {
                (from, to) = (from - 1, to - 1);
                entries[to] = entries[from];
            }
            to -= 1;
            if from > 0 && bucket_of(entries[from - 1]) == bucket {
                from -= 1;
                entries[to] = entries[from] + count as u32;
            } else {
                entries[to] = bucket << COUNT_BITS | count as u32;
            }
        }
        self.make_dense_if_worth();
        true
    }

    /// Reserves room for this many buckets between these two, if there is none yet.
    pub(crate) fn reserve(&mut self, first: u32, last: u32, buckets: usize) {
        if self.places() == 0
            && buckets >= DENSE_AT
            && ((last - first) as usize) < buckets * PLACES_PER_BUCKET / 2
        {
            self.make_dense(first as usize, last as usize);
        }
    }

    /// Makes a sorted histogram dense if it is large enough and its buckets are close together.
    fn make_dense_if_worth(&mut self) {
        if self.places() >= DENSE_AT
            && let Some((low, high)) = self.span()
            && ((high - low) as usize) < self.places() * PLACES_PER_BUCKET / 2
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
        let mut counts = vec![0; high - low + 1];
        for (bucket, count) in self.iter() {
            counts[bucket as usize - low] = count as u32;
        }
        *self = Self::Dense(Dense { counts, first: low as u32, used: self.len() as u32 });
    }

    /// Makes it sorted; returns false if its counts do not fit.
    fn sort(&mut self) -> bool {
        let fits = self.iter().all(|(_, count)| count <= COUNT_MAX);
        if fits {
            let mut entries = Vec::with_capacity(self.len() + 1);
            let pairs = self.iter();
            entries.extend(pairs.map(|(bucket, count)| bucket << COUNT_BITS | count as u32));
            *self = Self::Sorted(entries);
        }
        fits
    }

    #[cold]
    fn make_wide(&mut self) {
        *self = Self::Wide(self.iter().collect());
    }

    /// Subtracts `count`, added before, from `bucket`.
    #[inline]
    pub(crate) fn subtract(&mut self, bucket: u32, count: u64) {
        let at = match self {
            Self::Sorted(entries) => sorted_place(entries, bucket),
            Self::Dense(dense) => bucket.wrapping_sub(dense.first) as usize,
            Self::Wide(pairs) => pairs.partition_point(|it| it.0 < bucket),
        };
        let has = (at < self.places()).then(|| self.pair(at));
        let Some((_, has)) = has.filter(|it| it.0 == bucket && it.1 >= count) else {
            debug_assert!(false, "subtracted what was never added");
            return;
        };
        match self {
            Self::Sorted(entries) if has == count => drop(entries.remove(at)),
            Self::Sorted(entries) => entries[at] -= count as u32,
            Self::Dense(dense) => {
                dense.counts[at] -= count as u32;
                dense.used -= u32::from(has == count);
            }
            Self::Wide(pairs) if has == count => drop(pairs.remove(at)),
            Self::Wide(pairs) => pairs[at].1 -= count,
        }
    }

    /// Frees memory that subtractions have left unused.
    pub(crate) fn tidy(&mut self) {
        if let Self::Dense(dense) = self
            && (dense.used as usize) < DENSE_AT / 2
        {
            self.sort();
        }
        match self {
            Self::Sorted(entries) if entries.len() * 4 < entries.capacity() => {
                entries.shrink_to(entries.len() * 2);
            }
            Self::Wide(pairs) => pairs.shrink_to(pairs.len() * 2),
            _ => {}
        }
    }

    /// Number of places for buckets.
    fn places(&self) -> usize {
        match self {
            Self::Sorted(entries) => entries.len(),
            Self::Dense(dense) => dense.counts.len(),
            Self::Wide(pairs) => pairs.len(),
        }
    }

    /// The bucket of a place, and its count.
    #[inline]
    fn pair(&self, place: usize) -> (u32, u64) {
        match self {
            Self::Sorted(entries) => Sample(entries[place]).pair(),
            Self::Dense(dense) => (dense.first + place as u32, dense.counts[place].into()),
            Self::Wide(pairs) => pairs[place],
        }
    }

    /// (bucket, count), buckets distinct and ascending, counts not 0.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + Clone + '_ {
        (0..self.places()).map(|place| self.pair(place)).filter(|&(_, count)| count > 0)
    }

    /// The buckets of the first and the last place.
    fn span(&self) -> Option<(u32, u32)> {
        let last = self.places().checked_sub(1)?;
        Some((self.pair(0).0, self.pair(last).0))
    }

    /// The span extended to `bucket`.
    fn span_with(&self, bucket: u32) -> (usize, usize) {
        let (low, high) = self.span().unwrap_or((bucket, bucket));
        (low.min(bucket) as usize, high.max(bucket) as usize)
    }

    /// Adds all counts of another histogram.
    pub(crate) fn add_all(&mut self, other: &Self) {
        if self.len() == 0 {
            *self = other.clone();
            return;
        }
        for (bucket, count) in other.iter() {
            self.add(bucket, count);
        }
    }

    /// Upper bound of its growth by [`add_all`](Self::add_all), in bytes: estimated from sizes.
    pub(crate) fn growth_max(&self, other: &Self) -> usize {
        let buckets = self.len() + other.len();
        let has_all = || {
            let spans = self.span().zip(other.span());
            spans.is_some_and(|(own, others)| own.0 <= others.0 && others.1 <= own.1)
        };
        let bytes = match (self, other) {
            _ if self.len() == 0 => other.heap_bytes(),
            (Self::Dense(_), Self::Sorted(_) | Self::Dense(_)) if has_all() => 0,
            (Self::Wide(_), _) => buckets * 2 * size_of::<(u32, u64)>(),
            _ if buckets < DENSE_AT => (buckets * 3 / 2 + 6) * 4,
            _ => (buckets + 2) * PLACES_PER_BUCKET * 5 / 4 * 4,
        };
        bytes.saturating_sub(self.heap_bytes())
    }

    /// Number of pairs from [`iter`](Self::iter).
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Dense(dense) => dense.used as usize,
            _ => self.places(),
        }
    }

    /// Clears all counts, keeps the memory and the shape.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Sorted(entries) => entries.clear(),
            Self::Dense(dense) => {
                dense.counts.fill(0);
                dense.used = 0;
            }
            Self::Wide(pairs) => pairs.clear(),
        }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Sorted(entries) => entries.capacity() * size_of::<u32>(),
            Self::Dense(dense) => dense.counts.capacity() * size_of::<u32>(),
            Self::Wide(pairs) => pairs.capacity() * size_of::<(u32, u64)>(),
        }
    }
}

/// The place of a bucket among sorted entries, or the one where it belongs.
fn sorted_place(entries: &[u32], bucket: u32) -> usize {
    let wanted = bucket << COUNT_BITS;
    entries.partition_point(|&entry| entry < wanted)
}

/// Reserves room for this many more entries, in small steps: most histograms stay small, and there
/// are as many as rows. The allocator gives at least six.
fn grow(entries: &mut Vec<u32>, more: usize) {
    if entries.capacity() - entries.len() < more {
        entries.reserve_exact((entries.len() / 2).max(6).max(more));
    }
}

#[cfg(test)]
mod tests;
