//! Rows of history: the gain of a report's key in a minute, hour or day.

use super::histogram::decode;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{BucketLayout, Histogram};
use crate::report::totals::{Extremes, Measure, Totals};

/// A gain: sums, histogram, extremes.
#[derive(Debug, Clone, Default)]
pub struct Gain {
    /// Sums and histogram.
    pub sum: Sum,
    /// [`Extremes::NOTHING`] if the report keeps none.
    pub extremes: Extremes,
}

impl Gain {
    /// The gain of a row of no report: its counts, in the sums that have its columns.
    pub(super) fn of<const N: usize>(columns: [(&str, Measure); N], counts: [u128; N]) -> Self {
        let mut sums = [0; Measure::ALL.len()];
        for ((_, measure), count) in columns.into_iter().zip(counts) {
            sums[measure as usize] = count;
        }
        Self { sum: Sum::of(Totals::of(sums), None), ..Self::default() }
    }

    /// The gain of requests with these times: microseconds, and the number of requests.
    pub fn of_times(buckets: &BucketLayout, times: impl Iterator<Item = (u64, u64)>) -> Self {
        let (mut totals, mut histogram) = (Totals::ZERO, Histogram::new());
        let mut extremes = Extremes::NOTHING;
        for (us, count) in times {
            totals.requests += count;
            totals.time += u128::from(us) * u128::from(count);
            histogram.add(buckets.bucket(us), count);
            extremes.widen(&Extremes { time_min: us, time_max: us, memory_peak_max: 0 });
        }
        Self { sum: Sum::of(totals, Some(histogram)), extremes }
    }

    /// Adds another gain.
    pub fn add(&mut self, other: &Self) {
        self.sum.add_sum(&other.sum);
        self.extremes.widen(&other.extremes);
    }

    /// The nonempty buckets in order; `None` if unknown.
    pub fn buckets(&self) -> Option<impl Iterator<Item = (u32, u64)>> {
        Some(self.sum.histogram()?.iter())
    }
}

/// A row. Several of one key and time are to be summed.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// The unix second at which its minute, hour or day begins.
    pub time: u64,
    /// The texts of its key (see [`key_texts`](crate::report::row_key::key_texts)); a status is
    /// decimal text.
    pub key: Vec<u8>,
    /// Whether it is the overflow row; its key has `(other)` for each value then.
    pub is_other: bool,
    /// Its gain.
    pub gain: Gain,
}

/// A row as it is stored: its histogram is encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct StoredRow<'a> {
    pub(super) time: u64,
    pub(super) key: &'a [u8],
    pub(super) is_other: bool,
    pub(super) totals: Totals,
    pub(super) extremes: Extremes,
    /// `None` if it was dropped or is not read.
    pub(super) histogram: Option<&'a [u8]>,
}

impl StoredRow<'_> {
    /// Its gain, with the histogram decoded.
    pub(super) fn gain(&self, buckets: &BucketLayout) -> Gain {
        let histogram = self.histogram.and_then(|encoded| decode(encoded, buckets));
        Gain { sum: Sum::of(self.totals, histogram), extremes: self.extremes }
    }

    /// Whether it has the same key and time.
    pub(super) fn is_same(&self, row: &Row) -> bool {
        (self.time, self.key, self.is_other) == (row.time, &*row.key, row.is_other)
    }

    /// The row, with its histogram decoded.
    pub(super) fn decoded(&self, buckets: &BucketLayout) -> Row {
        let Self { time, key, is_other, .. } = *self;
        Row { time, key: key.to_vec(), is_other, gain: self.gain(buckets) }
    }
}
