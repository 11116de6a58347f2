//! The sums of groups over the closed ticks of the window: a gain is added when its tick closes,
//! and subtracted when the tick leaves. Extremes cannot be subtracted, so each group has a list by
//! tick.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use super::super::chunked::Chunked;
use super::super::histogram::Histogram;
use super::super::totals::{Extremes, NarrowTotals, Totals};

/// The sums of one group.
#[derive(Debug, Default)]
struct Group {
    /// Its sums, or [`WIDE`].
    sums: NarrowTotals,
    histogram: Histogram,
}

/// Bytes of wide sums.
pub(super) const WIDE_BYTES: usize = size_of::<(u32, Totals)>() + 2;

/// Bytes of a group's extremes in a tick.
const EXTREMES_BYTES: usize = size_of::<(u64, Extremes)>() * 3 / 2;

/// Marks sums that are in [`ClosedTicks::wide`]: real ones have no errors without requests.
const WIDE: NarrowTotals = NarrowTotals { errors: u32::MAX, ..NarrowTotals::ZERO };

/// The sums of all groups of an aggregate.
#[derive(Debug, Default)]
pub(in crate::report) struct ClosedTicks {
    groups: Chunked<Group>,
    /// Sums of the few groups that are too large for [`NarrowTotals`].
    wide: HashMap<u32, Totals, RandomState>,
    /// Heap bytes of the histograms.
    pub(in crate::report) histogram_bytes: usize,
    /// By group and tick, if the aggregate keeps them: ticks exceeded in all values by a later one
    /// are left out, since they leave the window first.
    extremes: Option<Chunked<Vec<(u64, Extremes)>>>,
    /// Number of these.
    extremes_count: usize,
    /// Each snapshot being written holds a clone; while there is one, no tick's extremes are
    /// dropped.
    pub(in crate::report) saving: Arc<()>,
}

impl ClosedTicks {
    pub(super) fn new(extremes: bool) -> Self {
        Self { extremes: extremes.then(Chunked::default), ..Self::default() }
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

    /// The extremes of a group by tick.
    pub(in crate::report) fn extremes(&self, id: u32) -> &[(u64, Extremes)] {
        self.extremes.as_ref().map_or(&[], |all| &all[id as usize])
    }

    /// Changes the extremes of a group, if they are kept.
    fn change_extremes(&mut self, id: u32, change: impl FnOnce(&mut Vec<(u64, Extremes)>)) {
        if let Some(all) = &mut self.extremes {
            let of_group = &mut all[id as usize];
            self.extremes_count -= of_group.len();
            change(of_group);
            self.extremes_count += of_group.len();
        }
    }

    /// Adds the extremes of a group in a tick, which may have some already.
    pub(in crate::report) fn add_extremes(&mut self, id: u32, tick: u64, seen: &Extremes) {
        self.change_extremes(id, |of_group| {
            match of_group.binary_search_by_key(&tick, |it| it.0) {
                Ok(known) => of_group[known].1.widen(seen),
                Err(place) => {
                    // Most lists stay short: doubling would waste memory.
                    of_group.reserve_exact(1);
                    of_group.insert(place, (tick, *seen));
                }
            }
        });
    }

    /// Adds the extremes of a group in a closing tick.
    pub(super) fn close_extremes(&mut self, id: u32, tick: u64, seen: &Extremes) {
        // A snapshot being written still needs the exceeded ones.
        if Arc::strong_count(&self.saving) == 1 {
            self.change_extremes(id, |of_group| of_group.retain(|(_, it)| !seen.spans(it)));
        }
        self.add_extremes(id, tick, seen);
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
        self.change_extremes(id, |of_group| of_group.retain(|&(of, _)| of > tick));
    }

    /// Starts a group with the next id.
    pub(super) fn push_group(&mut self) {
        self.groups.push(Group::default());
        self.extremes.iter_mut().for_each(|all| all.push(Vec::new()));
    }

    /// Removes the sums of a group.
    pub(super) fn remove(&mut self, id: u32) {
        self.wide.remove(&id);
        let group = std::mem::take(&mut self.groups[id as usize]);
        self.histogram_bytes -= group.histogram.heap_bytes();
        self.change_extremes(id, |of_group| *of_group = Vec::new());
    }

    /// Frees the memory of groups from `end` on.
    pub(super) fn free_end(&mut self, end: usize) {
        self.groups.truncate(end);
        self.extremes.iter_mut().for_each(|all| all.truncate(end));
    }

    /// Most bytes for the next group.
    pub(super) fn next_bytes(&self) -> usize {
        self.groups.next_bytes() + self.extremes.as_ref().map_or(0, Chunked::next_bytes)
    }

    /// Bytes of gains: histograms and extremes.
    pub(in crate::report) fn bytes(&self) -> usize {
        self.histogram_bytes + self.extremes_count * EXTREMES_BYTES
    }

    /// Bytes by which extremes grow when a slot is closed.
    pub(super) fn closing_bytes(&self) -> usize {
        usize::from(self.extremes.is_some()) * EXTREMES_BYTES
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.groups.heap_bytes()
            + self.wide.capacity() * WIDE_BYTES
            + self.extremes.as_ref().map_or(0, Chunked::heap_bytes)
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
