//! Rows as SQL shows them: a projection of the stored columns, whether of a part or of memory.
//!
//! | column | type |
//! |---|---|
//! | `time` | Timestamp (s) |
//! | keys | Utf8View; Int64 for the status |
//! | counts, bytes | Int64 |
//! | times | Float64, seconds: `req_time_total` where `req_time_total_us` is stored |
//! | `histogram` | Binary |

use std::io;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Float64Array, RecordBatch, new_null_array,
};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, SchemaRef, TimestampSecondType};

use super::Dataset;
use super::columns::{Columns, Content, PERCENTILES, StoredRows, columns, quantiles};
use super::parquet::ReadAs;
use super::part::Part;
use super::read_unit::{Batches, ReadUnit, unread_error};

/// Returns the columns of a dataset's rows.
pub(crate) fn schema(dataset: &Dataset) -> SchemaRef {
    let columns = columns(dataset).into_iter();
    let shown = columns.filter(|(_, content)| *content != Content::Exact);
    let fields = shown.map(|(name, content)| {
        let (name, form) = content.shown(&name);
        content.shown_field(name, form)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns the names of a dataset's key columns that are texts.
pub(crate) fn key_columns(dataset: &Dataset) -> impl Iterator<Item = String> + use<> {
    let columns = columns(dataset).into_iter();
    columns.filter_map(|(name, content)| matches!(content, Content::Key(_)).then_some(name))
}

/// Returns the columns by which the rows of each part are sorted: statuses sort as texts do.
pub(crate) fn order(dataset: &Dataset) -> Vec<String> {
    let keys = columns(dataset).into_iter().skip(1);
    let keys = keys.take_while(|(_, content)| matches!(content, Content::Key(_)));
    let mut order: Vec<String> = keys.map(|(name, _)| name).collect();
    if order.len() == dataset.keys.len() {
        order.push("time".to_owned());
    }
    order
}

/// A selection of the columns of a dataset's rows.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    dataset: Arc<Dataset>,
    pub(crate) read_as: ReadAs,
    columns: Columns,
    /// The time comes first.
    schema: SchemaRef,
}

impl Wanted {
    /// Selects the time and those columns of the [`schema`] that `wanted` names. `equal` gives the
    /// text that a key column must equal, if any: other rows may be left out.
    pub(crate) fn new(
        dataset: &Arc<Dataset>,
        wanted: &Schema,
        equal: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let schema = schema(dataset);
        let all = columns(dataset).into_iter().zip(schema.fields().iter().cloned());
        let has = |at: usize, name: &str| at == 0 || wanted.field_with_name(name).is_ok();
        let all = all.enumerate().filter(|(at, (_, field))| has(*at, field.name()));
        let (columns, fields): (Columns, Vec<_>) = all.map(|(_, column)| column).unzip();
        let equal = |name: String| equal(&name).map(|text| (name, text));
        Self {
            dataset: Arc::clone(dataset),
            read_as: ReadAs::new(key_columns(dataset).filter_map(equal).collect()),
            schema: Arc::new(Schema::new(fields)),
            columns,
        }
    }

    /// Returns the rows of a part whose times are in a span.
    ///
    /// # Errors
    /// When the part cannot be read; each batch can fail likewise.
    pub(crate) fn of_part(&self, part: &Arc<Part>, times: &Range<u64>) -> io::Result<Batches> {
        let units = ReadUnit::of_part(part, times, &self.dataset, &self.read_as);
        let units = units.map_err(|error| unread_error(part, &error))?;
        let (wanted, part) = (self.clone(), Arc::clone(part));
        let batches = units.into_iter().flat_map(move |unit| {
            let batches = wanted.of_unit(&unit);
            batches.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
        });
        Ok(Box::new(batches.map(move |batch| batch.map_err(|error| unread_error(&part, &error)))))
    }

    /// Returns the rows in memory whose times are in a span.
    pub(crate) fn of_memory(
        &self,
        rows: &Arc<[RecordBatch]>,
        times: &Range<u64>,
    ) -> io::Result<Batches> {
        self.of_unit(&ReadUnit::of_memory(Arc::clone(rows), times.clone()))
    }

    fn of_unit(&self, unit: &ReadUnit) -> io::Result<Batches> {
        let batches = unit.batches(&self.dataset, &self.columns, None)?;
        let (wanted, times) = (self.clone(), unit.times.clone());
        Ok(Box::new(batches.map(move |batch| wanted.shown(&batch?, &times))))
    }

    /// Turns a stored batch into the columns shown, without the rows of other times.
    fn shown(&self, stored: &RecordBatch, times: &Range<u64>) -> io::Result<RecordBatch> {
        let mut found = None;
        let columns = self.columns.iter().zip(self.schema.fields());
        let arrays = columns.map(|((name, content), field)| match stored.column_by_name(name) {
            Some(array) => content.shown(name).1.convert(array, field.data_type()),
            None => Ok(match content {
                Content::Quantile(at) => {
                    Arc::clone(&found.get_or_insert_with(|| self.quantiles(stored))[*at])
                }
                _ => new_null_array(field.data_type(), stored.num_rows()),
            }),
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<io::Result<_>>()?;
        let begins = arrays[0].as_primitive::<TimestampSecondType>();
        let is_within = |time: i64| times.contains(&u64::try_from(time).unwrap_or_default());
        let is_within = BooleanArray::from_unary(begins, is_within);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        let batch = batch.and_then(|batch| filter_record_batch(&batch, &is_within));
        batch.map_err(io::Error::other)
    }

    /// Returns the columns of percentiles, which only published files store.
    fn quantiles(&self, stored: &RecordBatch) -> [ArrayRef; PERCENTILES.len()] {
        let rows = StoredRows::new(&columns(&self.dataset), stored);
        let found = (0..rows.len).map(|row| {
            let of = |it| quantiles(it, &rows.extremes(row), &self.dataset.buckets);
            rows.histogram(row).map(of).unwrap_or_default()
        });
        let found: Vec<_> = found.collect();
        std::array::from_fn(|at| {
            Arc::new(Float64Array::from_iter(found.iter().map(|of_row| of_row[at]))) as ArrayRef
        })
    }
}
