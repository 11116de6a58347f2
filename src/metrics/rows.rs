//! Rows of reports as counters and histograms that only grow.
//!
//! Fed by the series thread once a second with the gain of each row; read by scrapes. A row gets
//! its place once and keeps it as long as the report exists: a counter that disappears and comes
//! back smaller would ruin every rate over it. Places are limited by a budget of series; when it is
//! used up, rows without one are added up in `(other)`. Among the new rows of a second those with
//! the most time get their place first.

use std::collections::BTreeMap;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::exemplars::{ByKey, Traced, by_key};
use crate::delta::{RowDelta, RowReader};
use crate::pool::strings::OTHER_TEXT;
use crate::report::definition::{Definition, Level};
use crate::report::layout::Measure;
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::report::{OTHER_ID, Watched, Watchlist, label_names};
use crate::telemetry::reading::{Group, Place, readings};
use crate::value;

/// The rows of all reports.
#[derive(Debug)]
pub(super) struct Rows {
    watched: Watchlist,
    reports: Vec<ReportMetrics>,
    /// Requests without a place in reports that were dropped.
    folded_before: u64,
    bounds: Arc<[u64]>,
    series_max: usize,
    /// The report being counted, how many new rows may get a place, and those rows.
    counted: Option<usize>,
    room: usize,
    new: Vec<(Box<[u8]>, Row)>,
}

/// The rows of one report.
#[derive(Debug)]
struct ReportMetrics {
    report: Arc<Watched>,
    /// Names of the labels, one per key.
    labels: Vec<String>,
    /// For each bound, the first bucket of the report above the one that contains it: a time of
    /// exactly the bound counts.
    edges: Vec<u32>,
    /// Rows by key.
    rows: BTreeMap<Box<[u8]>, Row>,
    /// The sum of rows without a place, and of those that are `(other)` in the report already.
    other: Row,
    /// Requests there for lack of places.
    folded: u64,
}

#[derive(Debug, Clone)]
struct Row {
    totals: Totals,
    /// Times by bound; the last is above all bounds.
    buckets: Box<[u64]>,
}

impl Row {
    fn new(bounds: usize) -> Self {
        Self { totals: Totals::ZERO, buckets: vec![0; bounds + 1].into() }
    }

    fn add(&mut self, gained: &RowDelta<'_>, definition: &Definition, edges: &[u32]) {
        self.totals += &gained.totals;
        each_time(gained, definition, |bucket, count| {
            self.buckets[edges.partition_point(|&edge| edge <= bucket)] += count;
        });
    }

    fn add_row(&mut self, other: &Self) {
        self.totals += &other.totals;
        for (bucket, gained) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += gained;
        }
    }
}

/// Passes the times that a row gained to `add`, as bucket and count. Those whose bucket is unknown
/// for lack of memory are counted at the average.
pub(super) fn each_time(
    gained: &RowDelta<'_>,
    definition: &Definition,
    mut add: impl FnMut(u32, u64),
) {
    let (totals, mut known) = (&gained.totals, 0);
    for (bucket, count) in gained.times.iter().cloned().flatten() {
        add(bucket, count);
        known += count;
    }
    let events = match definition.level {
        Level::Timer => u64::try_from(totals.hits).unwrap_or(u64::MAX),
        Level::Packet | Level::Request => totals.requests,
    };
    if events > known {
        let mean_us = u64::try_from(totals.time / u128::from(events)).unwrap_or(u64::MAX);
        add(definition.buckets.bucket(mean_us), events - known);
    }
}

impl ReportMetrics {
    /// An empty set of rows.
    fn new(report: &Arc<Watched>, bounds: &[u64]) -> Self {
        let buckets = &report.definition.buckets;
        Self {
            labels: labels(&report.key_names),
            edges: bounds.iter().map(|&bound| buckets.bucket(bound) + 1).collect(),
            report: Arc::clone(report),
            rows: BTreeMap::new(),
            other: Row::new(bounds.len()),
            folded: 0,
        }
    }

    fn of_timers(&self) -> bool {
        self.report.definition.level == Level::Timer
    }

    /// Series of all rows, with those without a place as one.
    fn series(&self) -> usize {
        (self.rows.len() + 1) * self.series_of_row()
    }

    /// Series of one row: its buckets, their sum and count, and its counters.
    fn series_of_row(&self) -> usize {
        self.edges.len() + 1 + 2 + if self.of_timers() { 3 } else { 4 }
    }

    /// Counts the gain of a row; a new one may get one of `room` places. The only row of a report
    /// without keys uses `other`: it exists from the start, so that rates include its first
    /// request.
    fn count(&mut self, gained: &RowDelta<'_>, new: &mut Vec<(Box<[u8]>, Row)>, room: usize) {
        let Self { report, labels, edges, rows, other, folded } = self;
        let definition = &report.definition;
        if let Some(row) = rows.get_mut(&*gained.key.bytes()).filter(|_| gained.id != OTHER_ID) {
            row.add(gained, definition, edges);
        } else if room == 0 || gained.id == OTHER_ID {
            other.add(gained, definition, edges);
            if gained.id != OTHER_ID && !labels.is_empty() {
                *folded += gained.totals.requests;
            }
        } else {
            let mut row = Row::new(edges.len());
            row.add(gained, definition, edges);
            new.push((gained.key.bytes().into(), row));
            if new.len() >= 2 * room {
                heaviest(new, room, (other, folded));
            }
        }
    }
}

/// Keeps the `room` rows with the most time, in descending order, and adds the rest to `other`, and
/// their requests to `folded`.
fn heaviest(rows: &mut Vec<(Box<[u8]>, Row)>, room: usize, (other, folded): (&mut Row, &mut u64)) {
    rows.sort_unstable_by(|a, b| (b.1.totals.time, &b.0).cmp(&(a.1.totals.time, &a.0)));
    for (_, row) in rows.drain(room.min(rows.len())..) {
        other.add_row(&row);
        *folded += row.totals.requests;
    }
}

/// Where the status shows the usage of the budget.
pub(super) const STATUS: Place = Place::Object("metrics");

impl Rows {
    /// An empty set of rows for the scraped reports among `watched`: they are shown from the start.
    pub(super) fn new(watched: Watchlist, bounds: Arc<[u64]>, series_max: usize) -> Self {
        let scraped = watched.now();
        let scraped = scraped.iter().filter(|it| it.is_scraped);
        Self {
            reports: scraped.map(|it| ReportMetrics::new(it, &bounds)).collect(),
            folded_before: 0,
            watched,
            bounds,
            series_max,
            counted: None,
            room: 0,
            new: Vec::new(),
        }
    }

    /// Adds reports created meanwhile, if there is room for one row of each, and forgets dropped
    /// ones.
    pub(super) fn follow(&mut self) {
        let watched = self.watched.now();
        let reports = &mut self.reports;
        let gone = reports
            .extract_if(.., |it| watched.iter().all(|watched| !Arc::ptr_eq(watched, &it.report)));
        self.folded_before += gone.map(|it| it.folded).sum::<u64>();
        for report in watched.iter().filter(|it| it.is_scraped) {
            if reports.iter().all(|it| !Arc::ptr_eq(&it.report, report)) {
                let series: usize = reports.iter().map(ReportMetrics::series).sum();
                let new = ReportMetrics::new(report, &self.bounds);
                if series + new.series() <= self.series_max {
                    reports.push(new);
                }
            }
        }
    }

    fn series(&self) -> usize {
        self.reports.iter().map(ReportMetrics::series).sum()
    }

    /// Usage of the budget of series.
    pub(super) fn status(&self) -> Group {
        let folded = self.reports.iter().map(|it| it.folded).sum::<u64>();
        let folded = self.folded_before + folded;
        let rows = |it: &ReportMetrics| it.rows.len() + usize::from(it.labels.is_empty());
        let rows: usize = self.reports.iter().map(rows).sum();
        let readings = readings! {
            Gauge series = self.series(), "Series of rows that have a place.";
            Gauge series_max = self.series_max, "Limit of that number (metrics.series_max).";
            Gauge rows = rows, "Rows that have series of their own.";
            Counter requests_folded = folded, "Requests counted under (other) because metrics.series_max was used up, over all reports.";
        };
        Group::new(STATUS, readings)
    }

    /// Writes all rows, one metric after the other. Adds to `exemplars` that of each bucket, in the
    /// order of their lines.
    pub(super) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        traced: &[Traced],
        exemplars: &mut Vec<Option<String>>,
    ) -> std::fmt::Result {
        for timers in [false, true] {
            if self.reports.iter().any(|it| it.of_timers() == timers) {
                self.encode_durations(encoder, timers, (traced, exemplars))?;
                self.encode_counters(encoder, timers)?;
            }
        }
        Ok(())
    }

    fn encode_durations(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        timers: bool,
        (traced, exemplars): (&[Traced], &mut Vec<Option<String>>),
    ) -> std::fmt::Result {
        let (name, help) = DURATIONS[usize::from(timers)];
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut metric = encoder.encode_descriptor(name, help, unit, kind)?;
        let mut of_report: Option<(&str, ByKey<'_>)> = None;
        self.each(timers, None, |(report, key), labels, row| {
            let name = report.definition.name.as_str();
            if of_report.as_ref().is_none_or(|it| it.0 != name) {
                of_report = Some((name, by_key(traced, &report.definition)));
            }
            let of_row = of_report.as_ref().and_then(|it| it.1.get(key));
            let mut of_buckets = vec![None; row.buckets.len()];
            for one in of_row.into_iter().flatten().rev() {
                let bucket = self.bounds.partition_point(|bound| *bound < one.time_us);
                of_buckets[bucket] = Some(one.in_open_metrics());
            }
            exemplars.extend(of_buckets);
            let bounds = self.bounds.iter().map(|&us| seconds(us.into()));
            let bounds = bounds.chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(row.buckets.iter().copied()).collect();
            let (sum, count) = (seconds(row.totals.time), row.buckets.iter().sum());
            let mut metric = metric.encode_family(labels)?;
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })
    }

    fn encode_counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        timers: bool,
    ) -> std::fmt::Result {
        for (_, name, help, measures) in COUNTERS.iter().filter(|it| it.0 == timers) {
            let (unit, kind) = (unit(measures), MetricType::Counter);
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (mode, measure) in *measures {
                self.each(timers, *mode, |_, labels, row| {
                    let number = measure.of(&row.totals);
                    let mut metric = metric.encode_family(labels)?;
                    if let Some(Unit::Seconds) = unit {
                        return metric.encode_counter::<NoLabelSet, _, u64>(&seconds(number), None);
                    }
                    let count = u64::try_from(number).unwrap_or(u64::MAX);
                    metric.encode_counter::<NoLabelSet, _, u64>(&count, None)
                })?;
            }
        }
        Ok(())
    }

    /// Passes every row to `write`, with its report and key, and the labels `report`, one per key,
    /// and `mode`.
    fn each<'a>(
        &'a self,
        timers: bool,
        mode: Option<&str>,
        mut write: impl FnMut((&'a Watched, &[u8]), &Vec<(&str, &str)>, &Row) -> std::fmt::Result,
    ) -> std::fmt::Result {
        for report in self.reports.iter().filter(|it| it.of_timers() == timers) {
            let has_other = report.labels.is_empty() || report.other.totals != Totals::ZERO;
            let other = has_other.then_some((&[][..], &report.other));
            let rows = report.rows.iter().map(|(key, row)| (&**key, row));
            for (key, row) in rows.chain(other) {
                let texts = key_texts(key).chain(std::iter::repeat(OTHER_TEXT));
                let mut labels = vec![("report", report.report.definition.name.as_str())];
                labels.extend(report.labels.iter().map(String::as_str).zip(texts));
                labels.extend(mode.map(|mode| ("mode", mode)));
                write((&*report.report, key), &labels, row)?;
            }
        }
        Ok(())
    }
}

impl RowReader for Rows {
    fn begin(&mut self, report: &Watched) {
        let is_it = |it: &ReportMetrics| it.report.number == report.number;
        self.counted = self.reports.iter().position(is_it);
        self.room = self.counted.map_or(0, |at| {
            let report = &self.reports[at];
            let room = self.series_max.saturating_sub(self.series()) / report.series_of_row();
            if report.labels.is_empty() { 0 } else { room }
        });
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        if let Some(at) = self.counted {
            self.reports[at].count(row, &mut self.new, self.room);
        }
    }

    fn end(&mut self) {
        if let Some(at) = self.counted {
            let report = &mut self.reports[at];
            heaviest(&mut self.new, self.room, (&mut report.other, &mut report.folded));
            report.rows.extend(self.new.drain(..));
        }
    }
}

fn seconds(us: u128) -> f64 {
    us as f64 / 1e6
}

/// The histograms of requests and of timers: name, help.
pub(super) const DURATIONS: [(&str, &str); 2] = [
    (
        "pinbad_request_duration",
        "Request times, by row of a report; its count is the number of requests",
    ),
    (
        "pinbad_timer_duration",
        "Timer values per hit, by row of a report; its count is the number of hits",
    ),
];

/// The measures of a counter, by the label `mode` if it has one.
pub(super) type Measures = &'static [(Option<&'static str>, Measure)];

const CPU: Measures = &[(Some("user"), Measure::RuUtime), (Some("system"), Measure::RuStime)];

/// The counters: whether of timers, name, help, measures.
#[rustfmt::skip]
pub(super) const COUNTERS: [(bool, &str, &str, Measures); 5] = [
    (false, "pinbad_request_cpu", "CPU time of requests, by row of a report", CPU),
    (false, "pinbad_request_errors", "Requests with a status of reports.error_status or above, by row of a report",
        &[(None, Measure::Errors)]),
    (false, "pinbad_request_traffic", "Document sizes, by row of a report", &[(None, Measure::Traffic)]),
    (true, "pinbad_timer_cpu", "CPU time of timers, by row of a report", CPU),
    (true, "pinbad_timer_requests", "Requests that had such a timer, by row of a report", &[(None, Measure::Requests)]),
];

/// The unit of a counter; `None` if it counts requests.
pub(super) fn unit(measures: Measures) -> Option<Unit> {
    match measures[0].1.unit() {
        value::Unit::Seconds => Some(Unit::Seconds),
        value::Unit::Bytes => Some(Unit::Bytes),
        _ => None,
    }
}

/// A label for each key of a report, avoiding reserved names.
fn labels(keys: &[String]) -> Vec<String> {
    label_names(keys, "key_", |it| ["report", "mode", "le", "job", "instance"].contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::RowKey;
    use crate::grammar::native::ReportForm;
    use crate::input::record::Hasher;
    use crate::merger::Live;
    use crate::merger::test_harness::{self, Limits};
    use crate::report::WatchSettings;
    use crate::report::definition::Defaults;
    use crate::report::encoded_gain::EncodedGain;
    use crate::report::key_names;
    use crate::report::totals::Extremes;

    /// The rows of `info` and of another report.
    fn rows() -> (Live, Rows) {
        let limits = Limits::SMALL;
        let form = r#"{"level": "request", "keys": ["script_name"]}"#;
        let own = test_harness::with_own(&test_harness::defaults(limits.window), &[("own", form)]);
        let mut live = limits.live(&Hasher::new(), own);
        let settings = WatchSettings {
            scraped: ["info", "own"].map(str::to_owned).into(),
            reports_max: 10,
            bytes_max: 1 << 20,
            ..WatchSettings::default()
        };
        let (watched, _) = live.watch(settings, 0, 0);
        (live, Rows::new(watched, [100_000].into(), 100))
    }

    /// Counts a second of a report: rows by id, each with three requests that took so long
    /// together.
    fn second(rows: &mut Rows, name: &str, gained: &[(u64, u128)]) {
        let at = rows.reports.iter().position(|it| it.report.definition.name == name).unwrap();
        let report = Arc::clone(&rows.reports[at].report);
        rows.begin(&report);
        for &(id, time) in gained {
            rows.row(&RowDelta {
                id,
                key: RowKey::Bytes(&id.to_be_bytes()),
                encoded: EncodedGain(&[]),
                totals: Totals { requests: 3, time, ..Totals::ZERO },
                times: None,
                extremes: Extremes::NOTHING,
            });
        }
        rows.end();
    }

    /// Their count is the number of requests.
    #[test]
    fn times_without_a_distribution_count_at_their_average() {
        let (_live, mut rows) = rows();
        for time in [150_000, 900_000] {
            second(&mut rows, "info", &[(100, time)]);
        }
        let info = rows.reports.iter().find(|it| it.report.definition.name == "info").unwrap();
        assert_eq!(*info.other.buckets, [3, 3]);
    }

    /// Only requests of rows that got no series are counted as such, and they stay counted when
    /// their report is dropped. There are 100 series, eight for each row.
    #[test]
    fn what_was_folded_only_grows() {
        let (mut live, mut rows) = rows();
        let folded = |rows: &Rows| {
            let status = rows.status();
            let found = status.readings.iter().find(|it| it.name == "requests_folded");
            found.unwrap().value.as_u64()
        };
        second(&mut rows, "info", &[(100, 1)]);
        assert_eq!(folded(&rows), Some(0), "info has no keys");
        second(&mut rows, "own", &[(OTHER_ID, 1)]);
        assert_eq!(folded(&rows), Some(0), "it was (other) before");
        // The later ones take longer.
        let ids =
            |ids: std::ops::Range<u64>| ids.map(|id| (id, u128::from(id))).collect::<Vec<_>>();
        second(&mut rows, "own", &ids(100..112));
        assert_eq!(folded(&rows), Some(2 * 3), "there is room for ten");
        second(&mut rows, "own", &ids(100..102));
        assert_eq!(folded(&rows), Some(4 * 3));
        second(&mut rows, "own", &[(OTHER_ID, 1), (105, 1)]);
        assert_eq!(folded(&rows), Some(4 * 3));
        assert!(live.reports.remove("own", &mut live.pool));
        rows.follow();
        assert_eq!((rows.reports.len(), folded(&rows)), (1, Some(4 * 3)));
    }

    #[test]
    fn labels_are_letters_and_none_is_taken() {
        let labels = |comment: &str| {
            let form = ReportForm::of_comment("x", comment);
            labels(&key_names(&form.definition(&Defaults::default()).unwrap()))
        };
        assert_eq!(labels("report1"), ["script_name"]);
        let odd = labels("v2/timer/60/~script,@le,@mode,@a-b,@a.b,@1st/no_percentiles/no_filters");
        assert_eq!(odd, ["script", "le_", "mode_", "a_b", "a_b_", "key_1st"]);
    }
}
