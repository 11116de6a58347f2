//! Arrow's columns as values, and values as columns.
//!
//! [`Cells`] casts a column once to one of the types that values have. A [`Builder`] converts each value to the result type.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BinaryArray, BooleanBuilder, NullBuilder,
    PrimitiveBuilder, StringViewArray, StringViewBuilder, make_builder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampSecondType, UInt64Type,
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
            DataType::Dictionary(_, values) => {
                return Self::new(&cast(array, values)?);
            }
            same @ (DataType::Null | DataType::Boolean | DataType::UInt64) => same.clone(),
            whole if whole.is_integer() => DataType::Int64,
            DataType::Float16 | DataType::Float32 => DataType::Float32,
            DataType::Float64 => DataType::Float64,
            DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Date32 | DataType::Date64 => DataType::Date32,
            DataType::Binary => return Ok(Self(digits(array.as_binary()))),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => DataType::Decimal128(38, *scale),
            _ => DataType::Utf8View,
        };
        Ok(Self(cast(array, &wanted)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The value in one row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Value<'_> {
        if self.0.is_null(row) {
            return Value::Null;
        }
        match self.0.data_type() {
            DataType::Boolean => Value::boolean(self.0.as_boolean().value(row)),
            DataType::Int64 => Value::Int(self.number::<Int64Type>(row)),
            DataType::UInt64 => Value::UInt(self.number::<UInt64Type>(row)),
            DataType::Decimal128(_, scale) => {
                Value::Decimal(self.number::<Decimal128Type>(row), *scale)
            }
            DataType::Float64 => Value::Double(self.number::<Float64Type>(row)),
            DataType::Float32 => Value::Float(self.number::<Float32Type>(row)),
            DataType::Utf8View => Value::text(self.0.as_string_view().value(row)),
            DataType::Timestamp(..) => {
                Value::Datetime(self.number::<TimestampMicrosecondType>(row))
            }
            DataType::Date32 => Value::Date(self.number::<Date32Type>(row)),
            _ => Value::Null,
        }
    }

    fn number<T: ArrowPrimitiveType>(&self, row: usize) -> T::Native {
        self.0.as_primitive::<T>().value(row)
    }
}

/// Bytes as hexadecimal digits.
fn digits(bytes: &BinaryArray) -> ArrayRef {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    let texts: StringViewArray = bytes
        .iter()
        .map(|bytes| bytes.map(digits))
        .collect::<Vec<Option<String>>>()
        .into();
    Arc::new(texts)
}

/// Makes an array of values.
pub(crate) struct Builder {
    data_type: DataType,
    array: Box<dyn ArrayBuilder>,
}

impl Builder {
    /// For arrays of this type, one that functions have.
    pub(crate) fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            array: make_builder(data_type, 0),
        }
    }

    /// Adds a value, converted to the type of the array.
    pub(crate) fn push(&mut self, value: &Value<'_>) {
        let known = (!value.is_null()).then_some(value);
        match self.data_type {
            DataType::Boolean => {
                let array = self.of::<BooleanBuilder>();
                array.append_option(known.map(Value::is_true));
            }
            DataType::Utf8View => {
                let array = self.of::<StringViewBuilder>();
                array.append_option(known.map(Value::to_text));
            }
            DataType::Int64 => self.number::<Int64Type>(known.map(Value::int)),
            DataType::UInt64 => self.number::<UInt64Type>(known.map(|value| match value {
                Value::UInt(value) => *value,
                Value::Double(value) if *value >= 0.0 => *value as u64,
                other => other.int().cast_unsigned(),
            })),
            DataType::Float64 => {
                let real = known.map(Value::real).filter(|real| real.is_finite());
                self.number::<Float64Type>(real);
            }
            DataType::Decimal128(digits, scale) => {
                let most = 10_i128.pow(u32::from(digits).min(38)) - 1;
                self.number::<Decimal128Type>(known.map(|value| {
                    let exact = match value.decimal() {
                        Some((value, from)) => rescale(value, from, scale).unwrap_or(most),
                        None => (value.real() * 10_f64.powi(i32::from(scale))).round() as i128,
                    };
                    exact.clamp(-most, most)
                }));
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                let seconds = value.micros().map(|micros| micros.div_euclid(1_000_000));
                self.number::<TimestampSecondType>(seconds);
            }
            DataType::Timestamp(..) => self.number::<TimestampMicrosecondType>(value.micros()),
            DataType::Date32 => {
                let days = value
                    .micros()
                    .map(|micros| micros.div_euclid(86_400_000_000));
                self.number::<Date32Type>(days.and_then(|days| i32::try_from(days).ok()));
            }
            _ => self.of::<NullBuilder>().append_null(),
        }
    }

    fn number<T: ArrowPrimitiveType>(&mut self, value: Option<T::Native>) {
        self.of::<PrimitiveBuilder<T>>().append_option(value);
    }

    fn of<B: ArrayBuilder>(&mut self) -> &mut B {
        let array = self.array.as_any_mut().downcast_mut();
        array.expect("the builder of the type it was made for")
    }

    /// The array.
    pub(crate) fn finish(mut self) -> ArrayRef {
        self.array.finish()
    }
}
