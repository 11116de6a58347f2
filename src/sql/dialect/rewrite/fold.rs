//! Texts without telling upper and lower case apart (`sql.case_insensitive`): what is grouped, ordered or DISTINCT.
//!
//! Called by `select` for each SELECT. Comparisons are folded where their types are known (`coercion`), LIKE and REGEXP where they
//! are rewritten (`patterns`); `__fold` leaves alone whatever is not a text.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, OrderByExpr, Select, SelectItem, Value, WindowType, visit_expressions,
    visit_expressions_mut,
};

use super::aggregates::{has_aggregate, is_aggregate};
use super::build::{call, take};
use super::group_expressions;
use super::select::{aliases, item_expr};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// Groups, orders, and what is DISTINCT, without telling cases apart.
pub(super) fn fold(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    context: &Context<'_>,
) -> Result<(), SqlError> {
    let aliases = aliases(select);
    if matches!(select.distinct, Some(Distinct::Distinct))
        && group_expressions(&select.group_by).is_empty()
        && !is_aggregate(select, &[])
    {
        let items: Option<Vec<&Expr>> = select.projection.iter().map(item_expr).collect();
        let items = items.ok_or_else(|| {
            SqlError::not_supported("SELECT DISTINCT * with sql.case_insensitive")
        })?;
        let items = items.into_iter().map(|item| context.copies.of(item));
        let items = items.collect::<Result<_, _>>()?;
        select.distinct = None;
        select.group_by = GroupByExpr::Expressions(items, Vec::new());
    }
    let meant = |expr: &Expr, items: &[SelectItem]| -> Result<Expr, SqlError> {
        let meant = match expr {
            Expr::Value(value) => match &value.value {
                Value::Number(place, _) => by_place(place, items),
                _ => None,
            },
            Expr::Identifier(name) => aliases.get(&name.value),
            _ => None,
        };
        match meant {
            Some(meant) => context.copies.of(meant),
            None => Ok(expr.clone()),
        }
    };
    for order in orders {
        let meant = meant(&order.expr, &select.projection)?;
        if is_plain(&meant) {
            order.expr = call("__fold", vec![meant]);
        }
    }
    if let GroupByExpr::Expressions(expressions, _) = &mut select.group_by {
        for expr in expressions {
            *expr = match &*expr {
                Expr::Rollup(sets) => {
                    let sets = sets.iter().map(|set| {
                        let set = set.iter().map(|expr| meant(expr, &select.projection));
                        set.map(|expr| Ok(call("__fold", vec![expr?]))).collect()
                    });
                    Expr::Rollup(sets.collect::<Result<_, SqlError>>()?)
                }
                expr => call("__fold", vec![meant(expr, &select.projection)?]),
            };
        }
    }
    let _ = visit_expressions_mut(&mut select.projection, fold_calls);
    let _ = visit_expressions_mut(&mut select.having, fold_calls);
    Ok(())
}

fn by_place<'a>(place: &str, items: &'a [SelectItem]) -> Option<&'a Expr> {
    let at: usize = place.parse().ok()?;
    item_expr(items.get(at.checked_sub(1)?)?)
}

/// Whether an expression is one of columns and functions of them, which can be written twice.
fn is_plain(expr: &Expr) -> bool {
    let others = visit_expressions(expr, |expr| match expr {
        Expr::Function(Function { over: Some(_), .. })
        | Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    !matches!(expr, Expr::Value(_)) && !has_aggregate(expr) && others.is_continue()
}

/// COUNT(DISTINCT x), and what windows are divided and ordered by.
fn fold_calls(expr: &mut Expr) -> ControlFlow<()> {
    let Expr::Function(function) = expr else {
        return ControlFlow::Continue(());
    };
    let counts = function.name.to_string().eq_ignore_ascii_case("count");
    if let FunctionArguments::List(list) = &mut function.args
        && list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
        && counts
    {
        fold_arguments(&mut list.args);
    }
    if let Some(WindowType::WindowSpec(spec)) = &mut function.over {
        let orders = spec.order_by.iter_mut().map(|order| &mut order.expr);
        for expr in spec.partition_by.iter_mut().chain(orders) {
            *expr = call("__fold", vec![take(expr)]);
        }
    }
    ControlFlow::Continue(())
}

fn fold_arguments(arguments: &mut [FunctionArg]) {
    for argument in arguments {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else {
            continue;
        };
        match expr {
            // Several values as one text: each of them.
            Expr::Function(Function {
                name,
                args: FunctionArguments::List(list),
                ..
            }) if name.to_string().contains("__tuple") => fold_arguments(&mut list.args),
            expr => *expr = call("__fold", vec![take(expr)]),
        }
    }
}
