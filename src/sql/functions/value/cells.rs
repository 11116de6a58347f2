//! Arrow's columns as values, and values as columns.
//!
//! [`Cells`] casts a column once to one of the types that values have. A [`Builder`] converts each value to the result type.

use std::sync::Arc;

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

use super::{Value, rescale};

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
    pub(crate) fn get(&self, row: usize) -> Value<'_> {
        let array = &self.0;
        if array.is_null(row) {
            return Value::Null;
        }
        match array.data_type() {
            DataType::Boolean => Value::boolean(array.as_boolean().value(row)),
            DataType::Int64 => Value::Int(array.as_primitive::<Int64Type>().value(row)),
            DataType::UInt64 => Value::UInt(array.as_primitive::<UInt64Type>().value(row)),
            DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => Value::Double(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8View => Value::text(array.as_string_view().value(row)),
            DataType::Timestamp(..) => {
                Value::Datetime(array.as_primitive::<TimestampMicrosecondType>().value(row))
            }
            DataType::Date32 => Value::Date(array.as_primitive::<Date32Type>().value(row)),
            DataType::Decimal128(_, scale) => {
                Value::Decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)
            }
            _ => Value::Null,
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
    pub(crate) fn push(&mut self, value: &Value<'_>) {
        let null = value.is_null();
        match self {
            Self::Null(count) => *count += 1,
            Self::Truth(builder) => builder.append_option((!null).then(|| value.is_true())),
            Self::Int(builder) => builder.append_option((!null).then(|| value.int())),
            Self::UInt(builder) => builder.append_option((!null).then(|| match value {
                Value::UInt(value) => *value,
                Value::Double(value) if *value >= 0.0 => *value as u64,
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
                false => builder.append_value(value.to_text()),
            },
            Self::Second(builder) => {
                builder.append_option(value.micros().map(|micros| micros.div_euclid(1_000_000)));
            }
            Self::Time(builder) => builder.append_option(value.micros()),
            Self::Date(builder) => builder.append_option(
                value
                    .micros()
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
