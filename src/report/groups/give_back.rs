//! Memory that groups give back: slots that the next tick will hardly need, and the unused end of
//! the groups.
//!
//! A burst leaves much of it, so it is given back in pieces, between which readers get the lock.

use super::{CHUNK, Groups, UNUSED};

/// Unused groups at the end that are worth freeing.
const END_UNUSED: usize = 1024;

impl Groups {
    /// After the last slot was closed: keeps no more slots than the tick needed, so that one wild
    /// tick does not hold its memory forever.
    pub(in crate::report) fn slots_closed(&mut self) {
        while self.free_some_slots(usize::MAX) {}
        self.slots_peak = 0;
        self.wide_running.shrink_to_fit();
    }

    /// Likewise for up to `most` slots; returns false when no more are left to free.
    pub(in crate::report) fn free_some_slots(&mut self, most: usize) -> bool {
        let keep = if self.slots_peak == 0 { 0 } else { (self.slots_peak * 2).max(CHUNK) };
        self.keep_slots(keep.max(self.slots.len().saturating_sub(most)));
        self.slots.len() > keep
    }

    /// Keeps this many slots.
    fn keep_slots(&mut self, keep: usize) {
        let freed = (keep..self.slots.len()).map(|at| self.slots[at].heap_bytes());
        self.slot_histogram_bytes -= freed.sum::<usize>();
        self.slots.truncate(keep);
        self.fronts.truncate(keep);
        if self.extremes.running.capacity() > keep * 2 {
            self.extremes.running.shrink_to(keep);
        }
    }

    /// While the tick runs: frees unused slots.
    pub(in crate::report) fn give_slots_back(&mut self) {
        self.blocks.shrink();
        self.keep_slots(self.slots_used);
    }

    /// Whether enough of the end of the groups is unused to free it.
    pub(in crate::report) fn has_unused_end(&self) -> bool {
        let mut end = (0..self.groups.len()).rev().take(END_UNUSED).peekable();
        end.peek().is_some() && end.all(|id| self.slot_of[id] == UNUSED)
    }

    /// Frees up to `most` groups of the unused end. Their generations stay.
    pub(in crate::report) fn give_end_back(&mut self, most: usize) {
        let mut end = self.groups.len();
        let least = end.saturating_sub(most);
        while end > least && self.slot_of[end - 1] == UNUSED {
            end -= 1;
        }
        self.keys.give_back(end as u32);
        self.groups.truncate(end);
        self.extremes.give_back(end);
    }
}
