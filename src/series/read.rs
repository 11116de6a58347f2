//! Reading the last hour: lines of one row, and what there is.
//!
//! Called by the front ends on threads that may block. A question takes the lock of the series (never the pool's) for as
//! long as it takes to find a name and copy a list of references to blocks; blocks never change, so the rest needs no lock.

use std::sync::Arc;

use super::block::Block;
use super::history::{COARSE_SECS, Sum};
use super::metric::{Metric, Span};
use super::{Series, State, Tracked};
use crate::delta::{OTHER_ID, TOTAL_ID};
use crate::report::definition::Definition;
use crate::report::row_key::push_key;
use crate::telemetry::reading::{Group, Place, readings};

/// Most points of one line: an hour by the second. More are asked for with a larger step.
pub(super) const POINTS_MAX: u64 = 3_700;

/// A metric of one row over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Unix second at which the first point begins.
    pub from: u64,
    /// Seconds from point to point.
    pub step: u64,
    /// Point `i` is about `from + i * step` to `from + (i + 1) * step`, the end excluded. `None`: not known, or an average of
    /// nothing.
    pub points: Vec<Option<f64>>,
}

/// A report of which the past is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedReport {
    /// Its name.
    pub name: String,
    /// The names of its key columns, in the order in which keys are given.
    pub keys: Vec<String>,
    /// Whether it counts timers.
    pub timers: bool,
    /// Rows that are known by name now.
    pub rows: usize,
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

/// The question behind a line, in the blocks' own count of seconds.
struct Found {
    row: u64,
    report: usize,
    of_timers: bool,
    definition: Arc<Definition>,
    blocks: Vec<Arc<Block>>,
    base: u64,
    from: u64,
    to: u64,
    step: u64,
}

impl Series {
    /// Metrics of one row (`key`: a text for each of [`TrackedReport::keys`], in their order), or of all rows of the report
    /// together (`None`), from `from` (brought down to a multiple of
    /// the step) to before `to`, unix seconds, but not past the last complete second. The step may be larger than asked
    /// for: a multiple of ten seconds where seconds are not kept one by one any more. The last point of a
    /// step of several seconds may still grow. `None`: see [`why_not`](Self::why_not).
    #[must_use]
    pub fn lines(
        &self,
        report: &str,
        key: Option<&[String]>,
        metrics: &[Metric],
        from: u64,
        to: u64,
        step: u64,
    ) -> Option<Vec<Line>> {
        let found = self.find(report, key, (from, to, step))?;
        let count = found.to.saturating_sub(found.from).div_ceil(found.step) as usize;
        let line = Line {
            from: found.from,
            step: found.step,
            points: vec![None; count],
        };
        let mut lines = vec![line; metrics.len()];
        let histogram = metrics.iter().any(Metric::needs_histogram);
        let mut sum = Sum::default();
        let mut at = usize::MAX;
        for block in &found.blocks {
            let Some(seconds) = (block.second + found.base).checked_sub(found.from) else {
                continue;
            };
            let point = (seconds / found.step) as usize;
            if point != at {
                write_point(&mut sum, &found, metrics, at, &mut lines);
                at = point;
            }
            add_block(block, &found, histogram, &mut sum);
        }
        write_point(&mut sum, &found, metrics, at, &mut lines);
        Some(lines)
    }

    fn find(
        &self,
        report: &str,
        key: Option<&[String]>,
        (from, to, step): (u64, u64, u64),
    ) -> Option<Found> {
        let state = self.0.state.read();
        let (tracked, report) = state.find(report)?;
        let row = match key {
            None => TOTAL_ID,
            Some(key) => tracked.row(key)?,
        };
        let base = state.base;
        let end = state.history.end().unwrap_or_default() + base;
        let to = to.min(end);
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
        let blocks = state
            .history
            .blocks(from.saturating_sub(base), to.saturating_sub(base));
        Some(Found {
            row,
            report,
            of_timers: tracked.of_timers(),
            definition: Arc::clone(&tracked.definition),
            blocks,
            base,
            from,
            to,
            step,
        })
    }

    /// Which reports are tracked.
    #[must_use]
    pub fn tracked(&self) -> Vec<TrackedReport> {
        let state = self.0.state.read();
        let reports = state.reports.iter();
        reports
            .map(|tracked| TrackedReport {
                name: tracked.definition.name.clone(),
                keys: tracked.keys.clone(),
                timers: tracked.of_timers(),
                rows: tracked.weights.len(),
            })
            .collect()
    }

    /// What is kept now; `None` before the first second is complete.
    #[must_use]
    pub fn coverage(&self) -> Option<Coverage> {
        let state = self.0.state.read();
        let (from, fine_from) = state.history.reaches()?;
        let base = state.base;
        Some(Coverage {
            from: from + base,
            fine_from: fine_from + base,
            to: state.history.end()? + base,
        })
    }

    /// What it holds and what it missed, for the daemon's status.
    #[must_use]
    pub fn status(&self) -> Group {
        let state = self.0.state.read();
        let weights: usize = state.reports.iter().map(|it| it.weights.bytes()).sum();
        let rows: usize = state.reports.iter().map(|it| it.weights.len()).sum();
        let readings = readings! {
            Gauge memory_bytes = state.history.bytes() + weights, "Memory of the last hour.";
            Gauge memory_bytes_max = self.0.memory, "What it may be (series.memory).";
            Gauge reports = state.reports.len(), "Reports of which the last hour is kept.";
            Gauge rows = rows, "Rows of which the last hour is kept.";
            Gauge rows_full = state.fit.full, "Rows of the last second that are kept with percentiles.";
            Gauge rows_without_percentiles = state.fit.sums, "Rows of the last second that are kept without percentiles, for want of memory.";
            Gauge rows_folded = state.fit.folded, "Rows of the last second that are only in the total, for want of memory.";
            Counter requests_counted = state.counted, "Requests that the last hour and the metrics of rows have counted.";
            Counter requests_missed = state.missed, "Requests that the last hour and the metrics of rows could not count, because they fell behind.";
        };
        Group::new(Place::Object("series"), readings)
    }

    /// Why there is no line, for the person who asked; `None`: there is one.
    #[must_use]
    pub fn why_not(&self, report: &str, key: Option<&[String]>) -> Option<String> {
        if self.0.memory == 0 {
            return Some("the past is not kept: series.memory is 0".to_owned());
        }
        let state = self.0.state.read();
        let Some((tracked, _)) = state.find(report) else {
            let names: Vec<&str> = state.reports.iter().map(Tracked::name).collect();
            return Some(format!(
                "the past of report {report:?} is not kept: series.reports does not name it; kept are those of {}",
                names.join(", ")
            ));
        };
        let key = key?;
        if key.len() != tracked.keys.len() {
            return Some(format!(
                "report {report:?} has {} key columns, not {}: {}",
                tracked.keys.len(),
                key.len(),
                tracked.keys.join(", ")
            ));
        }
        if tracked.row(key).is_none() {
            return Some(format!(
                "no such row of report {report:?} is kept: it had no request in the last hour, or takes too little \
                 time to have room in series.memory"
            ));
        }
        None
    }
}

impl State {
    fn find(&self, report: &str) -> Option<(&Tracked, usize)> {
        let mut reports = self.reports.iter().zip(0..);
        reports.find(|(tracked, _)| tracked.definition.name == report)
    }
}

impl Tracked {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn row(&self, key: &[String]) -> Option<u64> {
        if key.len() != self.keys.len() {
            return None;
        }
        if key.is_empty() {
            return Some(TOTAL_ID);
        }
        let mut bytes = Vec::new();
        for text in key {
            push_key(&mut bytes, text);
        }
        let row = self.ids.of(&bytes);
        self.weights.get(row).map(|_| row)
    }
}

fn add_block(block: &Block, found: &Found, histogram: bool, sum: &mut Sum) {
    let sheet = &block.sheets[found.report];
    match sheet.get(found.row) {
        Some(packed) => {
            let (totals, pairs) = packed.read();
            sum.add(&totals, pairs.filter(|_| histogram));
            sum.secs += block.secs;
        }
        // A row that is not there may be among those that were added up; or nothing was seen of it at all.
        None if found.row != TOTAL_ID && sheet.get(OTHER_ID).is_some() => {}
        None if block.missed > 0 => {}
        None => sum.secs += block.secs,
    }
}

fn span<'a>(sum: &'a Sum, found: &Found, histogram: bool) -> Span<'a> {
    Span {
        totals: sum.totals,
        secs: sum.secs,
        of_timers: found.of_timers,
        rounding: found.definition.kind.rounding(),
        buckets: found.definition.buckets,
        histogram: sum.histogram().filter(|_| histogram),
    }
}

fn write_point(sum: &mut Sum, found: &Found, metrics: &[Metric], at: usize, lines: &mut [Line]) {
    if sum.secs > 0 {
        let histogram = metrics.iter().any(Metric::needs_histogram);
        let span = span(sum, found, histogram);
        for (metric, line) in metrics.iter().zip(lines) {
            if let Some(point) = line.points.get_mut(at) {
                *point = metric.of(&span);
            }
        }
    }
    sum.clear();
}
