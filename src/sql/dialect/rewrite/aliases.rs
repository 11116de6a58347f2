//! What a name in a SELECT stands for: a column, or an alias of what is shown.
//!
//! A name in GROUP BY, and then in HAVING, is a column if there is one, or else an alias. Which
//! columns there are is not known yet: a name is taken for a column where the statement shows that
//! there is one, or where it fails otherwise.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value, VisitMut, VisitorMut,
};

use super::aggregates::{has, has_aggregate, is_aggregate_call};
use super::build::null;
use super::{column_name, group_expressions, ident, to_flow};
use crate::sql::dialect::context::Context;
use crate::sql::error::SqlError;

/// Whether the alias of an expression that is grouped by is the name of a column, too: the
/// expression has the column, or is an aggregate.
pub(super) fn shadows_column(expr: &Expr, name: &str) -> bool {
    has_aggregate(expr) || uses_column(expr, name)
}

/// Whether an expression more than a column has a column of this name.
pub(super) fn uses_column(expr: &Expr, name: &str) -> bool {
    find_column(expr, name).is_some_and(|column| column != *expr)
}

/// The first column of this name in an expression.
pub(super) fn find_column(expr: &Expr, name: &str) -> Option<Expr> {
    let mut found = None;
    has(expr, |part| {
        let is_own = column_name(part).is_some_and(|it| it.value.eq_ignore_ascii_case(name));
        if is_own {
            found = Some(part.clone());
        }
        is_own
    });
    found
}

/// The column of the tables whose name is an alias, too; `None` if it may be of several tables.
pub(super) fn column_behind(name: &str, meant: &Expr, from: &[TableWithJoins]) -> Option<Expr> {
    if let Some(column @ Expr::CompoundIdentifier(_)) = find_column(meant, name) {
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
        let mut items = select.projection.iter().filter_map(aliased);
        items.any(|(alias, _)| alias.value.eq_ignore_ascii_case(&name.value))
    };
    group_expressions(&select.group_by).iter().any(is_alias)
}

/// Whether a statement failed because what it shows is not grouped.
pub(crate) fn is_not_grouped(error: &SqlError) -> bool {
    error.message.contains("must be in GROUP BY")
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

/// Replaces names in a condition by what they stand for. Outside of aggregates, an alias goes before
/// a column of its name.
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
