//! Reports as the page shows them: all in the same columns, with the percentiles that it wants, and row by row.
//!
//! The engine keeps the same sums and histograms for every report; which of them its columns show is a matter of its
//! shape. So a report can be read in another shape at no cost to the merger, and nothing needs to be defined for it.
//! Called on a front end's thread; the lock is held as for any other reading.

use std::sync::Arc;

use super::{Catalog, ReportTable, columns, key_columns};
use crate::query::error::QueryError;
use crate::query::source::{ReportAnswer, Spread, SpreadBucket};
use crate::report::Entry;
use crate::report::reading::Reading;
use crate::value::Value;

impl Catalog {
    /// The report in native columns.
    pub(super) fn ranked(
        &self,
        name: &str,
        percentiles: &[f64],
    ) -> Result<ReportAnswer, QueryError> {
        let mut entry = self.report_entry(name)?;
        let native = entry
            .definition
            .in_native_columns(percentiles, &self.defaults);
        entry.definition = Arc::new(native);
        let shape = &entry.definition.shape;
        let want = shape.want(0..shape.columns().len());
        let now_ms = self.clock.unix_ms();
        let reading = {
            let live = self.live.read();
            // It may have been dropped meanwhile, and its place taken by another.
            match live.reports.find(name) {
                Some(found) if found.is_same(&entry) => {
                    live.reports.read(&entry, want, &live.pool, now_ms)
                }
                _ => return Err(unknown(name)),
            }
        };
        Ok(ReportAnswer {
            window_seconds: reading.window_secs,
            covered_seconds: reading.covered_secs,
            as_of_ms: now_ms,
            key_columns: (0..entry.definition.keys.len()).collect(),
            table: Box::new(ReportTable {
                columns: columns(shape),
                reading: Arc::new(reading),
                definition: entry.definition,
            }),
        })
    }

    /// The histogram of the first row that shows these texts.
    pub(super) fn spread_of(
        &self,
        name: &str,
        equal: &[(String, String)],
    ) -> Result<Option<Spread>, QueryError> {
        let entry = self.report_entry(name)?;
        let shape = &entry.definition.shape;
        let wanted: Vec<(usize, &str)> = key_columns(shape)
            .filter_map(|at| {
                let column = &shape.columns()[at].column.name;
                let (_, text) = equal.iter().find(|(name, _)| name == column)?;
                Some((at, text.as_str()))
            })
            .collect();
        let shows = |reading: &Reading, row: usize| {
            wanted
                .iter()
                .all(|&(at, text)| is_shown_as(&shape.value(reading, row, at), text))
        };
        let now_ms = self.clock.unix_ms();
        let row = {
            let live = self.live.read();
            match live.reports.find(name) {
                Some(found) if found.is_same(&entry) => live
                    .reports
                    .read_histogram(&entry, &live.pool, now_ms, shows),
                _ => return Err(unknown(name)),
            }
        };
        Ok(row.map(|histogram| Spread {
            count: histogram.iter().map(|(_, count)| count).sum(),
            buckets: histogram
                .into_iter()
                .map(|(bucket, count)| {
                    let (low_us, high_us) = entry.definition.layout.bounds(bucket);
                    SpreadBucket {
                        low_us,
                        high_us,
                        count,
                    }
                })
                .collect(),
        }))
    }

    /// A report that has rows of its own, not one that shows a histogram.
    fn report_entry(&self, name: &str) -> Result<Entry, QueryError> {
        let entry = self.entry(name)?;
        if entry.definition.shape.is_histogram_view() {
            return Err(unknown(name));
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

fn unknown(name: &str) -> QueryError {
    QueryError::UnknownReport {
        name: name.to_owned(),
    }
}
