//! Sub-queries that look at the row around them and want one row of many: percentiles, as Pinboard asks for them.
//!
//! `(SELECT r.x FROM request r WHERE r.host = q.host ORDER BY r.x DESC LIMIT n, 1)` for each row of `q` is what MySQL's users write
//! for want of a function. DataFusion joins such sub-queries only when they are aggregates, and this one is:
//! `nth_value(r.x, n + 1 ORDER BY r.x DESC)`. If the query around it is an aggregate itself, that one is made first, as a table
//! of its own, and the sub-queries look at its rows.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, LimitClause,
    ObjectNamePart, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, TableWithJoins, Value, Visit, VisitMut, Visitor, VisitorMut,
};

use super::aggregates::is_aggregate_call;
use super::pieces::call;
use super::{group_expressions, ident};
use crate::sql::error::SqlError;

/// Rows that such a sub-query may skip: they are kept in memory for each row around it.
const SKIP_MAX: u64 = 1_000_000;

/// Rewrites the sub-queries of a SELECT, and the SELECT itself if it must be.
pub(super) fn rewrite(select: &mut Select, orders: &mut [OrderByExpr]) -> Result<(), SqlError> {
    let mut found = Find(None);
    for item in &mut select.projection {
        let _ = VisitMut::visit(item, &mut found);
    }
    for expr in select.selection.iter_mut().chain(select.having.iter_mut()) {
        let _ = VisitMut::visit(expr, &mut found);
    }
    for order in orders.iter_mut() {
        let _ = VisitMut::visit(&mut order.expr, &mut found);
    }
    match found.0 {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Rewrites what it finds.
struct Find(Option<SqlError>);

impl VisitorMut for Find {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && let Err(error) = as_aggregate(query)
        {
            self.0 = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
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
        Some(LimitClause::LimitOffset { limit, offset, .. }) => (
            offset
                .as_ref()
                .map_or(Some(0), |offset| whole(&offset.value)),
            limit.as_ref().and_then(whole),
        ),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => (whole(offset), whole(limit)),
        None => (None, None),
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
    let number = Expr::Value(Value::Number((skip + 1).to_string(), false).into());
    let mut made = match skip {
        0 => call("first_value", vec![wanted.clone()]),
        _ => call("nth_value", vec![wanted.clone(), number]),
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
    let mut looks = Looks {
        table: &table,
        depth: 0,
        found: false,
    };
    for item in &select.projection {
        let _ = Visit::visit(item, &mut looks);
    }
    if !looks.found {
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

/// Whether a sub-query looks at a table outside of it.
struct Looks<'a> {
    table: &'a str,
    depth: usize,
    found: bool,
}

impl Visitor for Looks<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && self.depth > 0
            && let [table, _] = parts.as_slice()
        {
            self.found |= table.value == self.table;
        }
        ControlFlow::Continue(())
    }
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
