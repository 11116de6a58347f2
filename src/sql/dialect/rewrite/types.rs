//! The types of CAST and CONVERT and the units of INTERVAL, as functions of `functions`.

use datafusion::sql::sqlparser::ast::{Expr, Interval};

use super::build::{call, number, text};
use crate::sql::error::SqlError;

/// CAST and CONVERT to a type as written.
pub(super) fn cast(inner: Expr, data_type: &str) -> Result<Expr, SqlError> {
    let upper = data_type.replace('`', "").to_ascii_uppercase();
    let (name, size) = match upper.split_once('(') {
        Some((name, size)) => (name.trim(), Some(size.trim_end_matches(')'))),
        None => (upper.as_str(), None),
    };
    let name = name.split(" CHARACTER SET").next().unwrap_or(name).trim();
    Ok(match name {
        "SIGNED" | "SIGNED INTEGER" | "INTEGER" | "INT" | "BIGINT" | "SIGNED INT" => {
            call("__signed", vec![inner])
        }
        "UNSIGNED" | "UNSIGNED INTEGER" | "UNSIGNED INT" | "BIGINT UNSIGNED" | "INT UNSIGNED" => {
            call("__unsigned", vec![inner])
        }
        "BINARY" | "VARBINARY" if size.is_none() => call("binary", vec![inner]),
        "CHAR" | "NCHAR" | "VARCHAR" | "CHARACTER" | "BINARY" | "VARBINARY" | "TEXT" => {
            match size {
                Some(length) => call("__char", vec![inner, number(length)]),
                None => call("__text", vec![inner]),
            }
        }
        "DOUBLE" | "FLOAT" | "REAL" | "DOUBLE PRECISION" => call("__real", vec![inner]),
        "DECIMAL" | "NUMERIC" | "DEC" => {
            let (digits, scale) = match size.and_then(|size| size.split_once(',')) {
                Some((digits, scale)) => (digits.trim(), scale.trim()),
                None => (size.unwrap_or("10"), "0"),
            };
            call("__decimal", vec![inner, number(digits), number(scale)])
        }
        "DATE" => call("__date", vec![inner]),
        "DATETIME" | "TIMESTAMP" => call("__datetime", vec![inner]),
        "TIME" => call("__time", vec![inner]),
        _ => return Err(SqlError::not_supported(format!("CAST to {data_type}"))),
    })
}

/// Adds or subtracts an amount of a unit to a date or datetime.
pub(super) fn moved(to: Expr, by: Expr, unit: &str, back: bool) -> Expr {
    let name = if back { "__date_sub" } else { "__date_add" };
    call(name, vec![to, by, text(unit)])
}

/// The units of INTERVAL.
pub(in crate::sql) const INTERVAL_UNITS: &str =
    "MICROSECOND, SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR";

/// Adds or subtracts an INTERVAL.
pub(super) fn date_arithmetic(to: Expr, interval: Interval, back: bool) -> Result<Expr, SqlError> {
    let unit = interval.leading_field.map(|unit| unit.to_string());
    match unit.map(|unit| unit.to_ascii_uppercase()) {
        Some(unit) if INTERVAL_UNITS.split(", ").any(|it| it == unit) => {
            Ok(moved(to, *interval.value, &unit, back))
        }
        Some(unit) => {
            Err(SqlError::not_supported(format!("INTERVAL ... {unit}; units are {INTERVAL_UNITS}")))
        }
        None => Err(SqlError::parse(format!("INTERVAL without a unit; they are {INTERVAL_UNITS}"))),
    }
}
