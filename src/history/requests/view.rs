//! Columns of the past, as in files or as in the live tables.
//!
//! | in files | live |
//! |---|---|
//! | `req_time_us`, microseconds | `req_time`, seconds |
//! | `doc_size_bytes` | `doc_size`, KiB |
//! | `received`, milliseconds | `timestamp`, `time`: seconds |
//!
//! None of these conversions changes an order, so bounds of a column in a file give bounds of the
//! displayed values.

use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, Float64Array, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimeUnit,
};
use datafusion::common::pruning::PrunableStatistics;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};

use super::files;
use crate::history::columns::Content;
pub(crate) use crate::history::columns::Form;

/// A column that is shown: of files, and its conversion.
type Shown = (&'static str, Form);

/// The columns of a table.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) table: &'static str,
    columns: Vec<Shown>,
    pub(crate) schema: SchemaRef,
}

impl View {
    /// As in files, but with times in seconds.
    pub(crate) fn stored(table: &'static str) -> Self {
        let columns = files::columns(table).iter().map(|&(name, content)| {
            let form = if content == Content::Moment { Form::Second } else { Form::Same };
            ((name, form), content.shown_field(name, form))
        });
        let (columns, fields): (_, Vec<Field>) = columns.unzip();
        Self { table, columns, schema: Arc::new(Schema::new(fields)) }
    }

    /// As in the live table, followed by `run`, `weight`, `time` and the other columns.
    pub(crate) fn live(table: &'static str, live: &Schema) -> Self {
        let mut columns = Vec::new();
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in live.fields() {
            if let Some((shown, _)) = find(table, field.name()) {
                columns.push(shown);
                fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            }
        }
        let shown = files::columns(table).iter().map(|(name, content)| content.shown(name).0);
        for name in ["run", "weight", "time"].into_iter().chain(shown) {
            let is_hidden = matches!(name, "received" | "tags_exact");
            let is_shown = is_hidden || fields.iter().any(|field| field.name() == name);
            if let Some((shown, content)) = find(table, name).filter(|_| !is_shown) {
                fields.push(Arc::new(content.shown_field(name, shown.1)));
                columns.push(shown);
            }
        }
        Self { table, columns, schema: Arc::new(Schema::new(fields)) }
    }

    /// The name of a column in files.
    pub(super) fn stored_name(&self, column: usize) -> &'static str {
        self.columns[column].0
    }

    /// A column computed from those of a file. NULL if the file does not have it.
    pub(super) fn array(&self, column: usize, stored: &RecordBatch) -> io::Result<ArrayRef> {
        let (name, form) = self.columns[column];
        let data_type = self.schema.field(column).data_type();
        match stored.column_by_name(name) {
            Some(array) => form.convert(array, data_type),
            None => Ok(new_null_array(data_type, stored.num_rows())),
        }
    }

    /// Statistics of some rows: the bounds of columns, from those of columns of files.
    pub(super) fn statistics<'c>(
        &self,
        columns: impl Iterator<Item = &'c usize>,
        bounds: impl Fn(&str) -> Bounds,
    ) -> PrunableStatistics {
        let mut statistics = Statistics::new_unknown(&self.schema);
        for &at in columns {
            let (name, form) = self.columns[at];
            let data_type = self.schema.field(at).data_type();
            let shown = |bound: ArrayRef| {
                let shown = form.convert(&bound, data_type).ok()?;
                ScalarValue::try_from_array(&shown, 0).ok()
            };
            let [min, max] = bounds(name)
                .map(|bound| bound.and_then(shown).map_or(Precision::Absent, Precision::Exact));
            let of_column = &mut statistics.column_statistics[at];
            (of_column.min_value, of_column.max_value) = (min, max);
        }
        PrunableStatistics::new(vec![Arc::new(statistics)], Arc::clone(&self.schema))
    }

    /// Some columns, as these fields.
    pub(super) fn batch(
        &self,
        columns: &[usize],
        schema: &SchemaRef,
        stored: &RecordBatch,
    ) -> io::Result<RecordBatch> {
        let arrays = columns.iter().map(|column| self.array(*column, stored));
        let arrays = arrays.collect::<io::Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(stored.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
        batch.map_err(io::Error::other)
    }
}

/// The smallest and the largest value of a column in some rows, in arrays of one, if known.
pub(super) type Bounds = [Option<ArrayRef>; 2];

/// The column of files for a live table's column, and its conversion.
pub(crate) fn of_live(table: &'static str, name: &str) -> Option<Shown> {
    find(table, name).map(|(shown, _)| shown)
}

fn find(table: &'static str, name: &str) -> Option<(Shown, Content)> {
    let (form, wanted) = match name {
        "timestamp" => (Some(Form::Second), "received"),
        "time" => (Some(Form::Time), "received"),
        _ => (None, name),
    };
    files::columns(table).iter().find_map(|&(stored, content)| {
        let (shown, own) = content.shown(stored);
        (shown == wanted).then_some(((stored, form.unwrap_or(own)), content))
    })
}

impl Form {
    /// Converts a stored column.
    pub(in crate::history) fn convert(
        self,
        stored: &ArrayRef,
        data_type: &DataType,
    ) -> io::Result<ArrayRef> {
        let floats = |of: fn(f64) -> f64| -> Option<ArrayRef> {
            let numbers = stored.as_primitive_opt::<Int64Type>()?;
            let floats: Float64Array = numbers.unary(|number| of(number as f64));
            Some(Arc::new(floats))
        };
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let made = match self {
            Self::Same => None,
            Self::Seconds => floats(|us| us / 1e6),
            Self::Kib => floats(|bytes| bytes / 1024.0),
            Self::Second | Self::Time => cast(stored, &seconds).ok(),
        };
        let made = made.as_ref().unwrap_or(stored);
        if made.data_type() == data_type {
            return Ok(Arc::clone(made));
        }
        cast(made, data_type).map_err(io::Error::other)
    }
}
