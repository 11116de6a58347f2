//! Names and values: MySQL's names for the columns of a SELECT, the values of `?` and variables,
//! and names in lower case, because MySQL ignores their case.

use std::collections::{HashMap, HashSet};

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LimitClause, OrderBy,
    OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, WindowType,
};

use super::aggregates::has;
use super::build::{call, number, take, text};
use super::{column_name, ident, lower};
use crate::sql::dialect::context::Context;
use crate::sql::dialect::tokens::Items;
use crate::sql::error::SqlError;
use crate::sql::session::Literal;

/// Functions that may be called without parentheses.
const BARE: [&str; 4] = ["utc_date", "utc_time", "utc_timestamp", "current_user"];

/// Separates a name from a suffix that makes it unique in the plan.
pub(super) const MARK: char = '\u{1}';

/// MySQL's names of columns, by their names in the plan.
pub(crate) type ColumnNames = HashMap<String, String>;

fn is_bare_call(name: &Ident) -> bool {
    let mut bare = BARE.iter();
    name.quote_style.is_none() && bare.any(|bare| bare.eq_ignore_ascii_case(&name.value))
}

/// Removes `FROM DUAL`.
pub(super) fn without_dual(select: &mut Select) {
    if let [from] = select.from.as_slice()
        && from.joins.is_empty()
        && let TableFactor::Table { name, .. } = &from.relation
        && name.to_string().eq_ignore_ascii_case("dual")
    {
        select.from.clear();
    }
}

pub(super) fn is_star(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Gives each item MySQL's name, and makes names unique where necessary.
pub(super) fn name_items(select: &mut Select, items: &Items, names: &mut ColumnNames) {
    let written = items
        .get(&select.select_token.0.span.start.column)
        .filter(|written| written.len() == select.projection.len());
    let all = select.projection.iter().any(is_star);
    let mut taken = HashSet::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, name, is_column) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let column = column_name(expr).filter(|name| !is_bare_call(name));
                let name = match (column, written.map(|written| &written[at])) {
                    (Some(column), _) => column.value.clone(),
                    (None, Some(written)) if !written.is_empty() => written.clone(),
                    _ => expr.to_string(),
                };
                let is_column = column.is_some();
                (expr, name, is_column)
            }
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias.value.clone(), false),
            _ => continue,
        };
        let mut internal = name.to_lowercase();
        if !taken.insert(internal.clone()) || (is_column && all) {
            internal = format!("{internal}{MARK}{at}");
        }
        *item = SelectItem::ExprWithAlias { expr: take(expr), alias: ident(internal.as_str()) };
        let name = name.split(MARK).next().unwrap_or_default().to_owned();
        names.entry(internal).or_insert(name);
    }
}

/// Renames what hides a column that is ordered by inside an expression: there, a name is that of
/// the column, and that of an alias only if it stands alone.
pub(super) fn reveal_ordered_columns(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &mut query.order_by else {
        return;
    };
    // DISTINCT and HAVING can be ordered by selected columns only.
    if select.distinct.is_some() || select.having.is_some() {
        return;
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { alias, expr } = item else { continue };
        let uses_it = |expr: &Expr| {
            let is_it = |name: &Ident| name.value.eq_ignore_ascii_case(&alias.value);
            has(expr, |part| column_name(part).is_some_and(is_it))
        };
        let mut ordered = orders.iter().map(|order| &order.expr);
        let hides = column_name(expr).is_none() && uses_it(expr);
        if !hides || !ordered.any(|it| !matches!(it, Expr::Identifier(_)) && uses_it(it)) {
            continue;
        }
        let unique = format!("{}{MARK}{at}", alias.value);
        for order in &mut *orders {
            if let Expr::Identifier(name) = &mut order.expr
                && name.value.eq_ignore_ascii_case(&alias.value)
            {
                name.value.clone_from(&unique);
            }
        }
        alias.value = unique;
    }
}

/// Converts the names in an expression to lower case.
pub(super) fn lower_names(expr: &mut Expr) {
    match expr {
        Expr::Identifier(name) if is_bare_call(name) => {
            *expr = call(&name.value.to_lowercase(), Vec::new());
        }
        Expr::Identifier(name) => lower(name),
        Expr::CompoundIdentifier(parts) => {
            // `pinba.request.id`: tables have plain names in the plan.
            if parts.len() == 3 {
                parts.remove(0);
            }
            parts.iter_mut().for_each(lower);
        }
        Expr::Function(function) => {
            match &mut function.over {
                Some(WindowType::NamedWindow(name)) => lower(name),
                Some(WindowType::WindowSpec(window)) => {
                    window.window_name.iter_mut().for_each(lower);
                }
                None => {}
            }
            // TIMESTAMPDIFF(MINUTE, a, b): the unit is not a column.
            let name = function.name.to_string().to_ascii_lowercase();
            if matches!(name.as_str(), "timestampdiff" | "timestampadd")
                && let FunctionArguments::List(list) = &mut function.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(unit))) =
                    list.args.first_mut()
                && let Expr::Identifier(name) = unit
            {
                *unit = text(name.value.clone());
            }
        }
        _ => {}
    }
}

/// A value as a literal.
pub(super) fn literal(value: Literal) -> Value {
    match value {
        Literal::Float(value) if value.is_finite() => Value::Number(format!("{value:e}"), false),
        Literal::Null | Literal::Float(_) => Value::Null,
        Literal::Text(value) => Value::SingleQuotedString(value),
        exact => Value::Number(exact.to_string(), false),
    }
}

/// Evaluates LIMIT and OFFSET.
pub(super) fn limits(clause: &mut LimitClause, context: &Context<'_>) -> Result<(), SqlError> {
    let rows = match clause {
        LimitClause::LimitOffset { limit, offset, .. } => {
            let offset = offset.as_mut().map(|offset| &mut offset.value);
            [limit.as_mut(), offset]
        }
        LimitClause::OffsetCommaLimit { offset, limit } => [Some(limit), Some(offset)],
    };
    for expr in rows.into_iter().flatten() {
        let Expr::Value(value) = expr else { continue };
        let rows = match &value.value {
            Value::Placeholder(_) if context.is_preparing() => Literal::Int(1),
            Value::Placeholder(name) => context.value(name)?,
            Value::Number(written, _) => Literal::Text(written.clone()),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                return Err(SqlError::parse(format!(
                    "LIMIT takes a number, not the text '{text}'"
                )));
            }
            _ => continue,
        };
        // Clients send a number, a fraction or a text for `?`, and 18446744073709551615 for no
        // limit.
        let whole = rows.to_string().trim().parse().ok();
        let whole = whole.filter(|rows: &f64| *rows >= 0.0 && rows.fract() == 0.0);
        let whole = whole.ok_or_else(|| {
            SqlError::wrong_arguments(format!("LIMIT takes a whole number from 0 on, not {rows}"))
        })?;
        *expr = number((whole as u64).min(i64::MAX as u64));
    }
    Ok(())
}
