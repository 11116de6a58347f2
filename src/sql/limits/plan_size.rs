//! Refuses statements that would explode in the optimizer.
//!
//! DataFusion expands some forms (COALESCE, CASE of booleans) and pushes conditions into
//! derived tables, replacing each column by its expression: thirty nested `SELECT x + x AS x FROM
//! (...)` below a WHERE are 2^30 nodes. So each expression is weighed as if fully expanded. Runs
//! once per statement, on the engine's threads, in time linear in the plan.

use std::collections::HashMap;

use datafusion::common::Column;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::sql::error::SqlError;

/// Most nodes that expansion may add.
const GROWN_MAX: u64 = 250_000;

/// Bytes of a literal that weigh as much as a node.
const LITERAL: usize = 64;

/// Weight of a constant that is not calculated yet, in nodes: longer constants are not copied
/// (`cancellation`).
const CONSTANT: u64 = 64;

/// Weights of columns that are expressions, in nodes.
type Weights = HashMap<Column, u64>;

/// Refuses a plan that would grow too much.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(plan: &LogicalPlan) -> Result<(), SqlError> {
    let mut grown = 0;
    weigh(plan, &mut grown);
    match grown <= GROWN_MAX {
        true => Ok(()),
        false => Err(SqlError::parse(format!(
            "the statement grows to more than {GROWN_MAX} parts when its columns and functions are written out; nest sub-queries, CASE, IF and IFNULL less"
        ))),
    }
}

/// Weighs the columns of a plan; adds the growth of its expressions to `grown`.
fn weigh(plan: &LogicalPlan, grown: &mut u64) -> Weights {
    let mut known = Weights::new();
    // The heaviest expression for each column of a UNION and of other nodes without expressions of
    // their own.
    let mut by_place: Vec<u64> = Vec::new();
    let inputs = plan.inputs();
    for input in &inputs {
        let weights = weigh(input, grown);
        if weights.is_empty() {
            continue;
        }
        let columns = input.schema().columns().into_iter().enumerate();
        for (at, column) in columns {
            let weight = weights.get(&column).copied().unwrap_or(1);
            match by_place.get_mut(at) {
                Some(most) => *most = weight.max(*most),
                None => by_place.push(weight),
            }
            if weight > 1 {
                known.insert(column, weight);
            }
        }
    }
    let mut made = Vec::new();
    let _ = plan.apply_expressions(|expr| {
        let (full, added) = weight(expr, &known);
        *grown = grown.saturating_add(added);
        made.push(full);
        Ok(TreeNodeRecursion::Continue)
    });
    let _ = plan.apply_subqueries(|within| {
        weigh(within, grown);
        Ok(TreeNodeRecursion::Jump)
    });
    let weights: Vec<u64> = match plan {
        LogicalPlan::Projection(_) => made,
        // Groups come first, and aggregates are not moved.
        LogicalPlan::Aggregate(aggregate) => {
            made.truncate(aggregate.group_expr.len());
            made
        }
        _ if known.is_empty() => return known,
        LogicalPlan::Join(_) => plan
            .schema()
            .columns()
            .iter()
            .map(|column| known.get(column).copied().unwrap_or(1))
            .collect(),
        _ => by_place,
    };
    plan.schema().columns().into_iter().zip(weights).filter(|(_, weight)| *weight > 1).collect()
}

/// The nodes of one expression when fully expanded, and those that expansion adds.
fn weight(expr: &Expr, known: &Weights) -> (u64, u64) {
    let (mut full, mut written) = (0_u64, 0_u64);
    let (mut has_columns, mut has_calls) = (false, false);
    let mut left = vec![(expr, 1_u64)];
    while let Some((expr, times)) = left.pop() {
        let own = match expr {
            Expr::Column(column) => {
                has_columns = true;
                known.get(column).copied().unwrap_or(1)
            }
            Expr::Literal(value, _) => {
                let text = value.try_as_str().flatten().map_or(0, str::len);
                1 + (text / LITERAL) as u64
            }
            _ => 1,
        };
        full = full.saturating_add(own.saturating_mul(times));
        written = written.saturating_add(match expr {
            Expr::Literal(..) => own,
            _ => 1,
        });
        match expr {
            Expr::Case(case) => {
                // CASE of one or two booleans: each condition is repeated in those that follow.
                let often = match case.when_then_expr.len() {
                    1 | 2 => times.saturating_mul(3),
                    _ => times,
                };
                for (when, then) in &case.when_then_expr {
                    left.extend([(&**when, often), (&**then, times)]);
                }
                left.extend(case.else_expr.iter().map(|other| (&**other, times)));
            }
            Expr::ScalarFunction(call) => {
                has_calls = true;
                let often = match call.name() {
                    "coalesce" => times.saturating_mul(2),
                    _ => times,
                };
                left.extend(call.args.iter().map(|argument| (argument, often)));
            }
            other => {
                let _ = other.apply_children(|child| {
                    left.push((child, times));
                    Ok(TreeNodeRecursion::Continue)
                });
            }
        }
    }
    if has_calls && !has_columns {
        full = full.saturating_add(CONSTANT);
        written = written.saturating_add(CONSTANT);
    }
    (full, full.saturating_sub(written))
}
