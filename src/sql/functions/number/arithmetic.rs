//! Division with MySQL's digits, remainders, and integer arithmetic that detects overflow.
//!
//! Decimals have 128 bits; a result that needs more is an error, as an overflowing BIGINT is in
//! MySQL.

use datafusion::arrow::array::{ArrayRef, Datum, Float64Array};
use datafusion::arrow::compute::kernels::{self, numeric};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options, nullif};
use datafusion::arrow::datatypes::{DataType, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::common::Result;

use crate::sql::functions::result_type::{decimal, digits};
use crate::sql::functions::value::{Value, aligned};
use crate::sql::functions::{ArgumentInfo, out_of_range};

/// Digits that a division adds: `div_precision_increment`.
const DIVISION_DIGITS: i8 = 4;

/// Most digits after the point.
const SCALE_MAX: i8 = 30;

/// Most digits after the point of a decimal that is calculated with: those before it need room too.
pub(crate) const INNER_SCALE_MAX: i8 = 20;

/// The digits after the point of a quotient: as MySQL shows it, four more than the dividend has;
/// inside an expression those with which it calculates on, kept in groups of nine.
fn quotient_scale(after: i8, more: i8, inner: bool) -> i8 {
    if !inner {
        return (after + DIVISION_DIGITS).min(SCALE_MAX);
    }
    let groups = |digits: i8| (digits + 8) / 9 * 9;
    let (left, right) = (groups(after), groups(more));
    let missing = (DIVISION_DIGITS - (left - after) - (right - more)).max(0);
    groups(left + right + missing).min(INNER_SCALE_MAX)
}

/// The type of a quotient; a double if either side is one.
pub(super) fn quotient_type<const INNER: bool>(known: &ArgumentInfo<'_>) -> DataType {
    match (digits(&known.types[0]), digits(&known.types[1])) {
        (Some((whole, after)), Some((_, more))) => {
            decimal(whole + i16::from(more), quotient_scale(after, more, INNER))
        }
        _ => DataType::Float64,
    }
}

/// `/`; inside an expression the digits past those that MySQL keeps are cut.
pub(super) fn quotient<'a, const INNER: bool>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    let Some(((left, after), (right, more))) = a[0].decimal().zip(a[1].decimal()) else {
        let right = a[1].real();
        return (right != 0.0).then(|| Value::Double(a[0].real() / right));
    };
    let scale = quotient_scale(after, more, INNER);
    let (whole, rest) = divided(left, u32::from((scale - after + more).unsigned_abs()), right)?;
    let up = !INNER && rest.unsigned_abs() >= right.unsigned_abs() - rest.unsigned_abs();
    let away = if (left < 0) == (right < 0) { 1 } else { -1 };
    Some(Value::Decimal(whole.saturating_add(if up { away } else { 0 }), scale))
}

/// `left * 10^digits / right`, the greatest number if there is no room, and the rest; `None` if it
/// is divided by 0.
fn divided(left: i128, digits: u32, right: i128) -> Option<(i128, i128)> {
    if right == 0 {
        return None;
    }
    if let Some(left) = 10_i128.checked_pow(digits).and_then(|by| left.checked_mul(by)) {
        return Some((left.checked_div(right)?, left.checked_rem(right)?));
    }
    let by = i256::from_i128(10).checked_pow(digits);
    let Some(left) = by.and_then(|by| i256::from_i128(left).checked_mul(by)) else {
        return Some((i128::MAX, 0));
    };
    let right = i256::from_i128(right);
    let (whole, rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    Some((whole.to_i128().unwrap_or(i128::MAX), rest.to_i128()?))
}

/// The type of a product with so many digits after the point as its third argument says.
pub(super) fn product_type(known: &ArgumentInfo<'_>) -> DataType {
    let scale = known.int(2).and_then(|scale| i8::try_from(scale).ok());
    match (digits(&known.types[0]), digits(&known.types[1]), scale) {
        (Some((left, _)), Some((right, _)), Some(scale)) => decimal(left + right, scale),
        _ => DataType::Float64,
    }
}

/// `*` of decimals whose product has more digits than there is room for; inside an expression the
/// digits past those that are kept are cut.
pub(super) fn product<'a, const INNER: bool>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    let ((left, after), (right, behind)) = a[0].decimal().zip(a[1].decimal())?;
    let all = i256::from_i128(left).checked_mul(i256::from_i128(right))?;
    let scale = i8::try_from(a[2].int()).ok()?.min(after + behind);
    let by = i256::from_i128(10).checked_pow(u32::from((after + behind).abs_diff(scale)))?;
    let (whole, rest) = (all.checked_div(by)?, all.checked_rem(by)?.wrapping_abs());
    let up = !INNER && rest >= by.wrapping_sub(rest);
    let away = if (left < 0) == (right < 0) { 1 } else { -1 };
    let whole = whole.to_i128().unwrap_or(i128::MAX);
    Some(Value::Decimal(whole.saturating_add(if up { away } else { 0 }), scale))
}

/// Divides doubles, a column at a time.
pub(super) fn divide_reals(a: &[ArrayRef]) -> Result<Option<ArrayRef>> {
    let types = a.iter().map(|side| side.data_type());
    if !types.clone().any(DataType::is_floating) || !types.clone().all(DataType::is_numeric) {
        return Ok(None);
    }
    let real = |side: &ArrayRef| cast(side, &DataType::Float64);
    let (left, right) = (real(&a[0])?, real(&a[1])?);
    let zero = Float64Array::new_scalar(0.0);
    let by_zero = kernels::cmp::eq(&right, &zero)?;
    let quotient = numeric::div(&left, &nullif(&right, &by_zero)?)?;
    // -0 becomes 0.
    Ok(Some(numeric::add(&quotient, &zero)?))
}

/// Integer arithmetic with an error on overflow.
pub(super) fn checked(
    a: &[ArrayRef],
    how: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>,
) -> Result<Option<ArrayRef>> {
    // Unsigned integers are calculated as decimals, which have room for them.
    let is_unsigned = a.iter().any(|side| *side.data_type() == DataType::UInt64);
    let meant = if is_unsigned { DataType::Decimal128(20, 0) } else { DataType::Int64 };
    let whole = |side: &ArrayRef| cast(side, &meant);
    let made = how(&whole(&a[0])?, &whole(&a[1])?).and_then(|made| match is_unsigned {
        true => {
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            cast_with_options(&made, &DataType::UInt64, &strict)
        }
        false => Ok(made),
    });
    Ok(Some(made.map_err(|_| out_of_range(is_unsigned))?))
}

/// DIV
pub(super) fn divide_whole<'a>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    match (&a[0], &a[1]) {
        (_, divisor) if !divisor.is_true() => None,
        (Value::UInt(left), Value::UInt(right)) => Some(Value::UInt(left / right)),
        (left, right) => match left.decimal().zip(right.decimal()) {
            Some((left, right)) => {
                let most = |whole: i256| whole.to_i128().unwrap_or(i128::MAX);
                let wide = |left: i256, right| left.checked_div(right).map(most);
                let whole = aligned(left, right, |left, right| Some(left / right), wide)?;
                Some(Value::Decimal(whole, 0))
            }
            None => Some(Value::Double((left.real() / right.real()).trunc())),
        },
    }
}

/// `%` and MOD
pub(super) fn remainder<'a>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    match a[0].decimal().zip(a[1].decimal()) {
        Some((left, right)) => {
            let wide = |left: i256, right| left.checked_rem(right)?.to_i128();
            let rest = aligned(left, right, i128::checked_rem, wide)?;
            Some(Value::Decimal(rest, left.1.max(right.1)))
        }
        None if !a[1].is_true() => None,
        None => Some(Value::Double(a[0].real() % a[1].real())),
    }
}

/// Unary minus.
pub(super) fn negate(number: Value<'_>) -> Value<'_> {
    match number {
        Value::Int(value) => match value.checked_neg() {
            Some(value) => Value::Int(value),
            None => Value::Decimal(-i128::from(value), 0),
        },
        Value::UInt(value) => Value::Decimal(-i128::from(value), 0),
        Value::Decimal(value, scale) => Value::Decimal(-value, scale),
        Value::Double(value) => Value::Double(-value),
        other => other,
    }
}
