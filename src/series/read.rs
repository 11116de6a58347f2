//! Reading the last hour: lines of one row, and what there is.
//!
//! Called by the front ends on threads that may block. A question takes the lock of the series (never the pool's) for as
//! long as it takes to find a row and copy a list of references to blocks; blocks never change, so the rest needs no lock.

use std::sync::Arc;

use super::block::{Block, RowId};
use super::history::COARSE_SECS;
use super::metric::{Metric, Span};
use super::weights::WEIGHT_BYTES;
use super::{REPORTS_MAX, Series};
use crate::report::packed::Sum;
use crate::report::row_key::push_key;
use crate::report::{OTHER_ID, TOTAL_ID, Watched};
use crate::telemetry::reading::{Group, Place, readings};

/// Most points of one line: an hour by the second. More are asked for with a larger step.
pub(super) const POINTS_MAX: u64 = 3_700;

/// Metrics of one row over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// Unix second at which the first point begins.
    pub from: u64,
    /// Seconds from point to point.
    pub step: u64,
    /// By metric. Point `i` is about `from + i * step` to `from + (i + 1) * step`, the end excluded. `None`: not known, or an
    /// average of nothing.
    pub points: Vec<Vec<Option<f64>>>,
}

/// What is kept now, unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// The oldest.
    pub from: u64,
    /// From here on each second is kept by itself.
    pub fine_from: u64,
    /// The end of the last complete second.
    pub to: u64,
}

impl Series {
    /// Metrics of one row (`key`: a text for each of [`Watched::key_names`], in their order), or of all rows of the report
    /// together (`None`), from `from` (brought down to a multiple of the step) to before `to`, unix seconds, but not past the
    /// last complete second. The step may be larger than asked for: a multiple of ten seconds where seconds are not kept one
    /// by one any more. The last point of a step of several seconds may still grow.
    ///
    /// # Errors
    /// Why there is none, for the person who asked.
    pub fn lines(
        &self,
        report: &str,
        key: Option<&[String]>,
        metrics: &[Metric],
        (from, to, step): (u64, u64, u64),
    ) -> Result<Lines, String> {
        let (report, row) = self.row(report, key)?;
        let state = self.0.state.read();
        let base = state.base;
        let since = state.since.get(&report.number).copied();
        let since = since.unwrap_or(u64::MAX);
        let to = to.min(state.history.end().unwrap_or_default() + base);
        let mut step = step.clamp(1, 3_600);
        let mut from = from.max(to.saturating_sub(POINTS_MAX * step));
        from -= from % step;
        if let Some((oldest, fine_from)) = state.history.reaches()
            && oldest < fine_from
            && from < fine_from + base
        {
            step = step.next_multiple_of(COARSE_SECS);
            from -= from % step;
        }
        let span = (from.saturating_sub(base), to.saturating_sub(base));
        let blocks = state.history.blocks(span.0, span.1);
        drop(state);
        let count = to.saturating_sub(from).div_ceil(step) as usize;
        let mut points = vec![vec![None; count]; metrics.len()];
        let point = |block: &Block| {
            let secs = (block.second + base).checked_sub(from)?;
            Some((secs / step) as usize)
        };
        for of_point in blocks.chunk_by(|a, b| point(a) == point(b)) {
            let span = span_of(of_point, (report.number, row), since, &report);
            let place = point(&of_point[0]).filter(|_| span.secs > 0);
            for (metric, points) in metrics.iter().zip(&mut points) {
                if let Some(point) = place.and_then(|place| points.get_mut(place)) {
                    *point = metric.of(&span);
                }
            }
        }
        Ok(Lines { from, step, points })
    }

    /// A report of which the past is kept.
    ///
    /// # Errors
    /// Why it is not.
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
                "the past of report {name:?} is not kept: {why}; kept are those of {}",
                names.join(", ")
            )
        })
    }

    /// Why there are no lines of a row; `None`: there are.
    #[must_use]
    pub fn why_not(&self, report: &str, key: Option<&[String]>) -> Option<String> {
        self.row(report, key).err()
    }

    fn row(&self, report: &str, key: Option<&[String]>) -> Result<(Arc<Watched>, u64), String> {
        let report = self.report(report)?;
        let Some(key) = key else {
            return Ok((report, TOTAL_ID));
        };
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
        let is_kept = |row| self.0.state.read().history.has((report.number, row));
        if row != TOTAL_ID && !is_kept(row) {
            return Err(format!(
                "no such row of report {name:?} is kept: it had no request in the last hour, or takes too little \
                 time to have room in series.memory"
            ));
        }
        Ok((report, row))
    }

    /// What is kept now; `None` before the first second is complete.
    #[must_use]
    pub fn coverage(&self) -> Option<Coverage> {
        let state = self.0.state.read();
        let (from, fine_from) = state.history.reaches()?;
        Some(Coverage {
            from: from + state.base,
            fine_from: fine_from + state.base,
            to: state.history.end()? + state.base,
        })
    }

    /// What it holds and what it missed, for the daemon's status.
    #[must_use]
    pub fn status(&self) -> Group {
        let state = self.0.state.read();
        let weights = state.rows * WEIGHT_BYTES;
        let readings = readings! {
            Gauge memory_bytes = state.history.bytes() + weights, "Memory of the last hour.";
            Gauge memory_bytes_max = self.0.memory, "What it may be (series.memory).";
            Gauge reports = self.0.watched.now().len(), "Reports of which the last hour is kept.";
            Gauge rows = state.rows, "Rows of which the last hour is kept.";
            Gauge rows_full = state.fit.full, "Rows of the last second that are kept with percentiles.";
            Gauge rows_without_percentiles = state.fit.sums, "Rows of the last second that are kept without percentiles, for want of memory.";
            Gauge rows_folded = state.fit.folded, "Rows of the last second that are only in the total, for want of memory.";
            Counter requests_counted = state.counted, "Requests that the last hour and the metrics of rows have counted.";
            Counter requests_missed = state.missed, "Requests that the last hour and the metrics of rows could not count, because they fell behind.";
        };
        Group::new(Place::Object("series"), readings)
    }
}

/// What a row gained in some blocks, and in how many of their seconds that is known.
fn span_of<'a>(blocks: &[Arc<Block>], row: RowId, since: u64, report: &'a Watched) -> Span<'a> {
    let (mut sum, mut secs) = (Sum::default(), 0);
    for block in blocks {
        let gained = block.row(row);
        // A row that is not there may be among those that were added up; or nothing was seen of it at all.
        let is_folded = || row.1 != TOTAL_ID && block.row((row.0, OTHER_ID)).is_some();
        if gained.is_none() && (block.missed > 0 || is_folded()) {
            continue;
        }
        gained.into_iter().for_each(|gained| sum.add(gained));
        secs += (block.second + block.secs).saturating_sub(since.max(block.second));
    }
    Span {
        definition: &report.definition,
        secs,
        sum,
    }
}
