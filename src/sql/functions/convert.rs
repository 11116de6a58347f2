//! CAST and CONVERT, and the conversions that comparisons need.

use datafusion::arrow::datatypes::DataType;

use super::Returns::By;
use super::value::{Prefix, Value, parse_datetime};
use super::{ArgumentInfo, DATE, FunctionDef, INT, REAL, TEXT, TIME, UINT, def, maybe, strict};

pub(super) fn functions() -> Vec<FunctionDef> {
    vec![
        strict("__text", (1, 1), TEXT, as_text).identity_for(DataType::is_string),
        def("__char", (2, 2), TEXT, |a| match a[0].is_null() {
            true => Value::Null,
            false => {
                let length = usize::try_from(a[1].int()).unwrap_or(0);
                Value::text(a[0].to_text().chars().take(length).collect::<String>())
            }
        }),
        strict("__real", (1, 1), REAL, |a| Value::Double(a[0].real()))
            .identity_for(|given| *given == DataType::Float64),
        strict("__signed", (1, 1), INT, |a| match &a[0] {
            // What stands before the point, not rounded.
            Value::Text(text) => Value::Int(text_prefix(text)),
            Value::UInt(value) => Value::Int(value.cast_signed()),
            other => Value::Int(other.int()),
        }),
        strict("__unsigned", (1, 1), UINT, |a| match &a[0] {
            Value::Text(text) => Value::UInt(match text.trim().parse() {
                Ok(whole) => whole,
                Err(_) => text_prefix(text).cast_unsigned(),
            }),
            Value::UInt(value) => Value::UInt(*value),
            Value::Double(value) if *value < 0.0 => Value::UInt(0),
            Value::Float(value) if *value < 0.0 => Value::UInt(0),
            Value::Decimal(value, _) if *value < 0 => Value::UInt(0),
            other => Value::UInt(other.int().cast_unsigned()),
        }),
        def("__decimal", (3, 3), By(decimal_type), |a| match &a[0] {
            Value::Text(text) => exact(text),
            other => other.clone(),
        }),
        maybe("__date date", (1, 1), DATE, moment),
        maybe("__datetime", (1, 1), TIME, moment)
            .identity_for(|given| matches!(given, DataType::Timestamp(..))),
        maybe("timestamp", (1, 1), TIME, moment),
        maybe("__time", (1, 1), TEXT, |a| match &a[0] {
            Value::Text(text) if parse_datetime(text).is_none() => Some(Value::text(text.as_ref())),
            other => Some(Value::text(
                other.date_time()?.format("%H:%M:%S").to_string(),
            )),
        }),
        strict("binary", (1, 1), TEXT, as_text),
    ]
}

fn as_text<'a>(a: &'a [Value<'a>]) -> Value<'a> {
    Value::Text(a[0].to_text())
}

fn moment<'a>(a: &'a [Value<'a>]) -> Option<Value<'a>> {
    a[0].micros().map(Value::Datetime)
}

/// The whole number that a text begins with.
fn text_prefix(text: &str) -> i64 {
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
