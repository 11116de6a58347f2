//! Database `history`: report rows by minute, hour and day, from disk and from memory not yet
//! written.
//!
//! Each report is a table, as currently defined. A row holds the gain of a key in the minute, hour
//! or day that begins at `time` (UTC); a key and time may have several rows, so rows are to be
//! aggregated: SUM, MAX, `PERCENTILE(histogram, 95)`. Everything is included once: minutes as far
//! back as they are kept, before that hours, then days. `resolution = 'hour'` in a statement
//! selects hours (or days) for the whole time instead, which are fewer rows. In addition there are
//! `request`, `timer` and `request_tag` (`past_requests`).

use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{
    ArrayRef, AsArray as _, RecordBatch, RecordBatchOptions, StringViewArray, TimestampSecondArray,
};
use datafusion::arrow::compute::{concat_batches, lexsort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimestampSecondType};
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};

use super::past_requests;
use super::reports::equal_text;
use super::table::Table;
use crate::history::requests::TABLES;
use crate::history::shown::{self, Wanted};
use crate::history::unit::{Batches, RowsAt};
use crate::history::{Dataset, History, Part, Resolution};
use crate::query::catalog::Catalog;
use crate::sql::error::SqlError;

/// The database.
pub(in crate::sql) const DATABASE: &str = "history";

/// The columns before those of the files.
const TIME: usize = 0;
const RESOLUTION: usize = 1;

/// The metadata key for the buckets of histograms.
pub(in crate::sql) const BUCKETS: &str = "pinbad.buckets";

/// Target size of a batch, in bytes: rows of hours with their histograms.
const BATCH_BYTES: usize = 4 << 20;

/// From this many rows on, histograms are read in the order of the parts, unless there are too many
/// parts: each needs a batch of this many rows in memory.
const ORDERED_ROWS: u64 = 100_000;
const ORDERED_READS_MAX: usize = 128;
const ORDERED_BATCH_ROWS: usize = 512;
const ORDERED_BYTES: usize = 64 << 10;

/// The names of its tables, in order; none without history.
pub(in crate::sql) fn names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = datasets(catalog).map(|it| it.report).collect();
    if catalog.has_history() {
        names.extend(TABLES.map(str::to_owned));
    }
    names.sort();
    names
}

/// The columns of a table; `None` if it does not exist.
pub(in crate::sql) fn columns(catalog: &Catalog, name: &str) -> Option<SchemaRef> {
    let view = past_requests::view(catalog, name);
    let view = view.map(|view| Arc::clone(&view.schema));
    view.or_else(|| dataset(catalog, name).map(|dataset| schema(&dataset)))
}

fn datasets(catalog: &Catalog) -> impl Iterator<Item = Dataset> + use<> {
    let coverage = catalog.has_history().then(Dataset::coverage);
    let swaps = catalog.has_squid().then(Dataset::swaps);
    let swaps = swaps.filter(|_| coverage.is_some());
    let own = coverage.into_iter().chain(swaps);
    own.chain(catalog.kept_datasets())
}

fn dataset(catalog: &Catalog, name: &str) -> Option<Arc<Dataset>> {
    let mut datasets = datasets(catalog);
    let found = datasets.find(|dataset| dataset.report.eq_ignore_ascii_case(name));
    found.map(Arc::new)
}

fn schema(dataset: &Dataset) -> SchemaRef {
    let stored = shown::schema(dataset);
    let of_buckets = || {
        // A structure of words and numbers: writing it as JSON cannot fail.
        let buckets = serde_json::to_string(&dataset.buckets).unwrap_or_default();
        [(BUCKETS.to_owned(), buckets)].into()
    };
    let fields = stored.fields().iter().map(|field| match field.data_type() {
        DataType::Binary => Arc::new(field.as_ref().clone().with_metadata(of_buckets())),
        _ => Arc::clone(field),
    });
    let mut fields: Vec<Arc<Field>> = fields.collect();
    fields.insert(
        RESOLUTION,
        Field::new("resolution", DataType::Utf8View, true).into(),
    );
    Arc::new(Schema::new(fields))
}

/// The database in DataFusion's catalog.
#[derive(Debug)]
pub(super) struct HistoryTables(pub(super) Arc<Catalog>);

#[async_trait]
impl SchemaProvider for HistoryTables {
    fn table_names(&self) -> Vec<String> {
        names(&self.0)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if !self.table_exist(name) {
            return Ok(None);
        }
        let history = self.0.kept_history().map_err(|off| {
            let off = SqlError::history_off(off.to_string());
            DataFusionError::External(Box::new(off))
        })?;
        if let Some(table) = Table::past(&self.0, name, history) {
            return Ok(Some(Arc::new(table)));
        }
        let table = dataset(&self.0, name).map(|dataset| HistoryTable {
            schema: schema(&dataset),
            history: history.clone(),
            dataset,
        });
        Ok(table.map(|table| Arc::new(table) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        columns(&self.0, name).is_some()
    }
}

/// The rows of a report.
#[derive(Debug)]
struct HistoryTable {
    schema: SchemaRef,
    history: History,
    dataset: Arc<Dataset>,
}

#[async_trait]
impl TableProvider for HistoryTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Conditions on resolution and time select files, conditions on keys select pages. DataFusion
    /// tests the rows again, except for the resolution.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let keys: Vec<String> = shown::key_columns(&self.dataset).collect();
        let is_of_key = |filter: &Expr| keys.iter().any(|key| equal_text(filter, key).is_some());
        let is_exact =
            |it: Resolution, filter: &Expr| equal_text(filter, "resolution") == Some(it.name());
        let supports = |filter: &&Expr| match resolution(filter) {
            // All rows are shown with that resolution.
            Some(asked) if is_exact(asked, filter) => TableProviderFilterPushDown::Exact,
            None if times(filter).is_none() && !is_of_key(filter) => {
                TableProviderFilterPushDown::Unsupported
            }
            _ => TableProviderFilterPushDown::Inexact,
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
        let stored: Vec<usize> = shown.iter().filter_map(|at| stored(*at)).collect();
        let scan = Arc::new(Scan {
            wanted: Wanted::new(&self.dataset, &stored, |column| {
                let text = filters.iter().find_map(|filter| equal_text(filter, column));
                text.map(str::to_owned)
            }),
            dataset: Arc::clone(&self.dataset),
            resolution: filters.iter().find_map(resolution),
            shown,
            schema: Arc::clone(&schema),
        });
        let times = filters.iter().filter_map(times);
        let times = times.fold(0..u64::MAX, |all, of| {
            all.start.max(of.start)..all.end.min(of.end)
        });
        let mut reads = scan.reads(&RowsAt::of(&self.history, &self.dataset), &times);
        let mut asked = filters.iter().filter_map(resolution);
        if asked.any(|other| Some(other) != scan.resolution) {
            reads.clear();
        }
        let rows: u64 = reads.iter().map(Read::rows).sum();
        if (ORDERED_ROWS..).contains(&rows)
            && reads.len() <= ORDERED_READS_MAX
            && let Some(order) = scan.order()
        {
            let wanted = scan.wanted.clone().in_batches_of(ORDERED_BATCH_ROWS);
            let scan = Arc::new(Scan {
                wanted,
                ..Scan::clone(&scan)
            });
            let all: Vec<Arc<dyn PartitionStream>> = vec![Arc::new(Ordered {
                scan,
                reads,
                order: order.clone(),
            })];
            let exec = StreamingTableExec::try_new(schema, all, None, [order], false, limit)?;
            return Ok(Arc::new(exec));
        }
        let threads = state
            .config()
            .target_partitions()
            .clamp(1, reads.len().max(1));
        let mut shares: Vec<Vec<Read>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, read) in reads.into_iter().enumerate() {
            shares[at % threads].push(read);
        }
        let shares = shares.into_iter().map(|reads| {
            let scan = Arc::clone(&scan);
            Arc::new(Share {
                scan,
                reads,
                order: None,
            }) as Arc<dyn PartitionStream>
        });
        let exec = StreamingTableExec::try_new(schema, shares.collect(), None, [], false, limit)?;
        Ok(Arc::new(exec))
    }
}

/// The index of a table's column in the batches of files.
fn stored(column: usize) -> Option<usize> {
    match column {
        TIME => Some(TIME),
        RESOLUTION => None,
        behind => Some(behind - 1),
    }
}

/// The resolution that a condition asks for.
fn resolution(filter: &Expr) -> Option<Resolution> {
    let name = equal_text(filter, "resolution")?;
    let mut all = Resolution::ALL.into_iter();
    all.find(|resolution| resolution.name().eq_ignore_ascii_case(name))
}

/// The span outside of which a condition is never true.
fn times(filter: &Expr) -> Option<Range<u64>> {
    let at_least = |from: i64| u64::try_from(from).unwrap_or_default();
    let up_to = |to: i64| at_least(to.saturating_add(1));
    match filter {
        Expr::Between(between) if !between.negated && is_time(&between.expr) => {
            Some(at_least(seconds(&between.low)?)..up_to(seconds(&between.high)?))
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::And => {
            match (times(&binary.left), times(&binary.right)) {
                (Some(a), Some(b)) => Some(a.start.max(b.start)..a.end.min(b.end)),
                (one, other) => one.or(other),
            }
        }
        Expr::BinaryExpr(binary) => {
            let (op, value) = match (is_time(&binary.left), is_time(&binary.right)) {
                (true, false) => (binary.op, seconds(&binary.right)?),
                (false, true) => (binary.op.swap()?, seconds(&binary.left)?),
                _ => return None,
            };
            match op {
                Operator::Eq => Some(at_least(value)..up_to(value)),
                Operator::Gt | Operator::GtEq => Some(at_least(value)..u64::MAX),
                Operator::Lt | Operator::LtEq => Some(0..up_to(value)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether an expression is the time column, in any unit.
fn is_time(expr: &Expr) -> bool {
    match expr {
        Expr::Column(column) => column.name == "time",
        Expr::Cast(cast) => is_time(&cast.expr),
        _ => false,
    }
}

/// The second of a timestamp literal.
fn seconds(expr: &Expr) -> Option<i64> {
    let Expr::Literal(value, _) = expr else {
        return None;
    };
    match *value {
        ScalarValue::TimestampSecond(at, _) => at,
        ScalarValue::TimestampMillisecond(at, _) => Some(at?.div_euclid(1_000)),
        ScalarValue::TimestampMicrosecond(at, _) => Some(at?.div_euclid(1_000_000)),
        ScalarValue::TimestampNanosecond(at, _) => Some(at?.div_euclid(1_000_000_000)),
        ScalarValue::Date32(days) => Some(i64::from(days?) * 86_400),
        _ => None,
    }
}

/// The output of a scan.
#[derive(Debug, Clone)]
struct Scan {
    dataset: Arc<Dataset>,
    wanted: Wanted,
    /// The resolution asked for.
    resolution: Option<Resolution>,
    /// The table's columns to show.
    shown: Vec<usize>,
    schema: SchemaRef,
}

/// Rows to read.
#[derive(Debug, Clone)]
struct Read {
    rows: Rows,
    times: Range<u64>,
    resolution: Resolution,
}

impl Read {
    /// Upper bound of their number.
    fn rows(&self) -> u64 {
        match &self.rows {
            Rows::OnDisk(part) => part.rows(),
            Rows::InMemory(batches) => batches.iter().map(|it| it.num_rows() as u64).sum(),
        }
    }
}

/// Where rows lie.
#[derive(Debug, Clone)]
enum Rows {
    OnDisk(Arc<Part>),
    InMemory(Arc<[RecordBatch]>),
}

impl Scan {
    /// The reads that cover these times, each row once.
    fn reads(&self, from: &RowsAt, times: &Range<u64>) -> Vec<Read> {
        let asked = self.resolution;
        // A row shown by the hour has the time of the hour's start.
        let times = match asked.map(Resolution::secs) {
            None => times.clone(),
            Some(secs) => times.start - times.start % secs..times.end.saturating_add(secs),
        };
        let own = |part: &&Arc<Part>| part.has(&self.dataset);
        let parts: Vec<&Arc<Part>> = from.parts.iter().filter(own).collect();
        let mut reads = Vec::new();
        for part in &parts {
            let counted = match asked {
                Some(asked) if part.resolution == asked => vec![part.span.clone()],
                Some(asked) if part.resolution < asked && !part.rolled => vec![part.span.clone()],
                Some(_) => Vec::new(),
                None => without_finer(part, &parts),
            };
            for of in counted {
                let times = of.start.max(times.start)..of.end.min(times.end);
                if !times.is_empty() {
                    reads.push(Read {
                        rows: Rows::OnDisk(Arc::clone(part)),
                        times,
                        resolution: part.resolution,
                    });
                }
            }
        }
        reads.push(Read {
            rows: Rows::InMemory(Arc::clone(&from.memory)),
            times,
            resolution: Resolution::Minute,
        });
        reads
    }

    /// The order in which histograms of many rows are read, so that those of a group are adjacent
    /// and need not be kept.
    fn order(&self) -> Option<LexOrdering> {
        let mut fields = self.schema.fields().iter();
        let has_histogram = fields.any(|field| *field.data_type() == DataType::Binary);
        if !has_histogram || self.wanted.is_selective() {
            return None;
        }
        let order = shown::order(&self.dataset).into_iter();
        let order = order.map_while(|name| Column::new_with_schema(&name, &self.schema).ok());
        LexOrdering::new(order.map(|it| PhysicalSortExpr::new_default(Arc::new(it))))
    }

    /// Sorts rows that are all in memory.
    fn sorted(&self, batches: Batches, order: &LexOrdering) -> Result<RecordBatch> {
        let batches: Vec<RecordBatch> = batches.collect::<io::Result<_>>()?;
        let all = concat_batches(&self.schema, &batches)?;
        let columns = order.iter().map(|it| it.evaluate_to_sort_column(&all));
        let order = lexsort_to_indices(&columns.collect::<Result<Vec<_>>>()?, None)?;
        Ok(take_record_batch(&all, &order)?)
    }

    /// The batches of a read, with the columns to show.
    fn batches(self: &Arc<Self>, read: &Read) -> io::Result<Batches> {
        let stored: Batches = match &read.rows {
            Rows::OnDisk(part) => Box::new(self.wanted.of_part(part, &read.times)?),
            Rows::InMemory(rows) => self.wanted.of_memory(rows, &read.times)?,
        };
        let (scan, resolution) = (Arc::clone(self), read.resolution);
        Ok(Box::new(
            stored.map(move |batch| scan.shown(&batch?, resolution)),
        ))
    }

    /// Converts a batch of a file's columns to the table's.
    fn shown(&self, stored: &RecordBatch, of: Resolution) -> io::Result<RecordBatch> {
        let rows = stored.num_rows();
        let shown = self.resolution.unwrap_or(of);
        let arrays = self.shown.iter().map(|&column| match column {
            RESOLUTION => {
                let names =
                    StringViewArray::from_iter_values(std::iter::repeat_n(shown.name(), rows));
                Arc::new(names) as ArrayRef
            }
            TIME if shown != of => {
                let secs = shown.secs().cast_signed();
                let times = stored.column(0).as_primitive::<TimestampSecondType>();
                let begins: TimestampSecondArray = times.unary(|time| time - time.rem_euclid(secs));
                Arc::new(begins)
            }
            column => {
                let place = stored_place(&self.wanted, column);
                Arc::clone(stored.column(place))
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays.collect(), &options);
        batch.map_err(io::Error::other)
    }
}

fn stored_place(wanted: &Wanted, column: usize) -> usize {
    let place = stored(column).and_then(|column| wanted.place(column));
    place.unwrap_or_default()
}

/// The share of a scan that one thread reads.
#[derive(Debug)]
struct Share {
    scan: Arc<Scan>,
    reads: Vec<Read>,
    /// The order required of each.
    order: Option<LexOrdering>,
}

impl PartitionStream for Share {
    fn schema(&self) -> &SchemaRef {
        &self.scan.schema
    }

    /// Opens files one after the other, as their batches are requested.
    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let memory = MemoryConsumer::new("history").register(context.memory_pool());
        let held = memory.try_grow(match &self.order {
            // The merging node counts its batches.
            Some(_) => ORDERED_BYTES,
            None => BATCH_BYTES,
        });
        let (scan, reads, order) = (
            Arc::clone(&self.scan),
            self.reads.clone(),
            self.order.clone(),
        );
        let batches = reads.into_iter().flat_map(move |read| {
            let opened = scan.batches(&read).and_then(|batches| {
                let (Some(order), Rows::InMemory(_)) = (&order, &read.rows) else {
                    return Ok(batches);
                };
                let sorted = scan.sorted(batches, order).map_err(io::Error::other)?;
                let begins = (0..sorted.num_rows()).step_by(ORDERED_BATCH_ROWS);
                Ok(Box::new(begins.map(move |begin| {
                    let rows = ORDERED_BATCH_ROWS.min(sorted.num_rows() - begin);
                    Ok(sorted.slice(begin, rows))
                })) as Batches)
            });
            opened.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
        });
        let batches = batches.map(move |batch| {
            let _until_read = &memory;
            batch.map_err(DataFusionError::from)
        });
        let refused = held.err().map(Err);
        let schema = Arc::clone(&self.scan.schema);
        let batches = futures::stream::iter(refused.into_iter().chain(batches));
        Box::pin(RecordBatchStreamAdapter::new(schema, batches))
    }
}

/// The whole scan, merged from parts in order.
#[derive(Debug)]
struct Ordered {
    scan: Arc<Scan>,
    reads: Vec<Read>,
    order: LexOrdering,
}

impl Ordered {
    fn merge(&self, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let shares = self.reads.iter().map(|read| {
            Arc::new(Share {
                scan: Arc::clone(&self.scan),
                reads: vec![read.clone()],
                order: Some(self.order.clone()),
            }) as Arc<dyn PartitionStream>
        });
        let schema = Arc::clone(&self.scan.schema);
        let order = self.order.clone();
        let shares =
            StreamingTableExec::try_new(schema, shares.collect(), None, [order], false, None)?;
        SortPreservingMergeExec::new(self.order.clone(), Arc::new(shares)).execute(0, context)
    }
}

impl PartitionStream for Ordered {
    fn schema(&self) -> &SchemaRef {
        &self.scan.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.merge(context).unwrap_or_else(|error| {
            let schema = Arc::clone(&self.scan.schema);
            let error = futures::stream::iter([Err(error)]);
            Box::pin(RecordBatchStreamAdapter::new(schema, error))
        })
    }
}

/// The times of a part that no finer part covers.
fn without_finer(part: &Part, parts: &[&Arc<Part>]) -> Vec<Range<u64>> {
    let secs = part.resolution.secs();
    let finer = parts.iter().filter(|it| it.resolution < part.resolution);
    let mut finer: Vec<Range<u64>> = finer
        .map(|it| it.span.start - it.span.start % secs..it.span.end.next_multiple_of(secs))
        .collect();
    finer.sort_unstable_by_key(|span| span.start);
    let mut left = Vec::new();
    let mut start = part.span.start;
    for span in finer {
        if span.start > start {
            left.push(start..span.start.min(part.span.end));
        }
        start = start.max(span.end);
    }
    if start < part.span.end {
        left.push(start..part.span.end);
    }
    left.retain(|span| !span.is_empty());
    left
}
