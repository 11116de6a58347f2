//! Rows of a part as batches of columns, for SQL: read from a file as it stores them, or made of the rows of a piece or of memory.
//!
//! | column | type |
//! |---|---|
//! | `time` | Timestamp (s) |
//! | keys | Utf8View; Int64 for the status |
//! | counts, bytes | Int64 |
//! | times | Float64, seconds: `req_time_total` where the file has `req_time_total_us` |
//! | `histogram` | Binary |

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, BooleanArray, Float64Array, RecordBatch, RecordBatchOptions,
    StringViewArray,
};
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::compute::{cast, filter_record_batch};
use datafusion::arrow::datatypes::{
    DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampSecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions,
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};
use parquet::file::metadata::PageIndexPolicy;

use super::read::{group_rows, groups_with, unpanicked};
use super::{BATCH_ROWS, Content, Quantiles, columns, quantiles};
use crate::history::{Dataset, Row, RowRef};
use crate::report::row_key::key_texts;

/// What a column is called where its values are microseconds.
const MICROS: &str = "_us";

/// The columns of a dataset's rows, as batches have them.
#[must_use]
pub(crate) fn schema(dataset: &Dataset) -> SchemaRef {
    let columns = columns(dataset).into_iter();
    let shown = columns.filter(|(_, content)| *content != Content::Exact);
    let fields = shown.map(|(name, content)| {
        let field = content.field(&name);
        let data_type = match content {
            Content::Time => DataType::Timestamp(TimeUnit::Second, None),
            Content::Key(_) => DataType::Utf8View,
            _ if name.ends_with(MICROS) => DataType::Float64,
            _ => field.data_type().clone(),
        };
        // What a file has no column for is NULL.
        Field::new(name.trim_end_matches(MICROS), data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The names of the columns of a dataset's keys that are texts.
pub(crate) fn key_columns(dataset: &Dataset) -> impl Iterator<Item = (usize, String)> + use<> {
    let columns = columns(dataset).into_iter();
    columns.filter_map(|(name, content)| match content {
        Content::Key(at) => Some((at, name)),
        _ => None,
    })
}

/// Some columns of a dataset's rows.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    dataset: Arc<Dataset>,
    /// The texts that keys must equal, with their columns.
    equal: Vec<(usize, String, String)>,
    /// Their places in the [`schema`], ascending; the time is the first.
    columns: Vec<(usize, String, Content)>,
    schema: SchemaRef,
}

impl Wanted {
    /// The time and these columns of the [`schema`]; `equal` says which text a key's column must equal, if it must: other rows may
    /// be left out.
    pub(crate) fn new(
        dataset: &Arc<Dataset>,
        wanted: &[usize],
        equal: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let equal = |(at, name): (usize, String)| {
            let text = equal(&name)?;
            Some((at, name, text))
        };
        let all = columns(dataset).into_iter().enumerate();
        let has = |at: &usize| *at == 0 || wanted.contains(at);
        let columns = all.filter(|(at, _)| has(at));
        let columns: Vec<(usize, String, Content)> = columns
            .map(|(at, (name, content))| (at, name, content))
            .collect();
        let schema = schema(dataset);
        let fields = columns
            .iter()
            .map(|(at, ..)| Arc::clone(&schema.fields()[*at]));
        Self {
            dataset: Arc::clone(dataset),
            equal: key_columns(dataset).filter_map(equal).collect(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            columns,
        }
    }

    /// The place of a column of the [`schema`] among these.
    pub(crate) fn place(&self, column: usize) -> Option<usize> {
        self.columns.iter().position(|(at, ..)| *at == column)
    }

    /// Whether histograms are shown.
    pub(crate) fn histograms(&self) -> bool {
        let mut contents = self.columns.iter().map(|(_, _, content)| content);
        contents.any(|content| matches!(content, Content::Histogram))
    }

    /// Whether percentiles are.
    pub(crate) fn quantiles(&self) -> bool {
        let mut contents = self.columns.iter().map(|(_, _, content)| content);
        contents.any(|content| matches!(content, Content::Quantile(_)))
    }

    /// The percentiles of a row whose histogram, with 2^`bits` buckets a doubling where it is log-linear, has these counts.
    pub(crate) fn quantiles_of(
        &self,
        counts: &[(u32, u64)],
        row: RowRef<'_>,
        bits: u32,
    ) -> Quantiles {
        quantiles(counts, &row.gain.extremes, &self.dataset.buckets, bits)
    }

    /// Whether a row is wanted.
    pub(crate) fn has(&self, row: RowRef<'_>) -> bool {
        let mut equal = self.equal.iter();
        row.is_other || equal.all(|(at, _, text)| key_texts(row.key).nth(*at) == Some(text))
    }

    /// The rows of a file whose times are in a span.
    ///
    /// # Errors
    /// When it cannot be read, or is no such file; so does each batch.
    pub(crate) fn of_file(
        &self,
        file: File,
        times: Range<u64>,
    ) -> io::Result<impl Iterator<Item = io::Result<RecordBatch>> + Send + use<>> {
        let wanted = self.clone();
        let mut batches = unpanicked(|| wanted.open(file))?;
        Ok(std::iter::from_fn(move || {
            let batch = unpanicked(|| batches.next().transpose().map_err(io::Error::other));
            let batch = batch.transpose()?;
            Some(batch.and_then(|batch| wanted.shown(&batch, &times)))
        }))
    }

    fn open(&self, file: File) -> io::Result<ParquetRecordBatchReader> {
        let policy = match self.equal.is_empty() {
            true => PageIndexPolicy::Skip,
            false => PageIndexPolicy::Optional,
        };
        let options = || ArrowReaderOptions::new().with_page_index_policy(policy);
        let stored = ArrowReaderMetadata::load(&file, options())?;
        let fields = stored.schema().fields().iter().map(|field| {
            let data_type = match field.data_type() {
                DataType::Utf8 => DataType::Utf8View,
                other => other.clone(),
            };
            Arc::new(field.as_ref().clone().with_data_type(data_type))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = options().with_schema(schema);
        let stored = ArrowReaderMetadata::try_new(Arc::clone(stored.metadata()), options)?;
        let parquet = stored.parquet_schema();
        let names = self.columns.iter().map(|(_, name, _)| name.as_str());
        let mask = ProjectionMask::columns(parquet, names);
        // First by what is known of pages, then row by row.
        let mut equal = Vec::with_capacity(self.equal.len());
        let mut tests: Vec<Box<dyn ArrowPredicate>> = Vec::with_capacity(self.equal.len());
        for (_, name, text) in &self.equal {
            if let Some((column, _)) = stored.schema().column_with_name(name) {
                equal.push((column, text.as_str()));
                let text = StringViewArray::new_scalar(text);
                let test = move |batch: RecordBatch| eq(batch.column(0), &text);
                let mask = ProjectionMask::leaves(parquet, [column]);
                tests.push(Box::new(ArrowPredicateFn::new(mask, test)));
            }
        }
        let (mut groups, mut places, mut before) = (Vec::new(), Vec::new(), 0);
        for (group, rows) in groups_with(stored.metadata(), &equal) {
            let base = before;
            groups.push(group);
            before += group_rows(stored.metadata(), group);
            places.extend(rows.iter().map(|rows| base + rows.start..base + rows.end));
        }
        let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, stored.clone());
        let mut reader = reader.with_projection(mask).with_batch_size(BATCH_ROWS);
        if !tests.is_empty() {
            let places = RowSelection::from_consecutive_ranges(places.into_iter(), before);
            reader = reader
                .with_row_groups(groups)
                .with_row_selection(places)
                .with_row_filter(RowFilter::new(tests));
        }
        Ok(reader.build()?)
    }

    /// Rows with their percentiles as a batch, log-linear histograms with 2^`bits` a doubling.
    ///
    /// # Errors
    /// Arrow's.
    pub(crate) fn of_rows(
        &self,
        rows: &[Row],
        quantiles: &[Quantiles],
        bits: u32,
    ) -> io::Result<RecordBatch> {
        let columns = self.columns.iter().map(|(_, name, content)| {
            let array = content.array(rows, quantiles, &self.dataset, bits);
            (Field::new(name, array.data_type().clone(), true), array)
        });
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        let stored = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        self.shown(&stored.map_err(io::Error::other)?, &(0..u64::MAX))
    }

    /// A batch as it is stored in the columns that are shown, without the rows of other times. What the file has no column for is
    /// NULL.
    fn shown(&self, stored: &RecordBatch, times: &Range<u64>) -> io::Result<RecordBatch> {
        let rows = stored.num_rows();
        let columns = self.columns.iter().zip(self.schema.fields());
        let arrays = columns.map(|((_, name, _), field)| {
            let Some(array) = stored.column_by_name(name) else {
                return Ok(datafusion::arrow::array::new_null_array(
                    field.data_type(),
                    rows,
                ));
            };
            if *field.data_type() == DataType::Float64
                && let Some(micros) = array.as_primitive_opt::<Int64Type>()
            {
                let seconds: Float64Array = micros.unary(|us| us as f64 / 1e6);
                return Ok(Arc::new(seconds) as ArrayRef);
            }
            cast(array, field.data_type()).map_err(io::Error::other)
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<io::Result<_>>()?;
        let begins = arrays[0].as_primitive::<TimestampSecondType>().values();
        let is_within = |time: &i64| times.contains(&u64::try_from(*time).unwrap_or_default());
        let all_within = begins.iter().all(is_within);
        let is_within = (!all_within)
            .then(|| BooleanArray::from_iter(begins.iter().map(|time| Some(is_within(time)))));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        let batch = batch.and_then(|batch| match is_within {
            None => Ok(batch),
            Some(is_within) => filter_record_batch(&batch, &is_within),
        });
        batch.map_err(io::Error::other)
    }
}
