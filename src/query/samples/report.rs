//! Reports over samples as tables, and table `stat_request`.

use std::fmt::Write as _;
use std::sync::Arc;

use super::table::{int, optional, seconds};
use crate::input::stat::line::UNITS;
use crate::profile::definition::SampleReport;
use crate::profile::recent::{Recent, Sampled};
use crate::profile::report::{KeyValue, SampleRows};
use crate::query::table::{Computed, Table};
use crate::value::{Column, ColumnType, Unit, Value};

/// The measures of a row, after its keys.
const MEASURES: [(&str, ColumnType, Unit); 6] = [
    ("samples", ColumnType::BigInt, Unit::Count),
    ("samples_percent", ColumnType::Double, Unit::Percent),
    ("seconds_estimated", ColumnType::Double, Unit::Seconds),
    ("memory_mean", ColumnType::Double, Unit::Bytes),
    ("memory_max", ColumnType::BigInt, Unit::Bytes),
    ("memory_growth", ColumnType::BigInt, Unit::Bytes),
];

/// The columns of a report.
pub(in crate::query) fn columns(report: &SampleReport) -> Vec<Column> {
    let keys = report.keys.iter().map(|key| match key.is_number() {
        true => (key.name(), ColumnType::BigInt, Unit::None),
        false => (key.name(), ColumnType::Text, Unit::None),
    });
    let columns = keys.chain(MEASURES);
    columns.map(|(name, column_type, unit)| Column::new(name, column_type, unit)).collect()
}

/// A report over samples.
pub(super) fn table(report: &SampleReport, groups: Arc<SampleRows>) -> Box<dyn Table> {
    Box::new(Computed {
        columns: columns(report),
        len: groups.rows.len(),
        source: groups,
        value: |groups, row, column| value(groups, row, column),
    })
}

fn value(groups: &SampleRows, row: usize, column: usize) -> Value<'_> {
    let row = &groups.rows[row];
    let Some(measure) = column.checked_sub(row.keys.len()) else {
        return match &row.keys[column] {
            KeyValue::Absent => Value::Null,
            KeyValue::Number(number) => Value::Int(*number),
            KeyValue::Text(text) => Value::Text(text.as_ref().into()),
        };
    };
    let busy = row.busy();
    match measure {
        0 => int(row.samples),
        // Idle samples have no part in the time spent.
        1 | 2 if busy == 0 => Value::Null,
        1 => Value::Float(100.0 * busy as f64 / groups.busy.max(1) as f64),
        2 => Value::Float(row.seconds),
        3 => row.memory_mean().map_or(Value::Null, Value::Float),
        4 => int(row.memory_max),
        _ => Value::Int(row.memory_growth),
    }
}

/// Table `stat_request`, with these columns.
pub(super) fn requests(columns: Vec<Column>, recent: Arc<Recent>, unix_us: i64) -> Box<dyn Table> {
    Box::new(Computed {
        columns,
        len: recent.requests.len(),
        source: (recent, unix_us),
        value: |(recent, unix_us), row, column| of_request(&recent.requests[row], *unix_us, column),
    })
}

fn of_request(row: &Sampled, unix_us: i64, column: usize) -> Value<'_> {
    let request = &*row.request;
    let time = |elapsed: u64| Value::Float((request.run.time_us(elapsed) + unix_us) as f64 / 1e6);
    let first_memory = row.memory.first().map_or(0, |(_, used)| *used);
    match column {
        0 => optional(Some(&request.run.host)),
        1 => int(request.run.number),
        2 => Value::Int(request.pid),
        3 => seconds(request.elapsed),
        4 => optional(request.script.as_deref()),
        5 => optional(request.method.as_deref()),
        6 => optional(request.uri.as_deref()),
        7 => optional(request.uri_sent.as_deref()),
        8 => optional(Some(if row.ended { "ended" } else { "running" })),
        9 => time(row.first),
        10 => time(row.last),
        11 => seconds(row.last - row.first),
        12 => seconds(row.sampled),
        13 => int(row.samples),
        14 => int(row.idle),
        15 => int(first_memory),
        16 => int(row.memory.last().map_or(0, |(_, used)| *used)),
        17 => int(row.memory_max),
        _ => Value::Text(curve(&row.memory, row.first).into()),
    }
}

/// Points as `seconds:bytes`, with seconds since the first.
fn curve(points: &[(u64, u64)], first: u64) -> String {
    let mut out = String::new();
    for (elapsed, used) in points {
        let between = if out.is_empty() { "" } else { " " };
        let seconds = (elapsed - first) as f64 / UNITS as f64;
        // Writing to a string cannot fail.
        let _written = write!(out, "{between}{seconds:.6}:{used}");
    }
    out
}
