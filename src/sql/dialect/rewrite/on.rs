//! Sub-queries in ON.
//!
//! DataFusion plans them without the row around them, so a column of the joined tables is unknown
//! there. What an inner join asks by a sub-query is asked by WHERE instead, where that row is
//! known. In an outer join and in parentheses it stays, and one that looks at the row is refused.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, JoinOperator, ObjectNamePart, Query, TableAlias,
    TableFactor, TableWithJoins, Visit, Visitor,
};

use super::build::{binary, take};
use crate::sql::error::SqlError;

/// Takes the sub-queries that WHERE can ask out of the joins.
///
/// # Errors
/// [`SqlError::not_supported`] if another one looks at the row around it.
pub(super) fn take_queries(from: &mut [TableWithJoins]) -> Result<Vec<Expr>, SqlError> {
    let asks = from.iter().flat_map(|it| &it.joins).any(|join| asks(&join.join_operator));
    if !asks {
        return Ok(Vec::new());
    }
    let mut taken = Vec::new();
    for TableWithJoins { joins, .. } in &mut *from {
        // Where the left side may be missing, a condition on it is none on the rows.
        let keeps = |join: &JoinOperator| inner(join) || left(join);
        let first = joins.iter().rposition(|join| !keeps(&join.join_operator));
        for join in &mut joins[first.map_or(0, |at| at + 1)..] {
            if inner(&join.join_operator) {
                taken.extend(take_from(&mut join.join_operator));
            }
        }
    }
    refuse_looking(from)?;
    Ok(taken)
}

/// Refuses sub-queries in the joins' conditions that look at the row around them.
///
/// # Errors
/// [`SqlError::not_supported`].
pub(super) fn refuse_looking(from: &[TableWithJoins]) -> Result<(), SqlError> {
    let mut tables = Names::default();
    let _ = from.iter().try_for_each(|it| it.visit(&mut tables));
    for join in from.iter().flat_map(|it| &it.joins) {
        let Some(condition) = condition(&join.join_operator) else { continue };
        let mut within = Names::default();
        let _ = condition.visit(&mut within);
        if within.used.difference(&within.queried).any(|name| tables.joined.contains(name)) {
            return Err(SqlError::not_supported(
                "a sub-query that looks at the row around it in ON of an outer join, before a RIGHT JOIN \
                 or in parentheses",
            ));
        }
    }
    Ok(())
}

const fn inner(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_))
}

const fn left(join: &JoinOperator) -> bool {
    matches!(join, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
}

/// The condition of a join.
fn condition(join: &JoinOperator) -> Option<&Expr> {
    match join {
        JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::CrossJoin(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) => Some(condition),
        _ => None,
    }
}

/// Whether the condition of a join has a sub-query.
fn asks(join: &JoinOperator) -> bool {
    condition(join).is_some_and(has_query)
}

fn has_query(expr: &Expr) -> bool {
    struct Finds;
    impl Visitor for Finds {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    expr.visit(&mut Finds).is_break()
}

/// The parts of an inner join's condition that have sub-queries; the join keeps the others.
fn take_from(join: &mut JoinOperator) -> Vec<Expr> {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::CrossJoin(constraint)) = join
    else {
        return Vec::new();
    };
    let JoinConstraint::On(condition) = constraint else { return Vec::new() };
    let mut rest = take(condition);
    let mut parts = Vec::new();
    while let Expr::BinaryOp { left, op: BinaryOperator::And, right } = rest {
        parts.push(*right);
        rest = *left;
    }
    parts.push(rest);
    let (taken, kept): (Vec<Expr>, Vec<Expr>) = parts.into_iter().rev().partition(has_query);
    let kept = kept.into_iter().reduce(|all, one| binary(all, BinaryOperator::And, one));
    *constraint = kept.map_or(JoinConstraint::None, JoinConstraint::On);
    taken
}

/// Names of tables, in lower case.
#[derive(Default)]
struct Names {
    depth: usize,
    /// The tables outside of sub-queries.
    joined: BTreeSet<String>,
    /// The tables of sub-queries.
    queried: BTreeSet<String>,
    /// The tables whose columns sub-queries name.
    used: BTreeSet<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        let name = match table {
            TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
            | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. } => Some(name),
            TableFactor::Table { name, .. } => match name.0.last() {
                Some(ObjectNamePart::Identifier(name)) => Some(name),
                _ => None,
            },
            _ => None,
        };
        let names = if self.depth == 0 { &mut self.joined } else { &mut self.queried };
        names.extend(name.map(|name| name.value.to_lowercase()));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [.., table, _] = parts.as_slice()
            && self.depth > 0
        {
            self.used.insert(table.value.to_lowercase());
        }
        ControlFlow::Continue(())
    }
}
