//! Tables `request`, `timer` and `request_tag` of database `history`: raw requests of the past.
//!
//! Their columns are those of the live tables, then `run`, `weight`, `time` and what else files have. All conditions on rows
//! are tested in the scan, and so is what a sort with a limit comes to know while it runs: what is said in files of the
//! columns decides what is read at all. A table is what there was when the statement was planned: on disk, on its way there, and
//! in memory.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};
use futures::StreamExt as _;

use super::declared;
use super::filter::{is_testable, physical};
use super::scan::properties;
use crate::history::History;
use crate::history::requests::TABLES;
use crate::history::requests::read::{READER_BYTES, Reader, RequestsAt, Wanted};
use crate::history::requests::view::View;
use crate::query::catalog::Catalog;
use crate::report::comment::FixedTable;

/// The columns of a table; `None` when it is none of these.
pub(super) fn view(catalog: &Catalog, name: &str) -> Option<View> {
    let mut tables = TABLES.into_iter();
    let table = tables.find(|table| table.eq_ignore_ascii_case(name))?;
    catalog.history()?;
    let columns = FixedTable::raw(table)?.columns(catalog.defaults());
    Some(View::live(
        table,
        &declared::schema(table, &columns, |_| true),
    ))
}

/// A table.
#[derive(Debug)]
pub(super) struct PastTable {
    view: Arc<View>,
    history: History,
}

impl PastTable {
    /// The one of this name, if there is one.
    pub(super) fn named(catalog: &Catalog, name: &str) -> Option<Self> {
        let view = Arc::new(view(catalog, name)?);
        let history = catalog.history()?.clone();
        Some(Self { view, history })
    }
}

#[async_trait]
impl TableProvider for PastTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.view.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let supports = |filter: &&Expr| match is_testable(filter) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(supports).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = &self.view.schema;
        let shown: Vec<usize> = match projection {
            Some(wanted) => wanted.clone(),
            None => (0..all.fields().len()).collect(),
        };
        let schema: SchemaRef = Arc::new(Schema::project(all, &shown)?);
        let conditions = filters.iter().map(|filter| physical(filter, all));
        let at = self.history.requests();
        let threads = state.config().target_partitions();
        let shares = threads.clamp(1, at.parts.len().max(1));
        let of = EquivalenceProperties::new(Arc::clone(&schema));
        Ok(Arc::new(PastScan {
            at: Arc::new(at),
            wanted: Wanted {
                view: Arc::clone(&self.view),
                shown,
                schema,
                conditions: conditions.collect::<Result<_>>()?,
            },
            conditions: filters.len(),
            properties: properties(of, shares),
        }))
    }
}

/// A scan.
#[derive(Debug, Clone)]
struct PastScan {
    at: Arc<RequestsAt>,
    wanted: Wanted,
    /// How many of the conditions are those of the statement: the others, which come behind them, are of nodes above.
    conditions: usize,
    properties: Arc<PlanProperties>,
}

impl PastScan {
    fn shares(&self) -> usize {
        self.properties.partitioning.partition_count()
    }
}

impl DisplayAs for PastScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (conditions, all) = (self.conditions, self.wanted.conditions.len());
        let filters = all - conditions;
        write!(f, "PastScan: conditions={conditions}, filters={filters}")
    }
}

impl ExecutionPlan for PastScan {
    fn name(&self) -> &'static str {
        "PastScan"
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
        let mut filters = self.wanted.conditions.iter().skip(self.conditions);
        filters.try_fold(TreeNodeRecursion::Continue, |so_far, filter| {
            so_far.visit_sibling(|| f(filter))
        })
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    /// Without the filters of an earlier run.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut scan = Self::clone(&self);
        scan.wanted.conditions.truncate(self.conditions);
        Ok(Arc::new(scan))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("history").register(context.memory_pool());
        memory.try_grow(READER_BYTES)?;
        let wanted = self.wanted.clone();
        let mut reader = Reader::new(&self.at, wanted, partition, self.shares());
        // Batches are made when they are asked for: by then a node above may know what it looks for.
        let next = move |context: &mut Context<'_>| {
            let _until_read = &memory;
            match reader.next() {
                Ok(Some(batch)) if batch.num_rows() == 0 => {
                    // Nothing found in a while: others may want the thread.
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                other => Poll::Ready(other.map_err(Into::into).transpose()),
            }
        };
        let batches = futures::stream::poll_fn(next).boxed();
        let schema = Arc::clone(&self.wanted.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let shares = args.partition().map_or(1, |_| self.shares());
        let rows = self.at.rows(self.wanted.view.table) as usize;
        let rows = rows >> self.conditions.min(8);
        let mut statistics = Statistics::new_unknown(&self.wanted.schema);
        statistics.num_rows = Precision::Inexact(rows.div_ceil(shares));
        Ok(Arc::new(statistics))
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
        let dynamic = filters.into_iter().map(|result| result.filter);
        let dynamic = dynamic.filter(|filter| filter.is::<DynamicFilterPhysicalExpr>());
        let all = &self.wanted.view.schema;
        let dynamic = dynamic.map(|filter| reassign_expr_columns(filter, all));
        let dynamic: Vec<_> = dynamic.collect::<Result<_>>()?;
        if phase == FilterPushdownPhase::Pre || dynamic.is_empty() {
            return Ok(answer);
        }
        let mut scan = self.clone();
        scan.wanted.conditions.extend(dynamic);
        Ok(answer.with_updated_node(Arc::new(scan)))
    }
}
