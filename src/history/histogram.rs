//! Histograms as they are stored: in the column `histogram` of files, and in pending ones.
//!
//! ```text
//!   | bits | pair | pair ...          pairs as `report::encoded_gain` writes them
//!
//!   bits 6, 4, 3: log-linear buckets, 2^bits of a doubling, of whole microseconds
//!   bits 0:       the numbers of the report's own linear or `hv=` buckets
//! ```
//!
//! In memory log-linear buckets always have the numbers of 64 per doubling: one of 16 or 8 per
//! doubling is stored under the number of the fine bucket in its middle, so that code that adds
//! histograms need not know the resolution. What is read from such a histogram is [`settle`]d.
//! While many are added up for an answer, they have the numbers of 2^bits per doubling instead,
//! which lie closer together, until [`unfold`].

use std::collections::BTreeMap;

use crate::report::encoded_gain::{Pairs, Sum, write_pairs};
use crate::report::histogram::{
    BUCKET_MAX, BucketLayout, Histogram, LOG_LINEAR_BITS, Rank, octave_bounds, octave_bucket,
};

/// Buckets of a doubling that there may be, as powers of two.
const BITS: [u32; 3] = [LOG_LINEAR_BITS, 4, 3];
/// The first byte where the numbers are the report's own.
const OWN: u8 = 0;
/// Highest count of a bucket, so that no sum overflows.
const COUNT_MAX: u64 = 1 << 56;

/// Lead of pairs with the bucket numbers of histograms in memory.
pub(super) fn lead(layout: &BucketLayout) -> u8 {
    if *layout == BucketLayout::LogLinear { LOG_LINEAR_BITS as u8 } else { OWN }
}

/// A histogram as it is stored, log-linear buckets with 2^`bits` a doubling.
pub(crate) fn encode(histogram: &Histogram, layout: &BucketLayout, bits: u32) -> Vec<u8> {
    let mut to = Vec::with_capacity(2 + histogram.len() * 2);
    let folds = *layout == BucketLayout::LogLinear && bits < LOG_LINEAR_BITS;
    to.push(if folds { bits as u8 } else { lead(layout) });
    let folded = folds.then(|| with_buckets(histogram, |bucket| coarse(bucket, bits)));
    write_pairs(&mut to, folded.as_ref().unwrap_or(histogram).iter());
    to
}

/// Decodes an [`encode`]d histogram; `None` for invalid bytes.
pub(crate) fn decode(bytes: &[u8], layout: &BucketLayout) -> Option<Histogram> {
    of_pairs(encoded_pairs(bytes, layout, LOG_LINEAR_BITS)?)
}

/// Adds an [`encode`]d histogram; log-linear buckets get the numbers of 2^`to_bits` per doubling.
/// `None` for invalid bytes, and then part of it may have been added.
pub(crate) fn add_encoded(
    to: &mut Histogram,
    bytes: &[u8],
    layout: &BucketLayout,
    to_bits: u32,
) -> Option<()> {
    add_pairs(to, encoded_pairs(bytes, layout, to_bits)?)
}

fn of_pairs(pairs: impl Iterator<Item = Option<(u32, u64)>> + Clone) -> Option<Histogram> {
    let mut histogram = Histogram::new();
    add_pairs(&mut histogram, pairs).map(|()| histogram)
}

/// Adds ascending buckets, up to the first that is invalid.
fn add_pairs(
    to: &mut Histogram,
    pairs: impl Iterator<Item = Option<(u32, u64)>> + Clone,
) -> Option<()> {
    if to.len() == 0 {
        let mut buckets = pairs.clone().map(|pair| pair.map(|pair| pair.0));
        if let Some(Some(first)) = buckets.next() {
            let (count, last) = buckets.fold((1, Some(first)), |(count, _), it| (count + 1, it));
            to.reserve(first, last.filter(|last| *last >= first)?, count);
        }
    }
    for pair in pairs {
        let (bucket, count) = pair?;
        if count > 0 {
            to.add(bucket, count);
        }
    }
    Some(())
}

/// Likewise to a sum, whose histogram is unknown then if this one is.
pub(super) fn add_to_sum(to: &mut Sum, encoded: Option<&[u8]>, layout: &BucketLayout, bits: u32) {
    let add = |histogram| add_encoded(histogram, encoded?, layout, bits);
    if to.histogram.as_mut().and_then(add).is_none() {
        to.histogram = None;
    }
}

/// The counts of an [`encode`]d histogram, as for [`add_encoded`]; `None` for invalid bytes.
pub(super) fn encoded_pairs(
    bytes: &[u8],
    layout: &BucketLayout,
    to_bits: u32,
) -> Option<impl Iterator<Item = Option<(u32, u64)>> + Clone> {
    let (&first, pairs) = bytes.split_first()?;
    let bits = u32::from(first);
    let is_log_linear = *layout == BucketLayout::LogLinear;
    let known = if is_log_linear { BITS.contains(&bits) } else { first == OWN };
    known.then(|| Pairs::of(pairs).map(checked(layout, bits, to_bits)))
}

/// Turns pairs of 2^`from` log-linear buckets per doubling to those of 2^`to`; `None` if the bucket
/// or the count is out of range.
fn checked(
    layout: &BucketLayout,
    from: u32,
    to: u32,
) -> impl Fn((u32, u64)) -> Option<(u32, u64)> + Clone + use<> {
    let is_log_linear = *layout == BucketLayout::LogLinear;
    move |(bucket, count)| {
        let bucket = match is_log_linear {
            true => renumbered(bucket, from, to),
            false => Some(bucket).filter(|bucket| *bucket <= BUCKET_MAX),
        };
        Some((bucket.filter(|_| count <= COUNT_MAX)?, count))
    }
}

/// The quantile of an [`encode`]d histogram in seconds, `None` if it is empty; an error for invalid
/// bytes.
pub(crate) fn encoded_quantile(
    bytes: &[u8],
    layout: &BucketLayout,
    rank: Rank,
) -> Option<Option<f64>> {
    let pairs = encoded_pairs(bytes, layout, LOG_LINEAR_BITS)?;
    let total = pairs.clone().try_fold(0_u64, |sum, pair| sum.checked_add(pair?.1))?;
    let secs = || layout.quantile(rank, total, pairs.flatten());
    Some((total > 0).then(|| settle(layout, secs(), bytes[0].into())))
}

/// The quantile of counts in seconds, with log-linear ones folded to 2^`bits` buckets per doubling;
/// `None` if empty.
pub(crate) fn quantile(
    histogram: &Histogram,
    layout: &BucketLayout,
    bits: u32,
    rank: Rank,
) -> Option<f64> {
    let total = histogram.iter().map(|(_, count)| count).sum();
    let folds = *layout == BucketLayout::LogLinear && bits < LOG_LINEAR_BITS;
    let bucket_of = |bucket| if folds { folded_bucket(bucket, bits) } else { bucket };
    let pairs = histogram.iter().map(|(bucket, count)| (bucket_of(bucket), count));
    (total > 0).then(|| settle(layout, layout.quantile(rank, total, pairs), bits))
}

/// The histogram of counts by bucket, log-linear ones of 64 per doubling; `None` if there are no
/// such buckets.
pub(crate) fn of_counts(counts: &BTreeMap<u32, u64>, layout: &BucketLayout) -> Option<Histogram> {
    let counts = counts.iter().map(|(bucket, count)| (*bucket, *count));
    of_pairs(counts.map(checked(layout, LOG_LINEAR_BITS, LOG_LINEAR_BITS)))
}

/// Folds a log-linear histogram to 2^`bits` buckets per doubling.
pub(crate) fn fold(histogram: &mut Histogram, bits: u32) {
    if bits < LOG_LINEAR_BITS {
        *histogram = with_buckets(histogram, |bucket| folded_bucket(bucket, bits));
    }
}

/// Renumbers the buckets of a sum from 2^`bits` per doubling to 64.
pub(super) fn unfold(sum: &mut Sum, bits: u32) {
    if let Some(histogram) = sum.histogram.as_mut().filter(|_| bits < LOG_LINEAR_BITS) {
        let fine = |bucket| renumbered(bucket, bits, LOG_LINEAR_BITS).unwrap_or(bucket);
        *histogram = with_buckets(histogram, fine);
    }
}

/// The same counts in other buckets, in the same order.
fn with_buckets(histogram: &Histogram, bucket_of: impl Fn(u32) -> u32) -> Histogram {
    let pairs = histogram.iter().map(|(bucket, count)| Some((bucket_of(bucket), count)));
    of_pairs(pairs).unwrap_or_default()
}

/// The value of a quantile when its histogram, if it is log-linear, has 2^`bits` buckets per
/// doubling: the middle of the coarse bucket, in seconds.
pub(crate) fn settle(layout: &BucketLayout, secs: f64, bits: u32) -> f64 {
    if *layout != BucketLayout::LogLinear || bits >= LOG_LINEAR_BITS {
        return secs;
    }
    let us = (secs * 1e6).round() as u64;
    let (low, width) = octave_bounds(octave_bucket(us, bits), bits);
    (low + (width - 1) / 2) as f64 / 1e6
}

/// The shortest and longest time of a bucket in microseconds, with log-linear ones of 2^`bits` per
/// doubling.
pub(crate) fn ends(layout: &BucketLayout, bucket: u32, bits: u32) -> (u64, u64) {
    if *layout != BucketLayout::LogLinear || bits >= LOG_LINEAR_BITS {
        return layout.ends(bucket);
    }
    let (low, width) = octave_bounds(coarse(bucket, bits), bits);
    (low, low + width - 1)
}

/// The maximum relative error of a quantile with 2^`bits` buckets per doubling.
pub(crate) fn error(bits: u32) -> f64 {
    0.5 / f64::from(1 << bits)
}

/// The number of a bucket in the coarser numbering.
fn coarse(bucket: u32, bits: u32) -> u32 {
    let (low, _) = octave_bounds(bucket, LOG_LINEAR_BITS);
    octave_bucket(low, bits)
}

/// The bucket that contains the middle of this one, from 2^`from` to 2^`to` per doubling; `None` if
/// there is no such bucket.
#[inline]
fn renumbered(bucket: u32, from: u32, to: u32) -> Option<u32> {
    // Up to the one that contains `TIME_US_MAX`.
    let exists = bucket < (52 - from) << from;
    exists.then(|| match from == to {
        true => bucket,
        false => {
            let (low, width) = octave_bounds(bucket, from);
            octave_bucket(low + (width - 1) / 2, to)
        }
    })
}

/// The bucket that a bucket is counted in after a fold.
fn folded_bucket(bucket: u32, bits: u32) -> u32 {
    renumbered(coarse(bucket, bits), bits, LOG_LINEAR_BITS).unwrap_or(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::histogram::{LOG_LINEAR_BUCKETS, TIME_US_MAX};

    /// Times around every edge, and the first thousands.
    fn times() -> impl Iterator<Item = u64> {
        let edges = (0..51).flat_map(|shift| {
            let eighths = (8..16_u64).map(move |eighth| (eighth << shift) >> 3);
            eighths.flat_map(|at| [at.saturating_sub(1), at, at + 1])
        });
        let all = (0..5_000).chain(edges).chain([TIME_US_MAX - 1, TIME_US_MAX]);
        all.filter(|us| *us <= TIME_US_MAX)
    }

    fn of(pairs: &[(u32, u64)]) -> Histogram {
        let mut histogram = Histogram::new();
        pairs.iter().for_each(|&(bucket, count)| histogram.add(bucket, count));
        histogram
    }

    fn pairs(histogram: &Histogram) -> Vec<(u32, u64)> {
        histogram.iter().collect()
    }

    #[test]
    fn the_bucket_of_a_fold_is_the_fold_of_the_bucket() {
        for us in times() {
            let bucket = BucketLayout::LogLinear.bucket(us);
            for bits in [4, 3] {
                assert_eq!(coarse(bucket, bits), octave_bucket(us, bits), "{us} us");
                let folded = folded_bucket(bucket, bits);
                assert_eq!(coarse(folded, bits), coarse(bucket, bits), "{us} us");
                let twice = folded_bucket(folded_bucket(bucket, 4), 3);
                assert_eq!(twice, folded_bucket(bucket, 3), "{us} us");
            }
        }
    }

    #[test]
    fn settled_quantiles_are_as_near_as_is_said() {
        for us in times().filter(|us| *us > 0) {
            for bits in BITS {
                let bucket = folded_bucket(BucketLayout::LogLinear.bucket(us), bits);
                let (low, high) = BucketLayout::LogLinear.bounds(bucket);
                let middle = (low + (high - low - 1) / 2) as f64 / 1e6;
                let exact = us as f64 / 1e6;
                let off = (settle(&BucketLayout::LogLinear, middle, bits) - exact).abs() / exact;
                assert!(off <= error(bits), "{us} us, {bits} bits: {off}");
            }
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let last = LOG_LINEAR_BUCKETS - 1;
        let all = of(&[
            (0, 1),
            (1, 7),
            (127, 8),
            (128, 1 << 40),
            (700, 3),
            (701, 2),
            (last, u64::from(u32::MAX)),
        ]);
        let log = BucketLayout::LogLinear;
        let read = decode(&encode(&all, &log, 6), &log).unwrap();
        assert_eq!(pairs(&read), pairs(&all));
        for bits in [4, 3] {
            let mut folded = of(&pairs(&all));
            fold(&mut folded, bits);
            let read = decode(&encode(&all, &log, bits), &log).unwrap();
            assert_eq!(pairs(&read), pairs(&folded));
            let again = decode(&encode(&folded, &log, bits), &log).unwrap();
            assert_eq!(pairs(&again), pairs(&folded));
        }
        for layout in
            [BucketLayout::linear(10, 1024).unwrap(), BucketLayout::v2(0, 60_000, 32_768).unwrap()]
        {
            let own = of(&[(0, 3), (1023, 9), (BUCKET_MAX, 1)]);
            for bits in BITS {
                let read = decode(&encode(&own, &layout, bits), &layout).unwrap();
                assert_eq!(pairs(&read), pairs(&own));
            }
            assert!(decode(&encode(&own, &layout, 6), &log).is_none());
            assert!(decode(&encode(&all, &log, 6), &layout).is_none());
        }
        assert_eq!(decode(&encode(&Histogram::new(), &log, 4), &log).unwrap().len(), 0);
    }

    #[test]
    fn other_bytes_are_refused_or_read_as_something() {
        let log = BucketLayout::LogLinear;
        assert!(decode(&[], &log).is_none());
        assert!(decode(&[5, 9], &log).is_none());
        assert!(decode(&[6, 0xff, 0xff, 0xff, 0xff, 0x7f], &log).is_none());
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..seed % 20).map(|at| (seed >> (at * 3)) as u8).collect();
            for first in [0, 3, 4, 6] {
                let bytes = [&[first][..], &bytes].concat();
                let _any =
                    (decode(&bytes, &log), decode(&bytes, &BucketLayout::linear(1, 8).unwrap()));
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
    }
}
