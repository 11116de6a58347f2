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

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Float32Array, Int64Array, RecordBatch,
    RecordBatchOptions, new_null_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType,
};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};

pub(crate) use super::files::Form;
use super::files::{FileColumn, Layout};

/// A column that is shown.
#[derive(Debug, Clone, Copy)]
struct Shown {
    column: &'static FileColumn,
    form: Form,
}

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
        let columns = Layout::of(table).columns.iter().map(|column| {
            let form = match column.data_type() {
                DataType::Timestamp(..) => Form::Second,
                _ => Form::Same,
            };
            let shown = Shown { column, form };
            (shown, shown.field(column.name))
        });
        let (columns, fields): (_, Vec<Field>) = columns.unzip();
        Self { table, columns, schema: Arc::new(Schema::new(fields)) }
    }

    /// As in the live table, followed by `run`, `weight`, `time` and the other columns.
    pub(crate) fn live(table: &'static str, live: &Schema) -> Self {
        let mut columns = Vec::new();
        let mut fields: Vec<FieldRef> = Vec::new();
        for field in live.fields() {
            if let Some(shown) = find(table, field.name()) {
                columns.push(shown);
                fields.push(Arc::new(field.as_ref().clone().with_nullable(true)));
            }
        }
        let shown = Layout::of(table).columns.iter().map(|it| it.shown.0);
        for name in ["run", "weight", "time"].into_iter().chain(shown) {
            let is_hidden = matches!(name, "received" | "tags_exact");
            let is_shown = is_hidden || fields.iter().any(|field| field.name() == name);
            if let Some(shown) = find(table, name).filter(|_| !is_shown) {
                fields.push(Arc::new(shown.field(name)));
                columns.push(shown);
            }
        }
        Self { table, columns, schema: Arc::new(Schema::new(fields)) }
    }

    /// The name of a column in files.
    pub(super) fn stored_name(&self, column: usize) -> &'static str {
        self.columns[column].column.name
    }

    /// A column computed from those of a file. NULL if the file does not have it.
    pub(super) fn array(&self, column: usize, stored: &RecordBatch) -> io::Result<ArrayRef> {
        let Shown { column: of, form } = self.columns[column];
        let data_type = self.schema.field(column).data_type();
        match stored.column_by_name(of.name) {
            Some(array) => form.convert(array, data_type),
            None => Ok(new_null_array(data_type, stored.num_rows())),
        }
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

/// The column of files for a live table's column, and its conversion.
pub(crate) fn of_live(table: &'static str, name: &str) -> Option<(&'static str, Form)> {
    find(table, name).map(|shown| (shown.column.name, shown.form))
}

fn find(table: &'static str, name: &str) -> Option<Shown> {
    let (form, wanted) = match name {
        "timestamp" => (Some(Form::Second), "received"),
        "time" => (Some(Form::Time), "received"),
        _ => (None, name),
    };
    let mut columns = Layout::of(table).columns.iter();
    let column = columns.find(|it| it.shown.0 == wanted)?;
    let form = form.unwrap_or(column.shown.1);
    Some(Shown { column, form })
}

impl Shown {
    /// The field in which it is shown.
    fn field(self, name: &str) -> Field {
        let data_type = match (self.form, self.column.data_type()) {
            (Form::Same, DataType::Utf8) => DataType::Utf8View,
            (Form::Same, stored) => stored,
            (Form::Seconds | Form::Kib, _) => DataType::Float32,
            (Form::Second, _) => DataType::Int64,
            (Form::Time, _) => DataType::Timestamp(TimeUnit::Second, None),
        };
        Field::new(name, data_type, true)
    }
}

impl Form {
    fn convert(self, stored: &ArrayRef, data_type: &DataType) -> io::Result<ArrayRef> {
        let numbers = stored.as_primitive_opt::<Int64Type>();
        let moments = stored.as_primitive_opt::<TimestampMillisecondType>();
        let floats = |of: fn(f64) -> f64| {
            let floats: Option<Float32Array> =
                numbers.map(|numbers| numbers.unary(|number| of(number as f64) as f32));
            floats.map(|floats| Arc::new(floats) as ArrayRef)
        };
        let made = match self {
            Self::Same => None,
            Self::Seconds => floats(|us| us / 1e6),
            Self::Kib => floats(|bytes| bytes / 1024.0),
            Self::Second | Self::Time => moments.map(|moments| {
                let seconds: Int64Array = moments.unary(|ms| ms.div_euclid(1_000));
                Arc::new(seconds) as ArrayRef
            }),
        };
        let made = made.as_ref().unwrap_or(stored);
        if made.data_type() == data_type {
            return Ok(Arc::clone(made));
        }
        cast(made, data_type).map_err(io::Error::other)
    }
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Smallest,
    Largest,
}

/// Known bounds of some rows: the smallest or largest value of columns of files, in an array of
/// one.
pub(super) struct Bounds<'a> {
    pub(super) view: &'a View,
    pub(super) of_column: &'a dyn Fn(&str, End) -> Option<ArrayRef>,
}

impl Bounds<'_> {
    fn find(&self, column: &Column, end: End) -> Option<ArrayRef> {
        let at = self.view.schema.index_of(&column.name).ok()?;
        let Shown { column: of, form } = self.view.columns[at];
        let found = (self.of_column)(of.name, end)?;
        let data_type = self.view.schema.field(at).data_type();
        form.convert(&found, data_type).ok()
    }
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.find(column, End::Smallest)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.find(column, End::Largest)
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, _: &Column) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
