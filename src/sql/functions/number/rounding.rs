//! ROUND, TRUNCATE, FLOOR, CEILING and FORMAT.
//!
//! Decimals round half away from zero, doubles half to even, as in MySQL; digits cut before the
//! point become zeros. Of a DATETIME the fraction of the second is cut, and it stays a DATETIME; a
//! DATE is a number.

use datafusion::arrow::datatypes::{DataType, TimeUnit};

use crate::sql::functions::result_type::{common, decimal};
use crate::sql::functions::value::{Value, rescale};
use crate::sql::functions::{ArgumentInfo, SECONDS};

/// How to drop digits.
#[derive(Clone, Copy)]
pub(super) enum Rounding {
    Nearest,
    Down,
}

/// The type after ROUND: the requested digits after the point, and room for a carry.
pub(super) fn rounded_type(known: &ArgumentInfo<'_>) -> DataType {
    let (whole, scale) = match &known.types[0] {
        DataType::Decimal128(all, scale) => (i16::from(*all) - i16::from(*scale), *scale),
        DataType::Timestamp(TimeUnit::Microsecond, _) if known.types.len() > 1 => {
            return DataType::Timestamp(TimeUnit::Microsecond, None);
        }
        DataType::Timestamp(..) => return SECONDS,
        _ => return common(&known.types[..1], true),
    };
    let wanted = match known.types.len() {
        1 => 0,
        _ => known.int(1).unwrap_or(i64::from(scale)),
    };
    let wanted = i8::try_from(wanted.clamp(0, i64::from(scale))).unwrap_or(scale);
    decimal(whole + 1, wanted)
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
    if let Value::Datetime(micros) = a[0] {
        let by = 10_i64.pow(6 - u32::from(wanted.clamp(0, 6).unsigned_abs()));
        let half = if matches!(rounding, Rounding::Nearest) { by / 2 } else { 0 };
        return in_steps(micros.checked_add(half)?, by, i128::div_euclid);
    }
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
        None => Value::Double(cut_real(a[0].real(), wanted, rounding)),
    })
}

/// Cuts a double to so many digits after the point, or before it if negative.
fn cut_real(value: f64, wanted: i8, rounding: Rounding) -> f64 {
    let by = 10_f64.powi(i32::from(wanted.abs()));
    let scaled = if wanted < 0 { value / by } else { value * by };
    let kept = match rounding {
        _ if !scaled.is_finite() => return value,
        Rounding::Nearest => scaled.round_ties_even(),
        Rounding::Down => scaled.trunc(),
    };
    if wanted < 0 { kept * by } else { kept / by }
}

/// The type after FLOOR and CEILING.
pub(super) fn whole_or_real(known: &ArgumentInfo<'_>) -> DataType {
    match &known.types[0] {
        DataType::Decimal128(..) => DataType::Int64,
        DataType::Timestamp(..) => SECONDS,
        other => common(std::slice::from_ref(other), true),
    }
}

/// FLOOR and CEILING
pub(super) fn whole<'a>(
    value: &Value<'a>,
    real: fn(f64) -> f64,
    exact: fn(i128, i128) -> i128,
) -> Option<Value<'a>> {
    if let Value::Datetime(micros) = *value {
        return in_steps(micros, 1_000_000, exact);
    }
    Some(match value.number() {
        Value::Decimal(value, scale) => {
            let by = 10_i128.pow(u32::from(scale.unsigned_abs()).min(38));
            Value::Decimal(exact(value, by), 0)
        }
        Value::Double(value) => Value::Double(real(value)),
        other => other,
    })
}

/// A DATETIME that is a multiple of so many microseconds, by a division that rounds.
fn in_steps<'a>(micros: i64, by: i64, divide: fn(i128, i128) -> i128) -> Option<Value<'a>> {
    i64::try_from(divide(micros.into(), by.into())).ok()?.checked_mul(by).map(Value::Datetime)
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
        None => {
            let rounded = cut_real(a[0].real(), places, Rounding::Nearest);
            // -0 becomes 0.
            with_places(rounded + 0.0, usize::from(places.unsigned_abs()))
        }
    };
    let first = text.find(|sign: char| sign.is_ascii_digit())?;
    let mut at = text.find('.').unwrap_or(text.len());
    while at > first + 3 {
        at -= 3;
        text.insert(at, ',');
    }
    Some(text)
}

/// A double with so many digits after the point: those that it prints, then zeros.
fn with_places(value: f64, places: usize) -> String {
    let printed = value.to_string();
    let (whole, fraction) = printed.split_once('.').unwrap_or((&printed, ""));
    match places {
        0 if fraction.is_empty() => printed,
        _ if fraction.len() <= places && value.is_finite() => {
            format!("{whole}.{fraction:0<places$}")
        }
        _ => format!("{value:.places$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_formatted_as_they_are_rounded() {
        for (value, places, text) in [
            (1.115, 2, "1.12"),
            (2.675, 2, "2.68"),
            (0.145, 2, "0.14"),
            (0.5, 0, "0"),
            (1.5, 0, "2"),
            (2.5, 0, "2"),
            (-0.4, 0, "0"),
            (-0.004, 2, "0.00"),
            (1_234_567.895, 2, "1,234,567.90"),
            (-1_234.5, -2, "-1,234"),
            (0.1, 20, "0.10000000000000000000"),
            (1e-20, 30, "0.000000000000000000010000000000"),
            (1e20, 2, "100,000,000,000,000,000,000.00"),
            (123_456_789_012_345_678.0, 1, "123,456,789,012,345,680.0"),
            (1e22 / 3.0, 0, "3,333,333,333,333,333,500,000"),
            (123_456_789.123_456_79, 10, "123,456,789.1234567900"),
        ] {
            let shown = format(&[Value::Double(value), Value::Int(places)]);
            assert_eq!(shown.as_deref(), Some(text), "{value:e}");
        }
    }
}
