//! From a logical plan to one that runs: wide, in pieces for all threads, or narrow, in one.
//!
//! A query that begins at a few rows is over before other threads have woken up, and planning is what it costs; so it is
//! planned for one thread, without the rules of DataFusion that are about dividing work, grouping or windows. Which it is,
//! the tables say of the conditions they were given.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;

use super::engine::Engine;
use super::error::SqlError;
use super::tables::{Extent, extent};

/// Rules that do nothing for a plan in one piece, or only make large ones faster.
const FOR_WIDE: [&str; 7] = [
    "aggregate_statistics",
    "LimitedDistinctAggregation",
    "WindowTopN",
    "CombinePartialFinalAggregate",
    "LimitPushPastWindows",
    "HashJoinBuffering",
    "TopKRepartition",
];

/// The state in which narrow plans are made.
pub(super) fn narrow(wide: &SessionState) -> SessionState {
    let rules = wide.physical_optimizers().iter();
    let rules = rules.filter(|rule| !FOR_WIDE.contains(&rule.name()));
    SessionStateBuilder::new_from_existing(wide.clone())
        .with_config(wide.config().clone().with_target_partitions(1))
        .with_physical_optimizer_rules(rules.cloned().collect())
        .build()
}

/// Whether a plan begins at a few rows, or has only small tables.
fn is_narrow(plan: &LogicalPlan) -> bool {
    let (mut few, mut large) = (false, false);
    let looked = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(table) = source_as_provider(&scan.source)
        {
            match extent(&*table, &scan.filters) {
                Extent::Few => few = true,
                Extent::Small => {}
                Extent::Large => large = true,
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_ok() && (few || !large)
}

impl Engine {
    /// The plan that runs.
    ///
    /// # Errors
    /// What DataFusion cannot do.
    pub(super) async fn physical(
        &self,
        plan: &LogicalPlan,
    ) -> Result<Arc<dyn ExecutionPlan>, SqlError> {
        let plan = self.state().optimize(plan)?;
        let state = match is_narrow(&plan) {
            true => self.narrow(),
            false => self.state(),
        };
        let planner = state.query_planner();
        Ok(planner.create_physical_plan(&plan, state).await?)
    }
}
