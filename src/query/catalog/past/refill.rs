//! Replaces the lost counts of a killed process by rows of history, until they have left the
//! window.
//!
//! Read at the start, before anything is merged, for the missing spans
//! ([`LastEnd`](crate::state::last_end::LastEnd)): the files on disk then come from earlier
//! processes, so nothing counts twice. If history cannot be read then, it is read as soon as it can
//! be, before anything is written; and once more when the rows restored from its log are in files.
//! A report is read as always, and the rows of the minutes inside its window are added by key.
//! Minutes leave as a whole. Raw requests are not restored, so anything derived from them is not
//! covered.
//!
//! Bounded by [`BYTES_MAX`]: past that the lightest keys are in `(other)`, as in history itself.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::Catalog;
use crate::clock::rfc3339;
use crate::history::parquet::Want as Columns;
use crate::history::read_plan::ReadPlan;
use crate::history::{
    Coverage, Dataset, Earlier, Gain, History, Part, Resolution, Row, UnflushedRows,
};
use crate::merger::answering;
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
    /// From the first minute to the end of the last; empty if there is no row.
    filled: Range<u64>,
    /// What no row replaces although history has it, or had it before.
    lacking: Option<Range<u64>>,
    /// Whether history could be read.
    is_read: bool,
}

impl Refill {
    /// Reads the rows of these spans, as far as the windows of the reports reach; `None` if nothing
    /// is missing, or ever was in history.
    #[must_use]
    pub fn read<'a>(
        history: Option<&History>,
        reports: impl Iterator<Item = &'a Definition>,
        error_status: u32,
        lost: &[Lost],
    ) -> Option<Self> {
        let end = lost.iter().map(|lost| lost.end).max()?;
        let earlier = history.and_then(History::earlier);
        let is_read = earlier.is_some() || history.is_none();
        // And whether rows were found.
        let mut spans: Vec<(Lost, bool)> = lost.iter().map(|&lost| (lost, false)).collect();
        let coverage = Arc::new(Dataset::coverage());
        let mut rows = UnflushedRows::default();
        let mut longest = 0;
        for report in reports {
            let window = report.window.as_secs();
            longest = longest.max(window);
            let dataset = Arc::new(Dataset::of(report, error_status));
            let own = dataset.coverage_key();
            for (lost, is_found) in &mut spans {
                let Some(earlier) = &earlier else { break };
                let begin = lost.end.saturating_sub(window);
                let lost = Lost { start: lost.start.max(begin), ..*lost };
                *is_found |= copy(earlier, &dataset, lost, &mut rows, |_| true);
                *is_found |= copy(earlier, &coverage, lost, &mut rows, |key| *key == *own);
            }
            if rows.bytes() > BYTES_MAX {
                rows.shrink(BYTES_MAX);
            }
        }
        spans.retain(|(lost, is_found)| *is_found || !is_read || lost.store != 0);
        let lacking = spans.iter().filter(|(_, is_found)| !is_found).map(|(lost, _)| lost);
        let lacking =
            lacking.map(|lost| lost.start.max(lost.end.saturating_sub(longest))..lost.end);
        let lacking = lacking.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        for (lost, _) in spans.iter_mut().filter(|(_, is_found)| *is_found) {
            let Some(earlier) = &earlier else { break };
            lost.store = earlier.store;
            if earlier.unflushed.is_none() {
                lost.below = lost.below.min(earlier.next);
            }
        }
        if let Some(history) = history {
            let spans = spans.iter().map(|(lost, _)| (lost.start..lost.end, lost.end + longest));
            history.keep_minutes_of(spans.collect());
        }
        let filled = rows.span();
        // The last row covers a minute, of which this process counts the rest itself.
        let last = Resolution::Minute.begin(filled.end.saturating_sub(1));
        let filled = filled.start..end.min(last + Resolution::Minute.secs());
        (!spans.is_empty()).then(|| Self {
            rows,
            error_status,
            window_secs: longest,
            lost: spans.into_iter().map(|(lost, _)| lost).collect(),
            filled,
            lacking,
            is_read,
        })
    }

    /// From its first minute to the end of its last, or to the start of this process if that was
    /// before, in unix seconds; `None` if it has no row.
    #[must_use]
    pub fn filled(&self) -> Option<Range<u64>> {
        (!self.rows.is_empty()).then(|| self.filled.clone())
    }

    /// Whether history had this report then.
    pub(in crate::query::catalog) fn has(&self, of: &Definition) -> bool {
        let own = Dataset::of(of, self.error_status).coverage_key();
        let mut is_found = false;
        self.rows.rows(&Dataset::coverage(), 0..u64::MAX, |row| is_found |= *row.key == *own);
        is_found
    }

    /// A remark on what no row replaces although history has it, or had it before.
    #[must_use]
    pub fn why_lacking(&self) -> Option<String> {
        let Range { start, end } = self.lacking.clone()?;
        let why = match self.is_read {
            true => "history, which had it, does not have it now",
            false => "history cannot be read yet",
        };
        Some(format!(
            "live reports lack what was counted from {} to {}: {why}",
            rfc3339(start),
            rfc3339(end)
        ))
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

/// Adds the rows of a span's minutes that have such keys; returns whether there are any.
fn copy(
    earlier: &Earlier,
    dataset: &Arc<Dataset>,
    lost: Lost,
    to: &mut UnflushedRows,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> bool {
    let minute = Resolution::Minute.secs();
    let times = Resolution::Minute.begin(lost.start)..lost.end;
    if times.is_empty() || lost.store != 0 && lost.store != earlier.store {
        return false;
    }
    // The minutes to read from a file with this number.
    let within = |number: u64, is_published: bool| {
        // Restored data includes the start of a minute in which it ends: files that have that too are
        // read from the next one on.
        let begin = match number < lost.from || is_published {
            // The clock was ahead: files from before have nothing else, whatever their times.
            true if lost.start == 0 && lost.from != u64::MAX => lost.end,
            true => lost.start.next_multiple_of(minute),
            false => times.start,
        };
        // Later files also include, for the last minute, counts of a later process.
        let end = match number < lost.below {
            true => lost.end,
            false => Resolution::Minute.begin(lost.end),
        };
        begin..end
    };
    let mut is_found = false;
    let mut add = |row: &Row| {
        if is_wanted(&row.key) {
            is_found = true;
            to.add(dataset, row.time, &row.key, row.is_other, &row.gain);
        }
    };
    let plan = ReadPlan::of_steps(&earlier.parts, dataset, &times, &mut minute.clone());
    let is_minute = |part: &Part| part.resolution == Resolution::Minute;
    for (part, of_part) in plan.reads.iter().filter(|(part, _)| is_minute(part)) {
        let within = within(part.number(), part.is_published());
        let of_part = of_part.start.max(within.start)..of_part.end.min(within.end);
        if let Err(error) = part.read(dataset, of_part, Columns::ALL, &mut add) {
            tracing::warn!(%error, "Rows of history cannot be read, and are missing from live reports.");
        }
    }
    if let Some(unflushed) = &earlier.unflushed {
        unflushed.rows(dataset, within(earlier.next, false), &mut add);
    }
    is_found
}

impl Catalog {
    /// Adds rows that replace lost counts.
    #[must_use]
    pub fn refilled_by(mut self, refill: Option<Refill>) -> Self {
        self.refill = parking_lot::RwLock::new(refill.map(Arc::new));
        self
    }

    /// Reads again what replaces lost counts: history has become readable, or the rows restored
    /// from its log are in files now.
    pub(crate) fn refill_again(&self) {
        let mark = self.mark.lock();
        let Some(before) = self.missing() else { return };
        let live = answering(&self.live);
        let reports: Vec<_> = live.reports.iter().map(|it| Arc::clone(&it.definition)).collect();
        drop(live);
        let (reports, lost) = (reports.iter().map(|it| &**it), before.lost(self.unix_secs()));
        let refill =
            Refill::read(self.status.history.as_ref(), reports, before.error_status, &lost);
        if let Some(Range { start, end }) = refill.as_ref().and_then(Refill::filled)
            && before.rows.is_empty()
        {
            let (from, to) = (rfc3339(start), rfc3339(end));
            tracing::info!(from, to, "Live reports are refilled from history, by the minute.");
        }
        *self.refill.write() = refill.map(Arc::new);
        mark.iter().for_each(|mark| mark.record_missing(&self.missing_spans()));
    }

    /// The missing spans, with the rows that replace them, as long as a window reaches them.
    fn missing(&self) -> Option<Arc<Refill>> {
        let refill = self.refill.read().clone()?;
        if refill.lost(self.unix_secs()).is_empty() {
            *self.refill.write() = None;
            return None;
        }
        Some(refill)
    }

    /// The rows that replace lost counts, if there are any.
    pub(in crate::query::catalog) fn refill(&self) -> Option<Arc<Refill>> {
        self.missing().filter(|refill| !refill.rows.is_empty())
    }

    /// A remark on counts that are missing in live reports although history has them, or had them.
    pub(crate) fn why_lacking(&self) -> Option<String> {
        self.missing()?.why_lacking()
    }

    /// The missing spans that history replaces, or may replace later, for the next process.
    #[must_use]
    pub(crate) fn missing_spans(&self) -> Vec<Lost> {
        self.missing().map_or(Vec::new(), |it| it.lost(self.unix_secs()))
    }

    fn unix_secs(&self) -> u64 {
        self.clock.unix_ms() / 1000
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
