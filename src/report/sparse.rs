//! A sparse histogram: the buckets in use, ascending, each with its count.
//!
//! Most rows see a few dozen different buckets, so a sorted run of (bucket, count) beats a dense array by far. Counts
//! are integers: what is added can be subtracted without a trace. A bucket and its count share eight bytes; when a
//! count would outgrow its 36 bits the bucket simply gets a second entry.
//!
//! ```text
//!   63            36 35                              0
//!  |  bucket (28)   |  count (36, never 0)            |
//! ```

const COUNT_BITS: u32 = 36;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// The largest bucket number that can be kept.
pub(crate) const BUCKET_MAX: u32 = (1 << (64 - COUNT_BITS)) - 1;

/// The buckets in use and their counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SparseHistogram {
    entries: Vec<u64>,
}

impl SparseHistogram {
    pub(crate) const fn new() -> Self {
        Self {
            entries: Vec::new(),
        }
    }

    /// Counts `count` more in `bucket`.
    pub(crate) fn add(&mut self, bucket: u32, count: u64) {
        let mut left = count;
        let mut at = self.find(bucket);
        while left > 0 {
            match self.entries.get_mut(at) {
                Some(entry) if *entry >> COUNT_BITS == u64::from(bucket) => {
                    let room = COUNT_MAX - (*entry & COUNT_MAX);
                    let taken = left.min(room);
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
    }

    /// Counts `count` less in `bucket`; it was added before.
    pub(crate) fn subtract(&mut self, bucket: u32, count: u64) {
        let mut left = count;
        let at = self.find(bucket);
        while left > 0 {
            let Some(entry) = self
                .entries
                .get_mut(at)
                .filter(|e| **e >> COUNT_BITS == u64::from(bucket))
            else {
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
        if self.entries.len() * 4 < self.entries.capacity() && self.entries.capacity() > 16 {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// (bucket, count), buckets ascending; a bucket may come more than once.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.entries
            .iter()
            .map(|entry| ((entry >> COUNT_BITS) as u32, entry & COUNT_MAX))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets all counts, keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
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
            self.entries.reserve_exact((self.entries.len() / 2).max(2));
        }
        self.entries.insert(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracting_leaves_no_trace() {
        let mut histogram = SparseHistogram::new();
        for (bucket, count) in [(5, 1), (3, 2), (900, 7), (5, 4), (0, 1), (BUCKET_MAX, 3)] {
            histogram.add(bucket, count);
        }
        assert_eq!(
            histogram.iter().collect::<Vec<_>>(),
            [(0, 1), (3, 2), (5, 5), (900, 7), (BUCKET_MAX, 3)]
        );
        for (bucket, count) in [(900, 7), (5, 2), (5, 3), (0, 1), (3, 2), (BUCKET_MAX, 3)] {
            histogram.subtract(bucket, count);
        }
        assert_eq!(histogram.len(), 0);
    }

    #[test]
    fn counts_beyond_an_entry_take_a_second_one() {
        let mut histogram = SparseHistogram::new();
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
}
