//! Reading a rollup file: which of its row groups, which of their columns, which of their rows.
//!
//! Called on threads that answer questions, and on the one that folds rows to coarser ones. Rows are handed out one by one
//! from batches of columns; what they are made of is used again for the next one.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Int64Array, RecordBatch,
    StringArray,
};
use datafusion::arrow::datatypes::{
    DataType, Int32Type, Int64Type, Schema, TimestampMillisecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use super::{BATCH_ROWS, Content, Want, columns};
use crate::history::histogram::decode;
use crate::history::{Dataset, Gain, RowRef};
use crate::report::histogram::BucketLayout;
use crate::report::layout::{Measure, OTHER};
use crate::report::packed::Sum;
use crate::report::reading::Extremes;
use crate::report::row_key::{key_texts, push_key};
use crate::report::totals::Totals;

/// Reads a file: the rows of which the time is in `span`, in their order. What the file has no column for is 0 or not known.
///
/// # Errors
/// When it cannot be read, or is no such file.
pub fn read(
    file: File,
    dataset: &Dataset,
    span: Range<u64>,
    want: Want,
    each: &mut dyn FnMut(RowRef<'_>),
) -> io::Result<()> {
    let opened = Opened::new(&file, dataset)?;
    for (group, rows) in opened.groups(None) {
        let file = file.try_clone()?;
        opened.rows(file, group, &rows, &span, want, &mut |_, row| each(row))?;
    }
    Ok(())
}

/// A file whose footer was read: which parts of it are to be read can be chosen.
#[derive(Debug, Clone)]
pub(in crate::history) struct Opened {
    metadata: ArrowReaderMetadata,
    /// The columns that it has, and where.
    columns: Vec<(usize, Content)>,
    buckets: BucketLayout,
}

impl Opened {
    /// Reads the footer.
    pub(in crate::history) fn new(file: &File, dataset: &Dataset) -> io::Result<Self> {
        unpanicked(|| Self::open(file, dataset))
    }

    fn open(file: &File, dataset: &Dataset) -> io::Result<Self> {
        let options =
            || ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = ArrowReaderMetadata::load(file, options())?;
        // Texts as dictionaries: rows of one key, which follow each other, are seen to be of one by their numbers.
        let fields = metadata
            .schema()
            .fields()
            .iter()
            .map(|field| match field.data_type() {
                DataType::Utf8 => {
                    let keys =
                        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
                    Arc::new(field.as_ref().clone().with_data_type(keys))
                }
                _ => Arc::clone(field),
            });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let metadata = ArrowReaderMetadata::try_new(
            Arc::clone(metadata.metadata()),
            options().with_schema(schema),
        )?;
        let has = columns(dataset).into_iter().filter_map(|(name, content)| {
            let (at, field) = metadata.schema().column_with_name(&name)?;
            let expected = content.field(&name);
            let is_expected = match field.data_type() {
                DataType::Dictionary(_, values) => values.as_ref() == expected.data_type(),
                other => other == expected.data_type(),
            };
            is_expected.then_some((at, content))
        });
        Ok(Self {
            columns: has.collect(),
            buckets: dataset.buckets,
            metadata,
        })
    }

    /// The row groups in which there may be rows that have these texts as keys, `None`: any; and where in them.
    pub(in crate::history) fn groups(&self, key: Option<&[u8]>) -> Vec<(usize, Vec<Range<usize>>)> {
        let metadata = self.metadata.metadata();
        let column = |at: usize| {
            let is_it = |(_, content): &&(usize, Content)| *content == Content::Key(at);
            self.columns.iter().find(is_it).map(|(column, _)| *column)
        };
        let texts = key.into_iter().flat_map(key_texts).enumerate();
        let texts = texts.filter_map(|(at, text)| Some((column(at)?, text)));
        groups_with(metadata, &texts.collect::<Vec<_>>())
    }

    /// Those rows of a group, at places that ascend, of which the time is in `span`, each with its place. What is not wanted is
    /// 0 or not known.
    pub(in crate::history) fn rows(
        &self,
        file: File,
        group: usize,
        places: &[Range<usize>],
        span: &Range<u64>,
        want: Want,
        each: &mut dyn FnMut(usize, RowRef<'_>),
    ) -> io::Result<()> {
        let wanted = |content: &Content| match content {
            Content::Quantile(_) => false,
            Content::Histogram => want.histograms,
            Content::Time | Content::Key(_) | Content::Status(_) | Content::Other => true,
            _ => want.sums,
        };
        // Columns stand in the order of the file.
        let mut wanted: Vec<(usize, Content)> = self
            .columns
            .iter()
            .filter(|it| wanted(&it.1))
            .copied()
            .collect();
        wanted.sort_unstable_by_key(|(at, _)| *at);
        let columns = wanted.iter().map(|(at, _)| *at);
        let mut batches = self.reader(file, group, places, columns)?;
        let mut places = places.iter().cloned().flatten();
        let mut key = Vec::new();
        while let Some(batch) = next(&mut batches)? {
            let contents = wanted.iter().map(|(_, content)| *content);
            let cells = Cells::new(contents.zip(batch.columns()), &self.buckets);
            cells.each(batch.num_rows(), &mut places, span, &mut key, each);
        }
        Ok(())
    }

    /// The histograms of rows of a group, at places that ascend, as they are stored.
    pub(in crate::history) fn histograms(
        &self,
        file: File,
        group: usize,
        places: &[Range<usize>],
        each: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> io::Result<()> {
        let column = self.columns.iter().find(|it| it.1 == Content::Histogram);
        let mut batches = self.reader(file, group, places, column.map(|it| it.0).into_iter())?;
        let mut places = places.iter().cloned().flatten();
        while let Some(batch) = next(&mut batches)? {
            let column = batch.columns().first();
            let blobs = column.and_then(|column| column.as_binary_opt::<i32>());
            for (row, place) in (0..batch.num_rows()).zip(&mut places) {
                let known = blobs.filter(|blobs| blobs.is_valid(row));
                each(place, known.map(|blobs| blobs.value(row)));
            }
        }
        Ok(())
    }

    fn reader(
        &self,
        file: File,
        group: usize,
        places: &[Range<usize>],
        columns: impl Iterator<Item = usize>,
    ) -> io::Result<ParquetRecordBatchReader> {
        let metadata = &self.metadata;
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), columns);
        unpanicked(|| {
            let rows = group_rows(metadata.metadata(), group);
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone())
                .with_row_groups(vec![group])
                .with_projection(mask)
                .with_batch_size(BATCH_ROWS);
            let places = places.iter().cloned();
            let reader = reader
                .with_row_selection(RowSelection::from_consecutive_ranges(places, rows))
                .build();
            Ok(reader?)
        })
    }
}

fn next(batches: &mut ParquetRecordBatchReader) -> io::Result<Option<RecordBatch>> {
    unpanicked(|| batches.next().transpose().map_err(io::Error::other))
}

pub(super) fn group_rows(metadata: &ParquetMetaData, group: usize) -> usize {
    let rows = metadata.row_group(group).num_rows();
    rows.try_into().unwrap_or_default()
}

/// The groups in which there may be rows that have these texts in these columns, and where in them, by what is known of pages.
pub(super) fn groups_with(
    metadata: &ParquetMetaData,
    texts: &[(usize, &str)],
) -> Vec<(usize, Vec<Range<usize>>)> {
    let groups = 0..metadata.num_row_groups();
    let groups = groups.map(|group| {
        let rows = group_rows(metadata, group);
        let all = std::iter::once(0..rows).collect();
        let places = texts
            .iter()
            .fold(all, |places: Vec<Range<usize>>, (column, text)| {
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

/// The rows of those pages of a column in which a text may be; `None`: that is not known.
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
    let pages = metadata
        .offset_index()?
        .get(group)?
        .get(column)?
        .page_locations();
    let rows = group_rows(metadata, group);
    let begins = pages.iter().map(|page| page.first_row_index);
    let begins = begins.map(|begin| usize::try_from(begin).map_or(rows, |it| it.min(rows)));
    let begins: Vec<usize> = begins.chain([rows]).collect();
    // A maximum that was cut is made larger.
    let bounds = seen.min_values_iter().zip(seen.max_values_iter());
    let may_have = |(min, max): (Option<&[u8]>, Option<&[u8]>)| {
        min.is_none_or(|min| min <= text) && max.is_none_or(|max| text <= max)
    };
    let pages = begins.windows(2).zip(bounds);
    let pages = pages.filter(|(_, bounds)| may_have(*bounds));
    Some(pages.map(|(page, _)| page[0]..page[1]).collect())
}

/// What the library makes of a file; where that is damaged it may panic, which is an error as any other.
pub(in crate::history) fn unpanicked<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let done = std::panic::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged")))
}

/// The columns of a batch, as far as they are there.
struct Cells<'a> {
    buckets: &'a BucketLayout,
    times: Option<&'a [i64]>,
    keys: Vec<KeyCells<'a>>,
    other: Option<&'a BooleanArray>,
    sums: Vec<(Measure, &'a [i64])>,
    extremes: [Option<&'a Int64Array>; 3],
    histograms: Option<&'a BinaryArray>,
    exact: Option<&'a BinaryArray>,
}

/// A column of keys.
enum KeyCells<'a> {
    /// Places in texts.
    Text(&'a [i32], &'a StringArray),
    Number(&'a Int64Array),
}

impl<'a> Cells<'a> {
    fn new(
        columns: impl Iterator<Item = (Content, &'a ArrayRef)>,
        buckets: &'a BucketLayout,
    ) -> Self {
        let mut cells = Self {
            buckets,
            times: None,
            keys: Vec::new(),
            other: None,
            sums: Vec::new(),
            extremes: [None; 3],
            histograms: None,
            exact: None,
        };
        for (content, array) in columns {
            let numbers = || array.as_primitive_opt::<Int64Type>();
            match content {
                Content::Time => {
                    let times = array.as_primitive_opt::<TimestampMillisecondType>();
                    cells.times = times.map(|times| times.values().as_ref());
                }
                Content::Key(_) => {
                    let texts = array.as_dictionary_opt::<Int32Type>();
                    let texts = texts.and_then(|texts| {
                        Some((
                            texts.keys().values().as_ref(),
                            texts.values().as_string_opt()?,
                        ))
                    });
                    cells
                        .keys
                        .extend(texts.map(|(places, texts)| KeyCells::Text(places, texts)));
                }
                Content::Status(_) => cells.keys.extend(numbers().map(KeyCells::Number)),
                Content::Other => cells.other = array.as_boolean_opt(),
                Content::Sum(measure) => cells
                    .sums
                    .extend(numbers().map(|sums| (measure, sums.values().as_ref()))),
                Content::TimeMin => cells.extremes[0] = numbers(),
                Content::TimeMax => cells.extremes[1] = numbers(),
                Content::MemoryPeakMax => cells.extremes[2] = numbers(),
                Content::Quantile(_) => {}
                Content::Histogram => cells.histograms = array.as_binary_opt(),
                Content::Exact => cells.exact = array.as_binary_opt(),
            }
        }
        cells
    }

    /// Hands out the rows; `key` is that of the last one.
    fn each(
        &self,
        rows: usize,
        places: &mut dyn Iterator<Item = usize>,
        span: &Range<u64>,
        key: &mut Vec<u8>,
        each: &mut dyn FnMut(usize, RowRef<'_>),
    ) {
        let mut is_other = false;
        let mut gain = Gain::default();
        for (row, place) in (0..rows).zip(places) {
            if row == 0 || !self.is_same_key(row) {
                is_other = self.other.is_some_and(|other| other.value(row));
                self.write_key(row, is_other, key);
            }
            let time = self.times.map_or(span.start, |times| {
                u64::try_from(times[row]).unwrap_or_default() / 1_000
            });
            if !span.contains(&time) {
                continue;
            }
            let histogram = self.histograms.filter(|blobs| blobs.is_valid(row));
            let histogram = histogram.and_then(|blobs| decode(blobs.value(row), self.buckets));
            gain.sum = Sum::of(self.totals(row), histogram);
            gain.extremes = self.extremes(row);
            let gain = &gain;
            each(
                place,
                RowRef {
                    time,
                    key,
                    is_other,
                    gain,
                },
            );
        }
    }

    fn is_same_key(&self, row: usize) -> bool {
        let is_same = |key: &KeyCells<'_>| match key {
            KeyCells::Text(places, _) => places[row] == places[row - 1],
            KeyCells::Number(numbers) => {
                (numbers.is_valid(row), numbers.value(row))
                    == (numbers.is_valid(row - 1), numbers.value(row - 1))
            }
        };
        self.other
            .is_none_or(|other| other.value(row) == other.value(row - 1))
            && self.keys.iter().all(is_same)
    }

    fn write_key(&self, row: usize, is_other: bool, key: &mut Vec<u8>) {
        key.clear();
        for cells in &self.keys {
            match cells {
                _ if is_other => push_key(key, OTHER),
                KeyCells::Text(places, texts) => {
                    let place = usize::try_from(places[row]).unwrap_or_default();
                    let text = if place < texts.len() {
                        texts.value(place)
                    } else {
                        ""
                    };
                    push_key(key, text);
                }
                KeyCells::Number(numbers) => push_key(key, &numbers.value(row).to_string()),
            }
        }
    }

    fn totals(&self, row: usize) -> Totals {
        if let Some(exact) = self.exact
            && exact.is_valid(row)
        {
            return Totals::take(&mut exact.value(row));
        }
        let mut totals = Totals::ZERO;
        for (measure, sums) in &self.sums {
            let sum = u64::try_from(sums[row]).unwrap_or_default();
            match measure {
                Measure::Requests => totals.requests = sum,
                Measure::Hits => totals.hits = sum.into(),
                Measure::Time => totals.time = sum.into(),
                Measure::RuUtime => totals.ru_utime = sum.into(),
                Measure::RuStime => totals.ru_stime = sum.into(),
                Measure::Traffic => totals.traffic = sum.into(),
                Measure::Memory => totals.memory = sum.into(),
                Measure::Errors => totals.errors = sum,
            }
        }
        totals
    }

    fn extremes(&self, row: usize) -> Extremes {
        let value = |numbers: Option<&Int64Array>| {
            let numbers = numbers.filter(|numbers| numbers.is_valid(row))?;
            u64::try_from(numbers.value(row)).ok()
        };
        let [time_min, time_max, memory_peak_max] = self.extremes.map(value);
        let Some((time_min, time_max)) = time_min.zip(time_max) else {
            return Extremes::NOTHING;
        };
        let memory_peak_max =
            u32::try_from(memory_peak_max.unwrap_or_default()).unwrap_or(u32::MAX);
        Extremes {
            time_min,
            time_max,
            memory_peak_max,
        }
    }
}
