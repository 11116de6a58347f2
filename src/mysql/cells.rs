//! Encodes rows of an Arrow batch as packets: in the text form, and in the binary form of prepared
//! statements.
//!
//! Called by the session, a batch at a time. A value that its column's type cannot carry (NaN, a
//! time beyond the year 9999) is NULL.

use chrono::{Datelike as _, Timelike as _};
use datafusion::arrow::record_batch::RecordBatch;
use mysql_common::io::BufMutExt as _;
use mysql_common::proto::MySerialize as _;
use mysql_common::value::Value as Binary;

use crate::sql::{Cells, SqlError, Value};
use crate::value::digits::{LINE_BYTES, Line, Sink as _, few};

/// Texts that are shorter have a length of one byte.
const TEXT_MAX: usize = 251;
/// NULL in the text form.
const NULL: u8 = 0xFB;
/// Bits of the NULL map before the first column's.
const NULL_OFFSET: usize = 2;

/// The cells of a batch for which `announced` columns were announced.
pub(super) fn of(batch: &RecordBatch, announced: usize) -> Result<Vec<Cells>, SqlError> {
    let came = batch.num_columns();
    if came != announced {
        return Err(SqlError::internal(format!("{announced} columns were announced, {came} came")));
    }
    let cells = batch.columns().iter().map(Cells::new);
    Ok(cells.collect::<Result<_, _>>()?)
}

/// Writes a row in the text form.
pub(super) fn put_text_row(to: &mut Vec<u8>, columns: &[Cells], row: usize) {
    let mut room = [0; LINE_BYTES];
    let mut line = Line::new(&mut room);
    for column in columns {
        if !line.fits(0) {
            line.flush(to);
        }
        let value = column.get(row);
        if is_null(&value) {
            line.short([NULL], 1);
            continue;
        }
        let is_put = line.counted(|line| match &value {
            Value::Text(text) if text.len() < TEXT_MAX && line.fits(text.len()) => {
                few(line, text.as_bytes());
                true
            }
            number => number.put_number(line),
        });
        if !is_put {
            line.flush(to);
            put_text(to, &value);
        }
    }
    line.flush(to);
}

/// Writes a row in the binary form.
pub(super) fn put_binary_row(to: &mut Vec<u8>, columns: &[Cells], row: usize) {
    to.push(0x00);
    let map = to.len();
    to.resize(map + (columns.len() + NULL_OFFSET).div_ceil(8), 0);
    for (index, column) in columns.iter().enumerate() {
        match column.get(row) {
            value if is_null(&value) => {
                let bit = index + NULL_OFFSET;
                to[map + bit / 8] |= 1 << (bit % 8);
            }
            value => put_binary(to, &value),
        }
    }
}

/// Whether a value is NULL or has no form in MySQL.
fn is_null(value: &Value<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Double(number) => !number.is_finite(),
        Value::Float(number) => !number.is_finite(),
        Value::Datetime(_) | Value::Date(_) => {
            value.date_time().is_none_or(|at| !(0..=9999).contains(&at.year()))
        }
        Value::Int(_) | Value::UInt(_) | Value::Decimal(..) | Value::Text(_) => false,
    }
}

/// Writes a value as text, preceded by its length.
fn put_text(to: &mut Vec<u8>, value: &Value<'_>) {
    if let Value::Text(text) = value {
        return to.put_lenenc_str(text.as_bytes());
    }
    // Everything else is shorter than 251 bytes, so its length is one byte, filled in afterwards.
    let length = to.len();
    to.push(0);
    value.put(to);
    to[length] = (to.len() - length - 1) as u8;
}

fn put_binary(to: &mut Vec<u8>, value: &Value<'_>) {
    let binary = match value {
        // Whatever the column's declared type, integers are announced as BIGINT.
        Value::Int(number) => Binary::Int(*number),
        Value::UInt(number) => Binary::UInt(*number),
        Value::Double(number) => Binary::Double(*number),
        Value::Float(number) => Binary::Float(*number),
        Value::Datetime(_) | Value::Date(_) => {
            let at = value.date_time().unwrap_or_default();
            Binary::Date(
                at.year() as u16,
                at.month() as u8,
                at.day() as u8,
                at.hour() as u8,
                at.minute() as u8,
                at.second() as u8,
                at.nanosecond() / 1_000,
            )
        }
        Value::Null | Value::Decimal(..) | Value::Text(_) => return put_text(to, value),
    };
    binary.serialize(to);
}

#[cfg(test)]
mod tests;
