//! Database `history`: report rows by minute, hour and day, and raw requests, from disk and from
//! memory not yet written.
//!
//! Each report is a table, as currently defined. A row holds the gain of a key in the minute, hour
//! or day that begins at `time` (UTC); a key and time may have several rows, so rows are to be
//! aggregated: SUM, MAX, `PERCENTILE(histogram, 95)`. Everything is included once: minutes as far
//! back as they are kept, before that hours, then days. `resolution = 'hour'` in a statement
//! selects hours (or days) for the whole time instead, which are fewer rows.
//!
//! Tables `request`, `timer` and `request_tag` have the columns of the live tables, then `run`,
//! `weight`, `time` and the further columns of files.
//!
//! All conditions on rows are tested in the scan, and so are bounds that a sort with a limit finds
//! at run time; statistics of the files decide what is read at all.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{concat_batches, lexsort_to_indices, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use futures::stream::{BoxStream, StreamExt as _};

use super::declared;
use super::reports::equal_text;
use super::scan::{Scan, batches_of};
use super::table::{RowsOf, Table};
use crate::grammar::FixedTable;
use crate::history::parquet::ReadAs;
use crate::history::read_unit::{ReadUnit, RowsSnapshot};
use crate::history::requests::TABLES;
use crate::history::scan::{self, REQUESTS_BYTES, Source, SourceRows, Wanted};
use crate::history::sql_columns::{RESOLUTION, View};
use crate::history::{Dataset, History, Part, Resolution};
use crate::query::catalog::Catalog;
use crate::sql::error::SqlError;

/// The database.
pub(in crate::sql) const DATABASE: &str = "history";

/// The metadata key for the buckets of histograms.
pub(in crate::sql) const BUCKETS: &str = "pinbad.buckets";

/// Memory of a scan of a report's rows: a batch of hours with their histograms.
const ROWS_BYTES: usize = 4 << 20;

/// From this many rows on, histograms are read in the order of the parts, unless there are too many
/// parts: each needs a batch of this many rows in memory.
const ORDERED_ROWS: u64 = 100_000;
const ORDERED_SOURCES_MAX: usize = 128;
const ORDERED_BATCH_ROWS: usize = 512;
const ORDERED_BYTES: usize = 64 << 10;

/// The names of its tables, in order; none without history.
pub(in crate::sql) fn names(catalog: &Catalog) -> Vec<String> {
    let mut names: Vec<String> = datasets(catalog).into_iter().map(|it| it.report).collect();
    if catalog.has_history() {
        names.extend(TABLES.map(str::to_owned));
    }
    names.sort();
    names
}

/// A table with its columns; `None` if it does not exist.
pub(in crate::sql) fn view(catalog: &Catalog, name: &str) -> Option<View> {
    if !catalog.has_history() {
        return None;
    }
    let mut tables = TABLES.into_iter();
    if let Some(table) = tables.find(|table| table.eq_ignore_ascii_case(name)) {
        let columns = FixedTable::raw(table)?.columns(&catalog.defaults);
        return Some(View::live(table, &declared::schema(table, &columns)));
    }
    let mut datasets = datasets(catalog).into_iter();
    let dataset = datasets.find(|dataset| dataset.report.eq_ignore_ascii_case(name))?;
    let mut view = View::of_report(&Arc::new(dataset));
    let of_buckets = || {
        // A structure of words and numbers: writing it as JSON cannot fail.
        let buckets = serde_json::to_string(&view.dataset.buckets).unwrap_or_default();
        [(BUCKETS.to_owned(), buckets)].into()
    };
    let fields = view.schema.fields().iter().map(|field| match field.data_type() {
        DataType::Binary => Arc::new(field.as_ref().clone().with_metadata(of_buckets())),
        _ => Arc::clone(field),
    });
    let fields: Vec<Arc<Field>> = fields.collect();
    view.schema = Arc::new(Schema::new(fields));
    Some(view)
}

fn datasets(catalog: &Catalog) -> Vec<Dataset> {
    let mut all = Vec::new();
    if catalog.has_history() {
        all.push(Dataset::coverage());
        all.extend(catalog.has_squid().then(Dataset::swaps));
        all.extend(catalog.has_samples().then(Dataset::samples));
    }
    all.append(&mut catalog.kept_datasets());
    all
}

/// A table by name, in any case; an error with the reason while history is off.
pub(super) fn table(catalog: &Arc<Catalog>, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(view) = view(catalog, name) else { return Ok(None) };
    let history = catalog.kept_history().map_err(|off| {
        let off = SqlError::history_off(off.to_string());
        DataFusionError::External(Box::new(off))
    })?;
    Ok(Some(Arc::new(Table {
        catalog: Arc::clone(catalog),
        schema: Arc::clone(&view.schema),
        rows: 0,
        rows_of: RowsOf::Past(Arc::new(view), history.clone()),
    })))
}

/// The rows that a scan reads: those of planning time.
#[derive(Debug, Clone)]
pub(super) struct PastRows {
    sources: Arc<[Source]>,
    /// About how many they are.
    pub(super) rows: u64,
    read_as: ReadAs,
    /// The order required of each source.
    order: Option<LexOrdering>,
}

impl PastRows {
    /// The rows of a table; conditions on the resolution select parts, conditions on keys select
    /// pages.
    pub(super) fn new(view: &View, history: &History, filters: &[Expr]) -> Self {
        let View { dataset, .. } = view;
        let (sources, in_memory): (Vec<Source>, usize) = match dataset.is_raw() {
            true => (history.requests().sources(&dataset.report).collect(), 0),
            false => {
                let from = RowsSnapshot::of(history, dataset);
                let asked = filters.iter().find_map(resolution);
                let in_memory = from.memory.iter().map(RecordBatch::num_rows).sum();
                (sources(&from, dataset, asked), in_memory)
            }
        };
        let on_disk = sources.iter().map(|source| match &source.rows {
            SourceRows::OnDisk(part, _) => part.rows_of(dataset),
            SourceRows::InMemory(_) => 0,
        });
        let equal = view.key_columns().filter_map(|(shown, stored)| {
            let text = filters.iter().find_map(|filter| equal_text(filter, shown))?;
            Some((stored.to_owned(), text.to_owned()))
        });
        Self {
            rows: on_disk.sum::<u64>() + in_memory as u64,
            sources: sources.into(),
            read_as: ReadAs { equal: equal.collect(), ..ReadAs::default() },
            order: None,
        }
    }

    pub(super) fn pieces_max(&self) -> usize {
        self.sources.len().max(1)
    }

    /// The order in which histograms of many rows are read, so that those of a group are adjacent
    /// and need not be kept.
    fn wanted_order(&self, view: &View, shown: &Schema) -> Option<LexOrdering> {
        let mut fields = shown.fields().iter();
        let has_histogram = fields.any(|field| *field.data_type() == DataType::Binary);
        if !has_histogram
            || !self.read_as.equal.is_empty()
            || !(ORDERED_ROWS..).contains(&self.rows)
            || self.sources.len() > ORDERED_SOURCES_MAX
        {
            return None;
        }
        let order = view.order().into_iter();
        let order = order.map_while(|name| Column::new_with_schema(name, shown).ok());
        LexOrdering::new(order.map(|it| PhysicalSortExpr::new_default(Arc::new(it))))
    }

    /// Some of the rows, in batches.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(super) fn batches(
        &self,
        scan: &Scan,
        view: &Arc<View>,
        partition: usize,
        memory: MemoryReservation,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        memory.try_grow(match &self.order {
            // The merging node counts its batches.
            Some(_) => ORDERED_BYTES,
            None if view.dataset.is_raw() => REQUESTS_BYTES,
            None => ROWS_BYTES,
        })?;
        let wanted = Wanted {
            view: Arc::clone(view),
            shown: scan.columns.to_vec(),
            schema: Arc::clone(&scan.schema),
            conditions: scan.conditions.iter().chain(&scan.filters).cloned().collect(),
            read_as: self.read_as.clone(),
        };
        let sources: Vec<_> = self.sources.iter().skip(partition).step_by(scan.pieces()).collect();
        let is_in_memory = matches!(&*sources, [Source { rows: SourceRows::InMemory(_), .. }]);
        let mut rows = scan::Scan::new(sources.into_iter().cloned(), wanted);
        if let Some(order) = self.order.as_ref().filter(|_| is_in_memory) {
            let batches = std::iter::from_fn(|| rows.next().transpose());
            let sorted =
                sorted(&scan.schema, &batches.collect::<std::io::Result<Vec<_>>>()?, order)?;
            let begins = (0..sorted.num_rows()).step_by(ORDERED_BATCH_ROWS);
            let batches = begins.map(move |begin| {
                let _until_read = &memory;
                let rows = ORDERED_BATCH_ROWS.min(sorted.num_rows() - begin);
                Ok(sorted.slice(begin, rows))
            });
            return Ok(futures::stream::iter(batches).boxed());
        }
        Ok(batches_of(move || {
            let _until_read = &memory;
            rows.next().map_err(Into::into)
        }))
    }
}

/// Sorts rows that are all in memory.
fn sorted(schema: &SchemaRef, rows: &[RecordBatch], order: &LexOrdering) -> Result<RecordBatch> {
    let all = concat_batches(schema, rows)?;
    let columns = order.iter().map(|it| it.evaluate_to_sort_column(&all));
    let order = lexsort_to_indices(&columns.collect::<Result<Vec<_>>>()?, None)?;
    Ok(take_record_batch(&all, &order)?)
}

/// The resolution that a condition asks for.
fn resolution(filter: &Expr) -> Option<Resolution> {
    let name = equal_text(filter, RESOLUTION)?;
    let mut all = Resolution::ALL.into_iter();
    all.find(|resolution| resolution.name().eq_ignore_ascii_case(name))
}

/// The rows of a report, each once, shown by the resolution asked for.
fn sources(from: &RowsSnapshot, dataset: &Dataset, asked: Option<Resolution>) -> Vec<Source> {
    let parts: Vec<&Arc<Part>> = from.parts.iter().filter(|part| part.has(dataset)).collect();
    let mut sources = Vec::new();
    let mut add = |rows, own| sources.push(Source { rows, by: asked.unwrap_or(own) });
    for part in &parts {
        let counted = match asked {
            Some(asked) if part.resolution == asked => vec![part.span.clone()],
            Some(asked) if part.resolution < asked && !part.is_rolled() => vec![part.span.clone()],
            Some(_) => Vec::new(),
            None => without_finer(part, &parts),
        };
        let rows = counted.into_iter().map(|times| SourceRows::OnDisk(Arc::clone(part), times));
        rows.for_each(|rows| add(rows, part.resolution));
    }
    let memory = ReadUnit::of_memory(Arc::clone(&from.memory), 0..u64::MAX);
    add(SourceRows::InMemory(memory), Resolution::Minute);
    sources
}

/// The times of a part that no finer part has in more detail.
fn without_finer(part: &Part, parts: &[&Arc<Part>]) -> Vec<Range<u64>> {
    let secs = part.resolution.secs();
    // Rows of pieces are in no coarser part, and those of minutes whose hour is a piece in no day.
    let is_in_piece = |it: &Part| {
        let mut hours = parts.iter().filter(|it| it.resolution == Resolution::Hour);
        it.resolution.coarser() != Some(part.resolution)
            && hours.any(|hours| {
                !hours.is_rolled()
                    && hours.span.start < it.span.end
                    && it.span.start < hours.span.end
            })
    };
    let finer = parts
        .iter()
        .filter(|it| it.resolution < part.resolution && it.is_rolled() && !is_in_piece(it));
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

/// The scan itself or, if its rows are wanted in order, one that merges its parts.
pub(super) fn in_order(mut scan: Scan) -> Result<Arc<dyn ExecutionPlan>> {
    if let (RowsOf::Past(view, _), Some(past)) = (&scan.table.rows_of, &mut scan.past)
        && let Some(order) = past.wanted_order(view, &scan.schema)
    {
        past.order = Some(order.clone());
        past.read_as.batch_rows = Some(ORDERED_BATCH_ROWS);
        let (schema, sources) = (Arc::clone(&scan.schema), past.sources.len());
        let merged: Arc<dyn PartitionStream> =
            Arc::new(Ordered { scan: scan.in_pieces(sources), order: order.clone() });
        let exec = StreamingTableExec::try_new(schema, vec![merged], None, [order], false, None)?;
        return Ok(Arc::new(exec));
    }
    Ok(Arc::new(scan))
}

/// A whole scan, merged from sources in order.
#[derive(Debug)]
struct Ordered {
    scan: Scan,
    order: LexOrdering,
}

impl PartitionStream for Ordered {
    fn schema(&self) -> &SchemaRef {
        &self.scan.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let merged = SortPreservingMergeExec::new(self.order.clone(), Arc::new(self.scan.clone()));
        merged.execute(0, context).unwrap_or_else(|error| {
            let schema = Arc::clone(&self.scan.schema);
            let error = futures::stream::iter([Err(error)]);
            Box::pin(RecordBatchStreamAdapter::new(schema, error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Section;

    const HOUR: u64 = 3_600;

    /// What was published is in coarser parts too, and shown by the finest; pieces are in none.
    #[test]
    fn each_row_is_read_from_the_finest_part_that_has_it() {
        use Resolution::{Day, Hour, Minute};
        let dataset = Arc::new(Dataset::coverage());
        let part = |(resolution, extension, hours): &(Resolution, &str, Range<u64>)| {
            let mut part = Part::default();
            part.path = format!("1.{extension}").into();
            part.resolution = *resolution;
            part.span = hours.start * HOUR..hours.end * HOUR;
            part.sections = vec![Section { dataset: Arc::clone(&dataset), rows: 1 }];
            Arc::new(part)
        };
        let hours = (Hour, "parquet", 8..14);
        let minutes = (Minute, "parquet", 12..13);
        let late = (Minute, "piece", 10..11);
        let late_hour = (Hour, "piece", 10..11);
        let day = (Day, "piece", 0..24);
        for (parts, expected) in cases![
            vec![hours.clone(), minutes.clone()] => vec![(Hour, 8..12), (Hour, 13..14), (Minute, 12..13)];
            vec![hours.clone(), late.clone()] => vec![(Hour, 8..14), (Minute, 10..11)];
            vec![late_hour.clone(), late] => vec![(Hour, 10..11), (Minute, 10..11)];
            vec![day.clone(), hours] => vec![(Hour, 8..14)];
            vec![day.clone(), late_hour.clone()] => vec![(Day, 0..24), (Hour, 10..11)];
            // Its hours are gone, or not in the day yet.
            vec![day.clone(), minutes.clone()] => vec![(Minute, 12..13)];
            vec![day, (Hour, "piece", 12..13), minutes] => vec![(Day, 0..24), (Minute, 12..13)];
        ] {
            let from =
                RowsSnapshot { parts: parts.iter().map(part).collect(), ..Default::default() };
            let sources = sources(&from, &dataset, None);
            let read = sources.iter().filter_map(|source| match &source.rows {
                SourceRows::OnDisk(_, times) => {
                    Some((source.by, times.start / HOUR..times.end / HOUR))
                }
                SourceRows::InMemory(_) => None,
            });
            assert_eq!(read.collect::<Vec<_>>(), expected, "{parts:?}");
        }
    }
}
