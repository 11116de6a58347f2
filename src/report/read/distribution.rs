//! How the histograms of rows are added up while a reading is taken.
//!
//! A report of few rows has an array of counts for each. For many rows, the buckets of all groups are first put in order by
//! row and then merged row by row: most rows of a large report have few buckets, and an array each would be nearly empty.
//! When there are more buckets than memory is set aside for, the groups are walked once more in the order of rows. Used by
//! `read` alone, under the lock.

use crate::report::histogram::{BucketLayout, LOG_LINEAR_BUCKETS};

/// Rows that have an array each: 23 kB in the usual layout.
pub(super) const AT_ONCE_ROWS_MAX: usize = 64;
/// Buckets of all groups that are put in order by row, of 16 bytes, for one report.
pub(in crate::report) const PAIRS_MAX: usize = 1 << 20;
/// A row with so many is added up in an array after all, rather than sorted.
const SORTED_MAX: usize = 256;

/// How the histograms of a report's rows are put together.
#[derive(Debug)]
pub(super) enum Distribution {
    /// They are not: nobody wants them, or the aggregate has none.
    Nothing,
    /// As groups come, an array of counts a row.
    AtOnce(Vec<Scratch>),
    /// As groups come, put in order by row.
    Pairs(Pairs),
    /// Row by row, in another walk.
    Walk,
}

/// The buckets of all groups in the order of their rows, unsorted within a row.
#[derive(Debug)]
pub(super) struct Pairs {
    /// Where each row begins, and the end of the last; while they are counted, the number of the row before.
    starts: Vec<usize>,
    /// Where the next of each row goes.
    next: Vec<usize>,
    all: Vec<(u32, u64)>,
}

impl Pairs {
    pub(super) fn new(rows: usize) -> Self {
        Self {
            starts: vec![0; rows + 1],
            next: Vec::new(),
            all: Vec::new(),
        }
    }

    /// So many more will come for a row.
    #[inline]
    pub(super) fn expect(&mut self, row: usize, more: usize) {
        self.starts[row + 1] += more;
    }

    /// Makes room for what is expected; false when that would be more than `pairs_max`.
    pub(super) fn make_room(&mut self, pairs_max: usize) -> bool {
        let mut sum = 0;
        for start in &mut self.starts {
            sum += *start;
            *start = sum;
        }
        if sum > pairs_max {
            return false;
        }
        self.next = self.starts.clone();
        self.all = vec![(0, 0); sum];
        true
    }

    /// Takes what was expected.
    #[inline]
    pub(super) fn add(&mut self, row: usize, pairs: &[(u32, u64)]) {
        let next = &mut self.next[row];
        let end = *next + pairs.len();
        self.all[*next..end].copy_from_slice(pairs);
        *next = end;
    }

    /// Puts the histogram of a row into `merged`, buckets ascending.
    pub(super) fn take(&mut self, row: usize, scratch: &mut Scratch, merged: &mut Vec<(u32, u64)>) {
        let pairs = &mut self.all[self.starts[row]..self.next[row]];
        if pairs.len() > SORTED_MAX {
            scratch.add(pairs);
            scratch.take(merged);
            return;
        }
        pairs.sort_unstable_by_key(|&(bucket, _)| bucket);
        merged.clear();
        for &(bucket, count) in &*pairs {
            push(merged, bucket, count);
        }
    }
}

/// Adds to the last bucket or appends another one.
fn push(merged: &mut Vec<(u32, u64)>, bucket: u32, count: u64) {
    match merged.last_mut() {
        Some((last, sum)) if *last == bucket => *sum += count,
        _ => merged.push((bucket, count)),
    }
}

/// Where histograms of one row are added up.
#[derive(Debug)]
pub(super) enum Scratch {
    /// Counts by bucket, and the span of buckets in use: for layouts of a few thousand buckets.
    Dense {
        counts: Vec<u64>,
        low: usize,
        high: usize,
    },
    /// Pairs, sorted when taken: for pinba2's, which may be millions.
    Loose(Vec<(u32, u64)>),
}

impl Scratch {
    pub(super) fn new(buckets: BucketLayout) -> Self {
        let dense = |buckets: u32| Self::Dense {
            counts: vec![0; buckets as usize],
            low: usize::MAX,
            high: 0,
        };
        match buckets {
            BucketLayout::LogLinear => dense(LOG_LINEAR_BUCKETS),
            BucketLayout::Linear { size, .. } => dense(size),
            BucketLayout::V2(_) => Self::Loose(Vec::new()),
        }
    }

    pub(super) fn add(&mut self, pairs: &[(u32, u64)]) {
        match self {
            Self::Dense { counts, low, high } => {
                for &(bucket, count) in pairs {
                    let bucket = (bucket as usize).min(counts.len() - 1);
                    counts[bucket] += count;
                    *low = (*low).min(bucket);
                    *high = (*high).max(bucket);
                }
            }
            Self::Loose(loose) => loose.extend_from_slice(pairs),
        }
    }

    /// Moves the sum into `merged`, buckets ascending, and is empty again.
    pub(super) fn take(&mut self, merged: &mut Vec<(u32, u64)>) {
        merged.clear();
        match self {
            Self::Dense { counts, low, high } => {
                if *low <= *high {
                    for (bucket, count) in counts[*low..=*high].iter_mut().enumerate() {
                        if *count > 0 {
                            merged.push(((*low + bucket) as u32, std::mem::take(count)));
                        }
                    }
                }
                (*low, *high) = (usize::MAX, 0);
            }
            Self::Loose(loose) => {
                loose.sort_unstable_by_key(|&(bucket, _)| bucket);
                for (bucket, count) in loose.drain(..) {
                    push(merged, bucket, count);
                }
            }
        }
    }
}
