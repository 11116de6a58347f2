//! The end of a tick: what groups gained goes to their journals and sums, as far as there is memory for it.
//!
//! Called by the registry when time passes, on the merger's thread. As long as everything fits, every group gets its entry. When
//! it does not, the groups with the least requests in the tick have to do without: what they gained in this tick is moved to
//! the group they would share had they just come ([`Family::fold_target_for_now`]), whose entry is written last. What they counted in
//! other ticks stays theirs; a group that is left with nothing is forgotten. So every sum over all rows is exact, and what
//! is bounded is only how many rows a tick is split into.
//!
//! Families whose ticks end together are closed together, level by level ([`Groups::level`]): it does not matter which of
//! them comes first.

use std::cmp::Reverse;

use super::{Family, Journal};
use crate::pool::words::{OTHER, Words};
use crate::report::budget::Budget;
use crate::report::groups::Groups;
use crate::report::groups::fold::LEVELS;
use crate::report::totals::Totals;

/// A journal is cut into pieces of about this size, so that none has to be copied as a whole.
const PIECE_BYTES: usize = 256 << 10;

/// The most that a group without times can take of closed ticks: its entry's numbers, the first of its histogram, extremes.
const GROUP_BYTES_MAX: usize = 78 + 32 + 48;

/// The most that one more time takes in an entry and in a group's histogram (a place in twelve is used there, with some to
/// either side).
const TIME_BYTES_MAX: usize = 10 + 120;

/// How much closed ticks may still take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::report) struct Allowance {
    /// Bytes for entries, and for what histograms grow by.
    pub(in crate::report) all: usize,
    /// Bytes of these by which histograms may grow.
    pub(in crate::report) histograms: usize,
}

impl Allowance {
    fn take(&mut self, all: usize, histograms: usize) {
        self.all = self.all.saturating_sub(all);
        self.histograms = self.histograms.saturating_sub(histograms);
    }

    /// `part` of `whole` of it.
    fn share(&self, part: usize, whole: usize) -> Self {
        let share = |bytes: usize| (bytes as u128 * part as u128 / whole.max(1) as u128) as usize;
        Self {
            all: share(self.all),
            histograms: share(self.histograms),
        }
    }
}

/// Closes the running ticks of families, whose ticks end together, within an allowance.
pub(in crate::report) fn close_together(
    families: &mut [&mut Family],
    mut allowance: Allowance,
    words: &mut Words,
    budget: &mut Budget,
) {
    let most: usize = families.iter().map(|it| it.closing_bytes_max()).sum();
    if most > allowance.all.min(allowance.histograms) {
        // What the others fold into needs entries too.
        let kept = allowance.share(1, 4);
        allowance.take(kept.all, kept.histograms);
        let left = close_within(families, allowance, words, budget);
        let mut rest = Allowance {
            all: left.all + kept.all,
            histograms: left.histograms + kept.histograms,
        };
        for family in &mut *families {
            family.close_targets(&mut rest, words, budget);
        }
    }
    for family in families {
        let before = family.taken();
        family.close_freely();
        budget.replaced(before, family.taken());
    }
}

/// Closes or folds all slots but those into which others fold, from the highest level down; returns what is left.
fn close_within(
    families: &mut [&mut Family],
    mut allowance: Allowance,
    words: &mut Words,
    budget: &mut Budget,
) -> Allowance {
    let costs: Vec<_> = families.iter().map(|it| it.closing_costs()).collect();
    for level in (0..LEVELS).rev() {
        let mut whole: usize = costs.iter().map(|costs| costs[level]).sum();
        for (family, costs) in families.iter_mut().zip(&costs) {
            if costs[level] == 0 {
                continue;
            }
            let share = allowance.share(costs[level], whole);
            let left = family.close_level(level, share, words, budget);
            allowance.take(share.all - left.all, share.histograms - left.histograms);
            whole -= costs[level];
        }
    }
    allowance
}

/// Lets running ticks give back memory: first shortcuts, without which all is as exact, then groups with few requests, which
/// fold until enough is free.
pub(in crate::report) fn relieve(
    families: &mut [&mut Family],
    words: &mut Words,
    budget: &mut Budget,
) {
    let Some(wanted) = budget.excess() else {
        return;
    };
    forget_shortcuts(families, wanted, budget);
    let Some(mut wanted) = budget.excess() else {
        return;
    };
    budget.exceeded();
    let frees: Vec<_> = families.iter().map(|it| it.slot_costs()).collect();
    // Running ticks do not have what there is too much: what they count would be given up for nothing.
    if frees.iter().flatten().sum::<usize>() < wanted && !budget.is_full() {
        budget.looked();
        return;
    }
    for level in 0..LEVELS {
        let mut whole: usize = frees.iter().map(|frees| frees[level]).sum();
        for (family, frees) in families.iter_mut().zip(&frees) {
            if frees[level] == 0 || wanted == 0 {
                continue;
            }
            let share = (wanted as u128 * frees[level] as u128 / whole as u128) as usize;
            wanted -= family
                .fold_level(level, share.max(1), words, budget)
                .min(wanted);
            whole -= frees[level];
        }
    }
    budget.looked();
}

/// Forgets the shortcuts of families, of those with the most first, until so many bytes are free.
fn forget_shortcuts(families: &mut [&mut Family], wanted: usize, budget: &mut Budget) {
    families.sort_unstable_by_key(|family| Reverse(family.route.heap_bytes()));
    let mut freed = 0;
    for family in families {
        if freed >= wanted {
            break;
        }
        let before = family.route.heap_bytes();
        family.forget_routes();
        let after = family.route.heap_bytes();
        budget.changed(before, after);
        freed += before - after;
    }
}

impl Family {
    /// Whether the running tick has ended at `now_ms`.
    pub(in crate::report) fn is_due(&self, now_ms: u64) -> bool {
        self.scope.ticks.at(now_ms) > self.tick
    }

    /// The ticks in the window, and bytes that are free when they leave, histograms aside.
    pub(in crate::report) fn leaving(&self) -> impl Iterator<Item = (u64, usize)> + '_ {
        let each = self.groups.extremes_each();
        let journals = self.journals.iter();
        journals.map(move |it| (it.tick, it.entries.len() + it.groups * each))
    }

    /// Takes away the ticks that are outside the window at `now_ms`.
    pub(in crate::report) fn retire_until(&mut self, now_ms: u64, words: &mut Words) {
        let Some(gone) = self.scope.ticks.last_gone(self.scope.ticks.at(now_ms)) else {
            return;
        };
        while self.journals.front().is_some_and(|it| it.tick <= gone) {
            if let Some(journal) = self.journals.pop_front() {
                self.retire(&journal, words);
            }
        }
    }

    /// Begins the tick at `now_ms`, when the one before is closed.
    pub(in crate::report) fn begin_tick(&mut self, now_ms: u64, words: &mut Words) {
        self.tick = self.scope.ticks.at(now_ms);
        self.coverage.advance(now_ms);
        // What was closed just now may lie outside of the window already.
        self.retire_until(now_ms, words);
        for projection in self.projections.iter_mut().flatten() {
            if projection.can_promote() {
                projection.promote(&self.groups);
            }
        }
        self.give_end_back();
        self.version += 1;
    }

    /// Gives back what groups took that went.
    pub(super) fn give_end_back(&mut self) {
        if !self.groups.give_end_back() {
            return;
        }
        let end = self.groups.end();
        for projection in self.projections.iter_mut().flatten() {
            projection.give_back(end);
        }
        let Self {
            table,
            hasher,
            groups,
            dimensions,
            ..
        } = self;
        let stride = dimensions.len();
        table.shrink_to(table.len() * 2, |&id| {
            hasher.hash_one(&groups.lanes(id)[..stride])
        });
    }

    /// Closes every slot there is.
    fn close_freely(&mut self) {
        for at in 0..self.groups.dirty() {
            let Self {
                groups,
                writer,
                tick,
                ..
            } = self;
            groups.close_slot(at, *tick, true, |slot| {
                writer.entry(slot.group, &slot.totals(), Some(&slot.histogram));
            });
            self.end_piece(false);
        }
        self.groups.slots_closed();
        self.gains = 0;
        if let Some((other, totals)) = self.aside.take() {
            self.writer.entry(other, &totals, None);
        }
        self.end_piece(true);
        self.writer.shrink();
        self.spilled_blind = false;
        self.folds = false;
    }

    /// Puts what was written for the running tick among the journals when it is enough, or the `last`.
    pub(super) fn end_piece(&mut self, last: bool) {
        let bytes = self.writer.unfinished().len();
        if bytes == 0 || bytes < PIECE_BYTES && !last {
            return;
        }
        let histograms = !self.spilled_blind;
        self.journal_bytes += bytes;
        self.blind_ticks += usize::from(!histograms);
        self.folded_journals += usize::from(self.folds);
        self.journals.push_back(Journal {
            tick: self.tick,
            groups: self.writer.entries(),
            entries: self.writer.finish(),
            histograms,
            folded: self.folds,
        });
    }

    /// The most that closing the running tick takes: reckoned, not looked at.
    fn closing_bytes_max(&self) -> usize {
        self.groups.dirty() * GROUP_BYTES_MAX + self.gains * TIME_BYTES_MAX
    }

    /// What closing takes, by level.
    fn closing_costs(&self) -> [usize; LEVELS] {
        self.costs(Groups::closing_bytes)
    }

    /// What slots take, by level.
    fn slot_costs(&self) -> [usize; LEVELS] {
        self.costs(Groups::slot_bytes)
    }

    fn costs(&self, of: impl Fn(&Groups, usize) -> usize) -> [usize; LEVELS] {
        let mut costs = [0; LEVELS];
        for at in 0..self.groups.dirty() {
            costs[self.groups.level(at)] += of(&self.groups, at);
        }
        costs
    }

    /// Closes the slots of a level as far as the allowance goes, and folds the others; returns what is left of it.
    fn close_level(
        &mut self,
        level: usize,
        mut allowance: Allowance,
        words: &mut Words,
        budget: &mut Budget,
    ) -> Allowance {
        let (taken, before) = (budget.taken(), self.taken());
        let mut at = 0;
        while at < self.groups.dirty() {
            let goes = self.groups.level(at) == level
                && !self.is_target(at)
                && (self.close_slot_within(at, &mut allowance)
                    || self.fold_slot(at, false, words, budget));
            // Another slot is in its place then.
            at += usize::from(!goes);
        }
        budget.measured(taken);
        budget.replaced(before, self.taken());
        allowance
    }

    /// Closes slot `at` if that is allowed.
    fn close_slot_within(&mut self, at: usize, allowance: &mut Allowance) -> bool {
        let fits = self.groups.closing_bytes(at) <= allowance.all
            && (allowance.histograms > 0 || !self.groups.histogram_grows(at));
        if !fits {
            return false;
        }
        let (closed, histograms) = (self.closed_bytes(), self.groups.histogram_bytes);
        let Self {
            groups,
            writer,
            tick,
            ..
        } = self;
        groups.close_and_fill(at, *tick, true, |slot| {
            writer.entry(slot.group, &slot.totals(), Some(&slot.histogram));
        });
        allowance.take(
            self.closed_bytes().saturating_sub(closed),
            self.groups.histogram_bytes.saturating_sub(histograms),
        );
        self.end_piece(false);
        true
    }

    /// Moves slot `at` to the group into which it folds, or into that of all others when `wholly`; false when it is that.
    fn fold_slot(
        &mut self,
        at: usize,
        wholly: bool,
        words: &mut Words,
        budget: &mut Budget,
    ) -> bool {
        let group = self.groups.group_of_slot(at);
        let lanes = self.groups.lanes(group);
        let target = match wholly {
            true => self.other_group(words, budget),
            false => self.fold_target_for_now(&lanes, words, budget),
        };
        if target == group {
            return false;
        }
        if !self.groups.fold(at, target) {
            self.spill(target, words, budget);
            if let Some((at, _)) = self.groups.running(group) {
                self.groups.fold(at, target);
            }
        }
        self.folds = true;
        budget.folded(1);
        if self.groups.get(group).totals == Totals::ZERO {
            self.emptied.push(group);
        }
        true
    }

    /// Closes what others folded into, within an allowance: what is not allowed folds whole, and that comes last.
    fn close_targets(&mut self, allowance: &mut Allowance, words: &mut Words, budget: &mut Budget) {
        let (taken, before) = (budget.taken(), self.taken());
        let costs = self.closing_costs();
        for level in (0..LEVELS).rev().filter(|&level| costs[level] > 0) {
            let mut at = 0;
            while at < self.groups.dirty() {
                let goes = self.groups.level(at) == level
                    && !self.is_other(at)
                    && (self.close_slot_within(at, allowance)
                        || self.fold_slot(at, true, words, budget));
                at += usize::from(!goes);
            }
        }
        if self.groups.dirty() > 0 {
            let histogram = self.groups.closing_bytes(0) <= allowance.all;
            let Self {
                groups,
                writer,
                tick,
                ..
            } = self;
            groups.close_and_fill(0, *tick, histogram, |slot| {
                let counts = histogram.then_some(&slot.histogram);
                writer.entry(slot.group, &slot.totals(), counts);
            });
            // A tick of which a part had to leave its histogram out is blind as a whole.
            self.spilled_blind |= !histogram;
        }
        self.forget_emptied(words);
        budget.measured(taken);
        budget.replaced(before, self.taken());
    }

    /// Whether slot `at` is of a group into which others may fold.
    fn is_target(&self, at: usize) -> bool {
        let group = self.groups.group_of_slot(at);
        (0..self.dimensions.len()).any(|lane| self.groups.lane(group, lane) == OTHER)
    }

    /// Whether slot `at` is of the group of all that is `(other)`.
    fn is_other(&self, at: usize) -> bool {
        let group = self.groups.group_of_slot(at);
        (0..self.dimensions.len()).all(|lane| self.groups.lane(group, lane) == OTHER)
    }

    /// Folds slots of a level until that has freed so many bytes; returns how many it did.
    fn fold_level(
        &mut self,
        level: usize,
        wanted: usize,
        words: &mut Words,
        budget: &mut Budget,
    ) -> usize {
        let (taken, before) = (budget.taken(), self.taken());
        let mut freed = 0;
        let mut at = 0;
        while at < self.groups.dirty() && freed < wanted {
            let bytes = self.groups.slot_bytes(at);
            let goes = self.groups.level(at) == level
                && !self.is_target(at)
                && self.fold_slot(at, false, words, budget);
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

    /// Forgets groups that have nothing left. Not before everything was counted whose group is known already.
    pub(in crate::report) fn forget_emptied(&mut self, words: &mut Words) {
        for group in std::mem::take(&mut self.emptied) {
            let is_empty = self.groups.is_used(group)
                && !self.groups.is_running(group)
                && self.groups.get(group).totals == Totals::ZERO;
            if is_empty {
                self.forget_group(group, words);
            }
        }
    }
}
