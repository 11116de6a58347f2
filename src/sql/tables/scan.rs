//! A scan of raw data as a plan node.
//!
//! It holds no data: the [`Snapshot`] tells which rows exist when it runs. Conditions of the statement are tested in the scan, and
//! dynamic filters of joins and sorts narrow it further. Rows come in the order of their ids, so ordering by id or
//! timestamp, either way, is free.

use std::fmt;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
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
    SortOrderPushdownResult,
};

use super::columns::Buffer;
use super::filter::ranges;
use super::raw::{PoolTable, RowField};
use super::reader::Reader;
use crate::query::catalog::Catalog;
use crate::sql::snapshot::Snapshot;

/// Below so many rows a scan is one piece: dividing it costs more than it saves.
const PIECE_ROWS: u64 = if cfg!(test) { 128 } else { 65_536 };

/// A scan.
#[derive(Debug, Clone)]
pub(super) struct PoolScan {
    pub(super) table: PoolTable,
    pub(super) table_schema: SchemaRef,
    /// What it shows.
    pub(super) schema: SchemaRef,
    /// The columns of the table that it shows.
    pub(super) columns: Arc<[usize]>,
    /// Conditions of the statement, in terms of the columns of the table.
    pub(super) conditions: Arc<[Arc<dyn PhysicalExpr>]>,
    /// Filters of other nodes, which may change while it runs, in terms of the columns that are shown.
    pub(super) filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows that are enough.
    pub(super) fetch: Option<usize>,
    /// Newest first.
    pub(super) reverse: bool,
    /// Rows that were expected of it when it was planned.
    rows: u64,
    properties: Arc<PlanProperties>,
}

impl PoolScan {
    pub(super) fn new(
        table: PoolTable,
        table_schema: &SchemaRef,
        columns: Vec<usize>,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        fetch: Option<usize>,
        threads: usize,
        catalog: &Catalog,
    ) -> Result<Self> {
        let schema = Arc::new(table_schema.project(&columns)?);
        let (requests, timers, tags) = {
            let pool = &catalog.live().read().pool;
            (
                pool.requests.len() as u64,
                pool.timers.len() as u64,
                pool.strings.timer_tags() as u64,
            )
        };
        // How many ids its rows have, and how many rows an id has, about: two tags a timer are usual.
        let (ids, rows_of_id) = match table {
            PoolTable::Request | PoolTable::RequestTag => (requests, 1),
            PoolTable::Timer => (timers, 1),
            PoolTable::TimerTag => (timers, 2),
            PoolTable::Tag => (tags, 1),
        };
        let all = ids * rows_of_id;
        let mut rows = all;
        let mut by_id = false;
        for condition in &conditions {
            let of_ids = ranges(condition).map(|(at, wanted)| (table.fields()[at], wanted.count()));
            by_id |= matches!(of_ids, Some((RowField::Id | RowField::Owner, _)));
            let passing = match of_ids {
                Some((RowField::Id, wanted)) => wanted.saturating_mul(rows_of_id),
                Some((RowField::Owner, wanted)) => {
                    wanted.saturating_mul((all / requests.max(1)).max(1))
                }
                Some((RowField::Timestamp, _)) => rows / 3,
                _ => rows / 10,
            };
            rows = rows.min(passing.max(1));
        }
        let few = fetch.is_some_and(|fetch| fetch as u64 <= PIECE_ROWS) && conditions.is_empty();
        let pieces = match few || by_id && rows < PIECE_ROWS || ids < PIECE_ROWS {
            true => 1,
            false => threads.max(1),
        };
        Ok(Self {
            table,
            properties: properties(EquivalenceProperties::new(Arc::clone(&schema)), pieces),
            table_schema: Arc::clone(table_schema),
            schema,
            columns: columns.into(),
            conditions: conditions.into(),
            filters: Vec::new(),
            fetch,
            reverse: false,
            rows: fetch.map_or(rows, |fetch| rows.min(fetch as u64)),
        })
    }

    /// Where the values of a column of the output come from.
    fn field(&self, at: usize) -> Option<RowField> {
        Some(self.table.fields()[*self.columns.get(at)?])
    }

    /// Room for these columns of the table.
    pub(super) fn buffers(&self, columns: &[usize]) -> Vec<Buffer> {
        let fields = self.table.fields();
        let buffer = |&at: &usize| Buffer::new(fields[at], self.table_schema.field(at).data_type());
        columns.iter().map(buffer).collect()
    }

    /// In how many pieces it is read.
    pub(super) fn pieces(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    fn column_statistics(&self, at: usize) -> ColumnStatistics {
        let rows = self.rows as usize;
        let mut statistics = ColumnStatistics::new_unknown();
        statistics.distinct_count = match self.field(at) {
            Some(RowField::NameId) => Precision::Inexact(rows.min(16)),
            Some(RowField::Id) => match self.table {
                PoolTable::TimerTag | PoolTable::RequestTag => Precision::Inexact(rows.div_ceil(2)),
                _ => Precision::Inexact(rows),
            },
            Some(RowField::Owner) => Precision::Inexact(rows.div_ceil(5)),
            _ => Precision::Absent,
        };
        statistics.null_count = match self.field(at) {
            Some(RowField::Schema) | None => Precision::Absent,
            Some(_) => Precision::Inexact(0),
        };
        statistics
    }
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

impl DisplayAs for PoolScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.schema.fields().iter().map(|field| field.name());
        write!(
            f,
            "PoolScan: table={}, columns={:?}, conditions={}, filters={}, fetch={:?}, reverse={}",
            self.table.name(),
            columns.collect::<Vec<_>>(),
            self.conditions.len(),
            self.filters.len(),
            self.fetch,
            self.reverse,
        )
    }
}

impl ExecutionPlan for PoolScan {
    fn name(&self) -> &'static str {
        "PoolScan"
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
        for filter in &self.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Without the filters of an earlier run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self {
            filters: Vec::new(),
            ..(*self).clone()
        }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let snapshot = Snapshot::of(&context)?;
        let memory = MemoryConsumer::new("scan").register(context.memory_pool());
        let mut reader = Reader::new(self, snapshot, partition, memory)?;
        // Batches are made when they are asked for: by then a join above knows what it looks for.
        let batches = futures::stream::poll_fn(move |context| match reader.next() {
            Ok(Some(batch)) if batch.num_rows() == 0 => {
                // Nothing found in a while: others may want the thread.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            other => Poll::Ready(other.transpose()),
        });
        let schema = Arc::clone(&self.schema);
        let stream = cooperative(RecordBatchStreamAdapter::new(schema, batches));
        Ok(Box::pin(stream))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let pieces = match args.partition() {
            Some(_) => self.pieces(),
            None => 1,
        };
        let rows = (self.rows as usize).div_ceil(pieces);
        let columns = 0..self.columns.len();
        Ok(Arc::new(Statistics {
            // Never exact: the plan may run again, when there are other rows.
            num_rows: Precision::Inexact(rows),
            total_byte_size: Precision::Inexact(rows * 16 * self.columns.len().max(1)),
            column_statistics: columns.map(|at| self.column_statistics(at)).collect(),
        }))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(Self {
            fetch: limit,
            ..self.clone()
        }))
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
        // They are hints: who made them tests the rows again.
        let answer = vec![PushedDown::No; filters.len()];
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answer);
        // With a limit in the scan, whoever filters wants the rows within the limit filtered, not the other way round.
        if phase == FilterPushdownPhase::Pre || self.fetch.is_some() {
            return Ok(answer);
        }
        let dynamic = filters.into_iter().map(|result| result.filter);
        let dynamic = dynamic.filter(|filter| filter.is::<DynamicFilterPhysicalExpr>());
        let mut scan = self.clone();
        scan.filters.extend(dynamic);
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
        let mut reverse = None;
        for sort in order {
            let field = sort.expr.downcast_ref::<Column>();
            let field = field.and_then(|column| self.field(column.index()));
            // Requests of timers rise with the timers, and timestamps with the requests; but rows of one request, or of
            // one second, are told apart only by what comes next in the order.
            if !matches!(
                field,
                Some(RowField::Id | RowField::Owner | RowField::Timestamp)
            ) || *reverse.get_or_insert(sort.options.descending) != sort.options.descending
            {
                return unsupported;
            }
            if field == Some(RowField::Id)
                && !matches!(self.table, PoolTable::TimerTag | PoolTable::RequestTag)
            {
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
