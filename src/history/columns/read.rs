//! Reads the rows of a batch one by one.

use std::ops::Range;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BinaryArray, BooleanArray, Int64Array, RecordBatch,
    StringArray, TimestampMillisecondArray,
};
use datafusion::arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};

use super::{Columns, Content};
use crate::history::histogram::decode;
use crate::history::{Gain, Row};
use crate::report::gain::Sum;
use crate::report::histogram::BucketLayout;
use crate::report::layout::{Measure, OTHER};
use crate::report::reading::Extremes;
use crate::report::row_key::push_key;
use crate::report::totals::Totals;
use crate::value::varint;

/// The rows of a batch, with those columns that it has.
#[derive(Debug, Default)]
pub(in crate::history) struct StoredRows {
    pub(in crate::history) len: usize,
    /// The buckets of the histograms, if these are wanted.
    buckets: Option<BucketLayout>,
    times: Option<TimestampMillisecondArray>,
    keys: Vec<KeyColumn>,
    other: Option<BooleanArray>,
    sums: Vec<(usize, Int64Array)>,
    extremes: [Option<Int64Array>; 3],
    histograms: Option<BinaryArray>,
    exact: Option<BinaryArray>,
}

/// A column of keys.
#[derive(Debug)]
enum KeyColumn {
    /// Places in texts, by which consecutive rows of one key are recognised.
    Coded(Vec<i32>, StringArray),
    Text(StringArray),
    Number(Int64Array),
}

impl KeyColumn {
    fn of_texts(array: &ArrayRef) -> Option<Self> {
        if let Some(texts) = array.as_string_opt() {
            return Some(Self::Text(texts.clone()));
        }
        let coded = array.as_dictionary_opt::<Int32Type>()?;
        let texts = coded.values().as_string_opt()?.clone();
        Some(Self::Coded(coded.keys().values().to_vec(), texts))
    }

    /// Whether a row has the same value as the row before it.
    fn is_same(&self, row: usize) -> bool {
        match self {
            Self::Coded(places, _) => places[row] == places[row - 1],
            Self::Text(texts) => texts.value(row) == texts.value(row - 1),
            Self::Number(numbers) => {
                let of = |row| numbers.is_valid(row).then(|| numbers.value(row));
                of(row) == of(row - 1)
            }
        }
    }

    fn push(&self, row: usize, key: &mut Vec<u8>) {
        match self {
            Self::Coded(places, texts) => {
                let place = usize::try_from(places[row]).unwrap_or_default();
                let is_there = place < texts.len();
                push_key(key, if is_there { texts.value(place) } else { "" });
            }
            Self::Text(texts) => push_key(key, texts.value(row)),
            Self::Number(numbers) => push_key(key, &numbers.value(row).to_string()),
        }
    }
}

impl StoredRows {
    /// Reads the rows of a batch, with their histograms if the buckets for these are given.
    pub(in crate::history) fn new(
        columns: &Columns,
        buckets: Option<BucketLayout>,
        batch: &RecordBatch,
    ) -> Self {
        let mut rows = Self { len: batch.num_rows(), buckets, ..Self::default() };
        for (name, content) in columns {
            let Some(array) = batch.column_by_name(name) else {
                continue;
            };
            let numbers = || array.as_primitive_opt::<Int64Type>().cloned();
            match content {
                Content::Time => {
                    let times = array.as_primitive_opt::<TimestampMillisecondType>();
                    rows.times = times.cloned();
                }
                Content::Key(_) => rows.keys.extend(KeyColumn::of_texts(array)),
                Content::Status(_) => rows.keys.extend(numbers().map(KeyColumn::Number)),
                Content::Other => rows.other = array.as_boolean_opt().cloned(),
                Content::Sum(measure) => {
                    let sums = numbers().map(|sums| (*measure as usize, sums));
                    rows.sums.extend(sums);
                }
                Content::TimeMin => rows.extremes[0] = numbers(),
                Content::TimeMax => rows.extremes[1] = numbers(),
                Content::MemoryPeakMax => rows.extremes[2] = numbers(),
                Content::Histogram => rows.histograms = array.as_binary_opt().cloned(),
                Content::Exact => rows.exact = array.as_binary_opt().cloned(),
                Content::Quantile(_) | Content::Packed => {}
            }
        }
        rows
    }

    /// Reads a row over the row before it, if its time is in a span; returns whether it is. Rows
    /// must be asked for in order.
    pub(in crate::history) fn read(&self, row: usize, span: &Range<u64>, to: &mut Row) -> bool {
        if row == 0 || !self.is_same_key(row) {
            to.is_other = self.other.as_ref().is_some_and(|other| other.value(row));
            to.key.clear();
            for column in &self.keys {
                match to.is_other {
                    true => push_key(&mut to.key, OTHER),
                    false => column.push(row, &mut to.key),
                }
            }
        }
        to.time = self.time(row);
        let is_within = span.contains(&to.time);
        if is_within {
            let buckets = self.buckets.as_ref();
            let histogram = buckets.and_then(|buckets| decode(self.blob(row)?, buckets));
            to.gain =
                Gain { sum: Sum::of(self.totals(row), histogram), extremes: self.extremes(row) };
        }
        is_within
    }

    /// Returns the beginning of its minute, hour or day.
    pub(in crate::history) fn time(&self, row: usize) -> u64 {
        let ms = self.times.as_ref().map_or(0, |times| times.value(row));
        u64::try_from(ms).unwrap_or_default() / 1_000
    }

    fn is_same_key(&self, row: usize) -> bool {
        let other = self.other.as_ref();
        other.is_none_or(|other| other.value(row) == other.value(row - 1))
            && self.keys.iter().all(|key| key.is_same(row))
    }

    fn totals(&self, row: usize) -> Totals {
        if let Some(mut exact) = value(self.exact.as_ref(), row) {
            let usual = Totals::take(&mut exact, false);
            let unmeasured = if exact.is_empty() { 0 } else { varint::take(&mut exact) };
            return Totals { unmeasured, ..usual };
        }
        let mut totals = [0; Measure::ALL.len()];
        for (measure, sums) in &self.sums {
            totals[*measure] = u128::try_from(sums.value(row)).unwrap_or_default();
        }
        Totals::of(totals)
    }

    pub(in crate::history) fn extremes(&self, row: usize) -> Extremes {
        let value = |numbers: &Option<Int64Array>| {
            let numbers = numbers.as_ref().filter(|numbers| numbers.is_valid(row))?;
            u64::try_from(numbers.value(row)).ok()
        };
        let [time_min, time_max, memory_peak_max] = self.extremes.each_ref().map(value);
        let Some((time_min, time_max)) = time_min.zip(time_max) else {
            return Extremes::NOTHING;
        };
        let memory_peak_max =
            u32::try_from(memory_peak_max.unwrap_or_default()).unwrap_or(u32::MAX);
        Extremes { time_min, time_max, memory_peak_max }
    }

    /// Returns the histogram of a row as it is stored.
    pub(in crate::history) fn blob(&self, row: usize) -> Option<&[u8]> {
        value(self.histograms.as_ref(), row)
    }
}

fn value(bytes: Option<&BinaryArray>, row: usize) -> Option<&[u8]> {
    let bytes = bytes.filter(|bytes| bytes.is_valid(row))?;
    Some(bytes.value(row))
}
