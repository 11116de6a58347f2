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
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, ScalarValue, project_schema};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::{
    AnalysisContext, ExprBoundaries, LexOrdering, PhysicalSortExpr, analyze,
};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};

use super::past_requests;
use super::reports::equal_text;
use super::table::Table;
use crate::history::read_unit::{Batches, RowsSnapshot};
use crate::history::requests::TABLES;
use crate::history::requests::condition::physical;
use crate::history::sql_columns::{self, Wanted};
use crate::history::{Dataset, History, Part, Resolution};
use crate::query::catalog::Catalog;
use crate::sql::error::SqlError;

/// The database.
pub(in crate::sql) const DATABASE: &str = "history";

/// The first column, and the one after it, which files do not have.
const TIME: &str = "time";
const RESOLUTION: &str = "resolution";

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
    let stored = sql_columns::schema(dataset);
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
    let resolution = Field::new(RESOLUTION, DataType::Utf8View, true);
    fields.insert(1, resolution.into());
    Arc::new(Schema::new(fields))
}

/// A table by name, in any case; an error with the reason while history is off.
pub(super) fn table(catalog: &Arc<Catalog>, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    if columns(catalog, name).is_none() {
        return Ok(None);
    }
    let history = catalog.kept_history().map_err(|off| {
        let off = SqlError::history_off(off.to_string());
        DataFusionError::External(Box::new(off))
    })?;
    if let Some(table) = Table::past(catalog, name, history) {
        return Ok(Some(Arc::new(table)));
    }
    let table = dataset(catalog, name).map(|dataset| HistoryTable {
        schema: schema(&dataset),
        history: history.clone(),
        dataset,
    });
    Ok(table.map(|table| Arc::new(table) as Arc<dyn TableProvider>))
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
        let keys: Vec<String> = sql_columns::key_columns(&self.dataset).collect();
        let is_of_key = |filter: &Expr| keys.iter().any(|key| equal_text(filter, key).is_some());
        let is_exact =
            |it: Resolution, filter: &Expr| equal_text(filter, RESOLUTION) == Some(it.name());
        let supports = |filter: &&Expr| match resolution(filter) {
            // All rows are shown with that resolution.
            Some(asked) if is_exact(asked, filter) => TableProviderFilterPushDown::Exact,
            None if times(filter, &self.schema).is_none() && !is_of_key(filter) => {
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
        let schema = project_schema(&self.schema, projection)?;
        let scan = Arc::new(Scan {
            wanted: Wanted::new(&self.dataset, &schema, |column| {
                let text = filters.iter().find_map(|filter| equal_text(filter, column));
                text.map(str::to_owned)
            }),
            dataset: Arc::clone(&self.dataset),
            resolution: filters.iter().find_map(resolution),
            schema: Arc::clone(&schema),
        });
        let times = filters.iter().filter_map(|it| times(it, &self.schema));
        let times = times.fold(0..u64::MAX, |all, of| all.start.max(of.start)..all.end.min(of.end));
        let mut reads = scan.reads(&RowsSnapshot::of(&self.history, &self.dataset), &times);
        let mut asked = filters.iter().filter_map(resolution);
        if asked.any(|other| Some(other) != scan.resolution) {
            reads.clear();
        }
        let rows: u64 = reads.iter().map(Read::rows).sum();
        if (ORDERED_ROWS..).contains(&rows)
            && reads.len() <= ORDERED_READS_MAX
            && let Some(order) = scan.order()
        {
            let mut wanted = scan.wanted.clone();
            wanted.read_as.batch_rows = ORDERED_BATCH_ROWS;
            let scan = Arc::new(Scan { wanted, ..Scan::clone(&scan) });
            let all: Vec<Arc<dyn PartitionStream>> =
                vec![Arc::new(Ordered { scan, reads, order: order.clone() })];
            let exec = StreamingTableExec::try_new(schema, all, None, [order], false, limit)?;
            return Ok(Arc::new(exec));
        }
        let threads = state.config().target_partitions();
        let threads = threads.clamp(1, reads.len().max(1));
        let shares = (0..threads).map(|at| {
            let reads = reads.iter().skip(at).step_by(threads);
            Arc::new(Share {
                scan: Arc::clone(&scan),
                reads: reads.cloned().collect(),
                order: None,
            }) as Arc<dyn PartitionStream>
        });
        let exec = StreamingTableExec::try_new(schema, shares.collect(), None, [], false, limit)?;
        Ok(Arc::new(exec))
    }
}

/// The resolution that a condition asks for.
fn resolution(filter: &Expr) -> Option<Resolution> {
    let name = equal_text(filter, RESOLUTION)?;
    let mut all = Resolution::ALL.into_iter();
    all.find(|resolution| resolution.name().eq_ignore_ascii_case(name))
}

/// The span outside of which a condition on the time is never true; `None` if it is no such
/// condition.
fn times(filter: &Expr, schema: &SchemaRef) -> Option<Range<u64>> {
    let time = Arc::new(schema.project(&[0]).ok()?);
    let condition = physical(filter, &time).ok()?;
    if !check_support(&condition, &time) {
        return None;
    }
    let known = AnalysisContext::new(ExprBoundaries::try_new_unbounded(&time).ok()?);
    let known = analyze(&condition, known, &time).ok()?;
    let Some(interval) = &known.boundaries[0].interval else {
        return Some(0..0);
    };
    let second = |bound: &ScalarValue| match *bound {
        ScalarValue::TimestampSecond(at, _) => at,
        _ => None,
    };
    let since_1970 = |at: i64| u64::try_from(at).unwrap_or_default();
    let start = second(interval.lower()).map_or(0, since_1970);
    let end = second(interval.upper()).map_or(u64::MAX, |at| since_1970(at.saturating_add(1)));
    Some(start..end)
}

/// The output of a scan.
#[derive(Debug, Clone)]
struct Scan {
    dataset: Arc<Dataset>,
    wanted: Wanted,
    /// The resolution asked for.
    resolution: Option<Resolution>,
    /// The columns to show.
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
    fn reads(&self, from: &RowsSnapshot, times: &Range<u64>) -> Vec<Read> {
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
                Some(asked) if part.resolution < asked && !part.is_rolled() => {
                    vec![part.span.clone()]
                }
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
        if !has_histogram || !self.wanted.read_as.equal.is_empty() {
            return None;
        }
        let order = sql_columns::order(&self.dataset).into_iter();
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
            Rows::OnDisk(part) => self.wanted.of_part(part, &read.times)?,
            Rows::InMemory(rows) => self.wanted.of_memory(rows, &read.times)?,
        };
        let (scan, resolution) = (Arc::clone(self), read.resolution);
        Ok(Box::new(stored.map(move |batch| scan.shown(&batch?, resolution))))
    }

    /// Converts a batch of a file's columns to the table's.
    fn shown(&self, stored: &RecordBatch, of: Resolution) -> io::Result<RecordBatch> {
        let rows = stored.num_rows();
        let shown = self.resolution.unwrap_or(of);
        let arrays = self.schema.fields().iter().map(|field| match field.name().as_str() {
            RESOLUTION => {
                let names =
                    StringViewArray::from_iter_values(std::iter::repeat_n(shown.name(), rows));
                Ok(Arc::new(names) as ArrayRef)
            }
            TIME if shown != of => {
                let secs = shown.secs().cast_signed();
                let times = stored.column(0).as_primitive::<TimestampSecondType>();
                let begins: TimestampSecondArray = times.unary(|time| time - time.rem_euclid(secs));
                Ok(Arc::new(begins) as ArrayRef)
            }
            name => {
                let array = stored.column_by_name(name);
                array.cloned().ok_or_else(|| io::Error::other(format!("no column {name}")))
            }
        });
        let arrays = arrays.collect::<io::Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        batch.map_err(io::Error::other)
    }
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
        let (scan, reads, order) = (Arc::clone(&self.scan), self.reads.clone(), self.order.clone());
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
