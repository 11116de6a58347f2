//! The histograms of rows under way: of rows with few groups as they are, of others added up.

use crate::report::counts::Histogram;

/// Buckets of one row that are sorted; those of more are added up in a histogram.
const SORTED_MAX: usize = 256;

/// Histograms of rows, one after the other.
#[derive(Default)]
pub(super) struct Histograms {
    /// (bucket, count) of rows that are complete, and what there is of the row at hand.
    pub(super) pairs: Vec<(u32, u64)>,
    /// Where those of each complete row end.
    pub(super) ends: Vec<usize>,
    /// The row at hand.
    place: usize,
    /// Histograms in it that are among the pairs.
    parts: usize,
    /// The others, of a row that has many.
    many: Histogram,
}

impl Histograms {
    /// The rows before this one are complete.
    pub(super) fn begin(&mut self, place: usize) {
        while self.place < place {
            let first = self.first();
            if self.many.len() > 0 {
                self.add_up();
                self.pairs.extend(self.many.iter());
                self.many.reset();
            } else if self.parts > 1 {
                self.pairs[first..].sort_unstable_by_key(|it| it.0);
                let mut last = first;
                for at in first + 1..self.pairs.len() {
                    let (bucket, count) = self.pairs[at];
                    if self.pairs[last].0 == bucket {
                        self.pairs[last].1 += count;
                    } else {
                        last += 1;
                        self.pairs[last] = (bucket, count);
                    }
                }
                self.pairs.truncate(last + 1);
            }
            self.ends.push(self.pairs.len());
            (self.place, self.parts) = (self.place + 1, 0);
        }
    }

    /// Where the row at hand begins.
    fn first(&self) -> usize {
        self.ends.last().copied().unwrap_or_default()
    }

    /// Adds one to the row at hand.
    pub(super) fn add(&mut self, histogram: &Histogram) {
        let before = self.pairs.len();
        histogram.push_to(&mut self.pairs);
        self.parts += usize::from(self.pairs.len() > before);
        if self.parts > 1 && self.pairs.len() - self.first() > SORTED_MAX {
            self.add_up();
        }
    }

    fn add_up(&mut self) {
        let first = self.first();
        for (bucket, count) in self.pairs.drain(first..) {
            self.many.add(bucket, count);
        }
    }
}
