//! Overflow of slots: a group's gain in the running tick moves to another group, or is closed
//! early.
//!
//! Used by `aggregate::close` and `aggregate::overflow` when there is less memory than the tick
//! needs, on the merger's thread, when all slots are settled. The last slot replaces a removed one,
//! so the slots in use can be walked while they shrink.

use super::slot::Slot;
use super::{Groups, NO_SLOT};
use crate::value::varint;

/// Levels from the groups that overflow first to those that overflow last, two for each doubling of
/// requests.
pub(in crate::report) const LEVELS: usize = 64;

impl Groups {
    /// The level of slot `at`, below [`LEVELS`]: by its requests and those of its group in an
    /// average tick, and between equals by whether the group existed before this tick.
    pub(in crate::report) fn level(&self, at: usize, ticks: u64) -> usize {
        let group = self.running.slots[at].group;
        let before = self.closed.totals(group).requests;
        let requests = self.running.settled_totals(at).requests.saturating_add(before / ticks);
        let doublings = requests.max(1).ilog2() as usize;
        let is_new = self.closed.is_empty(group);
        (doublings * 2 + usize::from(!is_new)).min(LEVELS - 1)
    }

    /// Upper bound of the bytes for closing slot `at`: its entry, and the growth of the group's
    /// histogram.
    pub(in crate::report) fn closing_bytes(&self, at: usize) -> usize {
        let Slot { group, sums, histogram, .. } = &self.running.slots[at];
        let [sum, count] = match self.running.wide.contains_key(group) {
            // As long as numbers may be.
            true => [19; 2],
            false => [sums.widest(), sums.hits | u64::from(sums.requests)].map(varint::bytes),
        };
        let entry = 8 + 9 * sum + histogram.len() * (3 + count);
        let closed = self.closed.histogram(*group);
        entry + closed.growth_max(histogram) + self.closed.closing_bytes()
    }

    /// Whether the group's histogram has to grow when slot `at` is closed.
    pub(in crate::report) fn histogram_grows(&self, at: usize) -> bool {
        let slot = &self.running.slots[at];
        let mut has = self.closed.histogram(slot.group).iter();
        slot.histogram.iter().any(|(wanted, _)| {
            has.by_ref().find(|&(b, _)| b >= wanted).map(|it| it.0) != Some(wanted)
        })
    }

    /// Moves slot `at` to another group `to`, and fills it with the last slot.
    pub(in crate::report) fn move_slot(&mut self, at: usize, to: u32) {
        let from = std::mem::take(&mut self.running.slots[at]);
        if let Some(wide) = self.running.wide.remove(&from.group) {
            *self.running.wide.entry(to).or_default() += &wide;
        }
        let seen = self.running.extremes(at).copied();
        self.slot_of[from.group as usize] = NO_SLOT;
        // Frees its place first: overflowing never allocates another chunk.
        self.fill(at);
        let to = self.slot(to) as usize;
        let running = &mut self.running;
        running.slots[to].sums.add(&from.sums);
        running.change_slot(to, |slot| slot.histogram.add_all(&from.histogram));
        running.histogram_bytes -= from.heap_bytes();
        if let Some((all, seen)) = running.extremes.as_mut().zip(seen) {
            all[to].0.widen(&seen);
        }
        running.widen_if_full(to);
    }

    /// Fills the unused slot `at` with the last slot in use.
    pub(super) fn fill(&mut self, at: usize) {
        let running = &mut self.running;
        running.used -= 1;
        let last = running.used;
        if at == last {
            return;
        }
        let freed = std::mem::take(&mut running.slots[at]);
        running.slots[at] = std::mem::replace(&mut running.slots[last], freed);
        running.fronts[at] = running.fronts[last];
        if let Some(all) = &mut running.extremes {
            all[at] = all[last];
        }
        self.slot_of[running.slots[at].group as usize] = at as u32;
    }
}
