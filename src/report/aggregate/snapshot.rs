//! Saves a shared aggregate to a snapshot, and restores it.
//!
//! A group's sums follow from the tick logs of the window, so these are saved: those of closed
//! ticks, which never change, and one made from the running tick so far. That moment is the cut; it
//! is taken under the lock, for all aggregates at once, and costs some tens of nanoseconds for each
//! group with a gain in the running tick. Keys of groups are copied afterwards, a thousand at a
//! time. A group removed meanwhile either has nothing in the window any more, and the logs that
//! mention it are no longer written, or overflowed into `(other)` with all its counts, for lack of
//! memory: then it is written as `(other)`, even if its id was reused, which its generation
//! reveals.
//!
//! During a restore groups get new ids and go through the budget as in a running daemon: past
//! `reports.memory` they overflow into `(other)`. Groups that no log mentions are removed again.
//! Restored data is not trusted.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use super::{Aggregate, Flow, Memory};
use crate::pool::snapshot::{Damage, SavedStrings};
use crate::pool::strings::{NONE, OTHER, StringInterner};
use crate::report::budget::MemoryUse;
use crate::report::definition::{DEFINITION_KEYS_MAX, DefinedBy, Definition};
use crate::report::encoded_gain::PairSums;
use crate::report::group_key::Scope;
use crate::report::histogram::BUCKET_MAX;
use crate::report::row_map::NO_ROW;
use crate::report::tick_log::{TickHead, TickLog, TickLogs, take_entry};
use crate::report::totals::{Extremes, Totals};

/// Groups copied under one hold of the lock.
const GROUPS: u32 = 1_024;

/// A run of groups ends when it exceeds about this size.
const PART_BYTES: usize = 512 << 10;

/// Bytes of budget for each restored group id: a group takes far more than that.
const GROUP_BYTES_MIN: usize = 64;

/// Sums of one group in one tick stay below this, so that no number of them overflows.
const SUM_END: u128 = 1 << 96;

/// Requests likewise; far more than a tick can have.
const REQUESTS_END: u128 = 1 << 40;

/// All samples of an aggregate stay below this.
const SAMPLES_END: u64 = 1 << 62;

/// Samples of one bucket in one tick; this many take megabytes.
const SAMPLES_MAX: u64 = 1 << 54;

/// Most restored reports of an aggregate.
pub(in crate::report) const REPORTS_MAX: usize = 4_096;

/// No group with that id.
const NO_GROUP: u32 = u32::MAX;

/// An aggregate without its groups: its scope and progress. A report continues with its counts only
/// if this aggregate would serve it today.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedAggregate {
    pub(in crate::report) scope: Scope,
    /// The running tick.
    tick: u64,
    flow: Flow,
    /// Groups that include keys for which there was no memory.
    overflow_groups: Vec<u32>,
    /// Names of its reports.
    pub(in crate::report) reports: Vec<String>,
}

/// A part of an aggregate.
#[derive(Debug, Serialize, Deserialize)]
pub enum SavedPart {
    /// Some groups, and the texts of their keys.
    Groups(SavedStrings, Vec<SavedGroup>),
    /// A piece of the log of one tick, with entries encoded as in `tick_log`.
    Tick(TickHead, Vec<u8>),
}

/// A saved group.
#[derive(Debug, Serialize, Deserialize)]
pub struct SavedGroup {
    id: u32,
    key: Vec<u32>,
    /// Its row in each report, counted from 1; 0 if none.
    rows: Vec<u32>,
    /// By tick.
    extremes: Vec<(u64, Extremes)>,
}

/// An aggregate at the cut.
#[derive(Debug)]
pub(crate) struct AggregateCut {
    /// Its index among the aggregates.
    pub(in crate::report) at: usize,
    pub(crate) saved: SavedAggregate,
    /// Numbers of its reports in the aggregate, in the order of their names.
    reports: Vec<usize>,
    /// Generations of all groups: if one has changed, the group was removed.
    generations: Vec<u32>,
    /// Logs of closed ticks; one that is gone before it is written has left the window.
    closed: Vec<(TickHead, Weak<[u8]>)>,
    running: Vec<TickLog>,
    /// Extremes of the running tick, by group.
    extremes: HashMap<u32, Extremes, RandomState>,
    /// Those of closed ticks are read later.
    _extremes_kept: Arc<()>,
}

impl Aggregate {
    /// Cuts the aggregate; `reports` are the numbers and names of the live ones.
    pub(in crate::report) fn cut(&self, at: usize, reports: &[(usize, &str)]) -> AggregateCut {
        let mut writer = self.tick_logs.writer.clone();
        let mut running = Vec::new();
        let mut extremes: HashMap<u32, Extremes, RandomState> = HashMap::default();
        let mut saw = |group, seen: &Extremes| extremes.entry(group).or_default().widen(seen);
        let (mut sums, mut pairs) = (PairSums::default(), Vec::new());
        let running_tick = &self.groups.running;
        for at in 0..running_tick.used {
            let group = running_tick.slots[at].group;
            sums.add(running_tick.samples(at));
            pairs.clear();
            pairs.extend(sums.drain());
            let (totals, each) = (running_tick.totals(at), pairs.iter().copied());
            writer.entry(group, &totals, pairs.len(), each);
            running_tick.extremes(at).into_iter().for_each(|seen| saw(group, seen));
            if writer.is_full() {
                running.push(writer.finish(self.tick));
            }
        }
        running.push(writer.finish(self.tick));
        let TickLogs { closed, writer: begun, .. } = &self.tick_logs;
        let last = closed.back().map(|it| it.head.tick);
        if !begun.bytes.is_empty() || last == Some(self.tick.tick) {
            // Groups whose slot is closed already, and what came back of a tick that runs on.
            for id in self.groups.used() {
                let last = self.groups.closed.extremes(id).last();
                let last = last.filter(|(tick, _)| *tick == self.tick.tick);
                last.into_iter().for_each(|(_, seen)| saw(id, seen));
            }
        }
        let groups = 0..self.groups.end();
        AggregateCut {
            at,
            saved: SavedAggregate {
                scope: self.scope.clone(),
                tick: self.tick.tick,
                flow: self.flow,
                overflow_groups: self.overflow_groups.iter().copied().collect(),
                reports: reports.iter().map(|(_, name)| (*name).to_owned()).collect(),
            },
            reports: reports.iter().map(|&(report, _)| report).collect(),
            generations: groups.map(|id| self.groups.generation(id)).collect(),
            closed: closed.iter().map(|it| (it.head, Arc::downgrade(&it.entries))).collect(),
            running,
            extremes,
            _extremes_kept: Arc::clone(&self.groups.closed.saving),
        }
    }

    /// Groups from id `from` on, and the id to continue with, `None` after the last.
    pub(in crate::report) fn save_groups(
        &self,
        cut: &AggregateCut,
        from: u32,
        strings: &StringInterner,
    ) -> (SavedPart, Option<u32>) {
        let mut groups = Vec::new();
        let mut texts = SavedStrings::default();
        let mut bytes = 0;
        let end = cut.generations.len() as u32;
        let until = end.min(from.saturating_add(GROUPS));
        for id in from..until {
            // Now under `(other)`, or without anything in the window.
            let gone = self.groups.generation(id) != cut.generations[id as usize];
            if !gone && (id >= self.groups.end() || !self.groups.is_used(id)) {
                continue;
            }
            let key_id = |at| if gone { OTHER } else { self.groups.keys.key_id(id, at) };
            // Counted from 1: no row becomes 0.
            let row = |&report: &usize| match self.row_maps.get(report) {
                Some(Some(row_map)) if !gone => row_map.row_of(id).wrapping_add(1),
                _ => NO_ROW.wrapping_add(1),
            };
            let closed = if gone { &[] } else { self.groups.closed.extremes(id) };
            let key: Vec<u32> = (0..self.scope.group_keys.len()).map(key_id).collect();
            bytes += key.iter().map(|&it| 8 + texts.add(it, strings)).sum::<usize>();
            groups.push(SavedGroup {
                id,
                key,
                rows: cut.reports.iter().map(row).collect(),
                extremes: cut.extremes(id, closed),
            });
            if bytes > PART_BYTES {
                return (SavedPart::Groups(texts, groups), Some(id + 1));
            }
        }
        (SavedPart::Groups(texts, groups), (until < end).then_some(until))
    }
}

impl AggregateCut {
    /// The extremes of a group: those of closed ticks, and those at the cut.
    fn extremes(&self, id: u32, closed: &[(u64, Extremes)]) -> Vec<(u64, Extremes)> {
        let before = closed.iter().filter(|&&(tick, _)| tick < self.saved.tick);
        let running = self.extremes.get(&id).map(|seen| (self.saved.tick, *seen));
        before.copied().chain(running).collect()
    }

    /// Passes the logs of the ticks in the window at `now_ms` to `each`, piece by piece. Needs no
    /// lock.
    pub(crate) fn ticks<E>(
        &self,
        now_ms: u64,
        mut each: impl FnMut(SavedPart) -> Result<(), E>,
    ) -> Result<(), E> {
        let ticks = self.saved.scope.ticks;
        let gone = ticks.last_gone(ticks.at(now_ms));
        let closed = self.closed.iter();
        let closed = closed.filter_map(|(head, entries)| Some((*head, entries.upgrade()?)));
        let running = self.running.iter().map(|it| (it.head, Arc::clone(&it.entries)));
        for (head, entries) in closed.chain(running) {
            let has_data = head.seen.is_some() || !entries.is_empty();
            if gone.is_none_or(|gone| head.tick > gone) && has_data {
                each(SavedPart::Tick(head, entries.to_vec()))?;
            }
        }
        Ok(())
    }
}

/// Fails unless `holds`.
fn check(holds: bool, damage: &'static str) -> Result<(), Damage> {
    if holds { Ok(()) } else { Err(Damage(damage)) }
}

/// A report to be restored.
#[derive(Debug)]
pub(in crate::report) struct Wanted {
    /// Its index among those in the head.
    pub(in crate::report) place: usize,
    pub(in crate::report) definition: Definition,
    pub(in crate::report) defined_by: DefinedBy,
    /// The row of each group.
    pub(in crate::report) rows: Vec<(u32, u32)>,
}

/// An aggregate being restored.
#[derive(Debug)]
pub(in crate::report) struct AggregateRestore {
    pub(in crate::report) aggregate: Box<Aggregate>,
    pub(in crate::report) wanted: Vec<Wanted>,
    /// Number of its reports.
    reports: usize,
    /// Ids of the groups, by their former ids.
    groups: Vec<u32>,
    overflow_groups: Vec<u32>,
    samples: u64,
    /// Memory limit of all reports, in bytes.
    memory_bytes: usize,
    /// Whether it exceeds that.
    pub(in crate::report) is_too_large: bool,
}

impl AggregateRestore {
    /// An aggregate without groups. It serves everything `wanted`, so its scope and filters are
    /// valid.
    pub(in crate::report) fn begin(
        saved: SavedAggregate,
        wanted: Vec<Wanted>,
        now_ms: u64,
        memory_bytes: usize,
    ) -> Result<Self, Damage> {
        let SavedAggregate { scope, tick, .. } = saved;
        check(scope.group_keys.len() <= DEFINITION_KEYS_MAX, "a report has too many keys")?;
        check(tick <= scope.ticks.at(now_ms), "a tick lies in the future")?;
        let mut aggregate = Box::new(Aggregate::new(scope, now_ms));
        aggregate.tick.tick = tick;
        aggregate.flow = saved.flow;
        Ok(Self {
            aggregate,
            wanted,
            reports: saved.reports.len(),
            groups: Vec::new(),
            overflow_groups: saved.overflow_groups,
            samples: 0,
            memory_bytes,
            is_too_large: false,
        })
    }

    /// Its memory, also during the restore.
    pub(in crate::report) fn measure(&mut self) -> MemoryUse {
        let rows = self.wanted.iter().map(|it| it.rows.capacity() * 8);
        let mut taken = self.aggregate.measure();
        taken.all += self.groups.capacity() * 4 + rows.sum::<usize>();
        taken
    }

    /// Restores data from [`Aggregate::save_groups`] and [`AggregateCut::ticks`]. Skips everything
    /// after it became too large.
    pub(in crate::report) fn take(
        &mut self,
        part: SavedPart,
        memory: &mut Memory<'_>,
    ) -> Result<(), Damage> {
        match part {
            SavedPart::Groups(texts, groups) => self.restore_groups(&texts, groups, memory),
            SavedPart::Tick(head, entries) => self.restore_tick(head, &entries),
        }
    }

    fn restore_groups(
        &mut self,
        texts: &SavedStrings,
        groups: Vec<SavedGroup>,
        memory: &mut Memory<'_>,
    ) -> Result<(), Damage> {
        for saved in groups {
            let at = saved.id as usize;
            if at >= self.memory_bytes / GROUP_BYTES_MIN {
                self.is_too_large = true;
                return Ok(());
            }
            let fits = saved.key.len() == self.aggregate.scope.group_keys.len()
                && saved.rows.len() == self.reports;
            check(fits, "a group has too many or too few keys")?;
            let mut key_ids = [NONE; DEFINITION_KEYS_MAX];
            for (key_id, &string) in key_ids.iter_mut().zip(&saved.key) {
                *key_id = texts.restore(string, &mut memory.pool.strings)?;
            }
            let id = self.aggregate.find_or_make_group(&key_ids, memory);
            for key_id in key_ids {
                memory.pool.strings.release(key_id);
            }
            if self.groups.len() <= at {
                self.groups.resize(at + 1, NO_GROUP);
            }
            let before = std::mem::replace(&mut self.groups[at], id);
            check(before == NO_GROUP, "a group comes twice")?;
            for report in &mut self.wanted {
                report.rows.push((saved.rows[report.place].wrapping_sub(1), id));
            }
            let ticks = self.aggregate.scope.ticks.count + 1;
            check(saved.extremes.len() as u64 <= ticks, "a group has too many ticks")?;
            for (tick, seen) in &saved.extremes {
                check(*tick <= self.aggregate.tick.tick, "a tick lies in the future")?;
                self.aggregate.groups.closed.add_extremes(id, *tick, seen);
            }
        }
        Ok(())
    }

    fn restore_tick(&mut self, head: TickHead, mut entries: &[u8]) -> Result<(), Damage> {
        check(head.tick <= self.aggregate.tick.tick, "a tick lies in the future")?;
        let last = self.aggregate.tick_logs.closed.back();
        check(last.is_none_or(|last| last.head.tick <= head.tick), "ticks are out of order")?;
        let tick_at = |ms| self.aggregate.scope.ticks.at(ms);
        let fits = |(first, last)| {
            first <= last && tick_at(first) == head.tick && tick_at(last) == head.tick
        };
        check(head.seen.is_none_or(fits), "data came in at a time that cannot be")?;
        let mut pairs = Vec::new();
        while !self.is_too_large
            && let Some((group, totals)) = take_entry(&mut entries, &mut pairs)
        {
            self.restore_entry(group, &totals, &pairs)?;
        }
        self.aggregate.tick_logs.finish(head);
        Ok(())
    }

    fn restore_entry(
        &mut self,
        group: u32,
        totals: &Totals,
        pairs: &[(u32, u64)],
    ) -> Result<(), Damage> {
        let known = self.groups.get(group as usize).copied().filter(|&id| id != NO_GROUP);
        let id = known.ok_or(Damage("a tick refers to an unknown group"))?;
        let [requests, sums @ .., errors, unmeasured] = totals.sums();
        let in_range = requests.max(errors) < REQUESTS_END
            && sums.iter().all(|&sum| sum < SUM_END)
            && unmeasured < SUM_END;
        check(in_range, "a sum is too large")?;
        // A group is removed when its sums are zero, and its histogram has to be empty then.
        let sound = *totals != Totals::ZERO || pairs.is_empty();
        check(sound, "a histogram has samples of no request")?;
        let is_ascending = pairs.is_sorted_by_key(|&(bucket, _)| bucket);
        let last = pairs.last().map_or(0, |&(bucket, _)| bucket);
        check(is_ascending && last <= BUCKET_MAX, "a histogram has a bucket that cannot be")?;
        for &(_, count) in pairs {
            check(count > 0, "a histogram has an empty bucket")?;
            self.samples = self.samples.saturating_add(count);
            self.is_too_large |= count > SAMPLES_MAX || self.samples >= SAMPLES_END;
        }
        let aggregate = &mut *self.aggregate;
        let (writer, each) = (&mut aggregate.tick_logs.writer, pairs.iter().copied());
        writer.entry(id, totals, pairs.len(), each);
        if !self.is_too_large {
            let closed = &mut aggregate.groups.closed;
            self.is_too_large = closed.restore(id, totals, pairs, self.memory_bytes);
        }
        Ok(())
    }

    /// Completes the restore: removes groups that no tick log mentions, and adds the reports. These
    /// have the numbers from 0 on.
    pub(in crate::report) fn finish(
        mut self,
        rows_max: usize,
        strings: &mut StringInterner,
    ) -> (Box<Aggregate>, Vec<Wanted>) {
        self.aggregate.remove_empty_groups(strings);
        self.aggregate.purge_cache(usize::MAX);
        let overflowed = self.overflow_groups.iter();
        let overflowed = overflowed.filter_map(|&id| self.groups.get(id as usize).copied());
        let groups = &self.aggregate.groups;
        let overflowed = overflowed.filter(|&id| id < groups.end() && groups.is_used(id));
        self.aggregate.overflow_groups.extend(overflowed);
        for report in &mut self.wanted {
            // Rows in their former order, and again under `(other)` those that lacked a row.
            self.aggregate.join(&report.definition, rows_max, std::mem::take(&mut report.rows));
        }
        (self.aggregate, self.wanted)
    }
}

#[cfg(test)]
mod tests;
