//! Rows of the pushed reports, accumulated until each becomes a point.
//!
//! Written by the series thread once a second; read by the push thread, which takes the interval
//! completed so far. Intervals end at the ends of the stream's seconds, so they join without gap or
//! overlap however late they are taken.
//!
//! - Delta: a row has its gain since the last point, and is removed with it.
//! - Cumulative: a row only grows, from when the report was first watched.
//!
//! A redefined report continues the rows of the one before it, so that no stream is sent twice.
//!
//! Bounded by [`ROWS_MAX`] and [`BYTES_MAX`]: rows beyond are added up in `(other)`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::body::{Bodies, Interval, Kind, unit_name};
use super::exponential::{Exponential, zero_threshold};
use crate::delta::{RowDelta, RowReader, Second};
use crate::input::otlp::messages::{Exemplar, HistogramPoint, KeyValue, NumberPoint};
use crate::metrics::exemplars::{self, Traced};
use crate::metrics::rows::{COUNTERS, DURATIONS, each_time, unit};
use crate::report::definition::{Definition, Field, Key, KeySource, Level};
use crate::report::row_key::{key_of, key_texts};
use crate::report::totals::Totals;
use crate::report::{OTHER_ID, Watched};
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
    pub(super) is_delta: bool,
    /// By their numbers, the oldest first.
    reports: BTreeMap<u64, ReportRows>,
    /// Number of the report being read.
    current: Option<u64>,
    /// Rows with a place, which `(other)` has without it, as of the last second.
    pub(super) rows: usize,
    /// Maximum size of their points.
    pub(super) bytes: usize,
    /// Requests or hits counted in `(other)` for lack of room.
    pub(super) folded: u64,
    /// The open interval, up to the end of its seconds.
    pub(super) open: Interval,
}

#[derive(Debug)]
struct ReportRows {
    definition: Arc<Definition>,
    /// The attribute of each key.
    key_attributes: Vec<String>,
    /// Shorter times count as zero, seconds.
    zero_threshold: f64,
    /// Start of counting, milliseconds since 1970.
    start_ms: u64,
    /// By their ids, [`OTHER_ID`] among them.
    rows: HashMap<u64, Row, RandomState>,
}

#[derive(Debug, Default)]
struct Row {
    key: Box<[u8]>,
    totals: Totals,
    times: Exponential,
    is_changed: bool,
}

/// The attribute that tells user from system time.
const CPU_MODE: &str = "cpu.mode";
/// The attributes that name a report, and mark its `(other)`.
const REPORT: &str = "pinbad.report";
const OVERFLOW: &str = "otel.metric.overflow";

/// The attribute of each field, in the order of [`Field`]: its name in the semantic conventions.
const FIELD_ATTRIBUTES: [&str; Field::COUNT] =
    ["host.name", "server.address", "http.route", "url.scheme", "http.response.status_code"];

/// Returns the attribute of each key: tags have their own name unless it is taken.
fn key_attributes(keys: &[Key]) -> Vec<String> {
    let fields = keys.iter().filter_map(|key| match key.source {
        KeySource::Field(field) => Some(FIELD_ATTRIBUTES[field as usize]),
        _ => None,
    });
    // All three names are taken, whether or not a row has them.
    let taken = [CPU_MODE, OVERFLOW, REPORT].into_iter().chain(fields);
    let mut taken: Vec<String> = taken.map(str::to_owned).collect();
    let attributes = keys.iter().map(|key| match &key.source {
        KeySource::Field(field) => FIELD_ATTRIBUTES[*field as usize].to_owned(),
        KeySource::RequestTag(tag)
        | KeySource::TimerTag(tag)
        | KeySource::TimerTagOrField(tag, _) => {
            let name = unique_name(tag, |name| taken.iter().any(|it| it == name));
            taken.push(name.clone());
            name
        }
    });
    attributes.collect()
}

/// Returns a name that is not taken: that of the tag, with `pinbad.` before it until it is not.
fn unique_name(tag: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut name = tag.to_owned();
    while is_taken(&name) {
        name.insert_str(0, "pinbad.");
    }
    name
}

/// Adds a tag to attributes, under a name that is not taken.
pub(super) fn push_unique(attributes: &mut Vec<KeyValue>, tag: &str, value: &str) {
    let name = unique_name(tag, |name| attributes.iter().any(|it| it.key == name));
    attributes.push(KeyValue::text(name, value));
}

impl ReportRows {
    /// Continues the rows of an earlier definition of its report that would be the same streams. It
    /// has no rows itself yet.
    fn continue_rows(&mut self, report: &Watched, earlier: &mut Self, is_delta: bool) {
        let [of_timers, before] = [&*self, &*earlier].map(|it| it.definition.level == Level::Timer);
        // For each key, the place of the earlier one with the same attribute, unless some differ.
        let of_earlier = |name| earlier.key_attributes.iter().position(|it| it == name);
        let order: Option<Vec<usize>> = self.key_attributes.iter().map(of_earlier).collect();
        let order = order.filter(|it| it.len() == earlier.key_attributes.len());
        // A cumulative row continues only with its start, which all rows have in common.
        if earlier.definition.name != self.definition.name
            || before != of_timers
            || order.is_none() && !is_delta
        {
            return;
        }
        self.start_ms = self.start_ms.min(earlier.start_ms);
        self.zero_threshold = self.zero_threshold.max(earlier.zero_threshold);
        for (id, mut row) in std::mem::take(&mut earlier.rows) {
            match &order {
                // It has no keys.
                _ if id == OTHER_ID => _ = self.rows.insert(id, row),
                Some(order) => {
                    let texts: Vec<&str> = key_texts(&row.key).collect();
                    row.key = key_of(order.iter().filter_map(|at| texts.get(*at))).into();
                    self.rows.insert(report.row_id(&row.key), row);
                }
                None => _ = earlier.rows.insert(id, row),
            }
        }
    }

    /// Returns the attributes of a row.
    fn attributes_of(&self, id: u64, row: &Row) -> Vec<KeyValue> {
        let overflow = (id == OTHER_ID).then(|| KeyValue::truth(OVERFLOW));
        let report = KeyValue::text(REPORT, self.definition.name.as_str());
        let keys = self.definition.keys.iter().zip(&self.key_attributes).zip(key_texts(&row.key));
        let keys = keys.map(|((key, name), text)| match (&key.source, text.parse()) {
            (KeySource::Field(Field::Status), Ok(status)) => KeyValue::number(name, status),
            _ => KeyValue::text(name, text),
        });
        overflow.into_iter().chain([report]).chain(keys).collect()
    }
}

impl Rows {
    /// Creates empty rows that count from `now_ms` on.
    pub(super) fn new(is_delta: bool, now_ms: u64) -> Self {
        let open = Interval { start_ms: now_ms, end_ms: now_ms };
        Self { is_delta, open, ..Self::default() }
    }

    /// Takes a second, whose rows are supplied by `read`.
    pub(super) fn take(&mut self, second: &Second, read: impl FnOnce(&mut dyn RowReader)) {
        // As a delta, the gain of a removed report still has to be sent. The list of the second
        // counts: the reports of now may have been defined after it.
        if !self.is_delta {
            let watched: BTreeSet<u64> = second.reports().map(|it| it.number).collect();
            self.reports.retain(|number, _| watched.contains(number));
        }
        let rows = self.reports.values().flat_map(|it| &it.rows).filter(|it| *it.0 != OTHER_ID);
        let bytes = rows.map(|(_, row)| row_bytes(&row.key));
        (self.rows, self.bytes) = bytes.fold((0, 0), |(rows, sum), it| (rows + 1, sum + it));
        read(self);
        // The wall clock may have been set back; the end must not go back.
        let end_ms = (second.unix_secs + second.secs) * 1_000;
        self.open.end_ms = self.open.end_ms.max(end_ms);
    }

    /// Makes points of the rows that changed, or of all, and begins the next interval.
    pub(super) fn cut(&mut self, all: bool, traced: &[Traced], bodies: &mut Bodies) {
        // `pinbad_request_duration` is `pinbad.request.duration` here.
        let dotted = |name: &str| name.replacen('_', ".", 2);
        for (of_timers, (name, help)) in [false, true].into_iter().zip(DURATIONS) {
            let durations = bodies.metric(dotted(name), help, "s", Kind::Histogram);
            let counters = COUNTERS.iter().filter(|it| it.0 == of_timers);
            let counters = counters.map(|(_, name, help, measures)| {
                let unit = unit_name(unit(measures).as_ref()).unwrap_or("{request}");
                (bodies.metric(dotted(name), help, unit, Kind::Sum), *measures)
            });
            let counters: Vec<_> = counters.collect();
            let reports = self.reports.values();
            for report in reports.filter(|it| (it.definition.level == Level::Timer) == of_timers) {
                let definition = &report.definition;
                let traced = exemplars::by_key(traced, definition);
                let [start, time] = [report.start_ms, self.open.end_ms].map(|ms| ms * 1_000_000);
                for (id, row) in report.rows.iter().filter(|it| all || it.1.is_changed) {
                    let attributes = report.attributes_of(*id, row);
                    let keys = attributes.len();
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
                            point.attributes.extend(mode.map(|it| KeyValue::text(CPU_MODE, it)));
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
                        zero_threshold: report.zero_threshold,
                        ..row.times.point()
                    };
                    bodies.point(durations, &point);
                }
            }
        }
        self.open.start_ms = self.open.end_ms;
        if self.is_delta {
            self.reports.clear();
        }
        let rows = self.reports.values_mut().flat_map(|it| it.rows.values_mut());
        rows.for_each(|row| row.is_changed = false);
    }
}

/// Returns the maximum size of the points of a row with this key, bytes.
fn row_bytes(key: &[u8]) -> usize {
    // Up to seven points carry the key as attributes.
    ROW_BYTES + Exponential::BYTES_MAX + 8 * key.len()
}

impl RowReader for Rows {
    fn begin(&mut self, report: &Watched) {
        self.current = report.is_pushed.then_some(report.number);
        if !report.is_pushed || self.reports.contains_key(&report.number) {
            return;
        }
        let definition = &report.definition;
        let mut new = ReportRows {
            definition: Arc::clone(definition),
            key_attributes: key_attributes(&definition.keys),
            zero_threshold: zero_threshold(&definition.buckets),
            start_ms: if self.is_delta { self.open.start_ms } else { self.open.end_ms },
            rows: HashMap::default(),
        };
        for earlier in self.reports.values_mut() {
            new.continue_rows(report, earlier, self.is_delta);
        }
        // Of rows that end here only the gain as a delta still has to be sent.
        let is_other = |it: &ReportRows| it.definition.name != new.definition.name;
        self.reports.retain(|_, it| is_other(it) || self.is_delta && !it.rows.is_empty());
        self.reports.insert(report.number, new);
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Some(report) = self.current.and_then(|number| self.reports.get_mut(&number)) else {
            return;
        };
        let mut id = row.id;
        if id != OTHER_ID && !report.rows.contains_key(&id) {
            let key = row.key.bytes();
            let bytes = self.bytes + row_bytes(&key);
            if self.rows < ROWS_MAX && bytes <= BYTES_MAX {
                (self.rows, self.bytes) = (self.rows + 1, bytes);
                report.rows.insert(id, Row { key: key.into(), ..Row::default() });
            } else {
                self.folded += row.totals.requests;
                id = OTHER_ID;
            }
        }
        let to = report.rows.entry(id).or_default();
        to.is_changed = true;
        to.totals += &row.totals;
        let definition = &report.definition;
        each_time(row, definition, |it, count| to.times.add(&definition.buckets, it, count));
    }
}

/// Returns an exemplar for each bucket that has one.
fn exemplars_of(traced: &[&Traced], times: &Exponential, definition: &Definition) -> Vec<Exemplar> {
    let mut buckets = HashSet::new();
    let bucket = |it: &Traced| times.index_of(&definition.buckets, it.time_us);
    let first = traced.iter().filter(|it| buckets.insert(bucket(it)));
    first.take(POINT_MAX).map(|it| it.exemplar.clone()).collect()
}
