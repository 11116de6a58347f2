//! ROUND, TRUNCATE, FLOOR, CEILING and FORMAT.
//!
//! Decimals round half away from zero, doubles half to even, as in MySQL; digits cut before the
//! point become zeros.

use datafusion::arrow::datatypes::DataType;

use crate::sql::functions::ArgumentInfo;
use crate::sql::functions::result_type::common;
use crate::sql::functions::value::{Value, rescale};

/// How to drop digits.
#[derive(Clone, Copy)]
pub(super) enum Rounding {
    Nearest,
    Down,
}

/// The type after ROUND: the requested digits after the point, and room for a carry.
pub(super) fn rounded_type(known: &ArgumentInfo<'_>) -> DataType {
    let DataType::Decimal128(all, scale) = known.types[0] else {
        return common(&known.types[..1], true);
    };
    let wanted = match known.types.len() {
        1 => 0,
        _ => known.int(1).unwrap_or(i64::from(scale)),
    };
    let wanted = i8::try_from(wanted.clamp(0, i64::from(scale))).unwrap_or(scale);
    let all = i16::from(all) - i16::from(scale) + i16::from(wanted) + 1;
    DataType::Decimal128(u8::try_from(all).unwrap_or(38).clamp(1, 38), wanted)
}

/// The type of a decimal that is shown with so many digits after the point.
pub(super) fn shown_type(known: &ArgumentInfo<'_>) -> DataType {
    match (rounded_type(known), known.int(1)) {
        (DataType::Decimal128(all, scale), Some(wanted)) => {
            let more = u8::try_from(wanted - i64::from(scale)).unwrap_or(0);
            DataType::Decimal128((all + more).min(38), scale + more.cast_signed())
        }
        (other, _) => other,
    }
}

/// ROUND and TRUNCATE
pub(super) fn cut<'a>(a: &'a [Value<'a>], rounding: Rounding) -> Option<Value<'a>> {
    let wanted = a.get(1).map_or(0, Value::int).clamp(-30, 30) as i8;
    Some(match a[0].decimal() {
        Some((value, scale)) if wanted >= scale => Value::Decimal(value, scale),
        Some((value, scale)) => {
            let kept = match rounding {
                Rounding::Nearest => rescale(value, scale, wanted),
                Rounding::Down => {
                    10_i128.checked_pow(u32::from(scale.abs_diff(wanted))).map(|by| value / by)
                }
            };
            // Dropped digits before the point become zeros.
            let kept = kept.and_then(|kept| rescale(kept, wanted, wanted.max(0)));
            Value::Decimal(kept.unwrap_or(0), wanted.max(0))
        }
        None => {
            let value = a[0].real();
            let by = 10_f64.powi(i32::from(wanted.abs()));
            let scaled = if wanted < 0 { value / by } else { value * by };
            let kept = match rounding {
                _ if !scaled.is_finite() => return Some(Value::Double(value)),
                Rounding::Nearest => scaled.round_ties_even(),
                Rounding::Down => scaled.trunc(),
            };
            Value::Double(if wanted < 0 { kept * by } else { kept / by })
        }
    })
}

/// The type after FLOOR and CEILING.
pub(super) fn whole_or_real(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        DataType::Decimal128(..) => DataType::Int64,
        other => common(std::slice::from_ref(other), true),
    }
}

/// FLOOR and CEILING
pub(super) fn whole(
    number: Value<'_>,
    real: fn(f64) -> f64,
    exact: fn(i128, i128) -> i128,
) -> Value<'_> {
    match number {
        Value::Decimal(value, scale) => {
            let by = 10_i128.pow(u32::from(scale.unsigned_abs()).min(38));
            Value::Decimal(exact(value, by), 0)
        }
        Value::Double(value) => Value::Double(real(value)),
        other => other,
    }
}

/// FORMAT: digits in groups of three.
pub(super) fn format(a: &[Value<'_>]) -> Option<String> {
    if a[0].is_null() || a[1].is_null() {
        return None;
    }
    let places = a[1].int().clamp(0, 30) as i8;
    let mut text = match a[0].decimal() {
        Some((value, scale)) => {
            let value = rescale(value, scale, places)?;
            Value::Decimal(value, places).to_text().into_owned()
        }
        None => format!("{:.*}", usize::from(places.unsigned_abs()), a[0].real()),
    };
    let first = text.find(|sign: char| sign.is_ascii_digit())?;
    let mut at = text.find('.').unwrap_or(text.len());
    while at > first + 3 {
        at -= 3;
        text.insert(at, ',');
    }
    Some(text)
}
