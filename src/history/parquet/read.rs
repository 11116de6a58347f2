//! Reads rollup files: selected row groups, columns and rows.
//!
//! Called on threads that answer queries, and on the one that rolls rows up.

use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringViewArray};
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::datatypes::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection, RowSelector,
};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::{BATCH_ROWS, Content};

/// Options for reading files.
#[derive(Debug, Clone)]
pub(in crate::history) struct ReadAs {
    /// Rows of a batch.
    pub(in crate::history) batch_rows: usize,
    /// Required values of text columns: other rows are skipped.
    pub(in crate::history) equal: Vec<(String, String)>,
}

impl ReadAs {
    /// In batches of the usual size.
    pub(in crate::history) fn new(equal: Vec<(String, String)>) -> Self {
        Self { batch_rows: BATCH_ROWS, equal }
    }
}

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
        let groups = 0..self.metadata.metadata().num_row_groups();
        let groups = groups.map(|group| {
            let all = RowSelection::from(vec![RowSelector::select(self.group_rows(group))]);
            let equal = self.read_as.equal.iter();
            let rows = equal.filter_map(|(name, text)| self.pages_with(group, name, text));
            (group, rows.fold(all, |all, rows| all.intersection(&rows)))
        });
        unpanicked(|| Ok(groups.filter(|(_, rows)| rows.selects_any()).collect()))
    }

    fn group_rows(&self, group: usize) -> usize {
        let rows = self.metadata.metadata().row_group(group).num_rows();
        rows.try_into().unwrap_or_default()
    }

    /// The rows of those pages of a column that may contain a text; `None` if unknown.
    fn pages_with(&self, group: usize, column: &str, text: &str) -> Option<RowSelection> {
        let metadata = self.metadata.metadata();
        let (column, _) = self.metadata.schema().column_with_name(column)?;
        let seen = metadata.column_index()?.get(group)?.get(column)?;
        let ColumnIndexMetaData::BYTE_ARRAY(seen) = seen else {
            return None;
        };
        let pages = metadata.offset_index()?.get(group)?.get(column)?.page_locations();
        let rows = self.group_rows(group);
        let begins = pages.iter().map(|page| page.first_row_index);
        let begins = begins.map(|begin| usize::try_from(begin).map_or(rows, |it| it.min(rows)));
        let begins: Vec<usize> = begins.chain([rows]).collect();
        // A truncated maximum is rounded up.
        let text = text.as_bytes();
        let may_have = |(min, max): (Option<&[u8]>, Option<&[u8]>)| {
            min.is_none_or(|min| min <= text) && max.is_none_or(|max| text <= max)
        };
        let bounds = seen.min_values_iter().zip(seen.max_values_iter());
        let pages = begins.windows(2).zip(bounds);
        let pages = pages.filter(|(page, bounds)| page[0] < page[1] && may_have(*bounds));
        let pages = pages.map(|(page, _)| page[0]..page[1]);
        Some(RowSelection::from_consecutive_ranges(pages, rows))
    }

    /// Some rows of a group that have the required values, with those of these columns that there
    /// are.
    pub(in crate::history) fn batches(
        &self,
        group: usize,
        rows: RowSelection,
        columns: &[(String, Content)],
    ) -> io::Result<impl Iterator<Item = io::Result<RecordBatch>> + Send + use<>> {
        let Self { path, metadata, read_as } = self;
        let parquet = metadata.parquet_schema();
        let tests = read_as.equal.iter().filter_map(|(name, text)| {
            let (column, _) = metadata.schema().column_with_name(name)?;
            let text = StringViewArray::new_scalar(text);
            let test = move |batch: RecordBatch| eq(batch.column(0), &text);
            let mask = ProjectionMask::leaves(parquet, [column]);
            Some(Box::new(ArrowPredicateFn::new(mask, test)) as Box<dyn ArrowPredicate>)
        });
        let names = columns.iter().map(|(name, _)| name.as_str());
        let file = File::open(path)?;
        let mut batches = unpanicked(|| {
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(ProjectionMask::columns(parquet, names))
                .with_batch_size(read_as.batch_rows)
                .with_row_selection(rows)
                .with_row_filter(RowFilter::new(tests.collect()));
            Ok(reader.build()?)
        })?;
        Ok(std::iter::from_fn(move || {
            let next = unpanicked(|| batches.next().transpose().map_err(io::Error::other));
            next.transpose()
        }))
    }
}

/// Runs a call to the library, which may panic on a damaged file, and turns panics into errors.
pub(in crate::history) fn unpanicked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")))
}
