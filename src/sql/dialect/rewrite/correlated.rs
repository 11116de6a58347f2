//! Correlated sub-queries for one row of an order: percentiles, as Pinboard writes them.
//!
//! `(SELECT r.x FROM request r WHERE r.host = q.host ORDER BY r.x DESC LIMIT n, 1)` for each row of `q` stands for a function that
//! MySQL lacks. DataFusion joins correlated sub-queries only when they are aggregates, so it becomes
//! `nth_value(r.x, n + 1 ORDER BY r.x DESC)`. If the outer query is an aggregate itself, it becomes a table of its own first.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, LimitClause,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
    visit_expressions, visit_expressions_mut,
};

use super::aggregates::is_aggregate_call;
use super::build::{call, number};
use super::{group_expressions, ident, to_flow};
use crate::sql::error::SqlError;

/// Rows that such a sub-query may skip: they are kept in memory for each row around it.
const SKIP_MAX: u64 = 1_000_000;

/// Rewrites the sub-queries of a SELECT.
pub(super) fn rewrite(select: &mut Select, orders: &mut [OrderByExpr]) -> Result<(), SqlError> {
    let mut rewrite = |expr: &mut Expr| match expr {
        Expr::Subquery(query) => to_flow(as_aggregate(query)),
        _ => ControlFlow::Continue(()),
    };
    let items = visit_expressions_mut(&mut select.projection, &mut rewrite);
    let conditions = [&mut select.selection, &mut select.having];
    let conditions = conditions
        .into_iter()
        .try_for_each(|condition| visit_expressions_mut(condition, &mut rewrite));
    let orders = orders
        .iter_mut()
        .try_for_each(|order| visit_expressions_mut(&mut order.expr, &mut rewrite));
    [items, conditions, orders]
        .into_iter()
        .find_map(ControlFlow::break_value)
        .map_or(Ok(()), Err)
}

/// Makes an aggregate of a query that wants one row of an order, if it looks at the row around it.
fn as_aggregate(query: &mut Query) -> Result<(), SqlError> {
    if query.limit_clause.is_none() || !is_correlated(query) {
        return Ok(());
    }
    let refuse = |what: &str| {
        SqlError::not_supported(format!(
            "a sub-query with LIMIT that looks at the row around it and {what}; accepted: one column, ORDER BY, LIMIT n, 1"
        ))
    };
    let (skip, take) = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            let offset = offset.as_ref().map(|offset| whole(&offset.value));
            (offset.unwrap_or(Some(0)), limit.as_ref().and_then(whole))
        }
        _ => (None, None),
    };
    let (Some(skip), Some(1)) = (skip, take) else {
        return Err(refuse("does not want exactly one row"));
    };
    if skip > SKIP_MAX {
        return Err(refuse("skips more than 1,000,000 rows"));
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(refuse("is no plain SELECT"));
    };
    let plain = group_expressions(&select.group_by).is_empty()
        && select.having.is_none()
        && select.distinct.is_none();
    let [SelectItem::UnnamedExpr(wanted) | SelectItem::ExprWithAlias { expr: wanted, .. }] =
        select.projection.as_mut_slice()
    else {
        return Err(refuse("does not want exactly one column"));
    };
    if !plain {
        return Err(refuse("has groups"));
    }
    let orders = match query.order_by.take() {
        Some(OrderBy {
            kind: OrderByKind::Expressions(orders),
            ..
        }) => orders,
        _ => Vec::new(),
    };
    let orders: Vec<OrderByExpr> = orders
        .into_iter()
        .map(|order| OrderByExpr {
            // As in MySQL: NULL is less than everything.
            options: OrderByOptions {
                nulls_first: Some(order.options.asc != Some(false)),
                ..order.options
            },
            ..order
        })
        .collect();
    let mut made = match skip {
        0 => call("first_value", vec![wanted.clone()]),
        _ => call("nth_value", vec![wanted.clone(), number(skip + 1)]),
    };
    if let Expr::Function(Function {
        args: FunctionArguments::List(list),
        ..
    }) = &mut made
        && !orders.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(orders));
    }
    *wanted = made;
    query.limit_clause = None;
    Ok(())
}

fn whole(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(written, _) => written.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The names by which a query knows its own tables, and those that it uses.
#[derive(Default)]
struct Names {
    own: HashSet<String>,
    used: HashSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        self.own.extend(name_of_table(table));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, _] = parts.as_slice()
        {
            self.used.insert(table.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}

/// The name by which columns call a table.
fn name_of_table(table: &TableFactor) -> Option<String> {
    match table {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        } => Some(alias.name.value.to_lowercase()),
        TableFactor::Table { name, .. } => match name.0.last() {
            Some(ObjectNamePart::Identifier(name)) => Some(name.value.to_lowercase()),
            _ => None,
        },
        _ => None,
    }
}

fn is_correlated(query: &Query) -> bool {
    let mut names = Names::default();
    let _ = Visit::visit(query, &mut names);
    !names.used.is_subset(&names.own)
}

/// Puts an aggregate whose sub-queries look at its rows into a table of its own. Whether it had to.
///
/// # Errors
/// When it is more than this can do.
pub(super) fn split(select: &mut Select, orders: &[OrderByExpr]) -> Result<bool, SqlError> {
    let [from] = select.from.as_slice() else {
        return Ok(false);
    };
    let Some(table) = name_of_table(&from.relation) else {
        return Ok(false);
    };
    if !select.projection.iter().any(|item| looks_at(item, &table)) {
        return Ok(false);
    }
    let grouped_by_columns = group_expressions(&select.group_by)
        .iter()
        .all(|expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
    if !from.joins.is_empty()
        || select.having.is_some()
        || !orders.is_empty()
        || !grouped_by_columns
    {
        return Err(SqlError::not_supported(
            "sub-queries that look at the rows of an aggregate with joins, HAVING or ORDER BY",
        ));
    }
    let mut inner = select.clone();
    let mut moved = Move {
        table: &table,
        depth: 0,
        items: BTreeMap::new(),
        way: 0,
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item
            && let Some(last) = parts.last().cloned()
        {
            let expr = Expr::CompoundIdentifier(parts.clone());
            *item = SelectItem::ExprWithAlias { expr, alias: last };
        }
        let _ = VisitMut::visit(item, &mut moved);
    }
    inner.distinct = None;
    inner.projection = moved
        .items
        .into_iter()
        .map(|(name, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: ident(name),
        })
        .collect();
    let query = Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(inner))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    };
    select.from = vec![TableWithJoins {
        relation: TableFactor::Derived {
            lateral: false,
            subquery: Box::new(query),
            alias: Some(TableAlias {
                explicit: true,
                name: ident(table),
                columns: Vec::new(),
                at: None,
            }),
            sample: None,
        },
        joins: Vec::new(),
    }];
    select.selection = None;
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    Ok(true)
}

/// Whether a sub-query in an item looks at a table outside of it.
fn looks_at(item: &SelectItem, table: &str) -> bool {
    let is_of_table = |expr: &Expr| match expr {
        Expr::CompoundIdentifier(parts) if parts.len() == 2 && parts[0].value == table => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    let looks = visit_expressions(item, |expr| match expr {
        Expr::Subquery(query)
        | Expr::InSubquery {
            subquery: query, ..
        }
        | Expr::Exists {
            subquery: query, ..
        } => visit_expressions(&**query, is_of_table),
        _ => ControlFlow::Continue(()),
    });
    looks.is_break()
}

/// Moves aggregates and columns into the inner query; what is left of them are its columns.
struct Move<'a> {
    table: &'a str,
    depth: usize,
    items: BTreeMap<String, Expr>,
    /// How many aggregates are around.
    way: usize,
}

impl VisitorMut for Move<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && is_aggregate_call(expr) {
            self.way += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && is_aggregate_call(expr) {
            self.way -= 1;
            if self.way == 0 {
                let name = format!("{}aggregate{}", super::MARK, self.items.len());
                let column =
                    Expr::CompoundIdentifier(vec![ident(self.table), ident(name.as_str())]);
                let aggregate = std::mem::replace(expr, column);
                self.items.insert(name, aggregate);
            }
            return ControlFlow::Continue(());
        }
        if self.way > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Identifier(name) if self.depth == 0 => {
                self.items.insert(name.value.clone(), expr.clone());
            }
            Expr::CompoundIdentifier(parts) => {
                if let [table, column] = parts.as_slice()
                    && table.value == self.table
                {
                    self.items.insert(column.value.clone(), expr.clone());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
