//! Small tables built on the spot: the answers of SHOW, and information_schema.
//!
//! Rows of texts and numbers under named columns, turned into one batch; never larger than a list
//! of all tables and columns.

use std::sync::Arc;

use datafusion::arrow::array::StringArray;
use datafusion::arrow::compute::kernels::comparison::ilike;
use datafusion::arrow::datatypes::{Field, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::{ReaderBuilder, StructMode};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::error::DataFusionError;

use super::error::SqlError;
use super::reply::{Reply, Rows, SqlColumn, SqlType};
use super::tables::declared::origin_metadata;

/// One value.
pub(super) type Cell = serde_json::Value;

/// A row of values of any kinds.
macro_rules! row {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::virtual_table::Cell::from($value)),*]
    };
}
pub(super) use row;

/// NULL, in a [`row!`].
pub(super) const NULL: Cell = Cell::Null;

/// Rows under columns.
#[derive(Debug, Clone, Default)]
pub(super) struct VirtualTable {
    pub(super) columns: Vec<(String, SqlType)>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl VirtualTable {
    /// Keeps the rows whose first value matches a pattern.
    pub(super) fn keep_like(&mut self, pattern: &str) {
        let is_like = |cell: &Cell| cell.as_str().is_some_and(|text| like(text, pattern));
        self.rows.retain(|row| row.first().is_some_and(is_like));
    }

    /// The columns of the answer.
    pub(super) fn answer_columns(&self) -> Arc<[SqlColumn]> {
        let columns = self.columns.iter().map(|(name, sql_type)| SqlColumn {
            name: name.clone(),
            origin: None,
            table: None,
            sql_type: *sql_type,
            nullable: true,
        });
        columns.collect()
    }

    /// The table as an answer.
    pub(super) fn reply(&self) -> Result<Reply, SqlError> {
        let batch = self.batch(|name, of| Field::new(name, of.kept(), true))?;
        Ok(Reply::Rows(Rows::ready(batch, self.answer_columns())))
    }

    /// A provider of this table for statements.
    pub(super) fn provider(&self, name: &str) -> Result<Arc<dyn TableProvider>, DataFusionError> {
        let batch = self.batch(|column, of| {
            let declared = origin_metadata(name, column, &of.to_string());
            Field::new(column.to_lowercase(), of.kept(), true).with_metadata(declared)
        })?;
        let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
        Ok(Arc::new(table))
    }

    /// All rows as a batch, with a field for each column.
    fn batch(&self, field: impl Fn(&str, SqlType) -> Field) -> Result<RecordBatch, SqlError> {
        let fields = self.columns.iter().map(|(name, of)| field(name, *of));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let read = || {
            let mut decoder = ReaderBuilder::new(Arc::clone(&schema))
                .with_struct_mode(StructMode::ListOnly)
                .with_coerce_primitive(true)
                .build_decoder()?;
            decoder.serialize(&self.rows)?;
            decoder.flush()
        };
        let batch = read().map_err(|error: ArrowError| SqlError::internal(error.to_string()))?;
        Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&schema))))
    }
}

/// MySQL's LIKE as in SHOW, ignoring case.
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
