//! Overflow into `(other)` for lack of memory. The rule:
//!
//! A new key for which there is no memory counts under `(other)`: first in keys with unlimited
//! values, and if there is no memory for that either, in all keys. A tick's gain for which there is
//! no memory counts there too, for this tick only, the groups with the fewest requests first.
//!
//! So every sum over all rows is exact. Called by the merger's thread only: when a group is created
//! (`aggregate`), when a tick ends (`close`), and when running ticks exceed their share
//! ([`relieve`]). The [`Budget`] decides when memory is short.

use std::cmp::Reverse;

use super::close::{Allowance, by_level};
use super::{Aggregate, Memory};
use crate::pool::strings::{NONE, OTHER};
use crate::report::budget::Budget;
use crate::report::definition::DEFINITION_KEYS_MAX;
use crate::report::group_key::KeyIds;
use crate::report::groups::move_slots::LEVELS;

/// Groups that may still be created under pressure, with `(other)` for unlimited values.
const OVERFLOW_GROUPS_MAX: usize = 4096;

/// Frees memory of running ticks: first cached groups, which are not needed for exactness, then
/// groups with few requests, which overflow until enough is free.
#[cold]
pub(in crate::report) fn relieve(aggregates: &mut [&mut Aggregate], memory: &mut Memory<'_>) {
    let Some(wanted) = memory.budget.excess() else { return };
    shrink_caches(aggregates, wanted, memory.budget);
    if memory.budget.excess().is_none() {
        return;
    }
    for aggregate in &mut *aggregates {
        aggregate.settle(memory);
    }
    // What was settled may take more than before, in all slots at once.
    let Some(wanted) = memory.budget.excess() else { return };
    memory.budget.exceeded();
    let frees = |it: &&mut Aggregate| it.costs(|groups, at| groups.running.slot_bytes(at));
    let frees: Vec<_> = aggregates.iter().map(frees).collect();
    // Running ticks do not have that much to free: their counts would be given up for nothing.
    if frees.iter().flatten().sum::<usize>() < wanted && !memory.budget.is_full() {
        memory.budget.looked();
        return;
    }
    let wanted = Allowance { all: wanted, histograms: 0 };
    by_level(aggregates, &frees, 0..LEVELS, wanted, |it, level, left| {
        if left.all > 0 {
            it.overflow_level(level, left, memory);
        }
    });
    memory.budget.looked();
}

/// Clears cached groups of aggregates, largest first, until this many bytes are free.
fn shrink_caches(aggregates: &mut [&mut Aggregate], wanted: usize, budget: &mut Budget) {
    aggregates.sort_unstable_by_key(|aggregate| Reverse(aggregate.group_cache.heap_bytes()));
    let enough = budget.taken.all.saturating_sub(wanted);
    for aggregate in aggregates {
        if budget.taken.all <= enough {
            break;
        }
        aggregate.reset_cache();
        aggregate.charge(budget);
    }
}

impl Aggregate {
    /// The group into which a combination without memory overflows: unlimited values become
    /// `(other)`, the rest is kept as long as that does not explode too.
    pub(super) fn overflow_target(&mut self, key_ids: &KeyIds, memory: &mut Memory<'_>) -> u32 {
        let coarse = self.coarse(key_ids);
        let budget = &memory.budget;
        let has_room =
            self.overflow_groups.len() < OVERFLOW_GROUPS_MAX && self.next_bytes() <= budget.room();
        let id = match self.groups.keys.find(&coarse) {
            Some(id) => id,
            None if has_room => self.make_group(&coarse, memory),
            None => self.other_group(memory),
        };
        // One whose keys are all `(other)` already, for lack of strings, loses nothing.
        if !self.groups.keys.is(id, key_ids) {
            self.overflow_groups.insert(id);
        }
        id
    }

    /// A combination with `(other)` in place of unlimited values.
    fn coarse(&self, key_ids: &KeyIds) -> KeyIds {
        let mut coarse = *key_ids;
        for (key_id, group_key) in coarse.iter_mut().zip(&self.scope.group_keys) {
            if group_key.is_open() {
                *key_id = OTHER;
            }
        }
        coarse
    }

    /// The group in which every key is `(other)`.
    pub(super) fn other_group(&mut self, memory: &mut Memory<'_>) -> u32 {
        let mut other = [NONE; DEFINITION_KEYS_MAX];
        other[..self.scope.group_keys.len()].fill(OTHER);
        self.groups.keys.find(&other).unwrap_or_else(|| self.make_group(&other, memory))
    }

    /// Moves slot `at` to its overflow group if that exists, or to the all-`(other)` group, always
    /// when `wholly`; returns false if it is that group.
    pub(super) fn overflow_slot(
        &mut self,
        at: usize,
        wholly: bool,
        memory: &mut Memory<'_>,
    ) -> bool {
        let group = self.groups.running.slots[at].group;
        let coarse = self.coarse(&self.groups.keys.key_ids(group));
        let target = match self.groups.keys.find(&coarse) {
            Some(target) if !wholly => target,
            _ => self.other_group(memory),
        };
        if target == group {
            return false;
        }
        self.meanwhile.moved();
        self.groups.move_slot(at, target);
        self.tick.overflowed = true;
        memory.budget.overflowed(1);
        self.emptied += usize::from(self.groups.is_empty(group));
        true
    }

    /// Overflows slots of a level until nothing is left of the bytes to be freed.
    fn overflow_level(&mut self, level: usize, left: &mut Allowance, memory: &mut Memory<'_>) {
        self.walk_level(level, memory, |it, at, memory| {
            let bytes = it.groups.running.slot_bytes(at);
            let gone = left.all > 0 && !it.is_target(at) && it.overflow_slot(at, false, memory);
            left.all -= if gone { bytes.min(left.all) } else { 0 };
            gone
        });
        self.groups.running.free_unused();
        self.charge(memory.budget);
    }

    /// Whether slot `at` belongs to an overflow target.
    pub(super) fn is_target(&self, at: usize) -> bool {
        self.groups.keys.key(self.groups.running.slots[at].group).any(|key_id| key_id == OTHER)
    }

    /// Whether slot `at` belongs to the all-`(other)` group.
    pub(super) fn is_other(&self, at: usize) -> bool {
        self.groups.keys.key(self.groups.running.slots[at].group).all(|key_id| key_id == OTHER)
    }
}
