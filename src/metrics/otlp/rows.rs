//! Rows of the pushed reports, accumulated until each becomes a point.
//!
//! Written by the series thread once a second; read by the push thread, which takes the interval
//! completed so far. Intervals end at the ends of the stream's seconds, so they join without gap or
//! overlap however late they are taken.
//!
//! - Delta: a row has its gain since the last point, and is removed with it.
//! - Cumulative: a row only grows, from when the report was first watched.
//!
//! Bounded by [`ROWS_MAX`] and [`BYTES_MAX`]: rows beyond are added up in `(other)`.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::body::{Bodies, Interval, Kind};
use super::exponential::{Exponential, zero_threshold};
use crate::delta::{RowDelta, RowReader, Second};
use crate::input::otlp::messages::{Exemplar, HistogramPoint, KeyValue, NumberPoint};
use crate::metrics::exemplars::{self, Traced};
use crate::metrics::rows::{COUNTERS, DURATIONS, Measures};
use crate::report::definition::{Definition, Field, KeySource, Level};
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::report::{OTHER_ID, Watched, Watchlist};
use crate::value::Unit;

/// Exemplars of a point, as in the SDKs.
const POINT_MAX: usize = 20;

/// Maximum number of rows of all reports together.
const ROWS_MAX: usize = 10_000;
/// Maximum size of the points of all rows, bytes.
pub(super) const BYTES_MAX: usize = 32 << 20;
/// Size of a row's points beside its key and its histogram's counts, bytes.
const ROW_BYTES: usize = 1_024;

/// Rows of all pushed reports.
#[derive(Debug)]
pub(super) struct Rows {
    watched: Watchlist,
    is_delta: bool,
    reports: Vec<ReportRows>,
    /// Index of the report being read.
    current: Option<usize>,
    rows: usize,
    bytes: usize,
    /// Requests or hits counted in `(other)` for lack of room.
    folded: u64,
    /// Start of the open interval and end of its seconds, milliseconds since 1970.
    start_ms: u64,
    end_ms: u64,
}

#[derive(Debug)]
struct ReportRows {
    report: Arc<Watched>,
    /// Attribute name of each key, and whether its value is a number.
    attributes: Vec<(String, bool)>,
    /// Start of counting, milliseconds since 1970.
    start_ms: u64,
    rows: HashMap<u64, Row, ahash::RandomState>,
    other: Row,
}

#[derive(Debug, Default)]
struct Row {
    key: Box<[u8]>,
    totals: Totals,
    times: Exponential,
    is_changed: bool,
}

impl Row {
    fn add(&mut self, gained: &RowDelta<'_>, definition: &Definition) {
        let totals = &gained.totals;
        self.is_changed = true;
        self.totals += totals;
        let mut known = 0;
        for (bucket, count) in gained.times.iter().cloned().flatten() {
            self.times.add(&definition.buckets, bucket, count);
            known += count;
        }
        // Times whose bucket is unknown for lack of memory are counted at the average.
        let events = match definition.level {
            Level::Timer => u64::try_from(totals.hits).unwrap_or(u64::MAX),
            Level::Packet | Level::Request => totals.requests,
        };
        let unknown = events.saturating_sub(known);
        if unknown > 0 {
            let mean_us = u64::try_from(totals.time / u128::from(events)).unwrap_or(u64::MAX);
            let bucket = definition.buckets.bucket(mean_us);
            self.times.add(&definition.buckets, bucket, unknown);
        }
    }
}

impl ReportRows {
    fn new(report: &Arc<Watched>, start_ms: u64) -> Self {
        Self {
            attributes: attributes(&report.definition),
            report: Arc::clone(report),
            start_ms,
            rows: HashMap::default(),
            other: Row::default(),
        }
    }

    fn of_timers(&self) -> bool {
        self.report.definition.level == Level::Timer
    }

    /// Returns its rows with their attributes, `(other)` last.
    fn each(&self, all: bool) -> impl Iterator<Item = (Vec<KeyValue>, &Row)> {
        let name = || KeyValue::text(REPORT, self.report.definition.name.as_str());
        let rows = self.rows.values().map(move |row| {
            let keys = self.attributes.iter().zip(key_texts(&row.key));
            let keys = keys.map(|((attribute, is_number), text)| match text.parse() {
                Ok(number) if *is_number => KeyValue::number(attribute.as_str(), number),
                _ => KeyValue::text(attribute.as_str(), text),
            });
            (std::iter::once(name()).chain(keys).collect(), row)
        });
        let other = (vec![name(), KeyValue::truth(OVERFLOW)], &self.other);
        let counted =
            move |(_, row): &(_, &Row)| (all || row.is_changed) && row.totals != Totals::ZERO;
        rows.chain([other]).filter(counted)
    }
}

/// Attribute names that keys cannot have.
const REPORT: &str = "pinbad.report";
const OVERFLOW: &str = "otel.metric.overflow";
const CPU_MODE: &str = "cpu.mode";

/// Returns the attribute name of each key, following the semantic conventions, and whether its
/// value is a number. A tag whose name is taken is prefixed with `pinbad.`.
fn attributes(definition: &Definition) -> Vec<(String, bool)> {
    let field = |field: Field| match field {
        Field::Hostname => "host.name",
        Field::ServerName => "server.address",
        Field::ScriptName => "http.route",
        Field::Schema => "url.scheme",
        Field::Status => "http.response.status_code",
    };
    let sources = || definition.keys.iter().map(|key| &key.source);
    let fields = sources().filter_map(|source| match source {
        KeySource::Field(of) => Some(field(*of)),
        _ => None,
    });
    let own = [REPORT, OVERFLOW, CPU_MODE].into_iter().chain(fields);
    let mut taken: BTreeSet<String> = own.map(str::to_owned).collect();
    let names = sources().map(|source| match source {
        KeySource::Field(of) => (field(*of).to_owned(), *of == Field::Status),
        KeySource::RequestTag(tag)
        | KeySource::TimerTag(tag)
        | KeySource::TimerTagOrField(tag, _) => {
            let name = free(tag, |name| taken.contains(name));
            taken.insert(name.clone());
            (name, false)
        }
    });
    names.collect()
}

/// Returns the name of a tag, prefixed with `pinbad.` until it is not taken.
fn free(tag: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = tag.to_owned();
    while is_taken(&name) {
        name.insert_str(0, "pinbad.");
    }
    name
}

/// Adds a tag to attributes.
pub(super) fn push_unique(attributes: &mut Vec<KeyValue>, tag: &str, value: &str) {
    let name = free(tag, |name| attributes.iter().any(|it| it.key == name));
    attributes.push(KeyValue::text(name, value));
}

impl Rows {
    /// Creates empty rows that count from `now_ms` on.
    pub(super) fn new(watched: Watchlist, is_delta: bool, now_ms: u64) -> Self {
        Self {
            watched,
            is_delta,
            reports: Vec::new(),
            current: None,
            rows: 0,
            bytes: 0,
            folded: 0,
            start_ms: now_ms,
            end_ms: now_ms,
        }
    }

    /// Takes a second, whose rows are supplied by `read`.
    pub(super) fn take(&mut self, second: &Second, read: impl FnOnce(&mut dyn RowReader)) {
        let watched = self.watched.now();
        let is_pushed =
            |it: &ReportRows| watched.iter().any(|report| Arc::ptr_eq(report, &it.report));
        // As a delta, the gain of a removed report still has to be sent.
        if !self.is_delta && !self.reports.iter().all(is_pushed) {
            self.reports.retain(is_pushed);
            self.measure();
        }
        for report in second.reports().filter(|it| it.is_pushed) {
            if self.position(report).is_none() {
                self.reports.push(ReportRows::new(report, self.end_ms));
            }
        }
        read(self);
        // The wall clock may have been set back; the end must not go back.
        let end_ms = (second.unix_secs + second.secs) * 1_000;
        self.end_ms = self.end_ms.max(end_ms);
    }

    fn measure(&mut self) {
        let rows = self.reports.iter().flat_map(|it| it.rows.values());
        let bytes = rows.map(|row| row_bytes(&row.key));
        (self.rows, self.bytes) = bytes.fold((0, 0), |(rows, sum), it| (rows + 1, sum + it));
    }

    fn position(&self, report: &Watched) -> Option<usize> {
        self.reports.iter().position(|it| it.report.number == report.number)
    }

    /// Returns the completed interval if it is at least `period_ms` long. `last_ms` ends the last
    /// interval at that time.
    pub(super) fn interval(&self, period_ms: u64, last_ms: Option<u64>) -> Option<Interval> {
        let end_ms = last_ms.map_or(self.end_ms, |now| now.max(self.end_ms).max(self.start_ms + 1));
        (end_ms >= self.start_ms + period_ms)
            .then_some(Interval { start_ms: self.start_ms, end_ms })
    }

    /// Returns the start of the open interval.
    pub(super) const fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// Returns the maximum size of the points of all rows, bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of rows, and the count in `(other)` for lack of room.
    pub(super) const fn counts(&self) -> (usize, u64) {
        (self.rows, self.folded)
    }

    /// Makes points of the rows that changed, or of all, and begins the next interval.
    pub(super) fn cut(
        &mut self,
        interval: &Interval,
        all: bool,
        traced: &[Traced],
        bodies: &mut Bodies<'_>,
    ) {
        for of_timers in [false, true] {
            let of_level = |it: &&ReportRows| it.of_timers() == of_timers;
            let reports = || self.reports.iter().filter(of_level);
            if reports().next().is_none() {
                continue;
            }
            let (name, help) = DURATIONS[usize::from(of_timers)];
            let durations = bodies.metric(name, help, "s", Kind::Histogram);
            let counters = COUNTERS.iter().filter(|it| it.0 == of_timers);
            let counters = counters.map(|(_, name, help, measures)| {
                let metric = bodies.metric(name, help, unit(measures), Kind::Sum);
                (metric, *measures)
            });
            let counters: Vec<_> = counters.collect();
            for report in reports() {
                let definition = &report.report.definition;
                let traced = exemplars::by_key(traced, definition);
                let (start, time) = interval.times(match self.is_delta {
                    true => interval.start_ms,
                    false => report.start_ms,
                });
                for (attributes, row) in report.each(all) {
                    let mut point =
                        NumberPoint { start, time, attributes, ..NumberPoint::default() };
                    for (metric, measures) in &counters {
                        for (mode, measure) in *measures {
                            let number = measure.of(&row.totals);
                            if self.is_delta && number == 0 {
                                continue;
                            }
                            let is_time = measure.unit() == Unit::Seconds;
                            let whole = i64::try_from(number).unwrap_or(i64::MAX);
                            point.as_double = is_time.then_some(number as f64 / 1e6);
                            point.as_int = (!is_time).then_some(whole);
                            let mode = mode.map(|mode| KeyValue::text(CPU_MODE, mode));
                            let keys = point.attributes.len();
                            point.attributes.extend(mode);
                            bodies.point(*metric, &point);
                            point.attributes.truncate(keys);
                        }
                    }
                    let of_row = traced.get(&*row.key).filter(|_| row.is_changed);
                    let of_row = of_row.map(|it| exemplars_of(it, &row.times, definition));
                    let point = HistogramPoint {
                        exemplars: of_row.unwrap_or_default(),
                        attributes: point.attributes,
                        start,
                        time,
                        count: row.times.zero + row.times.counts.iter().sum::<u64>(),
                        sum: Some(row.totals.time as f64 / 1e6),
                        zero_threshold: zero_threshold(&definition.buckets),
                        ..row.times.point()
                    };
                    bodies.point(durations, &point);
                }
            }
        }
        self.start_ms = interval.end_ms;
        self.end_ms = interval.end_ms;
        if self.is_delta {
            self.reports.clear();
            self.measure();
        }
        for report in &mut self.reports {
            let rows = report.rows.values_mut().chain([&mut report.other]);
            rows.for_each(|row| row.is_changed = false);
        }
    }
}

/// Returns the maximum size of the points of a row with this key, bytes.
fn row_bytes(key: &[u8]) -> usize {
    // Up to seven points carry the key as attributes.
    ROW_BYTES + Exponential::BYTES_MAX + 8 * key.len()
}

/// Returns the OpenTelemetry unit of a counter.
fn unit(measures: Measures) -> &'static str {
    match measures[0].1.unit() {
        Unit::Seconds => "s",
        Unit::Bytes => "By",
        _ => "{request}",
    }
}

impl RowReader for Rows {
    fn begin(&mut self, report: &Watched) {
        self.current = self.position(report);
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Some(at) = self.current else { return };
        let report = &mut self.reports[at];
        let place = match report.rows.entry(row.id) {
            _ if row.id == OTHER_ID => &mut report.other,
            Entry::Occupied(row) => row.into_mut(),
            Entry::Vacant(place) => {
                let key = row.key.bytes();
                let bytes = self.bytes + row_bytes(&key);
                if self.rows < ROWS_MAX && bytes <= BYTES_MAX {
                    (self.rows, self.bytes) = (self.rows + 1, bytes);
                    place.insert(Row { key: key.into(), ..Row::default() })
                } else {
                    self.folded += row.totals.requests;
                    &mut report.other
                }
            }
        };
        place.add(row, &report.report.definition);
    }

    fn end(&mut self) {
        self.current = None;
    }
}

/// Returns an exemplar for each bucket that has one.
fn exemplars_of(traced: &[&Traced], times: &Exponential, definition: &Definition) -> Vec<Exemplar> {
    let mut found: HashMap<_, Exemplar, RandomState> = HashMap::default();
    for one in traced {
        let bucket = times.index_of(&definition.buckets, one.time_us);
        if found.len() < POINT_MAX {
            found.entry(bucket).or_insert_with(|| one.exemplar.clone());
        }
    }
    found.into_values().collect()
}
