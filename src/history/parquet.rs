//! Rollup files: the rows of one dataset and resolution in Parquet, for us and for any other program that reads it.
//!
//! | column | type | |
//! |---|---|---|
//! | `time` | TIMESTAMP (ms, UTC) | begin of the minute, hour or day |
//! | the keys | UTF8; INT64 for the status | under their column names; `key_` before one that is taken |
//! | `other` | BOOLEAN | whether the row stands for keys that found no row of their own |
//! | `req_count`, `timer_count` or `hit_count`, `error_count` | INT64 | |
//! | `req_time_total_us`, `ru_utime_total_us`, `ru_stime_total_us` | INT64 | microseconds, exact; `timer_value_total_us` of timers |
//! | `traffic_total`, `memory_footprint_total` | INT64 | bytes |
//! | `req_time_min_us`, `req_time_max_us`, `memory_peak_max` | INT64 | where they are kept |
//! | `req_time_p50`, `_p95`, `_p99` | DOUBLE | seconds |
//! | `histogram` | BINARY | see [`histogram`](super::histogram); NULL: it did not fit into the memory |
//! | `exact` | BINARY | the sums as they are, packed, where one of them is past 63 bits: the columns have the largest INT64 then |
//!
//! Rows are sorted by key, then time. A file is written once and never changed; columns are only ever added, so one that is
//! missing in an old file reads as nothing. Bounded: a row group in memory, some 128,000 rows.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Float64Array, Int64Array,
    RecordBatch, StringArray, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{
    DataType, Field, Int32Type, Int64Type, Schema, TimeUnit, TimestampMillisecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, PageIndexPolicy, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::statistics::Statistics;
use parquet::schema::types::ColumnPath;

use super::histogram::{decode, encode, settle};
use super::{Dataset, Gain, Resolution, Row, RowRef};
use crate::report::definition::Level;
use crate::report::histogram::{BucketLayout, Rank, Ranks, Rounding};
use crate::report::layout::{Measure, OTHER};
use crate::report::packed::Sum;
use crate::report::reading::Extremes;
use crate::report::row_key::{key_texts, push_key};
use crate::report::totals::Totals;

/// The version of the format, in the metadata of every file.
pub const FORMAT: &str = "1";
/// Rows of a row group.
const GROUP_ROWS: usize = 128 << 10;
/// Rows that are turned into columns at once, and back.
const BATCH_ROWS: usize = 8 << 10;
/// A page of histograms, bytes: who wants a few of them reads little else.
const HISTOGRAM_PAGE_BYTES: usize = 32 << 10;
/// The percentiles that have columns of their own.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)];
/// Names that no key may have: those of the folders, which some readers make columns of.
const FOLDERS: [&str; 3] = ["report", "resolution", "date"];

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Rows.
    pub rows: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// What a reader wants beside keys, sums and extremes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    /// Histograms.
    pub histograms: bool,
}

/// What a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Time,
    Key(usize),
    Status(usize),
    Other,
    Sum(Measure),
    TimeMin,
    TimeMax,
    MemoryPeakMax,
    Quantile(usize),
    Histogram,
    Exact,
}

/// The columns of a dataset's files.
fn columns(dataset: &Dataset) -> Vec<(String, Content)> {
    use Content::Sum;
    let sum = |name: &str, measure| (name.to_owned(), Sum(measure));
    if dataset.is_coverage() {
        let keys = dataset
            .keys
            .iter()
            .enumerate()
            .map(|(at, name)| (name.clone(), Content::Key(at)));
        let counts = [
            sum("covered_seconds", Measure::Requests),
            sum("missed_requests", Measure::Hits),
        ];
        let time = [("time".to_owned(), Content::Time)];
        return time.into_iter().chain(keys).chain(counts).collect();
    }
    let (time, hits) = match dataset.level {
        Level::Timer => ("timer_value", "hit_count"),
        Level::Packet | Level::Request => ("req_time", "timer_count"),
    };
    let mut behind = vec![
        ("other".to_owned(), Content::Other),
        sum("req_count", Measure::Requests),
        sum(hits, Measure::Hits),
    ];
    let total = format!("{time}_total_us");
    let of_times = [
        sum(&total, Measure::Time),
        sum("ru_utime_total_us", Measure::RuUtime),
        sum("ru_stime_total_us", Measure::RuStime),
    ];
    let of_requests = [
        sum("error_count", Measure::Errors),
        sum("traffic_total", Measure::Traffic),
        sum("memory_footprint_total", Measure::Memory),
    ];
    behind.extend(of_times);
    let is_of_requests = dataset.level != Level::Timer;
    behind.extend(of_requests.into_iter().filter(|_| is_of_requests));
    if dataset.extremes {
        behind.push((format!("{time}_min_us"), Content::TimeMin));
        behind.push((format!("{time}_max_us"), Content::TimeMax));
        if is_of_requests {
            behind.push(("memory_peak_max".to_owned(), Content::MemoryPeakMax));
        }
    }
    let quantiles = PERCENTILES.iter().enumerate();
    behind
        .extend(quantiles.map(|(at, (name, _))| (format!("{time}_{name}"), Content::Quantile(at))));
    behind.push(("histogram".to_owned(), Content::Histogram));
    behind.push(("exact".to_owned(), Content::Exact));
    let mut all = vec![("time".to_owned(), Content::Time)];
    for (at, key) in dataset.keys.iter().enumerate() {
        let is_taken = |name: &str| {
            let taken = all.iter().chain(&behind).map(|(taken, _)| taken.as_str());
            taken
                .chain(FOLDERS)
                .any(|taken| taken.eq_ignore_ascii_case(name))
        };
        let mut name = key.clone();
        while is_taken(&name) {
            name.insert_str(0, "key_");
        }
        let content = if dataset.status == Some(at) {
            Content::Status(at)
        } else {
            Content::Key(at)
        };
        all.push((name, content));
    }
    all.append(&mut behind);
    all
}

/// The order of rows in a file: by the texts of their keys, then by time.
#[must_use]
pub fn row_order(a: &Row, b: &Row) -> Ordering {
    key_texts(&a.key)
        .cmp(key_texts(&b.key))
        .then(a.time.cmp(&b.time))
}

/// Writes a file: rows in [`row_order`].
///
/// # Errors
/// When it cannot be written.
pub fn write(
    file: &mut File,
    dataset: &Dataset,
    resolution: Resolution,
    mut rows: impl Iterator<Item = Row>,
) -> io::Result<Written> {
    let columns = columns(dataset);
    let fields = columns.iter().map(|(name, content)| content.field(name));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = ArrowWriterOptions::new()
        .with_properties(properties(dataset, resolution, &columns))
        // It would say that we have texts as dictionaries, and other readers would show them so.
        .with_skip_arrow_metadata(true);
    let mut writer = ArrowWriter::try_new_with_options(&mut *file, Arc::clone(&schema), options)?;
    let bits = resolution.bucket_bits();
    let mut written = 0;
    loop {
        let batch: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
        if batch.is_empty() {
            break;
        }
        let quantiles: Vec<[Option<f64>; 3]> = batch
            .iter()
            .map(|row| quantiles(row, &dataset.buckets, bits))
            .collect();
        let arrays = columns
            .iter()
            .map(|(_, content)| content.array(&batch, &quantiles, dataset, bits));
        let arrays = RecordBatch::try_new(Arc::clone(&schema), arrays.collect());
        writer.write(&arrays.map_err(io::Error::other)?)?;
        written += batch.len() as u64;
    }
    writer.finish()?;
    Ok(Written {
        rows: written,
        bytes: writer.bytes_written() as u64,
    })
}

/// How the columns are written.
fn properties(
    dataset: &Dataset,
    resolution: Resolution,
    columns: &[(String, Content)],
) -> WriterProperties {
    let text = |key: &str, value: String| KeyValue::new(format!("pinbad.{key}"), value);
    // A structure of texts and numbers: writing it as JSON cannot fail.
    let metadata = vec![
        text("format", FORMAT.to_owned()),
        text(
            "dataset",
            serde_json::to_string(dataset).unwrap_or_default(),
        ),
        text("resolution", resolution.name().to_owned()),
    ];
    let is_key = |content: &Content| matches!(content, Content::Key(_) | Content::Status(_));
    let places = columns
        .iter()
        .zip(0..)
        .filter(|((_, content), _)| is_key(content));
    let sorting = places
        .map(|(_, place)| place)
        .chain([0])
        .map(|column_idx| SortingColumn {
            column_idx,
            descending: false,
            nulls_first: false,
        });
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_write_batch_size(256)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(Some(sorting.collect()))
        .set_created_by(format!("pinbad {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(metadata));
    for (name, content) in columns {
        let path = ColumnPath::from(name.as_str());
        properties = match content {
            Content::Time | Content::Key(_) | Content::Status(_) => {
                properties.set_column_statistics_enabled(path, EnabledStatistics::Page)
            }
            Content::Sum(_) | Content::TimeMin | Content::TimeMax | Content::MemoryPeakMax => {
                properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED)
            }
            Content::Histogram | Content::Exact => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
                .set_column_data_page_size_limit(path, HISTOGRAM_PAGE_BYTES),
            Content::Other | Content::Quantile(_) => properties,
        };
    }
    properties.build()
}

/// The percentiles of a row; none where its histogram is not known or empty.
fn quantiles(row: &Row, buckets: &BucketLayout, bits: u32) -> [Option<f64>; 3] {
    let Some(histogram) = row.gain.sum.histogram() else {
        return [None; 3];
    };
    let total = histogram.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return [None; 3];
    }
    let ranks = PERCENTILES
        .iter()
        .filter_map(|(_, percent)| Rank::percent(*percent, Rounding::Up));
    let mut found = Vec::with_capacity(PERCENTILES.len());
    buckets.quantiles(
        &Ranks::new(ranks.collect()),
        total,
        histogram.iter(),
        &mut found,
    );
    let longest = row.gain.extremes.longest_secs().unwrap_or(f64::INFINITY);
    let settled = |secs: f64| match buckets {
        BucketLayout::LogLinear => settle(secs, bits).min(longest),
        BucketLayout::Linear { .. } | BucketLayout::V2(_) => secs.min(longest),
    };
    std::array::from_fn(|at| found.get(at).copied().map(settled))
}

/// A sum as it fits into its column.
fn clipped(sum: u128) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}

const MEASURES: [Measure; 8] = [
    Measure::Requests,
    Measure::Hits,
    Measure::Time,
    Measure::RuUtime,
    Measure::RuStime,
    Measure::Traffic,
    Measure::Memory,
    Measure::Errors,
];

impl Content {
    fn field(self, name: &str) -> Field {
        let (data_type, nullable) = match self {
            Self::Time => (
                DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
                false,
            ),
            Self::Key(_) => (DataType::Utf8, false),
            Self::Status(_) => (DataType::Int64, true),
            Self::Other => (DataType::Boolean, false),
            Self::Sum(_) => (DataType::Int64, false),
            Self::TimeMin | Self::TimeMax | Self::MemoryPeakMax => (DataType::Int64, true),
            Self::Quantile(_) => (DataType::Float64, true),
            Self::Histogram | Self::Exact => (DataType::Binary, true),
        };
        Field::new(name, data_type, nullable)
    }

    fn array(
        self,
        rows: &[Row],
        quantiles: &[[Option<f64>; 3]],
        dataset: &Dataset,
        bits: u32,
    ) -> ArrayRef {
        let text = |row: &'_ Row, at| {
            if row.is_other {
                Some(OTHER.to_owned())
            } else {
                key_texts(&row.key).nth(at).map(str::to_owned)
            }
        };
        let rows = rows.iter();
        match self {
            Self::Time => {
                let times = rows.map(|row| clipped(u128::from(row.time) * 1_000));
                Arc::new(TimestampMillisecondArray::from_iter_values(times).with_timezone("UTC"))
            }
            Self::Key(at) => Arc::new(StringArray::from_iter_values(
                rows.map(|row| text(row, at).unwrap_or_default()),
            )),
            Self::Status(at) => {
                let status = |row: &Row| text(row, at)?.parse().ok();
                Arc::new(Int64Array::from_iter(rows.map(status)))
            }
            Self::Other => Arc::new(BooleanArray::from_iter(rows.map(|row| Some(row.is_other)))),
            Self::Sum(measure) => {
                let sums = rows.map(|row| clipped(measure.of(&row.gain.sum.totals)));
                Arc::new(Int64Array::from_iter_values(sums))
            }
            Self::TimeMin | Self::TimeMax | Self::MemoryPeakMax => {
                let seen = rows.map(|row| {
                    let seen = &row.gain.extremes;
                    let value = match self {
                        Self::TimeMin => seen.time_min,
                        Self::TimeMax => seen.time_max,
                        _ => seen.memory_peak_max.into(),
                    };
                    (seen.time_min <= seen.time_max).then(|| clipped(value.into()))
                });
                Arc::new(Int64Array::from_iter(seen))
            }
            Self::Quantile(at) => Arc::new(Float64Array::from_iter(
                quantiles.iter().map(|of_row| of_row[at]),
            )),
            Self::Histogram => {
                let blobs =
                    rows.map(|row| Some(encode(row.gain.sum.histogram()?, &dataset.buckets, bits)));
                Arc::new(BinaryArray::from_iter(blobs))
            }
            Self::Exact => {
                let exact = rows.map(|row| {
                    let totals = &row.gain.sum.totals;
                    let is_past = MEASURES
                        .iter()
                        .any(|measure| i64::try_from(measure.of(totals)).is_err());
                    is_past.then(|| {
                        let mut packed = Vec::new();
                        totals.push(&mut packed);
                        packed
                    })
                });
                Arc::new(BinaryArray::from_iter(exact))
            }
        }
    }
}

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
pub(super) struct Opened {
    metadata: ArrowReaderMetadata,
    /// The columns that it has, and where.
    columns: Vec<(usize, Content)>,
    buckets: BucketLayout,
}

impl Opened {
    /// Reads the footer.
    pub(super) fn new(file: &File, dataset: &Dataset) -> io::Result<Self> {
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
    pub(super) fn groups(&self, key: Option<&[u8]>) -> Vec<usize> {
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
    pub(super) fn group_rows(&self, group: usize) -> usize {
        self.metadata
            .metadata()
            .row_group(group)
            .num_rows()
            .try_into()
            .unwrap_or_default()
    }

    /// The rows of these groups, or of them those in `places` (ascending), of which the time is in `span`, each with its place.
    /// Without histograms these are not known; with places nothing but histograms is.
    pub(super) fn rows(
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
        for batch in reader.build()? {
            let batch = batch.map_err(io::Error::other)?;
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
