//! Reads a report: whole, or the rows that a selection picks once the columns are known; and its
//! reading as a table.

use std::sync::Arc;

use super::{Catalog, columns, key_columns};
use crate::query::answer::ReportAnswer;
use crate::query::error::QueryError;
use crate::query::question::{ReportQuestion, When};
use crate::query::table::{Rows, Table};
use crate::report::definition::{Columns, Definition};
use crate::report::layout::{ColumnLayout, NumberKind};
use crate::report::read::reading::Reading;
use crate::report::read::selection::RowSelection;
use crate::value::{Column, Value};

/// The rows of a report that were selected.
#[derive(Debug)]
pub struct SelectedRows {
    /// The report: it may have these rows alone.
    pub answer: ReportAnswer,
    /// The numbers of the rows in its table, in their order.
    pub rows: Vec<usize>,
    /// The number of rows before `limit` and `offset`.
    pub total: usize,
    /// The numbers of the columns that are shown.
    pub columns: Vec<usize>,
}

impl Catalog {
    /// Reads the rows that `selection` picks, given the columns and the indexes of the key columns.
    /// `needed` of the question is ignored.
    ///
    /// # Errors
    /// As [`Catalog::report`], and those of `selection`.
    pub fn select<'s, E: From<QueryError>>(
        &self,
        name: &str,
        question: &ReportQuestion,
        selection: impl FnOnce(&[Column], &[usize]) -> Result<RowSelection<'s>, E>,
    ) -> Result<SelectedRows, E> {
        let is_live = question.when == When::Now && !question.whose.is_fleet();
        let is_live = is_live && question.columns == Columns::Own;
        let entry = is_live.then(|| self.entry(name).ok()).flatten();
        let (mut answer, selection, total) = match entry {
            Some(entry) => {
                let layout = &entry.definition.layout;
                let keys: Vec<usize> = key_columns(layout).collect();
                let selection = selection(&columns(layout), &keys)?;
                let rows = self.own_rows(&entry.definition, question, &selection);
                let (answer, total) = rows.ok_or_else(|| {
                    QueryError::Busy(format!("report {name:?} was dropped or replaced just now"))
                })?;
                (answer, selection, total)
            }
            None => {
                let answer = self.report(name, question)?;
                let selection = selection(answer.table.columns(), &answer.key_columns)?;
                (answer, selection, None)
            }
        };
        let table = answer.table.as_mut();
        let by: Vec<usize> = selection.chosen_by().collect();
        table.load(&by, None)?;
        let (rows, total) = match total {
            Some(total) => ((0..table.len()).collect(), total),
            None => selection.rows(table.len(), &|row, column| table.value(row, column)),
        };
        let all = 0..table.columns().len();
        let columns = selection.columns.unwrap_or_else(|| all.collect());
        table.load(&columns, Some(&rows))?;
        Ok(SelectedRows { answer, rows, total, columns })
    }

    /// Reads a live report in its own columns.
    pub(super) fn own(
        &self,
        name: &str,
        question: &ReportQuestion,
    ) -> Result<ReportAnswer, QueryError> {
        let Ok(entry) = self.entry(name) else { return self.table_answer(name, &question.equal) };
        let position = |name: &String| entry.definition.layout.position(name);
        let needed = question.needed.as_ref();
        let selection = RowSelection {
            columns: needed.map(|needed| needed.iter().filter_map(position).collect()),
            ..RowSelection::default()
        };
        match self.own_rows(&entry.definition, question, &selection) {
            Some((answer, _)) => Ok(answer),
            None => self.own(name, question),
        }
    }

    /// Likewise, but may read the selected rows only, and then returns how many rows there are to
    /// select from. `None` if the report was dropped.
    fn own_rows(
        &self,
        definition: &Arc<Definition>,
        question: &ReportQuestion,
        selection: &RowSelection<'_>,
    ) -> Option<(ReportAnswer, Option<usize>)> {
        let (reading, total) = self.reading(definition, selection)?;
        let now_ms = self.clock.unix_ms();
        let answer = answer(definition, &reading, &question.equal, now_ms);
        Some((answer, total))
    }
}

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
        partial: Vec::new(),
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

    fn numbers(&self, column: usize, rows: &[usize], numbers: &mut Vec<u64>) -> Option<NumberKind> {
        self.definition.layout.numbers(&self.reading, column, rows, numbers)
    }
}
