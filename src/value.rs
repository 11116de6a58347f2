//! Columns and values: the common form between stored data and the ways to read it.

use std::borrow::Cow;

pub(crate) mod digits;
pub(crate) mod link;
pub(crate) mod row_memory;
pub(crate) mod text;
mod unit;
pub(crate) mod varint;

pub use unit::Unit;

/// Implements `+=` and `-` of sums, number by number.
macro_rules! number_by_number {
    ($sums:ty: $($number:ident)+) => {
        impl std::ops::AddAssign<&Self> for $sums {
            fn add_assign(&mut self, other: &Self) {
                $(self.$number += other.$number;)+
            }
        }

        impl std::ops::Sub for $sums {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self { $($number: self.$number - other.$number),+ }
            }
        }
    };
}
pub(crate) use number_by_number;

/// The type of a column, named as in Pinba's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// 64-bit integer.
    BigInt,
    /// Integer; `int(11)` in Pinba's tables.
    Int,
    /// `float` in Pinba's tables: shown in full here, in single precision where a protocol has such
    /// a type.
    Float,
    /// Double precision.
    Double,
    /// Text of at most this many characters.
    Varchar(u16),
    /// Text without a declared limit.
    Text,
}

impl ColumnType {
    /// Whether it is a text type.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Varchar(_) | Self::Text)
    }

    /// The type's name in JSON column lists: `bigint`, `int`, `float`, `double`, `varchar(N)`,
    /// `text`.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Self::BigInt => "bigint".into(),
            Self::Int => "int".into(),
            Self::Float => "float".into(),
            Self::Double => "double".into(),
            Self::Varchar(len) => format!("varchar({len})").into(),
            Self::Text => "text".into(),
        }
    }
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in SQL and JSON.
    pub name: String,
    /// Its type.
    pub column_type: ColumnType,
    /// The unit of its numbers.
    pub unit: Unit,
    /// Whether it can be NULL.
    pub nullable: bool,
}

impl Column {
    /// A nullable column.
    pub fn new(name: impl Into<String>, column_type: ColumnType, unit: Unit) -> Self {
        Self { name: name.into(), column_type, unit, nullable: true }
    }
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// An integer. Sums beyond 64 bits are given as `Float`.
    Int(i64),
    /// An integer number of microseconds, shown as seconds with up to six decimals.
    Micros(u64),
    /// A number.
    Float(f64),
    /// Text.
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// The text by which it can be searched for; empty for no value.
    pub(crate) fn plain(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(text) => text.clone().into_owned(),
            Self::Int(number) => number.to_string(),
            Self::Micros(us) => (*us as f64 / 1e6).to_string(),
            Self::Float(float) => float.to_string(),
        }
    }

    /// The same value, borrowing its text.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Int(value) => Value::Int(*value),
            Self::Micros(value) => Value::Micros(*value),
            Self::Float(value) => Value::Float(*value),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
        }
    }

    /// It as a number; times in seconds.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Micros(us) => Some(*us as f64 / 1e6),
            Self::Float(number) => Some(*number),
            Self::Null | Self::Text(_) => None,
        }
    }

    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Int(value) => Value::Int(value),
            Self::Micros(value) => Value::Micros(value),
            Self::Float(value) => Value::Float(value),
            Self::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        }
    }
}
