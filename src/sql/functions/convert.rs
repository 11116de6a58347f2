//! CAST and CONVERT, and the conversions that comparisons need.

use datafusion::arrow::datatypes::DataType;

use super::value::{Prefix, Value};
use super::{ArgumentInfo, FunctionDef, Returns, seconds_type, strict, typed};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("__text", (1, 1), |a| a[0].to_text().into_owned()).identity_for(DataType::is_string),
        strict("__char", (2, 2), |a| {
            let length = usize::try_from(a[1].int()).unwrap_or(0);
            a[0].to_text().chars().take(length).collect::<String>()
        }),
        strict("__real", (1, 1), |a| a[0].real()).identity_for(|given| *given == DataType::Float64),
        strict("__signed", (1, 1), |a| match &a[0] {
            // Truncates at the point instead of rounding.
            Value::Text(text) => text_prefix(text),
            Value::UInt(value) => value.cast_signed(),
            other => other.int(),
        }),
        strict("__unsigned", (1, 1), |a| match &a[0] {
            Value::Text(text) => match text_prefix(text) {
                i64::MAX => Prefix::of(text).whole.parse().unwrap_or(u64::MAX),
                whole => whole.cast_unsigned(),
            },
            Value::Double(_) | Value::Float(_) | Value::Decimal(..) if a[0].real() < 0.0 => 0,
            other => other.unsigned(),
        }),
        typed("__decimal", (3, 3), decimal_type, |a| match &a[0] {
            Value::Text(text) => Some(exact(text)),
            other => Some(other.clone()),
        }),
        moment("__date date", |_| DataType::Date32),
        moment("__datetime", seconds_type)
            .identity_for(|given| matches!(given, DataType::Timestamp(..))),
        strict("binary", (1, 1), |a| a[0].to_text().into_owned()),
    ]
}

fn moment(names: &'static str, returns: Returns) -> FunctionDef {
    typed(names, (1, 1), returns, |a| a[0].micros().map(Value::Datetime))
}

/// The integer that a text begins with.
pub(super) fn text_prefix(text: &str) -> i64 {
    let whole = Prefix::of(text).whole;
    match whole.parse() {
        Ok(whole) => whole,
        Err(_) if !whole.ends_with(|sign: char| sign.is_ascii_digit()) => 0,
        Err(_) if whole.starts_with('-') => i64::MIN,
        Err(_) => i64::MAX,
    }
}

/// The exact number that a text begins with.
fn exact(text: &str) -> Value<'static> {
    let number = Prefix::of(text);
    let fraction = &number.fraction[..number.fraction.len().min(30)];
    let scientific = number.all.contains(['e', 'E']);
    match format!("{}{fraction}", number.whole).parse() {
        Ok(value) if !scientific => Value::Decimal(value, fraction.len() as i8),
        _ => Value::Double(number.real()),
    }
}

fn decimal_type(known: &ArgumentInfo<'_>) -> DataType {
    let digits = known.int(1).unwrap_or(10).clamp(1, 38);
    let scale = known.int(2).unwrap_or(0).clamp(0, digits.min(30));
    DataType::Decimal128(digits as u8, scale as i8)
}
