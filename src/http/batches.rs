//! Arrow batches as bytes: JSON, newline-delimited JSON, CSV, or the Arrow stream format itself.
//!
//! JSON is `{"columns":[{"name","type"}],"rows":[[..],..]}`; a line of ndjson is an object by column names. Numbers are in the
//! fewest digits that read back as the same, in single precision where the column is; what JSON cannot say is null, truth is
//! 0 or 1, dates are text. Pure: where batches come from and how bytes are sent is `sql.rs`'s business.

use std::io::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use super::json;
use super::writer::{Format, csv_text};
use crate::sql::{SqlColumn, SqlError};

/// Rows are written until a piece of the answer has so many bytes.
const PIECE_BYTES: usize = 192 << 10;

/// Rows of a batch that is larger are sent as several batches of about so many bytes, in Arrow's format.
const ARROW_BYTES: usize = 4 << 20;

/// How batches are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchFormat {
    /// As text.
    Rows(Format),
    /// As an Arrow IPC stream.
    Arrow,
}

impl BatchFormat {
    /// As they are listed to a client.
    pub(super) const NAMES: [&str; 4] = ["json", "ndjson", "csv", "arrow"];

    /// The format of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        if name == "arrow" {
            return Some(Self::Arrow);
        }
        Format::named(name).map(Self::Rows)
    }

    /// The `content-type` it is sent with.
    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::Rows(format) => format.media_type(),
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// Writes the batches of one answer.
pub(super) struct BatchWriter {
    format: BatchFormat,
    columns: Arc<[SqlColumn]>,
    /// For ndjson, what stands before each value.
    leads: Vec<Vec<u8>>,
    rows: u64,
    /// For Arrow.
    schema: SchemaRef,
    arrow: Option<StreamWriter<Vec<u8>>>,
}

impl BatchWriter {
    /// A writer for an answer of these columns.
    pub(super) fn new(format: BatchFormat, columns: &Arc<[SqlColumn]>, schema: &SchemaRef) -> Self {
        let lead = |(at, column): (usize, &SqlColumn)| {
            let mut lead = vec![if at == 0 { b'{' } else { b',' }];
            json::text(&mut lead, &column.name);
            lead.push(b':');
            lead
        };
        Self {
            format,
            columns: Arc::clone(columns),
            leads: columns.iter().enumerate().map(lead).collect(),
            rows: 0,
            schema: Arc::clone(schema),
            arrow: None,
        }
    }

    /// What comes before the rows.
    ///
    /// # Errors
    /// [`SqlError::internal`] when the schema cannot be shown.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match self.format {
            BatchFormat::Rows(Format::Json) => {
                out.extend_from_slice(br#"{"columns":["#);
                for (at, column) in self.columns.iter().enumerate() {
                    out.extend_from_slice(if at == 0 {
                        br#"{"name":"#
                    } else {
                        br#",{"name":"#
                    });
                    json::text(out, &column.name);
                    out.extend_from_slice(br#","type":"#);
                    json::text(out, &column.sql_type.to_string());
                    out.push(b'}');
                }
                out.extend_from_slice(br#"],"rows":["#);
            }
            BatchFormat::Rows(Format::Csv) => {
                for (at, column) in self.columns.iter().enumerate() {
                    if at > 0 {
                        out.push(b',');
                    }
                    csv_text(out, &column.name);
                }
                out.extend_from_slice(b"\r\n");
            }
            BatchFormat::Rows(Format::Ndjson) => {}
            BatchFormat::Arrow => {
                let writer = StreamWriter::try_new(Vec::new(), &self.schema).map_err(defect)?;
                out.append(self.arrow.insert(writer).get_mut());
            }
        }
        Ok(())
    }

    /// Rows of one batch, beginning at row `from`: one, and as many more as fit into [`PIECE_BYTES`]. Gives the row to go on
    /// from: how many there are, when that was the last one.
    ///
    /// # Errors
    /// [`SqlError::internal`] when a value cannot be shown.
    pub(super) fn batch(
        &mut self,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        from: usize,
    ) -> Result<usize, SqlError> {
        match self.format {
            BatchFormat::Arrow => self.arrow_batch(out, batch, from).map_err(defect),
            BatchFormat::Rows(format) => self.rows(format, out, batch, from).map_err(defect),
        }
    }

    fn rows(
        &mut self,
        format: Format,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        from: usize,
    ) -> Result<usize, ArrowError> {
        let cells = batch
            .columns()
            .iter()
            .map(|array| Cells::of(array.as_ref()));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        for row in from..batch.num_rows() {
            if row > from && out.len() >= PIECE_BYTES {
                return Ok(row);
            }
            match format {
                Format::Json => {
                    out.extend_from_slice(if self.rows == 0 { b"\n[" } else { b",\n[" });
                    for (at, cells) in cells.iter().enumerate() {
                        if at > 0 {
                            out.push(b',');
                        }
                        cells.json(out, row)?;
                    }
                    out.push(b']');
                }
                Format::Ndjson => {
                    for (lead, cells) in self.leads.iter().zip(&cells) {
                        out.extend_from_slice(lead);
                        cells.json(out, row)?;
                    }
                    out.extend_from_slice(b"}\n");
                }
                Format::Csv => {
                    for (at, cells) in cells.iter().enumerate() {
                        if at > 0 {
                            out.push(b',');
                        }
                        cells.csv(out, row)?;
                    }
                    out.extend_from_slice(b"\r\n");
                }
            }
            self.rows += 1;
        }
        Ok(batch.num_rows())
    }

    fn arrow_batch(
        &mut self,
        out: &mut Vec<u8>,
        batch: &RecordBatch,
        from: usize,
    ) -> Result<usize, ArrowError> {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        let most = match bytes <= ARROW_BYTES {
            true => rows,
            false => (rows * ARROW_BYTES / bytes).max(1),
        };
        let end = from.saturating_add(most).min(rows);
        if let Some(writer) = &mut self.arrow {
            match from == 0 && end == rows {
                true => writer.write(batch)?,
                false => writer.write(&slice(batch, from, end)?)?,
            }
            out.append(writer.get_mut());
        }
        Ok(end)
    }

    /// What comes after the rows.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), SqlError> {
        match self.format {
            BatchFormat::Rows(Format::Json) => out.extend_from_slice(b"\n]}\n"),
            BatchFormat::Rows(Format::Ndjson | Format::Csv) => {}
            BatchFormat::Arrow => {
                if let Some(writer) = &mut self.arrow {
                    writer.finish().map_err(defect)?;
                    out.append(writer.get_mut());
                }
            }
        }
        Ok(())
    }
}

/// Some rows of a batch, with the texts of these and no others.
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

/// One column of a batch, its type known.
enum Cells<'a> {
    Null,
    Bool(&'a datafusion::arrow::array::BooleanArray),
    Int(&'a dyn Array, fn(&dyn Array, usize) -> i64),
    UInt(&'a datafusion::arrow::array::UInt64Array),
    Float(&'a datafusion::arrow::array::Float32Array),
    Double(&'a datafusion::arrow::array::Float64Array),
    Text(&'a dyn Array, fn(&dyn Array, usize) -> &str),
    /// A number as text: decimals.
    Digits(&'a dyn Array, ArrayFormatter<'a>),
    /// Anything else as text.
    Shown(&'a dyn Array, ArrayFormatter<'a>),
}

macro_rules! int {
    ($array:expr, $kind:ty) => {
        Cells::Int($array, |array, row| {
            i64::from(array.as_primitive::<$kind>().value(row))
        })
    };
}

impl<'a> Cells<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, ArrowError> {
        let options = || {
            FormatOptions::new()
                .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
                .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        };
        Ok(match array.data_type() {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool(array.as_boolean()),
            DataType::Int8 => int!(array, Int8Type),
            DataType::Int16 => int!(array, Int16Type),
            DataType::Int32 => int!(array, Int32Type),
            DataType::Int64 => int!(array, Int64Type),
            DataType::UInt8 => int!(array, UInt8Type),
            DataType::UInt16 => int!(array, UInt16Type),
            DataType::UInt32 => int!(array, UInt32Type),
            DataType::UInt64 => Self::UInt(array.as_primitive::<UInt64Type>()),
            DataType::Float32 => Self::Float(array.as_primitive::<Float32Type>()),
            DataType::Float64 => Self::Double(array.as_primitive::<Float64Type>()),
            DataType::Utf8 => Self::Text(array, |array, row| array.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => {
                Self::Text(array, |array, row| array.as_string::<i64>().value(row))
            }
            DataType::Utf8View => Self::Text(array, |array, row| array.as_string_view().value(row)),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => {
                Self::Digits(array, ArrayFormatter::try_new(array, &options())?)
            }
            _ => Self::Shown(array, ArrayFormatter::try_new(array, &options())?),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(array) => array.is_null(row),
            Self::UInt(array) => array.is_null(row),
            Self::Float(array) => array.is_null(row) || !array.value(row).is_finite(),
            Self::Double(array) => array.is_null(row) || !array.value(row).is_finite(),
            Self::Int(array, _)
            | Self::Text(array, _)
            | Self::Digits(array, _)
            | Self::Shown(array, _) => array.is_null(row),
        }
    }

    fn json(&self, out: &mut Vec<u8>, row: usize) -> Result<(), ArrowError> {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        match self {
            Self::Text(array, value) => json::text(out, value(*array, row)),
            Self::Shown(_, formatter) => json::text(out, &formatter.value(row).try_to_string()?),
            number => number.number(out, row)?,
        }
        Ok(())
    }

    fn csv(&self, out: &mut Vec<u8>, row: usize) -> Result<(), ArrowError> {
        if self.is_null(row) {
            return Ok(());
        }
        match self {
            Self::Text(array, value) => csv_text(out, value(*array, row)),
            Self::Shown(_, formatter) => csv_text(out, &formatter.value(row).try_to_string()?),
            number => number.number(out, row)?,
        }
        Ok(())
    }

    fn number(&self, out: &mut Vec<u8>, row: usize) -> Result<(), ArrowError> {
        match self {
            Self::Bool(array) => json::uint(out, array.value(row).into()),
            Self::Int(array, value) => json::int(out, value(*array, row)),
            Self::UInt(array) => json::uint(out, array.value(row)),
            Self::Float(array) => json::float32(out, array.value(row)),
            Self::Double(array) => json::float(out, array.value(row)),
            Self::Digits(_, formatter) => formatter.value(row).write(&mut Digits(out))?,
            Self::Null | Self::Text(..) | Self::Shown(..) => {}
        }
        Ok(())
    }
}

/// Text into bytes.
struct Digits<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Digits<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0
            .write_all(text.as_bytes())
            .map_err(|_| std::fmt::Error)
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
            (
                "script",
                Arc::new(StringViewArray::from(vec![Some("a\"b,c"), None])),
            ),
            ("yes", Arc::new(BooleanArray::from(vec![true, false]))),
            (
                "sum",
                Arc::new(decimal.with_precision_and_scale(10, 2).unwrap()),
            ),
            (
                "at",
                Arc::new(TimestampSecondArray::from(vec![0, 1_700_000_000])),
            ),
        ];
        let columns = arrays.iter().map(|(name, _)| SqlColumn {
            name: (*name).to_owned(),
            origin: None,
            table: None,
            sql_type: SqlType::BigInt,
            nullable: true,
        });
        (
            columns.collect(),
            RecordBatch::try_from_iter(arrays).unwrap(),
        )
    }

    fn written(format: BatchFormat) -> Vec<u8> {
        let (columns, batch) = batch();
        let mut writer = BatchWriter::new(format, &columns, &batch.schema());
        let mut out = Vec::new();
        writer.begin(&mut out).unwrap();
        assert_eq!(writer.batch(&mut out, &batch, 0).unwrap(), 2);
        writer.end(&mut out).unwrap();
        out
    }

    #[test]
    fn json_has_columns_and_rows() {
        let json: serde_json::Value =
            serde_json::from_slice(&written(BatchFormat::Rows(Format::Json))).unwrap();
        assert_eq!(
            json["columns"][0],
            serde_json::json!({"name": "id", "type": "bigint"})
        );
        assert_eq!(
            json["rows"],
            serde_json::json!([
                [
                    -7,
                    u64::MAX,
                    0.1,
                    0.1,
                    "a\"b,c",
                    1,
                    -123.45,
                    "1970-01-01 00:00:00"
                ],
                [null, 0, null, 3, null, 0, null, "2023-11-14 22:13:20"],
            ])
        );
    }

    #[test]
    fn ndjson_has_an_object_a_line() {
        let text = String::from_utf8(written(BatchFormat::Rows(Format::Ndjson))).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert_eq!(first["script"], "a\"b,c");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let text = String::from_utf8(written(BatchFormat::Rows(Format::Csv))).unwrap();
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
        let out = written(BatchFormat::Arrow);
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
        for (name, most) in [("json", 350_000), ("csv", 350_000), ("arrow", 6 << 20)] {
            let format = BatchFormat::named(name).unwrap();
            let mut writer = BatchWriter::new(format, &columns, &batch.schema());
            let mut all = Vec::new();
            writer.begin(&mut all).unwrap();
            let mut row = 0;
            while row < batch.num_rows() {
                let mut piece = Vec::new();
                let next = writer.batch(&mut piece, &batch, row).unwrap();
                assert!(next > row && piece.len() < most, "{name}: {}", piece.len());
                row = next;
                all.append(&mut piece);
            }
            writer.end(&mut all).unwrap();
            if name == "arrow" {
                let read = StreamReader::try_new(&all[..], None).unwrap();
                let rows = read.map(|batch| batch.unwrap().num_rows());
                assert_eq!(rows.sum::<usize>(), 200);
            } else {
                assert!(all.len() > 20_000_000, "{}", all.len());
            }
        }
    }
}
