//! Small tables made on the spot: what SHOW answers and what information_schema holds.
//!
//! A sheet is rows of texts and numbers under named columns. It becomes one batch; it is never larger than a list of all tables
//! and their columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Int64Builder, StringViewBuilder, TimestampSecondBuilder, UInt64Builder,
};
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
        vec![$($crate::sql::sheet::Cell::from($value)),*]
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

    /// Columns of texts, without rows.
    pub(super) fn of_texts(columns: &[&str]) -> Self {
        let columns: Vec<_> = columns
            .iter()
            .map(|name| (*name, Kind::Text(192)))
            .collect();
        Self::new(&columns)
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
        match self.columns[at].1 {
            Kind::Int => {
                let mut builder = Int64Builder::new();
                builder.extend(cells.map(|cell| match cell {
                    Cell::Int(number) => Some(*number),
                    Cell::Null | Cell::Text(_) => None,
                }));
                Arc::new(builder.finish())
            }
            Kind::UInt => {
                let mut builder = UInt64Builder::new();
                builder.extend(cells.map(|cell| match cell {
                    Cell::Int(number) => u64::try_from(*number).ok(),
                    Cell::Null | Cell::Text(_) => None,
                }));
                Arc::new(builder.finish())
            }
            Kind::Text(_) => {
                let mut builder = StringViewBuilder::new();
                for cell in cells {
                    match cell {
                        Cell::Null => builder.append_null(),
                        Cell::Int(number) => builder.append_value(number.to_string()),
                        Cell::Text(text) => builder.append_value(text),
                    }
                }
                Arc::new(builder.finish())
            }
            Kind::Datetime => {
                let mut builder = TimestampSecondBuilder::new();
                builder.append_nulls(self.rows.len());
                Arc::new(builder.finish())
            }
        }
    }
}

/// MySQL's LIKE as SHOW uses it: cases are not told apart.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.to_lowercase().chars().collect();
    let pattern: Vec<char> = pattern.to_lowercase().chars().collect();
    let (mut at, mut sign) = (0, 0);
    // Where to go on when a longer piece must be taken for the last %.
    let mut again: Option<(usize, usize)> = None;
    while at < text.len() {
        let matched = match pattern.get(sign) {
            Some('%') => {
                again = Some((sign + 1, at));
                sign += 1;
                continue;
            }
            Some('\\') if sign + 1 < pattern.len() => {
                let same = pattern[sign + 1] == text[at];
                sign += usize::from(same);
                same
            }
            Some('_') => true,
            Some(wanted) => *wanted == text[at],
            None => false,
        };
        if matched {
            at += 1;
            sign += 1;
        } else if let Some((after, taken)) = again {
            sign = after;
            at = taken + 1;
            again = Some((after, taken + 1));
        } else {
            return false;
        }
    }
    pattern[sign..].iter().all(|sign| *sign == '%')
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
