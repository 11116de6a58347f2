//! Groups: the finest rows of an aggregate, exact under add and expire.
//!
//! A group is one combination of key ids. Its gain in the [running tick](running_tick) is in a
//! slot, to whose front records write; when the tick closes, the slot is written to the tick log
//! and added to the group's sums over the [closed ticks](closed_ticks), and when that tick leaves
//! the window the log's entry is subtracted again. So a packet touches one front per aggregate,
//! however many reports there are and however often they are read.
//!
//! ```text
//!   record --> Front { sums, samples } --(full, second over)--> Slot { sums, histogram } --(tick over)--> Group
//!              `------------------ RunningTick ------------------------------------'     `-- ClosedTicks --'
//! ```

use self::closed_ticks::ClosedTicks;
use self::running_tick::RunningTick;
use super::chunked::Chunked;
use super::group_key::KeyIds;
use super::histogram::Histogram;
use super::key_table::KeyTable;
use super::totals::{NarrowTotals, Totals};

mod closed_ticks;
pub(super) mod cut_second;
pub(super) mod move_slots;
mod running_tick;
mod slot;

/// No slot: the group has no gain in the running tick.
const NO_SLOT: u32 = u32::MAX;

/// The group is not in use.
const UNUSED: u32 = u32::MAX - 1;

/// Bytes of a histogram that a slot keeps from one tick to the next.
const SLOT_HISTOGRAM_KEPT: usize = 128;

/// Unused groups at the end that are worth freeing.
const END_UNUSED: usize = 1024;

/// All groups of one aggregate.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) keys: KeyTable,
    /// Slot of each group in the running tick, [`NO_SLOT`] or [`UNUSED`]: read for every record.
    slot_of: Chunked<u32>,
    /// How often each id was reused for another combination.
    generations: Chunked<u32>,
    /// Numbers of removed groups, not to be reused before the caches have forgotten them.
    removed: Vec<u32>,
    pub(super) closed: ClosedTicks,
    pub(super) running: RunningTick,
}

impl Groups {
    pub(super) fn new(stride: usize, extremes: bool) -> Self {
        Self {
            keys: KeyTable::new(stride),
            closed: ClosedTicks::new(extremes),
            running: RunningTick::new(extremes),
            ..Self::default()
        }
    }

    /// One more than the largest id in use.
    pub(super) fn end(&self) -> u32 {
        self.keys.end
    }

    /// The ids of all groups.
    pub(super) fn used(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.end()).filter(|&id| self.is_used(id))
    }

    pub(super) fn is_used(&self, id: u32) -> bool {
        self.slot_of[id as usize] != UNUSED
    }

    /// How often this id was reused for another combination.
    pub(super) fn generation(&self, id: u32) -> u32 {
        self.generations[id as usize]
    }

    /// The slot of a group in the running tick.
    #[inline]
    pub(super) fn slot_of(&self, id: u32) -> Option<usize> {
        let at = self.slot_of[id as usize];
        (at < UNUSED).then_some(at as usize)
    }

    /// Whether the group has counted nothing in the window.
    pub(super) fn is_empty(&self, id: u32) -> bool {
        self.slot_of(id).is_none() && self.closed.is_empty(id)
    }

    /// The sums of a group over the window.
    #[inline]
    pub(super) fn totals(&self, id: u32) -> Totals {
        let mut totals = self.closed.totals(id);
        if let Some(at) = self.slot_of(id) {
            totals += &self.running.totals(at);
        }
        totals
    }

    /// Adds a new combination and returns its id.
    pub(super) fn insert(&mut self, key_ids: &KeyIds) -> u32 {
        let id = self.keys.insert(key_ids);
        if id as usize == self.closed.len() {
            self.closed.push_group();
        }
        // If it was in use before the end was freed, it exists.
        if id as usize == self.slot_of.len() {
            self.slot_of.push(NO_SLOT);
            self.generations.push(0);
        }
        self.slot_of[id as usize] = NO_SLOT;
        id
    }

    /// Removes a group that no longer counts anything. The id is not reused before
    /// [`free_removed`](Self::free_removed).
    pub(super) fn remove(&mut self, id: u32) {
        self.keys.unlink(id);
        self.removed.push(id);
        self.closed.remove(id);
        self.slot_of[id as usize] = UNUSED;
        let generation = &mut self.generations[id as usize];
        *generation = generation.wrapping_add(1);
    }

    /// Whether groups were removed whose ids caches may still have.
    #[inline]
    pub(super) fn has_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Frees the ids of removed groups.
    pub(super) fn free_removed(&mut self) {
        std::mem::take(&mut self.removed).into_iter().for_each(|id| self.keys.free(id));
    }

    /// Puts the slots of groups in the running tick in place of their ids, and prefetches what
    /// [`count`](RunningTick::count) will touch: the reads of one group depend on each other, those
    /// of different groups do not.
    pub(super) fn find_slots(&mut self, assignments: &mut [(u32, u32)]) {
        let mut seen = 0;
        for (place, _) in assignments {
            *place = self.slot(*place);
            let front = &self.running.fronts[*place as usize];
            seen ^= front.last_request ^ u64::from(front.len);
        }
        std::hint::black_box(seen);
    }

    /// The slot of a group in the running tick, which may be new.
    #[inline]
    fn slot(&mut self, id: u32) -> u32 {
        match self.slot_of[id as usize] {
            NO_SLOT => {
                let at = self.running.open(id);
                self.slot_of[id as usize] = at;
                at
            }
            at => at,
        }
    }

    /// Moves the settled slot `at` into its group (sums, extremes and, if wanted, the histogram)
    /// and frees it: the last slot takes its place.
    pub(super) fn close_slot(&mut self, at: usize, tick: u64, histogram: bool) {
        let (closed, running) = (&mut self.closed, &mut self.running);
        let (id, gain) = (running.slots[at].group, running.settled_totals(at));
        if !running.wide.is_empty() {
            running.wide.remove(&id);
        }
        closed.add(id, &gain, Some(&running.slots[at].histogram).filter(|_| histogram));
        if let Some(seen) = running.extremes(at) {
            closed.close_extremes(id, tick, seen);
        }
        running.slots[at].sums = NarrowTotals::ZERO;
        running.change_slot(at, |slot| {
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

    /// Subtracts the gain of an expired tick from a group; returns whether nothing is left of it.
    pub(super) fn expire(
        &mut self,
        id: u32,
        tick: u64,
        gain: &Totals,
        pairs: &[(u32, u64)],
    ) -> bool {
        self.closed.subtract(id, tick, gain, pairs);
        self.is_empty(id)
    }

    /// Whether enough of the end of the groups is unused to free it.
    pub(super) fn has_unused_end(&self) -> bool {
        let mut end = (0..self.closed.len()).rev().take(END_UNUSED).peekable();
        end.peek().is_some() && end.all(|id| self.slot_of[id] == UNUSED)
    }

    /// Frees up to `most` groups of the unused end. Their generations stay.
    pub(super) fn free_end(&mut self, most: usize) {
        let mut end = self.closed.len();
        let least = end.saturating_sub(most);
        while end > least && self.slot_of[end - 1] == UNUSED {
            end -= 1;
        }
        self.keys.free_end(end as u32);
        self.closed.free_end(end);
    }

    /// Most bytes for the next group.
    pub(super) fn next_bytes(&self) -> usize {
        let keys = self.keys.next_bytes();
        // The id of a removed group may be free.
        if self.keys.len() < self.closed.len() {
            return keys;
        }
        keys + self.closed.next_bytes() + 2 * self.slot_of.next_bytes()
    }

    /// Bytes on the heap, including slots and histograms.
    pub(super) fn heap_bytes(&self) -> usize {
        // 16: the allocator's overhead per histogram.
        self.keys.heap_bytes()
            + self.slot_of.heap_bytes()
            + self.generations.heap_bytes()
            + self.removed.capacity() * 4
            + self.keys.len() * 16
            + self.closed.heap_bytes()
            + self.running.heap_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::arrivals::Delta;
    use crate::report::definition::DEFINITION_KEYS_MAX;
    use crate::report::histogram::BucketLayout;

    /// What a slot has no room for goes on beside it, also when the slot moves to another group.
    #[test]
    fn a_slot_counts_on_when_its_sums_are_full() {
        let mut groups = Groups::new(1, false);
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
            groups.running.count(at, &delta(request), &buckets)
        };
        let cut = |groups: &mut Groups| while groups.running.cut_some(usize::MAX, |_| {}) {};
        for request in 1..=9_000 {
            for id in [id, other] {
                if !count(&mut groups, id, request) {
                    cut(&mut groups);
                    assert!(count(&mut groups, id, request));
                }
            }
            sum += &delta(request).totals(true);
        }
        assert_eq!(groups.totals(id), sum);
        cut(&mut groups);
        assert_eq!(groups.running.wide.len(), 2);
        groups.move_slot(groups.slot_of(id).unwrap(), other);
        let both = sum;
        sum += &both;
        assert_eq!((groups.totals(id), groups.totals(other)), (Totals::ZERO, sum));
        groups.close_slot(groups.slot_of(other).unwrap(), 1, true);
        let closed = &groups.closed;
        assert_eq!((closed.totals(id), closed.totals(other)), (Totals::ZERO, sum));
        assert_eq!(closed.histogram(other).iter().map(|(_, count)| count).sum::<u64>(), 18_000);
        assert!(groups.running.wide.is_empty() && groups.running.used == 0);
    }
}
