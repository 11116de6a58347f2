//! The form in which rows are stored: batches of these columns.
//!
//! | column | type | |
//! |---|---|---|
//! | `time` | TIMESTAMP (ms, UTC) | start of the minute, hour or day |
//! | the keys | UTF8; INT64 for the status | under their column names; `key_` before one that is taken |
//! | `other` | BOOLEAN | whether the row stands for keys that found no row of their own |
//! | `req_count`, `timer_count` or `hit_count`, `error_count` | INT64 | |
//! | `unmeasured_count` | INT64 | requests (hits of timers) without CPU times and memory |
//! | `req_time_total_us`, `ru_utime_total_us`, `ru_stime_total_us` | INT64 | microseconds, exact; `timer_value_total_us` of timers |
//! | `traffic_total`, `memory_footprint_total` | INT64 | bytes |
//! | `req_time_min_us`, `req_time_max_us`, `memory_peak_max` | INT64 | where they are kept |
//! | `req_time_p50`, `_p95`, `_p99` | DOUBLE | seconds; in published files alone |
//! | `histogram` | BINARY | see the manual, "The past on disk"; NULL: it did not fit into the memory |
//! | `exact` | BINARY | the sums as they are, packed, where one of them is past 63 bits: the columns have the largest INT64 then |
//!
//! Pending files contain such batches, published files have them in Parquet; rows in memory are
//! converted when somebody reads them. All readers of rows read these. Columns are only ever added:
//! a missing one reads as empty.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder,
    RecordBatch, StringBuilder, TimestampMillisecondBuilder, make_builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

pub(super) use self::read::StoredRows;
use super::histogram::{HistogramRef, encoded_pairs, settle};
use super::{Dataset, Gain, Row};
use crate::report::definition::Level;
use crate::report::histogram::{BucketLayout, LOG_LINEAR_BITS, Rank, Ranks, Rounding};
use crate::report::layout::{Measure, OTHER};
use crate::report::reading::Extremes;
use crate::report::row_key::key_texts;
use crate::report::totals::Totals;
use crate::value::Unit;

mod read;

/// The percentiles that have columns of their own.
const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)];
/// Names that no key may have: those of the folders, which some readers turn into columns.
const FOLDERS: [&str; 3] = ["report", "resolution", "date"];
/// The column of histograms.
pub(super) const HISTOGRAM: &str = "histogram";

/// The columns wanted in addition to times and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Sums and extremes.
    pub sums: bool,
    /// Histograms.
    pub histograms: bool,
}

impl Want {
    /// Sums and extremes.
    pub const SUMS: Self = Self { sums: true, histograms: false };
    /// All columns.
    pub const ALL: Self = Self { sums: true, histograms: true };

    /// Whether a column with this content is wanted.
    pub(super) fn has(self, content: Content) -> bool {
        match content {
            Content::Quantile(_) => false,
            Content::Histogram => self.histograms,
            Content::Time | Content::Key(_) | Content::Status(_) | Content::Other => true,
            _ => self.sums,
        }
    }
}

/// The content of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
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
    /// For raw requests: an encoded row.
    Packed,
}

/// The columns of a dataset, by name.
pub(super) type Columns = Vec<(String, Content)>;

/// The columns of a dataset's published files.
pub(super) fn columns(dataset: &Dataset) -> Columns {
    use Content::Sum;
    let sum = |name: &str, measure| (name.to_owned(), Sum(measure));
    if dataset.is_raw() {
        return vec![("packed".to_owned(), Content::Packed)];
    }
    if let Some(sums) = dataset.own_sums() {
        let keys =
            dataset.keys.iter().enumerate().map(|(at, name)| (name.clone(), Content::Key(at)));
        let counts = sums.map(|(name, measure)| sum(name, measure));
        let time = [("time".to_owned(), Content::Time)];
        return time.into_iter().chain(keys).chain(counts).collect();
    }
    let (time, hits) = match dataset.level {
        Level::Timer => ("timer_value", "hit_count"),
        Level::Packet | Level::Request => ("req_time", "timer_count"),
    };
    let is_of_requests = dataset.level != Level::Timer;
    let mut measures = Measure::ALL.to_vec();
    let place = |it: &Measure| match it {
        // Files list errors before sizes.
        Measure::Errors => 1,
        Measure::Traffic | Measure::Memory => 2,
        Measure::Unmeasured => 3,
        _ => 0,
    };
    measures.sort_by_key(place);
    measures.retain(|it| is_of_requests || !matches!(place(it), 1 | 2));
    let mut behind = vec![("other".to_owned(), Content::Other)];
    behind.extend(measures.iter().map(|measure| match measure {
        Measure::Hits => sum(hits, *measure),
        Measure::Time => sum(&format!("{time}_total_us"), *measure),
        _ => sum(measure.stored(), *measure),
    }));
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
    behind.push((HISTOGRAM.to_owned(), Content::Histogram));
    behind.push(("exact".to_owned(), Content::Exact));
    let mut all = vec![("time".to_owned(), Content::Time)];
    for (at, key) in dataset.keys.iter().enumerate() {
        let is_taken = |name: &str| {
            let taken = all.iter().chain(&behind).map(|(taken, _)| taken.as_str());
            taken.chain(FOLDERS).any(|taken| taken.eq_ignore_ascii_case(name))
        };
        let mut name = key.clone();
        while is_taken(&name) {
            name.insert_str(0, "key_");
        }
        let content =
            if dataset.status == Some(at) { Content::Status(at) } else { Content::Key(at) };
        all.push((name, content));
    }
    all.append(&mut behind);
    all
}

/// The values that the columns of texts must have for this key.
pub(super) fn equal_to(columns: &Columns, key: &[u8]) -> Vec<(String, String)> {
    let texts = key_texts(key).enumerate();
    let equal = texts.filter_map(|(at, text)| {
        let mut columns = columns.iter();
        let (name, _) = columns.find(|(_, content)| *content == Content::Key(at))?;
        Some((name.clone(), text.to_owned()))
    });
    equal.collect()
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Int(Option<i64>),
    Float(Option<f64>),
    Bool(bool),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    /// A unix second.
    Moment(u64),
}

/// A column being built.
pub(super) struct Column(Box<dyn ArrayBuilder>);

impl Column {
    /// For one of the types of a [`Cell`].
    pub(super) fn new(data_type: &DataType) -> Self {
        Self(make_builder(data_type, 1_024))
    }

    fn of<B: ArrayBuilder>(&mut self) -> &mut B {
        let builder = self.0.as_any_mut().downcast_mut();
        builder.expect("cells have the type of their column")
    }

    /// Adds a cell; returns the approximate number of bytes.
    #[inline]
    pub(super) fn push(&mut self, cell: Cell<'_>) -> usize {
        match cell {
            Cell::Int(value) => self.of::<Int64Builder>().append_option(value),
            Cell::Float(value) => self.of::<Float64Builder>().append_option(value),
            Cell::Bool(value) => self.of::<BooleanBuilder>().append_value(value),
            Cell::Text(value) => {
                self.of::<StringBuilder>().append_option(value);
                return value.map_or(0, str::len) + 4;
            }
            Cell::Bytes(value) => {
                self.of::<BinaryBuilder>().append_option(value);
                return value.map_or(0, <[u8]>::len) + 4;
            }
            Cell::Moment(secs) => {
                let moments: &mut TimestampMillisecondBuilder = self.of();
                moments.append_value(clipped(u128::from(secs) * 1_000));
            }
        }
        8
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        self.0.finish()
    }
}

/// The type of times.
pub(super) fn moment() -> DataType {
    DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
}

/// Builds batches from rows.
pub(super) struct BatchBuilder {
    columns: Vec<(Content, Column)>,
    schema: SchemaRef,
    buckets: BucketLayout,
    /// Buckets per doubling, as a power of two.
    bits: u32,
    has_quantiles: bool,
    /// Rows so far, and their approximate bytes.
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl BatchBuilder {
    /// For rows of a dataset, whose histograms get 2^`bits` buckets per doubling.
    pub(super) fn new(dataset: &Dataset, bits: u32, has_quantiles: bool) -> Self {
        let mut columns = columns(dataset);
        columns.retain(|it| has_quantiles || !matches!(it.1, Content::Quantile(_)));
        let fields = columns.iter().map(|(name, content)| content.field(name));
        let fields: Vec<Field> = fields.collect();
        let made = columns.iter().zip(&fields);
        Self {
            columns: made
                .map(|((_, content), field)| (*content, Column::new(field.data_type())))
                .collect(),
            schema: Arc::new(Schema::new(fields)),
            buckets: dataset.buckets,
            bits,
            has_quantiles,
            rows: 0,
            bytes: 0,
        }
    }

    pub(super) fn buckets(&self) -> &BucketLayout {
        &self.buckets
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &Row) {
        let Gain { sum, extremes } = &row.gain;
        let histogram = sum.histogram();
        let histogram = histogram.map_or(HistogramRef::Unknown, HistogramRef::Counted);
        let place = (row.time, &*row.key, row.is_other);
        self.push_parts(place, &sum.totals, extremes, histogram);
    }

    /// Adds a row: its time, its key and whether that is the overflow row, and its gain.
    pub(super) fn push_parts(
        &mut self,
        (time, key, is_other): (u64, &[u8], bool),
        totals: &Totals,
        extremes: &Extremes,
        histogram: HistogramRef<'_>,
    ) {
        let blob = histogram.encoded(&self.buckets, self.bits);
        let mut found = Quantiles::default();
        if let Some(blob) = blob.as_deref().filter(|_| self.has_quantiles) {
            found = quantiles(blob, extremes, &self.buckets);
        }
        let mut exact = Vec::new();
        let mut texts = key_texts(key);
        let mut text = || match is_other {
            true => OTHER,
            false => texts.next().unwrap_or_default(),
        };
        let has_seen = extremes.time_min <= extremes.time_max;
        let seen = |value: u64| Cell::Int(has_seen.then(|| clipped(value.into())));
        for (content, column) in &mut self.columns {
            let cell = match content {
                Content::Time => Cell::Moment(time),
                Content::Key(_) => Cell::Text(Some(text())),
                Content::Status(_) => Cell::Int(text().parse().ok()),
                Content::Other => Cell::Bool(is_other),
                Content::Sum(measure) => Cell::Int(Some(clipped(measure.of(totals)))),
                Content::TimeMin => seen(extremes.time_min),
                Content::TimeMax => seen(extremes.time_max),
                Content::MemoryPeakMax => seen(extremes.memory_peak_max.into()),
                Content::Quantile(at) => Cell::Float(found[*at]),
                Content::Histogram => Cell::Bytes(blob.as_deref()),
                Content::Exact => {
                    let is_past = |sum: u128| i64::try_from(sum).is_err();
                    let is_past = totals.sums().into_iter().any(is_past);
                    Cell::Bytes(is_past.then(|| {
                        totals.push(&mut exact);
                        &*exact
                    }))
                }
                Content::Packed => Cell::Bytes(None),
            };
            self.bytes += column.push(cell);
        }
        self.rows += 1;
    }

    /// Adds an encoded row.
    pub(super) fn push_packed(&mut self, packed: &[u8]) {
        for (_, column) in &mut self.columns {
            self.bytes += column.push(Cell::Bytes(Some(packed)));
        }
        self.rows += 1;
    }

    /// Takes the rows as a batch.
    pub(super) fn finish(&mut self) -> RecordBatch {
        (self.rows, self.bytes) = (0, 0);
        let arrays = self.columns.iter_mut().map(|(_, column)| column.finish());
        RecordBatch::try_new(Arc::clone(&self.schema), arrays.collect())
            .expect("each row has all columns")
    }
}

/// The percentiles with columns in files.
pub(super) type Quantiles = [Option<f64>; PERCENTILES.len()];

static RANKS: LazyLock<Ranks> = LazyLock::new(|| {
    let ranks = PERCENTILES.iter();
    Ranks::new(ranks.filter_map(|(_, percent)| Rank::percent(*percent, Rounding::Up)).collect())
});

/// The percentiles of a row with this histogram; none if it is empty.
pub(super) fn quantiles(blob: &[u8], extremes: &Extremes, buckets: &BucketLayout) -> Quantiles {
    let pairs = encoded_pairs(blob, buckets, LOG_LINEAR_BITS);
    let counts: Vec<(u32, u64)> = pairs.into_iter().flatten().flatten().collect();
    let total = counts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Quantiles::default();
    }
    let mut found = Vec::with_capacity(PERCENTILES.len());
    buckets.quantiles(&RANKS, total, counts, &mut found);
    let longest = extremes.longest_secs().unwrap_or(f64::INFINITY);
    let settled = |secs: f64| match buckets {
        BucketLayout::LogLinear => settle(secs, blob[0].into()).min(longest),
        BucketLayout::Linear { .. } | BucketLayout::V2(_) => secs.min(longest),
    };
    std::array::from_fn(|at| found.get(at).copied().map(settled))
}

/// A sum limited to its column's range.
fn clipped(sum: u128) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}

/// Suffix of columns in microseconds.
const MICROS: &str = "_us";

impl Content {
    /// Whether it has microseconds, which SQL shows as seconds.
    pub(super) const fn is_time(self) -> bool {
        match self {
            Self::Sum(measure) => matches!(measure.unit(), Unit::Seconds),
            Self::TimeMin | Self::TimeMax => true,
            _ => false,
        }
    }

    /// The displayed name of a column.
    pub(super) fn shown_name(self, stored: &str) -> &str {
        let seconds = stored.strip_suffix(MICROS).filter(|_| self.is_time());
        seconds.unwrap_or(stored)
    }

    pub(super) fn field(self, name: &str) -> Field {
        let (data_type, nullable) = match self {
            Self::Time => (moment(), false),
            Self::Key(_) => (DataType::Utf8, false),
            Self::Status(_) => (DataType::Int64, true),
            Self::Other => (DataType::Boolean, false),
            Self::Sum(_) => (DataType::Int64, false),
            Self::TimeMin | Self::TimeMax | Self::MemoryPeakMax => (DataType::Int64, true),
            Self::Quantile(_) => (DataType::Float64, true),
            Self::Histogram | Self::Exact | Self::Packed => (DataType::Binary, true),
        };
        Field::new(name, data_type, nullable)
    }
}
