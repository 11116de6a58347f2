//! Reports and status tables as tables of the engine.
//!
//! A scan reads the needed columns from the read model once per query and returns them in batches.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, SendableRecordBatchStream};

use super::declared;
use crate::query::catalog::Catalog;
use crate::query::error::QueryError;
use crate::query::read_model::{ReadModel, ReportAnswer};
use crate::report::definition::Definition;
use crate::report::layout::Numbers;
use crate::report::reading::{ANSWER_ROW_BYTES, Reading};
use crate::sql::error::SqlError;
use crate::sql::snapshot::Snapshot;
use crate::value::{Column, Value};

/// Rows in a batch.
const BATCH_ROWS: usize = 8_192;

/// The column by whose value a row of a histogram view is chosen.
const CHOSEN_BY: &str = "index_value";

/// A report or a status table.
#[derive(Debug, Clone)]
pub(super) struct ReportTable {
    catalog: Arc<Catalog>,
    name: String,
    schema: SchemaRef,
    /// Rows when it was looked up.
    rows: usize,
}

impl ReportTable {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        name: String,
        columns: &[Column],
        rows: usize,
    ) -> Self {
        let schema = declared::schema(&name, columns, |_| true);
        Self {
            catalog,
            name,
            schema,
            rows,
        }
    }

    /// Whether it is worth to divide.
    pub(super) fn is_large(&self) -> bool {
        self.rows > 4 * BATCH_ROWS
    }
}

/// The value that a condition chooses a row of a histogram by.
fn index_value(filter: &Expr) -> Option<&str> {
    let Expr::BinaryExpr(binary) = filter else {
        return None;
    };
    let ((Expr::Column(column), Expr::Literal(value, _))
    | (Expr::Literal(value, _), Expr::Column(column))) = (&*binary.left, &*binary.right)
    else {
        return None;
    };
    let is_wanted = binary.op == Operator::Eq && column.name == CHOSEN_BY;
    is_wanted.then(|| value.try_as_str()).flatten().flatten()
}

#[async_trait]
impl TableProvider for ReportTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let supports = |filter: &&Expr| match index_value(filter) {
            // A report has all its rows nevertheless.
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supports).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let shown: Vec<usize> = match projection {
            Some(wanted) => wanted.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&shown)?);
        let rows = self.rows.min(limit.unwrap_or(usize::MAX));
        let pieces = match rows > 4 * BATCH_ROWS {
            true => state.config().target_partitions().max(1),
            false => 1,
        };
        Ok(DataSourceExec::from_data_source(ReportScan {
            table: self.clone(),
            shown: shown.into(),
            index_value: filters.iter().find_map(index_value).map(str::to_owned),
            schema,
            limit,
            pieces,
        }))
    }
}

/// A scan of it.
#[derive(Debug, Clone)]
struct ReportScan {
    table: ReportTable,
    shown: Arc<[usize]>,
    /// The row of a histogram that is wanted.
    index_value: Option<String>,
    schema: SchemaRef,
    limit: Option<usize>,
    pieces: usize,
}

/// The columns that a plan shows of each report.
pub(in crate::sql) fn needed(plan: &Arc<dyn ExecutionPlan>) -> HashMap<String, Vec<String>> {
    let mut needed: HashMap<String, Vec<String>> = HashMap::new();
    let found = plan.apply(|node| {
        let source = node
            .downcast_ref::<DataSourceExec>()
            .map(DataSourceExec::data_source);
        if let Some(scan) = source.and_then(|source| source.downcast_ref::<ReportScan>()) {
            let columns = scan
                .schema
                .fields()
                .iter()
                .map(|field| field.name().clone());
            needed
                .entry(scan.table.name.clone())
                .or_default()
                .extend(columns);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // A look around does not fail; if it did, everything would be read.
    found.map(|_| needed).unwrap_or_default()
}

/// One moment of a report.
#[derive(Debug, Clone)]
pub(in crate::sql) enum ReportData {
    /// A report, not yet put into rows.
    Reading(Arc<Definition>, Arc<Reading>),
    /// What has rows of its own making.
    Table(Arc<ReportAnswer>),
}

impl ReportData {
    fn rows(&self) -> usize {
        match self {
            Self::Reading(_, reading) => reading.len(),
            Self::Table(answer) => answer.table.len(),
        }
    }
}

impl ReportScan {
    fn read(&self, snapshot: &Snapshot) -> std::result::Result<ReportData, SqlError> {
        let ReportTable { catalog, name, .. } = &self.table;
        let wanted = self.index_value.as_ref();
        let purpose = [name.as_str(), "\t", wanted.map_or("", String::as_str)].concat();
        snapshot.report(purpose, || {
            let needed = snapshot.needed(name);
            if let Some((definition, reading)) = catalog.read(name, needed) {
                return Ok(ReportData::Reading(definition, reading));
            }
            let equal = wanted.map(|value| (CHOSEN_BY.to_owned(), value.clone()));
            let answer = catalog.report(name, needed, equal.as_slice());
            answer.map(Arc::new).map(ReportData::Table).map_err(failure)
        })
    }

    /// Some rows as a batch.
    fn batch(&self, moment: &ReportData, rows: Range<usize>) -> Result<RecordBatch> {
        let count = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let arrays = self.shown.iter().map(|&column| {
            let data_type = self.table.schema.field(column).data_type();
            match moment {
                ReportData::Reading(definition, reading) => {
                    let shape = &definition.layout;
                    match shape.numbers(reading, column, rows.clone()) {
                        Some(numbers) => of_numbers(data_type, numbers),
                        None => {
                            let values = rows.clone();
                            let values = values.map(|row| shape.value(reading, row, column));
                            array(data_type, values)
                        }
                    }
                }
                ReportData::Table(answer) => {
                    let values = rows.clone().map(|row| answer.table.value(row, column));
                    array(data_type, values)
                }
            }
        });
        let schema = Arc::clone(&self.schema);
        let arrays = arrays.collect::<Result<_>>()?;
        Ok(RecordBatch::try_new_with_options(schema, arrays, &count)?)
    }
}

impl DataSource for ReportScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let snapshot = Snapshot::of(&context)?;
        let moment = self.read(&snapshot)?;
        let rows = moment.rows().min(self.limit.unwrap_or(usize::MAX));
        let share = rows.div_ceil(self.pieces);
        let mut rows = (share * partition).min(rows)..(share * (partition + 1)).min(rows);
        let memory = MemoryConsumer::new("report").register(context.memory_pool());
        memory.try_resize(rows.len() * ANSWER_ROW_BYTES)?;
        let scan = self.clone();
        let batches = std::iter::from_fn(move || {
            let _held = &memory;
            let first = rows.start;
            let last = (first + BATCH_ROWS).min(rows.end);
            rows.start = last;
            (first < last).then(|| scan.batch(&moment, first..last))
        });
        let batches = futures::stream::iter(batches);
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "report={}", self.table.name)
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.pieces)
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let rows = self.table.rows.min(self.limit.unwrap_or(usize::MAX));
        statistics.num_rows = Precision::Inexact(rows);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }

    fn try_swapping_with_projection(
        &self,
        _: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Numbers as an array of a column's type; NaN is NULL.
pub(super) fn of_numbers(data_type: &DataType, numbers: Numbers) -> Result<ArrayRef> {
    let array: ArrayRef = match numbers {
        Numbers::Ints(ints) => Arc::new(Int64Array::from(ints)),
        Numbers::Floats(floats) => {
            let nan = floats.iter().any(|float| float.is_nan());
            let nulls = nan.then(|| floats.iter().map(|float| !float.is_nan()).collect());
            Arc::new(Float64Array::new(floats.into(), nulls))
        }
    };
    Ok(cast(&array, data_type)?)
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

/// Values as an array of a column's type.
pub(super) fn array<'a>(
    data_type: &DataType,
    values: impl Iterator<Item = Value<'a>>,
) -> Result<ArrayRef> {
    let array: ArrayRef = match data_type {
        DataType::Int64 => Arc::new(Int64Array::from_iter(values.map(|value| match value {
            Value::Int(value) => Some(value),
            Value::Micros(value) => Some((value as f64 / 1e6) as i64),
            Value::Float(value) => Some(value as i64),
            Value::Null | Value::Text(_) => None,
        }))),
        DataType::Float32 | DataType::Float64 => {
            Arc::new(Float64Array::from_iter(values.map(|value| match value {
                Value::Int(value) => Some(value as f64),
                Value::Micros(value) => Some(value as f64 / 1e6),
                Value::Float(value) => Some(value),
                Value::Null | Value::Text(_) => None,
            })))
        }
        _ => Arc::new(StringViewArray::from_iter(values.map(
            |value| match value {
                Value::Text(text) => Some(text),
                _ => None,
            },
        ))),
    };
    Ok(cast(&array, data_type)?)
}
