//! The scan of a table as a plan node.
//!
//! It holds no data: the [`Snapshot`] says which pool rows exist when it runs; a table of history
//! has the data of planning time: on disk, being written, and in memory. Conditions of the
//! statement are tested in the scan of a raw table, and dynamic filters of joins and sorts narrow
//! it further. Raw rows come in order of their ids, so ordering by id or timestamp, either way, is
//! free.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, Literal, lit};
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{
    EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
    SortOrderPushdownResult, apply_expression_roots,
};
use futures::StreamExt as _;
use futures::stream::BoxStream;

use super::filter::ranges;
use super::history::PastRows;
use super::raw::RowKey;
use super::reader::Reader;
use super::reports::BATCH_ROWS;
use super::table::{RowsOf, Table};
use crate::grammar::FixedTable;
use crate::input::squid::activity::Activity;
use crate::merger::answering;
use crate::sql::snapshot::Snapshot;

/// Below this many rows a scan has one partition: dividing it costs more than it saves.
const PIECE_ROWS: usize = if cfg!(test) { 128 } else { 65_536 };

/// A scan.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    pub(super) table: Table,
    /// The schema of its output.
    pub(super) schema: SchemaRef,
    /// The table's columns to show.
    pub(super) columns: Arc<[usize]>,
    /// Conditions of the statement, over the table's columns.
    pub(super) conditions: Arc<[Arc<dyn PhysicalExpr>]>,
    /// The column and value that select what is read.
    pub(super) chosen: Option<(String, String)>,
    /// Dynamic filters of other nodes, over the table's columns.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Most rows wanted.
    pub(super) fetch: Option<usize>,
    /// Whether the newest come first.
    pub(super) reverse: bool,
    /// Rows expected when it was planned.
    rows: usize,
    /// The data of a table of history.
    pub(super) past: Option<PastRows>,
    properties: Arc<PlanProperties>,
}

impl Scan {
    pub(super) fn new(
        table: &Table,
        columns: Vec<usize>,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        (fetch, past): (Option<usize>, Option<PastRows>),
        threads: usize,
    ) -> Result<Self> {
        let schema = Arc::new(table.schema.project(&columns)?);
        let (rows, pieces) = match &table.rows_of {
            RowsOf::Pool(of) => {
                let (rows, is_large) = expected(*of, table, &conditions, fetch);
                (rows, if is_large { threads } else { 1 })
            }
            RowsOf::Report(report) => {
                let shown = schema.fields().iter().map(|field| field.name().clone());
                report.needed.lock().extend(shown);
                let rows = table.rows.min(fetch.unwrap_or(usize::MAX));
                (rows, if rows > 4 * BATCH_ROWS { threads } else { 1 })
            }
            RowsOf::Past(..) => past.as_ref().map_or((0, 1), |past| {
                let rows = past.rows as usize >> conditions.len().min(8);
                (rows, threads.min(past.pieces_max()))
            }),
        };
        Ok(Self {
            table: table.clone(),
            properties: properties(EquivalenceProperties::new(Arc::clone(&schema)), pieces),
            schema,
            columns: columns.into(),
            conditions: conditions.into(),
            chosen: None,
            filters: Vec::new(),
            fetch,
            reverse: false,
            rows: fetch.map_or(rows, |fetch| rows.min(fetch)),
            past,
        })
    }

    /// The key that an output column is, if any.
    fn key(&self, at: usize) -> Option<RowKey> {
        self.table.key(*self.columns.get(at)?)
    }

    /// The same in this many partitions.
    pub(super) fn in_pieces(self, pieces: usize) -> Self {
        let of = EquivalenceProperties::new(Arc::clone(&self.schema));
        Self { properties: properties(of, pieces), ..self }
    }

    /// The number of partitions.
    pub(super) fn pieces(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

/// Replaces a number in the conditions of a plan's scans, so that it can run again. Also returns
/// whether the plan reads raw tables only and looks for that number.
///
/// # Errors
/// Errors of DataFusion.
pub(in crate::sql) fn with_number(
    plan: Arc<dyn ExecutionPlan>,
    from: i64,
    to: i64,
) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let (from, to) = (ScalarValue::from(from), lit(to));
    let (mut is_raw, mut found) = (true, false);
    let changed = |expr: Arc<dyn PhysicalExpr>| {
        let literal = expr.downcast_ref::<Literal>();
        Ok(match literal.is_some_and(|it| *it.value() == from) {
            true => Transformed::yes(Arc::clone(&to)),
            false => Transformed::no(expr),
        })
    };
    let again = plan.transform_up(|node| {
        let node = node.reset_state()?;
        let Some(scan) = node.downcast_ref::<Scan>() else {
            is_raw &= !node.children().is_empty();
            return Ok(Transformed::yes(node));
        };
        is_raw &= matches!(scan.table.rows_of, RowsOf::Pool(_));
        let conditions = scan.conditions.iter().cloned().map(|condition| {
            let condition = condition.transform(changed)?;
            found |= condition.transformed;
            Ok(condition.data)
        });
        let mut scan = scan.clone();
        scan.conditions = conditions.collect::<Result<_>>()?;
        Ok(Transformed::yes(Arc::new(scan)))
    });
    Ok((again.data()?, is_raw && found))
}

/// The number of rows a scan of a raw table may return, and whether it is worth dividing.
fn expected(
    of: FixedTable,
    table: &Table,
    conditions: &[Arc<dyn PhysicalExpr>],
    fetch: Option<usize>,
) -> (usize, bool) {
    let ids = table.rows;
    let requests = answering(&table.catalog.live).pool.requests.len().max(1);
    // Two tags per timer are usual.
    let rows_of_id = match of {
        FixedTable::TimerTag => 2,
        FixedTable::SquidActivity => Activity::COUNT,
        _ => 1,
    };
    let all = ids * rows_of_id;
    let mut rows = all;
    let mut by_id = false;
    for condition in conditions {
        let of_key = ranges(condition).and_then(|(at, wanted)| {
            let wanted = usize::try_from(wanted.count()).unwrap_or(usize::MAX);
            Some((of.key(at)?, wanted))
        });
        by_id |= matches!(of_key, Some((RowKey::Id | RowKey::Owner, _)));
        let passing = match of_key {
            Some((RowKey::Id, wanted)) => wanted.saturating_mul(rows_of_id),
            Some((RowKey::Owner, wanted)) => wanted.saturating_mul((all / requests).max(1)),
            Some((RowKey::Timestamp, _)) => rows / 3,
            None => rows / 10,
        };
        rows = rows.min(passing.max(1));
    }
    let few = fetch.is_some_and(|fetch| fetch <= PIECE_ROWS) && conditions.is_empty();
    let few = few || by_id && rows < PIECE_ROWS;
    (rows, !few && ids >= PIECE_ROWS)
}

/// Batches, each read on request: by then a node above knows what it looks for. An empty one means
/// that nothing was found for a while.
pub(super) fn batches_of(
    mut next: impl FnMut() -> Result<Option<RecordBatch>> + Send + 'static,
) -> BoxStream<'static, Result<RecordBatch>> {
    let poll = move |context: &mut Context<'_>| match next() {
        Ok(Some(batch)) if batch.num_rows() == 0 => {
            // Lets others have the thread.
            context.waker().wake_by_ref();
            Poll::Pending
        }
        other => Poll::Ready(other.transpose()),
    };
    futures::stream::poll_fn(poll).boxed()
}

fn properties(of: EquivalenceProperties, pieces: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        of,
        Partitioning::UnknownPartitioning(pieces),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

impl DisplayAs for Scan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.schema.fields().iter().map(|field| field.name());
        write!(
            f,
            "Scan: table={}, columns={:?}, conditions={}, filters={}, fetch={:?}, reverse={}",
            self.table.name(),
            columns.collect::<Vec<_>>(),
            self.conditions.len(),
            self.filters.len(),
            self.fetch,
            self.reverse,
        )
    }
}

impl ExecutionPlan for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(&self.filters, f)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Drops the filters of an earlier run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { filters: Vec::new(), ..(*self).clone() }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("scan").register(context.memory_pool());
        let batches = match &self.table.rows_of {
            RowsOf::Past(view, _) => match &self.past {
                Some(past) => past.batches(self, view, partition, memory)?,
                None => futures::stream::empty().boxed(),
            },
            RowsOf::Report(report) => {
                futures::stream::iter(report.batches(self, partition, memory)?).boxed()
            }
            RowsOf::Pool(table) => {
                let snapshot = Snapshot::of(&context)?;
                let mut reader = Reader::new(self, *table, snapshot, partition, memory);
                batches_of(move || reader.next())
            }
        };
        let schema = Arc::clone(&self.schema);
        let stream = cooperative(RecordBatchStreamAdapter::new(schema, batches));
        Ok(Box::pin(stream))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let pieces = args.partition().map_or(1, |_| self.pieces());
        let mut statistics = Statistics::new_unknown(&self.schema);
        // Never exact: the plan may run again, over other rows.
        statistics.num_rows = Precision::Inexact(self.rows.div_ceil(pieces));
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let scan = Self { fetch: limit, ..self.clone() };
        self.past.is_none().then(|| Arc::new(scan) as _)
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let filters = result.parent_filters;
        // They are hints: the nodes they come from test the rows again.
        let answer = vec![PushedDown::No; filters.len()];
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answer);
        // A filter above a limit applies to the limited rows, not the other way round.
        let tests = !matches!(self.table.rows_of, RowsOf::Report(_));
        if phase == FilterPushdownPhase::Pre || self.fetch.is_some() || !tests {
            return Ok(answer);
        }
        let dynamic = filters.into_iter().map(|result| result.filter);
        let dynamic = dynamic.filter(|filter| filter.is::<DynamicFilterPhysicalExpr>());
        let dynamic = dynamic.map(|filter| reassign_expr_columns(filter, &self.table.schema));
        let mut scan = self.clone();
        scan.filters.extend(dynamic.collect::<Result<Vec<_>>>()?);
        if scan.filters.len() == self.filters.len() {
            return Ok(answer);
        }
        Ok(answer.with_updated_node(Arc::new(scan)))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let unsupported = Ok(SortOrderPushdownResult::Unsupported);
        if self.fetch.is_some() {
            return unsupported;
        }
        let tags = [FixedTable::TimerTag, FixedTable::RequestTag, FixedTable::SquidActivity];
        let has_ties = matches!(&self.table.rows_of, RowsOf::Pool(of) if tags.contains(of));
        let mut reverse = None;
        for sort in order {
            let column = sort.expr.downcast_ref::<Column>();
            let key = column.and_then(|column| self.key(column.index()));
            // The requests of timers rise with the timers, and timestamps with the requests; but
            // rows of one request, or of one second, are ordered only by the next sort key.
            if key.is_none()
                || *reverse.get_or_insert(sort.options.descending) != sort.options.descending
            {
                return unsupported;
            }
            if key == Some(RowKey::Id) && !has_ties {
                break;
            }
        }
        let ordered =
            EquivalenceProperties::new_with_orderings(Arc::clone(&self.schema), [order.to_vec()]);
        Ok(SortOrderPushdownResult::Exact {
            inner: Arc::new(Self {
                reverse: reverse.unwrap_or(false),
                properties: properties(ordered, 1),
                ..self.clone()
            }),
        })
    }
}
