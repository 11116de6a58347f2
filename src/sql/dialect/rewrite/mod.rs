//! MySQL's forms as DataFusion's, on the tree that the grammar made.
//!
//! Names become lower case (MySQL does not tell cases apart), tables get their database, each item of a SELECT gets the name
//! that MySQL gives it, functions and operators become those that do what MySQL's do (`functions`), and the shape of a SELECT
//! is put right where MySQL takes more than the standard (`select`). Types are not known here; see `typed` for those.

mod aggregates;
mod calls;
mod conditions;
mod copies;
mod correlated;
mod expressions;
mod fold;
mod patterns;
mod pieces;
mod select;
mod types;
mod with;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use chrono::NaiveDateTime;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName,
    ObjectNamePart, Query, SetExpr, Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
    WindowType,
};

use self::copies::Copies;
use crate::sql::error::SqlError;

/// What a statement is read against.
#[derive(Debug, Clone)]
pub(crate) struct Surroundings {
    /// The database of names without one.
    pub(crate) database: Option<String>,
    /// `USER()`.
    pub(crate) user: String,
    /// `CONNECTION_ID()`.
    pub(crate) connection: u64,
    /// What the clock of the session shows, and what it would show in Greenwich.
    pub(crate) now: NaiveDateTime,
    pub(crate) now_utc: NaiveDateTime,
    /// The session's zone.
    pub(crate) time_zone: String,
    /// Whether texts are grouped without telling cases apart.
    pub(crate) case_insensitive: bool,
}

/// What rewriting found out beside the tree.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Noted {
    /// The names of the columns of the answer, for those items that are not `*`: what the plan calls it, what MySQL does.
    pub(crate) names: Vec<(String, String)>,
    /// How names in sub-queries were written, by what the plan calls them.
    pub(crate) said: HashMap<String, String>,
    /// How long SLEEP wants to sleep, seconds.
    pub(crate) sleep: f64,
}

/// Between the name of a column and what makes it different from the others in the plan.
pub(crate) const MARK: char = '\u{1}';

/// Rewrites a query.
///
/// # Errors
/// What cannot be done, by its name.
pub(crate) fn rewrite(
    query: &mut Query,
    items: &HashMap<u64, Vec<String>>,
    around: &Surroundings,
) -> Result<Noted, SqlError> {
    let mut rewriter = Rewriter {
        items,
        around,
        noted: Noted::default(),
        local: HashSet::new(),
        depth: 0,
        copies: Copies::default(),
    };
    with::check(query)?;
    let _ = VisitMut::visit(query, &mut LowerNames);
    match VisitMut::visit(query, &mut rewriter) {
        ControlFlow::Continue(()) => Ok(rewriter.noted),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Rewrites a condition that belongs to no SELECT: that of SHOW ... WHERE.
///
/// # Errors
/// What cannot be done, by its name.
pub(crate) fn rewrite_condition(
    condition: &mut Expr,
    around: &Surroundings,
) -> Result<(), SqlError> {
    let mut rewriter = Rewriter {
        items: &HashMap::new(),
        around,
        noted: Noted::default(),
        local: HashSet::new(),
        depth: 0,
        copies: Copies::default(),
    };
    with::check(condition)?;
    let _ = VisitMut::visit(condition, &mut LowerNames);
    if let ControlFlow::Break(error) = VisitMut::visit(condition, &mut rewriter) {
        return Err(error);
    }
    conditions::as_condition(condition);
    Ok(())
}

struct Rewriter<'a> {
    items: &'a HashMap<u64, Vec<String>>,
    around: &'a Surroundings,
    noted: Noted,
    /// Names that WITH gave.
    local: HashSet<String>,
    /// How many queries are around this one.
    depth: usize,
    copies: Copies,
}

/// Puts the names of columns in lower case.
struct LowerNames;

impl VisitorMut for LowerNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(name) => lower(name),
            Expr::CompoundIdentifier(parts) => {
                // `pinba.request.id`: the tables go by their own names in the plan.
                if parts.len() == 3 {
                    parts.remove(0);
                }
                parts.iter_mut().for_each(lower);
            }
            Expr::Function(function) => match &mut function.over {
                Some(WindowType::NamedWindow(name)) => lower(name),
                Some(WindowType::WindowSpec(window)) => {
                    window.window_name.iter_mut().for_each(lower);
                }
                None => {}
            },
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        self.depth += 1;
        to_flow(self.query(query))
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<SqlError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<SqlError> {
        to_flow(self.table(table))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        to_flow(expressions::rewrite(
            expr,
            self.around,
            &self.copies,
            &mut self.noted,
        ))
    }

    fn pre_visit_statement(&mut self, _statement: &mut Statement) -> ControlFlow<SqlError> {
        ControlFlow::Break(SqlError::parse("a statement cannot be part of another one"))
    }
}

fn to_flow(result: Result<(), SqlError>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// A name in lower case, as it stands.
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
pub(super) fn ident(name: impl Into<String>) -> Ident {
    Ident::with_quote('`', name)
}

impl Rewriter<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        query.locks.clear();
        if query.for_clause.is_some() {
            return Err(SqlError::not_supported("FOR XML and FOR JSON"));
        }
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                lower_alias(&mut table.alias);
                self.local.insert(table.alias.name.value.clone());
            }
        }
        let top = self.depth == 1;
        let ordered = query.order_by.as_mut();
        match query.body.as_mut() {
            SetExpr::Select(select) => {
                let names = select::shape(select, ordered, self.items, self.around, &self.copies)?;
                self.keep(names, top);
            }
            other => {
                let names = self.parts(other)?;
                self.keep(names, top);
                if let Some(order_by) = ordered {
                    select::order_of_union(order_by);
                }
            }
        }
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause
            && !limit_by.is_empty()
        {
            return Err(SqlError::not_supported("LIMIT ... BY"));
        }
        Ok(())
    }

    fn keep(&mut self, names: Vec<(String, String)>, top: bool) {
        if top {
            self.noted.names = names;
        } else {
            for (internal, said) in names {
                self.noted.said.entry(internal).or_insert(said);
            }
        }
    }

    /// The SELECTs of a UNION; the names of the first one are those of the answer.
    fn parts(&mut self, body: &mut SetExpr) -> Result<Vec<(String, String)>, SqlError> {
        match body {
            SetExpr::Select(select) => {
                select::shape(select, None, self.items, self.around, &self.copies)
            }
            SetExpr::SetOperation { left, right, .. } => {
                let names = self.parts(left)?;
                self.parts(right)?;
                Ok(names)
            }
            SetExpr::Query(query) => match query.body.as_ref() {
                // Comes by itself later; its names are wanted now.
                SetExpr::Select(select) => select::names(select, self.items),
                _ => Ok(Vec::new()),
            },
            SetExpr::Values(_) => Ok(Vec::new()),
            _ => Err(SqlError::read_only(
                "the tables of this server can only be read",
            )),
        }
    }

    fn table(&mut self, table: &mut TableFactor) -> Result<(), SqlError> {
        match table {
            TableFactor::Table {
                name,
                alias,
                args,
                index_hints,
                ..
            } => {
                index_hints.clear();
                if let Some(alias) = alias {
                    lower_alias(alias);
                }
                if args.is_some() {
                    return Err(SqlError::not_supported("tables that are functions"));
                }
                let mut parts = Vec::with_capacity(3);
                for part in &name.0 {
                    match part {
                        ObjectNamePart::Identifier(part) => parts.push(part.value.clone()),
                        ObjectNamePart::Function(_) => {
                            return Err(SqlError::not_supported("tables that are functions"));
                        }
                    }
                }
                let (database, own) = match parts.as_slice() {
                    [own] if self.local.contains(&own.to_lowercase()) => {
                        *name =
                            ObjectName(vec![ObjectNamePart::Identifier(ident(own.to_lowercase()))]);
                        return Ok(());
                    }
                    [own] => {
                        let database = self.around.database.clone().ok_or_else(|| SqlError {
                            code: 1046,
                            state: "3D000",
                            message: "No database selected".to_owned(),
                        })?;
                        (database, own.clone())
                    }
                    [.., database, own] => (database.to_lowercase(), own.clone()),
                    [] => return Err(SqlError::parse("a table without a name")),
                };
                if alias.is_none() {
                    *alias = Some(TableAlias {
                        explicit: true,
                        name: ident(own.to_lowercase()),
                        columns: Vec::new(),
                        at: None,
                    });
                }
                *name = ObjectName(
                    [crate::sql::tables::CATALOG.to_owned(), database, own]
                        .into_iter()
                        .map(|part| ObjectNamePart::Identifier(ident(part)))
                        .collect(),
                );
                Ok(())
            }
            TableFactor::Derived { alias, .. } => {
                if let Some(alias) = alias {
                    lower_alias(alias);
                }
                Ok(())
            }
            TableFactor::NestedJoin {
                alias: None,
                table_with_joins,
            } => {
                for join in &mut table_with_joins.joins {
                    lower_join(&mut join.join_operator);
                }
                Ok(())
            }
            other => Err(SqlError::not_supported(format!("this in FROM: {other}"))),
        }
    }
}

/// The names and the condition of a join.
fn lower_join(join: &mut JoinOperator) {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)
    | JoinOperator::Right(constraint)
    | JoinOperator::RightOuter(constraint)
    | JoinOperator::FullOuter(constraint)
    | JoinOperator::CrossJoin(constraint)) = join
    else {
        return;
    };
    match constraint {
        JoinConstraint::Using(columns) => {
            for column in columns {
                for part in &mut column.0 {
                    if let ObjectNamePart::Identifier(name) = part {
                        lower(name);
                    }
                }
            }
        }
        JoinConstraint::On(condition) => conditions::as_condition(condition),
        JoinConstraint::Natural | JoinConstraint::None => {}
    }
    // MySQL's JOIN and CROSS JOIN are the same.
    match join {
        JoinOperator::CrossJoin(
            constraint @ (JoinConstraint::On(_) | JoinConstraint::Using(_)),
        ) => {
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
