//! The smallest and largest values of groups in closed ticks, if the aggregate keeps them.
//!
//! They cannot be subtracted, so each group has a list by tick. Without them there are no lists.

use std::sync::Arc;

use super::super::chunked::CHUNK;
use super::super::totals::Extremes;

/// Bytes of a group's extremes in a closed tick.
const TICK_BYTES: usize = size_of::<(u64, Extremes)>() * 3 / 2;

/// The extremes of all groups of an aggregate.
#[derive(Debug, Default)]
pub(in crate::report) struct ClosedExtremes {
    are_kept: bool,
    /// By group and tick: ticks exceeded in all values by a later one are left out, since they leave
    /// the window first.
    closed: Vec<Vec<(u64, Extremes)>>,
    /// Number of these.
    count: usize,
    /// Every snapshot being written has a clone, which keeps the extremes of all closed ticks.
    pub(in crate::report) saving: Arc<()>,
}

impl ClosedExtremes {
    pub(super) fn new(are_kept: bool) -> Self {
        Self { are_kept, ..Self::default() }
    }

    /// The extremes of a group by closed tick.
    pub(in crate::report) fn of(&self, id: u32) -> &[(u64, Extremes)] {
        self.closed.get(id as usize).map_or(&[], Vec::as_slice)
    }

    /// Starts a group with the next number.
    pub(super) fn push_group(&mut self) {
        if self.are_kept {
            self.closed.push(Vec::new());
        }
    }

    /// Adds the extremes of a group in a closing tick.
    pub(super) fn close(&mut self, id: u32, tick: u64, seen: &Extremes) {
        // A snapshot ends before this tick.
        if Arc::strong_count(&self.saving) == 1 {
            self.change(id, |of_group| of_group.retain(|(_, before)| !seen.spans(before)));
        }
        self.add(id, tick, seen);
    }

    /// Adds the extremes of a group in a tick, which may have some already.
    pub(in crate::report) fn add(&mut self, id: u32, tick: u64, seen: &Extremes) {
        self.change(id, |of_group| match of_group.binary_search_by_key(&tick, |it| it.0) {
            Ok(known) => of_group[known].1.widen(seen),
            Err(place) => {
                // Most lists stay short: doubling would waste memory.
                of_group.reserve_exact(1);
                of_group.insert(place, (tick, *seen));
            }
        });
    }

    /// Removes the extremes of a group up to an expired tick.
    pub(super) fn expire(&mut self, id: u32, tick: u64) {
        self.change(id, |of_group| of_group.retain(|&(of, _)| of > tick));
    }

    /// Removes the extremes of a group.
    pub(super) fn remove(&mut self, id: u32) {
        self.change(id, |of_group| *of_group = Vec::new());
    }

    /// Changes those of a group in closed ticks, if they are kept.
    fn change(&mut self, id: u32, change: impl FnOnce(&mut Vec<(u64, Extremes)>)) {
        if let Some(of_group) = self.closed.get_mut(id as usize) {
            self.count -= of_group.len();
            change(of_group);
            self.count += of_group.len();
        }
    }

    /// Frees the memory of groups from `end` on.
    pub(super) fn give_back(&mut self, end: usize) {
        self.closed.truncate(end);
        self.closed.shrink_to_fit();
    }

    /// Bytes without those of ticks: a list for each group.
    pub(super) fn heap_bytes(&self) -> usize {
        self.closed.capacity() * size_of::<Vec<(u64, Extremes)>>()
    }

    /// Bytes of ticks.
    pub(super) fn closed_bytes(&self) -> usize {
        self.count * TICK_BYTES
    }

    /// Bytes by which they grow when a slot is closed.
    pub(super) fn closing_bytes(&self) -> usize {
        usize::from(self.are_kept) * TICK_BYTES
    }

    /// Most bytes for the next chunk of groups.
    pub(super) fn next_bytes(&self) -> usize {
        let is_full = self.closed.capacity() - self.closed.len() < CHUNK;
        usize::from(self.are_kept && is_full) * self.closed.capacity() * 48
    }
}
