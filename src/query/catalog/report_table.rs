//! A reading of a report as a table.

use std::sync::Arc;

use super::{columns, key_columns};
use crate::query::read_model::ReportAnswer;
use crate::query::table::Table;
use crate::report::definition::Definition;
use crate::report::layout::Numbers;
use crate::report::reading::Reading;
use crate::value::{Column, Value};

/// Turns a reading into an answer.
pub(super) fn answer(
    definition: &Arc<Definition>,
    reading: &Arc<Reading>,
    as_of_ms: u64,
) -> ReportAnswer {
    ReportAnswer {
        window_seconds: reading.window_secs,
        covered_seconds: reading.covered_secs,
        as_of_ms,
        key_columns: key_columns(&definition.layout).collect(),
        table: Box::new(ReportTable::new(definition, reading)),
        of_span: None,
    }
}

/// A report as a table.
#[derive(Debug)]
pub(super) struct ReportTable {
    columns: Vec<Column>,
    reading: Arc<Reading>,
    definition: Arc<Definition>,
}

impl ReportTable {
    pub(super) fn new(definition: &Arc<Definition>, reading: &Arc<Reading>) -> Self {
        Self {
            columns: columns(&definition.layout),
            reading: Arc::clone(reading),
            definition: Arc::clone(definition),
        }
    }
}

impl Table for ReportTable {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn len(&self) -> usize {
        self.reading.len()
    }

    fn value(&self, row: usize, column: usize) -> Value<'_> {
        self.definition.layout.value(&self.reading, row, column)
    }

    fn numbers(&self, column: usize, rows: &[usize]) -> Option<Numbers> {
        let layout = &self.definition.layout;
        layout.numbers(&self.reading, column, rows)
    }
}
