//! Rows in the form that ClickHouse gets: of reports, of coverage, and raw requests with their tags
//! and timers. Each table is a list of columns: name, type and value.

use super::native::{Items, RowWriter, Value};
use crate::history::requests::{Tags, Timers};
use crate::history::{Coverage, Dataset, Identity, Row, ShipmentRows};
use crate::pool::resolved::{Request, Rusage, Timer};
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;

/// The source of the rows, which every row names.
#[derive(Debug)]
pub(super) struct Origin {
    /// The identity of the store.
    pub(super) store: u128,
    pub(super) names: Identity,
    /// The rows that are shipped together.
    pub(super) units: ShipmentRows,
}

/// A row of a report, or of its coverage.
pub(super) struct ReportRow<'r> {
    pub(super) origin: &'r Origin,
    pub(super) dataset: &'r Dataset,
    pub(super) row: &'r Row,
}

impl<'r> ReportRow<'r> {
    /// The report that it is of, and its definition.
    fn of(&self) -> [&'r str; 2] {
        let mut keys = key_texts(&self.row.key);
        match self.dataset.is_coverage() {
            true => [(); 2].map(|()| keys.next().unwrap_or_default()),
            false => [&self.dataset.report, &self.dataset.hash],
        }
    }

    fn totals(&self) -> &Totals {
        &self.row.gain.sum.totals
    }

    fn extreme(&self, at: usize) -> Option<u64> {
        Some(self.row.gain.extremes.seen()?[at])
    }
}

/// A request with its timers, and how many requests it stands for.
pub(super) struct RequestRow<'r> {
    pub(super) origin: &'r Origin,
    /// The names of tags that may leave this machine; "*" stands for all.
    pub(super) tags: &'r [String],
    pub(super) request: &'r Request<'r, Tags<'r>>,
    pub(super) weight: f64,
    pub(super) timers: Option<&'r Timers<'r>>,
}

impl<'r> RequestRow<'r> {
    fn sent(&self, tags: &'r Tags<'r>) -> impl Value {
        let is_sent = |name: &str| self.tags.iter().any(|it| it == "*" || it == name);
        Items(tags.iter().copied().filter(move |(name, _)| is_sent(name)))
    }

    /// A value of each timer.
    fn timers<V: Value>(&self, value: impl Fn(&'r Timer<Tags<'r>>) -> V) -> impl Value {
        Items(self.timers.into_iter().flat_map(|it| &it.timers).map(value))
    }
}

/// CPU times: 0 if not known.
fn times(of: Rusage) -> [u64; 2] {
    of.times_us().unwrap_or_default()
}

/// A sum of a minute, whose requests have 32 bits each: it fits.
fn narrow(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// A column of a table: its name, its type there including the codec, and its value in a row.
/// Columns are only ever added, so those that there are stay what they are.
pub(super) type Column<V> = (&'static str, &'static str, V);
pub(super) type OfReport = fn(&ReportRow<'_>, &mut RowWriter<'_>);
pub(super) type OfRequest = fn(&RequestRow<'_>, &mut RowWriter<'_>);

const NAME: &str = "LowCardinality(String)";
const TIME: &str = "DateTime('UTC') CODEC(Delta, ZSTD(1))";
const SUM: &str = "UInt128 CODEC(ZSTD(1))";
const COUNT: &str = "UInt64 CODEC(T64, ZSTD(1))";
const OPTIONAL: &str = "Nullable(UInt64) CODEC(ZSTD(1))";
const COUNTS: &str = "Map(UInt32, UInt64) CODEC(ZSTD(1))";
const TAGS: &str = "Map(LowCardinality(String), String) CODEC(ZSTD(1))";
const TIMES: &str = "Array(UInt64) CODEC(ZSTD(1))";
const HITS: &str = "Array(UInt32) CODEC(ZSTD(1))";
const TIMER_TAGS: &str = "Array(Map(LowCardinality(String), String)) CODEC(ZSTD(1))";
const FLAGS: &str = "Array(Bool) CODEC(ZSTD(1))";

/// The first columns of both tables of a report. A UUID is two numbers of 64 bits, the upper one
/// first.
pub(super) const REPORT: [Column<OfReport>; 7] = [
    ("report", NAME, |it, to| to.value(it.of()[0])),
    ("definition", NAME, |it, to| to.value(it.of()[1])),
    ("t", TIME, |it, to| to.value(u32::try_from(it.row.time).unwrap_or(u32::MAX))),
    ("dc", NAME, |it, to| to.value(&*it.origin.names.dc)),
    ("collector", NAME, |it, to| to.value(&*it.origin.names.collector)),
    ("store", "UUID", |it, to| to.value(it.origin.store.rotate_left(64))),
    ("part", "UInt32", |it, to| to.value(it.origin.units.part())),
];

/// Columns of a report's rows behind these.
pub(super) const ROLLUP: [Column<OfReport>; 16] = [
    ("key", "Array(LowCardinality(String))", |it, to| to.value(Items(key_texts(&it.row.key)))),
    ("other", "Bool", |it, to| to.value(it.row.is_other)),
    ("req_count", COUNT, |it, to| to.value(it.totals().requests)),
    ("hit_count", SUM, |it, to| to.value(it.totals().hits)),
    ("error_count", COUNT, |it, to| to.value(it.totals().errors)),
    ("time_total_us", SUM, |it, to| to.value(it.totals().time)),
    ("ru_utime_total_us", SUM, |it, to| to.value(it.totals().ru_utime)),
    ("ru_stime_total_us", SUM, |it, to| to.value(it.totals().ru_stime)),
    ("traffic_total", COUNT, |it, to| to.value(narrow(it.totals().traffic))),
    ("memory_footprint_total", COUNT, |it, to| to.value(narrow(it.totals().memory))),
    ("unmeasured_count", SUM, |it, to| to.value(it.totals().unmeasured)),
    ("time_min_us", OPTIONAL, |it, to| to.value(it.extreme(0))),
    ("time_max_us", OPTIONAL, |it, to| to.value(it.extreme(1))),
    ("memory_peak_max", OPTIONAL, |it, to| to.value(it.extreme(2))),
    ("has_histogram", "Bool", |it, to| to.value(it.row.gain.buckets().is_some())),
    ("histogram", COUNTS, |it, to| to.value(Items(it.row.gain.buckets().into_iter().flatten()))),
];

/// Columns of coverage behind these.
pub(super) const COVERAGE: [Column<OfReport>; 5] = [
    ("seconds", COUNT, |it, to| to.value(Coverage::of(it.totals()).secs)),
    ("missed_requests", COUNT, |it, to| to.value(Coverage::of(it.totals()).missed)),
    ("histograms_dropped", COUNT, |it, to| to.value(Coverage::of(it.totals()).histograms_dropped)),
    ("keys_folded", COUNT, |it, to| to.value(Coverage::of(it.totals()).keys_folded)),
    ("rows_lost", COUNT, |it, to| to.value(Coverage::of(it.totals()).rows_lost)),
];

/// Columns of raw requests.
pub(super) const REQUEST: [Column<OfRequest>; 28] = [
    ("ts", TIME, |it, to| to.value(it.request.received)),
    ("dc", NAME, |it, to| to.value(&*it.origin.names.dc)),
    ("collector", NAME, |it, to| to.value(&*it.origin.names.collector)),
    ("store", "UUID", |it, to| to.value(it.origin.store.rotate_left(64))),
    ("part", "UInt32", |it, to| to.value(it.origin.units.part())),
    ("run", "UInt32", |it, to| to.value(it.request.run as u32)),
    ("id", "UInt64 CODEC(Delta, ZSTD(1))", |it, to| to.value(it.request.id)),
    ("hostname", NAME, |it, to| to.value(it.request.hostname)),
    ("server_name", NAME, |it, to| to.value(it.request.server_name)),
    ("script_name", NAME, |it, to| to.value(it.request.script_name)),
    ("schema", NAME, |it, to| to.value(it.request.schema.unwrap_or_default())),
    ("status", "UInt32", |it, to| to.value(it.request.status)),
    ("req_count", "UInt32", |it, to| to.value(it.request.request_count)),
    ("req_time_us", COUNT, |it, to| to.value(it.request.time_us)),
    ("ru_utime_us", COUNT, |it, to| to.value(times(it.request.rusage)[0])),
    ("ru_stime_us", COUNT, |it, to| to.value(times(it.request.rusage)[1])),
    ("doc_size", COUNT, |it, to| to.value(u64::from(it.request.document_size))),
    ("mem_peak", COUNT, |it, to| to.value(u64::from(it.request.memory_peak))),
    ("memory_footprint", COUNT, |it, to| to.value(u64::from(it.request.memory_footprint))),
    ("weight", "Float64 CODEC(ZSTD(1))", |it, to| to.value(it.weight)),
    ("tags", TAGS, |it, to| to.value(it.sent(&it.request.tags))),
    ("timers.value_us", TIMES, |it, to| to.value(it.timers(|timer| timer.value_us))),
    ("timers.hits", HITS, |it, to| to.value(it.timers(|timer| timer.hit_count))),
    ("timers.ru_utime_us", TIMES, |it, to| to.value(it.timers(|timer| times(timer.rusage)[0]))),
    ("timers.ru_stime_us", TIMES, |it, to| to.value(it.timers(|timer| times(timer.rusage)[1]))),
    ("timers.tags", TIMER_TAGS, |it, to| to.value(it.timers(|timer| it.sent(&timer.tags)))),
    ("unmeasured", "Bool", |it, to| to.value(it.request.rusage.times_us().is_none())),
    ("timers.unmeasured", FLAGS, |it, to| to.value(it.timers(|of| of.rusage.times_us().is_none()))),
];
