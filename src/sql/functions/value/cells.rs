//! Arrow's columns as values, and values as columns.
//!
//! [`Cells`] casts a column once to one of the types of values. A [`Builder`] converts each value
//! to the result type.

use datafusion::arrow::array::{
    Array, ArrayAccessor, ArrayBuilder, ArrayRef, AsArray, BinaryArray, BooleanArray,
    BooleanBuilder, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array,
    NullBuilder, PrimitiveBuilder, StringViewArray, StringViewBuilder, TimestampMicrosecondArray,
    UInt64Array, make_builder,
};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    TimeUnit, TimestampMicrosecondType, TimestampSecondType, UInt64Type,
};
use datafusion::common::Result;

use super::{Value, decimal_max};
use crate::sql::error::SqlError;

/// A column, ready to be read row by row.
#[derive(Debug)]
pub(crate) enum Cells {
    Null,
    Boolean(BooleanArray),
    Int(Int64Array),
    UInt(UInt64Array),
    Decimal(Decimal128Array, i8),
    Double(Float64Array),
    Float(Float32Array),
    Text(StringViewArray),
    Datetime(TimestampMicrosecondArray),
    Date(Date32Array),
}

impl Cells {
    /// Reads an array of any type that a query can have.
    pub(crate) fn new(array: &ArrayRef) -> Result<Self> {
        let as_type = |wanted: &DataType| cast(array, wanted);
        Ok(match array.data_type() {
            DataType::Dictionary(_, values) => Self::new(&as_type(values)?)?,
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean(array.as_boolean().clone()),
            DataType::UInt64 => Self::UInt(array.as_primitive().clone()),
            whole if whole.is_integer() => {
                Self::Int(as_type(&DataType::Int64)?.as_primitive().clone())
            }
            DataType::Float16 | DataType::Float32 => {
                Self::Float(as_type(&DataType::Float32)?.as_primitive().clone())
            }
            DataType::Float64 => Self::Double(array.as_primitive().clone()),
            DataType::Timestamp(..) => {
                let micros = as_type(&DataType::Timestamp(TimeUnit::Microsecond, None))?;
                Self::Datetime(micros.as_primitive().clone())
            }
            DataType::Date32 | DataType::Date64 => {
                Self::Date(as_type(&DataType::Date32)?.as_primitive().clone())
            }
            DataType::Binary => Self::Text(digits(array.as_binary())),
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => {
                // More digits are an error, not NULL.
                let options = CastOptions { safe: false, ..CastOptions::default() };
                let decimal = cast_with_options(array, &DataType::Decimal128(38, *scale), &options);
                let decimal = decimal.map_err(|_| SqlError::too_many_digits())?;
                Self::Decimal(decimal.as_primitive().clone(), *scale)
            }
            _ => Self::Text(as_type(&DataType::Utf8View)?.as_string_view().clone()),
        })
    }

    /// The value in one row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Value<'_> {
        fn of<'a, A: ArrayAccessor>(
            array: A,
            row: usize,
            value: impl Fn(A::Item) -> Value<'a>,
        ) -> Value<'a> {
            match array.is_null(row) {
                true => Value::Null,
                false => value(array.value(row)),
            }
        }
        match self {
            Self::Null => Value::Null,
            Self::Boolean(array) => of(array, row, Value::boolean),
            Self::Int(array) => of(array, row, Value::Int),
            Self::UInt(array) => of(array, row, Value::UInt),
            Self::Decimal(array, scale) => of(array, row, |value| Value::Decimal(value, *scale)),
            Self::Double(array) => of(array, row, Value::Double),
            Self::Float(array) => of(array, row, Value::Float),
            Self::Text(array) => of(array, row, Value::text),
            Self::Datetime(array) => of(array, row, Value::Datetime),
            Self::Date(array) => of(array, row, Value::Date),
        }
    }
}

/// Bytes as hexadecimal digits.
fn digits(bytes: &BinaryArray) -> StringViewArray {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    bytes.iter().map(|bytes| bytes.map(digits)).collect::<Vec<Option<String>>>().into()
}

/// Builds an array from values.
pub(crate) struct Builder {
    data_type: DataType,
    array: Box<dyn ArrayBuilder>,
}

impl Builder {
    /// For arrays of this type, one that functions return.
    pub(crate) fn new(data_type: &DataType) -> Self {
        Self { data_type: data_type.clone(), array: make_builder(data_type, 0) }
    }

    /// Adds a value, converted to the type of the array.
    pub(crate) fn push(&mut self, value: &Value<'_>) {
        let known = (!value.is_null()).then_some(value);
        match self.data_type {
            DataType::Boolean => {
                self.of::<BooleanBuilder>().append_option(known.map(Value::is_true));
            }
            DataType::Utf8View => {
                self.of::<StringViewBuilder>().append_option(known.map(Value::to_text));
            }
            DataType::Int64 => self.number::<Int64Type>(known.map(Value::int)),
            DataType::UInt64 => self.number::<UInt64Type>(known.map(Value::unsigned)),
            DataType::Float64 => {
                let real = known.map(Value::real).filter(|real| real.is_finite());
                // Groups, joins and IN take -0 for another number than 0.
                self.number::<Float64Type>(real.map(|real| real + 0.0));
            }
            DataType::Float32 => {
                let real = known.map(|value| value.real() as f32 + 0.0);
                self.number::<Float32Type>(real);
            }
            DataType::Decimal128(digits, scale) => {
                let most = decimal_max(digits);
                let exact = known.map(|value| value.at_scale(scale).clamp(-most, most));
                self.number::<Decimal128Type>(exact);
            }
            DataType::Timestamp(TimeUnit::Second, _) => {
                let seconds = value.micros().map(|micros| micros.div_euclid(1_000_000));
                self.number::<TimestampSecondType>(seconds);
            }
            DataType::Timestamp(..) => self.number::<TimestampMicrosecondType>(value.micros()),
            DataType::Date32 => {
                let days = value.micros().map(|micros| micros.div_euclid(86_400_000_000));
                self.number::<Date32Type>(days.and_then(|days| i32::try_from(days).ok()));
            }
            _ => self.of::<NullBuilder>().append_null(),
        }
    }

    fn number<T: ArrowPrimitiveType>(&mut self, value: Option<T::Native>) {
        self.of::<PrimitiveBuilder<T>>().append_option(value);
    }

    fn of<B: ArrayBuilder>(&mut self) -> &mut B {
        self.array.as_any_mut().downcast_mut().expect("the builder of the type it was made for")
    }

    /// Returns the array.
    pub(crate) fn finish(mut self) -> ArrayRef {
        self.array.finish()
    }
}
