//! The end of a tick: gains of groups go to the tick log and to their sums, as far as there is
//! memory.
//!
//! Called by the registry as time advances, on the merger's thread. As long as everything fits,
//! every group gets its entry. Otherwise the groups with the fewest requests in the tick overflow
//! for this tick ([`Aggregate::overflow_slot`]); their target groups are written last. A group
//! keeps its counts of other ticks, and one that is left with nothing is removed. So every sum over
//! all rows is exact; only the number of rows into which a tick is split is bounded.
//!
//! Aggregates whose ticks end together are closed together, level by level ([`Groups::level`]), so
//! their order does not matter.

use super::{Aggregate, Memory};
use crate::pool::strings::StringInterner;
use crate::report::groups::Groups;
use crate::report::groups::move_slots::LEVELS;
use crate::report::histogram::Histogram;
use crate::report::tick_log::TickHead;

/// Slots settled or closed under one hold of the lock: a millisecond. Tests have few groups.
pub(in crate::report) const SLOTS_AT_ONCE: usize = if cfg!(test) { 64 } else { 512 };

/// Unused groups and slots freed under one hold of the lock.
const FREED_AT_ONCE: usize = if cfg!(test) { 64 } else { 8_192 };

/// Places of the cache searched for removed groups under one hold of the lock.
const PLACES_AT_ONCE: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// While a tick runs, empty groups are removed once one group in this many is.
const EMPTIED_SHARE: usize = 8;

/// How far an ended tick is closed, as long as there is room for it.
#[derive(Debug, Default)]
pub(in crate::report) struct Closing {
    /// Closing the slots that are settled so far needs no more bytes than this.
    bytes: usize,
    /// Whether all slots are settled: if there is room, they are being written to the tick log.
    pub(in crate::report) is_settled: bool,
}

/// Bytes still available to closed ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::report) struct Allowance {
    /// Bytes for entries, and for growth of histograms.
    pub(in crate::report) all: usize,
    /// Bytes of these for growth of histograms.
    pub(in crate::report) histograms: usize,
}

impl Allowance {
    /// Whether this many bytes fit, for any use.
    pub(in crate::report) fn has(&self, bytes: usize) -> bool {
        bytes <= self.all.min(self.histograms)
    }

    fn minus(self, less: Self) -> Self {
        let all = self.all.saturating_sub(less.all);
        Self { all, histograms: self.histograms.saturating_sub(less.histograms) }
    }

    /// `part` of `whole` of it.
    pub(in crate::report) fn share(&self, part: usize, whole: usize) -> Self {
        let share = |bytes: usize| (bytes as u128 * part as u128 / whole.max(1) as u128) as usize;
        Self { all: share(self.all), histograms: share(self.histograms) }
    }
}

/// Closes the running ticks of aggregates, which end together, within an allowance.
pub(in crate::report) fn close_together(
    aggregates: &mut [&mut Aggregate],
    allowance: Allowance,
    memory: &mut Memory<'_>,
) {
    for aggregate in &mut *aggregates {
        aggregate.settle(memory);
    }
    let costs: Vec<_> = aggregates.iter().map(|it| it.costs(Groups::closing_bytes)).collect();
    let most = || costs.iter().flatten().sum();
    if !allowance.has(most()) {
        // The overflow targets need entries too.
        let part = allowance.share(3, 4);
        let rest = by_level(aggregates, &costs, (0..LEVELS).rev(), part, |it, level, left| {
            it.walk_level(level, memory, |it, at, memory| {
                !it.is_target(at)
                    && (it.close_slot_within(at, left) || it.overflow_slot(at, false, memory))
            });
        });
        let mut rest = allowance.minus(part.minus(rest));
        for aggregate in &mut *aggregates {
            aggregate.close_targets(&mut rest, memory);
        }
    }
    for aggregate in aggregates {
        aggregate.end_tick();
        aggregate.charge(memory.budget);
    }
}

/// Calls `each` for every level and aggregate with costs there, with a part of the bytes that is
/// as large as its part of these costs, from which it takes; returns the rest.
pub(super) fn by_level(
    aggregates: &mut [&mut Aggregate],
    costs: &[[usize; LEVELS]],
    levels: impl Iterator<Item = usize>,
    mut bytes: Allowance,
    mut each: impl FnMut(&mut Aggregate, usize, &mut Allowance),
) -> Allowance {
    for level in levels {
        let mut whole: usize = costs.iter().map(|costs| costs[level]).sum();
        for (aggregate, costs) in aggregates.iter_mut().zip(costs) {
            if costs[level] > 0 {
                let share = bytes.share(costs[level], whole);
                let mut left = share;
                each(aggregate, level, &mut left);
                bytes = bytes.minus(share.minus(left));
                whole -= costs[level];
            }
        }
    }
    bytes
}

impl Aggregate {
    /// Whether the running tick has ended at `now_ms`.
    pub(in crate::report) fn is_due(&self, now_ms: u64) -> bool {
        self.scope.ticks.at(now_ms) > self.tick.tick
    }

    /// The ticks in the window, and the bytes freed when they leave, without histograms and
    /// extremes.
    pub(in crate::report) fn leaving(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        self.tick_logs.closed.iter().map(|it| (it.head.tick, it.entries.len()))
    }

    /// Whether a tick is outside the window at `now_ms`.
    fn has_left(&self, now_ms: u64) -> bool {
        let gone = self.scope.ticks.last_gone(self.scope.ticks.at(now_ms));
        let oldest = self.tick_logs.closed.front();
        oldest.is_some_and(|oldest| Some(oldest.head.tick) <= gone)
    }

    /// Whether there is something to do for [`retire_some`](Self::retire_some).
    pub(in crate::report) fn can_retire(&self, now_ms: u64) -> bool {
        self.has_left(now_ms) || self.groups.has_removed() || self.groups.has_unused_end()
    }

    /// Subtracts a piece of a tick that is outside the window at `now_ms`; after the last, forgets
    /// some of the removed groups, and then frees their memory. Returns false if nothing is
    /// left to do.
    pub(in crate::report) fn retire_some(
        &mut self,
        now_ms: u64,
        strings: &mut StringInterner,
    ) -> bool {
        if self.has_left(now_ms) {
            self.tick_logs.pop().into_iter().for_each(|it| self.retire_tick(&it, strings));
        } else if self.groups.has_removed() {
            self.purge_cache(PLACES_AT_ONCE);
        } else {
            self.free_end(FREED_AT_ONCE);
        }
        self.is_leaving = self.has_left(now_ms);
        self.can_retire(now_ms)
    }

    /// Subtracts the ticks that are outside the window at `now_ms`.
    pub(in crate::report) fn retire_until(&mut self, now_ms: u64, strings: &mut StringInterner) {
        while self.retire_some(now_ms, strings) {}
    }

    /// Begins the tick at `now_ms`, after the one before [ended](Self::end_tick).
    pub(in crate::report) fn begin_tick(&mut self, now_ms: u64, strings: &mut StringInterner) {
        self.tick = TickHead::new(self.scope.ticks.at(now_ms));
        // A tick that was just closed may be outside the window already.
        self.retire_until(now_ms, strings);
        for row_map in self.row_maps.iter_mut().flatten() {
            self.version += u64::from(row_map.promote(&self.groups));
        }
        self.meanwhile.moved();
    }

    /// Frees the memory of up to `most` removed groups, which no cache has any more.
    pub(super) fn free_end(&mut self, most: usize) {
        self.meanwhile.moved();
        self.groups.free_end(most);
        for row_map in self.row_maps.iter_mut().flatten() {
            row_map.free_end(&self.groups, most);
        }
    }

    /// Settles up to `slots` further slots of the ended tick. Returns the bytes that closing them
    /// all needs at most, once all are settled.
    pub(in crate::report) fn settle_some(
        &mut self,
        slots: usize,
        strings: &StringInterner,
    ) -> Option<usize> {
        let begin = self.groups.running.cut;
        let is_left = self.cut_some(slots, strings);
        let end = if is_left { self.groups.running.cut } else { self.groups.running.used };
        let more = (begin..end).map(|at| self.groups.closing_bytes(at));
        self.closing.bytes += more.sum::<usize>();
        self.closing.is_settled = !is_left;
        (!is_left).then_some(self.closing.bytes)
    }

    /// Closes up to `slots` settled slots, then frees some; returns false if nothing is left to do.
    pub(in crate::report) fn close_some(&mut self, slots: usize) -> bool {
        self.close_slots(slots) || self.groups.running.free_spare(FREED_AT_ONCE)
    }

    /// Closes up to `slots` settled slots; returns false if there is none left.
    fn close_slots(&mut self, slots: usize) -> bool {
        for last in (0..self.groups.running.used).rev().take(slots) {
            self.close_slot(last, true);
        }
        self.groups.running.used > 0
    }

    /// Closes every slot there is.
    pub(in crate::report) fn end_tick(&mut self) {
        self.close_slots(usize::MAX);
        self.groups.running.free_all_spare();
        // Of a tick without gains a piece is kept too: it says when something was merged.
        if !self.tick_logs.writer.bytes.is_empty() || self.tick.seen.is_some() {
            self.tick_logs.finish(self.tick);
            // Histograms may have been given up.
            self.version += 1;
        }
        self.tick = TickHead::new(self.tick.tick);
        self.closing = Closing::default();
    }

    /// Writes slot `at` to the tick log, and moves it into its group.
    fn close_slot(&mut self, at: usize, histogram: bool) {
        let slot = &self.groups.running.slots[at];
        let none = Histogram::new();
        let counts = if histogram { &slot.histogram } else { &none };
        let totals = self.groups.running.settled_totals(at);
        self.tick_logs.writer.entry(slot.group, &totals, counts.len(), counts.iter());
        self.groups.close_slot(at, self.tick.tick, histogram);
        if self.tick_logs.writer.is_full() {
            self.tick_logs.finish(self.tick);
        }
    }

    /// The level of slot `at`.
    fn level(&self, at: usize) -> usize {
        self.groups.level(at, self.scope.ticks.count)
    }

    /// Costs of slots, by level.
    pub(super) fn costs(&self, of: impl Fn(&Groups, usize) -> usize) -> [usize; LEVELS] {
        let mut costs = [0; LEVELS];
        for at in 0..self.groups.running.used {
            costs[self.level(at)] += of(&self.groups, at);
        }
        costs
    }

    /// Walks the slots of a level. `gives_way` removes one, and returns whether it did: another
    /// takes its place then.
    pub(super) fn walk_level(
        &mut self,
        level: usize,
        memory: &mut Memory<'_>,
        mut gives_way: impl FnMut(&mut Self, usize, &mut Memory<'_>) -> bool,
    ) {
        let mut at = 0;
        while at < self.groups.running.used {
            let gone = self.level(at) == level && gives_way(self, at, memory);
            at += usize::from(!gone);
        }
        self.charge(memory.budget);
    }

    /// Closes slot `at` if the allowance permits.
    fn close_slot_within(&mut self, at: usize, allowance: &mut Allowance) -> bool {
        let fits = self.groups.closing_bytes(at) <= allowance.all
            && (allowance.histograms > 0 || !self.groups.histogram_grows(at));
        if !fits {
            return false;
        }
        let closed = |it: &Self| Allowance {
            all: it.closed_bytes(),
            histograms: it.groups.closed.histogram_bytes,
        };
        let before = closed(self);
        self.close_slot(at, true);
        *allowance = allowance.minus(closed(self).minus(before));
        true
    }

    /// Closes overflow targets within an allowance: those that do not fit overflow wholly, and that
    /// target comes last.
    fn close_targets(&mut self, allowance: &mut Allowance, memory: &mut Memory<'_>) {
        let costs = self.costs(Groups::closing_bytes);
        for level in (0..LEVELS).rev().filter(|&level| costs[level] > 0) {
            self.walk_level(level, memory, |it, at, memory| {
                !it.is_other(at)
                    && (it.close_slot_within(at, allowance) || it.overflow_slot(at, true, memory))
            });
        }
        if self.groups.running.used > 0 {
            let histogram = self.groups.closing_bytes(0) <= allowance.all;
            // If part of a tick lacks its histogram, no quantiles are known for the whole tick.
            self.tick.histograms &= histogram;
            self.close_slot(0, histogram);
        }
        if self.emptied > 0 {
            self.remove_empty_groups(&mut memory.pool.strings);
        }
        self.charge(memory.budget);
    }

    /// Removes groups without counts, if they are many: each time the whole cache is searched for
    /// them.
    pub(in crate::report) fn remove_many_empty_groups(&mut self, strings: &mut StringInterner) {
        if self.emptied * EMPTIED_SHARE >= self.groups.keys.len() {
            self.remove_empty_groups(strings);
        }
    }

    /// Removes groups without counts. Not before all records with known groups were counted.
    pub(super) fn remove_empty_groups(&mut self, strings: &mut StringInterner) {
        self.emptied = 0;
        for id in self.groups.used().collect::<Vec<u32>>() {
            if self.groups.is_empty(id) {
                self.remove_group(id, strings);
            }
        }
    }
}
