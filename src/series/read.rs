//! Reads the last hour: lines of one row, and the span covered.
//!
//! Called by the front ends on threads that may block. A query holds the lock of the series (never
//! the pool's) only to find a row and copy its points; everything else needs no lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::last_hour::{COARSE_SECS, Slot};
use super::metric::{Metric, Span};
use super::{READ, REPORTS_MAX, Series};
use crate::report::encoded_gain::Sum;
use crate::report::layout::OTHER;
use crate::report::row_key::push_key;
use crate::report::totals::Extremes;
use crate::report::{TOTAL_ID, Watched};
use crate::telemetry::reading::{Group, Place, readings};

/// Most points of one line: an hour by the second. Longer spans need a larger step.
pub(super) const POINTS_MAX: u64 = 3_700;

/// Metrics of one row over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Unix second at which the first point begins.
    pub from: u64,
    /// Seconds from point to point.
    pub step: u64,
    /// Points by metric. Point `i` covers `from + i * step` to `from + (i + 1) * step`, exclusive.
    /// `None`: unknown, or an average of nothing.
    pub points: Vec<Vec<Option<f64>>>,
}

/// How the times of one row were spread over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spreads {
    /// Unix second at which the first column begins.
    pub from: u64,
    /// Seconds of a column.
    pub step: u64,
    /// Times, microseconds, and how many there were of each. `None`: not known.
    pub columns: Vec<Option<Vec<(u64, u64)>>>,
    /// Requests with an error, by column; 0 if not known.
    pub errors: Vec<u64>,
    /// Missing data, for people.
    pub partial: Vec<String>,
}

/// The time kept now, unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The oldest second.
    pub from: u64,
    /// From here on seconds are kept individually.
    pub fine_from: u64,
    /// The end of the last complete second.
    pub to: u64,
}

impl Series {
    /// Metrics of one row (`key`: a text for each of [`Watched::key_names`], in order), or of the
    /// report's total (`None`), from `from` (rounded down to a multiple of the step) to before
    /// `to`, unix seconds, but not past the last complete second. The step may be larger than
    /// requested: a multiple of ten seconds where seconds are no longer kept individually. The last
    /// point of a step of several seconds may still grow.
    ///
    /// # Errors
    /// A message for the user on why there is no line.
    pub fn lines(
        &self,
        report: &str,
        key: Option<&[String]>,
        metrics: &[Metric],
        (from, to, step): (u64, u64, u64),
    ) -> Result<Lines, String> {
        self.lines_of(report, key, metrics, (from, to, step.max(1)), true)
    }

    /// Each metric of the row over the last `secs` complete seconds together. `None`: unknown, or
    /// an average of nothing.
    ///
    /// # Errors
    /// As for [`lines`](Self::lines).
    pub fn newest(
        &self,
        report: &str,
        key: Option<&[String]>,
        metrics: &[Metric],
        secs: u64,
    ) -> Result<Vec<Option<f64>>, String> {
        let to = self.coverage().map_or(0, |coverage| coverage.to);
        let span = (to.saturating_sub(secs), to, secs);
        let found = self.lines_of(report, key, metrics, span, false)?;
        let points = found.points.iter();
        Ok(points.map(|it| it.last().copied().flatten()).collect())
    }

    /// The histograms of one row, as [`lines`](Self::lines) has its metrics.
    ///
    /// # Errors
    /// As of [`lines`](Self::lines).
    pub fn spreads(
        &self,
        report: &str,
        key: Option<&[String]>,
        span: (u64, u64, u64),
    ) -> Result<Spreads, String> {
        let (from, step, found) = self
            .points_of(report, key, span, true, |span| (span.spread(), span.sum.totals.errors))?;
        let (columns, errors) = found.into_iter().map(Option::unwrap_or_default).unzip();
        Ok(Spreads { from, step, columns, errors, partial: Vec::new() })
    }

    /// Lines, whose points begin at multiples of the step if they are `aligned`.
    fn lines_of(
        &self,
        report: &str,
        key: Option<&[String]>,
        metrics: &[Metric],
        span: (u64, u64, u64),
        aligned: bool,
    ) -> Result<Lines, String> {
        let numbers = |span: &Span<'_>| -> Vec<Option<f64>> {
            metrics.iter().map(|metric| metric.of(span)).collect()
        };
        let (from, step, found) = self.points_of(report, key, span, aligned, numbers)?;
        let line = |metric: usize| found.iter().map(|point| point.as_ref()?[metric]).collect();
        Ok(Lines { from, step, points: (0..metrics.len()).map(line).collect() })
    }

    /// One value per step, the start of the first step, and the length of a step.
    fn points_of<T>(
        &self,
        report: &str,
        key: Option<&[String]>,
        (from, to, mut step): (u64, u64, u64),
        aligned: bool,
        of: impl Fn(&Span<'_>) -> T,
    ) -> Result<(u64, u64, Vec<Option<T>>), String> {
        let (report, row) = self.row(report, key)?;
        let state = READ.read(&self.0.state);
        let hour = &state.last_hour;
        let base = hour.base;
        let to = to.min(hour.end().unwrap_or_default() + base);
        let mut from = from.max(to.saturating_sub(POINTS_MAX * step));
        if aligned {
            from -= from % step;
        }
        if let Some((oldest, fine_from)) = hour.reaches()
            && oldest < fine_from
            && from < fine_from + base
        {
            step = step.next_multiple_of(COARSE_SECS);
            from -= from % step;
        }
        let place = |slot: &Slot| Some(((slot.second + base).checked_sub(from)? / step) as usize);
        let slots = hour.slots.iter().filter(|slot| place(slot).is_some());
        let slots: Vec<Slot> = slots.copied().collect();
        let of_report = hour.reports.get(&report.number);
        let since = of_report.map_or(u64::MAX, |it| it.since);
        let folded = of_report.filter(|_| row != TOTAL_ID);
        let folded = folded.map_or_else(BTreeSet::new, |it| it.folded.clone());
        let gained = of_report.and_then(|it| Some(it.rows.get(&row)?.points.copy()));
        drop(state);
        let gained = gained.unwrap_or_default();
        let mut gained = gained.iter().peekable();
        let count = to.saturating_sub(from).div_ceil(step) as usize;
        let mut points: Vec<Option<T>> = (0..count).map(|_| None).collect();
        for of_point in slots.chunk_by(|a, b| place(a) == place(b)) {
            let (sum, extremes) = (Sum::default(), Extremes::NOTHING);
            let mut span = Span { definition: &report.definition, secs: 0, sum, extremes };
            for slot in of_point {
                while gained.next_if(|it| it.0 < slot.second).is_some() {}
                // An absent row may be part of the total only, or unobserved at that time.
                let is_unknown =
                    slot.missed > 0 || folded.range(slot.second..slot.end()).next().is_some();
                if is_unknown && gained.peek().is_none_or(|it| it.0 >= slot.end()) {
                    continue;
                }
                while let Some((_, gained)) = gained.next_if(|it| it.0 < slot.end()) {
                    span.sum.add(gained);
                }
                span.secs += slot.end().saturating_sub(since.max(slot.second));
            }
            let place = place(&of_point[0]).filter(|_| span.secs > 0);
            if let Some(point) = place.and_then(|place| points.get_mut(place)) {
                *point = Some(of(&span));
            }
        }
        Ok((from, step, points))
    }

    /// A report in the series.
    ///
    /// # Errors
    /// A message on why it is not.
    pub fn report(&self, name: &str) -> Result<Arc<Watched>, String> {
        if self.0.memory == 0 {
            return Err("the past is not kept: series.memory is 0".to_owned());
        }
        let watched = self.0.watched.now();
        let found = watched.iter().find(|it| it.definition.name == name);
        found.cloned().ok_or_else(|| {
            let names = watched.iter().map(|it| it.definition.name.as_str());
            let names: Vec<&str> = names.collect();
            let why = match names.len() < REPORTS_MAX {
                true => "series.reports does not name it".to_owned(),
                false => format!("it is kept of {REPORTS_MAX} reports at most"),
            };
            format!(
                "the past of report {name:?} is not kept: {why}; it is kept of {}",
                names.join(", ")
            )
        })
    }

    /// Why a row has no lines; `None` if it has.
    pub fn why_not(&self, report: &str, key: Option<&[String]>) -> Option<String> {
        self.row(report, key).err()
    }

    fn row(&self, report: &str, key: Option<&[String]>) -> Result<(Arc<Watched>, u64), String> {
        let report = self.report(report)?;
        let Some(key) = key else { return Ok((report, TOTAL_ID)) };
        let (name, keys) = (&report.definition.name, &report.key_names);
        if key.len() != keys.len() {
            return Err(format!(
                "report {name:?} has {} key columns, not {}: {}",
                keys.len(),
                key.len(),
                keys.join(", ")
            ));
        }
        let mut bytes = Vec::new();
        key.iter().for_each(|text| push_key(&mut bytes, text));
        let row = match key {
            [] => TOTAL_ID,
            _ => report.row_id(&bytes),
        };
        let is_kept = || {
            let hour = &READ.read(&self.0.state).last_hour;
            hour.reports.get(&report.number).is_some_and(|it| it.rows.contains_key(&row))
        };
        if row != TOTAL_ID && !is_kept() {
            let why = match key.iter().any(|text| text == OTHER) {
                true => {
                    "charts and heat maps keep the keys of (other) apart, and no line of a row that is \
                     really called so"
                }
                false => {
                    "it had no request in the last hour, or none since the start of the daemon or the making \
                     of the report, or takes too little time to have room in series.memory"
                }
            };
            return Err(format!("no such row of report {name:?} is kept: {why}"));
        }
        Ok((report, row))
    }

    /// The span covered; `None` before the first second is complete.
    pub fn coverage(&self) -> Option<Coverage> {
        let hour = &READ.read(&self.0.state).last_hour;
        let (from, fine_from) = hour.reaches()?;
        Some(Coverage {
            from: from + hour.base,
            fine_from: fine_from + hour.base,
            to: hour.end()? + hour.base,
        })
    }

    /// Its contents and losses, for the daemon's status.
    pub fn status(&self) -> Group {
        let state = READ.read(&self.0.state);
        let (rows, full, without) = state.last_hour.count();
        let readings = readings! {
            Gauge memory_bytes = state.last_hour.bytes, "Memory of the last hour.";
            Gauge memory_bytes_max = self.0.memory, "Limit of that memory (series.memory).";
            Gauge reports = self.0.watched.now().len(), "Reports of which the last hour is kept.";
            Gauge rows = rows, "Rows of which the last hour is kept.";
            Gauge rows_full = full, "Rows of the last second that are kept with percentiles.";
            Gauge rows_without_percentiles = without, "Rows of the last second that are kept without percentiles, for lack of memory.";
            Gauge rows_folded = state.last_hour.folded, "Rows of the last second that are only in the total, for lack of memory.";
            Counter requests_counted = state.counted, "Requests that the last hour and the metrics of rows have counted.";
            Counter requests_missed = state.missed, "Requests that the last hour and the metrics of rows could not count, because they fell behind.";
        };
        Group::new(Place::Object("series"), readings)
    }
}
