//! Numeric functions: arithmetic, rounding, bits, and mathematics.
//!
//! Integers and decimals are exact up to 38 digits, an error beyond; a division adds four digits
//! after the point. Division by zero and results that are not finite are NULL.

mod arithmetic;
mod rounding;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;

pub(crate) use self::arithmetic::INNER_SCALE_MAX;
use self::arithmetic::{
    checked, divide_reals, divide_whole, negate, product, product_type, quotient, quotient_type,
    remainder,
};
use self::rounding::{Rounding, cut, format, rounded_type, shown_type, whole, whole_or_real};
use super::result_type::{
    arithmetic_type, common_type, integer_type, negative_type, number_type, summand_type,
    whole_type,
};
use super::text::fold;
use super::value::{Prefix, Value, aligned};
use super::{Answer, ColumnKernel, FunctionDef, MANY, nullable, of_text, strict, typed};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        typed("__div", (2, 2), quotient_type::<false>, quotient::<false>)
            .with_columns(divide_reals)
            .checked(),
        typed("__div_inner", (2, 2), quotient_type::<true>, quotient::<true>).checked(),
        typed("__product", (3, 3), product_type, product::<false>).checked(),
        typed("__product_inner", (3, 3), product_type, product::<true>).checked(),
        typed("__shown", (2, 2), shown_type, |a| cut(a, Rounding::Nearest)),
        integers("__plus", |a| checked(a, numeric::add)),
        integers("__minus", |a| checked(a, numeric::sub)),
        integers("__times", |a| checked(a, numeric::mul)),
        typed("__div_int", (2, 2), whole_type, divide_whole).checked(),
        typed("__mod mod", (2, 2), arithmetic_type, remainder),
        typed("__neg", (1, 1), negative_type, |a| Some(negate(a[0].number()))).checked(),
        typed("__number", (1, 1), number_type, |a| Some(a[0].number()))
            // Histograms too: PERCENTILE takes them.
            .identity_for(|given| given.is_numeric() || *given == DataType::Binary),
        typed("__summand", (1, 1), summand_type, |a| Some(a[0].number()))
            .identity_for(DataType::is_floating)
            .with_columns(|a| Ok(as_decimals(&a[0])?)),
        typed("abs", (1, 1), arithmetic_type, |a| match a[0].number() {
            Value::UInt(value) => Some(Value::UInt(value)),
            number if number.real() < 0.0 => Some(negate(number)),
            number => Some(number),
        })
        .checked(),
        of_real("sign", |real| match real == 0.0 {
            true => 0,
            false => real.signum() as i64,
        }),
        typed("round", (1, 2), rounded_type, |a| cut(a, Rounding::Nearest)).checked(),
        typed("truncate", (2, 2), rounded_type, |a| cut(a, Rounding::Down)),
        typed("floor", (1, 1), whole_or_real, |a| whole(&a[0], f64::floor, i128::div_euclid))
            .checked(),
        typed("ceil ceiling", (1, 1), whole_or_real, |a| {
            let up = |value: i128, by| -(-value).div_euclid(by);
            whole(&a[0], f64::ceil, up)
        })
        .checked(),
        nullable("format", (2, 3), format),
        typed("greatest", (2, MANY), common_type, |a| extreme(a, true, false)).checked(),
        typed("least", (2, MANY), common_type, |a| extreme(a, false, false)).checked(),
        typed("__greatest_folded", (2, MANY), common_type, |a| extreme(a, true, true)),
        typed("__least_folded", (2, MANY), common_type, |a| extreme(a, false, true)),
        strict("pow power", (2, 2), |a| a[0].real().powf(a[1].real())),
        strict("atan2", (2, 2), |a| a[0].real().atan2(a[1].real())),
        of_real("sqrt", f64::sqrt),
        of_real("exp", f64::exp),
        of_real("ln", f64::ln),
        strict("log", (1, 2), |a| match a {
            [base, _] if base.real() == 0.0 => f64::NAN,
            [base, value] => value.real().ln() / base.real().ln(),
            _ => a[0].real().ln(),
        }),
        of_real("log2", f64::log2),
        of_real("log10", f64::log10),
        of_real("sin", f64::sin),
        of_real("cos", f64::cos),
        of_real("tan", f64::tan),
        of_real("asin", f64::asin),
        of_real("acos", f64::acos),
        strict("atan", (1, 2), |a| a[0].real().atan2(a.get(1).map_or(1.0, Value::real))),
        of_real("degrees", f64::to_degrees),
        of_real("radians", f64::to_radians),
        nullable("pi", (0, 0), |_| std::f64::consts::PI),
        bits("__bitand", |a, b| a & b),
        bits("__bitor", |a, b| a | b),
        bits("__bitxor", |a, b| a ^ b),
        shifts("__shl", u64::checked_shl),
        shifts("__shr", u64::checked_shr),
        strict("__bitnot", (1, 1), |a| !a[0].bits()),
        strict("bit_count", (1, 1), |a| i64::from(a[0].bits().count_ones())),
        strict("conv", (3, 3), conv),
        strict("bin", (1, 1), |a| conv(&[a[0].clone(), Value::Int(10), Value::Int(2)])),
        strict("oct", (1, 1), |a| conv(&[a[0].clone(), Value::Int(10), Value::Int(8)])),
        of_text("crc32", |text| i64::from(crc32fast::hash(text.as_bytes()))),
    ]
}

/// Integers, booleans and decimals as decimals with all digits; `None` for other types. Arrow's own
/// conversion checks each value and takes five times as long.
fn as_decimals(column: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let (decimals, scale) = match column.data_type() {
        DataType::Decimal128(_, scale) => (column.as_primitive::<Decimal128Type>().clone(), *scale),
        DataType::UInt64 => (column.as_primitive::<UInt64Type>().unary(i128::from), 0),
        given if given.is_integer() || *given == DataType::Boolean => {
            let whole = cast(column, &DataType::Int64)?;
            (whole.as_primitive::<Int64Type>().unary(i128::from), 0)
        }
        _ => return Ok(None),
    };
    Ok(Some(Arc::new(decimals.with_precision_and_scale(38, scale)?)))
}

/// A function of one number.
fn of_real<R: Answer>(names: &'static str, of: fn(f64) -> R) -> FunctionDef {
    strict(names, (1, 1), move |a| of(a[0].real()))
}

/// Arithmetic of integers, a column at a time.
fn integers(names: &'static str, columns: ColumnKernel) -> FunctionDef {
    typed(names, (2, 2), integer_type, |_| None).with_columns(columns)
}

fn bits(names: &'static str, of: fn(u64, u64) -> u64) -> FunctionDef {
    strict(names, (2, 2), move |a| of(a[0].bits(), a[1].bits()))
}

/// A shift, by 64 or more to 0; by a double as it is cast to an integer.
fn shifts(names: &'static str, of: fn(u64, u32) -> Option<u64>) -> FunctionDef {
    strict(names, (2, 2), move |a| {
        let by = u32::try_from(a[1].unsigned()).ok();
        by.and_then(|by| of(a[0].bits(), by)).unwrap_or(0)
    })
}

/// CONV: converts the integer that a text begins with from one base to another. BIN and OCT are
/// CONV from 10.
fn conv(a: &[Value<'_>]) -> Option<String> {
    let base = |of: &Value<'_>| {
        let base = u32::try_from(of.int().unsigned_abs()).ok();
        base.filter(|base| (2..=36).contains(base))
    };
    let (from, to) = (base(&a[1])?, base(&a[2])?);
    let text = a[0].to_text();
    if text.is_empty() {
        return None;
    }
    let digits = text.trim();
    let positive = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let values = positive.chars().map_while(|digit| digit.to_digit(from));
    let mut value = values
        .fold(0_u64, |value, digit| value.saturating_mul(from.into()).saturating_add(digit.into()));
    if digits.starts_with('-') {
        value = value.wrapping_neg();
    }
    // A negative base asks for a sign.
    let is_negative = a[2].int() < 0 && value.cast_signed() < 0;
    if is_negative {
        value = value.wrapping_neg();
    }
    let mut written = String::new();
    while value > 0 || written.is_empty() {
        let digit = char::from_digit((value % u64::from(to)) as u32, to)?;
        written.insert(0, digit.to_ascii_uppercase());
        value /= u64::from(to);
    }
    if is_negative {
        written.insert(0, '-');
    }
    Some(written)
}

/// The greatest or least of texts, perhaps regardless of case, datetimes or numbers.
fn extreme<'a>(a: &'a [Value<'a>], greatest: bool, folded: bool) -> Option<Value<'a>> {
    let is_text = |it: &Value<'_>| matches!(it, Value::Text(_));
    let is_time = |it: &Value<'_>| matches!(it, Value::Datetime(_) | Value::Date(_));
    let texts = a.iter().all(is_text);
    let times = a.iter().all(|it| is_text(it) || is_time(it));
    let order = |left: &Value<'a>, right: &Value<'a>| match left.decimal().zip(right.decimal()) {
        _ if texts && folded => fold(&left.to_text()).cmp(&fold(&right.to_text())),
        _ if texts => left.to_text().cmp(&right.to_text()),
        _ if times => left.micros().cmp(&right.micros()),
        Some((left, right)) => aligned(left, right, |l, r| l.cmp(&r), |l, r| l.cmp(&r)),
        None => left.real().total_cmp(&right.real()),
    };
    let best = a.iter().reduce(|best, other| {
        let order = order(other, best);
        match order.is_ne() && order.is_gt() == greatest {
            true => other,
            false => best,
        }
    });
    best.cloned()
}

/// A number literal, for conversions made while planning.
pub(crate) fn literal_number(text: &str) -> ScalarValue {
    let trimmed = text.trim();
    match trimmed.parse::<i64>() {
        Ok(whole) => ScalarValue::Int64(Some(whole)),
        Err(_) => ScalarValue::Float64(Some(Prefix::of(text).real())),
    }
}
