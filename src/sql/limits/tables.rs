//! Counts the tables of a statement with each name of WITH expanded.
//!
//! DataFusion plans the query behind such a name once per use: `b AS (SELECT ... FROM a p, a q), c
//! AS (SELECT ... FROM b p, b q), ...` is 2^n tables in n lines. Counted on the tree, before
//! anything is planned. The name of a recursive query, within itself, is one table: its rows are
//! kept, not planned again.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ObjectNamePart, Query, SetExpr, TableFactor, Visit, Visitor,
};

use crate::sql::error::SqlError;

/// Most tables in one expanded statement.
const TABLES_MAX: u64 = 120;

/// Refuses a statement, or a part of one, with too many tables.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(tree: &impl Visit) -> Result<(), SqlError> {
    let mut count = Count(vec![Level::default()]);
    let _ = tree.visit(&mut count);
    let tables = count.0.first().map_or(0, |whole| whole.tables);
    if tables > TABLES_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {tables} tables, each name of WITH written out where it is used; at most {TABLES_MAX} are accepted"
        )));
    }
    Ok(())
}

/// Tables of the enclosing queries, the whole statement first.
struct Count(Vec<Level>);

#[derive(Default)]
struct Level {
    /// The names its WITH defines, in order, with the tables of those counted already.
    names: Vec<(String, Option<u64>)>,
    tables: u64,
}

impl Count {
    /// The number of tables behind a name in FROM.
    fn tables_of(&self, name: &str) -> u64 {
        let names = self.0.iter().rev().flat_map(|level| &level.names);
        let mut counted = names.filter_map(|(own, tables)| (own == name).then_some(*tables)?);
        counted.next().unwrap_or(1)
    }
}

impl Visitor for Count {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.push(Level {
            names: tables.map(|table| (table.alias.name.value.to_lowercase(), None)).collect(),
            tables: without_from(&query.body),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        let own = self.0.pop().map_or(0, |level| level.tables);
        if let Some(outer) = self.0.last_mut() {
            // The queries of WITH come first, in order.
            match outer.names.iter_mut().find(|(_, tables)| tables.is_none()) {
                Some((_, tables)) => *tables = Some(own),
                None => outer.tables = outer.tables.saturating_add(own),
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, .. } = table {
            let tables = match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] => self.tables_of(&name.value.to_lowercase()),
                _ => 1,
            };
            if let Some(level) = self.0.last_mut() {
                level.tables = level.tables.saturating_add(tables);
            }
        }
        ControlFlow::Continue(())
    }
}

/// The number of SELECTs without a table: each counts as one.
fn without_from(body: &SetExpr) -> u64 {
    match body {
        SetExpr::Select(select) => u64::from(select.from.is_empty()),
        SetExpr::SetOperation { left, right, .. } => without_from(left) + without_from(right),
        SetExpr::Query(_) => 0,
        _ => 1,
    }
}
