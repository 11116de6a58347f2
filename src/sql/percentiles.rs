//! Percentiles and errors of reports, which can be named (`p95`, `p99_9`, `error_count`) but are not
//! part of `SELECT *`, like MySQL's invisible columns.
//!
//! A statement is first planned without them, so existing statements keep their meaning. Only if it
//! names one of them and no such column exists, it is planned again, against reports that have
//! those it names; before that, each `*` is replaced by the visible columns
//! (`dialect::rewrite::columns`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, visit_expressions, visit_expressions_mut};

use super::dialect::rewrite::column_name;
use super::error::SqlError;
use crate::grammar::percentile::{percentile_of_name, percentiles};
use crate::report::definition::PERCENTILES_MAX;
use crate::report::layout::Measure;
use crate::series::Metric;

/// Stands between the name of a table and the percentiles that it is to have.
const MARK: char = '\u{1}';

/// Marks the name of a table with the percentiles wanted of it.
pub(super) fn marked(table: &str, wanted: &[f64]) -> String {
    let wanted: Vec<String> = wanted.iter().map(f64::to_string).collect();
    format!("{table}{MARK}{}", wanted.join(","))
}

/// The name without its mark, and the percentiles in that; `None` if it has none.
pub(super) fn unmarked(table: &str) -> Option<(&str, Vec<f64>)> {
    let (table, wanted) = table.split_once(MARK)?;
    match wanted {
        "" => Some((table, Vec::new())),
        _ => Some((table, percentiles(wanted).ok()?)),
    }
}

fn rank(name: &str) -> Option<f64> {
    percentile_of_name(&name.to_ascii_lowercase())
}

fn is_one(name: &str) -> bool {
    rank(name).is_some() || name.eq_ignore_ascii_case(Measure::Errors.stored())
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

/// The percentiles that a query names, which then have the names of columns: `p99.9` is `p99_9`.
pub(super) fn name_columns(query: &mut Query) -> Vec<f64> {
    let mut wanted = Vec::new();
    let _to_the_end = visit_expressions_mut(query, |expr| {
        let name = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some((name, rank)) = name.and_then(|name| rank(&name.value).map(|it| (name, it))) {
            let column = Metric::Percentile(rank).name();
            if !name.value.eq_ignore_ascii_case(&column) {
                name.value = column;
            }
            if !wanted.contains(&rank) && wanted.len() < PERCENTILES_MAX {
                wanted.push(rank);
            }
        }
        ControlFlow::<()>::Continue(())
    });
    wanted
}

/// Whether a statement failed because there is no column of that name.
pub(super) fn is_lacking(error: &SqlError) -> bool {
    let column = error.message.split('\'').nth(1).unwrap_or_default();
    // After each point: the name itself may contain one.
    let points = column.match_indices('.').filter_map(|(at, _)| column.get(at + 1..));
    error.code == 1054 && points.chain([column]).any(is_one)
}
