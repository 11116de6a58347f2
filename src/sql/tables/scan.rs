//! A scan of raw data as a node of a plan.
//!
//! It holds no data: which rows there are it learns from the [`Snapshot`] when it runs. Conditions of the statement are tested
//! in the scan; filters that joins and sorts make while the query runs arrive here too and narrow it further. Rows are in the
//! order of their ids, so an order by id or timestamp, either way, costs nothing.

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

use super::condition::{Condition, Test};
use super::raw::{Lane, Raw};
use super::walk::Walk;
use crate::query::catalog::Catalog;
use crate::sql::snapshot::Snapshot;

/// Below so many rows a scan is one piece: dividing it costs more than it saves.
const PIECE_ROWS: u64 = if cfg!(test) { 128 } else { 65_536 };

/// A scan.
#[derive(Debug, Clone)]
pub(super) struct PoolScan {
    pub(super) raw: Raw,
    pub(super) schema: SchemaRef,
    /// The columns of the table that it shows.
    pub(super) columns: Arc<[usize]>,
    pub(super) conditions: Arc<[Condition]>,
    /// Filters of other nodes, which may change while it runs.
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
        raw: Raw,
        schema: SchemaRef,
        columns: Vec<usize>,
        conditions: Vec<Condition>,
        fetch: Option<usize>,
        threads: usize,
        catalog: &Catalog,
    ) -> Self {
        let (table_rows, walked) = sizes(raw, catalog);
        let rows = expected(raw, &conditions, table_rows, catalog);
        // What is walked is at most as long as what comes out, but for conditions on other columns than ids.
        let narrow = conditions.iter().any(|condition| {
            matches!(raw.lanes()[condition.column], Lane::Id | Lane::Owner) && rows < PIECE_ROWS
        });
        let few = fetch.is_some_and(|fetch| fetch as u64 <= PIECE_ROWS) && conditions.is_empty();
        let pieces = if narrow || few || walked < PIECE_ROWS || raw == Raw::Tag {
            1
        } else {
            threads.max(1)
        };
        Self {
            raw,
            properties: properties(EquivalenceProperties::new(Arc::clone(&schema)), pieces),
            schema,
            columns: columns.into(),
            conditions: conditions.into(),
            filters: Vec::new(),
            fetch,
            reverse: false,
            rows: fetch.map_or(rows, |fetch| rows.min(fetch as u64)),
        }
    }

    /// Where the values of a column of the output come from.
    pub(super) fn lane(&self, at: usize) -> Option<Lane> {
        Some(self.raw.lanes()[*self.columns.get(at)?])
    }

    fn column_statistics(&self, at: usize) -> ColumnStatistics {
        let mut statistics = ColumnStatistics::new_unknown();
        let rows = self.rows as usize;
        statistics.distinct_count = match self.lane(at) {
            Some(Lane::Id | Lane::NameNumber) => match self.raw {
                Raw::Request | Raw::Timer | Raw::Tag => Precision::Inexact(rows),
                Raw::TimerTag if self.lane(at) == Some(Lane::NameNumber) => {
                    Precision::Inexact(rows.min(16))
                }
                Raw::TimerTag | Raw::RequestTag => Precision::Inexact(rows.div_ceil(2)),
            },
            Some(Lane::Owner) => Precision::Inexact(rows.div_ceil(5)),
            _ => Precision::Absent,
        };
        statistics.null_count = match self.lane(at) {
            Some(Lane::Schema) | None => Precision::Absent,
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

/// About how many rows a table has, and how many rows of the pool are walked for them.
fn sizes(raw: Raw, catalog: &Catalog) -> (u64, u64) {
    let live = catalog.live().read();
    let (requests, timers) = (live.pool.requests.len(), live.pool.timers.len());
    match raw {
        Raw::Request => (requests as u64, requests as u64),
        Raw::Timer => (timers as u64, timers as u64),
        // Two tags a timer are usual.
        Raw::TimerTag => (2 * timers as u64, timers as u64),
        Raw::RequestTag => (requests as u64, requests as u64),
        Raw::Tag => (live.pool.words.timer_tags() as u64, 0),
    }
}

/// About how many rows pass the conditions.
fn expected(raw: Raw, conditions: &[Condition], table_rows: u64, catalog: &Catalog) -> u64 {
    let mut rows = table_rows;
    for condition in conditions {
        let passing = match (&condition.test, raw.lanes()[condition.column]) {
            (Test::Ints(ranges), lane @ (Lane::Id | Lane::Owner)) => {
                let live = catalog.live().read();
                let (requests, timers) = (live.pool.requests.len(), live.pool.timers.len());
                let ids = match raw {
                    Raw::Timer | Raw::TimerTag if lane == Lane::Id => timers,
                    _ => requests,
                };
                let each = (table_rows / ids.max(1) as u64).max(1);
                ranges.count().saturating_mul(each)
            }
            (Test::Ints(ranges), Lane::NameNumber) if raw == Raw::Tag => ranges.count(),
            (Test::Ints(_), Lane::Timestamp) => rows / 3,
            _ => rows / 10,
        };
        rows = rows.min(passing.max(1));
    }
    rows
}

impl DisplayAs for PoolScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str());
        write!(f, "PoolScan: table={}", self.raw.name())?;
        write!(f, ", columns=[{}]", names.collect::<Vec<_>>().join(", "))?;
        if !self.conditions.is_empty() {
            write!(f, ", conditions={}", self.conditions.len())?;
        }
        if !self.filters.is_empty() {
            write!(f, ", filters={}", self.filters.len())?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", fetch={fetch}")?;
        }
        if self.reverse {
            write!(f, ", newest first")?;
        }
        Ok(())
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
        let pieces = self.properties.partitioning.partition_count();
        let memory = MemoryConsumer::new("scan").register(context.memory_pool());
        let mut walk = Walk::new(self, snapshot, partition, pieces, memory);
        // Batches are made when they are asked for: by then a join above knows what it looks for.
        let batches = futures::stream::poll_fn(move |context| match walk.next() {
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
            Some(_) => self.properties.partitioning.partition_count(),
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
        if self.raw == Raw::Tag || self.fetch.is_some() {
            return unsupported;
        }
        let mut reverse = None;
        for sort in order {
            let lane = sort.expr.downcast_ref::<Column>();
            let lane = lane.and_then(|column| self.lane(column.index()));
            // Requests of timers rise with the timers, and timestamps with the requests; but rows of one request, or of
            // one second, are told apart only by what comes next in the order.
            if !matches!(lane, Some(Lane::Id | Lane::Owner | Lane::Timestamp))
                || *reverse.get_or_insert(sort.options.descending) != sort.options.descending
            {
                return unsupported;
            }
            if lane == Some(Lane::Id) && !matches!(self.raw, Raw::TimerTag | Raw::RequestTag) {
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
