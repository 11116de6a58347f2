//! One value as MySQL's functions see it. The way from and to Arrow's arrays is in `cells`.
//!
//! MySQL converts freely: a text is the number it begins with, a number is its digits, a time is a number
//! `YYYYMMDDhhmmss`. The functions work on single values with those conversions; a column is read and written row by row.
//! Nothing here fails: what cannot be converted is 0 or NULL, as MySQL has it.

mod cells;
mod moments;
mod numbers;

use std::borrow::Cow;

use chrono::{Datelike, NaiveDateTime, Timelike};

pub(crate) use self::cells::{Builder, Cells};
use self::moments::parse_moment_number;
pub(crate) use self::moments::{date, date_time, days_of, parse_moment};
use self::numbers::whole_prefix;
pub(crate) use self::numbers::{decimal_text, double_text, float_text, number_prefix, rescale};

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
