//! Corrections of DataFusion's optimizer of physical plans, where joins would lose rows or their
//! order.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{
    Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion,
};
use datafusion::common::{JoinType, Result, Statistics};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, SendableRecordBatchStream,
};

/// One of DataFusion's two rules that push filters down to the scans. They look up the columns of a
/// filter by name in the node below, and find the first of two that have one name, as joined tables
/// do (`request.id`, `timer.id`): a plan in which a filter could meet such a pair keeps its filters
/// where they are.
#[derive(Debug)]
pub(super) struct PushDown(pub(super) FilterPushdown);

/// DataFusion's rules, in their order.
pub(super) fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    let sorts = EnsureRequirements::new();
    let at = rules.iter().position(|it| it.name() == sorts.name()).unwrap_or(rules.len());
    rules.insert(at, Arc::new(OuterJoins));
    for rule in &mut rules {
        for known in [FilterPushdown::new(), FilterPushdown::new_post_optimization()] {
            if rule.name() == known.name() {
                *rule = Arc::new(PushDown(known));
            }
        }
    }
    rules
}

impl PhysicalOptimizerRule for PushDown {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match is_ambiguous(&*plan, &BTreeSet::new()) {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Lets sorts by a column stay that is a constant on the side of an outer join that may be missing:
/// DataFusion takes it for a constant above the join too, where it may be NULL. Likewise sorts by
/// what is one constant in each part of a UNION, which a join above it needs.
#[derive(Debug)]
struct OuterJoins;

impl PhysicalOptimizerRule for OuterJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let has_constants = |node: &Arc<dyn ExecutionPlan>| {
            !node.properties().equivalence_properties().constants().is_empty()
        };
        let hidden = |node| Arc::new(HideConstants::new(node)) as Arc<dyn ExecutionPlan>;
        let corrected = plan.transform_up(|node| {
            if node.is::<UnionExec>() && has_constants(&node) {
                return Ok(Transformed::yes(hidden(node)));
            }
            let kind = match node.downcast_ref::<HashJoinExec>() {
                Some(join) => Some(*join.join_type()),
                None => node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
            };
            let may_be_missing = match kind {
                Some(JoinType::Left) => [false, true],
                Some(JoinType::Right) => [true, false],
                Some(JoinType::Full) => [true, true],
                _ => return Ok(Transformed::no(node)),
            };
            let sides = node.children().into_iter().zip(may_be_missing);
            let sides =
                sides.map(|(side, may_be_missing)| match may_be_missing && has_constants(side) {
                    true => hidden(Arc::clone(side)),
                    false => Arc::clone(side),
                });
            let sides = sides.collect();
            replace_children_if_necessary(Arc::clone(&node), sides).map(Transformed::yes)
        });
        corrected.data()
    }

    fn name(&self) -> &str {
        "outer_joins"
    }

    fn schema_check(&self) -> bool {
        false
    }
}

/// Passes rows on, and hides what is known of their columns: above an outer join it is not true of
/// rows that are missing, above a UNION not of all rows.
#[derive(Debug)]
struct HideConstants {
    rows: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl HideConstants {
    fn new(rows: Arc<dyn ExecutionPlan>) -> Self {
        let nothing = EquivalenceProperties::new(rows.schema());
        let properties = PlanProperties::clone(rows.properties()).with_eq_properties(nothing);
        Self { rows, properties: Arc::new(properties) }
    }
}

impl DisplayAs for HideConstants {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HideConstants")
    }
}

impl ExecutionPlan for HideConstants {
    fn name(&self) -> &'static str {
        "HideConstants"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.rows]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.rows.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }
}

/// Whether a filter on columns of these names that came to a node, or one made there or below, is
/// passed on to a node with two columns of one of its names.
fn is_ambiguous(plan: &dyn ExecutionPlan, filtered: &BTreeSet<String>) -> bool {
    let columns = |expr: &Arc<dyn PhysicalExpr>| {
        let columns = collect_columns(expr).into_iter();
        columns.map(|it| it.name().to_owned()).collect::<BTreeSet<_>>()
    };
    // What a filter becomes below the node.
    let renamed = |shown: &mut dyn Iterator<Item = (&Arc<dyn PhysicalExpr>, &String)>| {
        shown.filter(|it| filtered.contains(it.1)).flat_map(|it| columns(it.0)).collect()
    };
    let (passed, own): (BTreeSet<_>, Vec<_>) =
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            (filtered.clone(), join.on().iter().map(|(_, right)| Arc::clone(right)).collect())
        } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
            let limited = sort.expr().iter().filter(|_| sort.fetch().is_some());
            (filtered.clone(), limited.map(|it| Arc::clone(&it.expr)).collect())
        } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            (filtered.clone(), vec![Arc::clone(filter.predicate())])
        } else if let Some(shown) = plan.downcast_ref::<ProjectionExec>() {
            (renamed(&mut shown.expr().iter().map(|it| (&it.expr, &it.alias))), vec![])
        } else if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
            let by = groups.group_expr().expr();
            let all = groups.aggr_expr().iter().filter(|_| by.is_empty());
            let own = all.flat_map(|it| it.expressions()).collect();
            (renamed(&mut by.iter().map(|it| (&it.0, &it.1))), own)
        } else {
            (filtered.clone(), vec![])
        };
    let children = plan.children();
    // A join tells its right side what the left one has.
    let own_child = children.len().saturating_sub(1);
    children.into_iter().enumerate().any(|(at, child)| {
        let schema = child.schema();
        let count = |name: &String| schema.fields().iter().filter(|it| it.name() == name).count();
        let mut filtered = passed.clone();
        if at == own_child {
            filtered.extend(own.iter().flat_map(columns));
        }
        passed.iter().any(|name| count(name) > 1) || is_ambiguous(&**child, &filtered)
    })
}
