//! What an alias in a SELECT stands for. A name in GROUP BY or HAVING that is a column instead has
//! its table already (`columns`).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, Value, VisitMut, VisitorMut,
};

use super::aggregates::is_aggregate_call;
use super::build::null;
use super::to_flow;
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// The alias of an item of a SELECT, and the expression behind it; `None` for `*`.
pub(super) fn aliased(item: &SelectItem) -> Option<(&Ident, &Expr)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias, expr)),
        _ => None,
    }
}

/// The expression behind each alias of a SELECT.
pub(super) fn aliases(select: &Select) -> HashMap<String, Expr> {
    let items = select.projection.iter().filter_map(aliased);
    items.map(|(alias, expr)| (alias.value.clone(), expr.clone())).collect()
}

/// Replaces names in a condition by what they stand for. Outside of aggregates, an alias goes
/// before a column of its name.
pub(super) fn named(
    condition: &mut Expr,
    meant: &HashMap<String, Expr>,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    replace(condition, is_aggregate_call, |expr| {
        if let Expr::Identifier(name) = expr
            && let Some(meant) = meant.get(&name.value)
        {
            *expr = Expr::Nested(Box::new(context.copies.of(meant)?));
        }
        Ok(())
    })
}

/// Calls `with` on each expression outside of sub-queries, after those inside it; what `is_kept`
/// stays as it is, with all that is inside it.
pub(super) fn replace(
    within: &mut Expr,
    is_kept: impl Fn(&Expr) -> bool,
    with: impl FnMut(&mut Expr) -> Result<(), SqlError>,
) -> Result<(), SqlError> {
    let mut replacing = Replacing { is_kept, with, inside: 0, kept: Vec::new() };
    VisitMut::visit(within, &mut replacing).break_value().map_or(Ok(()), Err)
}

struct Replacing<K, W> {
    is_kept: K,
    with: W,
    /// Nesting depth of sub-queries.
    inside: usize,
    /// Expressions set aside on the way down; a placeholder stands for each, so that they are not
    /// visited.
    kept: Vec<Expr>,
}

/// Stands for an expression that was set aside.
const KEPT: Value = Value::Placeholder(String::new());

impl<K, W> VisitorMut for Replacing<K, W>
where
    K: Fn(&Expr) -> bool,
    W: FnMut(&mut Expr) -> Result<(), SqlError>,
{
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
        if self.inside == 0 && (self.is_kept)(expr) {
            self.kept.push(std::mem::replace(expr, Expr::Value(KEPT.into())));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        match expr {
            _ if self.inside > 0 => {}
            Expr::Value(value) if value.value == KEPT => {
                *expr = self.kept.pop().unwrap_or_else(null);
            }
            other => return to_flow((self.with)(other)),
        }
        ControlFlow::Continue(())
    }
}
