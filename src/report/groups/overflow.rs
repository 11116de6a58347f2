//! Overflow of slots: a group's gain in the running tick moves to another group, or is closed
//! early.
//!
//! Used by `aggregate::close` and `aggregate::overflow` when there is less memory than the tick
//! needs, on the merger's thread, when all slots are settled. The last slot replaces a removed one,
//! so the slots in use can be walked while they shrink.

use super::super::chunked::CHUNK;
use super::super::totals::Totals;
use super::super::varint;
use super::{Front, Groups, NO_SLOT, Slot, UNUSED};

/// Unused groups at the end that are worth freeing.
const END_UNUSED: usize = 1024;

/// Levels from the groups that overflow first to those that overflow last, two for each doubling of
/// requests.
pub(in crate::report) const LEVELS: usize = 64;

impl Groups {
    /// The level of slot `at`, below [`LEVELS`]: by its requests and those of its group in an
    /// average tick, and between equals by whether the group existed before this tick.
    pub(in crate::report) fn level(&self, at: usize) -> usize {
        let slot = &self.slots[at];
        let totals = &self.groups[slot.group as usize].totals;
        let requests = u64::from(slot.sums.requests).saturating_add(totals.requests / self.ticks);
        let doublings = requests.max(1).ilog2() as usize;
        (doublings * 2 + usize::from(*totals != Totals::ZERO)).min(LEVELS - 1)
    }

    /// The group of slot `at`.
    pub(in crate::report) fn group_of_slot(&self, at: usize) -> u32 {
        self.slots[at].group
    }

    /// Upper bound of the bytes for closing slot `at`: its entry, and the growth of the group's
    /// histogram.
    pub(in crate::report) fn closing_bytes(&self, at: usize) -> usize {
        let Slot {
            group,
            sums,
            histogram,
            ..
        } = &self.slots[at];
        let count = varint::bytes(sums.hits | u64::from(sums.requests));
        let entry = 8 + 9 * varint::bytes(sums.widest()) + histogram.len() * (3 + count);
        let closed = &self.groups[*group as usize].histogram;
        entry + closed.growth_max(histogram) + self.extremes_each()
    }

    /// Whether the group's histogram has to grow when slot `at` is closed.
    pub(in crate::report) fn histogram_grows(&self, at: usize) -> bool {
        let slot = &self.slots[at];
        let mut has = self.groups[slot.group as usize].histogram.iter();
        slot.histogram.iter().any(|(wanted, _)| {
            has.by_ref().find(|&(b, _)| b >= wanted).map(|it| it.0) != Some(wanted)
        })
    }

    /// Bytes freed when slot `at` is removed.
    pub(in crate::report) fn slot_bytes(&self, at: usize) -> usize {
        size_of::<Slot>() + size_of::<Front>() + 16 + self.slots[at].heap_bytes()
    }

    /// [Takes over](Self::take_over) slot `at`, and fills it with the last slot.
    pub(in crate::report) fn close_and_fill(&mut self, at: usize, tick: u64, histogram: bool) {
        self.close_slot(at, tick, histogram);
        self.fill(at);
    }

    /// Moves slot `at` to another group `to`, and fills it with the last slot; returns false if
    /// that group's slot must be [taken over](Self::take_over) first.
    pub(in crate::report) fn move_slot(&mut self, at: usize, to: u32) -> bool {
        let more = self.slots[at].sums.requests;
        let has_room = |slot: &Slot| {
            let requests = slot.sums.requests.checked_add(more);
            slot.sums.has_room() && requests.is_some()
        };
        if self.running(to).is_some_and(|(_, slot)| !has_room(slot)) {
            return false;
        }
        let from = std::mem::take(&mut self.slots[at]);
        let seen = self.slot(at).1.copied();
        self.slot_of[from.group as usize] = NO_SLOT;
        // Frees its place first: overflowing never allocates another chunk.
        self.fill(at);
        let to = match self.slot_of[to as usize] {
            NO_SLOT => self.open_slot(to),
            to => to,
        } as usize;
        let slot = &mut self.slots[to];
        slot.sums.add(&from.sums);
        slot.unmeasured += from.unmeasured;
        if !slot.sums.has_room() {
            self.fronts[to].is_locked = true;
        }
        let before = slot.histogram.heap_bytes();
        slot.histogram.add_all(&from.histogram);
        self.slot_histogram_bytes += slot.histogram.heap_bytes();
        self.slot_histogram_bytes -= before + from.heap_bytes();
        if let Some(seen) = seen {
            self.slot_extremes[to].0.widen(&seen);
        }
        true
    }

    /// Fills the unused slot `at` with the last slot in use.
    fn fill(&mut self, at: usize) {
        self.slots_used -= 1;
        let last = self.slots_used;
        if self.extremes.is_some() {
            self.slot_extremes.truncate(last + 1);
            self.slot_extremes.swap_remove(at);
        }
        if at == last {
            return;
        }
        let moved = std::mem::take(&mut self.slots[last]);
        let freed = std::mem::replace(&mut self.slots[at], moved);
        self.slots[last] = freed;
        let group = self.slots[at].group;
        self.slot_of[group as usize] = at as u32;
        self.fronts[at] = self.fronts[last];
    }

    /// While the tick runs: frees unused slots.
    pub(in crate::report) fn give_slots_back(&mut self) {
        self.blocks.shrink_to_fit();
        self.keep_slots(self.slots_used);
    }

    /// Frees the end of the groups, if enough of it is unused; returns whether it did. Their
    /// generations stay.
    pub(in crate::report) fn give_end_back(&mut self) -> bool {
        let mut end = self.groups.len();
        while end > 0 && self.slot_of[end - 1] == UNUSED {
            end -= 1;
        }
        let unused = self.groups.len() - end;
        if unused < END_UNUSED && (end > 0 || unused == 0) {
            return false;
        }
        self.keys.give_back(end as u32);
        while self.groups.len() > end {
            self.groups.pop();
        }
        if let Some(extremes) = &mut self.extremes {
            extremes.truncate(end);
            extremes.shrink_to_fit();
        }
        true
    }

    /// Most bytes for the next group.
    pub(in crate::report) fn next_bytes(&self) -> usize {
        let keys = self.keys.next_bytes();
        if self.keys.len() < self.groups.len() || !self.groups.len().is_multiple_of(CHUNK) {
            return keys;
        }
        let each = size_of::<super::Group>() + 2 * size_of::<u32>();
        let lists = match &self.extremes {
            Some(lists) if lists.capacity() - lists.len() < CHUNK => lists.capacity() * 48,
            _ => 0,
        };
        each * CHUNK + lists + keys
    }
}
