//! CAST and CONVERT, and the conversions that comparisons need.

use datafusion::arrow::datatypes::DataType;

use super::value::{V, parse_moment};
use super::{Def, Known, date_type, def, int_type, real_type, text_type, time_type, uint_type};

pub(super) const FUNCTIONS: &[Def] = &[
    Def {
        identity: is_text,
        ..def("__text", (1, 1), text_type, as_text)
    },
    def("__char", (2, 2), text_type, |a| {
        match (a[0].is_null(), a[1].int()) {
            (true, _) => V::Null,
            (false, length) => {
                let length = usize::try_from(length).unwrap_or(0);
                V::text(a[0].said().chars().take(length).collect::<String>())
            }
        }
    }),
    Def {
        identity: |given| *given == DataType::Float64,
        ..def("__real", (1, 1), real_type, |a| match a[0].is_null() {
            true => V::Null,
            false => V::Real(a[0].real()),
        })
    },
    def("__signed", (1, 1), int_type, |a| match &a[0] {
        V::Null => V::Null,
        // What stands before the point, not rounded.
        V::Text(text) => V::Int(text_prefix(text)),
        V::UInt(value) => V::Int(value.cast_signed()),
        other => V::Int(other.int()),
    }),
    def("__unsigned", (1, 1), uint_type, |a| match &a[0] {
        V::Null => V::Null,
        V::Text(text) => V::UInt(match text.trim().parse() {
            Ok(whole) => whole,
            Err(_) => text_prefix(text).cast_unsigned(),
        }),
        V::UInt(value) => V::UInt(*value),
        V::Real(value) if *value < 0.0 => V::UInt(0),
        V::Single(value) if *value < 0.0 => V::UInt(0),
        V::Decimal(value, _) if *value < 0 => V::UInt(0),
        other => V::UInt(other.int().cast_unsigned()),
    }),
    def("__decimal", (3, 3), decimal_type, |a| match &a[0] {
        V::Text(text) => exact(text),
        other => other.clone(),
    }),
    def("__date", (1, 1), date_type, |a| moment(&a[0])),
    def("date", (1, 1), date_type, |a| moment(&a[0])),
    Def {
        identity: |given| matches!(given, DataType::Timestamp(..)),
        ..def("__datetime", (1, 1), time_type, |a| moment(&a[0]))
    },
    def("timestamp", (1, 1), time_type, |a| moment(&a[0])),
    def("__time", (1, 1), text_type, |a| match &a[0] {
        V::Text(text) if parse_moment(text).is_none() => V::text(text.to_string()),
        other => match other.date_time() {
            Some(at) => V::text(at.format("%H:%M:%S").to_string()),
            None => V::Null,
        },
    }),
    def("binary", (1, 1), text_type, as_text),
];

fn is_text(given: &DataType) -> bool {
    matches!(
        given,
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8
    )
}

fn as_text<'a>(a: &'a [V<'a>]) -> V<'a> {
    match a[0].is_null() {
        true => V::Null,
        false => V::Text(a[0].said()),
    }
}

fn moment<'a>(of: &V<'a>) -> V<'a> {
    of.moment().map_or(V::Null, V::Time)
}

/// The whole number that a text begins with.
fn text_prefix(text: &str) -> i64 {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let written = &text[..sign + digits];
    match written.parse() {
        Ok(whole) => whole,
        Err(_) if digits == 0 => 0,
        Err(_) if text.starts_with('-') => i64::MIN,
        Err(_) => i64::MAX,
    }
}

/// The exact number that a text begins with.
fn exact(text: &str) -> V<'static> {
    let text = text.trim_start();
    let sign = usize::from(text.starts_with(['-', '+']));
    let end = text[sign..]
        .find(|sign: char| !sign.is_ascii_digit() && sign != '.')
        .map_or(text.len(), |end| sign + end);
    let (whole, rest) = match text[..end].split_once('.') {
        Some((whole, rest)) => (whole, rest.split('.').next().unwrap_or("")),
        None => (&text[..end], ""),
    };
    let rest = &rest[..rest.len().min(30)];
    let scientific = matches!(text.as_bytes().get(end), Some(b'e' | b'E'));
    match (format!("{whole}{rest}").parse(), i8::try_from(rest.len())) {
        (Ok(value), Ok(scale)) if !scientific => V::Decimal(value, scale),
        _ => V::Real(super::value::number_prefix(text)),
    }
}

fn decimal_type(known: &Known<'_>) -> DataType {
    let digits = known.int(1).unwrap_or(10).clamp(1, 38);
    let scale = known.int(2).unwrap_or(0).clamp(0, digits.min(30));
    DataType::Decimal128(digits as u8, scale as i8)
}
