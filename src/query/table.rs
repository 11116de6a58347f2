//! A finished answer, as rows and columns.
//!
//! The catalog makes tables from readings and snapshots; front ends sort, cut and print them. A
//! table owns (or shares without locks) everything it shows, so it may outlive the moment it was
//! taken for as long as a slow client needs. Values are read one by one: a table computes
//! percentages and rates only when they are read.

use std::sync::Arc;

use super::error::QueryError;
use crate::report::layout::NumberKind;
use crate::value::{Column, Value};

/// Rows and columns that no longer change.
pub trait Table: Send + Sync {
    /// The columns in their order.
    fn columns(&self) -> &[Column];

    /// The number of rows.
    fn len(&self) -> usize;

    /// Whether there is no row.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value in row `row` of column number `column`.
    ///
    /// # Panics
    /// May panic when either is out of range: callers take both from [`Table::len`] and
    /// [`Table::columns`].
    fn value(&self, row: usize, column: usize) -> Value<'_>;

    /// Appends a column of some rows, if its numbers can be read faster than one by one.
    fn numbers(&self, column: usize, rows: &[usize], numbers: &mut Vec<u64>) -> Option<NumberKind> {
        let _not_here = (column, rows, numbers);
        None
    }

    /// Loads the values of these columns in these rows (`None`: all), where that takes time and has
    /// not been done yet. Values that are not loaded are NULL.
    ///
    /// # Errors
    /// [`QueryError::Busy`]: the data is elsewhere and does not arrive.
    fn load(&mut self, columns: &[usize], rows: Option<&[usize]>) -> Result<(), QueryError> {
        let _is_there = (columns, rows);
        Ok(())
    }

    /// The number of the column called `name`.
    fn column(&self, name: &str) -> Option<usize> {
        self.columns().iter().position(|column| column.name == name)
    }
}

/// A table whose values are all in memory.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Arc<[Column]>,
    pub(crate) rows: Vec<Vec<Value<'static>>>,
}

impl Table for Rows {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        self.rows[row][column].borrowed()
    }
}

/// A table whose values are computed when they are read.
pub(super) struct Computed<S> {
    pub(super) columns: Vec<Column>,
    pub(super) len: usize,
    pub(super) source: S,
    /// Returns the value of a row and column.
    pub(super) value: fn(&S, usize, usize) -> Value<'_>,
}

impl<S: Send + Sync> Table for Computed<S> {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.len
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        (self.value)(&self.source, row, column)
    }
}

impl std::fmt::Debug for dyn Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("rows", &self.len())
            .field("columns", &self.columns())
            .finish()
    }
}
