//! Aggregates: which functions are, where they occur, and MySQL's names and result types.
//!
//! `select` and `fold` ask whether a SELECT contains any; `calls` passes each call of one. Sums of
//! integers are decimals (`__summand`), AVG is a sum divided as in MySQL, GROUP_CONCAT is
//! `string_agg` of texts.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DuplicateTreatment, Expr, Function, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, ObjectName, OrderByExpr, Query, Select, Visit,
    Visitor,
};

use super::aliases::aliased;
use super::build::{argument, binary, call, name_of, number, text};
use super::calls::{not_a_call, unnamed};
use super::expressions::is_number;
use super::ident;
use super::select::read_orders;
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// Functions that aggregate rows, unless they have OVER.
pub(super) const AGGREGATES: &str = "any_value apdex approx_distinct approx_median approx_percentile_cont avg bit_and bit_or \
    bit_xor bool_and bool_or corr count first_value group_concat max last_value median min \
    nth_value percentile percentile_cont percentile_disc std stddev stddev_pop stddev_samp \
    string_agg sum var_pop var_samp variance";

/// Whether a function is an aggregate, by its name.
pub(super) fn is_aggregate_name(name: &str) -> bool {
    AGGREGATES.split(' ').any(|it| it == name)
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

/// Searches expressions outside of sub-queries.
struct Outside<F> {
    inside: usize,
    is_found: F,
}

impl<F: FnMut(&Expr) -> bool> Visitor for Outside<F> {
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
        match self.inside == 0 && (self.is_found)(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether there is such an expression, outside of sub-queries.
pub(super) fn has(within: &impl Visit, is_found: impl FnMut(&Expr) -> bool) -> bool {
    Visit::visit(within, &mut Outside { inside: 0, is_found }).is_break()
}

/// Whether there is an aggregate in an expression.
pub(super) fn has_aggregate(expr: &impl Visit) -> bool {
    has(expr, is_aggregate_call)
}

/// Refuses GROUP_CONCATs in different orders of which one is DISTINCT: DataFusion would take an
/// order for its reverse.
pub(super) fn check_concatenations(select: &Select) -> Result<(), SqlError> {
    let mut all: Vec<(bool, Vec<OrderByExpr>)> = Vec::new();
    let conflicts = |expr: &Expr| {
        let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = expr else {
            return false;
        };
        let distinct = list.duplicate_treatment.is_some();
        list.clauses.iter().any(|clause| {
            let FunctionArgumentClause::OrderBy(orders) = clause else { return false };
            all.push((distinct, orders.clone()));
            let one_is_distinct = all.iter().filter(|it| it.0 || distinct);
            let mut pairs = one_is_distinct.flat_map(|it| it.1.iter().zip(orders));
            pairs.any(|(a, b)| a != b)
        })
    };
    match has(&select.projection, conflicts) {
        true => Err(SqlError::not_supported("GROUP_CONCATs in different orders in one SELECT")),
        false => Ok(()),
    }
}

/// The error of an aggregate in WHERE, GROUP BY or another aggregate.
pub(super) fn misplaced() -> SqlError {
    SqlError::misplaced_aggregate("Invalid use of group function")
}

/// Whether a SELECT aggregates without GROUP BY.
pub(super) fn is_aggregate(select: &Select, orders: &[OrderByExpr]) -> bool {
    let in_items = select.projection.iter().filter_map(aliased).map(|(_, expr)| expr);
    let in_orders = orders.iter().map(|order| &order.expr);
    in_items.chain(in_orders).chain(select.having.iter()).any(has_aggregate)
}

/// The DataFusion name of one of MySQL's aggregates.
fn standard_name(name: &str) -> &str {
    match name {
        "std" | "stddev" => "stddev_pop",
        "variance" => "var_pop",
        "any_value" => "first_value",
        "group_concat" => "string_agg",
        "median" => "percentile_cont",
        same => same,
    }
}

/// Rewrites an aggregate, or any function with OVER, to its equivalent.
pub(super) fn rewrite(
    mut call_of: Function,
    name: &str,
    context: &Context<'_>,
) -> Result<Expr, SqlError> {
    let meant = standard_name(name);
    call_of.name = ObjectName::from(vec![ident(meant)]);
    let FunctionArguments::List(list) = &mut call_of.args else { return Err(not_a_call(name)) };
    if call_of.over.is_none() && list.args.iter().any(has_aggregate) {
        return Err(misplaced());
    }
    let mut within = std::mem::take(&mut call_of.within_group);
    if !within.is_empty() && !meant.contains("percentile") {
        return Err(SqlError::parse(format!("{name}() has no WITHIN GROUP")));
    }
    let distinct = matches!(list.duplicate_treatment, Some(DuplicateTreatment::Distinct));
    list.duplicate_treatment = distinct.then_some(DuplicateTreatment::Distinct);
    match meant {
        "count" if list.args.len() > 1 => {
            let all = unnamed(list)?;
            list.args = vec![argument(call("__tuple", all))];
        }
        // Texts are summed as the numbers they begin with.
        "sum" => wrap(list, "__summand")?,
        "avg" => {
            wrap(list, "__summand")?;
            let mut counted = context.copies.of(&call_of)?;
            let mut summed = call_of;
            summed.name = ObjectName::from(vec![ident("sum")]);
            counted.name = ObjectName::from(vec![ident("count")]);
            return Ok(call("__div", vec![Expr::Function(summed), Expr::Function(counted)]));
        }
        "percentile" | "percentile_cont" | "percentile_disc" | "approx_percentile_cont" => {
            let mut all = unnamed(list)?;
            let order = within.pop();
            let from_above = order.as_ref().is_some_and(|order| order.options.asc == Some(false));
            if name == "median" {
                all.push(number(0.5));
            }
            if let Some(order) = order {
                all.insert(0, order.expr);
            }
            let [values, part] = <[Expr; 2]>::try_from(all).map_err(|_| {
                SqlError::wrong_arguments(format!("{name}() takes numbers and a fraction"))
            })?;
            let values = call("__number", vec![values]);
            list.args = match (meant, from_above) {
                ("approx_percentile_cont", false) => vec![call("__real", vec![values]), part],
                ("approx_percentile_cont", true) => {
                    let part = binary(number(1), BinaryOperator::Minus, part);
                    vec![call("__real", vec![values]), part]
                }
                (_, false) => vec![values, part],
                (_, true) => vec![values, part, number(1)],
            }
            .into_iter()
            .map(argument)
            .collect();
        }
        "stddev_pop" | "stddev_samp" | "var_pop" | "var_samp" => wrap(list, "__real")?,
        "bit_and" | "bit_or" | "bit_xor" => {
            wrap(list, "__unsigned")?;
            let of_nothing = if meant == "bit_and" { u64::MAX } else { 0 };
            let of_nothing = call("__unsigned", vec![number(of_nothing)]);
            return Ok(call("coalesce", vec![Expr::Function(call_of), of_nothing]));
        }
        "string_agg" => {
            let mut all = unnamed(list)?;
            let (mut separator, mut orders) = (",".to_owned(), Vec::new());
            for clause in list.clauses.drain(..) {
                match clause {
                    FunctionArgumentClause::Separator(written) => {
                        separator = written.into_string().unwrap_or_default();
                    }
                    FunctionArgumentClause::OrderBy(by) => {
                        orders = by;
                        // Positions are those of arguments; DataFusion would take columns of the
                        // table.
                        read_orders(&mut orders, |at| {
                            let wrong = || SqlError::no_such_position(&at.to_string(), "ORDER BY");
                            let argument = all.get(at - 1).ok_or_else(wrong)?;
                            let is_order = !is_number(argument);
                            is_order.then(|| context.copies.of(argument)).transpose()
                        })?;
                    }
                    other => {
                        return Err(SqlError::not_supported(format!("GROUP_CONCAT({other})")));
                    }
                }
            }
            let joined = match all.len() {
                0 => return Err(SqlError::parse("GROUP_CONCAT() of nothing")),
                1 => call("__text", vec![all.remove(0)]),
                _ => call("concat", all),
            };
            if distinct {
                // DISTINCT values are also the values to order by.
                orders.truncate(1);
                for order in &mut orders {
                    order.expr = context.copies.of(&joined)?;
                }
            }
            if !orders.is_empty() {
                list.clauses.push(FunctionArgumentClause::OrderBy(orders));
            }
            list.args = vec![argument(joined), argument(text(separator))];
        }
        // Unsigned in DataFusion, where a difference below 0 would be out of range.
        "row_number" | "rank" | "dense_rank" | "ntile" => {
            return Ok(call("__signed", vec![Expr::Function(call_of)]));
        }
        _ => {}
    }
    Ok(Expr::Function(call_of))
}

/// Wraps each argument in a call of another function.
fn wrap(list: &mut FunctionArgumentList, name: &str) -> Result<(), SqlError> {
    let all = unnamed(list)?;
    list.args = all.into_iter().map(|expr| argument(call(name, vec![expr]))).collect();
    Ok(())
}
