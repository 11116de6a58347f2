//! Reads rollup files: selected row groups, columns and rows.
//!
//! Called on threads that answer queries, and on the one that rolls rows up.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, StringViewArray};
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::datatypes::{DataType, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::{BATCH_ROWS, Content};

/// Options for reading files.
#[derive(Debug, Clone)]
pub(in crate::history) struct ReadAs {
    /// The type of texts.
    pub(in crate::history) texts: DataType,
    /// Rows of a batch.
    pub(in crate::history) batch_rows: usize,
    /// Required values of text columns: other pages are skipped, and other rows if texts are read
    /// as views.
    pub(in crate::history) equal: Vec<(String, String)>,
}

impl ReadAs {
    /// Texts as dictionary codes, by which consecutive rows of one key are recognised.
    pub(in crate::history) fn coded(equal: Vec<(String, String)>) -> Self {
        Self {
            texts: DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            batch_rows: BATCH_ROWS,
            equal,
        }
    }
}

/// A file whose footer was read, to select parts of it.
#[derive(Debug, Clone)]
pub(in crate::history) struct Opened(ArrowReaderMetadata);

impl Opened {
    /// Reads the footer.
    pub(in crate::history) fn new(file: &File, read_as: &ReadAs) -> io::Result<Self> {
        unpanicked(|| {
            let options =
                || ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
            let stored = ArrowReaderMetadata::load(file, options())?;
            let fields = stored.schema().fields().iter().map(|field| {
                let field = field.as_ref().clone();
                Arc::new(match field.data_type() {
                    DataType::Utf8 => field.with_data_type(read_as.texts.clone()),
                    _ => field,
                })
            });
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let metadata = Arc::clone(stored.metadata());
            Ok(Self(ArrowReaderMetadata::try_new(metadata, options().with_schema(schema))?))
        })
    }

    /// The row groups that may contain rows with these texts, and their positions.
    pub(in crate::history) fn groups(
        &self,
        equal: &[(String, String)],
    ) -> Vec<(usize, Vec<Range<usize>>)> {
        let equal = equal.iter().filter_map(|(name, text)| {
            let (column, _) = self.0.schema().column_with_name(name)?;
            Some((column, text.as_str()))
        });
        groups_with(self.0.metadata(), &equal.collect::<Vec<_>>())
    }

    /// The rows of a group at ascending positions, with those of these columns that it has.
    pub(in crate::history) fn batches(
        &self,
        file: File,
        group: usize,
        places: &[Range<usize>],
        columns: &[(String, Content)],
        read_as: &ReadAs,
    ) -> io::Result<impl Iterator<Item = io::Result<RecordBatch>> + Send + use<>> {
        let Self(metadata) = self;
        let parquet = metadata.parquet_schema();
        let mut tests: Vec<Box<dyn ArrowPredicate>> = Vec::with_capacity(read_as.equal.len());
        for (name, text) in &read_as.equal {
            if let Some((column, field)) = metadata.schema().column_with_name(name)
                && *field.data_type() == DataType::Utf8View
            {
                let text = StringViewArray::new_scalar(text);
                let test = move |batch: RecordBatch| eq(batch.column(0), &text);
                let mask = ProjectionMask::leaves(parquet, [column]);
                tests.push(Box::new(ArrowPredicateFn::new(mask, test)));
            }
        }
        let names = columns.iter().map(|(name, _)| name.as_str());
        let mask = ProjectionMask::columns(parquet, names);
        let mut batches = unpanicked(|| {
            let mut reader =
                ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                    .with_row_groups(vec![group])
                    .with_projection(mask)
                    .with_batch_size(read_as.batch_rows);
            let rows = group_rows(metadata.metadata(), group);
            if places.first() != Some(&(0..rows)) {
                let places = places.iter().cloned();
                let places = RowSelection::from_consecutive_ranges(places, rows);
                reader = reader.with_row_selection(places);
            }
            if !tests.is_empty() {
                reader = reader.with_row_filter(RowFilter::new(tests));
            }
            Ok(reader.build()?)
        })?;
        Ok(std::iter::from_fn(move || {
            let next = unpanicked(|| batches.next().transpose().map_err(io::Error::other));
            next.transpose()
        }))
    }
}

fn group_rows(metadata: &ParquetMetaData, group: usize) -> usize {
    let rows = metadata.row_group(group).num_rows();
    rows.try_into().unwrap_or_default()
}

/// The groups that may contain rows with these texts in these columns, and positions, by page
/// statistics.
fn groups_with(
    metadata: &ParquetMetaData,
    texts: &[(usize, &str)],
) -> Vec<(usize, Vec<Range<usize>>)> {
    let groups = 0..metadata.num_row_groups();
    let groups = groups.map(|group| {
        let rows = group_rows(metadata, group);
        let all = std::iter::once(0..rows).collect();
        let places = texts.iter().fold(all, |places: Vec<Range<usize>>, (column, text)| {
            let Some(pages) = pages_with(metadata, group, *column, text.as_bytes()) else {
                return places;
            };
            let both = places.iter().flat_map(|left| {
                let pages = pages.iter();
                pages.map(|page| left.start.max(page.start)..left.end.min(page.end))
            });
            both.filter(|rows| !rows.is_empty()).collect()
        });
        (group, places)
    });
    groups.filter(|(_, rows)| !rows.is_empty()).collect()
}

/// The rows of those pages of a column that may contain a text; `None` if unknown.
fn pages_with(
    metadata: &ParquetMetaData,
    group: usize,
    column: usize,
    text: &[u8],
) -> Option<Vec<Range<usize>>> {
    let ColumnIndexMetaData::BYTE_ARRAY(seen) = metadata.column_index()?.get(group)?.get(column)?
    else {
        return None;
    };
    let pages = metadata.offset_index()?.get(group)?.get(column)?.page_locations();
    let rows = group_rows(metadata, group);
    let begins = pages.iter().map(|page| page.first_row_index);
    let begins = begins.map(|begin| usize::try_from(begin).map_or(rows, |it| it.min(rows)));
    let begins: Vec<usize> = begins.chain([rows]).collect();
    // A truncated maximum is rounded up.
    let bounds = seen.min_values_iter().zip(seen.max_values_iter());
    let may_have = |(min, max): (Option<&[u8]>, Option<&[u8]>)| {
        min.is_none_or(|min| min <= text) && max.is_none_or(|max| text <= max)
    };
    let pages = begins.windows(2).zip(bounds);
    let pages = pages.filter(|(_, bounds)| may_have(*bounds));
    Some(pages.map(|(page, _)| page[0]..page[1]).collect())
}

/// Runs a call to the library, which may panic on a damaged file, and turns panics into errors.
pub(in crate::history) fn unpanicked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")))
}
