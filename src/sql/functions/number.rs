//! Functions of numbers: MySQL's division, remainders, rounding, bits, and the usual mathematics.
//!
//! Whole numbers and decimals are calculated exactly, 38 digits at most, and by doubles beyond that; a division has four digits
//! more after the point than what is divided. By zero it is NULL, as is whatever is not a finite number.

use datafusion::arrow::array::{ArrayRef, AsArray, Datum, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

use super::value::{V, rescale};
use super::{Def, Known, MANY, def, int_type, real_type, text_type, uint_type};
use crate::sql::error::SqlError;

/// Digits that a division adds: `div_precision_increment`.
const DIVISION_DIGITS: i8 = 4;

/// Digits after the point at most.
const SCALE_MAX: i8 = 30;

pub(super) const FUNCTIONS: &[Def] = &[
    Def {
        whole: Some(divide_reals),
        ..def("__div", (2, 2), division_type, divide)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::add)),
        ..def("__plus", (2, 2), int_type, |_| V::Null)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::sub)),
        ..def("__minus", (2, 2), int_type, |_| V::Null)
    },
    Def {
        whole: Some(|arguments, rows| checked(arguments, rows, numeric::mul)),
        ..def("__times", (2, 2), int_type, |_| V::Null)
    },
    def("__div_int", (2, 2), whole_type, divide_whole),
    def("__mod", (2, 2), arithmetic_type, remainder),
    def("mod", (2, 2), arithmetic_type, remainder),
    def("__neg", (1, 1), arithmetic_type, negate),
    Def {
        identity: is_number,
        ..def("__number", (1, 1), number_type, |a| a[0].clone().number())
    },
    Def {
        identity: |given| !matches!(given, DataType::Int64 | DataType::UInt64),
        ..def("__sum_type", (1, 1), sum_type, |a| a[0].clone())
    },
    def("abs", (1, 1), arithmetic_type, |a| {
        match a[0].clone().number() {
            V::Int(value) => V::Int(value.saturating_abs()),
            V::Decimal(value, scale) => V::Decimal(value.saturating_abs(), scale),
            V::Real(value) => V::Real(value.abs()),
            other => other,
        }
    }),
    def("sign", (1, 1), int_type, |a| {
        or_null(a, |a| {
            let real = a[0].real();
            V::Int(if real == 0.0 { 0 } else { real.signum() as i64 })
        })
    }),
    def("round", (1, 2), rounded_type, |a| cut(a, Rounding::Nearest)),
    def("truncate", (2, 2), rounded_type, |a| cut(a, Rounding::Down)),
    def("floor", (1, 1), whole_or_real, |a| {
        whole(a, f64::floor, i128::div_euclid)
    }),
    def("ceil", (1, 1), whole_or_real, |a| {
        whole(a, f64::ceil, |value, by| -(-value).div_euclid(by))
    }),
    def("ceiling", (1, 1), whole_or_real, |a| {
        whole(a, f64::ceil, |value, by| -(-value).div_euclid(by))
    }),
    def("format", (2, 3), text_type, format),
    def("greatest", (2, MANY), common_type, |a| extreme(a, true)),
    def("least", (2, MANY), common_type, |a| extreme(a, false)),
    def("pow", (2, 2), real_type, |a| two_reals(a, f64::powf)),
    def("power", (2, 2), real_type, |a| two_reals(a, f64::powf)),
    def("atan2", (2, 2), real_type, |a| two_reals(a, f64::atan2)),
    def("sqrt", (1, 1), real_type, |a| real(a, f64::sqrt)),
    def("exp", (1, 1), real_type, |a| real(a, f64::exp)),
    def("ln", (1, 1), real_type, |a| real(a, f64::ln)),
    def("log2", (1, 1), real_type, |a| real(a, f64::log2)),
    def("log10", (1, 1), real_type, |a| real(a, f64::log10)),
    def("log", (1, 2), real_type, |a| match a.len() {
        1 => real(a, f64::ln),
        _ => two_reals(a, |base, value| value.ln() / base.ln()),
    }),
    def("sin", (1, 1), real_type, |a| real(a, f64::sin)),
    def("cos", (1, 1), real_type, |a| real(a, f64::cos)),
    def("tan", (1, 1), real_type, |a| real(a, f64::tan)),
    def("asin", (1, 1), real_type, |a| real(a, f64::asin)),
    def("acos", (1, 1), real_type, |a| real(a, f64::acos)),
    def("atan", (1, 2), real_type, |a| match a.len() {
        1 => real(a, f64::atan),
        _ => two_reals(a, f64::atan2),
    }),
    def("degrees", (1, 1), real_type, |a| real(a, f64::to_degrees)),
    def("radians", (1, 1), real_type, |a| real(a, f64::to_radians)),
    def("pi", (0, 0), real_type, |_| V::Real(std::f64::consts::PI)),
    def("__bitand", (2, 2), uint_type, |a| bits(a, |a, b| a & b)),
    def("__bitor", (2, 2), uint_type, |a| bits(a, |a, b| a | b)),
    def("__bitxor", (2, 2), uint_type, |a| bits(a, |a, b| a ^ b)),
    def("__shl", (2, 2), uint_type, |a| {
        bits(a, |a, b| shift(a, b, u64::checked_shl))
    }),
    def("__shr", (2, 2), uint_type, |a| {
        bits(a, |a, b| shift(a, b, u64::checked_shr))
    }),
    def("__bitnot", (1, 1), uint_type, |a| {
        or_null(a, |a| V::UInt(!word(&a[0])))
    }),
    def("bit_count", (1, 1), int_type, |a| {
        or_null(a, |a| V::Int(i64::from(word(&a[0]).count_ones())))
    }),
    def("conv", (3, 3), text_type, conv),
    def("bin", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(format!("{:b}", word(&a[0]))))
    }),
    def("oct", (1, 1), text_type, |a| {
        or_null(a, |a| V::text(format!("{:o}", word(&a[0]))))
    }),
    def("crc32", (1, 1), int_type, |a| {
        or_null(a, |a| {
            V::Int(i64::from(crc32fast::hash(a[0].said().as_bytes())))
        })
    }),
];

/// NULL when an argument is.
pub(super) fn or_null<'a>(a: &'a [V<'a>], row: fn(&'a [V<'a>]) -> V<'a>) -> V<'a> {
    match a.iter().any(V::is_null) {
        true => V::Null,
        false => row(a),
    }
}

fn is_number(given: &DataType) -> bool {
    given.is_numeric() || given.is_null()
}

fn is_whole(given: &DataType) -> bool {
    given.is_integer()
        || matches!(
            given,
            DataType::Boolean | DataType::Timestamp(..) | DataType::Date32
        )
}

/// Digits, and those after the point; `None` for what is calculated as a double.
fn digits(given: &DataType) -> Option<(u8, i8)> {
    match given {
        DataType::Decimal128(digits, scale) => Some((*digits, *scale)),
        DataType::UInt64 => Some((20, 0)),
        DataType::Null => Some((1, 0)),
        whole if is_whole(whole) => Some((19, 0)),
        _ => None,
    }
}

/// The type of a number that an argument is taken for.
fn number_type(known: &Known<'_>) -> DataType {
    match &known.types[0] {
        DataType::Float32 => DataType::Float32,
        DataType::UInt64 => DataType::UInt64,
        DataType::Null => DataType::Null,
        whole if is_whole(whole) => DataType::Int64,
        decimal @ DataType::Decimal128(..) => decimal.clone(),
        _ => DataType::Float64,
    }
}

fn sum_type(known: &Known<'_>) -> DataType {
    match &known.types[0] {
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(33, 0),
        other => other.clone(),
    }
}

fn arithmetic_type(known: &Known<'_>) -> DataType {
    common(known.types, true)
}

fn whole_type(known: &Known<'_>) -> DataType {
    match known.types.iter().all(|given| *given == DataType::UInt64) {
        true => DataType::UInt64,
        false => DataType::Int64,
    }
}

fn common_type(known: &Known<'_>) -> DataType {
    common(known.types, false)
}

/// The type that has room for all of these; texts count as numbers when it is arithmetic, or when there are numbers.
pub(crate) fn common(types: &[DataType], arithmetic: bool) -> DataType {
    let real = |given: &DataType| digits(given).is_none();
    let text = |given: &DataType| {
        matches!(
            given,
            DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Dictionary(..)
        )
    };
    let mut given = types.iter().filter(|given| !given.is_null());
    let Some(first) = given.next() else {
        return DataType::Null;
    };
    if !arithmetic {
        if types.iter().all(|given| text(given) || given.is_null()) {
            return DataType::Utf8View;
        }
        let is_time =
            |given: &DataType| matches!(given, DataType::Timestamp(..) | DataType::Date32);
        if types
            .iter()
            .all(|given| is_time(given) || text(given) || given.is_null())
        {
            return match types.iter().all(|given| given == first) {
                true => first.clone(),
                false => DataType::Timestamp(datafusion::arrow::datatypes::TimeUnit::Second, None),
            };
        }
    }
    if types.iter().any(real) {
        return DataType::Float64;
    }
    let mut whole = 0;
    let mut scale = 0;
    for (all, after) in types.iter().filter_map(digits) {
        whole = whole.max(i16::from(all) - i16::from(after));
        scale = scale.max(after);
    }
    match scale {
        0 if types.iter().all(|given| *given == DataType::UInt64) => DataType::UInt64,
        0 if !types
            .iter()
            .any(|given| matches!(given, DataType::Decimal128(..))) =>
        {
            DataType::Int64
        }
        _ => DataType::Decimal128(
            u8::try_from(whole + i16::from(scale)).unwrap_or(38).min(38),
            scale,
        ),
    }
}

fn division_type(known: &Known<'_>) -> DataType {
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

fn divide<'a>(a: &'a [V<'a>]) -> V<'a> {
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
fn divide_reals(arguments: &[ColumnarValue], rows: usize) -> Result<Option<ColumnarValue>> {
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
    Ok(Some(ColumnarValue::Array(std::sync::Arc::new(divided))))
}

/// Whole numbers, calculated so that none comes out wrong.
fn checked(
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

fn divide_whole<'a>(a: &'a [V<'a>]) -> V<'a> {
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

fn remainder<'a>(a: &'a [V<'a>]) -> V<'a> {
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

fn negate<'a>(a: &'a [V<'a>]) -> V<'a> {
    match a[0].clone().number() {
        V::Int(value) => V::Int(value.saturating_neg()),
        V::UInt(value) => V::Decimal(-i128::from(value), 0),
        V::Decimal(value, scale) => V::Decimal(-value, scale),
        V::Real(value) => V::Real(-value),
        other => other,
    }
}

#[derive(Clone, Copy)]
enum Rounding {
    Nearest,
    Down,
}

fn rounded_type(known: &Known<'_>) -> DataType {
    match (&known.types[0], digits(&known.types[0])) {
        (DataType::Decimal128(all, scale), _) => {
            let wanted = match known.types.len() {
                1 => Some(0),
                _ => known.int(1),
            };
            match wanted {
                Some(wanted) => {
                    let wanted = i8::try_from(wanted.clamp(0, i64::from(*scale))).unwrap_or(*scale);
                    let all = i16::from(*all) - i16::from(*scale) + i16::from(wanted) + 1;
                    DataType::Decimal128(u8::try_from(all).unwrap_or(38).clamp(1, 38), wanted)
                }
                None => known.types[0].clone(),
            }
        }
        (_, Some(_)) => common(&known.types[..1], true),
        (_, None) => DataType::Float64,
    }
}

fn cut<'a>(a: &'a [V<'a>], rounding: Rounding) -> V<'a> {
    if a.iter().any(V::is_null) {
        return V::Null;
    }
    let wanted = a.get(1).map_or(0, V::int).clamp(-30, 30) as i8;
    match a[0].decimal() {
        Some((value, scale)) if wanted >= scale => V::Decimal(value, scale),
        Some((value, scale)) => {
            let kept = match rounding {
                Rounding::Nearest => rescale(value, scale, wanted),
                Rounding::Down => 10_i128
                    .checked_pow(u32::from(scale.abs_diff(wanted)))
                    .map(|by| value / by),
            };
            // Digits before the point that were cut are zeros.
            let kept = kept.and_then(|kept| rescale(kept, wanted, wanted.max(0)));
            V::Decimal(kept.unwrap_or(0), wanted.max(0))
        }
        None => {
            let value = a[0].real();
            let by = 10_f64.powi(i32::from(wanted.abs()));
            let scaled = if wanted < 0 { value / by } else { value * by };
            if !scaled.is_finite() {
                return V::Real(value);
            }
            let kept = match rounding {
                Rounding::Nearest => scaled.round_ties_even(),
                Rounding::Down => scaled.trunc(),
            };
            V::Real(if wanted < 0 { kept * by } else { kept / by })
        }
    }
}

fn whole_or_real(known: &Known<'_>) -> DataType {
    match &known.types[0] {
        DataType::Decimal128(..) => DataType::Int64,
        other => common(std::slice::from_ref(other), true),
    }
}

fn whole<'a>(a: &'a [V<'a>], real: fn(f64) -> f64, exact: fn(i128, i128) -> i128) -> V<'a> {
    match a[0].clone().number() {
        V::Decimal(value, scale) => {
            let by = 10_i128.pow(u32::from(scale.unsigned_abs()).min(38));
            V::Decimal(exact(value, by), 0)
        }
        V::Real(value) => V::Real(real(value)),
        other => other,
    }
}

fn real<'a>(a: &'a [V<'a>], row: fn(f64) -> f64) -> V<'a> {
    match a[0].is_null() {
        true => V::Null,
        false => finite(row(a[0].real())),
    }
}

fn two_reals<'a>(a: &'a [V<'a>], row: fn(f64, f64) -> f64) -> V<'a> {
    match a[0].is_null() || a[1].is_null() {
        true => V::Null,
        false => finite(row(a[0].real(), a[1].real())),
    }
}

fn finite(value: f64) -> V<'static> {
    match value.is_finite() {
        true => V::Real(value),
        false => V::Null,
    }
}

fn word(of: &V<'_>) -> u64 {
    match of {
        V::UInt(value) => *value,
        other => other.int().cast_unsigned(),
    }
}

fn bits<'a>(a: &'a [V<'a>], row: fn(u64, u64) -> u64) -> V<'a> {
    match a.iter().any(V::is_null) {
        true => V::Null,
        false => V::UInt(row(word(&a[0]), word(&a[1]))),
    }
}

fn shift(value: u64, by: u64, how: fn(u64, u32) -> Option<u64>) -> u64 {
    u32::try_from(by)
        .ok()
        .and_then(|by| how(value, by))
        .unwrap_or(0)
}

fn extreme<'a>(a: &'a [V<'a>], greatest: bool) -> V<'a> {
    if a.iter().any(V::is_null) {
        return V::Null;
    }
    let texts = a.iter().all(|it| matches!(it, V::Text(_)));
    let times = a.iter().any(|it| matches!(it, V::Time(_) | V::Date(_)))
        && a.iter()
            .all(|it| matches!(it, V::Time(_) | V::Date(_) | V::Text(_)));
    let mut best = &a[0];
    for other in &a[1..] {
        let order = match (texts, times) {
            (true, _) => other.said().as_bytes().cmp(best.said().as_bytes()),
            (_, true) => other.moment().cmp(&best.moment()),
            _ => match (other.decimal(), best.decimal()) {
                (Some((left, after)), Some((right, more))) => {
                    let scale = after.max(more);
                    rescale(left, after, scale).cmp(&rescale(right, more, scale))
                }
                _ => other.real().total_cmp(&best.real()),
            },
        };
        if order.is_gt() == greatest && order.is_ne() {
            best = other;
        }
    }
    best.clone()
}

fn format<'a>(a: &'a [V<'a>]) -> V<'a> {
    if a[0].is_null() || a[1].is_null() {
        return V::Null;
    }
    let places = a[1].int().clamp(0, 30) as i8;
    let rounded = match a[0].decimal() {
        Some((value, scale)) => rescale(value, scale, places)
            .map(|value| super::value::decimal_text(value, places))
            .unwrap_or_default(),
        None => format!("{:.*}", usize::from(places.unsigned_abs()), a[0].real()),
    };
    let (sign, digits) = match rounded.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", rounded.as_str()),
    };
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut grouped = String::with_capacity(whole.len() * 4 / 3 + rest.len() + 1);
    grouped.push_str(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(rest);
    V::text(grouped)
}

fn conv<'a>(a: &'a [V<'a>]) -> V<'a> {
    or_null(a, |a| {
        let (from, to) = (a[1].int(), a[2].int());
        if !(2..=36).contains(&from) || !(2..=36).contains(&to) {
            return V::Null;
        }
        let said = a[0].said();
        let digits = said.trim();
        let (negative, digits) = match digits.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, digits),
        };
        let mut value = 0_u64;
        for digit in digits
            .chars()
            .map_while(|digit| digit.to_digit(from as u32))
        {
            value = value
                .saturating_mul(from as u64)
                .saturating_add(u64::from(digit));
        }
        if negative {
            value = value.wrapping_neg();
        }
        let mut written = Vec::new();
        loop {
            let digit = char::from_digit((value % to as u64) as u32, to as u32);
            written.push(digit.unwrap_or('0').to_ascii_uppercase());
            value /= to as u64;
            if value == 0 {
                break;
            }
        }
        V::text(written.into_iter().rev().collect::<String>())
    })
}

/// A number in a statement, for conversions made when it is planned.
pub(crate) fn literal_number(text: &str) -> ScalarValue {
    let trimmed = text.trim();
    match trimmed.parse::<i64>() {
        Ok(whole) => ScalarValue::Int64(Some(whole)),
        Err(_) => ScalarValue::Float64(Some(super::value::number_prefix(text))),
    }
}
