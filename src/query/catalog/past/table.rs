//! A report over a span of the past as a table.
//!
//! Sums are available from the start. Histograms are read when [`load`](Table::load) asks for
//! columns that need them, and only for the rows shown.

use std::borrow::Cow;
use std::sync::Arc;

use super::fleet::away;
use crate::history::histogram::{ends, fold, settle};
use crate::history::sums::Sums;
use crate::query::catalog::{columns, is_key};
use crate::query::error::QueryError;
use crate::query::table::Table;
use crate::report::definition::Definition;
use crate::report::histogram::BucketLayout;
use crate::report::read::reading::Reading;
use crate::report::totals::Totals;
use crate::value::{Column, Value};

/// A report over a span.
#[derive(Debug)]
pub(super) struct PastTable {
    columns: Vec<Column>,
    pub(super) definition: Arc<Definition>,
    pub(super) sums: Sums,
    pub(super) reading: Reading,
    /// Whether requests were counted at all in the span.
    is_covered: bool,
    /// Buckets per doubling to which histograms are folded, as a power of two.
    bits: u32,
    /// Whether the histogram of each row has been read.
    loaded: Vec<bool>,
}

impl PastTable {
    pub(super) fn new(
        definition: &Arc<Definition>,
        sums: Sums,
        bits: u32,
        covered_secs: u64,
        as_of_ms: u64,
    ) -> Self {
        let rows = sums.rows.all.iter();
        let rows = rows.map(|(key, row)| (&**key, row.is_other, row.totals, row.extremes));
        let mut reading = Reading::of_rows(definition, rows);
        reading.covered_secs = covered_secs.max(1);
        // All rates are per second in which requests were counted.
        reading.window_secs = reading.covered_secs as f64;
        reading.as_of_ms = as_of_ms;
        Self {
            columns: columns(&definition.layout),
            definition: Arc::clone(definition),
            loaded: vec![false; sums.rows.all.len()],
            sums,
            is_covered: covered_secs > 0,
            reading,
            bits,
        }
    }

    /// Whether a row, the total, is of nothing because nothing was counted: its numbers are
    /// unknown.
    fn is_unknown(&self, row: usize, column: usize) -> bool {
        let is_empty = !self.is_covered && self.reading.totals[row] == Totals::ZERO;
        is_empty && !is_key(&self.definition.layout.columns()[column].cell)
    }

    /// Reads the histograms of some rows.
    fn load_rows(&mut self, rows: &[usize], keeps: bool) -> Result<(), QueryError> {
        let Self { definition, sums, reading, bits, loaded, .. } = self;
        let mut missing = rows.to_vec();
        missing.retain(|row| !loaded[*row]);
        if keeps && reading.histograms.is_empty() {
            reading.histograms = vec![Vec::new(); loaded.len()];
        }
        let is_log_linear = definition.buckets == BucketLayout::LogLinear;
        let read = sums.histograms(&missing, &mut |row, histogram| {
            loaded[row] = true;
            let Some(histogram) = histogram else { return };
            let mut folded = Cow::Borrowed(histogram);
            if is_log_linear && sums.bits > *bits {
                fold(folded.to_mut(), *bits);
            }
            let settle = |secs| settle(&definition.buckets, secs, *bits);
            let ends = |bucket| ends(&definition.buckets, bucket, *bits);
            reading.know(row, definition, &folded, settle, ends);
            if keeps {
                reading.histograms[row] = histogram.iter().collect();
            }
        });
        read.map_err(|problem| away(&problem))
    }
}

impl Table for PastTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.reading.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        if self.is_unknown(row, column) {
            return Value::Null;
        }
        self.definition.layout.value(&self.reading, row, column)
    }

    fn load(&mut self, columns: &[usize], rows: Option<&[usize]>) -> Result<(), QueryError> {
        let want = self.definition.layout.want(columns.iter().copied());
        if want.quantiles || want.histograms {
            let all: Vec<usize> = (0..self.len()).collect();
            return self.load_rows(rows.unwrap_or(&all), want.histograms);
        }
        Ok(())
    }
}
