//! What finds no memory overflows into `(other)`.
//!
//! A group that cannot be made or kept is counted as `(other)` in the keys whose values are without end, so that the
//! others stay told apart, and where there is no memory for that group either, as `(other)` in all keys. Of what is there
//! already, the groups with the least requests go first, for the running tick alone; so every sum over all rows is exact.
//!
//! Called by the merger's thread alone: when a group is made (`aggregate`), when a tick ends (`close`), and when running
//! ticks take more than their share ([`relieve`]). When memory runs out is decided by the [`Budget`].

use std::cmp::Reverse;

use super::Aggregate;
use crate::pool::strings::{OTHER, StringInterner};
use crate::report::budget::Budget;
use crate::report::definition::DEFINITION_KEYS_MAX;
use crate::report::group_key::KeyIds;
use crate::report::groups::overflow::LEVELS;
use crate::report::totals::Totals;

/// Groups that budget pressure may still make, with `(other)` for values without end.
const OVERFLOW_GROUPS_MAX: usize = 4096;

/// Lets running ticks give back memory: first cached groups, without which all is as exact, then groups with few requests, which
/// fold until enough is free.
pub(in crate::report) fn relieve(
    aggregates: &mut [&mut Aggregate],
    strings: &mut StringInterner,
    budget: &mut Budget,
) {
    let Some(wanted) = budget.excess() else {
        return;
    };
    shrink_caches(aggregates, wanted, budget);
    let Some(mut wanted) = budget.excess() else {
        return;
    };
    budget.exceeded();
    let frees: Vec<_> = aggregates.iter().map(|it| it.slot_costs()).collect();
    // Running ticks do not have what there is too much: what they count would be given up for nothing.
    if frees.iter().flatten().sum::<usize>() < wanted && !budget.is_full() {
        budget.looked();
        return;
    }
    for level in 0..LEVELS {
        let mut whole: usize = frees.iter().map(|frees| frees[level]).sum();
        for (aggregate, frees) in aggregates.iter_mut().zip(&frees) {
            if frees[level] == 0 || wanted == 0 {
                continue;
            }
            let share = (wanted as u128 * frees[level] as u128 / whole as u128) as usize;
            wanted -= aggregate
                .overflow_level(level, share.max(1), strings, budget)
                .min(wanted);
            whole -= frees[level];
        }
    }
    budget.looked();
}

/// Forgets the cached groups of aggregates, of those with the most first, until so many bytes are free.
fn shrink_caches(aggregates: &mut [&mut Aggregate], wanted: usize, budget: &mut Budget) {
    aggregates.sort_unstable_by_key(|aggregate| Reverse(aggregate.group_cache.heap_bytes()));
    let mut freed = 0;
    for aggregate in aggregates {
        if freed >= wanted {
            break;
        }
        let before = aggregate.group_cache.heap_bytes();
        aggregate.reset_cache();
        let after = aggregate.group_cache.heap_bytes();
        budget.changed(before, after);
        freed += before - after;
    }
}

impl Aggregate {
    /// Takes over a slot whose sums are nearly full, as the end of the tick would.
    #[cold]
    pub(super) fn spill(&mut self, group: u32, strings: &mut StringInterner, budget: &mut Budget) {
        self.end_piece(false);
        let Some((at, _)) = self.groups.running(group) else {
            return;
        };
        if budget.has_room_for_closed(self.groups.closing_bytes(at)) {
            self.log_slot(at, true);
            self.groups.take_over(at, self.tick, true);
            return;
        }
        // No room for another entry: it goes where all goes that has none, and what that has more than a slot can hold is
        // kept aside, without times, for an entry at the end of the tick.
        self.overflows = true;
        let other = self.other_group(strings, budget);
        if group != other && self.groups.move_slot(at, other) {
            return;
        }
        if let Some((full, _)) = self.groups.running(other) {
            let remainder = self.overflow_remainder.get_or_insert((other, Totals::ZERO));
            remainder.1 += &self.groups.slot(full).0.totals();
            self.groups.take_over(full, self.tick, false);
            self.tick_without_histograms = true;
        }
        if group != other {
            self.groups.move_slot(at, other);
        }
    }

    /// The group into which a combination overflows that has no memory: what tends to explode becomes `(other)`, the rest is
    /// kept apart as long as that does not explode too.
    pub(super) fn overflow_target(
        &mut self,
        key_ids: &KeyIds,
        strings: &mut StringInterner,
        budget: &mut Budget,
    ) -> u32 {
        let coarse = self.coarse(key_ids);
        let has_room = self.overflow_groups.len() < OVERFLOW_GROUPS_MAX
            && !budget.exhausted_for_overflow(self.next_bytes());
        let id = match self.find(&coarse) {
            Some(id) => id,
            None if has_room => self.make_group(&coarse, strings, budget),
            None => self.other_group(strings, budget),
        };
        // One of which every key is `(other)` already, for want of strings, loses nothing.
        if !self.groups.is(id, key_ids) {
            self.overflow_groups.insert(id);
        }
        id
    }

    /// The group into which one overflows that is there already, for some of its time.
    fn existing_overflow_target(
        &mut self,
        key_ids: &KeyIds,
        strings: &mut StringInterner,
        budget: &mut Budget,
    ) -> u32 {
        let coarse = self.coarse(key_ids);
        self.find(&coarse)
            .unwrap_or_else(|| self.other_group(strings, budget))
    }

    /// A combination with `(other)` where values are without end.
    fn coarse(&self, key_ids: &KeyIds) -> KeyIds {
        let mut coarse = *key_ids;
        for (key_id, group_key) in coarse.iter_mut().zip(&self.group_keys) {
            if group_key.is_open() {
                *key_id = OTHER;
            }
        }
        coarse
    }

    /// The group of all that is `(other)` in every respect.
    pub(super) fn other_group(&mut self, strings: &mut StringInterner, budget: &mut Budget) -> u32 {
        let other = [OTHER; DEFINITION_KEYS_MAX];
        self.find(&other)
            .unwrap_or_else(|| self.make_group(&other, strings, budget))
    }

    /// Moves slot `at` to the group into which it overflows, or into that of all others when `wholly`; false when it is that.
    pub(super) fn overflow_slot(
        &mut self,
        at: usize,
        wholly: bool,
        strings: &mut StringInterner,
        budget: &mut Budget,
    ) -> bool {
        let group = self.groups.group_of_slot(at);
        let key_ids = self.groups.key_ids(group);
        let target = match wholly {
            true => self.other_group(strings, budget),
            false => self.existing_overflow_target(&key_ids, strings, budget),
        };
        if target == group {
            return false;
        }
        if !self.groups.move_slot(at, target) {
            self.spill(target, strings, budget);
            if let Some((at, _)) = self.groups.running(group) {
                self.groups.move_slot(at, target);
            }
        }
        self.overflows = true;
        budget.overflowed(1);
        if self.groups.get(group).totals == Totals::ZERO {
            self.emptied.push(group);
        }
        true
    }

    /// Folds slots of a level until that has freed so many bytes; returns how many it did.
    fn overflow_level(
        &mut self,
        level: usize,
        wanted: usize,
        strings: &mut StringInterner,
        budget: &mut Budget,
    ) -> usize {
        let (taken, before) = (budget.taken(), self.taken());
        let mut freed = 0;
        let mut at = 0;
        while at < self.groups.dirty() && freed < wanted {
            let bytes = self.groups.slot_bytes(at);
            let goes = self.groups.level(at) == level
                && !self.is_target(at)
                && self.overflow_slot(at, false, strings, budget);
            if goes {
                freed += bytes;
            } else {
                at += 1;
            }
        }
        self.groups.give_slots_back();
        budget.measured(taken);
        budget.replaced(before, self.taken());
        freed
    }

    /// Whether slot `at` is of a group into which others may fold.
    pub(super) fn is_target(&self, at: usize) -> bool {
        let group = self.groups.group_of_slot(at);
        (0..self.group_keys.len()).any(|key_id| self.groups.key_id(group, key_id) == OTHER)
    }

    /// Whether slot `at` is of the group of all that is `(other)`.
    pub(super) fn is_other(&self, at: usize) -> bool {
        let group = self.groups.group_of_slot(at);
        (0..self.group_keys.len()).all(|key_id| self.groups.key_id(group, key_id) == OTHER)
    }
}
