//! Encodes Arrow batches as text, or in the Arrow stream format itself.
//!
//! JSON is `{"columns":[{"name","type"}],"rows":[[..],..]}`; a line of ndjson is an object by
//! column names. Numbers are in the fewest digits that read back as the same, in single precision
//! where the column is; values that JSON lacks are null, booleans are 0 or 1, dates are text. Pure:
//! `api/sql.rs` supplies batches and sends bytes.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;

use super::body::PIECE_BYTES;
use super::format::Format;
use super::writer::{Cells, Put, RowWriter};
use crate::sql::{Cells as Column, SqlColumn, SqlError, Value};
use crate::value::digits::{self, Line};

/// Larger batches are split into several of about this many bytes, in Arrow's format.
const ARROW_BYTES: usize = 4 << 20;

/// Writes the batches of one answer.
pub(in crate::http) struct BatchWriter {
    form: Form,
    /// The current batch, and its next row.
    batch: Option<(RecordBatch, usize)>,
}

enum Form {
    Rows {
        writer: RowWriter,
        /// The columns of the batch.
        cells: Vec<Column>,
        /// Rows written.
        rows: u64,
    },
    Arrow(StreamWriter<Vec<u8>>),
}

impl BatchWriter {
    /// Writes everything before the rows.
    ///
    /// # Errors
    /// [`SqlError::internal`] if the schema cannot be encoded.
    pub(in crate::http) fn start(
        format: Format,
        columns: &[SqlColumn],
        schema: &SchemaRef,
        out: &mut Vec<u8>,
    ) -> Result<Self, SqlError> {
        let form = if format == Format::Arrow {
            let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(defect)?;
            out.append(writer.get_mut());
            Form::Arrow(writer)
        } else {
            let names = columns.iter().map(|column| column.name.as_str());
            let writer = RowWriter::new(format, false, names.enumerate());
            if format == Format::Json {
                let column = |column: &SqlColumn| serde_json::json!({"name": column.name, "type": column.sql_type.to_string()});
                let columns: Vec<_> = columns.iter().map(column).collect();
                let columns = serde_json::Value::from(columns);
                out.extend_from_slice(format!("{{\"columns\":{columns},\"rows\":").as_bytes());
            }
            writer.start(out);
            let (cells, rows) = (Vec::new(), 0);
            Form::Rows { writer, cells, rows }
        };
        Ok(Self { form, batch: None })
    }

    /// Sets the next batch, for [`write`](Self::write).
    ///
    /// # Errors
    /// [`SqlError::internal`] if a value cannot be encoded.
    pub(in crate::http) fn take(&mut self, batch: RecordBatch) -> Result<(), SqlError> {
        if let Form::Rows { cells, .. } = &mut self.form {
            *cells = batch.columns().iter().map(Column::new).collect::<Result<_, _>>()?;
        }
        self.batch = Some((batch, 0));
        Ok(())
    }

    /// Writes rows of the batch: one, and as many more as fit into [`PIECE_BYTES`]. Returns false
    /// if there are none left.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub(in crate::http) fn write(&mut self, out: &mut Vec<u8>) -> Result<bool, SqlError> {
        let Some((batch, next)) = &mut self.batch else { return Ok(false) };
        let all = batch.num_rows();
        match &mut self.form {
            Form::Rows { writer, cells, rows } => {
                let first = *next;
                while *next < all && (*next == first || out.len() < PIECE_BYTES) {
                    writer.row(out, cells.as_slice(), *next, *rows == 0);
                    *next += 1;
                    *rows += 1;
                }
            }
            Form::Arrow(writer) => {
                let bytes = batch.get_array_memory_size();
                let most =
                    if bytes <= ARROW_BYTES { all } else { (all * ARROW_BYTES / bytes).max(1) };
                let end = next.saturating_add(most).min(all);
                let written = match (*next, end) == (0, all) {
                    true => writer.write(batch),
                    false => slice(batch, *next, end).and_then(|slice| writer.write(&slice)),
                };
                written.map_err(defect)?;
                *next = end;
                out.append(writer.get_mut());
            }
        }
        if *next == all {
            self.batch = None;
        }
        Ok(true)
    }

    /// Writes everything after the rows.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub(in crate::http) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match &mut self.form {
            Form::Rows { writer, rows, .. } => writer.end(out, *rows == 0, b"}\n"),
            Form::Arrow(writer) => {
                writer.finish().map_err(defect)?;
                out.append(writer.get_mut());
            }
        }
        Ok(())
    }
}

/// Copies some rows of a batch, with only their own texts.
fn slice(batch: &RecordBatch, from: usize, end: usize) -> Result<RecordBatch, ArrowError> {
    let rows = batch.slice(from, end - from);
    let columns = rows.columns().iter().map(|column| -> ArrayRef {
        match column.as_string_view_opt() {
            Some(texts) => Arc::new(texts.gc()),
            None => Arc::clone(column),
        }
    });
    RecordBatch::try_new(rows.schema(), columns.collect())
}

fn defect(error: ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}

impl Cells for [Column] {
    #[inline(always)]
    fn put(&self, line: &mut Line<'_>, row: usize, column: usize) -> Put<'_> {
        match self[column].get(row) {
            Value::Int(number) => digits::int(line, number),
            Value::UInt(number) => digits::uint(line, number),
            Value::Float(number) => return digits::float(line, number).into(),
            Value::Double(number) => return digits::float(line, number).into(),
            Value::Text(shown) => return Put::Text(shown),
            decimal @ Value::Decimal(..) => return Put::Digits(decimal.to_text().into_owned()),
            date @ (Value::Datetime(_) | Value::Date(_)) => {
                return Put::Text(date.to_text().into_owned().into());
            }
            Value::Null => return Put::Nothing,
        }
        Put::Done
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array, StringViewArray,
        TimestampSecondArray, UInt64Array,
    };
    use datafusion::arrow::ipc::reader::StreamReader;

    use super::*;
    use crate::sql::SqlType;

    fn batch() -> (Arc<[SqlColumn]>, RecordBatch) {
        let decimal = Decimal128Array::from(vec![Some(-12_345), None]);
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![Some(-7), None]))),
            ("big", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
            ("time", Arc::new(Float32Array::from(vec![0.1, f32::NAN]))),
            ("avg", Arc::new(Float64Array::from(vec![0.1, 3.0]))),
            ("script", Arc::new(StringViewArray::from(vec![Some("a\"b,c"), None]))),
            ("yes", Arc::new(BooleanArray::from(vec![true, false]))),
            ("sum", Arc::new(decimal.with_precision_and_scale(10, 2).unwrap())),
            ("at", Arc::new(TimestampSecondArray::from(vec![0, 1_700_000_000]))),
        ];
        let columns = arrays.iter().map(|(name, _)| SqlColumn {
            name: (*name).to_owned(),
            origin: None,
            table: None,
            sql_type: SqlType::BigInt,
            nullable: true,
        });
        (columns.collect(), RecordBatch::try_from_iter(arrays).unwrap())
    }

    fn written(format: Format) -> Vec<u8> {
        let (columns, batch) = batch();
        let mut out = Vec::new();
        let mut writer = BatchWriter::start(format, &columns, &batch.schema(), &mut out).unwrap();
        writer.take(batch).unwrap();
        assert!(writer.write(&mut out).unwrap());
        assert!(!writer.write(&mut out).unwrap());
        writer.end(&mut out).unwrap();
        out
    }

    #[test]
    fn json_has_columns_and_rows() {
        let json: serde_json::Value = serde_json::from_slice(&written(Format::Json)).unwrap();
        assert_eq!(json["columns"][0], serde_json::json!({"name": "id", "type": "bigint"}));
        assert_eq!(
            json["rows"],
            serde_json::json!([
                [-7, u64::MAX, 0.1, 0.1, "a\"b,c", 1, -123.45, "1970-01-01 00:00:00"],
                [null, 0, null, 3, null, 0, null, "2023-11-14 22:13:20"],
            ])
        );
    }

    #[test]
    fn ndjson_has_an_object_a_line() {
        let text = String::from_utf8(written(Format::Ndjson)).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(first["script"], "a\"b,c");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let text = String::from_utf8(written(Format::Csv)).unwrap();
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0], "id,big,time,avg,script,yes,sum,at");
        assert_eq!(
            lines[1],
            "-7,18446744073709551615,0.1,0.1,\"a\"\"b,c\",1,-123.45,1970-01-01 00:00:00"
        );
        assert_eq!(lines[2], ",0,,3,,0,,2023-11-14 22:13:20");
    }

    #[test]
    fn arrow_reads_back_as_the_same() {
        let out = written(Format::Arrow);
        let mut reader = StreamReader::try_new(&out[..], None).unwrap();
        let read = reader.next().unwrap().unwrap();
        let sent = batch().1;
        // NaN is not equal to itself.
        let comparable = |batch: &RecordBatch| batch.project(&[0, 1, 3, 4, 5, 6, 7]).unwrap();
        assert_eq!(comparable(&read), comparable(&sent));
        assert!(reader.next().is_none());
    }

    #[test]
    fn rows_of_a_batch_are_written_in_pieces() {
        let texts: Vec<String> = (0..200).map(|row| row.to_string().repeat(50_000)).collect();
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(&texts));
        let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        let schema = batch.schema();
        let columns = schema.fields().iter().map(|field| SqlColumn {
            name: field.name().clone(),
            origin: None,
            table: None,
            sql_type: SqlType::Text,
            nullable: true,
        });
        let columns: Arc<[SqlColumn]> = columns.collect();
        for (format, most) in
            [(Format::Json, 350_000), (Format::Csv, 350_000), (Format::Arrow, 6 << 20)]
        {
            let mut all = Vec::new();
            let mut writer = BatchWriter::start(format, &columns, &schema, &mut all).unwrap();
            writer.take(batch.clone()).unwrap();
            let (mut piece, mut pieces) = (Vec::new(), 0);
            while writer.write(&mut piece).unwrap() {
                assert!(!piece.is_empty() && piece.len() < most, "{format:?}: {}", piece.len());
                pieces += 1;
                all.append(&mut piece);
            }
            assert!(pieces > 1, "{format:?}");
            writer.end(&mut all).unwrap();
            if format == Format::Arrow {
                let read = StreamReader::try_new(&all[..], None).unwrap();
                let rows = read.map(|batch| batch.unwrap().num_rows());
                assert_eq!(rows.sum::<usize>(), 200);
            } else {
                assert!(all.len() > 20_000_000, "{}", all.len());
            }
        }
    }
}
