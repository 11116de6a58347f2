//! Columns that a report lacks, those of the native form (`p95`, `p99_9`, `error_count`,
//! `req_per_sec`): they can be named but are not part of `SELECT *`, like MySQL's invisible
//! columns.
//!
//! A statement is first planned without them, so existing statements keep their meaning. Only if a
//! column that it names does not exist, it is planned again, against reports that have the
//! percentiles it names and errors, and if that does not do, all of the native form; before that,
//! each `*` is replaced by the visible columns (`dialect::rewrite::columns`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, visit_expressions_mut};

use super::error::SqlError;
use crate::grammar::percentile::{percentile_of_name, percentiles};
use crate::report::definition::{Columns, PERCENTILES_MAX};
use crate::report::layout::Measure;
use crate::series::Metric;

/// Stands between the name of a table and the percentiles that it is to have; then all other
/// columns of the native form follow if a second one stands there.
const MARK: char = '\u{1}';

/// Marks the name of a table with the columns in which it is to be read.
pub(super) fn marked(table: &str, columns: &Columns) -> String {
    let (mark, wanted) = match columns {
        Columns::With(wanted) => ("", wanted),
        Columns::Extended(wanted) => ("\u{1}", wanted),
        Columns::Own | Columns::Native(_) => return table.to_owned(),
    };
    let wanted: Vec<String> = wanted.iter().map(f64::to_string).collect();
    format!("{table}{MARK}{mark}{}", wanted.join(","))
}

/// The name without its mark, and the columns in that; `None` if it has none.
pub(super) fn unmarked(table: &str) -> Option<(&str, Columns)> {
    let (table, wanted) = table.split_once(MARK)?;
    let ranks = wanted.trim_start_matches(MARK);
    let is_all = ranks.len() < wanted.len();
    let ranks = if ranks.is_empty() { Vec::new() } else { percentiles(ranks).ok()? };
    Some((table, if is_all { Columns::Extended(ranks) } else { Columns::With(ranks) }))
}

fn rank(name: &str) -> Option<f64> {
    percentile_of_name(&name.to_ascii_lowercase())
}

fn is_one(name: &str) -> bool {
    rank(name).is_some() || name.eq_ignore_ascii_case(Measure::Errors.stored())
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

/// Whether a statement failed for want of a percentile or of errors.
pub(super) fn is_lacking(error: &SqlError) -> bool {
    let column = error.message.split('\'').nth(1).unwrap_or_default();
    // After each point: the name itself may contain one.
    let points = column.match_indices('.').filter_map(|(at, _)| column.get(at + 1..));
    error.code == 1054 && points.chain([column]).any(is_one)
}
