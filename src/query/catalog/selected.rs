//! Reads selected rows of a report. The selection is built once the report's columns are known, and
//! only those rows are read.

use std::sync::Arc;

use super::report_table::answer;
use super::{Catalog, columns, key_columns};
use crate::query::error::QueryError;
use crate::query::question::{ReportQuestion, When};
use crate::query::read_model::ReportAnswer;
use crate::report::definition::{Columns, Definition};
use crate::report::selection::RowSelection;
use crate::value::Column;

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
        let Ok(entry) = self.entry(name) else {
            return self.table_answer(name, &question.equal);
        };
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
