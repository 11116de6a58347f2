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
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringBuilder, TimestampMillisecondBuilder, make_builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

pub(super) use self::read::{Batches, RowReader, StoredRows};
use super::histogram::{encode, encoded_pairs, ends, settle};
use super::requests::files;
use super::row::StoredRow;
use super::{Dataset, Gain, Resolution, Row};
use crate::report::definition::Level;
use crate::report::histogram::{BucketLayout, LOG_LINEAR_BITS, Rank, Rounding, within};
use crate::report::layout::{Measure, OTHER};
use crate::report::row_key::key_texts;
use crate::report::totals::Extremes;

mod read;

/// The percentiles that have columns of their own.
pub(super) const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0)];
/// Names that no key may have: those of the folders, which some readers turn into columns.
const FOLDERS: [&str; 3] = ["report", "resolution", "date"];
/// The column of histograms.
pub(super) const HISTOGRAM: &str = "histogram";
/// The sums of a report in their order in files: errors before sizes.
const SUMS: [Measure; Measure::ALL.len()] = {
    use Measure::{Errors, Hits, Memory, Requests, RuStime, RuUtime, Time, Traffic, Unmeasured};
    [Requests, Hits, Time, RuUtime, RuStime, Errors, Traffic, Memory, Unmeasured]
};

/// The columns wanted in addition to times and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Sums and extremes.
    Sums,
    /// These, and histograms.
    All,
}

impl Want {
    /// The wanted columns of a dataset.
    pub(super) fn columns(self, dataset: &Dataset) -> Columns {
        let mut columns = columns(dataset);
        columns.retain(|(_, content)| match content {
            Content::Quantile(_) => false,
            Content::Histogram => self == Self::All,
            _ => true,
        });
        columns
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
    /// The least time, the largest, the largest memory.
    Extreme(usize),
    Quantile(usize),
    Histogram,
    Exact,
    /// That of the row, shown alone.
    Resolution,
    /// Raw requests in pieces: a row, encoded.
    Packed,
    /// Of raw requests, as all that follow: numbers that mostly repeat.
    Int,
    /// Distinct numbers.
    Delta,
    Float,
    Text,
    Moment,
}

/// The conversion of a column for a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// None.
    Same,
    /// Microseconds to seconds.
    Seconds,
    /// Bytes to KiB.
    Kib,
    /// A time to a unix second.
    Second,
    /// A time that is a whole second.
    Time,
}

/// The columns of a dataset, by name.
pub(super) type Columns = Vec<(String, Content)>;

/// The columns of a dataset's published files.
pub(super) fn columns(dataset: &Dataset) -> Columns {
    if dataset.is_raw() {
        let columns = files::columns(&dataset.report).into_iter();
        return columns.map(|(name, content)| named(name, content)).collect();
    }
    let mut behind = match dataset.own_sums() {
        Some(sums) => sums.iter().map(|(name, of)| named(*name, Content::Sum(*of))).collect(),
        None => columns_of_report(dataset),
    };
    let mut all = vec![named("time", Content::Time)];
    for (at, key) in dataset.keys.iter().enumerate() {
        let is_taken = |name: &str| {
            let taken = all.iter().chain(&behind).map(|(taken, _)| taken.as_str());
            taken.chain(FOLDERS).any(|taken| taken.eq_ignore_ascii_case(name))
        };
        let mut name = key.clone();
        while dataset.is_report() && is_taken(&name) {
            name.insert_str(0, "key_");
        }
        let is_status = dataset.status == Some(at);
        all.push((name, if is_status { Content::Status(at) } else { Content::Key(at) }));
    }
    all.append(&mut behind);
    all
}

fn named(name: impl Into<String>, content: Content) -> (String, Content) {
    (name.into(), content)
}

/// The columns of a report that follow its keys.
fn columns_of_report(dataset: &Dataset) -> Columns {
    let is_of_timers = dataset.level == Level::Timer;
    let time = if is_of_timers { "timer_value" } else { "req_time" };
    let mut columns = vec![named("other", Content::Other)];
    let sum = |it: Measure| Some(named(dataset.column_of(it)?, Content::Sum(it)));
    columns.extend(SUMS.into_iter().filter_map(sum));
    if dataset.extremes {
        columns.push(named(format!("{time}_min_us"), Content::Extreme(0)));
        columns.push(named(format!("{time}_max_us"), Content::Extreme(1)));
        if !is_of_timers {
            columns.push(named("memory_peak_max", Content::Extreme(2)));
        }
    }
    for (at, (name, _)) in PERCENTILES.iter().enumerate() {
        columns.push(named(format!("{time}_{name}"), Content::Quantile(at)));
    }
    columns.push(named(HISTOGRAM, Content::Histogram));
    columns.push(named("exact", Content::Exact));
    columns
}

/// The values that the columns of texts must have for this key.
pub(super) fn equal_to(columns: &Columns, key: &[u8]) -> Vec<(String, String)> {
    let texts: Vec<&str> = key_texts(key).collect();
    let equal = columns.iter().filter_map(|(name, content)| match content {
        Content::Key(at) => Some((name.clone(), (*texts.get(*at)?).to_owned())),
        _ => None,
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
type Column = Box<dyn ArrayBuilder>;

fn typed<B: ArrayBuilder>(column: &mut Column) -> &mut B {
    column.as_any_mut().downcast_mut().expect("cells have the type of their column")
}

/// Adds a cell, if the column is wanted; returns the approximate number of bytes.
#[inline]
fn push_cell(column: &mut Option<Column>, cell: Cell<'_>) -> usize {
    let Some(column) = column else { return 0 };
    match cell {
        Cell::Int(value) => typed::<Int64Builder>(column).append_option(value),
        Cell::Float(value) => typed::<Float64Builder>(column).append_option(value),
        Cell::Bool(value) => typed::<BooleanBuilder>(column).append_value(value),
        Cell::Text(value) => {
            typed::<StringBuilder>(column).append_option(value);
            return value.map_or(0, str::len) + 4;
        }
        Cell::Bytes(value) => {
            typed::<BinaryBuilder>(column).append_option(value);
            return value.map_or(0, <[u8]>::len) + 4;
        }
        Cell::Moment(secs) => {
            let ms = clipped(u128::from(secs) * 1_000);
            typed::<TimestampMillisecondBuilder>(column).append_value(ms);
        }
    }
    8
}

/// Builds batches from rows.
pub(super) struct BatchBuilder {
    /// `None` for unwanted ones.
    columns: Vec<(Content, Option<Column>)>,
    pub(super) schema: SchemaRef,
    buckets: BucketLayout,
    /// Buckets per doubling, as a power of two.
    bits: u32,
    /// Rows so far, and their approximate bytes.
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl BatchBuilder {
    /// For rows in pending files.
    pub(super) fn pending(dataset: &Dataset, resolution: Resolution) -> Self {
        let mut columns = match dataset.is_raw() {
            true => vec![named("packed", Content::Packed)],
            false => columns(dataset),
        };
        columns.retain(|(_, content)| !matches!(content, Content::Quantile(_)));
        Self::new(dataset, resolution, &columns, |_| true)
    }

    /// For those of these columns that are wanted.
    pub(super) fn new(
        dataset: &Dataset,
        resolution: Resolution,
        columns: &Columns,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let mut fields = Vec::new();
        let columns = columns.iter().map(|(name, content)| {
            let field = is_wanted(name).then(|| content.field(name));
            let column = field.as_ref().map(|field| make_builder(field.data_type(), 1_024));
            fields.extend(field);
            (*content, column)
        });
        Self {
            columns: columns.collect(),
            schema: Arc::new(Schema::new(fields)),
            buckets: dataset.buckets,
            bits: resolution.bucket_bits(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &Row) {
        let Row { time, ref key, is_other, gain: Gain { ref sum, extremes } } = *row;
        let encoded = sum.histogram().map(|it| encode(it, &self.buckets, self.bits));
        let (totals, histogram) = (sum.totals, encoded.as_deref());
        self.push_stored(&StoredRow { time, key, is_other, totals, extremes, histogram });
    }

    /// Likewise, with its histogram encoded.
    pub(super) fn push_stored(&mut self, row: &StoredRow<'_>) {
        let StoredRow { totals, extremes, histogram, .. } = row;
        let mut found = None;
        let all = || {
            let all = histogram.map(|it| quantiles(it, totals.time, extremes, &self.buckets));
            all.unwrap_or_default()
        };
        let mut exact = Vec::new();
        let mut texts = key_texts(row.key);
        let mut text = || if row.is_other { OTHER } else { texts.next().unwrap_or_default() };
        let seen = extremes.seen();
        for (content, column) in &mut self.columns {
            let cell = match content {
                Content::Time => Cell::Moment(row.time),
                Content::Key(_) => Cell::Text(Some(text())),
                Content::Status(_) => Cell::Int(text().parse().ok()),
                Content::Other => Cell::Bool(row.is_other),
                Content::Sum(measure) => Cell::Int(Some(clipped(measure.of(totals)))),
                Content::Extreme(at) => Cell::Int(seen.map(|seen| clipped(seen[*at].into()))),
                Content::Quantile(at) => Cell::Float(found.get_or_insert_with(all)[*at]),
                Content::Histogram => Cell::Bytes(*histogram),
                Content::Exact => {
                    let is_past = |sum: u128| i64::try_from(sum).is_err();
                    let is_past = totals.sums().into_iter().any(is_past);
                    Cell::Bytes(is_past.then(|| {
                        totals.push(&mut exact);
                        &*exact
                    }))
                }
                // Of raw requests.
                _ => continue,
            };
            self.bytes += push_cell(column, cell);
        }
        self.rows += 1;
    }

    /// Adds a row of raw requests: a value for each column.
    pub(super) fn push_cells<'c>(&mut self, row: impl IntoIterator<Item = Cell<'c>>) {
        for ((_, column), cell) in self.columns.iter_mut().zip(row) {
            self.bytes += push_cell(column, cell);
        }
        self.rows += 1;
    }

    /// Takes the rows as a batch.
    pub(super) fn finish(&mut self) -> RecordBatch {
        let columns = self.columns.iter_mut().filter_map(|(_, column)| column.as_mut());
        let arrays = columns.map(|column| column.finish()).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .expect("each row has all columns")
    }
}

/// The percentiles with columns in files.
pub(super) type Quantiles = [Option<f64>; PERCENTILES.len()];

static RANKS: LazyLock<Vec<Rank>> = LazyLock::new(|| {
    PERCENTILES.iter().filter_map(|(_, percent)| Rank::percent(*percent, Rounding::Up)).collect()
});

/// The percentiles of a row with this histogram; none if it is empty. They stay between the
/// shortest and the longest time, as far as these can be told where they are not kept.
pub(super) fn quantiles(
    encoded: &[u8],
    time_us: u128,
    extremes: &Extremes,
    buckets: &BucketLayout,
) -> Quantiles {
    let pairs = encoded_pairs(encoded, buckets, LOG_LINEAR_BITS);
    let counts: Vec<(u32, u64)> = pairs.into_iter().flatten().flatten().collect();
    let total = counts.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return Quantiles::default();
    }
    let mut found = Vec::with_capacity(PERCENTILES.len());
    buckets.quantiles(&RANKS, total, counts.iter().copied(), &mut found);
    let bits = encoded[0].into();
    let told = || BucketLayout::bounds_of(time_us, counts, |bucket| ends(buckets, bucket, bits));
    let bounds = extremes.times_secs().or_else(told);
    let settled = |secs| within(settle(buckets, secs, bits), bounds);
    std::array::from_fn(|at| found.get(at).copied().map(settled))
}

/// A sum limited to its column's range.
fn clipped(sum: u128) -> i64 {
    i64::try_from(sum).unwrap_or(i64::MAX)
}

impl Content {
    /// The name and conversion of a stored column in tables: microseconds are shown as seconds,
    /// bytes of raw requests as KiB.
    pub(super) fn shown(self, stored: &str) -> (&str, Form) {
        let seconds = stored.strip_suffix("_us").map(|name| (name, Form::Seconds));
        let kib = stored.strip_suffix("_bytes").map(|name| (name, Form::Kib));
        match self {
            Self::Key(_) | Self::Status(_) => (stored, Form::Same),
            Self::Time => (stored, Form::Time),
            _ => seconds.or(kib).unwrap_or((stored, Form::Same)),
        }
    }

    /// The field in which it is shown so. Columns that are not stored are NULL.
    pub(super) fn shown_field(self, name: &str, form: Form) -> Field {
        let data_type = match (form, self.data_type()) {
            (Form::Same, DataType::Utf8) => DataType::Utf8View,
            (Form::Same, stored) => stored,
            (Form::Seconds | Form::Kib, _) if matches!(self, Self::Int | Self::Delta) => {
                DataType::Float32
            }
            (Form::Seconds | Form::Kib, _) => DataType::Float64,
            (Form::Second, _) => DataType::Int64,
            (Form::Time, _) => DataType::Timestamp(TimeUnit::Second, None),
        };
        Field::new(name, data_type, true)
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Time | Self::Moment => {
                DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
            }
            Self::Key(_) | Self::Text | Self::Resolution => DataType::Utf8,
            Self::Other => DataType::Boolean,
            Self::Quantile(_) | Self::Float => DataType::Float64,
            Self::Histogram | Self::Exact | Self::Packed => DataType::Binary,
            _ => DataType::Int64,
        }
    }

    fn field(self, name: &str) -> Field {
        let nullable = match self {
            Self::Time | Self::Key(_) | Self::Other | Self::Sum(_) => false,
            Self::Int | Self::Delta | Self::Float | Self::Text | Self::Moment => {
                files::NULLABLE.contains(&name)
            }
            _ => true,
        };
        Field::new(name, self.data_type(), nullable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_equal_times_are_that_time_and_none_is_above_the_longest() {
        let of = |times: &[u64], bits: u32| {
            let buckets = BucketLayout::LogLinear;
            let gain = Gain::of_times(&buckets, times.iter().map(|us| (*us, 1)));
            let encoded = encode(gain.sum.histogram().unwrap(), &buckets, bits);
            let time_us = gain.sum.totals.time;
            let all = quantiles(&encoded, time_us, &Extremes::NOTHING, &buckets);
            assert_eq!(quantiles(&encoded, time_us, &gain.extremes, &buckets)[2], all[2]);
            all
        };
        for bits in [LOG_LINEAR_BITS, 4, 3] {
            assert_eq!(of(&[200_000; 10], bits), [Some(0.2); 3]);
        }
        let all = of(&[1_000, 2_000, 4_000, 8_000, 256_000], LOG_LINEAR_BITS);
        assert_eq!(all[1..], [Some(0.256); 2]);
        assert_eq!(of(&[], LOG_LINEAR_BITS), Quantiles::default());
    }
}
