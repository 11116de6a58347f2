//! One value as MySQL's functions see it, and the way from and to Arrow's arrays.
//!
//! MySQL converts freely: a text is the number it begins with, a number is its digits, a time is a number
//! `YYYYMMDDhhmmss`. The functions work on single values with those conversions; a column is read and written row by row.
//! Nothing here fails: what cannot be converted is 0 or NULL, as MySQL has it.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, Timelike};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Date32Builder, Decimal128Builder, Float64Builder,
    Int64Builder, NullArray, StringViewBuilder, TimestampMicrosecondBuilder,
    TimestampSecondBuilder, UInt64Builder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::Result;

/// Days from year 1 to 1970, as chrono counts them.
const DAYS_TO_1970: i32 = 719_163;

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum V<'a> {
    Null,
    Int(i64),
    UInt(u64),
    /// A number and how many of its digits stand after the point.
    Decimal(i128, i8),
    Real(f64),
    Single(f32),
    Text(Cow<'a, str>),
    /// Microseconds since 1970, on the clock of the session.
    Time(i64),
    /// Days since 1970.
    Date(i32),
}

impl<'a> V<'a> {
    /// A text.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        V::Text(text.into())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, V::Null)
    }

    /// 1 or 0.
    pub(crate) fn truth(of: bool) -> Self {
        V::Int(i64::from(of))
    }

    /// As a condition: whether it is a number other than 0.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            V::Int(value) => *value != 0,
            V::UInt(value) => *value != 0,
            V::Decimal(value, _) => *value != 0,
            other => other.real() != 0.0,
        }
    }

    /// As a double.
    pub(crate) fn real(&self) -> f64 {
        match self {
            V::Null => 0.0,
            V::Int(value) => *value as f64,
            V::UInt(value) => *value as f64,
            V::Decimal(value, scale) => decimal_text(*value, *scale)
                .parse()
                .unwrap_or(*value as f64),
            V::Real(value) => *value,
            V::Single(value) => f64::from(*value),
            V::Text(text) => number_prefix(text),
            V::Time(_) | V::Date(_) => self.int() as f64,
        }
    }

    /// As a whole number, rounded.
    pub(crate) fn int(&self) -> i64 {
        match self {
            V::Null => 0,
            V::Int(value) => *value,
            V::UInt(value) => i64::try_from(*value).unwrap_or(i64::MAX),
            V::Decimal(value, scale) => {
                clamp(rescale(*value, *scale, 0).unwrap_or(i128::from(i64::MAX)))
            }
            V::Real(value) => value.round_ties_even() as i64,
            V::Single(value) => f64::from(*value).round_ties_even() as i64,
            V::Text(text) => match whole_prefix(text) {
                Some(whole) => whole,
                None => number_prefix(text).round() as i64,
            },
            V::Time(micros) => match date_time(*micros) {
                Some(at) => {
                    let date = i64::from(at.year()) * 10_000
                        + i64::from(at.month()) * 100
                        + i64::from(at.day());
                    let time = i64::from(at.hour()) * 10_000
                        + i64::from(at.minute()) * 100
                        + i64::from(at.second());
                    date * 1_000_000 + time
                }
                None => 0,
            },
            V::Date(days) => match date(*days) {
                Some(at) => {
                    i64::from(at.year()) * 10_000
                        + i64::from(at.month()) * 100
                        + i64::from(at.day())
                }
                None => 0,
            },
        }
    }

    /// As text; NULL stays what it is to the caller (an empty text here).
    pub(crate) fn said(&self) -> Cow<'_, str> {
        match self {
            V::Null => "".into(),
            V::Int(value) => value.to_string().into(),
            V::UInt(value) => value.to_string().into(),
            V::Decimal(value, scale) => decimal_text(*value, *scale).into(),
            V::Real(value) => double_text(*value).into(),
            V::Single(value) => float_text(*value).into(),
            V::Text(text) => Cow::Borrowed(text.as_ref()),
            V::Time(micros) => match date_time(*micros) {
                Some(at) if at.nanosecond() == 0 => {
                    at.format("%Y-%m-%d %H:%M:%S").to_string().into()
                }
                Some(at) => at.format("%Y-%m-%d %H:%M:%S%.6f").to_string().into(),
                None => "".into(),
            },
            V::Date(days) => date(*days)
                .map(|at| at.format("%Y-%m-%d").to_string())
                .unwrap_or_default()
                .into(),
        }
    }

    /// As a moment on the session's clock, microseconds; `None` when it is none.
    pub(crate) fn moment(&self) -> Option<i64> {
        match self {
            V::Time(micros) => Some(*micros),
            V::Date(days) => Some(i64::from(*days) * 86_400_000_000),
            V::Text(text) => parse_moment(text),
            V::Null => None,
            number => parse_moment_number(number.int()),
        }
    }

    /// As a moment, in parts.
    pub(crate) fn date_time(&self) -> Option<NaiveDateTime> {
        self.moment().and_then(date_time)
    }

    /// As a number of any kind: texts and times become one.
    pub(crate) fn number(self) -> V<'static> {
        match self {
            V::Text(text) => V::Real(number_prefix(&text)),
            V::Time(_) | V::Date(_) => V::Int(self.int()),
            V::Null => V::Null,
            V::Int(value) => V::Int(value),
            V::UInt(value) => V::UInt(value),
            V::Decimal(value, scale) => V::Decimal(value, scale),
            V::Real(value) => V::Real(value),
            V::Single(value) => V::Real(f64::from(value)),
        }
    }

    /// As a number with digits after the point; `None` for doubles.
    pub(crate) fn decimal(&self) -> Option<(i128, i8)> {
        match self {
            V::Int(value) => Some((i128::from(*value), 0)),
            V::UInt(value) => Some((i128::from(*value), 0)),
            V::Decimal(value, scale) => Some((*value, *scale)),
            V::Time(_) | V::Date(_) => Some((i128::from(self.int()), 0)),
            V::Null | V::Real(_) | V::Single(_) | V::Text(_) => None,
        }
    }
}

fn clamp(value: i128) -> i64 {
    value.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

/// A moment in parts.
pub(crate) fn date_time(micros: i64) -> Option<NaiveDateTime> {
    chrono::DateTime::from_timestamp_micros(micros).map(|at| at.naive_utc())
}

/// A day in parts.
pub(crate) fn date(days: i32) -> Option<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(days.checked_add(DAYS_TO_1970)?)
}

/// Days since 1970.
pub(crate) fn days_of(date: NaiveDate) -> i32 {
    date.num_days_from_ce() - DAYS_TO_1970
}

/// Other digits after the point, rounded half away from zero; `None` beyond 38 digits.
pub(crate) fn rescale(value: i128, from: i8, to: i8) -> Option<i128> {
    let by = 10_i128.checked_pow(u32::from(from.abs_diff(to)))?;
    if to >= from {
        return value.checked_mul(by);
    }
    let (whole, rest) = (value / by, value % by);
    match rest.abs() >= by - rest.abs() {
        true => Some(whole + value.signum()),
        false => Some(whole),
    }
}

/// `-12.50`.
pub(crate) fn decimal_text(value: i128, scale: i8) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    let Ok(scale) = usize::try_from(scale) else {
        return format!("{sign}{digits}{}", "0".repeat(scale.unsigned_abs().into()));
    };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, rest) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{rest}")
}

/// A double as MySQL prints it: the shortest digits that say it, with an exponent from 1e15 on and below 1e-15.
pub(crate) fn double_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    match (1e-15..1e15).contains(&size) || !value.is_finite() {
        true => value.to_string(),
        false => format!("{value:e}"),
    }
}

/// A float as MySQL prints it: six digits.
pub(crate) fn float_text(value: f32) -> String {
    let value = f64::from(value);
    if value == 0.0 || !value.is_finite() {
        return double_text(value);
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    double_text(rounded)
}

/// The number that a text begins with, 0 if it does not.
pub(crate) fn number_prefix(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(sign);
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') {
        let after = digits(end + 1);
        if after > end + 1 || whole > sign {
            end = after;
        }
    }
    if end == sign || text[sign..end] == *"." {
        return 0.0;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    let value: f64 = text[..end].parse().unwrap_or(0.0);
    value.clamp(f64::MIN, f64::MAX)
}

/// The same for a text that is a whole number and no more.
fn whole_prefix(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// Reads `2026-11-21 10:00:00.5`, `2026-11-21T10:00`, `20261121100000`, `26-1-2`.
pub(crate) fn parse_moment(text: &str) -> Option<i64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_moment_number(text.parse().ok()?);
    }
    let mut parts = [0_u32; 6];
    let mut known = 0;
    let mut micros = 0_i64;
    let mut rest = text;
    while known < 6 {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 || length > 9 {
            break;
        }
        parts[known] = rest[..length].parse().ok()?;
        if known == 0 && length <= 2 {
            parts[0] += if parts[0] < 70 { 2_000 } else { 1_900 };
        }
        known += 1;
        rest = &rest[length..];
        if known == 6 {
            break;
        }
        let mut signs = rest.chars();
        match signs.next() {
            Some(sign) if sign.is_ascii_punctuation() || sign == ' ' || sign == 'T' => {
                rest = signs.as_str().trim_start_matches(' ');
            }
            _ => break,
        }
    }
    if known < 3 {
        return None;
    }
    if known == 6
        && let Some(fraction) = rest.strip_prefix('.')
    {
        let digits: String = fraction
            .chars()
            .take_while(char::is_ascii_digit)
            .take(6)
            .collect();
        micros = format!("{digits:0<6}").parse().unwrap_or(0);
    }
    let date = NaiveDate::from_ymd_opt(i32::try_from(parts[0]).ok()?, parts[1], parts[2])?;
    let time = NaiveTime::from_hms_opt(parts[3], parts[4], parts[5])?;
    Some(date.and_time(time).and_utc().timestamp_micros() + micros)
}

/// Reads `YYYYMMDD` and `YYYYMMDDhhmmss`.
fn parse_moment_number(number: i64) -> Option<i64> {
    let (day, time) = match number {
        0..=99_999_999 => (number, 0),
        _ => (number / 1_000_000, number % 1_000_000),
    };
    let mut year = i32::try_from(day / 10_000).ok()?;
    if day < 1_000_000 {
        year += if year < 70 { 2_000 } else { 1_900 };
    }
    let part = |value: i64, by: i64| u32::try_from(value / by % 100).ok();
    let date = NaiveDate::from_ymd_opt(year, part(day, 100)?, part(day, 1)?)?;
    let time = NaiveTime::from_hms_opt(part(time, 10_000)?, part(time, 100)?, part(time, 1)?)?;
    Some(date.and_time(time).and_utc().timestamp_micros())
}

/// A column, ready to be read row by row.
#[derive(Debug)]
pub(crate) struct Cells(ArrayRef);

impl Cells {
    /// From an array of any type that a query can have.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let wanted = match array.data_type() {
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => DataType::Int64,
            DataType::Float16 => DataType::Float32,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::BinaryView => {
                DataType::Utf8View
            }
            DataType::Dictionary(_, values) => {
                let array = cast(array, values)?;
                return Self::new(&array);
            }
            DataType::Timestamp(_, _) => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Date64 => DataType::Date32,
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) => {
                DataType::Decimal128(38, *scale)
            }
            DataType::Decimal256(..) => DataType::Float64,
            DataType::Null
            | DataType::Boolean
            | DataType::Int64
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8View
            | DataType::Date32
            | DataType::Decimal128(..) => return Ok(Self(Arc::clone(array))),
            _ => DataType::Utf8View,
        };
        Ok(Self(cast(array, &wanted)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value in one row.
    pub(crate) fn get(&self, row: usize) -> V<'_> {
        let array = &self.0;
        if array.is_null(row) {
            return V::Null;
        }
        match array.data_type() {
            DataType::Boolean => V::truth(array.as_boolean().value(row)),
            DataType::Int64 => V::Int(array.as_primitive::<Int64Type>().value(row)),
            DataType::UInt64 => V::UInt(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Float32 => V::Single(array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => V::Real(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8View => V::text(array.as_string_view().value(row)),
            DataType::Timestamp(..) => {
                V::Time(array.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            DataType::Date32 => V::Date(array.as_primitive::<Date32Type>().value(row)),
            DataType::Decimal128(_, scale) => {
                V::Decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)
            }
            _ => V::Null,
        }
    }
}

/// Makes an array of values.
#[derive(Debug)]
pub(crate) enum Builder {
    Null(usize),
    Truth(BooleanBuilder),
    Int(Int64Builder),
    UInt(UInt64Builder),
    Decimal(Decimal128Builder, u8, i8),
    Real(Float64Builder),
    Text(StringViewBuilder),
    Second(TimestampSecondBuilder),
    Time(TimestampMicrosecondBuilder),
    Date(Date32Builder),
}

impl Builder {
    /// For arrays of this type; of types that functions do not have, texts.
    pub(crate) fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Null => Self::Null(0),
            DataType::Boolean => Self::Truth(BooleanBuilder::new()),
            DataType::Int64 => Self::Int(Int64Builder::new()),
            DataType::UInt64 => Self::UInt(UInt64Builder::new()),
            DataType::Float64 => Self::Real(Float64Builder::new()),
            DataType::Decimal128(digits, scale) => Self::Decimal(
                Decimal128Builder::new().with_data_type(data_type.clone()),
                *digits,
                *scale,
            ),
            DataType::Timestamp(TimeUnit::Second, _) => Self::Second(TimestampSecondBuilder::new()),
            DataType::Timestamp(..) => Self::Time(TimestampMicrosecondBuilder::new()),
            DataType::Date32 => Self::Date(Date32Builder::new()),
            _ => Self::Text(StringViewBuilder::new()),
        }
    }

    /// Adds a value, converted to the type of the array.
    pub(crate) fn push(&mut self, value: &V<'_>) {
        let null = value.is_null();
        match self {
            Self::Null(count) => *count += 1,
            Self::Truth(builder) => builder.append_option((!null).then(|| value.is_true())),
            Self::Int(builder) => builder.append_option((!null).then(|| value.int())),
            Self::UInt(builder) => builder.append_option((!null).then(|| match value {
                V::UInt(value) => *value,
                V::Real(value) if *value >= 0.0 => *value as u64,
                other => other.int().cast_unsigned(),
            })),
            Self::Real(builder) => {
                let real = value.real();
                builder.append_option((!null && real.is_finite()).then_some(real));
            }
            Self::Decimal(builder, digits, scale) => {
                let most = 10_i128.pow(u32::from(*digits).min(38)) - 1;
                let exact = match value.decimal() {
                    Some((value, from)) => rescale(value, from, *scale),
                    None if null => None,
                    None => {
                        let scaled = value.real() * 10_f64.powi(i32::from(*scale));
                        Some(scaled.round() as i128)
                    }
                };
                builder.append_option(match null {
                    true => None,
                    false => Some(exact.unwrap_or(most).clamp(-most, most)),
                });
            }
            Self::Text(builder) => match null {
                true => builder.append_null(),
                false => builder.append_value(value.said()),
            },
            Self::Second(builder) => {
                builder.append_option(value.moment().map(|micros| micros.div_euclid(1_000_000)));
            }
            Self::Time(builder) => builder.append_option(value.moment()),
            Self::Date(builder) => builder.append_option(
                value
                    .moment()
                    .and_then(|micros| i32::try_from(micros.div_euclid(86_400_000_000)).ok()),
            ),
        }
    }

    /// The array.
    pub(crate) fn finish(self) -> ArrayRef {
        match self {
            Self::Null(count) => Arc::new(NullArray::new(count)),
            Self::Truth(mut builder) => Arc::new(builder.finish()),
            Self::Int(mut builder) => Arc::new(builder.finish()),
            Self::UInt(mut builder) => Arc::new(builder.finish()),
            Self::Decimal(mut builder, ..) => Arc::new(builder.finish()),
            Self::Real(mut builder) => Arc::new(builder.finish()),
            Self::Text(mut builder) => Arc::new(builder.finish()),
            Self::Second(mut builder) => Arc::new(builder.finish()),
            Self::Time(mut builder) => Arc::new(builder.finish()),
            Self::Date(mut builder) => Arc::new(builder.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_texts_and_back() {
        assert_eq!(double_text(0.1 + 0.2), "0.30000000000000004");
        assert_eq!(double_text(1e15), "1e15");
        assert_eq!(double_text(-0.0), "0");
        assert_eq!(float_text(0.123_456_79), "0.123457");
        assert_eq!(float_text(16_777_216.0), "16777200");
        assert_eq!(float_text(3.4e38), "3.4e38");
        assert_eq!(decimal_text(-5, 2), "-0.05");
        assert_eq!(rescale(285_715, 4, 3), Some(28_572));
        assert_eq!(rescale(-25, 1, 0), Some(-3));
        for (text, number) in [
            ("12abc", 12.0),
            (" -1.5e2x", -150.0),
            ("", 0.0),
            (".", 0.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("1e", 1.0),
            ("é", 0.0),
            ("1e999", f64::MAX),
        ] {
            assert_eq!(number_prefix(text), number, "{text}");
        }
    }

    #[test]
    fn moments() {
        let moment = |text| {
            V::Time(parse_moment(text).expect("a moment"))
                .said()
                .into_owned()
        };
        assert_eq!(
            moment("2026-11-21 10:00:01.5"),
            "2026-11-21 10:00:01.500000"
        );
        assert_eq!(moment("2026-11-21T10:00"), "2026-11-21 10:00:00");
        assert_eq!(moment("20261121"), "2026-11-21 00:00:00");
        assert_eq!(moment("26-1-2"), "2026-01-02 00:00:00");
        assert_eq!(moment("20261121100001"), "2026-11-21 10:00:01");
        for wrong in [
            "",
            "x",
            "2026",
            "2026-13-01",
            "2026-02-30",
            "2026-11-21 25:00:00",
            "99999999999999999999",
        ] {
            assert_eq!(parse_moment(wrong), None, "{wrong}");
        }
    }
}
