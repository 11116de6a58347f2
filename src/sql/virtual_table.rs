//! Small tables made on the spot: the answers of SHOW, and information_schema.
//!
//! Rows of texts and numbers under named columns, turned into one batch; never larger than a list of all tables and columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Int64Array, StringArray, StringViewArray, TimestampSecondArray, UInt64Array,
};
use datafusion::arrow::compute::kernels::comparison::ilike;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};

use super::error::SqlError;
use super::reply::{SqlColumn, SqlType};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    UInt,
    /// Text of at most so many characters.
    Text(u32),
    /// Never anything but NULL here.
    Datetime,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of values of any kinds.
macro_rules! row {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::virtual_table::Cell::from($value)),*]
    };
}
pub(super) use row;

/// NULL, in a [`row!`].
pub(super) const NULL: Option<i64> = None;

/// Rows under columns.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    pub(super) columns: Vec<(String, Kind)>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// Without rows.
    pub(super) fn new(columns: &[(&str, Kind)]) -> Self {
        Self {
            columns: columns
                .iter()
                .map(|(name, kind)| ((*name).to_owned(), *kind))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Keeps the rows whose first value is like a pattern.
    pub(super) fn keep_like(&mut self, pattern: &str) {
        self.rows.retain(|row| match row.first() {
            Some(Cell::Text(text)) => like(text, pattern),
            _ => false,
        });
    }

    /// The columns as an answer has them.
    pub(super) fn answer_columns(&self) -> Arc<[SqlColumn]> {
        self.columns
            .iter()
            .map(|(name, kind)| SqlColumn {
                name: name.clone(),
                origin: None,
                table: None,
                sql_type: match kind {
                    Kind::Int => SqlType::BigInt,
                    Kind::UInt => SqlType::BigIntUnsigned,
                    Kind::Text(length) => SqlType::Varchar(*length),
                    Kind::Datetime => SqlType::Datetime(0),
                },
                nullable: true,
            })
            .collect()
    }

    /// All rows, the columns named by `name`.
    pub(super) fn batch(&self, name: impl Fn(&str) -> Field) -> Result<RecordBatch, SqlError> {
        let schema = self.schema(name);
        let arrays = (0..self.columns.len()).map(|at| self.array(at)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows.len()));
        RecordBatch::try_new_with_options(schema, arrays, &options)
            .map_err(|error| SqlError::internal(error.to_string()))
    }

    fn schema(&self, name: impl Fn(&str) -> Field) -> SchemaRef {
        let fields = self.columns.iter().map(|(column, kind)| {
            name(column).with_data_type(match kind {
                Kind::Int => DataType::Int64,
                Kind::UInt => DataType::UInt64,
                Kind::Text(_) => DataType::Utf8View,
                Kind::Datetime => DataType::Timestamp(TimeUnit::Second, None),
            })
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn array(&self, at: usize) -> ArrayRef {
        let cells = self.rows.iter().map(|row| &row[at]);
        let ints = cells.clone().map(|cell| match cell {
            Cell::Int(number) => Some(*number),
            Cell::Null | Cell::Text(_) => None,
        });
        match self.columns[at].1 {
            Kind::Int => Arc::new(Int64Array::from_iter(ints)),
            Kind::UInt => {
                let ints = ints.map(|number| u64::try_from(number?).ok());
                Arc::new(UInt64Array::from_iter(ints))
            }
            Kind::Text(_) => Arc::new(StringViewArray::from_iter(cells.map(|cell| match cell {
                Cell::Null => None,
                Cell::Int(number) => Some(number.to_string()),
                Cell::Text(text) => Some(text.clone()),
            }))),
            Kind::Datetime => Arc::new(TimestampSecondArray::new_null(self.rows.len())),
        }
    }
}

/// MySQL's LIKE as SHOW uses it: cases are not told apart.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let scalar = |text: &str| StringArray::new_scalar(text);
    let likeness = ilike(&scalar(text), &scalar(pattern));
    likeness.is_ok_and(|likeness| likeness.value(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likeness() {
        for (text, pattern, wanted) in [
            ("request", "re%", true),
            ("REQUEST", "req_est", true),
            ("request", "re\\%", false),
            ("a%b", "a\\%b", true),
            ("abcabd", "%ab_", true),
            ("", "%", true),
            ("", "_", false),
            ("report_by_x", "report\\_by%x", true),
        ] {
            assert_eq!(like(text, pattern), wanted, "{text} {pattern}");
        }
    }
}
