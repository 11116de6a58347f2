//! An aggregate: groups shared by reports that count the same records over the same window.
//!
//! Level, window, filters and bucket layout say which records it counts and how; its group keys are
//! as fine as its finest report. Each record is counted once, in one group, and reports are
//! assembled from groups when they are read. So the cost of a packet grows with the number of
//! aggregates, not of reports.
//!
//! The group of a record is cached by ids of origin and tag sets (a [`GroupCache`]); only on a miss
//! it is looked up by its key ids.

use std::collections::{HashSet, VecDeque};

use ahash::RandomState;
use serde::{Deserialize, Serialize};

use super::arrivals::Delta;
use super::budget::{Budget, Taken};
use super::changes::Changes;
use super::counts::grown;
use super::definition::{Definition, Field, Filter, Key, KeySource, Level, Missing};
use super::group_cache::{GroupCache, SKIPPED};
use super::group_key::{GroupKey, KeyIds, RecordIds, is_status, parts_of};
use super::groups::Groups;
use super::histogram::BucketLayout;
use super::row_map::{NO_ROW, RowMap};
use super::second_log::{SecondLog, SecondLogWriter};
use super::tick_log::{TickHead, TickLog, TickLogReader, TickLogWriter};
use super::totals::Totals;
use super::window::Ticks;
use crate::pool::strings::{NONE, StringInterner};
use crate::pool::{Freed, Pool};

pub(super) mod close;
pub(super) mod overflow;
pub(super) mod snapshot;

/// The definition of the records that an aggregate counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Scope {
    pub(super) level: Level,
    pub(super) ticks: Ticks,
    pub(super) buckets: BucketLayout,
    pub(super) extremes: bool,
}

impl Scope {
    /// The scope of a report.
    pub(super) fn of(definition: &Definition) -> Self {
        Self {
            // A packet report is a request report without keys.
            level: match definition.level {
                Level::Packet | Level::Request => Level::Request,
                Level::Timer => Level::Timer,
            },
            ticks: Ticks::of(definition.window),
            buckets: definition.buckets,
            extremes: definition.extremes,
        }
    }

    /// Whether an aggregate of this scope has everything that `other` needs.
    fn serves(&self, other: &Self) -> bool {
        let extremes = self.extremes || !other.extremes;
        let same =
            (self.level, self.ticks, self.buckets) == (other.level, other.ticks, other.buckets);
        same && extremes
    }
}

/// Bytes of a group in the second log, generously.
const LOGGED_BYTES: usize = 64;

/// Groups shared by reports.
#[derive(Debug)]
pub(super) struct Aggregate {
    pub(super) scope: Scope,
    filters: Vec<Filter>,
    pub(super) group_keys: Vec<GroupKey>,
    pub(super) group_cache: GroupCache,
    pub(super) groups: Groups,
    /// One per report, by the report's number; `None` if dropped.
    row_maps: Vec<Option<RowMap>>,
    /// The running tick.
    tick: u64,
    tick_logs: VecDeque<TickLog>,
    tick_log_bytes: usize,
    writer: TickLogWriter,
    pairs: Vec<(u32, u64)>,
    /// Closed ticks in the window without their histograms.
    ticks_without_histograms: usize,
    /// Whether the running tick is such a tick already.
    tick_without_histograms: bool,
    /// Groups that include keys for which there was no memory.
    overflow_groups: HashSet<u32, RandomState>,
    /// Pieces of tick logs in the window whose tick had no room for all groups.
    overflowed_tick_logs: usize,
    /// Whether the running tick is such a tick already.
    overflows: bool,
    /// Groups that lost their gain in the running tick, and had nothing else then.
    emptied: Vec<u32>,
    /// The gain of the all-`(other)` group in the running tick beyond its slot and the log.
    overflow_remainder: Option<(u32, Totals)>,
    /// First and last merge of the running tick, milliseconds.
    seen: Option<(u64, u64)>,
    /// Counts changes; equal versions mean equal answers.
    pub(super) version: u64,
    /// Counts of records since the aggregate was created.
    pub(super) flow: Flow,
    /// Changes since somebody began to read.
    pub(super) changes: Changes,
    /// Gains of groups in the running second, if somebody reads them.
    second_log: Option<SecondLogWriter>,
    /// Whether its running tick is over, and some of its slots are closed.
    pub(super) is_closing: bool,
    /// Whether part of an expired tick is still included: the aggregate must not be read.
    pub(super) is_leaving: bool,
    /// Whether its first report is being filled from raw rows: nothing else is counted yet.
    pub(super) is_filling: bool,
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
    /// An aggregate whose group keys serve `keys`, counting from the tick at `now_ms`.
    pub(super) fn new(scope: Scope, filters: Vec<Filter>, keys: &[Key], now_ms: u64) -> Self {
        let mut group_keys: Vec<GroupKey> = Vec::new();
        for key in keys {
            if !group_keys.iter().any(|group_key| group_key.serves(key)) {
                group_keys.push(GroupKey::of(key));
            }
        }
        Self::with_group_keys(scope, filters, group_keys, now_ms)
    }

    fn with_group_keys(
        scope: Scope,
        filters: Vec<Filter>,
        group_keys: Vec<GroupKey>,
        now_ms: u64,
    ) -> Self {
        let parts = parts_of(&group_keys, &filters);
        let mut groups = Groups::new(group_keys.len(), scope.extremes);
        groups.ticks = scope.ticks.count;
        Self {
            scope,
            filters,
            groups,
            group_keys,
            group_cache: GroupCache::new(parts),
            row_maps: Vec::new(),
            tick: scope.ticks.at(now_ms),
            tick_logs: VecDeque::new(),
            tick_log_bytes: 0,
            writer: TickLogWriter::default(),
            pairs: Vec::new(),
            ticks_without_histograms: 0,
            tick_without_histograms: false,
            overflow_groups: HashSet::default(),
            overflowed_tick_logs: 0,
            overflows: false,
            emptied: Vec::new(),
            overflow_remainder: None,
            seen: None,
            version: 0,
            flow: Flow::default(),
            changes: Changes::default(),
            second_log: None,
            is_closing: false,
            is_leaving: false,
            is_filling: false,
        }
    }

    /// Whether a report can be answered from this aggregate's groups.
    pub(super) fn serves(&self, definition: &Definition) -> bool {
        serves(&self.scope, &self.filters, &self.group_keys, definition)
    }

    /// Adds a report; returns its number in this aggregate.
    pub(super) fn join(&mut self, definition: &Definition, rows_max: usize) -> usize {
        let mut row_map = RowMap::new(definition, &self.group_keys, rows_max);
        let all = (0..self.groups.end()).map(|id| (NO_ROW, id));
        row_map.add_groups(all.collect(), &self.groups);
        // Numbers of dropped reports are reused: each new group visits all of them.
        match self.row_maps.iter().position(Option::is_none) {
            Some(free) => {
                self.row_maps[free] = Some(row_map);
                free
            }
            None => {
                self.row_maps.push(Some(row_map));
                self.row_maps.len() - 1
            }
        }
    }

    /// Removes a report; returns whether it was the last.
    pub(super) fn leave(&mut self, report: usize) -> bool {
        self.row_maps[report] = None;
        self.row_maps.iter().all(Option::is_none)
    }

    /// The row map of report number `report`.
    pub(super) fn row_map(&self, report: usize) -> &RowMap {
        self.row_maps[report]
            .as_ref()
            .expect("only live reports hold their number")
    }

    /// Whether a request or timer with this request time passes the filters on time.
    pub(super) fn time_passes(&self, time_us: u64) -> bool {
        self.filters.iter().all(|it| it.time_passes(time_us))
    }

    /// The group of a record, or [`SKIPPED`] if the aggregate does not count it, on a cache miss.
    #[cold]
    pub(super) fn look_up(&mut self, record: RecordIds, memory: &mut Memory<'_>) -> u32 {
        let group = self.find_group(record, memory).unwrap_or(SKIPPED);
        let Memory { pool, budget } = memory;
        let before = self.group_cache.heap_bytes();
        let (room, groups) = (budget.cache_room(), self.groups.end());
        self.group_cache
            .remember(record, group, groups, room, |part| {
                record.class(part, &self.group_keys, &self.filters, pool)
            });
        budget.changed(before, self.group_cache.heap_bytes());
        group
    }

    /// Frees the numbers of removed groups, once the cache no longer has them. Call it before
    /// records are counted again.
    pub(super) fn forget_gone(&mut self) {
        if self.groups.has_gone() {
            let groups = &self.groups;
            self.group_cache.forget_groups(|id| !groups.is_used(id));
            self.groups.free_gone();
        }
    }

    /// Counts records in the groups assigned to them since the last tick began: each assignment
    /// holds the group, and the index of its delta.
    pub(super) fn count(
        &mut self,
        assignments: &[(u32, u32)],
        deltas: &[Delta],
        memory: &mut Memory<'_>,
    ) {
        let buckets = self.scope.buckets;
        self.groups.allow_blocks(memory.budget.second_max());
        self.groups.prefetch(assignments);
        self.changes.count(assignments, deltas);
        let mut before = self.groups.heap_bytes();
        let mut grown_before = grown();
        for &(group, at) in assignments {
            let delta = &deltas[at as usize];
            if !self.groups.count(group, delta, &buckets) {
                self.groups.slot_histograms_grew(grown_before);
                memory.budget.changed(before, self.groups.heap_bytes());
                self.spill(group, memory);
                before = self.groups.heap_bytes();
                grown_before = grown();
                self.groups.count(group, delta, &buckets);
            }
        }
        self.groups.slot_histograms_grew(grown_before);
        memory.budget.changed(before, self.groups.heap_bytes());
    }

    /// Starts or ends a second log; earlier gains have been [taken](Self::take_second_log).
    pub(super) fn watch(&mut self, new: Option<SecondLogWriter>) {
        self.groups.is_watched = new.is_some();
        self.second_log = new;
    }

    /// The second log, if there is one.
    pub(super) fn second_log(&mut self) -> Option<&mut SecondLogWriter> {
        self.second_log.as_mut()
    }

    /// Approximate bytes logged when all its groups have a gain.
    pub(super) fn logged_bytes(&self) -> usize {
        self.groups.keys.len() * LOGGED_BYTES
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
    /// them. Also needed before slots are closed or overflow.
    pub(super) fn cut_second(&mut self, strings: &StringInterner) {
        while self.cut_some(usize::MAX, strings) {}
    }

    /// Likewise for up to `slots` further slots; returns false when none is left.
    pub(super) fn cut_some(&mut self, slots: usize, strings: &StringInterner) -> bool {
        let Self {
            groups, second_log, ..
        } = self;
        groups.cut_some(slots, |keys, gained| {
            if let Some(log) = second_log {
                let group = (gained.group, keys.key(gained.group));
                let gain = (&gained.totals, gained.pairs);
                log.write(group, strings, gained.extremes, gain);
            }
        })
    }

    /// Applies filters, computes key ids, looks up the table.
    fn find_group(&mut self, record: RecordIds, memory: &mut Memory<'_>) -> Option<u32> {
        let pool = &mut *memory.pool;
        if !record.passes(&self.filters, pool) {
            return None;
        }
        let mut key_ids = record.key_ids(&self.group_keys, pool)?;
        // The text of a status, held until the group holds it.
        let mut status = None;
        for (key_id, group_key) in key_ids.iter_mut().zip(&self.group_keys) {
            if *key_id == NONE && is_status(group_key) {
                *key_id = *status.get_or_insert_with(|| {
                    let status = pool.origins.get(record.origin).status;
                    let mut text = itoa::Buffer::new();
                    pool.strings.intern(text.format(status).as_bytes())
                });
            }
        }
        let group = self.find_or_make_group(&key_ids, memory);
        if let Some(status) = status {
            memory.pool.strings.release(status);
        }
        Some(group)
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

    /// Bytes by which look-up and row structures grow with the next group; both copies, while they
    /// do.
    fn next_bytes(&self) -> usize {
        let row_maps = self.row_maps.iter().flatten();
        self.groups.next_bytes() + row_maps.map(RowMap::next_bytes).sum::<usize>()
    }

    fn make_group(&mut self, key_ids: &KeyIds, memory: &mut Memory<'_>) -> u32 {
        let before = self.group_bytes();
        for &key_id in key_ids {
            memory.pool.strings.hold(key_id);
        }
        let id = self.groups.insert(key_ids);
        for row_map in self.row_maps.iter_mut().flatten() {
            row_map.add_group(id, key_ids);
        }
        memory.budget.changed(before, self.group_bytes());
        id
    }

    /// Removes a group that no longer counts anything.
    fn forget_group(&mut self, id: u32, strings: &mut StringInterner) {
        self.changes.moved();
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
    }

    /// Records a merge at `now_ms`, whether or not it counts here.
    pub(super) fn merged(&mut self, now_ms: u64) {
        let first = self.seen.map_or(now_ms, |(first, _)| first);
        self.seen = Some((first, now_ms));
        self.version += 1;
    }

    /// Whole seconds from the oldest data in the window to `now_ms`, at least 1 and at most the
    /// window. So rates fall when traffic stops.
    pub(super) fn covered_secs(&self, window_ms: u64, now_ms: u64) -> u64 {
        let mut closed = self.tick_logs.iter().map(|it| it.head.seen);
        let oldest = closed.find_map(|seen| seen).or(self.seen);
        let span_ms = oldest.map_or(0, |(first, _)| now_ms.saturating_sub(first));
        (span_ms.min(window_ms) / 1000).max(1)
    }

    /// The head for the next piece of the running tick's log.
    fn tick_head(&self) -> TickHead {
        TickHead {
            tick: self.tick,
            histograms: !self.tick_without_histograms,
            overflowed: self.overflows,
            seen: self.seen,
        }
    }

    /// Keeps a piece of a tick log until its tick leaves the window.
    fn keep(&mut self, tick_log: TickLog) {
        self.tick_log_bytes += tick_log.entries.len();
        self.ticks_without_histograms += usize::from(!tick_log.head.histograms);
        self.overflowed_tick_logs += usize::from(tick_log.head.overflowed);
        self.tick_logs.push_back(tick_log);
    }

    /// Subtracts a tick that left the window.
    fn retire(&mut self, tick_log: &TickLog, strings: &mut StringInterner) {
        self.changes.moved();
        self.tick_log_bytes -= tick_log.entries.len();
        self.ticks_without_histograms -= usize::from(!tick_log.head.histograms);
        self.overflowed_tick_logs -= usize::from(tick_log.head.overflowed);
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut reader = TickLogReader::new(&tick_log.entries);
        while let Some((id, totals)) = reader.next(&mut pairs) {
            let is_running = self.groups.is_running(id);
            let group = self.groups.get_mut(id);
            group.totals -= &totals;
            let before = group.histogram.heap_bytes();
            for &(bucket, count) in &pairs {
                group.histogram.subtract(bucket, count);
            }
            group.histogram.tidy();
            let after = group.histogram.heap_bytes();
            let empty = group.totals == Totals::ZERO && !is_running;
            self.groups.histogram_bytes = self.groups.histogram_bytes + after - before;
            if let Some(extremes) = &mut self.groups.extremes {
                let extremes = &mut extremes[id as usize];
                let before = extremes.len();
                extremes.retain(|&(tick, _)| tick > tick_log.head.tick);
                self.groups.extremes_count -= before - extremes.len();
            }
            if empty {
                self.forget_group(id, strings);
            }
        }
        self.pairs = pairs;
    }

    /// Whether quantiles are known: no tick in the window lacks its histograms.
    pub(super) fn has_histograms(&self) -> bool {
        self.ticks_without_histograms == 0 && !self.tick_without_histograms
    }

    /// Invalidates cached groups of reused ids of origins and tag sets.
    pub(super) fn forget(&mut self, freed: &Freed) {
        self.group_cache.forget(freed);
    }

    /// Clears the cache, so that everything is looked up again.
    pub(super) fn reset_cache(&mut self) {
        self.group_cache = GroupCache::new(parts_of(&self.group_keys, &self.filters));
    }

    /// Clears everything counted.
    pub(super) fn clear(&mut self, strings: &mut StringInterner) {
        self.cut_second(strings);
        for at in 0..self.groups.dirty() {
            self.groups.close_slot(at, self.tick, false);
        }
        self.groups.slots_closed();
        self.emptied.clear();
        for id in 0..self.groups.end() {
            if self.groups.is_used(id) {
                self.forget_group(id, strings);
            }
        }
        self.tick_logs.clear();
        self.writer = TickLogWriter::default();
        (self.is_closing, self.is_leaving) = (false, false);
        self.seen = None;
        self.tick_log_bytes = 0;
        self.ticks_without_histograms = 0;
        self.tick_without_histograms = false;
        self.overflowed_tick_logs = 0;
        self.overflows = false;
        self.overflow_remainder = None;
        self.reset_cache();
        self.give_end_back();
        self.version += 1;
    }

    /// Number of reports that share it.
    pub(super) fn reports(&self) -> usize {
        self.row_maps.iter().flatten().count()
    }

    /// Whether keys are counted under `(other)`, for the whole window or for some ticks, for lack
    /// of memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        !self.overflow_groups.is_empty() || self.overflowed_tick_logs > 0 || self.overflows
    }

    /// Bytes of report number `report`: its own, and an even share of the common ones.
    pub(super) fn heap_bytes_of(&self, report: usize) -> usize {
        let own = |row_map: &RowMap| row_map.heap_bytes();
        let all: usize = self.row_maps.iter().flatten().map(own).sum();
        let shared = self.heap_bytes() - all;
        shared / self.reports().max(1) + own(self.row_map(report))
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.group_bytes()
            + self.tick_log_bytes
            + self.writer.unfinished().len()
            + self.emptied.capacity() * 4
            + self.changes.heap_bytes()
            + self.overflow_groups.capacity() * 6
            + self.tick_logs.capacity() * size_of::<TickLog>()
            + self.group_cache.heap_bytes()
    }

    /// Bytes on the heap, in all and for closed ticks.
    pub(super) fn taken(&self) -> Taken {
        Taken {
            all: self.heap_bytes(),
            closed: self.closed_bytes(),
        }
    }

    /// Bytes of closed ticks.
    fn closed_bytes(&self) -> usize {
        self.tick_log_bytes + self.writer.unfinished().len() + self.groups.closed_bytes()
    }

    /// Bytes of groups, with their look-up and row structures.
    fn group_bytes(&self) -> usize {
        let row_maps = self.row_maps.iter().flatten();
        let row_maps: usize = row_maps.map(RowMap::heap_bytes).sum();
        self.groups.heap_bytes() + row_maps
    }
}

/// Whether a report can be answered from groups with these keys.
fn serves(
    scope: &Scope,
    filters: &[Filter],
    group_keys: &[GroupKey],
    definition: &Definition,
) -> bool {
    let keys = &definition.keys;
    let has_key = |key| group_keys.iter().any(|group_key| group_key.serves(key));
    // The report must leave out whatever the aggregate leaves out, and a request with several
    // timers in a row must be in one group of that row: at timer level the group keys have to be
    // the same.
    let fits = |group_key: &GroupKey| {
        keys.iter().any(|key| group_key.serves(key))
            || group_key.missing == Missing::Empty
                && !(scope.level == Level::Timer && group_key.source.is_of_timer())
    };
    scope.serves(&Scope::of(definition))
        && filters == definition.filters
        && keys.iter().all(has_key)
        && group_keys.iter().all(fits)
}

/// Keys of an aggregate that serves every report over request fields alone.
pub(super) fn all_fields() -> Vec<Key> {
    let all = Field::ALL.map(|field| Key::of(KeySource::Field(field)));
    all.into()
}
