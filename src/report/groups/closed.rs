//! The sums of groups over the closed ticks of the window: a gain is added when its tick closes, and
//! subtracted when the tick leaves.

use std::collections::HashMap;

use ahash::RandomState;

use super::super::chunked::Chunked;
use super::super::histogram::Histogram;
use super::super::totals::{NarrowTotals, Totals};
use super::extremes::ClosedExtremes;

/// The sums of one group.
#[derive(Debug, Default)]
struct Group {
    /// Its sums, or [`WIDE`].
    sums: NarrowTotals,
    histogram: Histogram,
}

/// Bytes of wide sums.
pub(super) const WIDE_BYTES: usize = size_of::<(u32, Totals)>() + 2;

/// The sums are in [`ClosedTicks::wide`]: no group has errors without requests.
const WIDE: NarrowTotals = NarrowTotals { errors: u32::MAX, ..NarrowTotals::ZERO };

/// The sums of all groups of an aggregate.
#[derive(Debug, Default)]
pub(in crate::report) struct ClosedTicks {
    groups: Chunked<Group>,
    /// Sums of the few groups that are too large for [`NarrowTotals`].
    wide: HashMap<u32, Totals, RandomState>,
    pub(in crate::report) extremes: ClosedExtremes,
    /// Heap bytes of the histograms.
    pub(in crate::report) histogram_bytes: usize,
}

impl ClosedTicks {
    pub(super) fn new(extremes: bool) -> Self {
        Self { extremes: ClosedExtremes::new(extremes), ..Self::default() }
    }

    /// Number of groups, in use or not.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The sums of a group.
    #[inline]
    pub(in crate::report) fn totals(&self, id: u32) -> Totals {
        match &self.groups[id as usize] {
            Group { sums: WIDE, .. } => self.wide.get(&id).copied().unwrap_or_default(),
            group => group.sums.totals(),
        }
    }

    /// The histogram of a group.
    pub(in crate::report) fn histogram(&self, id: u32) -> &Histogram {
        &self.groups[id as usize].histogram
    }

    /// Whether a group has counted nothing in them.
    pub(super) fn is_empty(&self, id: u32) -> bool {
        self.groups[id as usize].sums == NarrowTotals::ZERO
    }

    /// Changes the sums and the histogram of a group.
    fn change<T>(&mut self, id: u32, change: impl FnOnce(&mut Totals, &mut Histogram) -> T) -> T {
        let mut totals = self.totals(id);
        let group = &mut self.groups[id as usize];
        self.histogram_bytes -= group.histogram.heap_bytes();
        let changed = change(&mut totals, &mut group.histogram);
        self.histogram_bytes += group.histogram.heap_bytes();
        if group.sums == WIDE {
            self.wide.remove(&id);
        }
        group.sums = NarrowTotals::of(&totals).unwrap_or(WIDE);
        if group.sums == WIDE {
            self.wide.insert(id, totals);
        }
        changed
    }

    /// Adds the gain of a group in a closing tick.
    pub(super) fn add(&mut self, id: u32, gain: &Totals, histogram: Option<&Histogram>) {
        self.change(id, |totals, closed| {
            *totals += gain;
            if let Some(histogram) = histogram {
                closed.add_all(histogram);
            }
        });
    }

    /// Adds a saved gain to a group, until its histogram takes more than this many bytes; returns
    /// whether it does.
    pub(in crate::report) fn restore(
        &mut self,
        id: u32,
        gain: &Totals,
        pairs: &[(u32, u64)],
        bytes_max: usize,
    ) -> bool {
        self.change(id, |totals, histogram| {
            *totals += gain;
            // Counts that are short in a file may be long in memory.
            pairs.iter().any(|&(bucket, count)| {
                histogram.add(bucket, count);
                histogram.heap_bytes() > bytes_max
            })
        })
    }

    /// Subtracts the gain of an expired tick from a group.
    pub(super) fn subtract(&mut self, id: u32, tick: u64, gain: &Totals, pairs: &[(u32, u64)]) {
        self.change(id, |totals, histogram| {
            *totals -= gain;
            pairs.iter().for_each(|&(bucket, count)| histogram.subtract(bucket, count));
            histogram.tidy();
        });
        self.extremes.expire(id, tick);
    }

    /// Starts a group with the next number.
    pub(super) fn push_group(&mut self) {
        self.groups.push(Group::default());
        self.extremes.push_group();
    }

    /// Removes the sums of a group.
    pub(super) fn remove(&mut self, id: u32) {
        self.wide.remove(&id);
        let group = std::mem::take(&mut self.groups[id as usize]);
        self.histogram_bytes -= group.histogram.heap_bytes();
        self.extremes.remove(id);
    }

    /// Frees the memory of groups from `end` on.
    pub(super) fn give_back(&mut self, end: usize) {
        self.groups.truncate(end);
        self.extremes.give_back(end);
    }

    /// Most bytes for the next group.
    pub(super) fn next_bytes(&self) -> usize {
        self.groups.next_bytes() + self.extremes.next_bytes()
    }

    /// Bytes of gains: histograms, and lists of extremes.
    pub(in crate::report) fn bytes(&self) -> usize {
        self.histogram_bytes + self.extremes.closed_bytes()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.groups.heap_bytes()
            + self.wide.capacity() * WIDE_BYTES
            + self.extremes.heap_bytes()
            + self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_exact_at_any_size() {
        let mut closed = ClosedTicks::new(false);
        closed.push_group();
        let [few, many] = [1 << 20, u64::MAX].map(|time| Totals {
            requests: 1 << 30,
            time: time.into(),
            ..Totals::ZERO
        });
        let mut sum = Totals::ZERO;
        for gain in [few, many, many, few] {
            closed.restore(0, &gain, &[], usize::MAX);
            sum += &gain;
            assert_eq!(closed.totals(0), sum);
        }
        assert_eq!(closed.wide.len(), 1);
        for (gain, is_last) in [(many, false), (few, false), (many, false), (few, true)] {
            closed.subtract(0, 1, &gain, &[]);
            sum -= &gain;
            assert_eq!((closed.totals(0), closed.is_empty(0)), (sum, is_last));
        }
        assert!(closed.wide.is_empty());
    }
}
