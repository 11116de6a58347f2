//! Arrow's columns as values, and values as columns.
//!
//! [`Cells`] casts a column once to one of the types that values have. A [`Builder`] converts each value to the result type.

use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Date32Array,
    Decimal128Array, Float32Array, Float64Array, Int64Array, NullBuilder, PrimitiveBuilder,
    StringViewArray, StringViewBuilder, TimestampMicrosecondArray, UInt64Array, make_builder,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampSecondType, UInt64Type,
};
use datafusion::common::Result;

use super::{Value, rescale};

/// A column, ready to be read row by row.
#[derive(Debug)]
pub(crate) struct Cells {
    values: Values,
    nulls: Option<NullBuffer>,
    rows: usize,
}

#[derive(Debug)]
enum Values {
    Null,
    Truth(BooleanArray),
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
            DataType::Decimal32(_, scale)
            | DataType::Decimal64(_, scale)
            | DataType::Decimal128(_, scale)
            | DataType::Decimal256(_, scale) => DataType::Decimal128(38, *scale),
            _ => DataType::Utf8View,
        };
        let array = cast(array, &wanted)?;
        let values = match wanted {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Truth(array.as_boolean().clone()),
            DataType::Int64 => Values::Int(array.as_primitive().clone()),
            DataType::UInt64 => Values::UInt(array.as_primitive().clone()),
            DataType::Float32 => Values::Float(array.as_primitive().clone()),
            DataType::Float64 => Values::Double(array.as_primitive().clone()),
            DataType::Timestamp(..) => Values::Datetime(array.as_primitive().clone()),
            DataType::Date32 => Values::Date(array.as_primitive().clone()),
            DataType::Decimal128(_, scale) => Values::Decimal(array.as_primitive().clone(), scale),
            _ => Values::Text(array.as_string_view().clone()),
        };
        Ok(Self {
            values,
            nulls: array.nulls().cloned(),
            rows: array.len(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The value in one row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Value<'_> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        match &self.values {
            Values::Null => Value::Null,
            Values::Truth(values) => Value::boolean(values.value(row)),
            Values::Int(values) => Value::Int(values.value(row)),
            Values::UInt(values) => Value::UInt(values.value(row)),
            Values::Decimal(values, scale) => Value::Decimal(values.value(row), *scale),
            Values::Double(values) => Value::Double(values.value(row)),
            Values::Float(values) => Value::Float(values.value(row)),
            Values::Text(values) => Value::text(values.value(row)),
            Values::Datetime(values) => Value::Datetime(values.value(row)),
            Values::Date(values) => Value::Date(values.value(row)),
        }
    }
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
