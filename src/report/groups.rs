//! Groups: the finest rows of an aggregate, exact under add and expire.
//!
//! A group is one combination of key ids. Its gain in the running tick is in a slot (there are only
//! as many slots as groups with a gain). A record only writes to the two cache lines of the slot's
//! front: sums, and its sample after earlier ones. The front is settled when its samples are full
//! and when a second is cut; when the tick closes, the slot is written to the tick log and added to
//! the group's sums, and when that tick leaves the window the log's entry is subtracted again. So a
//! packet touches one front per aggregate, however many reports there are and however often they
//! are read.
//!
//! ```text
//!   record --> Front { sums, samples } --(full, second over)--> Slot { sums, histogram } --(tick over)--> Group
//! ```

use std::collections::HashMap;
use std::iter;

use ahash::RandomState;

use self::extremes::GroupExtremes;
use self::slot::{Blocks, Front, SAMPLES, Slot};
use super::arrivals::Delta;
use super::chunked::{CHUNK, Chunked};
use super::encoded_gain::PairSums;
use super::group_key::KeyIds;
use super::histogram::{BucketLayout, Histogram, Sample};
use super::key_table::KeyTable;
use super::totals::{Extremes, NarrowTotals, Totals};

pub(super) mod cut_second;
mod extremes;
mod give_back;
pub(super) mod move_slots;
mod slot;

/// No slot: the group has no gain in the running tick.
const NO_SLOT: u32 = u32::MAX;

/// The group is not in use.
const UNUSED: u32 = u32::MAX - 1;

/// Bytes of a histogram that a slot keeps from one tick to the next.
const SLOT_HISTOGRAM_KEPT: usize = 128;

/// One combination of key ids, over the closed ticks of the window.
#[derive(Debug, Default)]
struct Group {
    /// Its sums, or [`WIDE`].
    sums: NarrowTotals,
    histogram: Histogram,
}

/// Bytes of wide sums.
const WIDE_BYTES: usize = size_of::<(u32, Totals)>() + 2;

/// The sums are in [`Groups::wide`]: no group has errors without requests.
const WIDE: NarrowTotals = NarrowTotals { errors: u32::MAX, ..NarrowTotals::ZERO };

/// All groups of one aggregate.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) keys: KeyTable,
    /// Slot of each group in the running tick, [`NO_SLOT`] or [`UNUSED`]: read for every record.
    slot_of: Chunked<u32>,
    /// How often each number was reused for another combination.
    generations: Chunked<u32>,
    groups: Chunked<Group>,
    /// Sums of the few groups that are too large for [`NarrowTotals`].
    wide: HashMap<u32, Totals, RandomState>,
    /// Likewise in the running tick: what does not fit into the slot of the group.
    wide_running: HashMap<u32, Totals, RandomState>,
    /// Numbers of removed groups, not to be reused before the caches have forgotten them.
    gone: Vec<u32>,
    /// Number of ticks in the window.
    ticks: u64,
    fronts: Chunked<Front>,
    /// Samples that left their fronts since the second was cut.
    blocks: Blocks,
    /// Slots of the running tick, of which these are in use: as many as groups with a gain in it.
    pub(super) slots: Chunked<Slot>,
    pub(super) slots_used: usize,
    /// Most slots in use in this tick.
    slots_peak: usize,
    /// Slots before this one have been cut in the ending second.
    pub(super) cut: usize,
    /// Between pieces of a cut: room for the samples of a group.
    cut_scratch: (Vec<(u32, u64)>, PairSums),
    pub(super) extremes: GroupExtremes,
    /// Heap bytes of the histograms of slots.
    slot_histogram_bytes: usize,
    /// Heap bytes of the histograms of groups.
    pub(super) histogram_bytes: usize,
}

impl Groups {
    pub(super) fn new(stride: usize, ticks: u64, extremes: bool) -> Self {
        Self {
            keys: KeyTable::new(stride),
            ticks,
            extremes: GroupExtremes::new(extremes),
            ..Self::default()
        }
    }

    /// One more than the largest number in use.
    pub(super) fn end(&self) -> u32 {
        self.keys.end
    }

    /// The numbers of all groups.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.end()).filter(|&id| self.is_used(id))
    }

    pub(super) fn is_used(&self, id: u32) -> bool {
        self.slot_of[id as usize] != UNUSED
    }

    /// How often this number was reused for another combination.
    pub(super) fn generation(&self, id: u32) -> u32 {
        self.generations[id as usize]
    }

    /// The sums of a group over the closed ticks of the window.
    #[inline]
    pub(super) fn totals(&self, id: u32) -> Totals {
        match &self.groups[id as usize] {
            Group { sums: WIDE, .. } => self.wide.get(&id).copied().unwrap_or_default(),
            group => group.sums.totals(),
        }
    }

    /// Changes the sums and the histogram of a group over the closed ticks of the window.
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

    /// Its histogram over the closed ticks of the window.
    pub(super) fn histogram(&self, id: u32) -> &Histogram {
        &self.groups[id as usize].histogram
    }

    /// Whether the group has counted nothing in the window.
    pub(super) fn is_empty(&self, id: u32) -> bool {
        self.running(id).is_none() && self.groups[id as usize].sums == NarrowTotals::ZERO
    }

    /// The slot of a group in the running tick.
    #[inline]
    pub(super) fn running(&self, id: u32) -> Option<usize> {
        let at = self.slot_of[id as usize];
        (at < UNUSED).then_some(at as usize)
    }

    /// The gain in the running tick of the group in slot `at`.
    pub(super) fn running_totals(&self, at: usize) -> Totals {
        let mut totals = self.settled_totals(at);
        totals += &self.fronts[at].sums.totals();
        totals
    }

    /// Likewise without its front.
    pub(super) fn settled_totals(&self, at: usize) -> Totals {
        let slot = &self.slots[at];
        let mut totals = slot.sums.totals();
        if let Some(wide) = self.wide_running.get(&slot.group) {
            totals += wide;
        }
        totals
    }

    /// Makes room in the sums of slot `at`.
    #[cold]
    fn widen(&mut self, at: usize) {
        let slot = &mut self.slots[at];
        *self.wide_running.entry(slot.group).or_default() += &slot.sums.totals();
        slot.sums = NarrowTotals::ZERO;
    }

    /// Its samples in the running tick, in any order.
    pub(super) fn running_samples(&self, at: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let slot = &self.slots[at];
        let recent = self.recent_samples(at).flatten().map(|it| it.pair());
        slot.histogram.iter().chain(slot.second.iter()).chain(recent)
    }

    /// Its extremes in the running tick, if the aggregate keeps them.
    pub(super) fn running_extremes(&self, at: usize) -> Option<&Extremes> {
        self.extremes.running.get(at).map(|(of_tick, _)| of_tick)
    }

    /// The samples of a front, and of each of its blocks.
    fn recent_samples(&self, at: usize) -> impl Iterator<Item = &[Sample]> {
        let front = &self.fronts[at];
        iter::once(front.samples()).chain(self.blocks.of(front).map(<[Sample; SAMPLES]>::as_slice))
    }

    /// Sets the bytes that full fronts may take until the second is cut.
    pub(super) fn allow_blocks(&mut self, bytes: usize) {
        self.blocks.allow(bytes);
    }

    /// Adds a new combination and returns its number.
    pub(super) fn insert(&mut self, key_ids: &KeyIds) -> u32 {
        let id = self.keys.insert(key_ids);
        if id as usize == self.groups.len() {
            self.groups.push(Group::default());
            self.extremes.push_group();
        }
        // If it was in use before the end was freed, it exists.
        if id as usize == self.slot_of.len() {
            self.slot_of.push(NO_SLOT);
            self.generations.push(0);
        }
        self.slot_of[id as usize] = NO_SLOT;
        id
    }

    /// Removes a group that no longer counts anything. The number is not reused before
    /// [`free_gone`](Self::free_gone).
    pub(super) fn remove(&mut self, id: u32) {
        self.keys.unlink(id);
        self.gone.push(id);
        self.wide.remove(&id);
        let group = std::mem::take(&mut self.groups[id as usize]);
        self.histogram_bytes -= group.histogram.heap_bytes();
        self.slot_of[id as usize] = UNUSED;
        let generation = &mut self.generations[id as usize];
        *generation = generation.wrapping_add(1);
        self.extremes.remove(id);
    }

    /// Whether groups were removed whose numbers caches may still have.
    #[inline]
    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Makes the numbers of removed groups available.
    pub(super) fn free_gone(&mut self) {
        std::mem::take(&mut self.gone).into_iter().for_each(|id| self.keys.free(id));
    }

    /// Puts the slots of groups in the running tick in place of their numbers, and prefetches what
    /// [`count`](Self::count) will touch: the reads of one group depend on each other, those of
    /// different groups do not.
    pub(super) fn find_slots(&mut self, assignments: &mut [(u32, u32)]) {
        let mut seen = 0;
        for (place, _) in assignments {
            *place = self.slot(*place);
            let front = &self.fronts[*place as usize];
            seen ^= front.last_request ^ u64::from(front.len);
        }
        std::hint::black_box(seen);
    }

    /// The slot of a group in the running tick, which may be new.
    #[inline]
    fn slot(&mut self, id: u32) -> u32 {
        match self.slot_of[id as usize] {
            NO_SLOT => self.open_slot(id),
            at => at,
        }
    }

    /// Counts a record in slot `at`; returns false if the sums of its front have no room, so that
    /// the second must be cut first.
    #[inline]
    pub(super) fn count(&mut self, at: u32, delta: &Delta, buckets: &BucketLayout) -> bool {
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
        if self.extremes.are_kept {
            let seen = delta.extremes();
            let (of_tick, of_second) = &mut self.extremes.running[at];
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

    /// Settles samples for which slot `at` has no room until the second is cut.
    fn settle_early(&mut self, at: usize, pairs: impl IntoIterator<Item = (u32, u64)>) {
        self.change_slot(at, |slot| {
            pairs.into_iter().for_each(|(bucket, count)| slot.second.add(bucket, count));
        });
    }

    /// Changes the histograms of slot `at`.
    fn change_slot(&mut self, at: usize, change: impl FnOnce(&mut Slot)) {
        let slot = &mut self.slots[at];
        self.slot_histogram_bytes -= slot.heap_bytes();
        change(slot);
        self.slot_histogram_bytes += slot.heap_bytes();
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

    #[inline(never)]
    fn open_slot(&mut self, id: u32) -> u32 {
        let at = self.slots_used;
        if at == self.slots.len() {
            self.slots.push(Slot::default());
            self.fronts.push(Front::default());
        }
        self.extremes.open_slot();
        self.slots_used += 1;
        self.slots_peak = self.slots_peak.max(self.slots_used);
        self.slots[at].group = id;
        self.fronts[at] = Front::default();
        self.slot_of[id as usize] = at as u32;
        at as u32
    }

    /// Moves the settled slot `at` into its group (sums, extremes and, if wanted, the histogram)
    /// and frees it: the last slot takes its place.
    pub(super) fn close_slot(&mut self, at: usize, tick: u64, histogram: bool) {
        let (id, gain) = (self.slots[at].group, self.settled_totals(at));
        if !self.wide_running.is_empty() {
            self.wide_running.remove(&id);
        }
        let counts = std::mem::take(&mut self.slots[at].histogram);
        self.change(id, |totals, closed| {
            *totals += &gain;
            if histogram {
                closed.add_all(&counts);
            }
        });
        self.extremes.close(at, id, tick);
        self.slots[at].histogram = counts;
        self.slots[at].sums = NarrowTotals::ZERO;
        self.change_slot(at, |slot| {
            for counts in [&mut slot.histogram, &mut slot.second] {
                // A wide histogram belongs to a busy group, and the next user of this slot may not
                // be one.
                match counts.heap_bytes() > SLOT_HISTOGRAM_KEPT {
                    true => *counts = Histogram::new(),
                    false => counts.clear(),
                }
            }
        });
        self.slot_of[id as usize] = NO_SLOT;
        self.fill(at);
    }

    /// Adds a gain of a closed tick to a group, until its histogram takes more than this many
    /// bytes; returns whether it does.
    pub(super) fn restore(
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

    /// Subtracts the gain of an expired tick from a group; returns whether nothing is left of it.
    pub(super) fn expire(
        &mut self,
        id: u32,
        tick: u64,
        gain: &Totals,
        pairs: &[(u32, u64)],
    ) -> bool {
        self.change(id, |totals, histogram| {
            *totals -= gain;
            pairs.iter().for_each(|&(bucket, count)| histogram.subtract(bucket, count));
            histogram.tidy();
        });
        self.extremes.expire(id, tick);
        self.is_empty(id)
    }

    /// Most bytes for the next group.
    pub(super) fn next_bytes(&self) -> usize {
        let keys = self.keys.next_bytes();
        // The number of a removed group may be free.
        if self.keys.len() < self.groups.len() {
            return keys;
        }
        let numbers = 2 * self.slot_of.next_bytes();
        keys + self.groups.next_bytes() + numbers + self.extremes.next_bytes()
    }

    /// Bytes of closed ticks in groups: histograms, and lists of extremes.
    pub(super) fn closed_bytes(&self) -> usize {
        self.histogram_bytes + self.extremes.closed_bytes()
    }

    /// Bytes on the heap, including slots and histograms.
    pub(super) fn heap_bytes(&self) -> usize {
        // 16: the allocator's overhead per histogram.
        self.keys.heap_bytes()
            + self.groups.heap_bytes()
            + (self.wide.capacity() + self.wide_running.capacity()) * WIDE_BYTES
            + self.slot_of.heap_bytes()
            + self.generations.heap_bytes()
            + self.gone.capacity() * 4
            + self.fronts.heap_bytes()
            + self.blocks.heap_bytes()
            + self.slots.heap_bytes()
            + self.slots.len() * 16
            + self.slot_histogram_bytes
            + self.keys.len() * 16
            + self.extremes.heap_bytes()
            + self.closed_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::strings::NONE;
    use crate::report::definition::DEFINITION_KEYS_MAX;

    #[test]
    fn sums_are_exact_at_any_size() {
        let mut groups = Groups::new(0, 1, false);
        let id = groups.insert(&[NONE; DEFINITION_KEYS_MAX]);
        let [few, many] = [1 << 20, u64::MAX].map(|time| Totals {
            requests: 1 << 30,
            time: time.into(),
            ..Totals::ZERO
        });
        let mut sum = Totals::ZERO;
        for gain in [few, many, many, few] {
            groups.restore(id, &gain, &[], usize::MAX);
            sum += &gain;
            assert_eq!(groups.totals(id), sum);
        }
        assert_eq!(groups.wide.len(), 1);
        for (gain, is_last) in [(many, false), (few, false), (many, false), (few, true)] {
            assert_eq!(groups.expire(id, 1, &gain, &[]), is_last);
            sum -= &gain;
            assert_eq!(groups.totals(id), sum);
        }
        assert!(groups.wide.is_empty() && groups.is_empty(id));
    }

    /// What a slot has no room for goes on beside it, also when the slot moves to another group.
    #[test]
    fn a_slot_counts_on_when_its_sums_are_full() {
        let mut groups = Groups::new(1, 1, false);
        let [id, other] = [7, 8].map(|key| groups.insert(&[key; DEFINITION_KEYS_MAX]));
        let (long, buckets) = (1 << 50, BucketLayout::LogLinear);
        let delta = |request| {
            let sums = NarrowTotals {
                requests: 1,
                hits: 3,
                time: long,
                errors: (request % 2 == 0).into(),
                unmeasured: 1,
                ..NarrowTotals::ZERO
            };
            Delta::new(request, sums, long, 1)
        };
        let mut sum = Totals::ZERO;
        let count = |groups: &mut Groups, id, request| {
            let at = groups.slot(id);
            groups.count(at, &delta(request), &buckets)
        };
        for request in 1..=9_000 {
            for id in [id, other] {
                if !count(&mut groups, id, request) {
                    while groups.cut_some(usize::MAX, |_, _| {}) {}
                    assert!(count(&mut groups, id, request));
                }
            }
            sum += &delta(request).totals(true);
        }
        assert_eq!(groups.running_totals(groups.running(id).unwrap()), sum);
        while groups.cut_some(usize::MAX, |_, _| {}) {}
        assert_eq!(groups.wide_running.len(), 2);
        groups.move_slot(groups.running(id).unwrap(), other);
        let both = sum;
        sum += &both;
        assert_eq!(groups.running_totals(groups.running(other).unwrap()), sum);
        groups.close_slot(groups.running(other).unwrap(), 1, true);
        assert_eq!((groups.totals(id), groups.totals(other)), (Totals::ZERO, sum));
        assert_eq!(groups.histogram(other).iter().map(|(_, count)| count).sum::<u64>(), 18_000);
        assert!(groups.wide_running.is_empty() && groups.slots_used == 0);
    }
}
