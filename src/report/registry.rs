//! The live reports: defined, found by name, kept in step, dropped.
//!
//! The merger hands every request to [`Reports::add`] and lets time pass with [`Reports::advance`]; nothing here reads
//! a clock. Reports join an aggregate when they are defined (see `aggregate`).

use std::sync::Arc;

use super::aggregate::overflow::relieve;
use super::aggregate::{Aggregate, Flow, NamesMut, Scope, all_fields};
use super::arrivals::{Arrival, Arrivals, Counter, Deltas};
use super::budget::{Budget, Taken};
use super::definition::{Definition, KeySource, Level};
use super::group_key::Names;
use super::read::PAIRS_MAX;
use super::reading::{Reading, Want};
use super::window::Ticks;
use crate::config::ReportsConfig;
use crate::pool::{Freed, Pool};

pub(super) mod snapshot;
mod time;

/// Records counted before it is looked at what they took.
const RECORDS_AT_ONCE: usize = 256;

/// Who defined a report, and so who may drop it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinedBy {
    /// It is always there.
    BuiltIn,
    /// A `[[report]]` of the configuration; the text says where.
    Configuration(String),
    /// Somebody, while the daemon ran.
    RunTime,
}

/// One live report.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it is.
    pub definition: Arc<Definition>,
    /// Who defined it.
    pub defined_by: DefinedBy,
    aggregate: usize,
    /// Its number in the aggregate.
    report: usize,
}

impl Entry {
    /// Whether both are the same report in the same place: one may be older, and have another shape.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.aggregate == other.aggregate
            && self.report == other.report
            && self.definition.name == other.definition.name
            && self.definition.keys == other.definition.keys
            && self.definition.level == other.definition.level
            && self.definition.buckets == other.definition.buckets
    }
}

/// All live reports.
#[derive(Debug)]
pub struct Reports {
    entries: Vec<Entry>,
    aggregates: Vec<Option<Box<Aggregate>>>,
    budget: Budget,
    rows_max: usize,
    error_status: u32,
    /// Group and gain of each record of the arrivals at hand, for one aggregate after the other.
    deltas: Deltas,
    assignments: Vec<(u32, u32)>,
    /// The window that base reports have; over it all reports on request fields share one aggregate.
    history: Ticks,
    /// Monotonic milliseconds up to which the merger let time pass. Whoever makes a report while the merger runs must not
    /// look at a clock of its own: what is merged next belongs to this moment, which may be a while ago.
    now_ms: u64,
    /// What reports take that are being filled.
    filling: Taken,
    /// Counts dropped reports and resets: what a snapshot saw before is not there any more.
    removals: u64,
}

/// A report that is being filled from the raw rows before it goes live.
#[derive(Debug)]
pub struct Filling {
    aggregate: Box<Aggregate>,
    definition: Arc<Definition>,
    report: usize,
    /// Id of the next request to take in.
    next: u64,
    /// What it took when it was looked at last.
    taken: Taken,
}

/// What one report takes, and what came through to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Bytes: its own, and an even share of what it shares with others.
    pub heap_bytes: usize,
    /// How many reports share its groups, itself included.
    pub sharing: usize,
    /// The ticks of its window.
    pub ticks: Ticks,
    /// What the groups that it shares were offered and counted. It may leave out some of that: what lacks a key
    /// that the other reports do not have.
    pub flow: Flow,
    /// Whether keys lie under `(other)` for want of memory.
    pub short_of_memory: bool,
    /// Whether quantiles are known: not so after a tick whose histograms found no memory.
    pub has_histograms: bool,
}

/// How [`Reports::define`] went on.
#[derive(Debug)]
pub enum Defined {
    /// The report is live and complete.
    Live,
    /// It needs to be filled: call [`Reports::fill`] until that says it is done.
    Filling(Filling),
}

impl Reports {
    /// No reports yet.
    #[must_use]
    pub fn new(config: &ReportsConfig, history: Ticks) -> Self {
        Self {
            entries: Vec::new(),
            aggregates: Vec::new(),
            budget: Budget::new(config.memory),
            rows_max: config.rows_max,
            error_status: config.error_status,
            deltas: Deltas::default(),
            assignments: Vec::new(),
            history,
            now_ms: 0,
            filling: Taken::default(),
            removals: 0,
        }
    }

    /// Makes the reports that are there from the start, while the pool is empty. The finest are made first, so that
    /// coarser ones find an aggregate to join; they are listed in the order given.
    pub fn define_at_start(
        &mut self,
        definitions: Vec<(Definition, DefinedBy)>,
        pool: &Pool,
        now_ms: u64,
    ) {
        self.now_ms = now_ms;
        let names: Vec<String> = definitions.iter().map(|(d, _)| d.name.clone()).collect();
        let mut finest_first = definitions;
        finest_first.sort_by_key(|(definition, _)| std::cmp::Reverse(definition.keys.len()));
        for (definition, defined_by) in finest_first {
            self.define(Arc::new(definition), defined_by, pool);
        }
        self.entries.sort_by_key(|entry| {
            names
                .iter()
                .position(|name| *name == entry.definition.name)
                .unwrap_or(usize::MAX)
        });
    }

    /// Makes a report. When no aggregate keeps what it needs and the pool has rows already, it is to be filled first.
    /// The caller has seen that the name is free.
    pub fn define(
        &mut self,
        definition: Arc<Definition>,
        defined_by: DefinedBy,
        pool: &Pool,
    ) -> Defined {
        let scope = scope_of(&definition);
        let serving = self
            .aggregates
            .iter_mut()
            .enumerate()
            .find_map(|(at, aggregate)| {
                aggregate
                    .as_mut()
                    .filter(|aggregate| aggregate.serves(&scope, &definition))
                    .map(|f| (at, f))
            });
        if let Some((aggregate, serving)) = serving {
            let report = serving.join(&definition, self.rows_max);
            self.entries.push(Entry {
                definition,
                defined_by,
                aggregate,
                report,
            });
            return Defined::Live;
        }
        let keys = if self.shares_all_fields(&definition) {
            all_fields()
        } else {
            definition.keys.clone()
        };
        let oldest = pool.requests.oldest_id();
        let start_ms = pool
            .requests
            .get(oldest)
            .map(|row| row.merged_at(self.now_ms));
        let mut aggregate = Box::new(Aggregate::new(
            scope,
            definition.filters.clone(),
            &keys,
            start_ms.unwrap_or(self.now_ms),
        ));
        let report = aggregate.join(&definition, self.rows_max);
        if start_ms.is_none() && oldest == 1 {
            self.go_live(aggregate, definition, defined_by, report);
            return Defined::Live;
        }
        Defined::Filling(Filling {
            aggregate,
            definition,
            report,
            next: oldest,
            taken: Taken::default(),
        })
    }

    /// Whether a report goes into the aggregate that keeps all five request fields: the base reports, and what is like them.
    fn shares_all_fields(&self, definition: &Definition) -> bool {
        use super::definition::Missing;
        definition.level != Level::Timer
            && Ticks::of(definition.window) == self.history
            && definition.filters.is_empty()
            && definition.keys.iter().all(|key| {
                matches!(key.source, KeySource::Field(_)) && key.missing == Missing::Empty
            })
    }

    /// Takes up to `requests` raw rows into a report that is being filled; gives it back when there are more to come,
    /// `None` when it has caught up and is live.
    pub fn fill(
        &mut self,
        mut filling: Filling,
        defined_by: &DefinedBy,
        pool: &mut Pool,
        requests: usize,
    ) -> Option<Filling> {
        let aggregate = &mut filling.aggregate;
        // Numbers may have been given away since the last time.
        aggregate.reset_cache();
        let mut next = filling.next.max(pool.requests.oldest_id());
        let mut arrivals = Arrivals::default();
        let mut timers = Vec::new();
        for _ in 0..requests {
            let Some(row) = pool.requests.get(next) else {
                break;
            };
            timers.clear();
            timers.extend(pool.timers_of(&row).map(|(_, timer)| timer));
            arrivals.clear();
            arrivals.push(
                Arrival {
                    id: next,
                    origin: row.origin,
                    request_tags: row.request_tags,
                    request_time: row.request_time,
                    ru_utime: row.ru_utime,
                    ru_stime: row.ru_stime,
                    document_size: row.document_size,
                    memory_peak: row.memory_peak,
                    memory_footprint: row.memory_footprint,
                    timers: timers.len() as u32,
                },
                &timers,
            );
            let (strings, origins, tag_sets) = pool.split();
            let merged_ms = row.merged_at(self.now_ms);
            self.pass_of_filling(aggregate, merged_ms, strings);
            aggregate.merged(merged_ms);
            let mut names = NamesMut {
                strings,
                origins,
                tag_sets,
            };
            let of_timers = aggregate.scope.level == Level::Timer;
            self.deltas
                .work_out(&arrivals, origins, self.error_status, of_timers);
            let mut counter = Counter {
                names: &mut names,
                budget: &mut self.budget,
                deltas: &self.deltas,
                assignments: &mut self.assignments,
            };
            let deltas = counter.assign(aggregate, &arrivals);
            aggregate.count(
                counter.assignments,
                deltas,
                counter.names.strings,
                counter.budget,
            );
            if counter.budget.excess().is_some() {
                let live = self.aggregates.iter_mut().flatten().map(AsMut::as_mut);
                let mut all: Vec<&mut Aggregate> = live.chain([aggregate.as_mut()]).collect();
                relieve(&mut all, counter.names.strings, counter.budget);
                for aggregate in all {
                    aggregate.forget_emptied(counter.names.strings);
                }
            }
            next += 1;
        }
        filling.next = next;
        if next < pool.requests.next_id() {
            let taken = filling.aggregate.taken();
            self.filling_took(filling.taken, taken);
            filling.taken = taken;
            return Some(filling);
        }
        self.filling_took(filling.taken, Taken::default());
        let Filling {
            mut aggregate,
            definition,
            report,
            ..
        } = filling;
        self.pass_of_filling(&mut aggregate, self.now_ms, pool.split().0);
        self.go_live(aggregate, definition, defined_by.clone(), report);
        None
    }

    /// What a report took that is being filled was this, and is that.
    fn filling_took(&mut self, before: Taken, after: Taken) {
        self.filling.all = self.filling.all + after.all - before.all;
        self.filling.closed = self.filling.closed + after.closed - before.closed;
    }

    fn go_live(
        &mut self,
        aggregate: Box<Aggregate>,
        definition: Arc<Definition>,
        defined_by: DefinedBy,
        report: usize,
    ) {
        let at = match self.aggregates.iter().position(Option::is_none) {
            Some(at) => {
                self.aggregates[at] = Some(aggregate);
                at
            }
            None => {
                self.aggregates.push(Some(aggregate));
                self.aggregates.len() - 1
            }
        };
        self.entries.push(Entry {
            definition,
            defined_by,
            aggregate: at,
            report,
        });
    }

    /// Drops a report; false when there is none of that name.
    pub fn remove(&mut self, name: &str, pool: &mut Pool) -> bool {
        let Some(at) = self
            .entries
            .iter()
            .position(|entry| entry.definition.name == name)
        else {
            return false;
        };
        self.removals += 1;
        let entry = self.entries.remove(at);
        let place = &mut self.aggregates[entry.aggregate];
        if let Some(mut aggregate) = place.take_if(|aggregate| aggregate.leave(entry.report)) {
            aggregate.clear(pool.split().0);
        }
        true
    }

    /// Says anew who defined a report, if there is one of that name.
    pub fn set_defined_by(&mut self, name: &str, by: DefinedBy) {
        let mut entries = self.entries.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.definition.name == name) {
            entry.defined_by = by;
        }
    }

    /// Counts requests in every report that wants them.
    pub fn add(&mut self, arrivals: &Arrivals, pool: &mut Pool) {
        let (strings, origins, tag_sets) = pool.split();
        let mut names = NamesMut {
            strings,
            origins,
            tag_sets,
        };
        let Self {
            aggregates,
            budget,
            deltas,
            assignments,
            error_status,
            ..
        } = self;
        let mut levels = aggregates
            .iter()
            .flatten()
            .map(|aggregate| aggregate.scope.level);
        let with_timers = levels.any(|level| level == Level::Timer);
        deltas.work_out(arrivals, origins, *error_status, with_timers);
        let mut counter = Counter {
            names: &mut names,
            budget,
            deltas,
            assignments,
        };
        for at in 0..aggregates.len() {
            let Some(aggregate) = &mut aggregates[at] else {
                continue;
            };
            let deltas = counter.assign(aggregate, arrivals);
            let mut counted = 0;
            while let Some(aggregate) = &mut aggregates[at]
                && counted < counter.assignments.len()
            {
                let until = counter.assignments.len().min(counted + RECORDS_AT_ONCE);
                let assignments = &counter.assignments[counted..until];
                aggregate.count(assignments, deltas, counter.names.strings, counter.budget);
                counted = until;
                if counter.budget.excess().is_some() {
                    relieve_all(aggregates, &mut counter);
                }
            }
            if counter.budget.is_short() {
                for aggregate in aggregates.iter_mut().flatten() {
                    aggregate.forget_emptied(counter.names.strings);
                }
            }
        }
    }

    /// A merge brought something at `now_ms`.
    pub fn merged(&mut self, now_ms: u64) {
        for aggregate in self.aggregates.iter_mut().flatten() {
            aggregate.merged(now_ms);
        }
        self.measure();
    }

    /// Forgets what stood behind freed numbers. To be called before any of them is used again.
    pub fn forget(&mut self, freed: &Freed) {
        for aggregate in self.aggregates.iter_mut().flatten() {
            aggregate.forget(freed);
        }
    }

    /// Drops all data, keeps the reports.
    pub fn clear(&mut self, pool: &mut Pool) {
        self.removals += 1;
        for aggregate in self.aggregates.iter_mut().flatten() {
            aggregate.clear(pool.split().0);
        }
        self.measure();
    }

    /// What all take together.
    fn taken(&self) -> Taken {
        let aggregates = self.aggregates.iter().flatten();
        aggregates.fold(self.filling, |sum, aggregate| sum + aggregate.taken())
    }

    fn measure(&mut self) {
        let taken = self.taken();
        if self.budget.measure(taken) {
            // Keys that were overflowed may have groups of their own again.
            for aggregate in self.aggregates.iter_mut().flatten() {
                aggregate.reset_cache();
            }
        }
    }

    /// The report called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|entry| entry.definition.name == name)
    }

    /// All reports, in the order in which they went live.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Rows of a report at present.
    #[must_use]
    pub fn rows(&self, entry: &Entry) -> usize {
        let rows = self.aggregate(entry).row_map(entry.report).len();
        if entry.definition.keys.is_empty() {
            1
        } else {
            rows
        }
    }

    /// Keys of a report that are counted under `(other)` for want of rows.
    #[must_use]
    pub fn overflowed(&self, entry: &Entry) -> usize {
        self.aggregate(entry).row_map(entry.report).overflowed()
    }

    /// Counts the changes to a report's data: equal numbers mean equal rows.
    #[must_use]
    pub fn version(&self, entry: &Entry) -> (usize, u64) {
        (entry.aggregate, self.aggregate(entry).version)
    }

    /// What a report takes, and what came through to it.
    #[must_use]
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

    /// Bytes that all reports take, their budget, and how often a new key found no memory.
    #[must_use]
    pub fn memory(&self) -> (usize, usize, u64) {
        (
            self.budget.used(),
            self.budget.limit(),
            self.budget.overflowed_count(),
        )
    }

    /// How many aggregates the reports make: what a packet costs grows with these.
    #[must_use]
    pub fn aggregates(&self) -> usize {
        self.aggregates.iter().flatten().count()
    }

    /// A report as it stands.
    #[must_use]
    pub fn read(&self, entry: &Entry, want: Want, pool: &Pool, unix_ms: u64) -> Reading {
        let mut one = self.read_all(&[(entry, want)], pool, unix_ms);
        one.pop().unwrap_or_default()
    }

    /// Reports as they stand, in this order. Those that share groups cost little more than one of them.
    #[must_use]
    pub fn read_all(&self, asked: &[(&Entry, Want)], pool: &Pool, unix_ms: u64) -> Vec<Reading> {
        self.read_within(asked, pool, unix_ms, PAIRS_MAX)
    }

    /// The same with another bound on what is put in order at a time, in histogram buckets of 16 bytes a report: what does not
    /// fit takes longer.
    #[must_use]
    pub fn read_within(
        &self,
        asked: &[(&Entry, Want)],
        pool: &Pool,
        unix_ms: u64,
        pairs_max: usize,
    ) -> Vec<Reading> {
        let names = Names::of(pool);
        let mut readings = vec![Reading::default(); asked.len()];
        let mut aggregates: Vec<usize> = asked.iter().map(|(entry, _)| entry.aggregate).collect();
        aggregates.sort_unstable();
        aggregates.dedup();
        for number in aggregates {
            let of_this = || {
                let all = asked.iter().enumerate();
                all.filter(|(_, (entry, _))| entry.aggregate == number)
            };
            let together: Vec<_> = of_this()
                .map(|(_, (entry, want))| (entry.report, entry.definition.as_ref(), *want))
                .collect();
            let Some((_, (first, _))) = of_this().next() else {
                continue;
            };
            let aggregate = self.aggregate(first);
            for ((at, (entry, _)), mut reading) in
                of_this().zip(aggregate.read(&together, &names, pairs_max))
            {
                let window = entry.definition.window;
                reading.window_secs = window.as_secs_f64();
                reading.covered_secs = aggregate.coverage.covered_secs(window.as_millis() as u64);
                reading.as_of_ms = unix_ms;
                readings[at] = reading;
            }
        }
        readings
    }

    /// How the times of one row are spread: the histogram of the first row that `is_wanted` says yes to, (bucket, count)
    /// in the layout of the definition. Takes the sums of all rows, but the histograms of this one alone.
    pub fn read_histogram(
        &self,
        entry: &Entry,
        pool: &Pool,
        unix_ms: u64,
        is_wanted: impl Fn(&Reading, usize) -> bool,
    ) -> Option<Vec<(u32, u64)>> {
        let reading = self.read(entry, Want::default(), pool, unix_ms);
        let place = (0..reading.len()).find(|&row| is_wanted(&reading, row))?;
        let aggregate = self.aggregate(entry);
        Some(aggregate.histogram(entry.report, &entry.definition, place))
    }

    fn aggregate(&self, entry: &Entry) -> &Aggregate {
        self.aggregates[entry.aggregate]
            .as_ref()
            .expect("a live report keeps its aggregate")
    }
}

#[cold]
fn relieve_all(aggregates: &mut [Option<Box<Aggregate>>], counter: &mut Counter<'_, '_>) {
    let all = aggregates.iter_mut().flatten().map(AsMut::as_mut);
    let mut all: Vec<&mut Aggregate> = all.collect();
    relieve(&mut all, counter.names.strings, counter.budget);
}

fn scope_of(definition: &Definition) -> Scope {
    Scope {
        // A packet report is a request report without keys.
        level: if definition.level == Level::Timer {
            Level::Timer
        } else {
            Level::Request
        },
        ticks: Ticks::of(definition.window),
        buckets: definition.buckets,
        extremes: definition.extremes,
    }
}
