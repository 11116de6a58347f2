//! Replaces the lost counts of a killed process by rows of history, until they have left the
//! window.
//!
//! Read once at the start, before anything is merged, for the missing spans
//! ([`LastEnd`](crate::state::last_end::LastEnd)): the files on disk then come from earlier
//! processes, so nothing counts twice. A report is read as always, and the rows of the minutes
//! inside its window are added by key. Minutes leave as a whole. Raw requests are not restored, so
//! anything derived from them is not covered.
//!
//! Bounded by [`BYTES_MAX`]: past that the lightest keys are in `(other)`, as in history itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::Catalog;
use crate::history::parquet::Want as Columns;
use crate::history::read_plan::ReadPlan;
use crate::history::{Coverage, Dataset, Gain, History, Part, Resolution, UnflushedRows};
use crate::report::definition::Definition;
use crate::report::gain::Sum;
use crate::report::histogram::Histogram;
use crate::report::reading::{Extremes, KeyValue, Reading, Want};
use crate::report::row_key::push_key;
use crate::report::{Entry, read};
use crate::state::last_end::Lost;

/// Memory of the rows.
pub(crate) const BYTES_MAX: usize = 16 << 20;

/// Rows of history that are in no live report.
#[derive(Debug)]
pub struct Refill {
    rows: UnflushedRows,
    error_status: u32,
    /// The longest window of a report, in seconds.
    window_secs: u64,
    /// The missing spans.
    lost: Vec<Lost>,
    /// From the first minute to the end of the last.
    filled: Range<u64>,
}

impl Refill {
    /// Reads the rows of these spans, as far as the windows of the reports reach; `None` if there
    /// are none.
    #[must_use]
    pub fn read<'a>(
        history: &History,
        reports: impl Iterator<Item = &'a Definition>,
        error_status: u32,
        lost: &[Lost],
    ) -> Option<Self> {
        let end = lost.iter().map(|lost| lost.end).max()?;
        let parts = history.view(|_| ()).parts;
        let next = parts.iter().map(|part| part.number() + 1).max()?;
        let lost = lost.iter().map(|lost| Lost { below: lost.below.min(next), ..*lost });
        let lost: Vec<Lost> = lost.collect();
        let coverage = Arc::new(Dataset::coverage());
        let mut rows = UnflushedRows::default();
        let mut longest = 0;
        for report in reports {
            let window = report.window.as_secs();
            longest = longest.max(window);
            let dataset = Arc::new(Dataset::of(report, error_status));
            let own = dataset.coverage_key();
            for lost in &lost {
                let lost = Lost { start: lost.start.max(end.saturating_sub(window)), ..*lost };
                copy(&parts, &dataset, lost, &mut rows, |_| true);
                copy(&parts, &coverage, lost, &mut rows, |key| *key == *own);
            }
            if rows.bytes() > BYTES_MAX {
                rows.shrink(BYTES_MAX);
            }
        }
        let filled = rows.span();
        (!filled.is_empty()).then(|| Self {
            rows,
            error_status,
            window_secs: longest,
            lost,
            // The last row covers a minute, of which this process counts the rest itself.
            filled: filled.start
                ..end.min(Resolution::Minute.begin(filled.end - 1) + Resolution::Minute.secs()),
        })
    }

    /// From its first minute to the end of its last, or to the start of this process if that was
    /// before, in unix seconds.
    #[must_use]
    pub fn filled(&self) -> Range<u64> {
        self.filled.clone()
    }

    /// The missing spans that are still inside a window at this unix second.
    #[must_use]
    pub fn lost(&self, now: u64) -> Vec<Lost> {
        let lost = self.lost.iter().copied();
        lost.filter(|lost| now.saturating_sub(self.window_secs) < lost.end).collect()
    }

    /// Adds the rows of the minutes inside the window of `of` to a live reading with keys, and with
    /// histograms if wanted, in the columns of `shown`.
    fn add_to(&self, live: &Reading, of: &Definition, shown: &Definition, want: Want) -> Reading {
        let now = live.as_of_ms / 1000;
        let begin = now.saturating_sub(of.window.as_secs());
        let span = begin.next_multiple_of(Resolution::Minute.secs())..u64::MAX;
        let dataset = Dataset::of(of, self.error_status);
        let mut rows: HashMap<Vec<u8>, (bool, Gain)> = HashMap::new();
        for row in 0..live.len() {
            let mut key = Vec::new();
            for at in 0..of.keys.len() {
                match live.key(row, at) {
                    KeyValue::Text(text) => push_key(&mut key, text),
                    KeyValue::Status(status) => push_key(&mut key, &status.to_string()),
                    KeyValue::Other => push_key(&mut key, crate::pool::strings::OTHER_TEXT),
                }
            }
            rows.insert(key, (live.is_other(row), gain(live, row)));
        }
        self.rows.rows(&dataset, span.clone(), |row| {
            let (_, gain) =
                rows.entry(row.key.to_vec()).or_insert_with(|| (row.is_other, Gain::default()));
            gain.add(&row.gain);
        });
        let mut covered = live.covered_secs;
        let own = dataset.coverage_key();
        self.rows.rows(&Dataset::coverage(), span, |row| {
            if *row.key == *own {
                covered += Coverage::of(&row.gain.sum.totals).secs;
            }
        });
        let sums = rows
            .iter()
            .map(|(key, (is_other, gain))| (&**key, *is_other, gain.sum.totals, gain.extremes));
        let mut reading = Reading::of_rows(shown, sums);
        reading.window_secs = live.window_secs;
        reading.covered_secs = covered.min(of.window.as_secs()).max(1);
        reading.as_of_ms = live.as_of_ms;
        if want.histograms {
            reading.histograms = vec![Vec::new(); rows.len()];
        }
        let with_histograms = rows.values().enumerate().filter(|_| want.has_histograms());
        for (row, (_, gain)) in with_histograms {
            if let Some(histogram) = gain.sum.histogram() {
                let ends = |bucket| shown.buckets.ends(bucket);
                reading.know(row, shown, histogram, |secs| secs, ends);
                if want.histograms {
                    reading.histograms[row] = histogram.iter().collect();
                }
            }
        }
        reading
    }
}

/// The gain of a row of a live reading; its histogram may be unknown, or not requested.
fn gain(live: &Reading, row: usize) -> Gain {
    let totals = live.totals[row];
    let pairs = live.histograms.get(row);
    let is_empty = totals.requests == 0 && totals.hits == 0;
    let known = pairs.filter(|pairs| !pairs.is_empty() || is_empty);
    let histogram = known.map(|pairs| {
        let mut histogram = Histogram::new();
        pairs.iter().for_each(|&(bucket, count)| histogram.add(bucket, count));
        histogram
    });
    Gain {
        sum: Sum::of(totals, histogram),
        extremes: live.extremes.get(row).copied().unwrap_or(Extremes::NOTHING),
    }
}

/// Adds the rows of a span's minutes that have such keys.
fn copy(
    parts: &[Arc<Part>],
    dataset: &Arc<Dataset>,
    lost: Lost,
    to: &mut UnflushedRows,
    is_wanted: impl Fn(&[u8]) -> bool,
) {
    let minute = Resolution::Minute.secs();
    let times = Resolution::Minute.begin(lost.start)..lost.end;
    if times.is_empty() {
        return;
    }
    let plan = ReadPlan::of_steps(parts, dataset, &times, &mut minute.clone());
    let is_minute = |part: &Part| part.resolution == Resolution::Minute;
    for (part, of_part) in plan.reads.iter().filter(|(part, _)| is_minute(part)) {
        // Restored data includes the start of a minute in which it ends: files that have that too are
        // read from the next one on.
        let begin = match part.number() < lost.from || part.is_published() {
            true => lost.start.next_multiple_of(minute),
            false => times.start,
        };
        // Later files also include, for the last minute, counts of a later process.
        let end = match part.number() < lost.below {
            true => lost.end,
            false => Resolution::Minute.begin(lost.end),
        };
        let of_part = of_part.start.max(begin)..of_part.end.min(end);
        let read = part.read(dataset, of_part, Columns::ALL, &mut |row| {
            if is_wanted(&row.key) {
                to.add(dataset, row.time, &row.key, row.is_other, &row.gain);
            }
        });
        if let Err(error) = read {
            tracing::warn!(%error, "Rows of history cannot be read, and are missing from live reports.");
        }
    }
}

impl Catalog {
    /// Adds rows that replace lost counts.
    #[must_use]
    pub fn refilled_by(mut self, refill: Option<Refill>) -> Self {
        self.refill = parking_lot::RwLock::new(refill.map(Arc::new));
        self
    }

    /// The rows that replace lost counts, as long as a window reaches them.
    pub(in crate::query::catalog) fn refill(&self) -> Option<Arc<Refill>> {
        let refill = self.refill.read().clone()?;
        let now = self.clock.unix_ms() / 1000;
        if refill.lost(now).is_empty() {
            *self.refill.write() = None;
            return None;
        }
        Some(refill)
    }

    /// The spans still refilled, for the next process.
    #[must_use]
    pub fn refilled_spans(&self) -> Vec<Lost> {
        let refill = self.refill();
        refill.map_or(Vec::new(), |it| it.lost(self.clock.unix_ms() / 1000))
    }

    /// A whole reading of a report, including rows that replace lost counts. `of` is the report's
    /// own definition, `entry` has that of the columns. `None` if a report was dropped meanwhile.
    pub(in crate::query::catalog) fn read_refilled(
        held: &mut impl read::ReadLock,
        refill: &Refill,
        of: &Definition,
        entry: &Entry,
        want: Want,
        as_of_ms: u64,
    ) -> Option<Reading> {
        let all = Want { keys: true, quantiles: false, histograms: want.has_histograms() };
        let live = read::read(held, entry, all, as_of_ms)?;
        let mut added = None;
        held.unlocked(|| added = Some(refill.add_to(&live, of, &entry.definition, want)));
        added
    }
}
