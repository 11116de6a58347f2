//! From the logical to the physical plan: for all threads, or for one.
//!
//! A query that reads few rows spends its time in planning, so it is planned for one thread, without the optimizer rules
//! that only help parallel or large plans. The tables decide from their conditions which it is.

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
const PARALLEL_RULES: [&str; 7] = [
    "aggregate_statistics",
    "LimitedDistinctAggregation",
    "WindowTopN",
    "CombinePartialFinalAggregate",
    "LimitPushPastWindows",
    "HashJoinBuffering",
    "TopKRepartition",
];

/// The state in which single_threaded plans are made.
pub(super) fn single_threaded(wide: &SessionState) -> SessionState {
    let rules = wide.physical_optimizers().iter();
    let rules = rules.filter(|rule| !PARALLEL_RULES.contains(&rule.name()));
    SessionStateBuilder::new_from_existing(wide.clone())
        .with_config(wide.config().clone().with_target_partitions(1))
        .with_physical_optimizer_rules(rules.cloned().collect())
        .build()
}

/// Whether a plan begins at a few rows, or has only small tables.
fn is_small(plan: &LogicalPlan) -> bool {
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
        let state = match is_small(&plan) {
            true => self.single_threaded(),
            false => self.state(),
        };
        let planner = state.query_planner();
        Ok(planner.create_physical_plan(&plan, state).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_are_left_out_exist() {
        let wide = SessionStateBuilder::new().with_default_features().build();
        let known: Vec<&str> = wide
            .physical_optimizers()
            .iter()
            .map(|rule| rule.name())
            .collect();
        for name in PARALLEL_RULES {
            assert!(known.contains(&name), "{name} is none of {known:?}");
        }
        assert_eq!(
            single_threaded(&wide).physical_optimizers().len() + PARALLEL_RULES.len(),
            known.len()
        );
    }
}
