//! Sums and histogram, packed: what a group gained in a second, or a row of the last hour.
//!
//! Written once, then read by whoever draws a line. A row of a few requests takes some
//! fifteen bytes, a busy one little more than a byte for each distinct bucket. Tick logs have histograms like that too.
//!
//! ```text
//!   | 1: with histogram, 0: without | requests | hits | time | utime | stime | traffic | memory | errors | pair | pair ...
//!
//!   number: of variable length (`report::varint`)
//!   pair:   | 8 x steps from the last bucket + count |             count 1 to 7
//!           | 8 x steps from the last bucket | count |             any other
//! ```

use super::counts::{BUCKET_MAX, Histogram};
use super::totals::Totals;
use super::varint;

/// Appends a row's sums; its histogram may follow ([`write_pairs`]).
pub(crate) fn write_totals(to: &mut Vec<u8>, totals: &Totals, with_histogram: bool) {
    to.push(u8::from(with_histogram));
    totals.push(to);
}

/// Appends a histogram: buckets ascending.
pub(crate) fn write_pairs(to: &mut Vec<u8>, pairs: impl Iterator<Item = (u32, u64)>) {
    let mut last = 0;
    for (bucket, count) in pairs {
        let steps = u128::from(bucket - last) << 3;
        last = bucket;
        if (1..8).contains(&count) {
            varint::push(to, steps | u128::from(count));
        } else {
            varint::push(to, steps);
            varint::push(to, count.into());
        }
    }
}

/// A packed row, to be read.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a>(pub(crate) &'a [u8]);

impl<'a> Packed<'a> {
    /// The sums, and the histogram that follows; `None` when it was left out.
    #[must_use]
    pub fn read(self) -> (Totals, Option<Pairs<'a>>) {
        let Some((&with_histogram, mut rest)) = self.0.split_first() else {
            return (Totals::ZERO, None);
        };
        let totals = Totals::take(&mut rest);
        let pairs = (with_histogram == 1).then(|| Pairs::of(rest));
        (totals, pairs)
    }
}

impl Packed<'_> {
    /// How many of its bytes are a histogram.
    pub(crate) fn histogram_bytes(self) -> usize {
        self.read().1.map_or(0, |pairs| pairs.bytes.len())
    }
}

/// The (bucket, count) of a packed histogram, buckets ascending. Of any other bytes it makes pairs of any numbers.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    /// What follows.
    pub(crate) bytes: &'a [u8],
    last: u32,
}

impl<'a> Pairs<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, last: 0 }
    }
}

impl Iterator for Pairs<'_> {
    type Item = (u32, u64);

    #[inline]
    fn next(&mut self) -> Option<(u32, u64)> {
        if self.bytes.is_empty() {
            return None;
        }
        let first = varint::take(&mut self.bytes) as u64;
        self.last = self.last.wrapping_add((first >> 3) as u32);
        let count = match first & 7 {
            0 => varint::take(&mut self.bytes) as u64,
            short => short,
        };
        Some((self.last, count))
    }
}

/// Many histograms added up, one row after the other: a count for each bucket, and a bit for those that are not 0.
#[derive(Debug, Default)]
pub(crate) struct PairSums {
    counts: Vec<u64>,
    used: Vec<u64>,
}

impl PairSums {
    pub(crate) fn add(&mut self, pairs: impl Iterator<Item = (u32, u64)>) {
        for (bucket, count) in pairs {
            self.add_pair(bucket, count);
        }
    }

    #[inline]
    pub(crate) fn add_pair(&mut self, bucket: u32, count: u64) {
        let bucket = bucket.min(BUCKET_MAX) as usize;
        let (word, bit) = (bucket / 64, bucket % 64);
        if word >= self.used.len() {
            self.used.resize(word + 1, 0);
            self.counts.resize((word + 1) * 64, 0);
        }
        self.used[word] |= u64::from(count > 0) << bit;
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }

    /// Moves the sums, buckets ascending, behind those in `to`.
    pub(crate) fn take(&mut self, to: &mut Vec<(u32, u64)>) {
        let words = self.used.iter_mut().zip(self.counts.chunks_exact_mut(64));
        for (word, (used, counts)) in words.enumerate() {
            while *used != 0 {
                let bit = used.trailing_zeros();
                *used &= *used - 1;
                let count = std::mem::take(&mut counts[bit as usize]);
                to.push((word as u32 * 64 + bit, count));
            }
        }
    }

    /// The sums, buckets ascending; when all were taken, it is empty.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, u64)> {
        let Self { counts, used } = self;
        let words = used.iter_mut().zip(counts.chunks_exact_mut(64)).enumerate();
        words.flat_map(|(word, (used, counts))| {
            let mut used = std::mem::take(used);
            std::iter::from_fn(move || {
                let bit = used.trailing_zeros();
                let count = counts.get_mut(bit as usize)?;
                used &= used - 1;
                Some((word as u32 * 64 + bit, std::mem::take(count)))
            })
        })
    }
}

/// Packed rows added up.
#[cfg_attr(
    not(feature = "sql"),
    allow(unreachable_pub, reason = "history alone has it in its interface")
)]
#[derive(Debug)]
pub struct Sum {
    /// Sums.
    pub totals: Totals,
    /// `None`: something that was added had none.
    histogram: Option<Histogram>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            totals: Totals::ZERO,
            histogram: Some(Histogram::new()),
        }
    }
}

impl Sum {
    /// What was added up elsewhere.
    #[cfg(feature = "sql")]
    pub(crate) fn of(totals: Totals, histogram: Option<Histogram>) -> Self {
        Self { totals, histogram }
    }

    /// Packs it, with its histogram if it has one that is asked for; `to` has nothing else then.
    pub(crate) fn pack(&self, to: &mut Vec<u8>, with_histogram: bool) {
        let histogram = self.histogram().filter(|_| with_histogram);
        to.clear();
        write_totals(to, &self.totals, histogram.is_some());
        write_pairs(to, histogram.into_iter().flat_map(Histogram::iter));
    }

    /// Adds what a row gained.
    pub(crate) fn add(&mut self, gained: Packed<'_>) {
        let (totals, pairs) = gained.read();
        self.add_read(&totals, pairs);
    }

    /// The same of what was read already.
    pub(crate) fn add_read(&mut self, totals: &Totals, pairs: Option<Pairs<'_>>) {
        self.totals += totals;
        match (&mut self.histogram, pairs) {
            (Some(histogram), Some(pairs)) => {
                pairs.for_each(|(bucket, count)| histogram.add(bucket, count));
            }
            _ => self.histogram = None,
        }
    }

    /// Adds what was added to another one.
    #[cfg(feature = "sql")]
    pub fn add_sum(&mut self, other: &Self) {
        self.totals += &other.totals;
        match (&mut self.histogram, &other.histogram) {
            (Some(histogram), Some(other)) => histogram.add_all(other),
            _ => self.histogram = None,
        }
    }

    /// Goes without a histogram from now on; whether it had one.
    #[cfg(feature = "sql")]
    pub(crate) fn drop_histogram(&mut self) -> bool {
        self.histogram.take().is_some()
    }

    /// Changes its histogram, if it has one; `None`: what that would be is not known.
    #[cfg(feature = "sql")]
    pub(crate) fn change_histogram(&mut self, change: impl FnOnce(&mut Histogram) -> Option<()>) {
        if self.histogram.as_mut().and_then(change).is_none() {
            self.histogram = None;
        }
    }

    /// The histogram, if all that was added had one.
    pub(crate) fn histogram(&self) -> Option<&Histogram> {
        self.histogram.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_read() {
        let totals = Totals {
            requests: u64::MAX,
            errors: 1,
            hits: u128::MAX,
            time: 1 << 63,
            ru_utime: (1 << 63) - 1,
            ru_stime: 127,
            traffic: 128,
            memory: u128::from(u64::MAX) + 5,
        };
        let pairs = [
            (0, 1),
            (1, 7),
            (2, 8),
            (17, 0),
            (17, 3),
            (u32::MAX, u64::MAX),
        ];
        let mut bytes = Vec::new();
        write_totals(&mut bytes, &totals, true);
        write_pairs(&mut bytes, pairs.iter().copied());
        let (read, histogram) = Packed(&bytes).read();
        assert_eq!(read, totals);
        assert_eq!(histogram.unwrap().collect::<Vec<_>>(), pairs);

        let mut without = Vec::new();
        write_totals(&mut without, &Totals::ZERO, false);
        let (read, histogram) = Packed(&without).read();
        assert_eq!((read, histogram.is_none()), (Totals::ZERO, true));
    }

    #[test]
    fn neighbouring_buckets_of_few_take_a_byte_each() {
        let pairs: Vec<(u32, u64)> = (700..800).map(|bucket| (bucket, 7)).collect();
        let mut bytes = Vec::new();
        write_pairs(&mut bytes, pairs.iter().copied());
        assert!(bytes.len() <= pairs.len() + 2, "{}", bytes.len());
    }
}
