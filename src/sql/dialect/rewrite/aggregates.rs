//! Aggregates: which functions are, where they stand, and what MySQL's are called and give here.
//!
//! `select` and `fold` ask whether a SELECT has any; `calls` hands over each call of one. Sums of whole numbers get the type
//! that MySQL gives them (`__sum_type`), AVG is a sum divided as MySQL divides, GROUP_CONCAT is `string_agg` of texts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, ObjectName, ObjectNamePart, OrderByExpr, Query,
    Select, Visit, Visitor,
};

use super::calls::unnamed;
use super::copies::Copies;
use super::ident;
use super::pieces::{call, name_of, text};
use super::select::item_expr;
use crate::sql::error::SqlError;

/// What makes one row of many, if it has no OVER.
const AGGREGATES: [&str; 28] = [
    "any_value",
    "approx_distinct",
    "approx_median",
    "approx_percentile_cont",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "first_value",
    "group_concat",
    "max",
    "last_value",
    "median",
    "min",
    "nth_value",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Whether a function is an aggregate, by its name.
pub(super) fn is_aggregate_name(name: &str) -> bool {
    AGGREGATES.contains(&name)
}

/// Whether an expression is an aggregate itself.
pub(super) fn is_aggregate_call(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            function.over.is_none()
                && name_of(function).is_some_and(|name| is_aggregate_name(&name))
        }
        _ => false,
    }
}

/// Looks for aggregates outside of sub-queries.
struct FindAggregate {
    inside: usize,
}

impl Visitor for FindAggregate {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match self.inside == 0 && is_aggregate_call(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether there is an aggregate in an expression.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    Visit::visit(expr, &mut FindAggregate { inside: 0 }).is_break()
}

/// Whether a SELECT makes one row of many without saying GROUP BY.
pub(super) fn is_aggregate(select: &Select, orders: &[OrderByExpr]) -> bool {
    let in_items = select.projection.iter().filter_map(item_expr);
    let in_orders = orders.iter().map(|order| &order.expr);
    in_items
        .chain(in_orders)
        .chain(select.having.iter())
        .any(has_aggregate)
}

/// What an aggregate of MySQL's is called here.
fn standard_name(name: &str) -> &str {
    match name {
        "std" | "stddev" => "stddev_pop",
        "variance" => "var_pop",
        "any_value" => "first_value",
        "group_concat" => "string_agg",
        same => same,
    }
}

/// An aggregate, or any function with OVER, as the one that does the same here.
pub(super) fn rewrite(
    mut call_of: Function,
    name: &str,
    copies: &Copies,
) -> Result<Expr, SqlError> {
    let meant = standard_name(name);
    call_of.name = ObjectName(vec![ObjectNamePart::Identifier(ident(meant))]);
    let FunctionArguments::List(list) = &mut call_of.args else {
        return Err(SqlError::parse(format!("{name}(SELECT ...) is no call")));
    };
    let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    list.duplicate_treatment = distinct.then_some(DuplicateTreatment::Distinct);
    match meant {
        "count" if list.args.len() > 1 => {
            let all = unnamed(list)?;
            list.args = vec![argument(call("__tuple", all))];
        }
        // Texts are added up as the numbers they begin with.
        "sum" => {
            wrap(list, "__number")?;
            return Ok(call("__sum_type", vec![Expr::Function(call_of)]));
        }
        "avg" => {
            wrap(list, "__number")?;
            let mut counted = copies.of(&call_of)?;
            let mut summed = call_of;
            summed.name = ObjectName(vec![ObjectNamePart::Identifier(ident("sum"))]);
            counted.name = ObjectName(vec![ObjectNamePart::Identifier(ident("count"))]);
            let sum = call("__sum_type", vec![Expr::Function(summed)]);
            return Ok(call("__div", vec![sum, Expr::Function(counted)]));
        }
        "stddev_pop" | "stddev_samp" | "var_pop" | "var_samp" => wrap(list, "__real")?,
        "bit_and" | "bit_or" | "bit_xor" => wrap(list, "__unsigned")?,
        "string_agg" => {
            let mut separator = ",".to_owned();
            let mut kept = Vec::new();
            for clause in list.clauses.drain(..) {
                match clause {
                    FunctionArgumentClause::Separator(said) => {
                        separator = said.into_string().unwrap_or_default();
                    }
                    FunctionArgumentClause::OrderBy(orders) => {
                        kept.push(FunctionArgumentClause::OrderBy(orders));
                    }
                    other => {
                        return Err(SqlError::not_supported(format!("GROUP_CONCAT({other})")));
                    }
                }
            }
            list.clauses = kept;
            let mut all = unnamed(list)?;
            let joined = match all.len() {
                0 => return Err(SqlError::parse("GROUP_CONCAT() of nothing")),
                1 => call("__text", vec![all.remove(0)]),
                _ => call("concat", all),
            };
            if distinct {
                // What is told apart is what is put in order.
                for clause in &mut list.clauses {
                    if let FunctionArgumentClause::OrderBy(orders) = clause {
                        orders.truncate(1);
                        for order in orders {
                            order.expr = copies.of(&joined)?;
                        }
                    }
                }
            }
            list.args = vec![argument(joined), argument(text(separator))];
        }
        _ => {}
    }
    Ok(Expr::Function(call_of))
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

/// Each argument as an argument of another function.
fn wrap(list: &mut FunctionArgumentList, name: &str) -> Result<(), SqlError> {
    let all = unnamed(list)?;
    list.args = all
        .into_iter()
        .map(|expr| argument(call(name, vec![expr])))
        .collect();
    Ok(())
}
