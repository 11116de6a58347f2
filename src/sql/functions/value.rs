//! One value with MySQL's conversions: a text is the number it begins with, a datetime the number
//! `YYYYMMDDhhmmss`.
//!
//! Nothing here fails: a value that cannot be converted is 0 or NULL. `cells` reads and writes
//! Arrow's arrays row by row.

mod cells;
mod datetimes;
mod numbers;

use std::borrow::Cow;

use chrono::{NaiveDateTime, Timelike};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, DecimalType as _};

pub(crate) use self::cells::{Builder, Cells};
use self::datetimes::parse_datetime_number;
pub(crate) use self::datetimes::{date_time, parse_datetime};
use self::numbers::text_of;
pub(crate) use self::numbers::{Prefix, aligned, rescale};
use self::numbers::{put_double, put_float, real_at_scale};
use crate::value::digits::{self, Sink};

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Int(i64),
    UInt(u64),
    /// A number and its digits after the point.
    Decimal(i128, i8),
    Double(f64),
    Float(f32),
    Text(Cow<'a, str>),
    /// Microseconds since 1970, in the session's time zone.
    Datetime(i64),
    /// Days since 1970.
    Date(i32),
}

impl<'a> Value<'a> {
    /// A text value.
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Value::Text(text.into())
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// 1 or 0.
    pub(crate) fn boolean(of: bool) -> Self {
        Value::Int(i64::from(of))
    }

    /// The value as a condition: whether it is a number other than 0.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Int(value) => *value != 0,
            Value::UInt(value) => *value != 0,
            Value::Decimal(value, _) => *value != 0,
            other => other.real() != 0.0,
        }
    }

    /// Converts to a double.
    pub(crate) fn real(&self) -> f64 {
        match self {
            Value::Null => 0.0,
            Value::Int(value) => *value as f64,
            Value::UInt(value) => *value as f64,
            Value::Decimal(value, _) => self.to_text().parse().unwrap_or(*value as f64),
            Value::Double(value) => *value,
            Value::Float(value) => f64::from(*value),
            Value::Text(text) => Prefix::of(text).real(),
            Value::Datetime(_) | Value::Date(_) => self.int() as f64,
        }
    }

    /// Converts to an integer, rounded.
    pub(crate) fn int(&self) -> i64 {
        match self {
            Value::Null => 0,
            Value::Int(value) => *value,
            Value::UInt(value) => i64::try_from(*value).unwrap_or(i64::MAX),
            Value::Decimal(..) => {
                self.whole().unwrap_or(i128::MAX).clamp(i64::MIN.into(), i64::MAX.into()) as i64
            }
            Value::Double(value) => value.round_ties_even() as i64,
            Value::Float(value) => f64::from(*value).round_ties_even() as i64,
            Value::Text(text) => match text.trim().parse() {
                Ok(whole) => whole,
                Err(_) => Prefix::of(text).real().round() as i64,
            },
            Value::Datetime(_) => self.digits("%Y%m%d%H%M%S"),
            Value::Date(_) => self.digits("%Y%m%d"),
        }
    }

    /// Converts to an unsigned integer, whose bits those of a negative one are.
    pub(crate) fn unsigned(&self) -> u64 {
        match self {
            Value::UInt(value) => *value,
            Value::Decimal(0.., _) => {
                let whole = self.whole().unwrap_or(i128::MAX);
                u64::try_from(whole).unwrap_or(u64::MAX)
            }
            Value::Double(_) | Value::Float(_) if self.real() >= 9_223_372_036_854_775_808.0 => {
                self.real() as u64
            }
            other => other.int().cast_unsigned(),
        }
    }

    /// Converts to the bits that operators on bits see: doubles are rounded half away from zero.
    pub(crate) fn bits(&self) -> u64 {
        match self {
            Value::Double(_) | Value::Float(_) => Value::Double(self.real().round()).unsigned(),
            other => other.unsigned(),
        }
    }

    /// A decimal, rounded.
    fn whole(&self) -> Option<i128> {
        match self {
            Value::Decimal(value, scale) => rescale(*value, *scale, 0),
            _ => None,
        }
    }

    /// A number as a decimal of this scale; the greatest or least of 128 bits if it has no room.
    pub(super) fn at_scale(&self, scale: i8) -> i128 {
        let exact = match self.decimal() {
            Some((value, from)) => rescale(value, from, scale),
            None => real_at_scale(self.real(), scale),
        };
        exact.unwrap_or_else(|| if self.real() < 0.0 { i128::MIN } else { i128::MAX })
    }

    /// Whether a type has room for it, if that is one of decimals, or one of integers and it is a
    /// decimal.
    pub(super) fn has_room(&self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Decimal128(digits, scale) => {
                let most = decimal_max(*digits);
                (-most..=most).contains(&self.at_scale(*scale))
            }
            DataType::Int64 => self.whole().is_none_or(|whole| i64::try_from(whole).is_ok()),
            DataType::UInt64 => self.whole().is_none_or(|whole| u64::try_from(whole).is_ok()),
            _ => true,
        }
    }

    /// A datetime formatted as digits only, as a number.
    fn digits(&self, form: &str) -> i64 {
        let text = self.date_time().map(|at| at.format(form).to_string());
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Converts to text; callers handle NULL (an empty text here).
    pub(crate) fn to_text(&self) -> Cow<'_, str> {
        match self {
            Value::Text(text) => Cow::Borrowed(text.as_ref()),
            other => text_of(|to| other.put(to)).into(),
        }
    }

    /// Appends an integer or a float; returns false and appends nothing for other values.
    #[inline(always)]
    pub(crate) fn put_number(&self, to: &mut impl Sink) -> bool {
        match self {
            Value::Int(value) => digits::int(to, *value),
            Value::UInt(value) => digits::uint(to, *value),
            Value::Double(value) => put_double(to, *value),
            Value::Float(value) => put_float(to, *value),
            _ => return false,
        }
        true
    }

    /// Appends its text.
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        match self {
            _ if self.put_number(to) => {}
            Value::Decimal(value, scale) => {
                let text = Decimal128Type::format_decimal(*value, u8::MAX, *scale);
                to.extend_from_slice(text.as_bytes());
            }
            Value::Text(text) => to.extend_from_slice(text.as_bytes()),
            Value::Datetime(_) | Value::Date(_) => {
                let Some(at) = self.date_time() else { return };
                let form = match (self, at.nanosecond()) {
                    (Value::Date(_), _) => "%Y-%m-%d",
                    (_, 0) => "%Y-%m-%d %H:%M:%S",
                    _ => "%Y-%m-%d %H:%M:%S%.6f",
                };
                to.extend_from_slice(at.format(form).to_string().as_bytes());
            }
            _ => {}
        }
    }

    /// Converts to microseconds in the session's time zone; `None` if it is no datetime.
    pub(crate) fn micros(&self) -> Option<i64> {
        match self {
            Value::Datetime(micros) => Some(*micros),
            Value::Date(days) => i64::from(*days).checked_mul(86_400_000_000),
            Value::Text(text) => parse_datetime(text),
            Value::Null => None,
            number => parse_datetime_number(number.int()),
        }
    }

    /// Converts to a datetime.
    pub(crate) fn date_time(&self) -> Option<NaiveDateTime> {
        self.micros().and_then(date_time)
    }

    /// Converts texts and times to numbers.
    pub(crate) fn number(&self) -> Self {
        match self {
            Value::Text(_) | Value::Float(_) => Value::Double(self.real()),
            Value::Datetime(_) | Value::Date(_) => Value::Int(self.int()),
            other => other.clone(),
        }
    }

    /// Converts to a decimal and its scale; `None` for doubles.
    pub(crate) fn decimal(&self) -> Option<(i128, i8)> {
        match self {
            Value::Int(value) => Some((i128::from(*value), 0)),
            Value::UInt(value) => Some((i128::from(*value), 0)),
            Value::Decimal(value, scale) => Some((*value, *scale)),
            Value::Datetime(_) | Value::Date(_) => Some((i128::from(self.int()), 0)),
            Value::Null | Value::Double(_) | Value::Float(_) | Value::Text(_) => None,
        }
    }
}

/// The greatest number of so many digits.
fn decimal_max(digits: u8) -> i128 {
    10_i128.pow(u32::from(digits).min(38)) - 1
}
