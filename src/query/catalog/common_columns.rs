//! Reports in columns other than their own: the common columns of pages, and further percentiles.
//!
//! The engine keeps the same sums and histograms for every report; its layout decides which of them
//! its columns show. So a report can be read in another layout at no cost to the merger, and
//! nothing needs to be defined for it. Called on a front end's thread; the lock is held as for any
//! other read. Several reports are read together, and kept for a moment for other readers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::read_report::answer;
use super::{Catalog, columns, key_columns};
use crate::merger::{Live, answering};
use crate::query::answer::{Distribution, DistributionBucket, ReportAnswer};
use crate::query::error::QueryError;
use crate::report::definition::{Columns, Definition};
use crate::report::read::reading::{Reading, Want};
use crate::report::read::selection::RowSelection;
use crate::report::{Entry, read};
use crate::value::{Column, Value};

/// How long a reading is shared. Pages ask once a second, all of them at about the same moment.
const SHARED_FOR: Duration = Duration::from_millis(200);
/// Most rows of all shared readings together.
pub const SHARED_ROWS_MAX: usize = 25_000;

/// A recent reading.
#[derive(Debug)]
pub(super) struct SharedReading {
    read_at: Instant,
    as_of_ms: u64,
    /// The definition before it got other columns.
    of: Arc<Definition>,
    columns: Columns,
    definition: Arc<Definition>,
    reading: Arc<Reading>,
}

impl Catalog {
    /// The reports in these columns. Concurrent callers wait and share the result.
    pub(super) fn in_columns(
        &self,
        names: &[&str],
        columns: &Columns,
    ) -> Result<Vec<ReportAnswer>, QueryError> {
        let mut kept = self.shared_readings.lock();
        kept.retain(|shared| shared.read_at.elapsed() < SHARED_FOR);
        let is_of = |shared: &SharedReading, definition: &Arc<Definition>| {
            Arc::ptr_eq(&shared.of, definition) && shared.columns == *columns
        };
        let mut live = answering(&self.live);
        let entries = names.iter().map(|name| with_rows(&live, name).cloned());
        let entries: Vec<Entry> = entries.collect::<Result<_, _>>()?;
        let mut missing = entries.clone();
        missing.retain(|entry| !kept.iter().any(|kept| is_of(kept, &entry.definition)));
        let mut others = missing.clone();
        for entry in &mut others {
            if let Some(definition) = entry.definition.read_as(columns, &self.defaults) {
                entry.definition = Arc::new(definition);
            }
        }
        let as_of_ms = self.clock.unix_ms();
        let refill = self.refill();
        let asked = others.iter().map(|entry| {
            let layout = &entry.definition.layout;
            (entry, layout.want(0..layout.columns().len()))
        });
        let asked: Vec<(&Entry, Want)> = asked.collect();
        let read = match &refill {
            Some(refill) => Self::read_refilled(&mut live, refill, &missing, &asked, as_of_ms),
            None => read::read_together(&mut live, &asked, as_of_ms),
        };
        drop(live);
        let Some(readings) = read else {
            drop(kept);
            return self.in_columns(names, columns);
        };
        let read_at = Instant::now();
        let made = missing.into_iter().zip(others).zip(readings);
        let made = made.map(|((entry, other), reading)| SharedReading {
            read_at,
            as_of_ms,
            of: entry.definition,
            columns: columns.clone(),
            definition: other.definition,
            reading: Arc::new(reading),
        });
        let mut made: Vec<SharedReading> = made.collect();
        let answers = entries.iter().filter_map(|entry| {
            let mut all = kept.iter().chain(&made);
            let shared = all.find(|shared| is_of(shared, &entry.definition));
            shared.map(|it| answer(&it.definition, &it.reading, &[], it.as_of_ms))
        });
        let answers = answers.collect();
        let rows =
            |all: &[SharedReading]| all.iter().map(|shared| shared.reading.len()).sum::<usize>();
        if rows(&kept) + rows(&made) <= SHARED_ROWS_MAX {
            kept.append(&mut made);
        }
        Ok(answers)
    }

    /// The columns of a report read in these, and its approximate number of rows; `None` if they
    /// are its own, or it is not a report with rows.
    pub fn columns_with(&self, name: &str, wanted: &Columns) -> Option<(Vec<Column>, usize)> {
        let live = answering(&self.live);
        let entry = with_rows(&live, name).ok()?;
        let definition = entry.definition.read_as(wanted, &self.defaults)?;
        Some((columns(&definition.layout), live.reports.rows(entry)))
    }

    /// The histogram of the first row that shows these texts.
    pub(super) fn distribution_of(
        &self,
        name: &str,
        equal: &[(String, String)],
    ) -> Result<Option<Distribution>, QueryError> {
        let mut live = answering(&self.live);
        let entry = with_rows(&live, name)?.clone();
        let layout = &entry.definition.layout;
        let keys = key_columns(layout).filter_map(|at| {
            let column = &layout.columns()[at].column;
            let (_, text) = equal.iter().find(|(name, _)| *name == column.name)?;
            Some(shown_as(column, text).map(|value| (at, value)))
        });
        let Some(keys) = keys.collect() else { return Ok(None) };
        let selection = RowSelection { equal: keys, limit: 1, ..RowSelection::default() };
        let want = Want { keys: true, quantiles: false, histograms: true };
        let now_ms = self.clock.unix_ms();
        let refilled = self.refill().map(|refill| {
            let of = std::slice::from_ref(&entry);
            Self::read_refilled(&mut live, &refill, of, &[(&entry, want)], now_ms)?.pop()
        });
        let read = refilled.unwrap_or_else(|| {
            let (memory, selection) = (Reading::default(), Some(&selection));
            let read = read::read_into(memory, &mut live, &entry, want, selection, now_ms)?;
            Some(read.reading)
        });
        drop(live);
        let Some(mut reading) = read else { return self.distribution_of(name, equal) };
        let value = |row, column| layout.value(&reading, row, column);
        let (rows, _) = selection.rows(reading.len(), &value);
        let histogram = rows.first().map(|row| std::mem::take(&mut reading.histograms[*row]));
        Ok(histogram.map(|histogram| spread(&entry.definition, histogram)))
    }
}

/// A histogram with the bounds of its buckets.
pub(super) fn spread(
    definition: &Definition,
    histogram: impl IntoIterator<Item = (u32, u64)>,
) -> Distribution {
    let bucket = |(bucket, count): (u32, u64)| {
        let (low_us, high_us) = definition.buckets.bounds(bucket);
        DistributionBucket { low_us, high_us, count }
    };
    histogram.into_iter().map(bucket).collect()
}

/// A report with rows of its own, as opposed to a histogram view.
fn with_rows<'a>(live: &'a Live, name: &str) -> Result<&'a Entry, QueryError> {
    let entry = live.reports.find(name);
    let entry = entry.filter(|entry| !entry.definition.layout.is_histogram_view());
    entry.ok_or_else(|| QueryError::unknown_report(name))
}

/// The value of a key that is shown as this text, if there is one; where no number is there (in the
/// row for all others), it is the empty text.
fn shown_as<'a>(column: &Column, text: &'a str) -> Option<Value<'a>> {
    match (column.column_type.is_text(), text) {
        (true, text) => Some(Value::Text(text.into())),
        (false, "") => Some(Value::Null),
        (false, text) => text.parse().ok().map(Value::Int),
    }
}
