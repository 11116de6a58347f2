//! Overflow of slots: a group's gain in the running tick moves to another group, or is closed
//! early.
//!
//! Used by `aggregate::close` and `aggregate::overflow` when there is less memory than the tick
//! needs, on the merger's thread, when all slots are settled. The last slot replaces a removed one,
//! so the slots in use can be walked while they shrink.

use super::super::totals::NarrowTotals;
use super::{Front, Groups, NO_SLOT, Slot};
use crate::value::varint;

/// Levels from the groups that overflow first to those that overflow last, two for each doubling of
/// requests.
pub(in crate::report) const LEVELS: usize = 64;

impl Groups {
    /// The level of slot `at`, below [`LEVELS`]: by its requests and those of its group in an
    /// average tick, and between equals by whether the group existed before this tick.
    pub(in crate::report) fn level(&self, at: usize) -> usize {
        let slot = &self.slots[at];
        let before = self.totals(slot.group).requests;
        let requests = self.settled_totals(at).requests.saturating_add(before / self.ticks);
        let doublings = requests.max(1).ilog2() as usize;
        let is_new = self.groups[slot.group as usize].sums == NarrowTotals::ZERO;
        (doublings * 2 + usize::from(!is_new)).min(LEVELS - 1)
    }

    /// Upper bound of the bytes for closing slot `at`: its entry, and the growth of the group's
    /// histogram.
    pub(in crate::report) fn closing_bytes(&self, at: usize) -> usize {
        let Slot { group, sums, histogram, .. } = &self.slots[at];
        let [sum, count] = match self.wide_running.contains_key(group) {
            // As long as numbers may be.
            true => [19; 2],
            false => [sums.widest(), sums.hits | u64::from(sums.requests)].map(varint::bytes),
        };
        let entry = 8 + 9 * sum + histogram.len() * (3 + count);
        let closed = &self.groups[*group as usize].histogram;
        entry + closed.growth_max(histogram) + self.extremes.closing_bytes()
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

    /// Moves slot `at` to another group `to`, and fills it with the last slot.
    pub(in crate::report) fn move_slot(&mut self, at: usize, to: u32) {
        if let Some(wide) = self.wide_running.remove(&self.slots[at].group) {
            *self.wide_running.entry(to).or_default() += &wide;
        }
        let from = std::mem::take(&mut self.slots[at]);
        let seen = self.running_extremes(at).copied();
        self.slot_of[from.group as usize] = NO_SLOT;
        // Frees its place first: overflowing never allocates another chunk.
        self.fill(at);
        let to = self.slot(to) as usize;
        self.slots[to].sums.add(&from.sums);
        self.change_slot(to, |slot| slot.histogram.add_all(&from.histogram));
        self.slot_histogram_bytes -= from.heap_bytes();
        if let Some(seen) = seen {
            self.extremes.running[to].0.widen(&seen);
        }
        if !self.slots[to].sums.has_room() {
            self.widen(to);
        }
    }

    /// Fills the unused slot `at` with the last slot in use.
    pub(super) fn fill(&mut self, at: usize) {
        self.slots_used -= 1;
        let last = self.slots_used;
        self.extremes.swap_remove(at);
        if at == last {
            return;
        }
        let freed = std::mem::take(&mut self.slots[at]);
        self.slots[at] = std::mem::replace(&mut self.slots[last], freed);
        let group = self.slots[at].group;
        self.slot_of[group as usize] = at as u32;
        self.fronts[at] = self.fronts[last];
    }
}
