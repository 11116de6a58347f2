//! Rewrites MySQL's forms to DataFusion's, on sqlparser's tree, in one pass.
//!
//! On the way down (`names`) values replace placeholders and columns get their names; on the way up
//! functions and operators become those of `functions`, and a SELECT is adapted where MySQL accepts
//! more than the standard (`select`). What needs the columns of tables is done before (`columns`).
//! Tables get their database. Types are not known here; see `coercion` for those.

/// A join that has a condition, in MySQL.
macro_rules! on {
    ($constraint:pat) => {
        JoinOperator::Join($constraint)
            | JoinOperator::Inner($constraint)
            | JoinOperator::Left($constraint)
            | JoinOperator::LeftOuter($constraint)
            | JoinOperator::Right($constraint)
            | JoinOperator::RightOuter($constraint)
            | JoinOperator::FullOuter($constraint)
            | JoinOperator::CrossJoin($constraint)
    };
}

mod aggregates;
mod aliases;
mod build;
mod calls;
mod columns;
mod conditions;
mod expressions;
mod names;
mod patterns;
mod select;
mod types;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query,
    Select, Statement, TableAlias, TableFactor, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use self::build::take;
pub(crate) use self::columns::write_out as write_out_columns;
use self::conditions::as_condition;
pub(crate) use self::names::ColumnNames;
pub(in crate::sql) use self::types::INTERVAL_UNITS;
use crate::sql::dialect::context::Context;
use crate::sql::dialect::tokens::Items;
use crate::sql::error::{NO_DATABASE, SqlError};
use crate::sql::invisible_columns;
use crate::sql::limits::tables;
use crate::sql::tables::CATALOG;

/// Rewrites a query, or another tree.
///
/// # Errors
/// Fails on unsupported parts, naming them.
pub(crate) fn rewrite(
    tree: &mut impl VisitMut,
    items: &Items,
    context: &Context<'_>,
) -> Result<ColumnNames, SqlError> {
    let (names, levels) = (ColumnNames::new(), vec![Level::default()]);
    let mut rewriter = Rewriter { items, context, names, levels };
    tree.visit(&mut rewriter).break_value().map_or(Ok(()), Err)?;
    tables::check(rewriter.levels.first().map_or(0, |whole| whole.tables))?;
    Ok(rewriter.names)
}

/// Rewrites a condition that belongs to no SELECT, as in SHOW ... WHERE.
///
/// # Errors
/// Fails on unsupported parts, naming them.
pub(crate) fn rewrite_condition(
    condition: &mut Expr,
    context: &Context<'_>,
) -> Result<(), SqlError> {
    rewrite(condition, &Items::new(), context)?;
    *condition = as_condition(take(condition));
    Ok(())
}

/// The error for anything but a SELECT.
const READ_ONLY: &str = "the tables of this server can only be read";

struct Rewriter<'a> {
    items: &'a Items,
    context: &'a Context<'a>,
    names: ColumnNames,
    /// The enclosing queries, the whole statement first.
    levels: Vec<Level>,
}

/// A query.
#[derive(Default)]
struct Level {
    /// The names that its WITH defines, in order, with the number of tables behind those that can
    /// be used: after their own query or, as one table, in a WITH RECURSIVE.
    names: Vec<(String, Option<u64>)>,
    /// How many of their queries are done.
    done: usize,
    /// Its tables, with each name of WITH expanded.
    tables: u64,
}

impl VisitorMut for Rewriter<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        // The names of what is inside are asked for outside.
        if self.levels.len() == 1 {
            names::reveal_ordered_columns(query);
        }
        to_flow(self.query(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let own = self.levels.pop().map_or(0, |level| level.tables);
        let own = own.saturating_add(tables::without_from(&query.body));
        if let Some(outer) = self.levels.last_mut() {
            // The queries of a WITH come first, in order.
            match outer.names.get_mut(outer.done) {
                Some((_, tables)) => *tables = Some(own),
                None => outer.tables = outer.tables.saturating_add(own),
            }
            outer.done += 1;
        }
        to_flow(select::shape(query, self.context))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        names::without_dual(select);
        names::name_items(select, self.items, &mut self.names);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        to_flow(self.table(table))
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        // Joins in parentheses; those of a SELECT are done with it.
        if let TableFactor::NestedJoin { table_with_joins, .. } = table {
            for join in &mut table_with_joins.joins {
                join_on(&mut join.join_operator);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        names::lower_names(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<SqlError> {
        let Value::Placeholder(name) = &value.value else { return ControlFlow::Continue(()) };
        to_flow(self.context.value(name).map(|known| value.value = names::literal(known)))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        to_flow(expressions::rewrite(expr, self.context))
    }

    fn pre_visit_statement(&mut self, _statement: &mut Statement) -> ControlFlow<SqlError> {
        ControlFlow::Break(SqlError::read_only(READ_ONLY))
    }
}

fn to_flow(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Converts a name to lower case in place.
fn lower(name: &mut Ident) {
    name.value = name.value.to_lowercase();
    name.quote_style = Some('`');
}

fn lower_alias(alias: &mut TableAlias) {
    lower(&mut alias.name);
    for column in &mut alias.columns {
        lower(&mut column.name);
    }
}

/// A name in backticks.
pub(in crate::sql) fn ident(name: impl Into<String>) -> Ident {
    Ident::with_quote('`', name)
}

/// The own name of what may be a column.
pub(in crate::sql) fn column_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

impl Rewriter<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        if query.for_clause.is_some() {
            return Err(SqlError::not_supported("FOR XML and FOR JSON"));
        }
        let mut level = Level::default();
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                lower_alias(&mut table.alias);
                let name = table.alias.name.value.clone();
                table.alias.name = ident(self.planned_name(self.levels.len(), &name));
                level.names.push((name, with.recursive.then_some(1)));
            }
        }
        self.levels.push(level);
        let limit = query.limit_clause.as_mut();
        limit.map_or(Ok(()), |limit| names::limits(limit, self.context))
    }

    /// If a WITH defines a name here, its name in the plan, and the number of tables behind it.
    fn of_with(&self, name: &str) -> Option<(String, u64)> {
        self.levels.iter().enumerate().rev().find_map(|(at, level)| {
            let mut names = level.names.iter();
            let tables = names.find_map(|(own, tables)| tables.filter(|_| own == name))?;
            Some((self.planned_name(at, name), tables))
        })
    }

    /// The name in the plan of one that the WITH of a level defines: DataFusion takes none that an
    /// outer WITH has, too.
    fn planned_name(&self, level: usize, name: &str) -> String {
        let mut outer = self.levels[..level].iter().flat_map(|outer| &outer.names);
        match outer.any(|(own, _)| own == name) {
            true => format!("{name}{}{level}", names::MARK),
            false => name.to_owned(),
        }
    }

    fn table(&mut self, table: &mut TableFactor) -> Result<(), SqlError> {
        match table {
            TableFactor::Table { name, alias, args, index_hints, .. } => {
                index_hints.clear();
                alias.iter_mut().for_each(lower_alias);
                if args.is_some() {
                    return Err(SqlError::not_supported("tables that are functions"));
                }
                let parts = name.0.iter().filter_map(ObjectNamePart::as_ident);
                let mut parts: Vec<&str> = parts.map(|part| part.value.as_str()).collect();
                let own = parts.pop().unwrap_or_default();
                let lower = own.to_lowercase();
                let database = parts.pop();
                let of_with = self.of_with(&lower).filter(|_| database.is_none());
                if let Some(level) = self.levels.last_mut() {
                    let tables = of_with.as_ref().map_or(1, |(_, tables)| *tables);
                    level.tables = level.tables.saturating_add(tables);
                }
                let alias_of = |name: String| TableAlias {
                    explicit: true,
                    name: ident(name),
                    columns: Vec::new(),
                    at: None,
                };
                if let Some((planned, _)) = of_with {
                    if planned != lower {
                        alias.get_or_insert_with(|| alias_of(lower));
                    }
                    *name = ObjectName::from(vec![ident(planned)]);
                    return Ok(());
                }
                let database = match (database, &self.context.session.database) {
                    (None, None) => return Err(SqlError::no_database(NO_DATABASE)),
                    (None, Some(database)) => database.clone(),
                    (Some(database), _) => database.to_lowercase(),
                };
                let own = match database == "pinba" {
                    true => invisible_columns::marked(own, &self.context.columns),
                    false => own.to_owned(),
                };
                *name = ObjectName::from(vec![ident(CATALOG), ident(database), ident(own)]);
                alias.get_or_insert_with(|| alias_of(lower));
                Ok(())
            }
            TableFactor::Derived { lateral: true, .. } => {
                Err(SqlError::not_supported("LATERAL; use a sub-query"))
            }
            TableFactor::Derived { alias, .. } => {
                alias.iter_mut().for_each(lower_alias);
                Ok(())
            }
            TableFactor::NestedJoin { alias: None, .. } => Ok(()),
            other => Err(SqlError::not_supported(format!("this in FROM: {other}"))),
        }
    }
}

/// Converts the condition of a join to a boolean; USING and NATURAL have become one (`columns`).
fn join_on(join: &mut JoinOperator) {
    if let on!(JoinConstraint::On(condition)) = join {
        *condition = as_condition(take(condition));
    }
    // In MySQL, JOIN and CROSS JOIN are the same.
    match join {
        JoinOperator::CrossJoin(constraint @ JoinConstraint::On(_)) => {
            let constraint = std::mem::replace(constraint, JoinConstraint::None);
            *join = JoinOperator::Inner(constraint);
        }
        JoinOperator::Join(JoinConstraint::None) | JoinOperator::Inner(JoinConstraint::None) => {
            *join = JoinOperator::CrossJoin(JoinConstraint::None);
        }
        _ => {}
    }
}

/// The expressions of GROUP BY.
fn group_expressions(group_by: &GroupByExpr) -> &[Expr] {
    match group_by {
        GroupByExpr::Expressions(expressions, _) => expressions,
        GroupByExpr::All(_) => &[],
    }
}

#[cfg(test)]
mod tests;
