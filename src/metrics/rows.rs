//! Rows of reports as counters and histograms that only grow.
//!
//! Fed by the series thread once a second with what each row gained; read by whoever scrapes. A row gets its place
//! once and keeps it for as long as the daemon lives: a counter that disappears and comes back smaller would ruin every
//! rate over it. Slots are a budget of series; when it is used up, rows without one are added up in `(other)`. Of
//! the rows that are new in a second those that took the most time get their place first.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use parking_lot::RwLock;
use prometheus_client::encoding::{
    CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeLabel, EncodeLabelSet,
    LabelSetEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::pool::strings::OTHER_TEXT;
use crate::report::definition::{Definition, Level};
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::series::{Gained, RowGain, Sink};
use crate::telemetry::reading::{Group, Place, readings};

/// The rows of all reports.
#[derive(Debug)]
pub(super) struct Rows {
    reports: Vec<ReportRows>,
    bounds: Arc<[u64]>,
    series: usize,
    series_max: usize,
}

/// The rows of one report.
#[derive(Debug)]
struct ReportRows {
    name: String,
    of_timers: bool,
    /// Names of the labels, one a key.
    labels: Vec<String>,
    rows: Vec<Row>,
    by_key: HashMap<Arc<[u8]>, usize, RandomState>,
    /// What found no place.
    other: Row,
}

#[derive(Debug)]
struct Row {
    key: Option<Arc<[u8]>>,
    totals: Totals,
    /// Times by bound, the last above all of them.
    buckets: Box<[u64]>,
}

impl Row {
    fn new(key: Option<Arc<[u8]>>, buckets: usize) -> Self {
        Self {
            key,
            totals: Totals::ZERO,
            buckets: vec![0; buckets].into(),
        }
    }

    fn add(&mut self, gain: &RowGain<'_>) {
        self.totals += gain.totals;
        if gain.buckets.is_empty() {
            // Without bounds there is one bucket, for everything.
            return;
        }
        for (bucket, gained) in self.buckets.iter_mut().zip(gain.buckets) {
            *bucket += gained;
        }
    }
}

impl ReportRows {
    /// Series that a row takes: its buckets, their sum and count, and the counters beside them.
    fn series_of_row(&self, bounds: usize) -> usize {
        bounds + 1 + 2 + if self.of_timers { 3 } else { 4 }
    }

    /// Marks a row that has a place with it: a number behind 0.
    fn mark(&self, key: Option<&[u8]>, mark: &mut u32) {
        if *mark == 0
            && let Some(&at) = key.and_then(|key| self.by_key.get(key))
        {
            *mark = at as u32 + 1;
        }
    }

    /// Gives a row its place.
    fn add(&mut self, key: Arc<[u8]>, buckets: usize) {
        self.by_key.insert(Arc::clone(&key), self.rows.len());
        self.rows.push(Row::new(Some(key), buckets));
    }
}

/// Where the status has what the rows take of their budget.
pub(super) const STATUS: Place = Place::Object("metrics");

impl Rows {
    /// No rows yet, of these reports.
    pub(super) fn new(reports: &[Definition], bounds: Arc<[u64]>, series_max: usize) -> Self {
        let buckets = bounds.len() + 1;
        let report = |definition: &Definition| {
            let mut report = ReportRows {
                name: definition.name.clone(),
                of_timers: definition.level == Level::Timer,
                labels: label_names(definition),
                rows: Vec::new(),
                by_key: HashMap::default(),
                other: Row::new(None, buckets),
            };
            // The one row of a report without keys is there from the start, so that rates see its first request.
            if report.labels.is_empty() {
                report.add([].as_slice().into(), buckets);
            }
            report
        };
        let reports: Vec<ReportRows> = reports.iter().map(report).collect();
        let others = reports.iter().map(|it| it.series_of_row(bounds.len()));
        Self {
            series: others.sum(),
            reports,
            bounds,
            series_max,
        }
    }

    /// What the rows take of their budget.
    pub(super) fn status(&self) -> Group {
        let rows: usize = self.reports.iter().map(|it| it.rows.len()).sum();
        let folded: u64 = self.reports.iter().map(|it| it.other.totals.requests).sum();
        let readings = readings! {
            Gauge series = self.series, "Series of rows that have a place.";
            Gauge series_max = self.series_max, "What it may be (metrics.series_max).";
            Gauge rows = rows, "Rows that have series of their own.";
            Counter requests_folded = folded, "Requests counted under (other) because metrics.series_max was used up, over all reports.";
        };
        Group::new(STATUS, readings)
    }

    fn take(&mut self, definition: &Definition, mut gained: Gained<'_>) {
        let bounds = self.bounds.len();
        let mut reports = self.reports.iter_mut();
        let Some(report) = reports.find(|it| it.name == definition.name) else {
            return;
        };
        let each = report.series_of_row(bounds);
        // Rows without a place, heaviest first.
        let mut new: Vec<(u128, Arc<[u8]>)> = Vec::new();
        let left = self.series_max.saturating_sub(self.series) / each;
        gained.for_each(|gain| {
            report.mark(gain.key, gain.mark);
            if let Some(key) = gain.key
                && *gain.mark == 0
                && left > 0
            {
                new.push((gain.totals.time, key.into()));
            }
        });
        new.sort_unstable_by(|a, b| b.cmp(a));
        new.truncate(left);
        for (_, key) in new {
            report.add(key, bounds + 1);
            self.series += each;
        }
        gained.for_each(|gain| {
            report.mark(gain.key, gain.mark);
            let at = (*gain.mark as usize).checked_sub(1);
            let row = at.and_then(|at| report.rows.get_mut(at));
            row.unwrap_or(&mut report.other).add(&gain);
        });
    }

    /// Writes all of them, one metric after the other.
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        for timers in [false, true] {
            if self.reports.iter().any(|it| it.of_timers == timers) {
                self.encode_durations(encoder, timers)?;
            }
        }
        Ok(())
    }

    fn encode_durations(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        timers: bool,
    ) -> std::fmt::Result {
        let seconds = Unit::Seconds;
        let (name, help) = DURATIONS[usize::from(timers)];
        let mut metric =
            encoder.encode_descriptor(name, help, Some(&seconds), MetricType::Histogram)?;
        self.each(timers, None, |labels, row| {
            let mut metric = metric.encode_family(labels)?;
            let mut counts = row.buckets.to_vec();
            if self.bounds.is_empty() {
                counts = vec![if timers {
                    saturated(row.totals.hits)
                } else {
                    row.totals.requests
                }];
            }
            let bounds = self.bounds.iter().map(|&us| us as f64 / 1e6);
            let buckets = bounds.chain([f64::INFINITY]).zip(counts.iter().copied());
            let buckets: Vec<(f64, u64)> = buckets.collect();
            let (sum, count) = (row.totals.time as f64 / 1e6, counts.iter().sum());
            metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
        })?;
        for (_, name, help, unit, numbers) in COUNTERS.iter().filter(|it| it.0 == timers) {
            let kind = MetricType::Counter;
            let mut metric = encoder.encode_descriptor(name, help, unit.as_ref(), kind)?;
            for (mode, number) in *numbers {
                self.each(timers, *mode, |labels, row| {
                    let mut metric = metric.encode_family(labels)?;
                    let number = number(&row.totals);
                    metric.encode_counter::<NoLabelSet, Number, u64>(&number, None)
                })?;
            }
        }
        Ok(())
    }

    fn each(
        &self,
        timers: bool,
        mode: Option<&str>,
        mut write: impl FnMut(&Labels<'_>, &Row) -> std::fmt::Result,
    ) -> std::fmt::Result {
        for report in self.reports.iter().filter(|it| it.of_timers == timers) {
            let has_other = report.other.totals != Totals::ZERO;
            let other = has_other.then_some(&report.other);
            for row in report.rows.iter().chain(other) {
                let labels = Labels {
                    report: &report.name,
                    names: &report.labels,
                    key: row.key.as_deref(),
                    mode,
                };
                write(&labels, row)?;
            }
        }
        Ok(())
    }
}

/// The histograms of requests and of timers: name, help.
const DURATIONS: [(&str, &str); 2] = [
    (
        "pinbad_request_duration",
        "Request times, by row of a report; its count is the number of requests",
    ),
    (
        "pinbad_timer_duration",
        "Timer values per hit, by row of a report; its count is the number of hits",
    ),
];

/// What a counter counts, by the label `mode` if it has one.
type Numbers = &'static [(Option<&'static str>, fn(&Totals) -> Number)];

const CPU: Numbers = &[
    (Some("user"), |totals| Number::Micros(totals.ru_utime)),
    (Some("system"), |totals| Number::Micros(totals.ru_stime)),
];

/// The counters: whether of timers, name, help, unit, numbers.
#[rustfmt::skip]
const COUNTERS: [(bool, &str, &str, Option<Unit>, Numbers); 5] = [
    (false, "pinbad_request_cpu", "CPU time of requests, by row of a report", Some(Unit::Seconds), CPU),
    (false, "pinbad_request_errors", "Requests with a status of reports.error_status or above, by row of a report", None,
        &[(None, |totals| Number::Count(totals.errors))]),
    (false, "pinbad_request_traffic", "Document sizes, by row of a report", Some(Unit::Bytes),
        &[(None, |totals| Number::Count(saturated(totals.traffic)))]),
    (true, "pinbad_timer_cpu", "CPU time of timers, by row of a report", Some(Unit::Seconds), CPU),
    (true, "pinbad_timer_requests", "Requests that had such a timer, by row of a report", None,
        &[(None, |totals| Number::Count(totals.requests))]),
];

/// A number of a counter.
enum Number {
    Count(u64),
    Micros(u128),
}

impl EncodeCounterValue for Number {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => count.encode(encoder),
            Self::Micros(us) => (*us as f64 / 1e6).encode(encoder),
        }
    }
}

fn saturated(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// `report`, a label for each key, and `mode`.
#[derive(Debug)]
struct Labels<'a> {
    report: &'a str,
    names: &'a [String],
    /// `None`: of what found no place.
    key: Option<&'a [u8]>,
    mode: Option<&'a str>,
}

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> std::fmt::Result {
        ("report", self.report).encode(encoder.encode_label())?;
        let mut texts = key_texts(self.key.unwrap_or_default());
        for name in self.names {
            let text = texts.next().unwrap_or(OTHER_TEXT);
            (name.as_str(), text).encode(encoder.encode_label())?;
        }
        match self.mode {
            Some(mode) => ("mode", mode).encode(encoder.encode_label()),
            None => Ok(()),
        }
    }
}

/// A label for each key of a report: its column, in the letters that labels may have, and not one that has a meaning.
fn label_names(definition: &Definition) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for key in crate::series::key_names(definition) {
        let mut name = key.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert_str(0, "key_");
        }
        while ["report", "mode", "le", "job", "instance"].contains(&name.as_str())
            || names.contains(&name)
        {
            name.push('_');
        }
        names.push(name);
    }
    names
}

/// What the series thread feeds.
#[derive(Debug)]
pub(super) struct Feed(pub(super) Arc<RwLock<Rows>>);

impl Sink for Feed {
    fn bounds(&self, report: &str) -> Option<Arc<[u64]>> {
        let rows = self.0.read();
        let wanted = rows.reports.iter().any(|it| it.name == report);
        wanted.then(|| Arc::clone(&rows.bounds))
    }

    fn take<'a>(&mut self, reports: &mut dyn Iterator<Item = (&'a Definition, Gained<'a>)>) {
        // Under one hold of the lock: a scrape finds a second in all reports or in none.
        let mut rows = self.0.write();
        for (report, gained) in reports {
            rows.take(report, gained);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::definition::Defaults;
    use crate::report::form::ReportForm;

    #[test]
    fn labels_are_letters_and_none_is_taken() {
        let labels = |comment: &str| {
            let form = ReportForm::of_comment("x", comment);
            label_names(&form.definition(&Defaults::default()).unwrap())
        };
        assert_eq!(labels("report1"), ["script_name"]);
        let odd = labels("v2/timer/60/~script,@le,@mode,@a-b,@a.b,@1st/no_percentiles/no_filters");
        assert_eq!(odd, ["script", "le_", "mode_", "a_b", "a_b_", "key_1st"]);
    }
}
