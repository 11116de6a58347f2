//! Rows of a table as an Arrow stream: `format=arrow` for reports.
//!
//! The schema, batches of rows, an end marker: each piece of an answer is encoded independently, on
//! whichever thread writes it. Columns are those of the table; times are in seconds, and numbers
//! that are not finite, or not of the column's type, are NULL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::writer::StreamWriter;

use crate::query::table::Table;
use crate::value::{ColumnType, Value};

/// Rows per batch.
pub(super) const ROWS: usize = 4_096;

/// Encodes rows of a table as Arrow batches.
pub(super) struct ArrowRows {
    schema: SchemaRef,
    /// Numbers of the columns, in display order.
    columns: Vec<usize>,
}

impl ArrowRows {
    /// An encoder for these columns of a table. Appends the schema to `start`, and what follows the
    /// rows to `end`.
    pub(super) fn new(
        table: &dyn Table,
        columns: Vec<usize>,
        start: &mut Vec<u8>,
        end: &mut Vec<u8>,
    ) -> Result<Self, ArrowError> {
        let fields = columns.iter().map(|at| {
            let column = &table.columns()[*at];
            let data_type = match column.column_type {
                ColumnType::Int | ColumnType::BigInt => DataType::Int64,
                ColumnType::Float | ColumnType::Double => DataType::Float64,
                ColumnType::Varchar(_) | ColumnType::Text => DataType::Utf8,
            };
            Field::new(&column.name, data_type, true)
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
        start.append(writer.get_mut());
        writer.finish()?;
        end.append(writer.get_mut());
        Ok(Self { schema, columns })
    }

    /// Appends a batch of rows.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        table: &dyn Table,
        rows: &[usize],
    ) -> Result<(), ArrowError> {
        let fields = self.schema.fields().iter().zip(&self.columns);
        let arrays = fields.map(|(field, &column)| -> ArrayRef {
            let values = rows.iter().map(|&row| table.value(row, column));
            match field.data_type() {
                DataType::Int64 => Arc::new(Int64Array::from_iter(values.map(|it| match it {
                    Value::Int(number) => Some(number),
                    _ => None,
                }))),
                DataType::Float64 => Arc::new(Float64Array::from_iter(
                    values.map(|it| it.number().filter(|it| it.is_finite())),
                )),
                _ => Arc::new(StringArray::from_iter(values.map(|it| match it {
                    Value::Text(text) => Some(text),
                    _ => None,
                }))),
            }
        });
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())?;
        let mut writer = StreamWriter::try_new(Vec::new(), &self.schema)?;
        // The schema was sent already.
        writer.get_mut().clear();
        writer.write(&batch)?;
        out.append(writer.get_mut());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::ipc::reader::StreamReader;
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;
    use crate::query::table::Rows;
    use crate::value::{Column, Unit};

    #[test]
    fn pieces_are_a_stream_that_others_read() {
        let column = |name: &str, column_type| Column::new(name, column_type, Unit::None);
        let table = Rows {
            columns: vec![
                column("script_name", ColumnType::Varchar(9)),
                column("not shown", ColumnType::Text),
                column("req_count", ColumnType::Int),
                column("req_time_total", ColumnType::Float),
            ]
            .into(),
            rows: vec![
                vec![
                    Value::Text("/ä".into()),
                    Value::Null,
                    Value::Int(7),
                    Value::Micros(1_500_000),
                ],
                vec![Value::Text("".into()), Value::Null, Value::Null, Value::Float(f64::NAN)],
            ],
        };
        let (mut stream, mut end) = (Vec::new(), Vec::new());
        let arrow = ArrowRows::new(&table, vec![2, 0, 3], &mut stream, &mut end).unwrap();
        let nothing = [&stream[..], &end].concat();
        for row in [0, 1, 0] {
            arrow.write(&mut stream, &table, &[row]).unwrap();
        }
        stream.append(&mut end);
        let reader = StreamReader::try_new(stream.as_slice(), None).unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        assert_eq!(batches.len(), 3);
        let shown = pretty_format_batches(&batches).unwrap().to_string();
        assert_eq!(
            shown,
            "+-----------+-------------+----------------+\n\
             | req_count | script_name | req_time_total |\n\
             +-----------+-------------+----------------+\n\
             | 7         | /ä          | 1.5            |\n\
             |           |             |                |\n\
             | 7         | /ä          | 1.5            |\n\
             +-----------+-------------+----------------+"
        );
        // No rows make a valid stream too.
        assert_eq!(StreamReader::try_new(nothing.as_slice(), None).unwrap().count(), 0);
    }
}
