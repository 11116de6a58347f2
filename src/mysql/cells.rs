//! Rows of an Arrow batch as packets: the text form, and the binary form of prepared statements.
//!
//! [`Cells::of`] casts each column once to what its declared type asks; then every cell is one match and
//! no allocation. Called by the session, a batch at a time. A value that its column's type cannot carry (NaN, a moment beyond the
//! year 9999) is NULL.

use std::sync::Arc;

use chrono::{Datelike as _, NaiveDateTime, Timelike as _};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Date32Array, Decimal128Array, Float32Array,
    Float64Array, Int64Array, Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
    new_null_array,
};
use datafusion::arrow::buffer::{BooleanBuffer, NullBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use datafusion::arrow::record_batch::RecordBatch;

use super::numbers::{
    midnight, moment, put_date, put_datetime, put_double, put_float, put_time, put_whole,
};
use super::packets::put_text;
use crate::sql::{SqlColumn, SqlError, SqlType};

/// NULL in the text form.
const NULL: u8 = 0xFB;
/// Bits of the NULL map before the first column's.
const NULL_OFFSET: usize = 2;

/// A column of a batch, as the type that was declared for it wants it.
#[derive(Debug)]
enum Values {
    Int(Int64Array),
    UInt(UInt64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array, usize),
    Text(BinaryViewArray),
    Datetime(TimestampMicrosecondArray, u8),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
}

/// One column, and which of its cells are NULL or have no form in MySQL.
#[derive(Debug)]
struct Column {
    values: Values,
    nulls: Option<NullBuffer>,
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
            .map(|(array, column)| Column::of(array, column.sql_type))
            .collect::<Result<_, _>>()?;
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
                column.values.put_text(row, to);
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
                column.values.put_binary(row, to);
            }
        }
    }
}

impl Column {
    fn of(array: &ArrayRef, sql_type: SqlType) -> Result<Self, SqlError> {
        let wanted = match sql_type {
            SqlType::Null | SqlType::BigInt | SqlType::Int => DataType::Int64,
            SqlType::BigIntUnsigned => DataType::UInt64,
            SqlType::Float => DataType::Float32,
            SqlType::Double => DataType::Float64,
            SqlType::Decimal(_, scale) => {
                DataType::Decimal128(38, i8::try_from(scale).unwrap_or(i8::MAX))
            }
            SqlType::Varchar(_) | SqlType::Text | SqlType::Binary => DataType::BinaryView,
            SqlType::Datetime(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            SqlType::Date => DataType::Date32,
            SqlType::Time => DataType::Time64(TimeUnit::Microsecond),
        };
        let cast_to = |array: &ArrayRef, wanted: &DataType| {
            cast(array, wanted).map_err(|error| SqlError::internal(error.to_string()))
        };
        let array = match array.data_type() {
            _ if sql_type == SqlType::Null => new_null_array(&wanted, array.len()),
            is if *is == wanted => Arc::clone(array),
            // Already without a zone's offset or with one: the reading of the clock is what is shown.
            DataType::Timestamp(TimeUnit::Microsecond, Some(_)) if wanted.is_temporal() => {
                let moments = array.as_primitive::<TimestampMicrosecondType>().clone();
                cast_to(
                    &(Arc::new(moments.with_timezone_opt(None::<Arc<str>>)) as ArrayRef),
                    &wanted,
                )?
            }
            _ if wanted == DataType::BinaryView && !is_binary(array.data_type()) => {
                cast_to(&cast_to(array, &DataType::Utf8View)?, &wanted)?
            }
            _ => cast_to(array, &wanted)?,
        };
        let values = match sql_type {
            SqlType::Null | SqlType::BigInt | SqlType::Int => {
                Values::Int(array.as_primitive::<Int64Type>().clone())
            }
            SqlType::BigIntUnsigned => Values::UInt(array.as_primitive::<UInt64Type>().clone()),
            SqlType::Float => Values::Float(array.as_primitive::<Float32Type>().clone()),
            SqlType::Double => Values::Double(array.as_primitive::<Float64Type>().clone()),
            SqlType::Decimal(_, scale) => Values::Decimal(
                array.as_primitive::<Decimal128Type>().clone(),
                usize::from(scale),
            ),
            SqlType::Varchar(_) | SqlType::Text | SqlType::Binary => {
                Values::Text(array.as_binary_view().clone())
            }
            SqlType::Datetime(fraction) => Values::Datetime(
                array.as_primitive::<TimestampMicrosecondType>().clone(),
                fraction.min(6),
            ),
            SqlType::Date => Values::Date(array.as_primitive::<Date32Type>().clone()),
            SqlType::Time => Values::Time(array.as_primitive::<Time64MicrosecondType>().clone()),
        };
        // Of the array as it was cast: what cannot be is NULL.
        let nulls = NullBuffer::union(array.nulls(), values.shown().as_ref());
        Ok(Self { values, nulls })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

fn is_binary(is: &DataType) -> bool {
    match is {
        DataType::Dictionary(_, values) => is_binary(values),
        is => is.is_binary() || *is == DataType::BinaryView,
    }
}

impl Values {
    /// Which cells have a form in MySQL, for types of which not all have; what NULL ones hold does not matter.
    fn shown(&self) -> Option<NullBuffer> {
        let shown: BooleanBuffer = match self {
            Self::Float(values) => values.values().iter().map(|it| it.is_finite()).collect(),
            Self::Double(values) => values.values().iter().map(|it| it.is_finite()).collect(),
            Self::Datetime(values, _) => values
                .values()
                .iter()
                .map(|it| moment(*it).is_some())
                .collect(),
            Self::Date(values) => values
                .values()
                .iter()
                .map(|it| midnight(*it).is_some())
                .collect(),
            _ => return None,
        };
        Some(NullBuffer::new(shown))
    }

    fn put_binary(&self, row: usize, to: &mut Vec<u8>) {
        match self {
            Self::Int(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Self::UInt(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Self::Float(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Self::Double(values) => to.extend_from_slice(&values.value(row).to_le_bytes()),
            Self::Datetime(values, _) => put_packed(to, moment(values.value(row)), true),
            Self::Date(values) => put_packed(to, midnight(values.value(row)), false),
            Self::Time(values) => put_packed_time(to, values.value(row)),
            // These travel as text in both forms.
            Self::Decimal(..) | Self::Text(_) => self.put_text(row, to),
        }
    }

    /// The cell as text with its length before it.
    fn put_text(&self, row: usize, to: &mut Vec<u8>) {
        if let Self::Text(values) = self {
            return put_text(to, values.value(row));
        }
        // Everything else is shorter than 251 bytes: its length is one byte, known when it is written.
        let length = to.len();
        to.push(0);
        match self {
            Self::Int(values) => put_whole(to, values.value(row)),
            Self::UInt(values) => put_whole(to, values.value(row)),
            Self::Float(values) => put_float(to, values.value(row)),
            Self::Double(values) => put_double(to, values.value(row)),
            Self::Decimal(values, scale) => put_decimal(to, values.value(row), *scale),
            Self::Datetime(values, fraction) => {
                if let Some(moment) = moment(values.value(row)) {
                    put_datetime(to, moment, *fraction);
                }
            }
            Self::Date(values) => {
                if let Some(moment) = midnight(values.value(row)) {
                    put_date(to, moment);
                }
            }
            Self::Time(values) => put_time(to, values.value(row)),
            Self::Text(_) => {}
        }
        to[length] = (to.len() - length - 1) as u8;
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
fn put_packed(to: &mut Vec<u8>, moment: Option<NaiveDateTime>, with_time: bool) {
    let moment = moment.unwrap_or_default();
    let micros = moment.nanosecond() / 1_000;
    let has_time = with_time && (moment.num_seconds_from_midnight(), micros) != (0, 0);
    let length = match (has_time, micros) {
        (false, _) => 4,
        (true, 0) => 7,
        (true, _) => 11,
    };
    to.push(length);
    to.extend_from_slice(&(moment.year() as u16).to_le_bytes());
    to.extend_from_slice(&[moment.month() as u8, moment.day() as u8]);
    if length > 4 {
        let clock = [moment.hour(), moment.minute(), moment.second()];
        to.extend_from_slice(&clock.map(|part| part as u8));
    }
    if length > 7 {
        to.extend_from_slice(&micros.to_le_bytes());
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
