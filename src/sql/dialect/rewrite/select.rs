//! The shape of a SELECT: names of its columns, HAVING without groups, columns beside groups.
//!
//! MySQL names a column by the text of its expression, lets HAVING refer to aliases, and lets a
//! SELECT with groups show columns that are not grouped (with the value of some row of the group;
//! here, the first one). [`super::aliases`] finds out what an alias stands for.

use std::collections::HashMap;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, GroupByWithModifier, Ident, OrderBy, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, UnaryOperator,
    Value, ValueWithSpan,
};

use super::aggregates::{
    check_concatenations, has_aggregate, is_aggregate, is_aggregate_call, misplaced,
};
use super::aliases::{self, aliased, named, replace};
use super::build::{all, call, number, take};
use super::conditions::as_condition;
use super::expressions::is_number;
use super::{READ_ONLY, column_name, group_expressions, join_on, lower};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// Tables in one FROM: MySQL's own limit.
const TABLES_MAX: usize = 61;

/// Columns of one SELECT, or of one GROUP BY: MySQL's own limit of a table.
pub(super) const COLUMNS_MAX: usize = 4_096;

/// Columns of a GROUP BY ... WITH ROLLUP, which groups the rows once per column.
const ROLLUP_MAX: usize = 64;

/// Adapts the SELECTs of a query; their expressions are done already.
pub(super) fn shape(query: &mut Query, context: &Context<'_>) -> Result<(), SqlError> {
    let mut own = Vec::new();
    let orders = match &mut query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => orders,
        Some(_) => return Err(SqlError::parse("ORDER BY ALL is not MySQL's")),
        None => &mut own,
    };
    // Of literals only the positions of columns stay.
    read_orders(orders, |at| Ok(Some(number(at))))?;
    selects(&mut query.body, orders, context)?;
    if !own.is_empty() {
        let kind = OrderByKind::Expressions(own);
        query.order_by = Some(OrderBy { kind, interpolate: None });
    }
    Ok(())
}

/// The SELECT of a query, or those of its UNION.
fn selects(
    body: &mut SetExpr,
    orders: &mut Vec<OrderByExpr>,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    match body {
        SetExpr::Select(select) => one(select, orders, context),
        SetExpr::SetOperation {
            op: SetOperator::Except | SetOperator::Intersect,
            set_quantifier: SetQuantifier::All,
            ..
        } => {
            Err(SqlError::not_supported("EXCEPT ALL and INTERSECT ALL; without ALL they are done"))
        }
        SetExpr::SetOperation { left, right, .. } => {
            selects(left, &mut Vec::new(), context)?;
            selects(right, &mut Vec::new(), context)
        }
        SetExpr::Query(_) | SetExpr::Values(_) => Ok(()),
        _ => Err(SqlError::read_only(READ_ONLY)),
    }
}

fn one(
    select: &mut Select,
    orders: &mut Vec<OrderByExpr>,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    if select.into.is_some() {
        return Err(SqlError::not_supported("SELECT ... INTO"));
    }
    if select.top.is_some() || !select.lateral_views.is_empty() {
        return Err(SqlError::parse("that is not MySQL's SELECT"));
    }
    let columns = select.projection.len().max(group_expressions(&select.group_by).len());
    if columns > COLUMNS_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {columns} columns in one SELECT, at most {COLUMNS_MAX} are accepted"
        )));
    }
    if select.from.len() > TABLES_MAX {
        return Err(SqlError::parse(format!(
            "the statement joins {} tables, at most {TABLES_MAX} are accepted",
            select.from.len()
        )));
    }
    for from in &mut select.from {
        for join in &mut from.joins {
            join_on(&mut join.join_operator);
        }
    }
    for window in &mut select.named_window {
        lower(&mut window.0);
    }
    let groups = group_expressions(&select.group_by).iter();
    if groups.chain(select.selection.iter()).any(has_aggregate) {
        return Err(misplaced());
    }
    by_name(orders, &select.projection);
    let grouped = !group_expressions(&select.group_by).is_empty();
    if grouped {
        hide_numbers(&mut select.projection);
    }
    let totals = roll_up(&mut select.group_by, &select.projection)?;
    if orders.is_empty() && select.distinct.is_none() {
        orders.extend(totals);
    }
    check_concatenations(select)?;
    select.selection = select.selection.take().map(as_condition);
    if grouped || is_aggregate(select, orders) {
        loosen(select, orders, context)?;
        select.having = select.having.take().map(as_condition);
    } else if let Some(mut condition) = select.having.take() {
        // HAVING without groups is a WHERE that may use aliases.
        named(&mut condition, &aliases::aliases(select), context)?;
        select.selection =
            all(select.selection.take().into_iter().chain([as_condition(condition)]));
    }
    Ok(())
}

/// Replaces positions, counted from 1, by what `position` has there, and takes out what is no
/// order: NULL, a fraction, or a position that has nothing to order by.
///
/// # Errors
/// Fails for a number that is no position.
pub(super) fn read_orders(
    orders: &mut Vec<OrderByExpr>,
    position: impl Fn(usize) -> Result<Option<Expr>, SqlError>,
) -> Result<(), SqlError> {
    for mut order in std::mem::take(orders) {
        if let Some(written) = constant_order(&order.expr) {
            let meant = match written.parse::<i64>().map(usize::try_from) {
                Ok(Ok(at @ 1..)) => position(at)?,
                Ok(_) => return Err(SqlError::no_such_position(&written, "ORDER BY")),
                Err(_) => None,
            };
            let Some(meant) = meant else { continue };
            order.expr = meant;
        }
        orders.push(order);
    }
    Ok(())
}

/// NULL or a number, as written. DataFusion takes a number in parentheses for a constant.
fn constant_order(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => constant_order(inner),
        Expr::Value(ValueWithSpan { value: Value::Null | Value::Number(..), .. })
        | Expr::UnaryOp { op: UnaryOperator::Minus, .. } => Some(expr.to_string()),
        _ => None,
    }
}

/// Orders by the name of a column what is ordered by the expression that the column shows.
fn by_name(orders: &mut [OrderByExpr], columns: &[SelectItem]) {
    let is_alias = |expr: &Expr| {
        let Expr::Identifier(name) = expr else { return false };
        columns.iter().filter_map(aliased).any(|(alias, _)| alias.value == name.value)
    };
    // A number is a position, even if a column shows that number.
    let stays = |expr: &Expr| position(expr).is_some() || is_alias(expr);
    for order in orders.iter_mut().filter(|it| !stays(&it.expr)) {
        let mut shown = columns.iter().filter_map(aliased);
        if let Some((alias, _)) = shown.find(|(_, expr)| **expr == order.expr) {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// Wraps the numbers that a SELECT shows: in GROUP BY, the alias of one would be a position.
fn hide_numbers(columns: &mut [SelectItem]) {
    for item in columns {
        if let SelectItem::ExprWithAlias { expr, .. } = item
            && is_number(expr)
        {
            *expr = call("__number", vec![take(expr)]);
        }
    }
}

/// The position of a column, counted from 1, that a number in GROUP BY or ORDER BY is.
fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) => place.parse().ok(),
        Expr::Nested(inner) => position(inner),
        _ => None,
    }
}

/// Returns the column of a SELECT that a number in GROUP BY stands for.
fn numbered<'s>(expr: &Expr, columns: &'s [SelectItem]) -> Option<&'s Expr> {
    let at = position(expr)?.checked_sub(1)?;
    aliased(columns.get(at)?).map(|(_, expr)| expr)
}

/// `GROUP BY a, b WITH ROLLUP` as the standard writes it. Returns MySQL's order of the rows: each
/// total comes after its group.
fn roll_up(
    group_by: &mut GroupByExpr,
    columns: &[SelectItem],
) -> Result<Vec<OrderByExpr>, SqlError> {
    let GroupByExpr::Expressions(expressions, modifiers) = group_by else {
        return Err(SqlError::parse("GROUP BY ALL is not MySQL's"));
    };
    match modifiers.as_slice() {
        [] => Ok(Vec::new()),
        [GroupByWithModifier::Rollup] if expressions.len() > ROLLUP_MAX => {
            Err(SqlError::not_supported(format!("WITH ROLLUP of more than {ROLLUP_MAX} columns")))
        }
        [GroupByWithModifier::Rollup] => {
            modifiers.clear();
            let keys = expressions.drain(..);
            let keys = keys.map(|expr| numbered(&expr, columns).cloned().unwrap_or(expr));
            let keys: Vec<Expr> = keys.collect();
            let orders = keys.iter().flat_map(|key| {
                let items = || columns.iter().filter_map(aliased);
                let is_named = |name: &Ident| items().find(|(alias, _)| alias.value == name.value);
                let named = column_name(key).and_then(is_named);
                let meant = named.filter(|_| matches!(key, Expr::Identifier(_)));
                let is_total = call("grouping", vec![meant.map_or(key, |it| it.1).clone()]);
                // Ordered by what is shown of it.
                let shown = items().find(|(_, expr)| *expr == key).or(named);
                let shown = shown.map(|(alias, _)| Expr::Identifier(alias.clone()));
                let orders = [is_total, shown.unwrap_or_else(|| key.clone())];
                orders.map(|expr| OrderByExpr {
                    expr,
                    options: OrderByOptions::default(),
                    with_fill: None,
                })
            });
            let orders = orders.collect();
            expressions.push(Expr::Rollup(keys.into_iter().map(|key| vec![key]).collect()));
            Ok(orders)
        }
        _ => Err(SqlError::not_supported("GROUP BY ... WITH anything but ROLLUP")),
    }
}

/// Takes columns that are neither grouped nor in an aggregate from the first row of the group.
fn loosen(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    context: &Context<'_>,
) -> Result<(), SqlError> {
    let aliases = aliases::aliases(select);
    let mut grouped = Vec::new();
    // ROLLUP (a, b)
    let each = group_expressions(&select.group_by).iter().flat_map(|expr| match expr {
        Expr::Rollup(sets) => sets.iter().flatten().collect(),
        one => vec![one],
    });
    for expr in each {
        match expr {
            it if matches!(it, Expr::Value(_)) || position(it).is_some() => {
                grouped.extend(numbered(it, &select.projection).cloned());
            }
            Expr::Identifier(name) => {
                grouped.push(expr.clone());
                grouped.extend(aliases.get(&name.value).cloned());
            }
            Expr::Nested(inner) => grouped.push((**inner).clone()),
            other => grouped.push(other.clone()),
        }
    }
    let is_star = |item| aliased(item).is_none();
    if select.projection.iter().any(is_star) && !grouped.is_empty() {
        return Err(SqlError::not_supported(
            "SELECT * with GROUP BY; name the columns that are wanted",
        ));
    }
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            from_first_row(expr, &grouped, &HashMap::new())?;
        }
    }
    for order in orders {
        from_first_row(&mut order.expr, &grouped, &aliases)?;
    }
    if let Some(mut condition) = select.having.take() {
        from_first_row(&mut condition, &grouped, &aliases)?;
        named(&mut condition, &aliases::aliases(select), context)?;
        select.having = Some(condition);
    }
    Ok(())
}

/// Takes the columns of an expression that are neither grouped nor in an aggregate from the first
/// row.
fn from_first_row(
    within: &mut Expr,
    grouped: &[Expr],
    aliases: &HashMap<String, Expr>,
) -> Result<(), SqlError> {
    let is_kept = |expr: &Expr| is_aggregate_call(expr) || is_grouped(expr, grouped);
    replace(within, is_kept, |expr| {
        let is_free = match expr {
            Expr::Identifier(name) => !aliases.contains_key(&name.value),
            Expr::CompoundIdentifier(_) => true,
            _ => false,
        };
        if is_free {
            *expr = call("first_value", vec![take(expr)]);
        }
        Ok(())
    })
}

/// Whether it is one of the expressions that are grouped by.
fn is_grouped(expr: &Expr, grouped: &[Expr]) -> bool {
    let parts = |expr: &Expr| match expr {
        Expr::Identifier(name) => vec![name.value.clone()],
        Expr::CompoundIdentifier(parts) => {
            parts.iter().rev().map(|part| part.value.clone()).collect()
        }
        _ => Vec::new(),
    };
    let own = parts(expr);
    grouped.iter().any(|grouped| match own.is_empty() {
        true => grouped == expr,
        // `hostname` matches `request.hostname`.
        false => {
            let grouped = parts(grouped);
            !grouped.is_empty() && own.iter().zip(&grouped).all(|(left, right)| left == right)
        }
    })
}
