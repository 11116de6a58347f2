//! Rows of an Arrow batch as packets: the text form, and the binary form of prepared statements.
//!
//! [`Cells::of`] turns each column once into one of a few shapes, as its declared type asks; then every cell is one match and
//! no allocation. Called by the session, a batch at a time. A value that its column's type cannot carry (NaN, a moment beyond the
//! year 9999) is NULL.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Float32Array, Float64Array, GenericBinaryArray, GenericStringArray, Int64Array,
    StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::arrow::record_batch::RecordBatch;

use super::numbers::{Moment, put_double, put_float, put_time, put_whole};
use super::packets::put_text;
use crate::sql::{SqlColumn, SqlError, SqlType};

/// NULL in the text form.
const NULL: u8 = 0xFB;
/// Bits of the NULL map before the first column's.
const NULL_OFFSET: usize = 2;

/// A column of a batch.
#[derive(Debug)]
enum Shape {
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float32Array),
    Double(Float64Array),
    Boolean(BooleanArray),
    Decimal(Decimal128Array, usize),
    Text(GenericStringArray<i32>),
    LargeText(GenericStringArray<i64>),
    TextView(StringViewArray),
    Binary(GenericBinaryArray<i32>),
    LargeBinary(GenericBinaryArray<i64>),
    BinaryView(BinaryViewArray),
    Datetime(TimestampMicrosecondArray, u8),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Null,
}

/// One column with its declared type.
#[derive(Debug)]
struct Column {
    shape: Shape,
    /// Nothing in it is NULL.
    full: bool,
}

/// A batch, ready to be written.
#[derive(Debug)]
pub(super) struct Cells {
    columns: Vec<Column>,
    rows: usize,
}

impl Cells {
    /// The cells of a batch whose columns were declared as `columns`.
    pub(super) fn of(batch: &RecordBatch, columns: &[SqlColumn]) -> Result<Self, SqlError> {
        if batch.num_columns() != columns.len() {
            return Err(SqlError::internal(format!(
                "{} columns were announced, {} came",
                columns.len(),
                batch.num_columns()
            )));
        }
        let shaped = batch
            .columns()
            .iter()
            .zip(columns)
            .map(|(array, column)| {
                let shape = shape(array, column.sql_type)?;
                // Of the shape, not of the column as it came: what cannot be cast is NULL.
                let full = shape.array().is_some_and(|array| array.null_count() == 0);
                Ok(Column { shape, full })
            })
            .collect::<Result<_, SqlError>>()?;
        Ok(Self {
            columns: shaped,
            rows: batch.num_rows(),
        })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Writes a row in the text form.
    pub(super) fn put_text_row(&self, row: usize, to: &mut Vec<u8>) {
        for column in &self.columns {
            if column.is_null(row) {
                to.push(NULL);
            } else {
                column.shape.put_text(row, to);
            }
        }
    }

    /// Writes a row in the binary form.
    pub(super) fn put_binary_row(&self, row: usize, to: &mut Vec<u8>) {
        to.push(0x00);
        let map = to.len();
        to.resize(map + (self.columns.len() + NULL_OFFSET).div_ceil(8), 0);
        for (index, column) in self.columns.iter().enumerate() {
            if column.is_null(row) {
                let bit = index + NULL_OFFSET;
                to[map + bit / 8] |= 1 << (bit % 8);
            } else {
                column.put_binary(row, to);
            }
        }
    }
}

/// The shape that a declared type asks for.
fn shape(array: &ArrayRef, sql_type: SqlType) -> Result<Shape, SqlError> {
    let wanted = match sql_type {
        SqlType::Null => return Ok(Shape::Null),
        SqlType::BigInt | SqlType::Int => match array.data_type() {
            DataType::Boolean => return Ok(Shape::Boolean(array.as_boolean().clone())),
            _ => DataType::Int64,
        },
        SqlType::BigIntUnsigned => DataType::UInt64,
        SqlType::Float => DataType::Float32,
        SqlType::Double => DataType::Float64,
        SqlType::Decimal(_, scale) => {
            let scale = i8::try_from(scale).unwrap_or(i8::MAX);
            DataType::Decimal128(38, scale)
        }
        SqlType::Varchar(_) | SqlType::Text | SqlType::Binary => text_type(array.data_type()),
        SqlType::Datetime(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        SqlType::Date => DataType::Date32,
        SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
    };
    let array = match array.data_type() {
        is if *is == wanted => Arc::clone(array),
        // Already without a zone's offset or with one: the reading of the clock is what is shown.
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) if wanted.is_temporal() => {
            let bare = array
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
                .with_timezone_opt(None::<Arc<str>>);
            Arc::new(bare)
        }
        _ => cast(array, &wanted).map_err(|error| SqlError::internal(error.to_string()))?,
    };
    Ok(match wanted {
        DataType::Int64 => Shape::Int(array.as_primitive::<Int64Type>().clone()),
        DataType::UInt64 => Shape::UInt(array.as_primitive::<UInt64Type>().clone()),
        DataType::Float32 => Shape::Float(array.as_primitive::<Float32Type>().clone()),
        DataType::Float64 => Shape::Double(array.as_primitive::<Float64Type>().clone()),
        DataType::Decimal128(_, scale) => Shape::Decimal(
            array.as_primitive::<Decimal128Type>().clone(),
            usize::from(scale.unsigned_abs()),
        ),
        DataType::Utf8 => Shape::Text(array.as_string().clone()),
        DataType::LargeUtf8 => Shape::LargeText(array.as_string().clone()),
        DataType::Utf8View => Shape::TextView(array.as_string_view().clone()),
        DataType::Binary => Shape::Binary(array.as_binary().clone()),
        DataType::LargeBinary => Shape::LargeBinary(array.as_binary().clone()),
        DataType::BinaryView => Shape::BinaryView(array.as_binary_view().clone()),
        DataType::Date32 => Shape::Date(array.as_primitive::<Date32Type>().clone()),
        DataType::Time64(_) => Shape::Time(array.as_primitive::<Time64MicrosecondType>().clone()),
        _ => {
            let fraction = match sql_type {
                SqlType::Datetime(fraction) => fraction.min(6),
                _ => 0,
            };
            Shape::Datetime(
                array.as_primitive::<TimestampMicrosecondType>().clone(),
                fraction,
            )
        }
    })
}

/// The form of text that needs no copy, or UTF-8 of whatever else it is.
fn text_type(is: &DataType) -> DataType {
    match is {
        DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => is.clone(),
        DataType::Dictionary(_, values) => text_type(values),
        _ => DataType::Utf8,
    }
}

impl Column {
    /// Whether the cell is NULL, or has no form in MySQL.
    fn is_null(&self, row: usize) -> bool {
        if !self.full && self.shape.array().is_none_or(|array| array.is_null(row)) {
            return true;
        }
        match &self.shape {
            Shape::Float(values) => !values.value(row).is_finite(),
            Shape::Double(values) => !values.value(row).is_finite(),
            Shape::Datetime(values, _) => Moment::of_micros(values.value(row)).is_none(),
            Shape::Date(values) => Moment::of_days(values.value(row).into()).is_none(),
            Shape::Null => true,
            _ => false,
        }
    }

    fn put_binary(&self, row: usize, to: &mut Vec<u8>) {
        match &self.shape {
            Shape::Int(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Shape::Boolean(values) => {
                to.extend_from_slice(&i64::from(values.value(row)).to_le_bytes());
            }
            Shape::UInt(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Shape::Float(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Shape::Double(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Shape::Datetime(values, _) => {
                if let Some(moment) = Moment::of_micros(values.value(row)) {
                    put_packed(to, moment, true);
                }
            }
            Shape::Date(values) => {
                if let Some(moment) = Moment::of_days(values.value(row).into()) {
                    put_packed(to, moment, false);
                }
            }
            Shape::Time(values) => put_packed_time(to, values.value(row)),
            // The rest travels as text in both forms.
            other => other.put_text(row, to),
        }
    }
}

impl Shape {
    fn array(&self) -> Option<&dyn Array> {
        Some(match self {
            Self::Int(array) => array,
            Self::UInt(array) => array,
            Self::Float(array) => array,
            Self::Double(array) => array,
            Self::Boolean(array) => array,
            Self::Decimal(array, _) => array,
            Self::Text(array) => array,
            Self::LargeText(array) => array,
            Self::TextView(array) => array,
            Self::Binary(array) => array,
            Self::LargeBinary(array) => array,
            Self::BinaryView(array) => array,
            Self::Datetime(array, _) => array,
            Self::Date(array) => array,
            Self::Time(array) => array,
            Self::Null => return None,
        })
    }

    /// The cell as text with its length before it.
    fn put_text(&self, row: usize, to: &mut Vec<u8>) {
        match self {
            Self::Text(values) => put_text(to, values.value(row).as_bytes()),
            Self::LargeText(values) => put_text(to, values.value(row).as_bytes()),
            Self::TextView(values) => put_text(to, values.value(row).as_bytes()),
            Self::Binary(values) => put_text(to, values.value(row)),
            Self::LargeBinary(values) => put_text(to, values.value(row)),
            Self::BinaryView(values) => put_text(to, values.value(row)),
            // Everything else is shorter than 251 bytes: its length is one byte, known when it is written.
            other => {
                let length = to.len();
                to.push(0);
                other.put_short(row, to);
                to[length] = (to.len() - length - 1) as u8;
            }
        }
    }

    fn put_short(&self, row: usize, to: &mut Vec<u8>) {
        match self {
            Self::Int(values) => put_whole(to, values.value(row)),
            Self::UInt(values) => put_whole(to, values.value(row)),
            Self::Float(values) => put_float(to, values.value(row)),
            Self::Double(values) => put_double(to, values.value(row)),
            Self::Boolean(values) => to.push(b'0' + u8::from(values.value(row))),
            Self::Decimal(values, scale) => put_decimal(to, values.value(row), *scale),
            Self::Datetime(values, fraction) => {
                if let Some(moment) = Moment::of_micros(values.value(row)) {
                    moment.put(to, *fraction);
                }
            }
            Self::Date(values) => {
                if let Some(moment) = Moment::of_days(values.value(row).into()) {
                    moment.put_date(to);
                }
            }
            Self::Time(values) => put_time(to, values.value(row), 0),
            Self::Text(_)
            | Self::LargeText(_)
            | Self::TextView(_)
            | Self::Binary(_)
            | Self::LargeBinary(_)
            | Self::BinaryView(_)
            | Self::Null => {}
        }
    }
}

/// `digits` of which `scale` stand after the point.
fn put_decimal(to: &mut Vec<u8>, digits: i128, scale: usize) {
    if digits < 0 {
        to.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(digits.unsigned_abs()).as_bytes();
    let (whole, fraction) = text.split_at(text.len().saturating_sub(scale));
    to.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if scale > 0 {
        to.push(b'.');
        to.extend(std::iter::repeat_n(b'0', scale - fraction.len()));
        to.extend_from_slice(fraction);
    }
}

/// A moment in the binary form: only as long as it has to be.
fn put_packed(to: &mut Vec<u8>, moment: Moment, with_time: bool) {
    let has_time =
        with_time && (moment.hour, moment.minute, moment.second, moment.micros) != (0, 0, 0, 0);
    let length = match (has_time, moment.micros) {
        (false, _) => 4,
        (true, 0) => 7,
        (true, _) => 11,
    };
    to.push(length);
    to.extend_from_slice(&(moment.year as u16).to_le_bytes());
    to.extend_from_slice(&[moment.month, moment.day]);
    if length > 4 {
        to.extend_from_slice(&[moment.hour, moment.minute, moment.second]);
    }
    if length > 7 {
        to.extend_from_slice(&moment.micros.to_le_bytes());
    }
}

/// A span of time in the binary form.
fn put_packed_time(to: &mut Vec<u8>, micros: i64) {
    if micros == 0 {
        to.push(0);
        return;
    }
    let all = micros.unsigned_abs();
    let secs = all / 1_000_000;
    let rest = (all % 1_000_000) as u32;
    to.push(if rest == 0 { 8 } else { 12 });
    to.push(u8::from(micros < 0));
    to.extend_from_slice(&((secs / 86_400) as u32).to_le_bytes());
    to.extend_from_slice(&[
        (secs / 3600 % 24) as u8,
        (secs / 60 % 60) as u8,
        (secs % 60) as u8,
    ]);
    if rest > 0 {
        to.extend_from_slice(&rest.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
