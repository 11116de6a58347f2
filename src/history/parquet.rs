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
//! | `histogram` | BINARY | see the manual, "The past on disk"; NULL: it did not fit into the memory |
//! | `exact` | BINARY | the sums as they are, packed, where one of them is past 63 bits: the columns have the largest INT64 then |
//!
//! Rows are sorted by key, then time. A file is written once and never changed; columns are only ever added, so one that is
//! missing in an old file reads as nothing. Bounded: a row group in memory, some 128,000 rows.

use std::cmp::Ordering;
use std::fs::File;
use std::io;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::disk::HISTORY_WRITE;
use super::histogram::{encode, settle};
use super::{Dataset, Resolution, Row};
use crate::instruments::MeasuredWrite;
use crate::report::definition::Level;
use crate::report::histogram::{BucketLayout, Rank, Ranks, Rounding};
use crate::report::layout::{Measure, OTHER};
use crate::report::reading::Extremes;
use crate::report::row_key::{key_order, key_texts};

pub(crate) mod batches;
mod read;
#[cfg(test)]
mod tests;

pub use self::read::read;
pub(super) use self::read::{Opened, unpanicked};

/// The version of the format, in the metadata of every file.
pub const FORMAT: &str = "1";
/// Rows of a row group.
const GROUP_ROWS: usize = 128 << 10;
/// Rows that are turned into columns at once, and back.
const BATCH_ROWS: usize = 8 << 10;
/// A file of fewer rows is not compressed.
const PLAIN_ROWS: usize = 512;
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

/// What a reader wants beside times and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Sums and extremes.
    pub sums: bool,
    /// Histograms.
    pub histograms: bool,
}

impl Want {
    /// Times and keys alone.
    pub const KEYS: Self = Self {
        sums: false,
        histograms: false,
    };
    /// Sums and extremes.
    pub const SUMS: Self = Self {
        sums: true,
        histograms: false,
    };
    /// All that there is.
    pub const ALL: Self = Self {
        sums: true,
        histograms: true,
    };
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
            sum("histograms_dropped", Measure::Traffic),
            sum("keys_folded", Measure::Memory),
            sum("rows_lost", Measure::Errors),
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
    order((&a.key, a.time), (&b.key, b.time))
}

/// The same of keys and times.
pub(super) fn order(a: (&[u8], u64), b: (&[u8], u64)) -> Ordering {
    key_order(a.0, b.0).then(a.1.cmp(&b.1))
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
    let mut batch: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
    let compression = match batch.len() {
        // To begin to decompress a column takes longer than to read it.
        ..PLAIN_ROWS => Compression::UNCOMPRESSED,
        _ => Compression::ZSTD(ZstdLevel::default()),
    };
    let options = ArrowWriterOptions::new()
        .with_properties(properties(dataset, resolution, &columns, compression))
        // It would say that we have texts as dictionaries, and other readers would show them so.
        .with_skip_arrow_metadata(true);
    let to = MeasuredWrite::new(file, &HISTORY_WRITE);
    let mut writer = ArrowWriter::try_new_with_options(to, Arc::clone(&schema), options)?;
    let bits = resolution.bucket_bits();
    let mut written = 0;
    while !batch.is_empty() {
        let quantiles: Vec<Quantiles> = batch
            .iter()
            .map(|Row { gain, .. }| {
                let counts: Vec<_> = gain.buckets().into_iter().flatten().collect();
                quantiles(&counts, &gain.extremes, &dataset.buckets, bits)
            })
            .collect();
        let arrays = columns
            .iter()
            .map(|(_, content)| content.array(&batch, &quantiles, dataset, bits));
        let arrays = RecordBatch::try_new(Arc::clone(&schema), arrays.collect());
        writer.write(&arrays.map_err(io::Error::other)?)?;
        written += batch.len() as u64;
        batch = rows.by_ref().take(BATCH_ROWS).collect();
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
    compression: Compression,
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
        .set_compression(compression)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_write_batch_size(256)
        // Who wants one key reads little else.
        .set_data_page_row_count_limit(BATCH_ROWS)
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

/// The percentiles that files have a column for.
pub(crate) type Quantiles = [Option<f64>; PERCENTILES.len()];

static RANKS: LazyLock<Ranks> = LazyLock::new(|| {
    let ranks = PERCENTILES.iter();
    Ranks::new(
        ranks
            .filter_map(|(_, percent)| Rank::percent(*percent, Rounding::Up))
            .collect(),
    )
});

/// The percentiles of a row whose histogram has these buckets, ascending, and counts; none of nothing.
fn quantiles(
    counts: &[(u32, u64)],
    extremes: &Extremes,
    buckets: &BucketLayout,
    bits: u32,
) -> Quantiles {
    let total = counts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Quantiles::default();
    }
    let mut found = Vec::with_capacity(PERCENTILES.len());
    buckets.quantiles(&RANKS, total, counts.iter().copied(), &mut found);
    let longest = extremes.longest_secs().unwrap_or(f64::INFINITY);
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
        quantiles: &[Quantiles],
        dataset: &Dataset,
        bits: u32,
    ) -> ArrayRef {
        fn text(row: &Row, at: usize) -> Option<&str> {
            match row.is_other {
                true => Some(OTHER),
                false => key_texts(&row.key).nth(at),
            }
        }
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
