//! Reports as the page shows them: all in the same columns, with the percentiles that it wants, and row by row.
//!
//! The engine keeps the same sums and histograms for every report; which of them its columns show is a matter of its
//! shape. So a report can be read in another shape at no cost to the merger, and nothing needs to be defined for it.
//! Called on a front end's thread; the lock is held as for any other reading.
//! Several reports are read in one go, and kept for a moment for others who look at the same.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Catalog, ReportTable, key_columns};
use crate::query::error::QueryError;
use crate::query::read_model::{Distribution, DistributionBucket, ReportAnswer};
use crate::report::Entry;
use crate::report::definition::Definition;
use crate::report::reading::{Reading, Want};
use crate::value::Value;

/// How long others are shown the same reading. Pages ask when a second has passed, all of them at about that moment.
const SHARED_FOR: Duration = Duration::from_millis(200);
/// Rows of all readings together that are kept for that.
pub const RANKED_ROWS_MAX: usize = 25_000;

/// A reading that was made a moment ago.
#[derive(Debug)]
pub(super) struct Ranked {
    read_at: Instant,
    as_of_ms: u64,
    /// What it was before it got native columns.
    entry: Entry,
    percentiles: Vec<f64>,
    definition: Arc<Definition>,
    reading: Arc<Reading>,
}

impl Ranked {
    fn answer(&self) -> ReportAnswer {
        ReportAnswer {
            window_seconds: self.reading.window_secs,
            covered_seconds: self.reading.covered_secs,
            as_of_ms: self.as_of_ms,
            key_columns: (0..self.definition.keys.len()).collect(),
            table: Box::new(ReportTable::new(&self.definition, &self.reading)),
        }
    }
}

impl Catalog {
    /// The reports in native columns. Who comes while they are read waits, and finds them made.
    pub(super) fn ranked(
        &self,
        names: &[&str],
        percentiles: &[f64],
    ) -> Result<Vec<ReportAnswer>, QueryError> {
        let entries = names.iter().map(|name| self.report_entry(name));
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let mut kept = self.rankings.lock();
        kept.retain(|ranked| ranked.read_at.elapsed() < SHARED_FOR);
        let is_this = |ranked: &Ranked, entry: &Entry| {
            Arc::ptr_eq(&ranked.entry.definition, &entry.definition)
                && ranked.entry.is_same(entry)
                && ranked.percentiles == percentiles
        };
        let is_kept = |entry: &&Entry| kept.iter().any(|ranked| is_this(ranked, entry));
        let missing: Vec<&Entry> = entries.iter().filter(|entry| !is_kept(entry)).collect();
        let mut made = self.rank(&missing, percentiles)?;
        let answer = |entry: &Entry| {
            let mut all = kept.iter().chain(&made);
            let ranked = all
                .find(|ranked| is_this(ranked, entry))
                .map(Ranked::answer);
            ranked.ok_or_else(|| QueryError::unknown_report(&entry.definition.name))
        };
        let answers = entries.iter().map(answer).collect::<Result<_, _>>()?;
        let rows = |all: &[Ranked]| all.iter().map(|ranked| ranked.reading.len()).sum::<usize>();
        if rows(&kept) + rows(&made) <= RANKED_ROWS_MAX {
            kept.append(&mut made);
        }
        Ok(answers)
    }

    /// Reads reports in native columns, under one hold of the lock.
    fn rank(&self, entries: &[&Entry], percentiles: &[f64]) -> Result<Vec<Ranked>, QueryError> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let native = entries.iter().map(|entry| {
            let mut native = (*entry).clone();
            let definition = entry
                .definition
                .in_native_columns(percentiles, &self.defaults);
            native.definition = Arc::new(definition);
            native
        });
        let native: Vec<Entry> = native.collect();
        let asked = native.iter().map(|entry| {
            let layout = &entry.definition.layout;
            (entry, layout.want(0..layout.columns().len()))
        });
        let asked: Vec<(&Entry, Want)> = asked.collect();
        let as_of_ms = self.clock.unix_ms();
        let readings = {
            let live = self.live.read();
            // One may have been dropped meanwhile, and its place taken by another.
            let gone = native.iter().find(|entry| {
                let found = live.reports.find(&entry.definition.name);
                !found.is_some_and(|found| found.is_same(entry))
            });
            if let Some(gone) = gone {
                return Err(QueryError::unknown_report(&gone.definition.name));
            }
            live.reports.read_all(&asked, &live.pool, as_of_ms)
        };
        let read_at = Instant::now();
        let ranked = |((entry, native), reading): ((&&Entry, &Entry), Reading)| Ranked {
            read_at,
            as_of_ms,
            entry: (*entry).clone(),
            percentiles: percentiles.to_vec(),
            definition: Arc::clone(&native.definition),
            reading: Arc::new(reading),
        };
        let all = entries.iter().zip(&native).zip(readings);
        Ok(all.map(ranked).collect())
    }

    /// The histogram of the first row that shows these texts.
    pub(super) fn distribution_of(
        &self,
        name: &str,
        equal: &[(String, String)],
    ) -> Result<Option<Distribution>, QueryError> {
        let entry = self.report_entry(name)?;
        let layout = &entry.definition.layout;
        let wanted: Vec<(usize, &str)> = key_columns(layout)
            .filter_map(|at| {
                let column = &layout.columns()[at].column.name;
                let (_, text) = equal.iter().find(|(name, _)| name == column)?;
                Some((at, text.as_str()))
            })
            .collect();
        let shows = |reading: &Reading, row: usize| {
            let value = |at| layout.value(reading, row, at);
            wanted
                .iter()
                .all(|&(at, text)| is_shown_as(&value(at), text))
        };
        let now_ms = self.clock.unix_ms();
        let live = self.live.read();
        if !live
            .reports
            .find(name)
            .is_some_and(|found| found.is_same(&entry))
        {
            return Err(QueryError::unknown_report(name));
        }
        let row = live
            .reports
            .read_histogram(&entry, &live.pool, now_ms, shows);
        drop(live);
        let bucket = |(bucket, count): (u32, u64)| {
            let (low_us, high_us) = entry.definition.buckets.bounds(bucket);
            DistributionBucket {
                low_us,
                high_us,
                count,
            }
        };
        Ok(row.map(|histogram| Distribution {
            count: histogram.iter().map(|(_, count)| count).sum(),
            buckets: histogram.into_iter().map(bucket).collect(),
        }))
    }

    /// A report that has rows of its own, not one that shows a histogram.
    fn report_entry(&self, name: &str) -> Result<Entry, QueryError> {
        let entry = self.entry(name)?;
        if entry.definition.layout.is_histogram_view() {
            return Err(QueryError::unknown_report(name));
        }
        Ok(entry)
    }
}

/// Whether a key shows as this text; a number that is not there (in the row for all others) as the empty one.
fn is_shown_as(value: &Value<'_>, text: &str) -> bool {
    match value {
        Value::Text(shown) => shown == text,
        Value::Int(number) => text.parse() == Ok(*number),
        Value::Null => text.is_empty(),
        Value::Micros(_) | Value::Float(_) => false,
    }
}
