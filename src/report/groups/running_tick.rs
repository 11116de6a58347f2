//! The running tick: slots, of which there are as many as groups with a gain in it.
//!
//! A record writes to the two cache lines of the slot's front. The front is settled, that is, added
//! to the slot, when its samples are full and when a second is cut.

use std::collections::HashMap;
use std::iter;

use ahash::RandomState;

use super::super::arrivals::Delta;
use super::super::chunked::{CHUNK, Chunked};
use super::super::encoded_gain::PairSums;
use super::super::histogram::{BucketLayout, Sample};
use super::super::totals::{Extremes, NarrowTotals, Totals};
use super::closed_ticks::WIDE_BYTES;
use super::slot::{Blocks, Front, SAMPLES, Slot};

/// The gains of an aggregate's groups in the running tick.
#[derive(Debug, Default)]
pub(in crate::report) struct RunningTick {
    pub(super) fronts: Chunked<Front>,
    /// Samples that left their fronts since the second was cut.
    pub(super) blocks: Blocks,
    /// Slots, of which these are in use.
    pub(in crate::report) slots: Chunked<Slot>,
    pub(in crate::report) used: usize,
    /// Most slots in use in this tick.
    peak: usize,
    /// Slots before this one have been cut in the ending second.
    pub(in crate::report) cut: usize,
    /// Between pieces of a cut: room for the samples of a group.
    pub(super) cut_scratch: (Vec<(u32, u64)>, PairSums),
    /// By group, what does not fit into the sums of its slot.
    pub(super) wide: HashMap<u32, Totals, RandomState>,
    /// By slot, extremes of the tick and of the second, if the aggregate keeps them.
    pub(super) extremes: Option<Chunked<(Extremes, Extremes)>>,
    /// Heap bytes of the histograms.
    pub(super) histogram_bytes: usize,
}

impl RunningTick {
    pub(super) fn new(extremes: bool) -> Self {
        Self { extremes: extremes.then(Chunked::default), ..Self::default() }
    }

    /// The gain in slot `at`.
    pub(in crate::report) fn totals(&self, at: usize) -> Totals {
        let mut totals = self.settled_totals(at);
        totals += &self.fronts[at].sums.totals();
        totals
    }

    /// Likewise without its front.
    pub(in crate::report) fn settled_totals(&self, at: usize) -> Totals {
        let slot = &self.slots[at];
        let mut totals = slot.sums.totals();
        if let Some(wide) = self.wide.get(&slot.group) {
            totals += wide;
        }
        totals
    }

    /// Its samples, in any order.
    pub(in crate::report) fn samples(&self, at: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let slot = &self.slots[at];
        let recent = self.recent_samples(at).flatten().map(|it| it.pair());
        slot.histogram.iter().chain(slot.second.iter()).chain(recent)
    }

    /// The samples of a front, and of each of its blocks.
    pub(super) fn recent_samples(&self, at: usize) -> impl Iterator<Item = &[Sample]> {
        let front = &self.fronts[at];
        iter::once(front.samples()).chain(self.blocks.of(front).map(<[Sample; SAMPLES]>::as_slice))
    }

    /// Its extremes, if the aggregate keeps them.
    pub(in crate::report) fn extremes(&self, at: usize) -> Option<&Extremes> {
        self.extremes.as_ref().map(|all| &all[at].0)
    }

    /// Sets the bytes that full fronts may take until the second is cut.
    pub(in crate::report) fn allow_blocks(&mut self, bytes: usize) {
        self.blocks.allow(bytes);
    }

    /// Opens a slot for a group.
    #[inline(never)]
    pub(super) fn open(&mut self, group: u32) -> u32 {
        let at = self.used;
        if at == self.slots.len() {
            self.slots.push(Slot::default());
            self.fronts.push(Front::default());
            self.extremes.iter_mut().for_each(|all| all.push(Default::default()));
        }
        self.used += 1;
        self.peak = self.peak.max(self.used);
        self.slots[at].group = group;
        self.fronts[at] = Front::default();
        if let Some(all) = &mut self.extremes {
            all[at] = Default::default();
        }
        at as u32
    }

    /// Counts a record in slot `at`; returns false if the sums of its front have no room, so that
    /// the second must be cut first.
    #[inline]
    pub(in crate::report) fn count(
        &mut self,
        at: u32,
        delta: &Delta,
        buckets: &BucketLayout,
    ) -> bool {
        let at = at as usize;
        let mut front = &mut self.fronts[at];
        let sample = delta.sample(buckets);
        // A heavy sample takes no place in the front, so it never fills it.
        if !sample.fits() && !front.sums.has_room() {
            return false;
        }
        if usize::from(front.len) == SAMPLES {
            if !self.make_room(at) {
                return false;
            }
            front = &mut self.fronts[at];
        }
        front.is_touched = true;
        let (requests, errors) = (front.sums.requests, front.sums.errors);
        front.sums.add(&delta.sums);
        if front.last_request == delta.request {
            (front.sums.requests, front.sums.errors) = (requests, errors);
        }
        front.last_request = delta.request;
        if sample.fits() {
            front.samples[usize::from(front.len)] = sample;
            front.len += 1;
        } else {
            self.count_heavy(at, delta, buckets);
        }
        if let Some(all) = &mut self.extremes {
            let seen = delta.extremes();
            let (of_tick, of_second) = &mut all[at];
            of_tick.widen(&seen);
            of_second.widen(&seen);
        }
        true
    }

    /// Counts a sample with a weight too large for a front.
    #[cold]
    fn count_heavy(&mut self, at: usize, delta: &Delta, buckets: &BucketLayout) {
        if delta.weight > 0 {
            let bucket = buckets.bucket(delta.sample);
            self.settle_early(at, [(bucket, delta.weight.into())]);
        }
    }

    /// Makes room for samples in front `at`; returns false if its sums are nearly full.
    #[inline(never)]
    fn make_room(&mut self, at: usize) -> bool {
        let front = &mut self.fronts[at];
        if !front.sums.has_room() {
            return false;
        }
        if !self.blocks.take(front) {
            front.len = 0;
            let samples = front.samples;
            self.settle_early(at, samples.map(Sample::pair));
        }
        true
    }

    /// Settles samples for which slot `at` has no room until the second is cut.
    fn settle_early(&mut self, at: usize, pairs: impl IntoIterator<Item = (u32, u64)>) {
        self.change_slot(at, |slot| {
            pairs.into_iter().for_each(|(bucket, count)| slot.second.add(bucket, count));
        });
    }

    /// Changes the histograms of slot `at`.
    pub(super) fn change_slot(&mut self, at: usize, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[at];
        self.histogram_bytes -= slot.heap_bytes();
        change(slot);
        self.histogram_bytes += slot.heap_bytes();
    }

    /// Makes room in the sums of slot `at`, if they have none.
    pub(super) fn widen_if_full(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        if !slot.sums.has_room() {
            *self.wide.entry(slot.group).or_default() += &slot.sums.totals();
            slot.sums = NarrowTotals::ZERO;
        }
    }

    /// After the last slot was closed: keeps no more slots than the tick needed, so that one wild
    /// tick does not hold its memory forever.
    pub(in crate::report) fn free_all_spare(&mut self) {
        while self.free_spare(usize::MAX) {}
        self.peak = 0;
        self.wide.shrink_to_fit();
    }

    /// Likewise for up to `most` slots; returns false when no more are left to free.
    pub(in crate::report) fn free_spare(&mut self, most: usize) -> bool {
        let kept = if self.peak == 0 { 0 } else { (self.peak * 2).max(CHUNK) };
        self.free_end(kept.max(self.slots.len().saturating_sub(most)));
        self.slots.len() > kept
    }

    /// Frees the slots from `end` on.
    fn free_end(&mut self, end: usize) {
        let freed = (end..self.slots.len()).map(|at| self.slots[at].heap_bytes());
        self.histogram_bytes -= freed.sum::<usize>();
        self.slots.truncate(end);
        self.fronts.truncate(end);
        self.extremes.iter_mut().for_each(|all| all.truncate(end));
    }

    /// While the tick runs: frees unused slots.
    pub(in crate::report) fn free_unused(&mut self) {
        self.blocks.shrink();
        self.free_end(self.used);
    }

    /// Bytes freed when slot `at` is removed.
    pub(in crate::report) fn slot_bytes(&self, at: usize) -> usize {
        size_of::<Slot>() + size_of::<Front>() + 16 + self.slots[at].heap_bytes()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        // 16: the allocator's overhead per histogram.
        self.fronts.heap_bytes()
            + self.blocks.heap_bytes()
            + self.slots.heap_bytes()
            + self.slots.len() * 16
            + self.histogram_bytes
            + self.wide.capacity() * WIDE_BYTES
            + self.extremes.as_ref().map_or(0, Chunked::heap_bytes)
    }
}
