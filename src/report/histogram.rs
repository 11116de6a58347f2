//! Buckets of times, and the medians and percentiles computed from them.
//!
//! Pure arithmetic; a `Histogram` has the counts. The engine calls [`BucketLayout::bucket`] for
//! every record it counts (merger thread, so it costs a few ns) and [`BucketLayout::quantiles`]
//! once per row when a report is read. Buckets are plain `u32` numbers; in every layout a larger
//! time never has a smaller number, so a histogram is a list of (bucket, count) in ascending order
//! and counts can be added and subtracted exactly.
//!
//! All layouts are bounded: a time above the layout's range goes into its last bucket. `LogLinear`
//! reaches past the longest time that a packet can contain (2^31 s), so nothing is clipped there.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

mod counts;
mod rank;

pub(crate) use counts::{BUCKET_MAX, Histogram, Sample};
pub use rank::{Rank, Rounding};

/// Longest time that layouts distinguish, in microseconds. Times on the wire are below 2^31 s,
/// which is less.
pub const TIME_US_MAX: u64 = (1 << 51) - 1;
/// Buckets of [`BucketLayout::LogLinear`].
pub const LOG_LINEAR_BUCKETS: u32 = (51 - 6) * 64 + 64;
/// Most buckets of [`BucketLayout::Linear`]; with [`TIME_US_MAX`] this keeps `time * size` within
/// 64 bits.
pub const LINEAR_SIZE_MAX: u32 = 8192;
/// Most buckets of [`BucketLayout::V2`], pinba2's own limit.
pub const V2_BUCKETS_MAX: u32 = 100_000_000;

const _: () = assert!((TIME_US_MAX as u128) * (LINEAR_SIZE_MAX as u128) <= u64::MAX as u128);

/// Sub-buckets per octave of the log-linear layout: 2^6. The midpoint of a bucket is then at most
/// 1/128 (0.78 %) away from anything in it.
pub(crate) const LOG_LINEAR_BITS: u32 = 6;
/// The same in hours of history.
const HOUR_BITS: u32 = 4;
/// The same of pinba2's.
const V2_BITS: u32 = 7;

/// How times are assigned to buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BucketLayout {
    /// Exact below 128 us, then 64 buckets per octave:
    ///
    /// ```text
    /// us      0 1 2 .. 127 | 128-129  130-131 ..  254-255 | 256-259 ..  508-511 | 512-519 ..
    /// bucket  0 1 2 .. 127 |   128      129   ..    191   |   192   ..    255   |   256   ..
    /// ```
    LogLinear,
    /// Pinba's: `size` buckets of equal width over `[0, max_us]`; the last also takes everything
    /// above.
    Linear {
        /// Upper end, microseconds, 1 to [`TIME_US_MAX`].
        max_us: u64,
        /// Number of buckets, 1 to [`LINEAR_SIZE_MAX`].
        size: u32,
    },
    /// pinba2's `hv=`.
    V2(V2Buckets),
}

/// pinba2's buckets: units of equal width, counted from 0 (not from the minimum), each time rounded
/// up to a whole unit; two sentinels for times below the minimum and above the maximum.
///
/// Units up to 255 have a bucket each; 256 to 511 share one by two, 512 to 1023 by four, and so on;
/// pinba2 shows the number of the lowest. Bucket 0 is the lower sentinel, the largest number the
/// upper one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct V2Buckets {
    /// Lower end, milliseconds.
    pub(super) min_ms: u32,
    /// Upper end, milliseconds.
    pub(super) max_ms: u32,
    /// Number of buckets requested.
    pub(super) buckets: u32,
    /// `(max - min) / buckets` in whole nanoseconds, truncated as in pinba2; at least 1.
    width_ns: u64,
    /// Units below this are "min".
    unit_min: u64,
    /// Units above this are "max".
    unit_max: u64,
}

/// The bucket of times below an `hv=` minimum.
const V2_MIN: u32 = 0;
/// The bucket of times above an `hv=` maximum.
const V2_MAX: u32 = BUCKET_MAX;
/// No unit of pinba2 has such a large number.
const V2_UNITS_MAX: u64 = 1 << 28;

impl BucketLayout {
    /// Linear buckets over `[0, max_secs]`.
    ///
    /// # Errors
    /// Fails if either number is 0 or above its maximum.
    pub fn linear(max_secs: u64, size: u32) -> Result<Self, String> {
        if max_secs == 0 || max_secs > TIME_US_MAX / 1_000_000 {
            let most = TIME_US_MAX / 1_000_000;
            return Err(format!("the longest time must be from 1 to {most} seconds"));
        }
        if size == 0 || size > LINEAR_SIZE_MAX {
            return Err(format!("the number of buckets must be from 1 to {LINEAR_SIZE_MAX}"));
        }
        Ok(Self::Linear { max_us: max_secs * 1_000_000, size })
    }

    /// pinba2's `hv=<min_ms>:<max_ms>:<buckets>`.
    ///
    /// # Errors
    /// As in pinba2: fails if max is not above min, or there are no buckets, too many, or too few
    /// to distinguish anything.
    pub fn v2(min_ms: u32, max_ms: u32, buckets: u32) -> Result<Self, String> {
        if max_ms <= min_ms {
            return Err("the maximum must be greater than the minimum".to_owned());
        }
        if buckets == 0 || buckets > V2_BUCKETS_MAX {
            return Err(format!("the number of buckets must be from 1 to {V2_BUCKETS_MAX}"));
        }
        let ns = |ms: u32| u64::from(ms) * 1_000_000;
        let width_ns = ns(max_ms - min_ms) / u64::from(buckets);
        let [unit_min, unit_max] = [min_ms, max_ms].map(|ms| ns(ms).checked_div(width_ns));
        let units = unit_min.map(|min| min.max(1)).zip(unit_max);
        let units = units.filter(|(min, max)| 2 * min <= *max && *max < V2_UNITS_MAX - 1);
        let (unit_min, unit_max) = units.ok_or(
            "these buckets leave too little between minimum and maximum: with w = (max - min) / buckets, \
             2 x max(1, min / w) must not exceed max / w (so there must be at least 2 buckets, \
             and max at least twice min)",
        )?;
        Ok(Self::V2(V2Buckets { min_ms, max_ms, buckets, width_ns, unit_min, unit_max }))
    }

    /// The bucket of a time in microseconds. Never fails: times out of range go to the first or
    /// last bucket.
    #[inline]
    pub fn bucket(&self, us: u64) -> u32 {
        match self {
            Self::LogLinear => octave_bucket(us.min(TIME_US_MAX), LOG_LINEAR_BITS),
            Self::Linear { max_us, size } => linear_bucket(us, *max_us, *size),
            Self::V2(v2) => v2.bucket(us),
        }
    }

    /// Appends the quantile in seconds to `out`, for each rank in the order of `ranks`.
    ///
    /// `buckets` is one row's histogram in ascending order, `total` the sum of its counts. One walk
    /// finds all ranks. Without data the result is 0, with pinba2's buckets their minimum; if the
    /// counts add up to less than `total`, it is the upper end of the layout.
    ///
    /// Log-linear buckets give the bucket's midpoint (a whole microsecond, at most 0.78 % from the
    /// sample at that rank), the others a linear interpolation inside the bucket, as Pinba and
    /// pinba2 do.
    pub fn quantiles<I>(&self, ranks: &[Rank], total: u64, buckets: I, out: &mut Vec<f64>)
    where
        I: IntoIterator<Item = (u32, u64)>,
    {
        let start = out.len();
        let (low, high) = self.range();
        out.resize(start + ranks.len(), if total == 0 { low } else { high });
        if total == 0 {
            return;
        }
        let mut targets: Vec<_> =
            ranks.iter().map(|rank| rank.target(total)).zip(start..).collect();
        targets.sort_unstable();
        let mut waiting = targets.into_iter().peekable();
        let mut seen = 0_u64;
        for (bucket, count) in buckets {
            if waiting.peek().is_none() {
                return;
            }
            seen += count;
            while let Some((target, place)) = waiting.next_if(|(target, _)| *target <= seen) {
                out[place] = self.inside(bucket, count, count - (seen - target));
            }
        }
    }

    /// Bounds for quantiles where the shortest and the longest time are not kept, in seconds;
    /// `None` without times. `ends` returns the shortest and longest time of a bucket.
    ///
    /// Quantiles are read from the middle of a bucket, which may lie above all times in it. So the
    /// upper bound is a lower bound of the longest time, as tight as the sum and the ascending
    /// buckets allow. With a single bucket both bounds are the mean, so equal times are exact.
    pub fn bounds_of(
        sum_us: u128,
        buckets: impl IntoIterator<Item = (u32, u64)>,
        ends: impl Fn(u32) -> (u64, u64),
    ) -> Option<(f64, f64)> {
        // All but the last count as long as they may be: the rest is the time of those in the last.
        let (mut left, mut first, mut last) = (sum_us, None, None);
        for (bucket, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            first.get_or_insert(bucket);
            if let Some((bucket, count)) = last.replace((bucket, count)) {
                left = left.saturating_sub(u128::from(ends(bucket).1) * u128::from(count));
            }
        }
        let ((bucket, count), first) = last.zip(first)?;
        let (low, high) = ends(bucket);
        let mean = u64::try_from(left / u128::from(count)).unwrap_or(u64::MAX);
        let longest = mean.min(high).max(low);
        let shortest = if first == bucket { longest } else { ends(first).0 };
        Some((seconds(shortest), seconds(longest)))
    }

    /// The smallest time above `us`, microseconds, that falls into another bucket, live and in
    /// minutes and hours of history.
    pub fn told_apart_from(&self, us: u64) -> u64 {
        match self {
            Self::LogLinear => {
                let bucket = octave_bucket(us.min(TIME_US_MAX), HOUR_BITS);
                octave_bounds(bucket + 1, HOUR_BITS).0
            }
            _ => self.ends(self.bucket(us).saturating_add(1)).0,
        }
    }

    /// Where the bucket of the longest times begins, in seconds, if these may be any longer: of a
    /// quantile from there on only that is known.
    pub fn open_from(&self) -> Option<f64> {
        let last = match self {
            Self::LogLinear => return None,
            Self::Linear { size, .. } => size.saturating_sub(1),
            Self::V2(_) => V2_MAX,
        };
        Some(seconds(self.bounds(last).0))
    }

    /// The shortest and the longest time, microseconds, that a bucket may have; the last one of a
    /// layout may have longer ones.
    pub fn ends(&self, bucket: u32) -> (u64, u64) {
        let (low, end) = self.bounds(bucket);
        // The edges of the others are not whole microseconds.
        (low, end - u64::from(matches!(self, Self::LogLinear)))
    }

    /// One quantile in seconds; see [`BucketLayout::quantiles`].
    pub fn quantile<I>(&self, rank: Rank, total: u64, buckets: I) -> f64
    where
        I: IntoIterator<Item = (u32, u64)>,
    {
        let mut out = Vec::with_capacity(1);
        self.quantiles(&[rank], total, buckets, &mut out);
        out.first().copied().unwrap_or_default()
    }

    /// The value of the `needed`th (from 1) of the `has` items in a bucket, in seconds.
    #[inline]
    fn inside(&self, bucket: u32, has: u64, needed: u64) -> f64 {
        match self {
            Self::LogLinear => {
                let (low, high) = self.ends(bucket);
                seconds(u64::midpoint(low, high))
            }
            Self::Linear { max_us, size } => {
                linear_width(*max_us, *size) * (f64::from(bucket) + needed as f64 / has as f64)
            }
            Self::V2(v2) => v2.inside(bucket, has, needed),
        }
    }

    /// Start and end of a bucket in microseconds; the end is exclusive (in pinba2's buckets the
    /// start is exclusive instead).
    pub fn bounds(&self, bucket: u32) -> (u64, u64) {
        match self {
            Self::LogLinear => {
                let bucket = bucket.min(LOG_LINEAR_BUCKETS - 1);
                let (low, width) = octave_bounds(bucket, LOG_LINEAR_BITS);
                (low, low + width)
            }
            Self::Linear { max_us, size } => {
                let edge = |bucket: u32| {
                    (linear_width(*max_us, *size) * f64::from(bucket) * 1e6).round() as u64
                };
                (edge(bucket), edge(bucket.saturating_add(1)))
            }
            Self::V2(v2) => v2.bounds(bucket),
        }
    }

    /// The lower end, which is the quantile of no data, and the upper end, in seconds.
    fn range(&self) -> (f64, f64) {
        match self {
            Self::LogLinear => (0.0, seconds(TIME_US_MAX)),
            Self::Linear { max_us, .. } => (0.0, seconds(*max_us)),
            Self::V2(v2) => v2.range(),
        }
    }
}

/// The layout as in a report's `histogram` setting: `log-linear`, `linear=10:1024`,
/// `hv=0:60000:32768`.
impl fmt::Display for BucketLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LogLinear => f.write_str("log-linear"),
            Self::Linear { max_us, size } => write!(f, "linear={}:{size}", max_us / 1_000_000),
            Self::V2(v2) => write!(f, "hv={}:{}:{}", v2.min_ms, v2.max_ms, v2.buckets),
        }
    }
}

/// The bucket number where values below 2^(`bits` + 1) have one each, and each octave above has
/// 2^`bits`.
#[inline]
pub(crate) fn octave_bucket(value: u64, bits: u32) -> u32 {
    // How far to shift the value right to leave bits + 1 bits, the highest of them set; 0 for small
    // ones. Then `value >> shift` is at least 2^bits, and `shift << bits` puts each octave after
    // the one before.
    let shift = (64 - 1 - bits).saturating_sub(value.leading_zeros());
    (shift << bits) + (value >> shift) as u32
}

/// Lowest value and number of values of such a bucket.
#[inline]
pub(crate) fn octave_bounds(bucket: u32, bits: u32) -> (u64, u64) {
    let shift = (bucket >> bits).saturating_sub(1);
    (u64::from(bucket - (shift << bits)) << shift, 1 << shift)
}

#[inline]
fn linear_bucket(us: u64, max_us: u64, size: u32) -> u32 {
    // Pinba puts a time of exactly the maximum into bucket 0; it belongs in the last, like
    // everything above it.
    if us >= max_us {
        return size.saturating_sub(1);
    }
    // us < max_us, so the quotient is below size. The product fits for every layout made by
    // `BucketLayout::linear`.
    (us.saturating_mul(u64::from(size)) / max_us) as u32
}

/// Width of a linear bucket, seconds.
pub(super) fn linear_width(max_us: u64, size: u32) -> f64 {
    seconds(max_us) / f64::from(size.max(1))
}

/// A timer's time per hit in integer microseconds, half to even: reports and pages count it once
/// per hit.
pub fn per_hit(value_us: u64, hit_count: u32) -> u64 {
    let hits = u64::from(hit_count);
    if hits <= 1 {
        return value_us;
    }
    let (quotient, rest) = (value_us / hits, value_us % hits);
    match (rest * 2).cmp(&hits) {
        Ordering::Less => quotient,
        Ordering::Equal => quotient + (quotient & 1),
        Ordering::Greater => quotient + 1,
    }
}

/// Clamps a quantile to the shortest and the longest time, or to bounds of these, where known.
pub(crate) fn within(secs: f64, bounds: Option<(f64, f64)>) -> f64 {
    bounds.map_or(secs, |(shortest, longest)| secs.max(shortest).min(longest))
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

impl V2Buckets {
    /// Whether a bucket is that of all times above the maximum.
    pub(crate) const fn is_above(&self, bucket: u32) -> bool {
        bucket == V2_MAX
    }

    #[inline]
    fn bucket(&self, us: u64) -> u32 {
        let unit = us.saturating_mul(1000).div_ceil(self.width_ns);
        if unit < self.unit_min {
            V2_MIN
        } else if unit > self.unit_max {
            V2_MAX
        } else {
            octave_bucket(unit, V2_BITS)
        }
    }

    /// Minimum and maximum, in seconds.
    fn range(&self) -> (f64, f64) {
        (f64::from(self.min_ms) / 1e3, f64::from(self.max_ms) / 1e3)
    }

    fn inside(&self, bucket: u32, has: u64, needed: u64) -> f64 {
        match bucket {
            V2_MIN => self.range().0,
            V2_MAX => self.range().1,
            // Unit k is (w x (k - 1), w x k], counted from 0: the minimum is already included.
            bucket => {
                let (low, shared_by) = octave_bounds(bucket, V2_BITS);
                let share = needed as f64 / has as f64;
                let units = (low - 1) as f64 + shared_by as f64 * share;
                self.width_ns as f64 * units / 1e9
            }
        }
    }

    fn bounds(&self, bucket: u32) -> (u64, u64) {
        let edge = |unit: u64| unit * self.width_ns / 1000;
        match bucket {
            V2_MIN => (0, edge(self.unit_min.saturating_sub(1))),
            V2_MAX => (edge(self.unit_max), TIME_US_MAX),
            bucket => {
                let (low, shared_by) = octave_bounds(bucket, V2_BITS);
                (edge(low - 1), edge(low - 1 + shared_by))
            }
        }
    }

    /// A row's histogram as pinba2 writes it: `hv=0:1000:100;values=[3:1, 17:2, min:4, max:1]`.
    /// `gap` separates an id from its count: `": "` in packet reports, `":"` in all others.
    pub fn text(&self, histogram: &[(u32, u64)], gap: &str) -> String {
        let counted = histogram.iter().copied().filter(|(_, count)| *count > 0);
        // The sentinels come last.
        let is_sentinel = |(bucket, _): &(u32, u64)| matches!(*bucket, V2_MIN | V2_MAX);
        let (sentinels, inside): (Vec<_>, Vec<_>) = counted.partition(is_sentinel);
        let values = inside.into_iter().chain(sentinels).map(|(bucket, count)| match bucket {
            V2_MIN => format!("min{gap}{count}"),
            V2_MAX => format!("max{gap}{count}"),
            inside => format!("{}{gap}{count}", octave_bounds(inside, V2_BITS).0),
        });
        let values: Vec<String> = values.collect();
        let Self { min_ms, max_ms, buckets, .. } = self;
        format!("hv={min_ms}:{max_ms}:{buckets};values=[{}]", values.join(", "))
    }
}

#[cfg(test)]
mod tests;
