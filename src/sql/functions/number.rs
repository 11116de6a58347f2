//! Functions of numbers: arithmetic, rounding, bits, and mathematics.
//!
//! Integers and decimals are exact up to 38 digits, doubles beyond; a division adds four digits after the point. Division by
//! zero and whatever is not finite is NULL.

mod arithmetic;
mod bits;
mod rounding;
mod types;

use std::cmp::Ordering;

use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;

use self::arithmetic::{
    checked, divide, divide_reals, divide_whole, division_type, negate, remainder,
};
use self::bits::{bits, conv, shift, word};
use self::rounding::{Rounding, cut, format, rounded_type, whole, whole_or_real};
use self::types::{arithmetic_type, common_type, is_number, number_type, sum_type, whole_type};
use super::Returns::By;
use super::value::{Prefix, Value, aligned};
use super::{FunctionDef, INT, MANY, REAL, TEXT, UINT, def, maybe, strict};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("__div", (2, 2), By(division_type), divide).with_columns(divide_reals),
        def("__plus", (2, 2), INT, |_| Value::Null).with_columns(|a| checked(a, numeric::add)),
        def("__minus", (2, 2), INT, |_| Value::Null).with_columns(|a| checked(a, numeric::sub)),
        def("__times", (2, 2), INT, |_| Value::Null).with_columns(|a| checked(a, numeric::mul)),
        strict("__div_int", (2, 2), By(whole_type), divide_whole),
        strict("__mod mod", (2, 2), By(arithmetic_type), remainder),
        def("__neg", (1, 1), By(arithmetic_type), negate),
        def("__number", (1, 1), By(number_type), |a| a[0].number()).identity_for(is_number),
        def("__sum_type", (1, 1), By(sum_type), |a| a[0].clone())
            .identity_for(|given| !matches!(given, DataType::Int64 | DataType::UInt64)),
        def("abs", (1, 1), By(arithmetic_type), |a| {
            match a[0].number() {
                Value::Int(value) => Value::Int(value.saturating_abs()),
                Value::Decimal(value, scale) => Value::Decimal(value.saturating_abs(), scale),
                Value::Double(value) => Value::Double(value.abs()),
                other => other,
            }
        }),
        strict("sign", (1, 1), INT, |a| {
            let real = a[0].real();
            Value::Int(if real == 0.0 { 0 } else { real.signum() as i64 })
        }),
        strict("round", (1, 2), By(rounded_type), |a| {
            cut(a, Rounding::Nearest)
        }),
        strict("truncate", (2, 2), By(rounded_type), |a| {
            cut(a, Rounding::Down)
        }),
        def("floor", (1, 1), By(whole_or_real), |a| {
            whole(a, f64::floor, i128::div_euclid)
        }),
        def("ceil ceiling", (1, 1), By(whole_or_real), |a| {
            whole(a, f64::ceil, |value, by| -(-value).div_euclid(by))
        }),
        def("format", (2, 3), TEXT, format),
        strict("greatest", (2, MANY), By(common_type), |a| extreme(a, true)),
        strict("least", (2, MANY), By(common_type), |a| extreme(a, false)),
        reals("pow power", f64::powf),
        reals("atan2", f64::atan2),
        real("sqrt", f64::sqrt),
        real("exp", f64::exp),
        real("ln", f64::ln),
        strict("log", (1, 2), REAL, |a| match a {
            [base, value] => Value::Double(value.real().ln() / base.real().ln()),
            _ => Value::Double(a[0].real().ln()),
        }),
        real("log2", f64::log2),
        real("log10", f64::log10),
        real("sin", f64::sin),
        real("cos", f64::cos),
        real("tan", f64::tan),
        real("asin", f64::asin),
        real("acos", f64::acos),
        strict("atan", (1, 2), REAL, |a| match a {
            [y, x] => Value::Double(y.real().atan2(x.real())),
            _ => Value::Double(a[0].real().atan()),
        }),
        real("degrees", f64::to_degrees),
        real("radians", f64::to_radians),
        def("pi", (0, 0), REAL, |_| Value::Double(std::f64::consts::PI)),
        strict("__bitand", (2, 2), UINT, |a| bits(a, |a, b| a & b)),
        strict("__bitor", (2, 2), UINT, |a| bits(a, |a, b| a | b)),
        strict("__bitxor", (2, 2), UINT, |a| bits(a, |a, b| a ^ b)),
        strict("__shl", (2, 2), UINT, |a| {
            bits(a, |a, b| shift(a, b, u64::checked_shl))
        }),
        strict("__shr", (2, 2), UINT, |a| {
            bits(a, |a, b| shift(a, b, u64::checked_shr))
        }),
        strict("__bitnot", (1, 1), UINT, |a| Value::UInt(!word(&a[0]))),
        strict("bit_count", (1, 1), INT, |a| {
            Value::Int(i64::from(word(&a[0]).count_ones()))
        }),
        maybe("conv", (3, 3), TEXT, conv),
        strict("bin", (1, 1), TEXT, |a| {
            Value::text(format!("{:b}", word(&a[0])))
        }),
        strict("oct", (1, 1), TEXT, |a| {
            Value::text(format!("{:o}", word(&a[0])))
        }),
        strict("crc32", (1, 1), INT, |a| {
            Value::Int(i64::from(crc32fast::hash(a[0].to_text().as_bytes())))
        }),
    ]
}

fn real(names: &'static str, of: fn(f64) -> f64) -> FunctionDef {
    strict(names, (1, 1), REAL, move |a| Value::Double(of(a[0].real())))
}

fn reals(names: &'static str, of: fn(f64, f64) -> f64) -> FunctionDef {
    strict(names, (2, 2), REAL, move |a| {
        Value::Double(of(a[0].real(), a[1].real()))
    })
}

fn extreme<'a>(a: &'a [Value<'a>], greatest: bool) -> Value<'a> {
    let texts = a.iter().all(|it| matches!(it, Value::Text(_)));
    let times = a
        .iter()
        .any(|it| matches!(it, Value::Datetime(_) | Value::Date(_)))
        && a.iter()
            .all(|it| matches!(it, Value::Datetime(_) | Value::Date(_) | Value::Text(_)));
    let mut best = &a[0];
    for other in &a[1..] {
        let order = match (texts, times) {
            (true, _) => other.to_text().as_bytes().cmp(best.to_text().as_bytes()),
            (_, true) => other.micros().cmp(&best.micros()),
            _ => match other.decimal().zip(best.decimal()) {
                Some((left, right)) => aligned(left, right)
                    .map_or(Ordering::Equal, |(left, right, _)| left.cmp(&right)),
                None => other.real().total_cmp(&best.real()),
            },
        };
        if order.is_gt() == greatest && order.is_ne() {
            best = other;
        }
    }
    best.clone()
}

/// A number in a statement, for conversions made when it is planned.
pub(crate) fn literal_number(text: &str) -> ScalarValue {
    let trimmed = text.trim();
    match trimmed.parse::<i64>() {
        Ok(whole) => ScalarValue::Int64(Some(whole)),
        Err(_) => ScalarValue::Float64(Some(Prefix::of(text).real())),
    }
}
