//! Reports and status tables as rows of the engine: read once per statement, in batches.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, Operator};
use parking_lot::Mutex;

use super::scan::Scan;
use crate::query::answer::{INDEX_VALUE, ReportAnswer};
use crate::query::catalog::Catalog;
use crate::query::question::ReportQuestion;
use crate::report::definition::Columns;
use crate::report::layout::NumberKind;
use crate::report::read::reading::ANSWER_ROW_BYTES;
use crate::sql::error::SqlError;
use crate::sql::functions::value::{Builder, Value as SqlValue};
use crate::value::Value;

/// Rows in a batch.
pub(super) const BATCH_ROWS: usize = 8_192;

/// The columns that select a row of a histogram view, and a tag of table `many_calls`.
pub(in crate::sql) const CHOSEN_BY: [&str; 2] = [INDEX_VALUE, "tag_name"];

/// The column and value by which a condition selects what is read.
pub(super) fn chosen(filter: &Expr) -> Option<(String, String)> {
    let mut columns = CHOSEN_BY.into_iter();
    columns.find_map(|column| Some((column.to_owned(), equal_text(filter, column)?.to_owned())))
}

/// The text that a condition compares a column with.
pub(super) fn equal_text<'a>(filter: &'a Expr, column_name: &str) -> Option<&'a str> {
    let Expr::BinaryExpr(binary) = filter else { return None };
    let ((Expr::Column(column), Expr::Literal(value, _))
    | (Expr::Literal(value, _), Expr::Column(column))) = (&*binary.left, &*binary.right)
    else {
        return None;
    };
    let is_wanted = binary.op == Operator::Eq && column.name == column_name;
    is_wanted.then(|| value.try_as_str()).flatten().flatten()
}

/// A report or a status table, at the moment that all scans of a statement see.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) name: String,
    /// The columns in which it is read.
    columns: Columns,
    /// The columns that any scan shows: others are not calculated.
    pub(super) needed: Mutex<Vec<String>>,
    /// Answers read so far.
    answers: Mutex<Vec<Answer>>,
}

/// An answer, and the column and value that selected what was read.
type Answer = (Option<(String, String)>, Arc<ReportAnswer>);

impl Report {
    pub(super) fn new(name: &str, columns: Columns) -> Self {
        Self { name: name.to_owned(), columns, needed: Mutex::default(), answers: Mutex::default() }
    }

    /// Reads it, or returns the earlier answer.
    fn read(
        &self,
        catalog: &Catalog,
        wanted: Option<&(String, String)>,
    ) -> Result<Arc<ReportAnswer>> {
        let mut answers = self.answers.lock();
        if let Some((_, answer)) = answers.iter().find(|(of, _)| of.as_ref() == wanted) {
            return Ok(Arc::clone(answer));
        }
        let question = ReportQuestion {
            columns: self.columns.clone(),
            needed: Some(self.needed.lock().clone()),
            equal: wanted.into_iter().cloned().collect(),
            ..ReportQuestion::default()
        };
        let answer = catalog.report(&self.name, &question);
        let gone =
            |_| SqlError::no_such_table(format!("Table 'pinba.{}' doesn't exist", self.name));
        let answer = Arc::new(answer.map_err(gone)?);
        answers.push((wanted.cloned(), Arc::clone(&answer)));
        Ok(answer)
    }

    /// The rows of one partition of a scan.
    pub(super) fn batches(
        &self,
        scan: &Scan,
        partition: usize,
        memory: MemoryReservation,
    ) -> Result<impl Iterator<Item = Result<RecordBatch>> + use<>> {
        let answer = self.read(&scan.table.catalog, scan.chosen.as_ref())?;
        let rows = answer.table.len().min(scan.fetch.unwrap_or(usize::MAX));
        let share = rows.div_ceil(scan.pieces());
        let mut rows = (share * partition).min(rows)..(share * (partition + 1)).min(rows);
        memory.try_resize(rows.len() * ANSWER_ROW_BYTES)?;
        let (schema, columns) = (Arc::clone(&scan.schema), Arc::clone(&scan.columns));
        Ok(std::iter::from_fn(move || {
            let _held = &memory;
            let first = rows.start;
            rows.start = (first + BATCH_ROWS).min(rows.end);
            (first < rows.start).then(|| batch(&answer, &schema, &columns, first..rows.start))
        }))
    }
}

/// Some rows as a batch.
fn batch(
    answer: &ReportAnswer,
    schema: &SchemaRef,
    columns: &[usize],
    rows: Range<usize>,
) -> Result<RecordBatch> {
    let rows: Vec<usize> = rows.collect();
    let fields = schema.fields().iter().zip(columns);
    let mut numbers = Vec::new();
    let arrays = fields.map(|(field, &column)| {
        let table = &answer.table;
        numbers.clear();
        match table.numbers(column, &rows, &mut numbers) {
            Some(kind) => of_numbers(field.data_type(), kind, &numbers),
            None => {
                let values = rows.iter().map(|&row| table.value(row, column));
                array(field.data_type(), values)
            }
        }
    });
    let arrays = arrays.collect::<Result<_>>()?;
    let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let schema = Arc::clone(schema);
    Ok(RecordBatch::try_new_with_options(schema, arrays, &count)?)
}

/// Numbers as an array of a column's type; NaN is NULL.
pub(super) fn of_numbers(
    data_type: &DataType,
    kind: NumberKind,
    numbers: &[u64],
) -> Result<ArrayRef> {
    let numbers = numbers.iter();
    let array: ArrayRef = match kind {
        NumberKind::Int => {
            Arc::new(Int64Array::from_iter_values(numbers.map(|int| int.cast_signed())))
        }
        NumberKind::Micros => {
            Arc::new(Float64Array::from_iter_values(numbers.map(|&us| us as f64 / 1e6)))
        }
        NumberKind::Float => {
            let floats: Vec<f64> = numbers.map(|&bits| f64::from_bits(bits)).collect();
            let nan = floats.iter().any(|float| float.is_nan());
            let nulls = nan.then(|| floats.iter().map(|float| !float.is_nan()).collect());
            Arc::new(Float64Array::new(floats.into(), nulls))
        }
    };
    Ok(cast(&array, data_type)?)
}

/// Values as an array of a column's type.
pub(super) fn array<'a>(
    data_type: &DataType,
    values: impl Iterator<Item = Value<'a>>,
) -> Result<ArrayRef> {
    let kept = match data_type {
        DataType::Float32 => &DataType::Float64,
        other => other,
    };
    let mut array = Builder::new(kept);
    for value in values {
        array.push(&match value {
            Value::Null => SqlValue::Null,
            Value::Int(value) => SqlValue::Int(value),
            Value::Micros(value) => SqlValue::Double(value as f64 / 1e6),
            Value::Float(value) => SqlValue::Double(value),
            Value::Text(text) => SqlValue::Text(text),
        });
    }
    Ok(cast(&array.finish(), data_type)?)
}
