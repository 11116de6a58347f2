//! Reports, and the tables in which the daemon speaks of itself, as tables of the engine.
//!
//! A scan asks the read model for one reading of the columns that are needed and hands it out in batches.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, Float32Builder, Float64Builder, Int64Builder, StringViewBuilder,
};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};

use super::declared;
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;
use crate::query::source::{Needed, Source};
use crate::query::table::Table;
use crate::sql::error::SqlError;
use crate::sql::snapshot::Snapshot;
use crate::value::{Column, ColumnType, Value};

/// Rows in a batch.
const BATCH_ROWS: usize = 8_192;

/// A report or a status table.
#[derive(Debug)]
pub(super) struct ListedTable {
    catalog: Arc<Catalog>,
    name: String,
    columns: Vec<Column>,
    schema: SchemaRef,
}

impl ListedTable {
    pub(super) fn new(catalog: Arc<Catalog>, name: String, columns: Vec<Column>) -> Self {
        let schema = declared::schema(&name, &columns, &[]);
        Self {
            catalog,
            name,
            columns,
            schema,
        }
    }
}

#[async_trait]
impl TableProvider for ListedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted: Vec<usize> = match projection {
            Some(wanted) => wanted.clone(),
            None => (0..self.columns.len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&wanted)?);
        let reading = ListedScan {
            catalog: Arc::clone(&self.catalog),
            name: self.name.clone(),
            columns: wanted,
            schema: Arc::clone(&schema),
        };
        let partitions: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(reading)];
        let scan = StreamingTableExec::try_new(schema, partitions, None, [], false, limit)?;
        Ok(Arc::new(scan))
    }
}

/// One reading of it.
#[derive(Debug)]
struct ListedScan {
    catalog: Arc<Catalog>,
    name: String,
    columns: Vec<usize>,
    schema: SchemaRef,
}

impl PartitionStream for ListedScan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let columns = self.columns.clone();
        let read = || {
            let names = schema.fields().iter().map(|field| field.name().clone());
            let names: Vec<String> = names.collect();
            let snapshot = Snapshot::of(&context)?;
            let purpose = [&self.name, "\t", &names.join("\t")].concat();
            let read = || {
                let answer = self.catalog.report(&self.name, &Needed::Only(names), &[]);
                answer.map(Arc::new).map_err(failure)
            };
            Ok(snapshot.report(purpose, read)?)
        };
        let batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match read() {
            Ok(answer) => {
                let rows = answer.table.len();
                let schema = Arc::clone(&schema);
                Box::new((0..rows.max(1)).step_by(BATCH_ROWS).map(move |first| {
                    let last = (first + BATCH_ROWS).min(rows);
                    batch(&*answer.table, &columns, first..last, &schema)
                }))
            }
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(batches),
        ))
    }
}

/// An error of the read model in SQL's terms.
pub(super) fn failure(error: QueryError) -> SqlError {
    match error {
        QueryError::UnknownReport { name } => {
            SqlError::no_such_table(format!("Table 'pinba.{name}' doesn't exist"))
        }
        QueryError::Busy(_) => SqlError::busy(error.to_string()),
        QueryError::SnapshotExpired => SqlError::interrupted(error.to_string()),
        other => SqlError::wrong_arguments(other.to_string()),
    }
}

/// Some rows of a table as a batch.
fn batch(
    table: &dyn Table,
    columns: &[usize],
    rows: std::ops::Range<usize>,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let arrays = columns
        .iter()
        .map(|&column| {
            let values = rows.clone().map(|row| table.value(row, column));
            array(table.columns()[column].column_type, values)
        })
        .collect();
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        arrays,
        &count,
    )?)
}

/// Values as an array of a column's type.
fn array<'a>(column_type: ColumnType, values: impl Iterator<Item = Value<'a>>) -> ArrayRef {
    macro_rules! numbers {
        ($builder:ty, $number:ty) => {{
            let mut builder = <$builder>::new();
            for value in values {
                builder.append_option(match value {
                    Value::Int(value) => Some(value as $number),
                    Value::Micros(value) => Some((value as f64 / 1e6) as $number),
                    Value::Float(value) => Some(value as $number),
                    Value::Null | Value::Text(_) => None,
                });
            }
            Arc::new(builder.finish())
        }};
    }

    match column_type {
        ColumnType::BigInt | ColumnType::Int => numbers!(Int64Builder, i64),
        ColumnType::Float => numbers!(Float32Builder, f32),
        ColumnType::Double => numbers!(Float64Builder, f64),
        ColumnType::Varchar(_) | ColumnType::Text => {
            let mut builder = StringViewBuilder::new();
            for value in values {
                match value {
                    Value::Text(text) => builder.append_value(text),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}
