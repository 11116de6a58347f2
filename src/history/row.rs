//! Rows of history: the gain of a report's key in a minute, hour or day.

use crate::report::gain::Sum;
use crate::report::histogram::{BucketLayout, Histogram};
use crate::report::reading::Extremes;
use crate::report::totals::Totals;

/// A gain: sums, histogram, extremes.
#[derive(Debug, Default)]
pub struct Gain {
    /// Sums and histogram.
    pub sum: Sum,
    /// [`Extremes::NOTHING`] if the report keeps none.
    pub extremes: Extremes,
}

impl Gain {
    /// Sums without a histogram.
    pub(super) fn of(totals: Totals) -> Self {
        Self { sum: Sum::of(totals, None), ..Self::default() }
    }

    /// The gain of requests with these times: microseconds, and the number of requests.
    #[must_use]
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
    #[must_use]
    pub fn buckets(&self) -> Option<impl Iterator<Item = (u32, u64)>> {
        Some(self.sum.histogram()?.iter())
    }
}

/// A row. Several of one key and time are to be summed.
#[derive(Debug, Default)]
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
