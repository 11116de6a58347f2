//! Gains: sums and a histogram, and their encoding.
//!
//! All logs contain gains in this form: the second log and the points of the last hour whole ones,
//! tick logs and pending rows of history parts of them. A row of a few requests takes some fifteen
//! bytes, a busy one little more than a byte per distinct bucket.
//!
//! ```text
//!   | flags | requests | hits | time | utime | stime | traffic | memory | errors | unmeasured | pair | pair ...
//!
//!   flags:  1 with histogram | 2 with `unmeasured`, which is left out otherwise
//!
//!   number: of variable length (`value::varint`)
//!   pair:   | 8 x steps from the last bucket + count |             count 1 to 7
//!           | 8 x steps from the last bucket | count |             any other
//! ```

use super::histogram::{BUCKET_MAX, Histogram};
use super::totals::Totals;
use crate::value::varint;

/// Flags: what follows.
pub(crate) const HISTOGRAM: u8 = 1;
const UNMEASURED: u8 = 2;

/// Encodes a gain. `pairs`: its histogram, buckets ascending, if known.
pub(crate) fn encode(
    to: &mut Vec<u8>,
    totals: &Totals,
    pairs: Option<impl Iterator<Item = (u32, u64)>>,
) {
    let unmeasured = if totals.unmeasured > 0 { UNMEASURED } else { 0 };
    to.push(u8::from(pairs.is_some()) | unmeasured);
    totals.push(to);
    pairs.into_iter().for_each(|pairs| write_pairs(to, pairs));
}

/// Appends a histogram with ascending buckets.
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

/// An encoded gain.
#[derive(Debug, Clone, Copy)]
pub struct EncodedGain<'a>(pub(crate) &'a [u8]);

impl<'a> EncodedGain<'a> {
    /// The sums, and the histogram that follows; `None` if it was left out.
    pub fn read(self) -> (Totals, Option<Pairs<'a>>) {
        let Some((&flags, mut rest)) = self.0.split_first() else { return (Totals::ZERO, None) };
        let totals = Totals::take(&mut rest, flags & UNMEASURED != 0);
        (totals, (flags & HISTOGRAM != 0).then(|| Pairs::of(rest)))
    }
}

/// The (bucket, count) of an encoded histogram, buckets ascending. Any other bytes give arbitrary
/// pairs.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    /// The remaining bytes.
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

/// Sums of many histograms, one row after the other: a count for each bucket, and a bit for those
/// that are not 0.
#[derive(Debug, Default)]
pub(crate) struct PairSums {
    counts: Vec<u64>,
    used: Vec<u64>,
}

impl PairSums {
    pub(crate) fn add(&mut self, pairs: impl Iterator<Item = (u32, u64)>) {
        pairs.for_each(|(bucket, count)| {
            let bucket = bucket.min(BUCKET_MAX) as usize;
            let (word, bit) = (bucket / 64, bucket % 64);
            if word >= self.used.len() {
                self.used.resize(word + 1, 0);
                self.counts.resize((word + 1) * 64, 0);
            }
            self.used[word] |= u64::from(count > 0) << bit;
            self.counts[bucket] = self.counts[bucket].saturating_add(count);
        });
    }

    /// Drains the sums, buckets ascending.
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

/// The sum of encoded gains.
#[derive(Debug, Clone)]
pub struct Sum {
    /// Sums.
    pub totals: Totals,
    /// `None` if any addend had none.
    pub(crate) histogram: Option<Histogram>,
}

impl Default for Sum {
    fn default() -> Self {
        Self { totals: Totals::ZERO, histogram: Some(Histogram::new()) }
    }
}

impl Sum {
    /// A sum computed elsewhere.
    pub(crate) fn of(totals: Totals, histogram: Option<Histogram>) -> Self {
        Self { totals, histogram }
    }

    /// Encodes it into the empty `to`, with its histogram if there is one and it is wanted.
    pub(crate) fn encode(&self, to: &mut Vec<u8>, with_histogram: bool) {
        let histogram = self.histogram().filter(|_| with_histogram);
        to.clear();
        encode(to, &self.totals, histogram.map(Histogram::iter));
    }

    /// Adds a gain.
    pub(crate) fn add(&mut self, gained: EncodedGain<'_>) {
        let (totals, pairs) = gained.read();
        self.add_read(&totals, pairs);
    }

    /// Adds a decoded gain.
    pub(crate) fn add_read(&mut self, totals: &Totals, pairs: Option<Pairs<'_>>) {
        self.totals += totals;
        match (&mut self.histogram, pairs) {
            (Some(histogram), Some(pairs)) => {
                pairs.for_each(|(bucket, count)| histogram.add(bucket, count));
            }
            _ => self.histogram = None,
        }
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: &Self) {
        self.totals += &other.totals;
        match (&mut self.histogram, &other.histogram) {
            (Some(histogram), Some(other)) => histogram.add_all(other),
            _ => self.histogram = None,
        }
    }

    /// The histogram, if all addends had one.
    pub(crate) fn histogram(&self) -> Option<&Histogram> {
        self.histogram.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::report::tick_log::{TickLogWriter, take_entry};

    /// Numbers below a random power of two, up to 2^`bits`.
    fn random(seed: &mut u128, bits: u32) -> u128 {
        *seed = seed.wrapping_mul(0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645).wrapping_add(1);
        let shift = (*seed >> 8) as u32 % (bits + 1);
        seed.rotate_left(64).checked_shr(128 - shift).unwrap_or_default()
    }

    /// Whole, in parts, in a tick log, or added up: the output is the fold of the input.
    #[test]
    fn gains_are_what_a_naive_fold_says() {
        let mut seed = 1;
        for round in 0..300 {
            let (mut totals, mut counts) = (Totals::ZERO, BTreeMap::new());
            let (mut sum, mut sums) = (Sum::default(), PairSums::default());
            let mut log = TickLogWriter::default();
            for group in 0..random(&mut seed, 4) as u32 {
                let more = std::array::from_fn(|at| {
                    let bits = if at == 0 || at == 7 { 60 } else { 120 };
                    random(&mut seed, bits)
                });
                let more = Totals::of(more);
                let mut pairs = BTreeMap::new();
                for _ in 0..random(&mut seed, 9) {
                    let bucket = random(&mut seed, 14) as u32;
                    pairs.insert(bucket, random(&mut seed, 50) as u64 + 1);
                }
                let pairs: Vec<(u32, u64)> = pairs.into_iter().collect();
                let mut bytes = Vec::new();
                encode(&mut bytes, &more, Some(pairs.iter().copied()));
                let encoded = EncodedGain(&bytes);
                let (read, times) = encoded.read();
                assert_eq!((read, times.unwrap().collect::<Vec<_>>()), (more, pairs.clone()));
                log.entry(group, &more, pairs.len(), pairs.iter().copied());
                sum.add(encoded);
                sums.add(pairs.iter().copied());
                totals += &more;
                for (bucket, count) in pairs {
                    *counts.entry(bucket).or_insert(0) += count;
                }
            }
            let counts: Vec<(u32, u64)> = counts.into_iter().collect();
            let mut bytes = vec![7];
            sum.encode(&mut bytes, true);
            let (read, times) = EncodedGain(&bytes).read();
            let times: Vec<(u32, u64)> = times.unwrap().collect();
            assert_eq!((read, &times), (totals, &counts), "round {round}");
            assert_eq!(sums.drain().collect::<Vec<_>>(), counts);
            let (mut logged, mut in_log, mut pairs) =
                (Totals::ZERO, PairSums::default(), Vec::new());
            let mut entries = &log.bytes[..];
            while let Some((_, totals)) = take_entry(&mut entries, &mut pairs) {
                logged += &totals;
                in_log.add(pairs.iter().copied());
            }
            assert_eq!((logged, in_log.drain().collect::<Vec<_>>()), (totals, counts));
            sum.encode(&mut bytes, false);
            assert!(EncodedGain(&bytes).read().1.is_none());
            sum.add(EncodedGain(&bytes));
            assert!(sum.histogram().is_none(), "what has none leaves none");
        }
    }

    #[test]
    fn what_is_measured_takes_no_room_for_it() {
        let encoded = |unmeasured| {
            let totals = Totals { requests: 5, unmeasured, ..Totals::ZERO };
            let mut bytes = Vec::new();
            encode(&mut bytes, &totals, None::<Pairs<'_>>);
            assert_eq!(EncodedGain(&bytes).read().0, totals);
            bytes
        };
        assert_eq!(encoded(0), [0, 5, 0, 0, 0, 0, 0, 0, 0], "as before there were spans");
        assert_eq!(encoded(3).len(), 10);
    }

    #[test]
    fn the_widest_numbers_are_read() {
        let totals = Totals { requests: u64::MAX, hits: u128::MAX, ..Totals::ZERO };
        let pairs = [(0, 1), (1, 7), (2, 8), (17, 0), (17, 3), (u32::MAX, u64::MAX)];
        let mut bytes = Vec::new();
        encode(&mut bytes, &totals, Some(pairs.iter().copied()));
        let (read, times) = EncodedGain(&bytes).read();
        assert_eq!((read, times.unwrap().collect::<Vec<_>>()), (totals, pairs.into()));
    }

    #[test]
    fn neighbouring_buckets_of_few_take_a_byte_each() {
        let pairs: Vec<(u32, u64)> = (700..800).map(|bucket| (bucket, 7)).collect();
        let mut bytes = Vec::new();
        write_pairs(&mut bytes, pairs.iter().copied());
        assert!(bytes.len() <= pairs.len() + 2, "{}", bytes.len());
    }
}
