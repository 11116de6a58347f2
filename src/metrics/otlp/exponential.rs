//! OpenTelemetry's exponential histograms: bucket boundaries grow by a factor of 2^(2^-scale), with
//! at most 160 buckets.
//!
//! All counts of a report's bucket go to the bucket that contains its middle, so counts stay exact
//! and no value moves by more than one bucket.

use crate::input::otlp::messages::{Buckets, HistogramPoint};
use crate::report::histogram::BucketLayout;

/// Maximum number of buckets, as in the SDKs.
const BUCKETS_MAX: usize = 160;
/// Initial scale: the finest at which a report's own buckets leave no gaps.
const SCALE_MAX: i32 = 5;

/// Returns the index, at [`SCALE_MAX`], of the middle of a report's bucket; `None` counts as zero.
fn index(layout: &BucketLayout, bucket: u32) -> Option<i32> {
    let (low, high) = layout.ends(bucket);
    let middle_us = match layout {
        BucketLayout::V2(_) if bucket == 0 => return None,
        BucketLayout::V2(v2) if v2.is_above(bucket) => low as f64,
        _ => (low + high) as f64 / 2.0,
    };
    let per_octave = f64::from(1 << SCALE_MAX);
    (middle_us > 0.0).then(|| ((middle_us / 1e6).log2() * per_octave).ceil() as i32 - 1)
}

/// Returns the zero threshold, seconds: shorter times share one bucket of the report and count as
/// zero.
pub(super) fn zero_threshold(layout: &BucketLayout) -> f64 {
    match layout {
        BucketLayout::V2(_) => layout.bounds(0).1 as f64 / 1e6,
        BucketLayout::LogLinear | BucketLayout::Linear { .. } => 0.0,
    }
}

/// An exponential histogram.
#[derive(Debug, Clone, Default)]
pub(super) struct Exponential {
    /// How many times pairs of buckets were merged.
    halvings: i32,
    /// Times counted as zero.
    pub(super) zero: u64,
    /// Index of the first bucket in `counts`.
    pub(super) offset: i32,
    pub(super) counts: Vec<u64>,
}

impl Exponential {
    /// Maximum size of its counts on the heap, bytes.
    pub(super) const BYTES_MAX: usize = BUCKETS_MAX * size_of::<u64>();

    /// Returns the scale of its buckets.
    pub(super) const fn scale(&self) -> i32 {
        SCALE_MAX - self.halvings
    }

    /// Adds the times of a bucket.
    pub(super) fn add(&mut self, layout: &BucketLayout, bucket: u32, count: u64) {
        let Some(index) = index(layout, bucket) else {
            self.zero += count;
            return;
        };
        self.add_at(index >> self.halvings, count);
        while self.counts.len() > BUCKETS_MAX {
            self.halvings += 1;
            for (index, count) in (self.offset..).zip(std::mem::take(&mut self.counts)) {
                self.add_at(index >> 1, count);
            }
        }
    }

    fn add_at(&mut self, index: i32, count: u64) {
        if self.counts.is_empty() {
            self.offset = index;
        }
        let before = (index..self.offset).map(|_| 0);
        self.counts.splice(..0, before);
        self.offset = self.offset.min(index);
        let place = (index - self.offset) as usize;
        self.counts.resize(self.counts.len().max(place + 1), 0);
        self.counts[place] += count;
    }

    /// Returns the bucket of a time; `None` counts as zero.
    pub(super) fn index_of(&self, layout: &BucketLayout, us: u64) -> Option<i32> {
        index(layout, layout.bucket(us)).map(|index| index >> self.halvings)
    }

    /// Creates a point with the histogram's scale and counts.
    pub(super) fn point(&self) -> HistogramPoint {
        HistogramPoint {
            scale: self.scale(),
            zero_count: self.zero,
            count: self.zero + self.counts.iter().sum::<u64>(),
            positive: Some(Buckets { offset: self.offset, counts: self.counts.clone() }),
            ..HistogramPoint::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lower and upper end of a bucket, seconds.
    fn ends(index: i32, scale: i32) -> (f64, f64) {
        let end = |index: i32| (f64::from(index) / 2_f64.powi(scale)).exp2();
        (end(index), end(index + 1))
    }

    #[test]
    fn every_time_lies_at_most_one_bucket_away_from_where_it_counts() {
        let layouts = [
            BucketLayout::LogLinear,
            BucketLayout::linear(10, 1000).unwrap(),
            BucketLayout::v2(10, 60_000, 2_000).unwrap(),
        ];
        let mut us = 1;
        while us < 1 << 50 {
            for layout in &layouts {
                let bucket = layout.bucket(us);
                let (low, high) = layout.ends(bucket);
                let is_clipped = us < low || us > high || high > 1 << 40;
                // Wide buckets at the short end are coarser than those of OpenTelemetry.
                if let (Some(index), false) =
                    (index(layout, bucket), is_clipped || high > low + low / 64 + 1)
                {
                    let ((low, _), (_, high)) =
                        (ends(index - 1, SCALE_MAX), ends(index + 1, SCALE_MAX));
                    let secs = us as f64 / 1e6;
                    assert!(low < secs && secs <= high, "{us} us in {layout}: {low} to {high}");
                }
            }
            us += us / 97 + 1;
        }
        assert_eq!(index(&BucketLayout::LogLinear, 0), None);
        assert_eq!(index(&layouts[2], 0), None);
        assert_eq!(zero_threshold(&layouts[2]), 0.0);
        // Half a second is the upper end of a bucket, which includes it.
        let half = BucketLayout::linear(1, 1).unwrap();
        assert_eq!(index(&half, 0), Some(-33));
    }

    #[test]
    fn counts_stay_exact_while_the_scale_falls() {
        let layout = BucketLayout::LogLinear;
        let (mut all, mut added, mut scale) = (Exponential::default(), 0, SCALE_MAX);
        for (nth, us) in [900_000, 1_000, 3, 40_000_000, 1 << 50, 2_000].into_iter().enumerate() {
            let count = 7 + nth as u64;
            all.add(&layout, layout.bucket(us), count);
            added += count;
            assert!(all.counts.len() <= BUCKETS_MAX && all.scale() <= scale, "{all:?}");
            scale = all.scale();
            assert_eq!(all.counts.iter().sum::<u64>(), added);
            let secs = us as f64 / 1e6;
            let found = (all.offset..).zip(&all.counts).filter(|(_, at)| **at >= count);
            let mut found = found.map(|(index, _)| ends(index, scale));
            assert!(
                found.any(|(low, high)| low * 0.98 < secs && secs <= high * 1.02),
                "{us}: {all:?}"
            );
        }
        assert_eq!(all.scale(), 1);
        all.add(&layout, 0, 5);
        assert_eq!(all.zero, 5);
    }
}
