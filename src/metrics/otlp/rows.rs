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

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::body::{Bodies, Interval, Kind};
use super::exponential::{Exponential, zero_threshold};
use crate::delta::{RowDelta, RowReader, Second};
use crate::input::otlp::messages::{Exemplar, HistogramPoint, KeyValue, NumberPoint};
use crate::metrics::exemplars::{self, Traced};
use crate::metrics::rows::{COUNTERS, DURATIONS, Measures, each_time};
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
#[derive(Debug, Default)]
pub(super) struct Rows {
    watched: Watchlist,
    is_delta: bool,
    /// By their numbers, the oldest first.
    reports: BTreeMap<u64, ReportRows>,
    /// Number of the report being read.
    current: Option<u64>,
    pub(super) rows: usize,
    /// Maximum size of the points of all rows.
    pub(super) bytes: usize,
    /// Requests or hits counted in `(other)` for lack of room.
    pub(super) folded: u64,
    /// The open interval, up to the end of its seconds.
    pub(super) open: Interval,
}

#[derive(Debug)]
struct ReportRows {
    definition: Arc<Definition>,
    /// Attribute name of each key, and whether its value is a number.
    attributes: Vec<(String, bool)>,
    /// Start of counting, milliseconds since 1970.
    start_ms: u64,
    rows: HashMap<u64, Row, RandomState>,
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
        self.is_changed = true;
        self.totals += &gained.totals;
        let buckets = &definition.buckets;
        each_time(gained, definition, |bucket, count| self.times.add(buckets, bucket, count));
    }
}

impl ReportRows {
    /// Returns its rows with their attributes, `(other)` last.
    fn each(&self, all: bool) -> impl Iterator<Item = (Vec<KeyValue>, &Row)> {
        let name = || KeyValue::text(REPORT, self.definition.name.as_str());
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
    let mut taken: Vec<String> = own.map(str::to_owned).collect();
    let names = sources().map(|source| match source {
        KeySource::Field(of) => (field(*of).to_owned(), *of == Field::Status),
        KeySource::RequestTag(tag)
        | KeySource::TimerTag(tag)
        | KeySource::TimerTagOrField(tag, _) => {
            taken.push(free(tag, taken.iter()));
            (taken.last().cloned().unwrap_or_default(), false)
        }
    });
    names.collect()
}

/// Returns the name of a tag, prefixed with `pinbad.` until it is not taken.
fn free<'t>(tag: &str, taken: impl Iterator<Item = &'t String> + Clone) -> String {
    let mut name = tag.to_owned();
    while taken.clone().any(|it| *it == name) {
        name.insert_str(0, "pinbad.");
    }
    name
}

/// Adds a tag to attributes.
pub(super) fn push_unique(attributes: &mut Vec<KeyValue>, tag: &str, value: &str) {
    let name = free(tag, attributes.iter().map(|it| &it.key));
    attributes.push(KeyValue::text(name, value));
}

impl Rows {
    /// Creates empty rows that count from `now_ms` on.
    pub(super) fn new(watched: Watchlist, is_delta: bool, now_ms: u64) -> Self {
        let open = Interval { start_ms: now_ms, end_ms: now_ms };
        Self { watched, is_delta, open, ..Self::default() }
    }

    /// Takes a second, whose rows are supplied by `read`.
    pub(super) fn take(&mut self, second: &Second, read: impl FnOnce(&mut dyn RowReader)) {
        // As a delta, the gain of a removed report still has to be sent.
        if !self.is_delta {
            let (watched, before) = (self.watched.now(), self.reports.len());
            self.reports.retain(|number, _| watched.iter().any(|it| it.number == *number));
            if self.reports.len() < before {
                self.measure();
            }
        }
        read(self);
        // The wall clock may have been set back; the end must not go back.
        let end_ms = (second.unix_secs + second.secs) * 1_000;
        self.open.end_ms = self.open.end_ms.max(end_ms);
    }

    fn measure(&mut self) {
        let rows = self.reports.values().flat_map(|it| it.rows.values());
        let bytes = rows.map(|row| row_bytes(&row.key));
        (self.rows, self.bytes) = bytes.fold((0, 0), |(rows, sum), it| (rows + 1, sum + it));
    }

    /// Returns the completed interval if it is at least `period_ms` long. `last_ms` ends the last
    /// interval at that time.
    pub(super) fn interval(&self, period_ms: u64, last_ms: Option<u64>) -> Option<Interval> {
        let Interval { start_ms, end_ms } = self.open;
        let end_ms = last_ms.map_or(end_ms, |now| now.max(end_ms).max(start_ms + 1));
        (end_ms >= start_ms + period_ms).then_some(Interval { start_ms, end_ms })
    }

    /// Makes points of the rows that changed, or of all, and begins the next interval.
    pub(super) fn cut(
        &mut self,
        interval: &Interval,
        all: bool,
        traced: &[Traced],
        bodies: &mut Bodies,
    ) {
        for (of_timers, (name, help)) in [false, true].into_iter().zip(DURATIONS) {
            let of_level = |it: &&ReportRows| (it.definition.level == Level::Timer) == of_timers;
            let reports: Vec<_> = self.reports.values().filter(of_level).collect();
            if reports.is_empty() {
                continue;
            }
            let durations = bodies.metric(name, help, "s", Kind::Histogram);
            let counters = COUNTERS.iter().filter(|it| it.0 == of_timers);
            let counters = counters.map(|(_, name, help, measures)| {
                let metric = bodies.metric(name, help, unit(measures), Kind::Sum);
                (metric, *measures)
            });
            let counters: Vec<_> = counters.collect();
            for report in reports {
                let definition = &report.definition;
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
                        sum: Some(row.totals.time as f64 / 1e6),
                        zero_threshold: zero_threshold(&definition.buckets),
                        ..row.times.point()
                    };
                    bodies.point(durations, &point);
                }
            }
        }
        self.open = Interval { start_ms: interval.end_ms, ..*interval };
        if self.is_delta {
            self.reports.clear();
            self.measure();
        }
        for report in self.reports.values_mut() {
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
        self.current = report.is_pushed.then_some(report.number);
        if report.is_pushed {
            self.reports.entry(report.number).or_insert_with(|| ReportRows {
                definition: Arc::clone(&report.definition),
                attributes: attributes(&report.definition),
                start_ms: self.open.end_ms,
                rows: HashMap::default(),
                other: Row::default(),
            });
        }
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Some(report) = self.current.and_then(|number| self.reports.get_mut(&number)) else {
            return;
        };
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
        place.add(row, &report.definition);
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
