//! Limits the tables of a statement, with each name of WITH expanded.
//!
//! DataFusion plans the query behind such a name once per use: `b AS (SELECT ... FROM a p, a q), c
//! AS (SELECT ... FROM b p, b q), ...` is 2^n tables in n lines. `dialect::rewrite` counts them on
//! the tree, before anything is planned.

use datafusion::sql::sqlparser::ast::SetExpr;

use crate::sql::error::SqlError;

/// Most tables in one expanded statement.
const TABLES_MAX: u64 = 120;

/// Refuses a statement, or a part of one, with too many tables.
///
/// # Errors
/// [`SqlError::parse`].
pub(in crate::sql) fn check(tables: u64) -> Result<(), SqlError> {
    if tables > TABLES_MAX {
        return Err(SqlError::parse(format!(
            "the statement has {tables} tables, each name of WITH written out where it is used; at most {TABLES_MAX} are accepted"
        )));
    }
    Ok(())
}

/// The number of SELECTs without a table: each counts as one.
pub(in crate::sql) fn without_from(body: &SetExpr) -> u64 {
    match body {
        SetExpr::Select(select) => u64::from(select.from.is_empty()),
        SetExpr::SetOperation { left, right, .. } => without_from(left) + without_from(right),
        SetExpr::Query(_) => 0,
        _ => 1,
    }
}
