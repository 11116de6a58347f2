//! The shape of a SELECT: names of its columns, HAVING without groups, columns beside groups.
//!
//! MySQL names a column by the text of its expression, lets HAVING refer to aliases, and lets a
//! SELECT with groups show columns that are not grouped (with the value of some row of the group;
//! here, the first one). A name in GROUP BY, and then in HAVING, is a column if there is one, or
//! else an alias. Which columns there are is not known yet: a name is taken for a column where the
//! statement shows that there is one, or where it fails otherwise.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::{iter, slice};

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, GroupByWithModifier, Ident, JoinConstraint, JoinOperator,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
    SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins, UnaryOperator, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};

use super::aggregates::{
    check_concatenations, has, has_aggregate, is_aggregate, is_aggregate_call, misplaced,
};
use super::build::{binary, call, null, number, take};
use super::conditions::as_condition;
use super::expressions::is_number;
use super::{READ_ONLY, group_expressions, ident, lower, lower_join};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// Tables in one FROM: MySQL's own limit.
const TABLES_MAX: usize = 61;

/// Columns of one SELECT, or of one GROUP BY: MySQL's own limit of a table.
const COLUMNS_MAX: usize = 4_096;

/// Columns of a GROUP BY ... WITH ROLLUP, which groups the rows once per column.
const ROLLUP_MAX: usize = 64;

/// Adapts the SELECTs of a query; their expressions are done already.
pub(super) fn shape(query: &mut Query, context: &Context<'_>) -> Result<(), SqlError> {
    let mut own = Vec::new();
    let orders = match &mut query.order_by {
        Some(order_by) => orders(order_by)?,
        None => &mut own,
    };
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
    let columns = select.projection.len();
    let columns = columns.max(group_expressions(&select.group_by).len());
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
            lower_join(&mut join.join_operator);
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
    let totals = roll_up(&mut select.group_by, &select.projection, &select.from)?;
    if orders.is_empty() && select.distinct.is_none() {
        orders.extend(totals);
    }
    check_concatenations(select)?;
    if let Some(condition) = &mut select.selection {
        named(condition, &using(&select.from), context)?;
        as_condition(condition);
    }
    if grouped || is_aggregate(select, orders) {
        loosen(select, orders, context)?;
        if let Some(condition) = &mut select.having {
            as_condition(condition);
        }
    } else if let Some(mut condition) = select.having.take() {
        // HAVING without groups is a WHERE that may use aliases.
        named(&mut condition, &aliases(select), context)?;
        as_condition(&mut condition);
        select.selection = Some(match select.selection.take() {
            Some(before) => binary(before, BinaryOperator::And, condition),
            None => condition,
        });
    }
    Ok(())
}

/// The ORDER BY of a query, without literals but the positions of columns.
fn orders(order_by: &mut OrderBy) -> Result<&mut Vec<OrderByExpr>, SqlError> {
    let OrderByKind::Expressions(orders) = &mut order_by.kind else {
        return Err(SqlError::parse("ORDER BY ALL is not MySQL's"));
    };
    for mut order in std::mem::take(orders) {
        match ordered_by(&order.expr)? {
            OrderedBy::Position(at) => order.expr = number(at),
            OrderedBy::Nothing => continue,
            OrderedBy::Expression => {}
        }
        orders.push(order);
    }
    Ok(orders)
}

/// What ORDER BY orders by.
pub(super) enum OrderedBy {
    /// A column or an argument, counted from 1.
    Position(usize),
    /// NULL or a fraction, which is no order.
    Nothing,
    Expression,
}

/// Tells positions from expressions. DataFusion takes a number in parentheses for a constant.
///
/// # Errors
/// Fails for a number that is no position.
pub(super) fn ordered_by(expr: &Expr) -> Result<OrderedBy, SqlError> {
    let written = match expr {
        Expr::Nested(inner) => return ordered_by(inner),
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => return Ok(OrderedBy::Nothing),
        Expr::Value(ValueWithSpan { value: Value::Number(..), .. })
        | Expr::UnaryOp { op: UnaryOperator::Minus, .. } => expr.to_string(),
        _ => return Ok(OrderedBy::Expression),
    };
    match written.parse::<i64>().map(usize::try_from) {
        Ok(Ok(at @ 1..)) => Ok(OrderedBy::Position(at)),
        Ok(_) => Err(SqlError::no_such_position(&written, "ORDER BY")),
        Err(_) => Ok(OrderedBy::Nothing),
    }
}

/// Orders by the name of a column what is ordered by the expression that the column shows.
fn by_name(orders: &mut [OrderByExpr], columns: &[SelectItem]) {
    let is_alias = |name: &Expr| {
        let Expr::Identifier(name) = name else { return false };
        let mut columns = columns.iter();
        columns.any(
            |it| matches!(it, SelectItem::ExprWithAlias { alias, .. } if alias.value == name.value),
        )
    };
    // A number is a position, even if a column shows that number.
    let stays = |expr: &Expr| position(expr).is_some() || is_alias(expr);
    for order in orders.iter_mut().filter(|it| !stays(&it.expr)) {
        let shown = columns.iter().find_map(|item| match item {
            SelectItem::ExprWithAlias { expr, alias } if *expr == order.expr => Some(alias),
            _ => None,
        });
        if let Some(alias) = shown {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// Whether the alias of an expression that is grouped by is the name of a column, too: the
/// expression has the column, or is an aggregate.
fn hides_column(expr: &Expr, name: &str) -> bool {
    has_aggregate(expr) || has_column(expr, name)
}

/// Whether an expression more than a column has a column of this name.
pub(super) fn has_column(expr: &Expr, name: &str) -> bool {
    own_column(expr, name).is_some_and(|column| column != *expr)
}

/// The first column of this name in an expression.
pub(super) fn own_column(expr: &Expr, name: &str) -> Option<Expr> {
    let mut found = None;
    has(expr, |part| {
        let own = match part {
            Expr::Identifier(own) => Some(own),
            Expr::CompoundIdentifier(parts) => parts.last(),
            _ => None,
        };
        let is_own = own.is_some_and(|own| own.value.eq_ignore_ascii_case(name));
        if is_own {
            found = Some(part.clone());
        }
        is_own
    });
    found
}

/// The column of the tables whose name is an alias, too; `None` if it may be of several tables.
fn column(name: &str, meant: &Expr, from: &[TableWithJoins]) -> Option<Expr> {
    if let Some(column @ Expr::CompoundIdentifier(_)) = own_column(meant, name) {
        return Some(column);
    }
    match from {
        [TableWithJoins { relation, joins }] if joins.is_empty() => {
            Some(Expr::CompoundIdentifier(vec![table_name(relation)?.clone(), ident(name)]))
        }
        _ => None,
    }
}

/// Whether GROUP BY names an alias of its SELECT, which may be the name of a column, too.
pub(crate) fn groups_by_alias(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let is_alias = |group: &Expr| {
        let Expr::Identifier(name) = group else { return false };
        select.projection.iter().any(|item| {
            let SelectItem::ExprWithAlias { alias, .. } = item else { return false };
            alias.value.eq_ignore_ascii_case(&name.value)
        })
    };
    group_expressions(&select.group_by).iter().any(is_alias)
}

/// Whether a statement failed because what it shows is not grouped.
pub(crate) fn is_not_grouped(error: &SqlError) -> bool {
    error.message.contains("must be in GROUP BY")
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
    item_expr(columns.get(at)?)
}

/// Where columns are that joins compare by USING: DataFusion does not find them in WHERE.
fn using(from: &[TableWithJoins]) -> HashMap<String, Expr> {
    let mut found = HashMap::new();
    for TableWithJoins { relation, joins } in from {
        for table in iter::once(relation).chain(joins.iter().map(|join| &join.relation)) {
            if let TableFactor::NestedJoin { table_with_joins, .. } = table {
                found.extend(using(slice::from_ref(&**table_with_joins)));
            }
        }
        for (at, join) in joins.iter().enumerate() {
            let (left, constraint) = match &join.join_operator {
                JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                    (&join.relation, constraint)
                }
                JoinOperator::Join(constraint)
                | JoinOperator::Inner(constraint)
                | JoinOperator::Left(constraint)
                | JoinOperator::LeftOuter(constraint) => (relation, constraint),
                _ => continue,
            };
            let (JoinConstraint::Using(columns), Some(table)) = (constraint, table_name(left))
            else {
                continue;
            };
            for column in columns {
                if let [ObjectNamePart::Identifier(name)] = &*column.0
                    // Of several tables any may have it.
                    && (at == 0 || found.contains_key(&name.value))
                {
                    let column = vec![table.clone(), name.clone()];
                    found.insert(name.value.clone(), Expr::CompoundIdentifier(column));
                }
            }
        }
    }
    found
}

/// The name by which columns refer to a table.
fn table_name(table: &TableFactor) -> Option<&Ident> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, .. } => name.0.last().and_then(ObjectNamePart::as_ident),
        _ => None,
    }
}

/// `GROUP BY a, b WITH ROLLUP` as the standard writes it. Returns MySQL's order of the rows: each
/// total comes after its group.
fn roll_up(
    group_by: &mut GroupByExpr,
    columns: &[SelectItem],
    from: &[TableWithJoins],
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
                let meant = columns.iter().find_map(|item| match (item, key) {
                    (SelectItem::ExprWithAlias { expr, alias }, Expr::Identifier(name))
                        if alias.value == name.value =>
                    {
                        match hides_column(expr, &name.value) {
                            true => column(&name.value, expr, from),
                            false => Some(expr.clone()),
                        }
                    }
                    _ => None,
                });
                let is_total = call("grouping", vec![meant.unwrap_or_else(|| key.clone())]);
                let orders = [is_total, key.clone()];
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

/// The expression behind each alias of a SELECT.
fn aliases(select: &Select) -> HashMap<String, Expr> {
    let aliased = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr.clone())),
        _ => None,
    });
    aliased.collect()
}

pub(super) fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Takes columns that are neither grouped nor in an aggregate from the first row of the group.
fn loosen(
    select: &mut Select,
    orders: &mut [OrderByExpr],
    context: &Context<'_>,
) -> Result<(), SqlError> {
    let aliases = aliases(select);
    let (mut grouped, mut columns) = (Vec::new(), HashMap::new());
    // ROLLUP (a, b)
    let each = group_expressions(&select.group_by).iter().flat_map(|expr| match expr {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().collect()
        }
        one => vec![one],
    });
    for expr in each {
        match expr {
            it if matches!(it, Expr::Value(_)) || position(it).is_some() => {
                grouped.extend(numbered(it, &select.projection).cloned());
            }
            Expr::Identifier(name) => {
                grouped.push(expr.clone());
                let name = &name.value;
                let Some(meant) = aliases.get(name) else { continue };
                // A column goes before an alias.
                let is_column = context.groups_are_columns.get() || hides_column(meant, name);
                match is_column {
                    true => {
                        columns.insert(name.clone(), column(name, meant, &select.from));
                    }
                    false => grouped.push(meant.clone()),
                }
            }
            Expr::Nested(inner) => grouped.push((**inner).clone()),
            other => grouped.push(other.clone()),
        }
    }
    let is_star = |item| item_expr(item).is_none();
    if select.projection.iter().any(is_star) && !grouped.is_empty() {
        return Err(SqlError::not_supported(
            "SELECT * with GROUP BY; name the columns that are wanted",
        ));
    }
    let none = HashMap::new();
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = VisitMut::visit(expr, &mut Loosen::new(&grouped, &none));
        }
    }
    for order in orders {
        let _ = VisitMut::visit(&mut order.expr, &mut Loosen::new(&grouped, &aliases));
    }
    if let Some(mut condition) = select.having.take() {
        let _ = VisitMut::visit(&mut condition, &mut Loosen::new(&grouped, &aliases));
        let mut meant = self::aliases(select);
        for (name, column) in columns {
            match column {
                Some(column) => meant.insert(name, column),
                None => meant.remove(&name),
            };
        }
        named(&mut condition, &meant, context)?;
        select.having = Some(condition);
    }
    Ok(())
}

/// Replaces names in a condition by what they stand for. Outside of aggregates, an alias goes before
/// a column of its name.
fn named(
    condition: &mut Expr,
    meant: &HashMap<String, Expr>,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    match VisitMut::visit(condition, &mut Named { meant, context, inside: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Named<'a, 'c> {
    meant: &'a HashMap<String, Expr>,
    context: &'a Context<'c>,
    /// Nesting depth of sub-queries and aggregates.
    inside: usize,
}

impl VisitorMut for Named<'_, '_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.inside += usize::from(is_aggregate_call(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        self.inside -= usize::from(is_aggregate_call(expr));
        if self.inside == 0
            && let Expr::Identifier(name) = expr
            && let Some(meant) = self.meant.get(&name.value)
        {
            match self.context.copies.of(meant) {
                Ok(meant) => *expr = Expr::Nested(Box::new(meant)),
                Err(error) => return ControlFlow::Break(error),
            }
        }
        ControlFlow::Continue(())
    }
}

struct Loosen<'a> {
    grouped: &'a [Expr],
    aliases: &'a HashMap<String, Expr>,
    /// Nesting depth of sub-queries.
    inside: usize,
    /// Aggregates and grouped expressions set aside on the way down; a placeholder stands for each,
    /// so that they are not visited.
    kept: Vec<Expr>,
}

/// Stands for an expression that was set aside.
const KEPT: Value = Value::Placeholder(String::new());

impl<'a> Loosen<'a> {
    fn new(grouped: &'a [Expr], aliases: &'a HashMap<String, Expr>) -> Self {
        Self { grouped, aliases, inside: 0, kept: Vec::new() }
    }

    fn is_grouped(&self, expr: &Expr) -> bool {
        let parts = |expr: &Expr| match expr {
            Expr::Identifier(name) => vec![name.value.clone()],
            Expr::CompoundIdentifier(parts) => {
                parts.iter().rev().map(|part| part.value.clone()).collect()
            }
            _ => Vec::new(),
        };
        let own = parts(expr);
        self.grouped.iter().any(|grouped| match own.is_empty() {
            true => grouped == expr,
            // `hostname` matches `request.hostname`.
            false => {
                let grouped = parts(grouped);
                !grouped.is_empty() && own.iter().zip(&grouped).all(|(left, right)| left == right)
            }
        })
    }
}

impl VisitorMut for Loosen<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.inside == 0 && (is_aggregate_call(expr) || self.is_grouped(expr)) {
            self.kept.push(std::mem::replace(expr, Expr::Value(KEPT.into())));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.inside > 0 {
            return ControlFlow::Continue(());
        }
        let free = match expr {
            Expr::Identifier(name) => !self.aliases.contains_key(&name.value),
            Expr::CompoundIdentifier(_) => true,
            Expr::Value(value) if value.value == KEPT => {
                *expr = self.kept.pop().unwrap_or_else(null);
                false
            }
            _ => false,
        };
        if free {
            *expr = call("first_value", vec![take(expr)]);
        }
        ControlFlow::Continue(())
    }
}
