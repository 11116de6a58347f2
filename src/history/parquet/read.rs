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
    Array as _, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Int64Array, StringArray,
};
use datafusion::arrow::datatypes::{
    DataType, Int32Type, Int64Type, Schema, TimestampMillisecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::statistics::Statistics;

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
    let groups = opened.groups(None);
    opened.rows(file, &groups, None, &span, want, &mut |_, row| each(row))
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
            || ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
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

    /// The row groups in which there may be rows that have these texts as keys; `None`: any.
    pub(in crate::history) fn groups(&self, key: Option<&[u8]>) -> Vec<usize> {
        let groups = self.metadata.metadata().row_groups().iter().enumerate();
        let may_have = groups.filter(|(_, group)| {
            let Some(key) = key else {
                return true;
            };
            key_texts(key).enumerate().all(|(at, text)| {
                let of_key = |(_, content): &&(usize, Content)| *content == Content::Key(at);
                let column = self
                    .columns
                    .iter()
                    .find(of_key)
                    .map(|(column, _)| group.column(*column));
                let Some(Statistics::ByteArray(seen)) =
                    column.and_then(|column| column.statistics())
                else {
                    return true;
                };
                let (min, max) = (seen.min_bytes_opt(), seen.max_bytes_opt());
                // A maximum that was cut is made larger.
                min.is_none_or(|min| min <= text.as_bytes())
                    && max.is_none_or(|max| text.as_bytes() <= max)
            })
        });
        may_have.map(|(at, _)| at).collect()
    }

    /// Rows of a row group.
    pub(in crate::history) fn group_rows(&self, group: usize) -> usize {
        self.metadata
            .metadata()
            .row_group(group)
            .num_rows()
            .try_into()
            .unwrap_or_default()
    }

    /// The rows of these groups, or of them those in `places` (ascending), of which the time is in `span`, each with its place.
    /// Without histograms these are not known; with places nothing but histograms is.
    pub(in crate::history) fn rows(
        &self,
        file: File,
        groups: &[usize],
        places: Option<&[Range<usize>]>,
        span: &Range<u64>,
        want: Want,
        each: &mut dyn FnMut(usize, RowRef<'_>),
    ) -> io::Result<()> {
        let wanted = |content: &Content| match content {
            Content::Quantile(_) => false,
            Content::Histogram => want.histograms,
            _ => places.is_none(),
        };
        let wanted: Vec<(usize, Content)> = self
            .columns
            .iter()
            .filter(|(_, content)| wanted(content))
            .copied()
            .collect();
        let schema = self.metadata.parquet_schema();
        let mask = ProjectionMask::leaves(schema, wanted.iter().map(|(at, _)| *at));
        let mut reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_row_groups(groups.to_vec())
                .with_projection(mask)
                .with_batch_size(BATCH_ROWS);
        let rows = groups.iter().map(|group| self.group_rows(*group)).sum();
        if let Some(places) = places {
            reader = reader.with_row_selection(RowSelection::from_consecutive_ranges(
                places.iter().cloned(),
                rows,
            ));
        }
        let everything = 0..rows;
        let places = places.unwrap_or(std::slice::from_ref(&everything));
        let mut place = places.iter().cloned().flatten();
        let mut key = Vec::new();
        let mut batches = unpanicked(|| Ok(reader.build()?))?;
        while let Some(batch) = unpanicked(|| batches.next().transpose().map_err(io::Error::other))?
        {
            // Columns stand in the order of the file.
            let mut contents = wanted.clone();
            contents.sort_unstable_by_key(|(at, _)| *at);
            let contents = contents.iter().map(|(_, content)| *content);
            let cells = Cells::new(contents.zip(batch.columns()), &self.buckets);
            cells.each(batch.num_rows(), &mut place, span, &mut key, each);
        }
        Ok(())
    }
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
