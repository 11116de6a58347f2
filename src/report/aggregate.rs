//! An aggregate: groups shared by reports that count the same records over the same window.
//!
//! Its [`Scope`] says which records it counts and how; its group keys are as fine as its finest
//! report. Each record is counted once, in one group, and reports are assembled from groups when
//! they are read. So the cost of a packet grows with the number of aggregates, not of reports.
//!
//! The group of a record is cached by ids of origin and tag sets (a [`GroupCache`]); only on a miss
//! it is looked up by its key ids.

use std::collections::HashSet;

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use self::counted_meanwhile::CountedMeanwhile;
use super::arrivals::Delta;
use super::budget::{Budget, MemoryUse};
use super::definition::{Definition, Field, Key, KeySource};
use super::group_cache::{GroupCache, SKIPPED};
use super::group_key::{KeyIds, RecordIds, Scope, is_status};
use super::groups::Groups;
use super::row_map::{NO_ROW, RowMap};
use super::second_log::{SecondLog, SecondLogWriter};
use super::tick_log::{TickHead, TickLog, TickLogs, take_entry};
use crate::pool::Pool;
use crate::pool::strings::{NONE, StringInterner};

mod assign;
pub(super) mod close;
mod counted_meanwhile;
pub(super) mod overflow;
pub(super) mod snapshot;

/// Groups shared by reports.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) scope: Scope,
    pub(super) group_cache: GroupCache,
    pub(super) groups: Groups,
    /// One per report, by the report's number; `None` if dropped.
    row_maps: Vec<Option<RowMap>>,
    /// The running tick.
    tick: TickHead,
    tick_logs: TickLogs,
    /// Groups that include keys for which there was no memory.
    overflow_groups: HashSet<u32, RandomState>,
    /// How many groups lost their gain in the running tick, and had nothing else then.
    emptied: usize,
    /// Counts changes; equal versions mean equal rows.
    pub(super) version: u64,
    /// Counts of records since the aggregate was created.
    pub(super) flow: Flow,
    /// Changes since somebody began to read.
    pub(super) meanwhile: CountedMeanwhile,
    /// Gains of groups in the running second, if somebody reads them.
    pub(super) second_log: Option<SecondLogWriter>,
    /// How far the running tick, which is over, is closed.
    pub(super) closing: close::Closing,
    /// Whether part of an expired tick is still included: the aggregate must not be read.
    pub(super) is_leaving: bool,
    /// Whether its first report is being filled from raw rows: nothing else is counted yet.
    pub(super) is_filling: bool,
    /// The memory with which the budget is charged for it.
    charged: MemoryUse,
}

/// Records offered to an aggregate, and counted in a group. Only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Requests offered, including back-fill.
    pub requests_offered: u64,
    /// Requests counted; at timer level, those with at least one counted timer.
    pub requests_counted: u64,
    /// Timers offered; 0 at request level.
    pub timers_offered: u64,
    /// Timers counted; 0 at request level.
    pub timers_counted: u64,
}

/// The sources of texts and memory for groups.
#[derive(Debug)]
pub(super) struct Memory<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) budget: &'a mut Budget,
}

impl Aggregate {
    /// An empty aggregate, counting from the tick at `now_ms`.
    pub(super) fn new(scope: Scope, now_ms: u64) -> Self {
        Self {
            group_cache: GroupCache::new(scope.parts()),
            groups: Groups::new(scope.group_keys.len(), scope.extremes),
            row_maps: Vec::new(),
            tick: TickHead::new(scope.ticks.at(now_ms)),
            tick_logs: TickLogs::default(),
            overflow_groups: HashSet::default(),
            emptied: 0,
            version: 0,
            flow: Flow::default(),
            meanwhile: CountedMeanwhile::default(),
            second_log: None,
            closing: close::Closing::default(),
            is_leaving: false,
            is_filling: false,
            charged: MemoryUse::default(),
            scope,
        }
    }

    /// Adds a report, of which groups had these rows before a restore; returns its number in this
    /// aggregate.
    pub(super) fn join(
        &mut self,
        definition: &Definition,
        rows_max: usize,
        mut rows: Vec<(u32, u32)>,
    ) -> usize {
        let mut row_map = RowMap::new(definition, &self.scope.group_keys, rows_max);
        rows.extend(self.groups.used().map(|id| (NO_ROW, id)));
        row_map.add_groups(rows, &self.groups);
        put(&mut self.row_maps, row_map)
    }

    /// Removes a report; returns whether it was the last.
    pub(super) fn leave(&mut self, report: usize) -> bool {
        self.row_maps[report] = None;
        self.reports() == 0
    }

    /// Number of reports that share it.
    pub(super) fn reports(&self) -> usize {
        self.row_maps.iter().flatten().count()
    }

    /// The row map of report number `report`.
    pub(super) fn row_map(&self, report: usize) -> &RowMap {
        self.row_maps[report].as_ref().expect("only live reports hold their number")
    }

    /// The group of a record, or [`SKIPPED`] if the aggregate does not count it, on a cache miss.
    #[cold]
    pub(super) fn look_up(&mut self, record: RecordIds, memory: &mut Memory<'_>) -> u32 {
        let group = self.find_group(record, memory).unwrap_or(SKIPPED);
        let Memory { pool, budget } = memory;
        let (room, groups) = (budget.room(), self.groups.end());
        self.group_cache
            .remember(record, group, groups, room, |part| record.class(part, &self.scope, pool));
        self.charge(budget);
        group
    }

    /// Searches up to `places` more places of the cache for removed groups, and after the last one
    /// frees their ids. Call it for all before records are counted again.
    pub(super) fn purge_cache(&mut self, places: usize) {
        let groups = &self.groups;
        let is_gone = |id| !groups.is_used(id);
        if groups.has_removed() && self.group_cache.purge(places, is_gone) {
            self.groups.free_removed();
        }
    }

    /// Counts records in their groups, which were assigned in this tick: each assignment has the
    /// group, and its slot afterwards, and the index of the delta.
    pub(super) fn count(
        &mut self,
        assignments: &mut [(u32, u32)],
        deltas: &[Delta],
        memory: &mut Memory<'_>,
    ) {
        let buckets = self.scope.buckets;
        self.groups.running.allow_blocks(memory.budget.second_max());
        self.meanwhile.count(assignments, deltas);
        self.groups.find_slots(assignments);
        for &mut (slot, at) in assignments {
            let delta = &deltas[at as usize];
            if !self.groups.running.count(slot, delta, &buckets) {
                self.cut_second(&memory.pool.strings);
                self.groups.running.count(slot, delta, &buckets);
            }
        }
        self.charge(memory.budget);
    }

    /// Gains of groups since the last call; `None` if nobody reads them. `is_over`: the second has
    /// ended.
    pub(super) fn take_second_log(
        &mut self,
        is_over: bool,
        strings: &StringInterner,
    ) -> Option<SecondLog> {
        self.cut_second(strings);
        Some(self.second_log.as_mut()?.take(is_over, &self.groups.keys))
    }

    /// Cuts the running second: settles all slots, and logs the gains of groups if somebody reads
    /// them. Must also run before slots are closed or moved.
    pub(super) fn cut_second(&mut self, strings: &StringInterner) {
        while self.cut_some(usize::MAX, strings) {}
    }

    /// Likewise for up to `slots` further slots; returns false when none is left.
    pub(super) fn cut_some(&mut self, slots: usize, strings: &StringInterner) -> bool {
        let Self { groups, second_log, .. } = self;
        groups.running.cut_some(slots, |gain| {
            if let Some(log) = second_log {
                log.write(gain, &groups.keys, strings);
            }
        })
    }

    /// Cuts the running second, and charges the budget with what its samples take in slots.
    pub(super) fn settle(&mut self, memory: &mut Memory<'_>) {
        self.cut_second(&memory.pool.strings);
        self.charge(memory.budget);
    }

    /// Applies filters, computes key ids, looks up the table.
    fn find_group(&mut self, record: RecordIds, memory: &mut Memory<'_>) -> Option<u32> {
        let (scope, pool) = (&self.scope, &mut *memory.pool);
        if !scope.filters.iter().all(|it| record.passes(it, pool)) {
            return None;
        }
        // The text of the status, held until the group holds it.
        let mut status = NONE;
        if scope.group_keys.iter().any(is_status) {
            let number = pool.origins.get(record.origin).status;
            status = pool.strings.intern(itoa::Buffer::new().format(number).as_bytes());
        }
        let key_ids = record.key_ids(scope, status, pool);
        let group = key_ids.map(|key_ids| self.find_or_make_group(&key_ids, memory));
        memory.pool.strings.release(status);
        group
    }

    fn find_or_make_group(&mut self, key_ids: &KeyIds, memory: &mut Memory<'_>) -> u32 {
        if let Some(id) = self.groups.keys.find(key_ids) {
            return id;
        }
        if !memory.budget.exhausted(self.next_bytes()) {
            return self.make_group(key_ids, memory);
        }
        memory.budget.overflowed(1);
        self.overflow_target(key_ids, memory)
    }

    /// Bytes that the next group may add to look-up tables and row maps; includes the old and the
    /// new copy of a table that would be resized.
    fn next_bytes(&self) -> usize {
        let row_maps = self.row_maps.iter().flatten();
        self.groups.next_bytes() + row_maps.map(RowMap::next_bytes).sum::<usize>()
    }

    fn make_group(&mut self, key_ids: &KeyIds, memory: &mut Memory<'_>) -> u32 {
        for &key_id in key_ids {
            memory.pool.strings.hold(key_id);
        }
        let id = self.groups.insert(key_ids);
        for row_map in self.row_maps.iter_mut().flatten() {
            row_map.add_group(id, key_ids);
        }
        self.charge(memory.budget);
        id
    }

    /// Removes a group that no longer counts anything.
    fn remove_group(&mut self, id: u32, strings: &mut StringInterner) {
        self.meanwhile.moved();
        let key_ids = self.groups.keys.key_ids(id);
        for row_map in self.row_maps.iter_mut().flatten() {
            row_map.remove_group(id, &key_ids);
        }
        if let Some(log) = &mut self.second_log {
            log.directory.forget(id, key_ids.iter().copied());
        }
        for key_id in key_ids {
            strings.release(key_id);
        }
        self.overflow_groups.remove(&id);
        self.groups.remove(id);
        self.group_cache.search_again();
    }

    /// Records a merge at `now_ms`, whether or not it counts here.
    pub(super) fn merged(&mut self, now_ms: u64) {
        let (first, _) = self.tick.seen.unwrap_or((now_ms, now_ms));
        self.tick.seen = Some((first, now_ms));
        self.version += 1;
    }

    /// The ticks in the window, oldest first, the running one last; a tick may have several
    /// entries.
    fn ticks(&self) -> impl DoubleEndedIterator<Item = &TickHead> {
        self.tick_logs.closed.iter().map(|it| &it.head).chain([&self.tick])
    }

    /// Whole seconds from the oldest data in the window to `now_ms`, at least 1 and at most the
    /// window; 0 if there is no data. So rates fall when traffic stops.
    pub(super) fn covered_secs(&self, window_ms: u64, now_ms: u64) -> u64 {
        let oldest = self.ticks().find_map(|it| it.seen);
        let span_ms = oldest.map(|(first, _)| now_ms.saturating_sub(first));
        span_ms.map_or(0, |span_ms| (span_ms.min(window_ms) / 1000).max(1))
    }

    /// Whether quantiles are known: no tick in the window lacks its histograms.
    pub(super) fn has_histograms(&self) -> bool {
        self.ticks().all(|it| it.histograms)
    }

    /// Whether keys are counted under `(other)`, for the whole window or for some ticks, for lack
    /// of memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        !self.overflow_groups.is_empty() || self.ticks().any(|it| it.overflowed)
    }

    /// Subtracts a piece of a tick that left the window.
    fn retire_tick(&mut self, tick_log: &TickLog, strings: &mut StringInterner) {
        self.meanwhile.moved();
        self.version += 1;
        let mut pairs = Vec::new();
        let mut entries = &tick_log.entries[..];
        while let Some((id, gain)) = take_entry(&mut entries, &mut pairs) {
            if self.groups.expire(id, tick_log.head.tick, &gain, &pairs) {
                self.remove_group(id, strings);
            }
        }
    }

    /// Clears the cache, so that everything is looked up again.
    pub(super) fn reset_cache(&mut self) {
        self.group_cache = GroupCache::new(self.scope.parts());
    }

    /// Clears everything counted.
    pub(super) fn clear(&mut self, strings: &mut StringInterner) {
        self.cut_second(strings);
        for id in self.groups.used().collect::<Vec<u32>>() {
            self.remove_group(id, strings);
        }
        self.groups = Groups::new(self.scope.group_keys.len(), self.scope.extremes);
        self.tick = TickHead::new(self.tick.tick);
        self.tick_logs = TickLogs::default();
        self.overflow_groups = HashSet::default();
        self.emptied = 0;
        self.closing = close::Closing::default();
        self.is_leaving = false;
        self.reset_cache();
        self.free_end(usize::MAX);
        self.version += 1;
    }

    /// Bytes of report number `report`: its own, and an even share of the common ones.
    pub(super) fn heap_bytes_of(&self, report: usize) -> usize {
        let shared = self.heap_bytes() - self.row_map_bytes();
        shared / self.reports().max(1) + self.row_map(report).heap_bytes()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.groups.heap_bytes()
            + self.row_map_bytes()
            + self.tick_logs.heap_bytes()
            + self.overflow_groups.capacity() * 6
            + self.meanwhile.heap_bytes()
            + self.group_cache.heap_bytes()
    }

    /// Bytes on the heap, in all and for closed ticks, to charge the budget with.
    pub(super) fn measure(&mut self) -> MemoryUse {
        self.charged = MemoryUse { all: self.heap_bytes(), closed: self.closed_bytes() };
        self.charged
    }

    /// Charges the budget with its memory as it is now.
    pub(super) fn charge(&mut self, budget: &mut Budget) {
        let before = self.charged;
        budget.replaced(before, self.measure());
    }

    /// Bytes of closed ticks.
    pub(super) fn closed_bytes(&self) -> usize {
        self.tick_logs.bytes() + self.groups.closed.bytes()
    }

    fn row_map_bytes(&self) -> usize {
        self.row_maps.iter().flatten().map(RowMap::heap_bytes).sum()
    }
}

/// Puts something into the first free place, as all places are visited often; returns its number.
pub(super) fn put<T>(places: &mut Vec<Option<T>>, new: T) -> usize {
    let at = places.iter().position(Option::is_none).unwrap_or(places.len());
    if at == places.len() {
        places.push(None);
    }
    places[at] = Some(new);
    at
}

/// Keys of an aggregate that serves every report over request fields alone.
pub(super) fn all_fields() -> Vec<Key> {
    Field::ALL.map(|field| Key::of(KeySource::Field(field))).into()
}
