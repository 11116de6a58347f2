//! Two spans of a report as one table: each number with its earlier value and the relative change.
//!
//! Rows are joined by key when the table is built; values are looked up in the two tables on
//! demand.

use super::table::PastTable;
use crate::query::answer::has_sums;
use crate::query::catalog::is_key;
use crate::query::error::QueryError;
use crate::query::table::Table;
use crate::report::layout::{Cell, ColumnLayout, LayoutColumn};
use crate::value::{Column, ColumnType, Unit, Value};

/// Two spans of a report, side by side.
#[derive(Debug)]
pub(super) struct Compared {
    columns: Vec<Column>,
    /// For each column, the report's column, and the part of it that is shown.
    shown: Vec<(usize, Shown)>,
    now: PastTable,
    before: PastTable,
    /// The rows of either span for a key.
    rows: Vec<(Option<usize>, Option<usize>)>,
    /// See [`has_sums`].
    pub(super) has_sums: bool,
}

/// The content of a comparison's column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// A key, from either span.
    Key,
    /// A value of the requested span.
    Now,
    /// The value of the span before.
    Before,
    /// The relative change.
    Change,
}

impl Compared {
    pub(super) fn new(now: PastTable, before: PastTable) -> Self {
        let (sums, sums_before) = (&now.sums, &before.sums);
        let both = sums.rows.all.keys().enumerate();
        let both = both.map(|(at, key)| (Some(at), sums_before.rows.all.get_index_of(key)));
        let gone = sums_before.rows.all.keys().enumerate();
        let gone = gone.filter(|(_, key)| !sums.rows.all.contains_key(*key));
        let rows = both.chain(gone.map(|(at, _)| (None, Some(at)))).collect();
        let (columns, shown) = Self::columns(&now.definition.layout).into_iter().unzip();
        let has_sums = has_sums([&now, &before].map(|span| span.reading.covered_secs));
        Self { columns, shown, now, before, rows, has_sums }
    }

    /// The columns of a comparison of a report with this layout.
    fn columns(layout: &ColumnLayout) -> Vec<(Column, (usize, Shown))> {
        let mut all = Vec::new();
        for (at, LayoutColumn { column, cell }) in layout.columns().iter().enumerate() {
            let is_key = is_key(cell);
            let shown = if is_key { Shown::Key } else { Shown::Now };
            all.push((column.clone(), (at, shown)));
            if is_key || column.column_type.is_text() {
                continue;
            }
            let further = [
                ("before", column.column_type, column.unit, Shown::Before),
                ("change", ColumnType::Double, Unit::Ratio, Shown::Change),
            ];
            all.extend(further.map(|(word, column_type, unit, shown)| {
                let name = format!("{}_{word}", column.name);
                (Column::new(name, column_type, unit), (at, shown))
            }));
        }
        all
    }

    /// Whether a column grows with the time counted.
    fn is_sum(&self, at: usize) -> bool {
        matches!(self.now.definition.layout.columns()[at].cell, Cell::Sum(..))
    }

    /// The indexes of the columns by which rows can be selected.
    pub(super) fn key_columns(&self) -> Vec<usize> {
        (0..self.shown.len()).filter(|at| self.shown[*at].1 == Shown::Key).collect()
    }
}

/// The relative change of a number; `None` without either, or if the earlier one is 0.
fn change(now: &Value<'_>, before: &Value<'_>) -> Option<f64> {
    let number = |value: &Value<'_>| value.number().filter(|number| number.is_finite());
    let (now, before) = number(now).zip(number(before))?;
    (before != 0.0).then(|| (now - before) / before)
}

impl Table for Compared {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        let (at, shown) = self.shown[column];
        let (now, before) = self.rows[row];
        let now = || now.map(|row| self.now.value(row, at));
        let before = || before.map(|row| self.before.value(row, at));
        let value = match shown {
            Shown::Key => now().or_else(before),
            Shown::Now => now(),
            Shown::Before => before(),
            Shown::Change if !self.has_sums && self.is_sum(at) => None,
            Shown::Change => {
                let values = now().zip(before());
                values.and_then(|(now, before)| change(&now, &before)).map(Value::Float)
            }
        };
        value.unwrap_or(Value::Null)
    }

    fn load(&mut self, columns: &[usize], rows: Option<&[usize]>) -> Result<(), QueryError> {
        let of_report: Vec<usize> = columns.iter().map(|column| self.shown[*column].0).collect();
        let mut sides: [Option<Vec<usize>>; 2] = [None, None];
        if let Some(rows) = rows {
            let pairs = || rows.iter().map(|row| self.rows[*row]);
            let (now, before) = (pairs().filter_map(|row| row.0), pairs().filter_map(|row| row.1));
            sides = [Some(now.collect()), Some(before.collect())];
        }
        let [now, before] = sides;
        self.now.load(&of_report, now.as_deref())?;
        self.before.load(&of_report, before.as_deref())
    }
}
