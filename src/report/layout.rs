//! Column layouts: the columns in which a report is shown, and how each is computed from a row of a
//! reading.
//!
//! All kinds of Pinba and pinba2 and the native one are lists of [`LayoutColumn`] over the same
//! totals; `builder` assembles them once per report, from the lines of `columns.txt`. Front ends
//! call [`ColumnLayout::value`] for every value they show, on their own threads, over an immutable
//! [`Reading`]; only composed texts (`index_value`, histogram texts) allocate.
//!
//! f64 appears here for the first time: everything below is integers.
//!
//! # One column more
//!
//! - Of what is counted already: a line of `columns.txt`. A word behind the type says where its
//!   values come from, and its unit follows. SQL, JSON, CSV, Arrow, the MySQL wire, CREATE TABLE,
//!   `/api/v1/reports`, the report's own page and `top` have it then.
//! - Computed in a new way: a [`Cell`] with its unit and value here, and its word in `builder`.
//! - In the short tables of the pages: a line of `http/page/columns.toml`, with a title and what it
//!   means.
//!
//! # One measure more
//!
//! 1. `totals.rs`: a line of `measures!`, the last one: name, widths, unit, and the column in which
//!    it is stored. Tick logs, seconds, files of history and what the fleet is asked for have it
//!    then.
//! 2. `arrivals.rs`: what a request adds to it.
//! 3. `columns.txt`: the columns that show it.
//! 4. `state/records.rs`: another version, since an older snapshot has fewer sums.
//! 5. `clickhouse/tables.rs` and `clickhouse/views.rs`: its column there.
//!
//! `series/metric.rs` and `metrics/rows.rs` list what is drawn and what is scraped. That all front
//! ends show the columns that are declared is what `tests/it/mysql/columns.rs` is for.

use std::borrow::Cow;

use super::histogram::V2Buckets;
use super::read::reading::{Reading, Want};
use super::totals::Extremes;
pub use super::totals::Measure;
use crate::value::{Column, ColumnType, Unit, Value};

mod builder;
mod numbers;
mod view;

pub use numbers::NumberKind;
use view::HistogramView;

/// The text shown for a key of the overflow row.
pub const OTHER: &str = "(other)";

/// Bytes reserved for an `index_value`: most are shorter.
const INDEX_BYTES: usize = 64;

/// A report's columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnLayout {
    columns: Vec<LayoutColumn>,
    view: Option<HistogramView>,
}

/// One column and how it is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct LayoutColumn {
    /// Its name and type.
    pub column: Column,
    /// The source of its values.
    pub cell: Cell,
}

/// The basis of rates and shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Rates are over the seconds that the data spans: at least 1, at most the window. A share of
    /// nothing is 0 (v1, native).
    Covered,
    /// Rates are over the window. A share of nothing is NULL (v2).
    Window,
}

/// A part of an `index_value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexPart {
    /// The text of this key.
    Key(usize),
    /// A separator.
    Text(&'static str),
}

impl IndexPart {
    /// Its text in a row.
    fn text<'a>(&self, reading: &'a Reading, row: usize) -> &'a str {
        match self {
            Self::Key(key) => reading.key(row, *key).unwrap_or(OTHER),
            Self::Text(separator) => separator,
        }
    }
}

/// How a column is computed from a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A key: as text or, if the column is one of numbers, the status (NULL in the `(other)` row).
    Key(usize),
    /// Keys and separators, concatenated.
    IndexValue(Box<[IndexPart]>),
    /// A sum.
    Sum(Measure, Unit),
    /// A sum per second.
    PerSec(Measure, Unit, Basis),
    /// 100 x this row / all rows.
    Percent(Measure, Basis),
    /// A quantile in seconds: 0 the median, 1.. the percentiles; NULL when the histogram is not
    /// known.
    Quantile(usize),
    /// `info`'s `time_interval`: the seconds that the data spans.
    TimeInterval,
    /// pinba2's histogram text, with the separator between an id and its count.
    HistogramText(V2Buckets, &'static str),
    /// Shortest time (0), longest time (1), in seconds, or largest `memory_peak` (2), in bytes.
    Extreme(usize, Unit),
    /// A column of a histogram view: only [`ColumnLayout::segments`] has values for it.
    Segment,
    /// What is not known of any record: NULL.
    Unknown,
}

impl Cell {
    /// The unit of this column's numbers.
    const fn unit(&self) -> Unit {
        match self {
            Self::Key(_)
            | Self::IndexValue(_)
            | Self::HistogramText(..)
            | Self::Segment
            | Self::Unknown => Unit::None,
            Self::Sum(_, unit) | Self::Extreme(_, unit) => *unit,
            Self::PerSec(_, unit, _) => unit.per_second(),
            Self::Percent(..) => Unit::Percent,
            Self::Quantile(_) | Self::TimeInterval => Unit::Seconds,
        }
    }
}

impl ColumnLayout {
    /// The columns in order.
    pub fn columns(&self) -> &[LayoutColumn] {
        &self.columns
    }

    /// Renames a column.
    pub(super) fn rename(&mut self, column: usize, name: &str) {
        if let Some(column) = self.columns.get_mut(column) {
            name.clone_into(&mut column.column.name);
        }
    }

    /// Adds a column, with sums in the unit in which the report shows them elsewhere.
    pub(super) fn push(&mut self, mut column: LayoutColumn) {
        if let Cell::Sum(measure, unit) | Cell::PerSec(measure, unit, _) = &mut column.cell {
            let shown = self.columns.iter().find_map(|own| match own.cell {
                Cell::Sum(of, unit) if of == *measure => Some(unit),
                _ => None,
            });
            *unit = shown.unwrap_or(*unit);
            if *unit == Unit::Kib {
                column.column.column_type = ColumnType::Double;
            }
            column.column.unit = column.cell.unit();
        }
        self.columns.push(column);
    }

    /// The index of the column with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.column.name == name)
    }

    /// The parts of a reading that these columns (by index) need.
    pub fn want(&self, columns: impl IntoIterator<Item = usize>) -> Want {
        let mut want =
            Want { keys: self.view.is_some(), quantiles: false, histograms: self.view.is_some() };
        for column in columns.into_iter().filter_map(|at| self.columns.get(at)) {
            match column.cell {
                Cell::Key(_) | Cell::IndexValue(_) => want.keys = true,
                Cell::Quantile(_) => want.quantiles = true,
                Cell::HistogramText(..) => want.histograms = true,
                _ => {}
            }
        }
        want
    }

    /// The value of a column in a row of a reading made for this layout's report.
    ///
    /// In a histogram view rows are segments: use [`ColumnLayout::segments`]; this gives NULL.
    ///
    /// # Panics
    /// If `row` or `column` is out of range: callers take both from the reading and the layout.
    pub fn value<'a>(&self, reading: &'a Reading, row: usize, column: usize) -> Value<'a> {
        let totals = &reading.totals[row];
        match &self.columns[column].cell {
            Cell::Key(key) => match reading.key(row, *key) {
                key if self.columns[column].column.column_type.is_text() => {
                    Value::Text(Cow::Borrowed(key.unwrap_or(OTHER)))
                }
                status => status.map_or(Value::Null, |it| Value::Int(it.parse().unwrap_or(0))),
            },
            Cell::IndexValue(parts) => Value::Text(index_value(parts, reading, row)),
            Cell::Sum(measure, Unit::Seconds) => {
                let us = measure.of(totals);
                u64::try_from(us).map_or_else(|_| Value::Float(us as f64 / 1e6), Value::Micros)
            }
            cell @ (Cell::Sum(_, Unit::Kib) | Cell::PerSec(..) | Cell::Percent(..)) => {
                let quotient = cell.quotient(reading).map(|it| it.of(totals));
                quotient.filter(|value| !value.is_nan()).map_or(Value::Null, Value::Float)
            }
            Cell::Sum(measure, _) => whole(measure.of(totals)),
            Cell::Quantile(rank) => reading.quantile(row, *rank).map_or(Value::Null, Value::Float),
            Cell::TimeInterval => whole(u128::from(reading.covered_secs.max(1))),
            Cell::HistogramText(buckets, gap) => match reading.histograms.get(row) {
                // Counts without buckets: there was no memory for the histogram.
                Some(histogram) if !histogram.is_empty() || totals.requests == 0 => {
                    Value::Text(Cow::Owned(buckets.text(histogram, gap)))
                }
                _ => Value::Null,
            },
            Cell::Extreme(at, unit) => match reading.extremes.get(row).and_then(Extremes::seen) {
                Some(seen) if *unit == Unit::Seconds => Value::Micros(seen[*at]),
                Some(seen) => whole(seen[*at].into()),
                None => Value::Null,
            },
            Cell::Segment | Cell::Unknown => Value::Null,
        }
    }
}

/// A sum as a float. The detour over u64 matters: converting a u128 costs ten times as much.
#[inline]
fn number(sum: u128) -> f64 {
    u64::try_from(sum).map_or_else(|_| sum as f64, |sum| sum as f64)
}

/// A sum as an integer, or as a float if it exceeds 63 bits.
#[inline]
fn whole(sum: u128) -> Value<'static> {
    i64::try_from(sum).map_or_else(|_| Value::Float(sum as f64), Value::Int)
}

/// The `index_value` of a row: borrowed if it is one key's text.
fn index_value<'a>(parts: &[IndexPart], reading: &'a Reading, row: usize) -> Cow<'a, str> {
    if let [part] = parts {
        return Cow::Borrowed(part.text(reading, row));
    }
    let mut text = String::with_capacity(INDEX_BYTES);
    parts.iter().for_each(|part| text.push_str(part.text(reading, row)));
    Cow::Owned(text)
}

#[cfg(test)]
mod tests;
