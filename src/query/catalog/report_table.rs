//! A reading of a report as a table.

use std::sync::Arc;

use super::{columns, key_columns};
use crate::query::read_model::ReportAnswer;
use crate::query::table::{Rows, Table};
use crate::report::definition::Definition;
use crate::report::layout::{ColumnLayout, Numbers};
use crate::report::reading::Reading;
use crate::value::{Column, Value};

/// A reading as an answer; of a histogram view the row with these texts.
pub(super) fn answer(
    definition: &Arc<Definition>,
    reading: &Arc<Reading>,
    equal: &[(String, String)],
    as_of_ms: u64,
) -> ReportAnswer {
    let layout = &definition.layout;
    ReportAnswer {
        window_seconds: reading.window_secs,
        covered_seconds: reading.covered_secs,
        as_of_ms,
        key_columns: key_columns(layout).collect(),
        table: match layout.is_histogram_view() {
            true => segments(layout, reading, equal),
            false => Box::new(ReportTable {
                columns: columns(layout),
                reading: Arc::clone(reading),
                definition: Arc::clone(definition),
            }),
        },
        of_span: None,
        remarks: Vec::new(),
    }
}

/// The segments of the row of a histogram view with these texts.
pub(super) fn segments(
    layout: &ColumnLayout,
    reading: &Reading,
    equal: &[(String, String)],
) -> Box<dyn Table> {
    let chosen = equal.iter().find(|(column, _)| column == "index_value");
    let chosen = chosen.map(|(_, value)| value.as_str());
    Box::new(Rows { columns: columns(layout).into(), rows: layout.segments(reading, chosen) })
}

/// A report as a table.
#[derive(Debug)]
struct ReportTable {
    columns: Vec<Column>,
    reading: Arc<Reading>,
    definition: Arc<Definition>,
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
