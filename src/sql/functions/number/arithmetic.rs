//! Arithmetic: division with MySQL's digits, remainders, and sums of whole numbers that must not come out wrong.
//!
//! Decimals are 128 bits; where those do not suffice a division goes on with doubles, and a sum of BIGINTs is an error as in MySQL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Datum, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::types::digits;
use crate::sql::error::SqlError;
use crate::sql::functions::value::{V, rescale};
use crate::sql::functions::{Known, or_null};

/// Digits that a division adds: `div_precision_increment`.
const DIVISION_DIGITS: i8 = 4;

/// Digits after the point at most.
const SCALE_MAX: i8 = 30;

/// Four digits more than what is divided; a double if one side is.
pub(super) fn division_type(known: &Known<'_>) -> DataType {
    let [left, right] = known.types else {
        return DataType::Float64;
    };
    match (digits(left), digits(right)) {
        (Some((all, after)), Some((_, more))) => {
            let scale = (after + DIVISION_DIGITS).min(SCALE_MAX);
            let all = i16::from(all) - i16::from(after) + i16::from(more) + i16::from(scale);
            DataType::Decimal128(u8::try_from(all).unwrap_or(38).min(38), scale)
        }
        _ => DataType::Float64,
    }
}

/// `/`
pub(super) fn divide<'a>(a: &'a [V<'a>]) -> V<'a> {
    or_null(a, |a| match (a[0].decimal(), a[1].decimal()) {
        (Some(_), Some((0, _))) => V::Null,
        (Some((left, after)), Some((right, more))) => {
            let scale = (after + DIVISION_DIGITS).min(SCALE_MAX);
            let by = 10_i128.checked_pow(u32::from((scale - after + more).unsigned_abs()));
            let left_scaled = by.and_then(|by| left.checked_mul(by));
            match left_scaled {
                Some(left) => {
                    let (whole, rest) = (left / right, left % right);
                    let up = rest.unsigned_abs() >= right.unsigned_abs() - rest.unsigned_abs();
                    let away = if (left < 0) == (right < 0) { 1 } else { -1 };
                    V::Decimal(whole + if up { away } else { 0 }, scale)
                }
                None => V::Real(a[0].real() / a[1].real()),
            }
        }
        _ => match a[1].real() {
            0.0 => V::Null,
            right => V::Real(a[0].real() / right),
        },
    })
}

/// Doubles by doubles, a column at a time.
pub(super) fn divide_reals(
    arguments: &[ColumnarValue],
    rows: usize,
) -> Result<Option<ColumnarValue>> {
    let is_real =
        |given: &ColumnarValue| matches!(given.data_type(), DataType::Float32 | DataType::Float64);
    let is_number = |given: &ColumnarValue| given.data_type().is_numeric();
    if !arguments.iter().any(is_real) || !arguments.iter().all(is_number) {
        return Ok(None);
    }
    if arguments
        .iter()
        .all(|argument| matches!(argument, ColumnarValue::Scalar(_)))
    {
        return Ok(None);
    }
    let mut sides = Vec::with_capacity(2);
    for argument in arguments {
        let array = argument.to_array(rows)?;
        sides.push(cast(&array, &DataType::Float64)?);
    }
    let (left, right) = (
        sides[0].as_primitive::<Float64Type>(),
        sides[1].as_primitive::<Float64Type>(),
    );
    let divided: Float64Array = left
        .iter()
        .zip(right.iter())
        .map(|(left, right)| match (left, right) {
            (Some(left), Some(right)) if right != 0.0 => Some(left / right),
            _ => None,
        })
        .collect();
    Ok(Some(ColumnarValue::Array(Arc::new(divided))))
}

/// Whole numbers, calculated so that none comes out wrong.
pub(super) fn checked(
    arguments: &[ColumnarValue],
    rows: usize,
    how: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>,
) -> Result<Option<ColumnarValue>> {
    let constant = arguments
        .iter()
        .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { rows };
    let mut sides = Vec::with_capacity(2);
    for argument in arguments {
        sides.push(cast(&argument.to_array(rows)?, &DataType::Int64)?);
    }
    let made = how(&sides[0], &sides[1]).map_err(|_| SqlError {
        code: 1690,
        state: "22003",
        message: "BIGINT value is out of range; CAST(... AS DECIMAL(38)) has room for more"
            .to_owned(),
    })?;
    match constant {
        true => Ok(Some(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &made, 0,
        )?))),
        false => Ok(Some(ColumnarValue::Array(made))),
    }
}

/// DIV
pub(super) fn divide_whole<'a>(a: &'a [V<'a>]) -> V<'a> {
    or_null(a, |a| match (&a[0], &a[1]) {
        (_, divisor) if !divisor.is_true() => V::Null,
        (V::UInt(left), V::UInt(right)) => V::UInt(left / right),
        (left, right) => match (left.decimal(), right.decimal()) {
            (Some((left, after)), Some((right, more))) => {
                let scale = after.max(more);
                match (rescale(left, after, scale), rescale(right, more, scale)) {
                    (Some(left), Some(right)) => V::Decimal(left / right, 0),
                    _ => V::Null,
                }
            }
            _ => V::Real((left.real() / right.real()).trunc()),
        },
    })
}

/// `%` and MOD
pub(super) fn remainder<'a>(a: &'a [V<'a>]) -> V<'a> {
    or_null(a, |a| match (a[0].decimal(), a[1].decimal()) {
        (Some((left, after)), Some((right, more))) => {
            let scale = after.max(more);
            let left = rescale(left, after, scale);
            let right = rescale(right, more, scale);
            let rest = left
                .zip(right)
                .and_then(|(left, right)| left.checked_rem(right));
            rest.map_or(V::Null, |rest| V::Decimal(rest, scale))
        }
        _ => match a[1].real() {
            0.0 => V::Null,
            right => V::Real(a[0].real() % right),
        },
    })
}

/// The minus before a value.
pub(super) fn negate<'a>(a: &'a [V<'a>]) -> V<'a> {
    match a[0].clone().number() {
        V::Int(value) => V::Int(value.saturating_neg()),
        V::UInt(value) => V::Decimal(-i128::from(value), 0),
        V::Decimal(value, scale) => V::Decimal(-value, scale),
        V::Real(value) => V::Real(-value),
        other => other,
    }
}
