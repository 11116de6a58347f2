//! The live reports: defined, found by name, updated, dropped.
//!
//! The merger passes every request to [`Reports::add`] and advances time with
//! [`Reports::advance_some`]; nothing here reads a clock. Reports join an aggregate when they are
//! defined (see `aggregate`).

use std::cmp::Reverse;
use std::sync::Arc;

use super::aggregate::overflow::relieve;
use super::aggregate::{Aggregate, Flow, Memory, all_fields, put};
use super::arrivals::{Arrivals, RecordDeltas};
use super::budget::{Budget, MemoryUse};
use super::definition::{DefinedBy, Definition, KeySource, Level, Missing};
use super::group_key::Scope;
use super::window::Ticks;
use crate::config::ReportsConfig;
use crate::pool::{Freed, Pool};

pub(super) mod snapshot;
pub(crate) mod time;
pub(super) mod watch;

/// Records counted between checks of their memory.
const RECORDS_AT_ONCE: usize = 256;

/// One live report.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its definition.
    pub definition: Arc<Definition>,
    /// Who defined it.
    pub defined_by: DefinedBy,
    aggregate: usize,
    /// Its number in the aggregate.
    pub(super) report: usize,
}

/// Aggregate and version of its data.
pub type Version = (usize, u64);

/// All live reports.
#[derive(Debug)]
pub struct Reports {
    entries: Vec<Entry>,
    aggregates: Vec<Option<Box<Aggregate>>>,
    budget: Budget,
    rows_max: usize,
    /// Requests with this status or a higher one are errors.
    pub(crate) error_status: u32,
    /// Group and delta of each current record, for one aggregate after the other.
    deltas: RecordDeltas,
    assignments: Vec<(u32, u32)>,
    /// The window of base reports; all reports on request fields with this window share one
    /// aggregate.
    raw_window: Ticks,
    /// Monotonic milliseconds up to which the merger advanced time. Code that creates a report
    /// while the merger runs must not use a clock of its own: the next merge belongs to this
    /// moment, which may be a while ago.
    pub(crate) now_ms: u64,
    /// Number of dropped reports and resets: data that a snapshot saw before no longer exists.
    pub(super) removals: u64,
    watch: watch::Watch,
    /// Aggregates before this one have been cut in the ending second.
    cut: usize,
}

/// A report to be filled from the raw rows before it goes live: call [`Reports::fill`] until it is
/// consumed.
#[derive(Debug)]
pub struct Filling {
    entry: Entry,
    /// Id of the next request to add.
    next: u64,
}

/// Memory and counts of one report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes: its own, and an even share of what it shares with others.
    pub heap_bytes: usize,
    /// Number of reports that share its groups, including itself.
    pub sharing: usize,
    /// The ticks of its window.
    pub ticks: Ticks,
    /// Records offered to and counted in its groups. The report may leave out some of them: those
    /// that lack a key which the other reports do not have.
    pub flow: Flow,
    /// Whether keys are under `(other)` for lack of memory.
    pub short_of_memory: bool,
    /// Whether quantiles are known: not after a tick without memory for histograms.
    pub has_histograms: bool,
}

impl Reports {
    /// Without reports.
    pub fn new(config: &ReportsConfig, raw_window: Ticks) -> Self {
        Self {
            entries: Vec::new(),
            aggregates: Vec::new(),
            budget: Budget::new(config.memory),
            rows_max: config.rows_max,
            error_status: config.error_status,
            deltas: RecordDeltas::default(),
            assignments: Vec::new(),
            raw_window,
            now_ms: 0,
            removals: 0,
            watch: watch::Watch::default(),
            cut: 0,
        }
    }

    /// Creates the initial reports, while the pool is empty. The finest are created first, so that
    /// coarser ones find an aggregate to join, and before them those with extremes that share one
    /// with the base reports: it has to keep these from its first record on. They are listed in the
    /// order given.
    pub fn define_at_start(
        &mut self,
        definitions: Vec<(Definition, DefinedBy)>,
        pool: &Pool,
        now_ms: u64,
    ) {
        self.now_ms = now_ms;
        let names: Vec<String> = definitions.iter().map(|(d, _)| d.name.clone()).collect();
        let mut finest_first = definitions;
        finest_first.sort_by_key(|(definition, _)| {
            let keeps_more = definition.extremes && self.shares_all_fields(definition);
            Reverse((keeps_more, definition.keys.len()))
        });
        for (definition, defined_by) in finest_first {
            self.define(Arc::new(definition), defined_by, pool);
        }
        self.list_as(&names);
    }

    /// Puts the reports into this order.
    fn list_as(&mut self, names: &[String]) {
        self.entries.sort_by_key(|entry| {
            names.iter().position(|name| *name == entry.definition.name).unwrap_or(usize::MAX)
        });
    }

    /// Creates a report. If no aggregate has what it needs and the pool has rows already, it is to
    /// be filled first. The caller has checked that the name is free.
    pub fn define(
        &mut self,
        definition: Arc<Definition>,
        defined_by: DefinedBy,
        pool: &Pool,
    ) -> Option<Filling> {
        let serves = |it: &Aggregate| !it.is_filling && it.scope.serves(&definition);
        let serving = self.aggregates.iter().position(|it| it.as_deref().is_some_and(serves));
        let oldest = pool.requests.oldest_id();
        let aggregate = serving.unwrap_or_else(|| {
            let keys = match self.shares_all_fields(&definition) {
                true => all_fields(),
                false => definition.keys.clone(),
            };
            let start_ms = pool.requests.get(oldest).map(|row| row.merged_at(self.now_ms));
            let scope = Scope::new(&definition, &keys);
            let mut aggregate = Box::new(Aggregate::new(scope, start_ms.unwrap_or(self.now_ms)));
            aggregate.is_filling = start_ms.is_some() || oldest > 1;
            put(&mut self.aggregates, aggregate)
        });
        let found = self.aggregates[aggregate].as_mut().expect("it serves the report");
        let entry = Entry {
            report: found.join(&definition, self.rows_max, Vec::new()),
            definition,
            defined_by,
            aggregate,
        };
        if found.is_filling {
            let next = oldest;
            return Some(Filling { entry, next });
        }
        self.entries.push(entry);
        self.update_watched(pool);
        None
    }

    /// Whether a report goes into the aggregate with all five request fields: the base reports, and
    /// similar ones.
    fn shares_all_fields(&self, definition: &Definition) -> bool {
        definition.level != Level::Timer
            && Ticks::of(definition.window) == self.raw_window
            && definition.filters.is_empty()
            && definition.keys.iter().all(|key| {
                matches!(key.source, KeySource::Field(_)) && key.missing == Missing::Empty
            })
    }

    /// Adds up to `requests` raw rows to a report that is being filled; returns it if there are
    /// more to come, `None` if it has caught up and is live.
    pub fn fill(
        &mut self,
        mut filling: Filling,
        pool: &mut Pool,
        requests: usize,
    ) -> Option<Filling> {
        let at = filling.entry.aggregate;
        let mut next = filling.next.max(pool.requests.oldest_id());
        let mut arrivals = Arrivals::default();
        for _ in 0..requests {
            let Some(row) = pool.requests.get(next) else { break };
            arrivals.clear();
            let timers = pool.timers_of(&row).map(|(_, timer)| timer);
            arrivals.timers().extend(timers);
            arrivals.push(next, row);
            let merged_ms = row.merged_at(self.now_ms);
            self.pass_of_filling(at, merged_ms, pool);
            if let Some(aggregate) = &mut self.aggregates[at] {
                aggregate.merged(merged_ms);
            }
            self.deltas.work_out(&arrivals, &pool.origins, self.error_status, true);
            self.count(at, &arrivals, pool);
            next += 1;
        }
        self.measure();
        filling.next = next;
        if next < pool.requests.next_id() {
            return Some(filling);
        }
        self.pass_of_filling(at, self.now_ms, pool);
        if let Some(aggregate) = &mut self.aggregates[at] {
            aggregate.is_filling = false;
        }
        self.entries.push(filling.entry);
        self.update_watched(pool);
        None
    }

    /// Advances time for an aggregate that is being filled.
    fn pass_of_filling(&mut self, filling: usize, now_ms: u64, pool: &mut Pool) {
        if let Some(aggregate) = self.aggregates[filling].as_mut().filter(|it| it.is_due(now_ms)) {
            aggregate.retire_until(now_ms, &mut pool.strings);
            aggregate.charge(&mut self.budget);
            let ticks = aggregate.scope.ticks;
            self.end_ticks(ticks, now_ms, pool, |at, _| at == filling);
            self.budget.ticks_closed();
        }
    }

    /// Drops a report; returns false if there is none of that name.
    pub fn remove(&mut self, name: &str, pool: &mut Pool) -> bool {
        let mut entries = self.entries.iter();
        let Some(at) = entries.position(|entry| entry.definition.name == name) else {
            return false;
        };
        self.removals += 1;
        let entry = self.entries.remove(at);
        self.update_watched(pool);
        let place = &mut self.aggregates[entry.aggregate];
        if let Some(mut aggregate) = place.take_if(|aggregate| aggregate.leave(entry.report)) {
            aggregate.clear(&mut pool.strings);
        }
        // At once: the next report may come before anything is merged.
        self.measure();
        true
    }

    /// Updates the source of a report's definition, if it exists.
    pub fn set_defined_by(&mut self, name: &str, by: DefinedBy) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.definition.name == name) {
            entry.defined_by = by;
        }
    }

    /// Counts requests in all reports.
    pub fn add(&mut self, arrivals: &Arrivals, pool: &mut Pool) {
        let with_timers = self.live().any(|aggregate| aggregate.scope.level == Level::Timer);
        self.deltas.work_out(arrivals, &pool.origins, self.error_status, with_timers);
        for at in 0..self.aggregates.len() {
            if self.aggregates[at].as_ref().is_some_and(|it| !it.is_filling) {
                self.count(at, arrivals, pool);
            }
        }
    }

    /// Counts requests in one aggregate, after their deltas were computed.
    fn count(&mut self, at: usize, arrivals: &Arrivals, pool: &mut Pool) {
        let Self { aggregates, budget, deltas, assignments, .. } = self;
        let Some(aggregate) = &mut aggregates[at] else { return };
        let memory = &mut Memory { pool, budget };
        let deltas = aggregate.assign(arrivals, deltas, assignments, memory);
        for assignments in assignments.chunks_mut(RECORDS_AT_ONCE) {
            if let Some(aggregate) = &mut aggregates[at] {
                aggregate.count(assignments, deltas, memory);
            }
            if memory.budget.excess().is_some() {
                let all = aggregates.iter_mut().flatten().map(AsMut::as_mut);
                relieve(&mut all.collect::<Vec<&mut Aggregate>>(), memory);
            }
        }
        if memory.budget.is_short() {
            for aggregate in aggregates.iter_mut().flatten() {
                aggregate.remove_many_empty_groups(&mut memory.pool.strings);
            }
        }
    }

    /// The aggregates that are not being filled.
    fn live(&mut self) -> impl Iterator<Item = &mut Aggregate> {
        let all = self.aggregates.iter_mut().flatten().map(AsMut::as_mut);
        all.filter(|aggregate| !aggregate.is_filling)
    }

    /// Records a merge at `now_ms`.
    pub fn merged(&mut self, now_ms: u64) {
        for aggregate in self.live() {
            aggregate.merged(now_ms);
        }
        self.measure();
    }

    /// Invalidates freed ids. Call it before any of them is reused.
    pub fn forget(&mut self, freed: &Freed) {
        for aggregate in self.aggregates.iter_mut().flatten() {
            aggregate.group_cache.forget(freed);
        }
    }

    /// Clears all data, keeps the reports.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.removals += 1;
        for aggregate in self.aggregates.iter_mut().flatten() {
            aggregate.clear(&mut pool.strings);
        }
        self.measure();
    }

    /// Memory of all aggregates.
    fn taken(&mut self) -> MemoryUse {
        let all = self.aggregates.iter_mut().flatten().map(|it| it.measure());
        all.fold(MemoryUse::default(), MemoryUse::plus)
    }

    fn measure(&mut self) {
        let taken = self.taken();
        if self.budget.measure(taken) {
            // Overflowed keys may have groups of their own again.
            for aggregate in self.aggregates.iter_mut().flatten() {
                aggregate.reset_cache();
            }
        }
    }

    /// The report called `name`.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.definition.name == name)
    }

    /// All reports, in the order in which they went live.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Current number of rows of a report.
    pub fn rows(&self, entry: &Entry) -> usize {
        match entry.definition.keys.is_empty() {
            true => 1,
            false => self.aggregate(entry).row_map(entry.report).len(),
        }
    }

    /// Keys of a report that are counted under `(other)` for lack of rows.
    pub fn overflowed(&self, entry: &Entry) -> usize {
        self.aggregate(entry).row_map(entry.report).overflowed
    }

    /// The version of a report's data: equal versions mean equal rows.
    pub fn version(&self, entry: &Entry) -> Version {
        (entry.aggregate, self.aggregate(entry).version)
    }

    /// Whole seconds that a report's answer covers, now.
    pub fn covered_secs(&self, entry: &Entry) -> u64 {
        let window_ms = entry.definition.window.as_millis() as u64;
        self.aggregate(entry).covered_secs(window_ms, self.now_ms)
    }

    /// Memory and counts of a report.
    pub fn usage(&self, entry: &Entry) -> Usage {
        let aggregate = self.aggregate(entry);
        Usage {
            heap_bytes: aggregate.heap_bytes_of(entry.report),
            sharing: aggregate.reports(),
            ticks: aggregate.scope.ticks,
            flow: aggregate.flow,
            short_of_memory: aggregate.is_short_of_memory(),
            has_histograms: aggregate.has_histograms(),
        }
    }

    /// Bytes of all reports, their budget, and how often a new key found no memory.
    pub fn memory(&self) -> (usize, usize, u64) {
        let budget = &self.budget;
        (budget.taken.all, budget.limit, budget.overflowed)
    }

    /// Number of aggregates: the cost of a packet grows with it.
    pub fn aggregates(&self) -> usize {
        self.aggregates.iter().flatten().filter(|it| !it.is_filling).count()
    }

    pub(super) fn aggregate(&self, entry: &Entry) -> &Aggregate {
        self.aggregates[entry.aggregate].as_ref().expect("a live report keeps its aggregate")
    }
}
