//! `p50`, `p90`, `p95` and `p99` of every report, which can be named but are not part of `SELECT
//! *`, like MySQL's invisible columns.
//!
//! A statement is first planned without them, so existing statements keep their meaning. Only if it
//! names one of them and no such column exists, it is planned again, against reports that have
//! them; before that, each `*` is replaced by the visible columns (`dialect::rewrite::columns`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Query, visit_expressions};

use super::dialect::rewrite::column_name;
use super::error::SqlError;

/// The columns.
const NAMED: [&str; 4] = ["p50", "p90", "p95", "p99"];

/// The percentiles in them.
pub(super) const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// Suffix of the name of a table whose percentiles are wanted.
const MARK: char = '\u{1}';

/// Marks the name of a table whose percentiles are wanted.
pub(super) fn marked(table: &str) -> String {
    format!("{table}{MARK}")
}

/// The name without the mark; `None` if it has none.
pub(super) fn unmarked(table: &str) -> Option<&str> {
    table.strip_suffix(MARK)
}

fn is_one(name: &str) -> bool {
    NAMED.iter().any(|own| name.eq_ignore_ascii_case(own))
}

/// Whether one of them occurs anywhere in a query.
pub(super) fn are_named(query: &Query) -> bool {
    let found = visit_expressions(query, |expr| {
        match column_name(expr).is_some_and(|name| is_one(&name.value)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

/// Whether a statement failed because there is no column of that name.
pub(super) fn is_lacking(error: &SqlError) -> bool {
    let column = error.message.split('\'').nth(1).unwrap_or_default();
    let name = column.rsplit('.').next().unwrap_or_default();
    error.code == 1054 && is_one(name)
}
