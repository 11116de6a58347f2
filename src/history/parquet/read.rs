//! Reads files: selected row groups, columns and rows.
//!
//! Called on threads that answer queries.

use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use datafusion::arrow::compute::kernels::cmp::{eq, gt_eq, lt_eq};
use datafusion::arrow::datatypes::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection, RowSelector,
};
use parquet::file::metadata::PageIndexPolicy;

use super::BATCH_ROWS;
use crate::history::columns::Batches;

/// Bytes of columns cached because both a condition and the output need them.
const CACHE_BYTES: usize = 4 << 20;

/// Options for reading files.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReadAs {
    /// Rows of a batch, if not as many as usual.
    pub(crate) batch_rows: Option<usize>,
    /// Required values of text columns: other rows are skipped.
    pub(crate) equal: Vec<(String, String)>,
}

/// The smallest and the largest value of a column in some rows, in arrays of one, if known.
pub(in crate::history) type Bounds = [Option<ArrayRef>; 2];

/// A file whose footer was read, to select parts of it.
#[derive(Debug, Clone)]
pub(in crate::history) struct Opened {
    path: PathBuf,
    /// Texts are read as views.
    metadata: ArrowReaderMetadata,
    read_as: ReadAs,
}

impl Opened {
    /// Reads the footer.
    pub(in crate::history) fn new(path: &Path, read_as: &ReadAs) -> io::Result<Self> {
        let file = File::open(path)?;
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = unpanicked(|| {
            let stored = ArrowReaderMetadata::load(&file, options.clone())?;
            let fields = stored.schema().fields().iter().map(|field| match field.data_type() {
                DataType::Utf8 => {
                    Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View))
                }
                _ => Arc::clone(field),
            });
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let metadata = Arc::clone(stored.metadata());
            Ok(ArrowReaderMetadata::try_new(metadata, options.with_schema(schema))?)
        })?;
        Ok(Self { path: path.to_owned(), metadata, read_as: read_as.clone() })
    }

    /// The row groups that may contain the required values, and by page statistics which of their
    /// rows.
    pub(in crate::history) fn groups(&self) -> io::Result<Vec<(usize, RowSelection)>> {
        let groups = self.metadata.metadata().row_groups().iter().enumerate();
        let groups = groups.map(|(group, of_group)| {
            let all = RowSelector::select(of_group.num_rows().try_into().unwrap_or_default());
            let equal = self.read_as.equal.iter();
            let rows = equal.filter_map(|(name, text)| self.pages_with(group, name, text));
            (group, rows.fold(vec![all].into(), |all: RowSelection, rows| all.intersection(&rows)))
        });
        unpanicked(|| Ok(groups.filter(|(_, rows)| rows.selects_any()).collect()))
    }

    /// The statistics of a column, if it has any.
    fn statistics<'c>(&'c self, column: &'c str) -> Option<StatisticsConverter<'c>> {
        let (schema, stored) = (self.metadata.schema(), self.metadata.parquet_schema());
        StatisticsConverter::try_new(column, schema, stored).ok()
    }

    /// The smallest and the largest value of a column in a group.
    pub(in crate::history) fn bounds(&self, group: usize, column: &str) -> Bounds {
        let Some(known) = self.statistics(column) else { return [None, None] };
        let group = || [self.metadata.metadata().row_group(group)];
        [known.row_group_mins(group()).ok(), known.row_group_maxes(group()).ok()]
    }

    /// The rows of those pages of a column that may contain a text; `None` if unknown.
    fn pages_with(&self, group: usize, column: &str, text: &str) -> Option<RowSelection> {
        let metadata = self.metadata.metadata();
        let (index, pages) = (metadata.column_index()?, metadata.offset_index()?);
        let (known, text) = (self.statistics(column)?, StringViewArray::new_scalar(text));
        let rows = known.data_page_row_counts(pages, metadata.row_groups(), [&group]).ok()??;
        // A truncated maximum is rounded up.
        let mins = lt_eq(&known.data_page_mins(index, pages, [&group]).ok()?, &text).ok()?;
        let maxes = gt_eq(&known.data_page_maxes(index, pages, [&group]).ok()?, &text).ok()?;
        let pages = rows.values().iter().zip(mins.iter().zip(&maxes));
        let pages = pages.map(|(rows, (min, max))| RowSelector {
            row_count: *rows as usize,
            skip: min == Some(false) || max == Some(false),
        });
        Some(pages.collect::<Vec<_>>().into())
    }

    /// Some rows of a group that have the required values and pass further tests, with those of
    /// these columns that there are.
    pub(in crate::history) fn batches<'c>(
        &self,
        group: usize,
        rows: RowSelection,
        columns: impl Iterator<Item = &'c str>,
        mut tests: Vec<Box<dyn ArrowPredicate>>,
    ) -> io::Result<Batches> {
        let Self { path, metadata, read_as } = self;
        for (name, text) in &read_as.equal {
            let text = StringViewArray::new_scalar(text);
            let test = move |batch: RecordBatch| eq(batch.column(0), &text);
            if metadata.schema().column_with_name(name).is_some() {
                tests.push(Box::new(ArrowPredicateFn::new(self.mask([&**name].into_iter()), test)));
            }
        }
        let file = File::open(path)?;
        let mut batches = unpanicked(|| {
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(self.mask(columns))
                .with_batch_size(read_as.batch_rows.unwrap_or(BATCH_ROWS))
                .with_row_selection(rows)
                .with_row_filter(RowFilter::new(tests))
                .with_max_predicate_cache_size(CACHE_BYTES);
            Ok(reader.build()?)
        })?;
        Ok(Box::new(std::iter::from_fn(move || {
            unpanicked(|| batches.next().transpose().map_err(io::Error::other)).transpose()
        })))
    }

    /// A selection of columns.
    pub(crate) fn mask<'c>(&self, columns: impl Iterator<Item = &'c str>) -> ProjectionMask {
        ProjectionMask::columns(self.metadata.parquet_schema(), columns)
    }
}

/// Runs a call to the library, which may panic on a damaged file, and turns panics into errors.
pub(in crate::history) fn unpanicked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")))
}
