//! Sums and histogram, packed: what a group gained in a second, or a row of the last hour.
//!
//! Written once, then read by whoever draws a line. A row of a few requests takes some
//! fifteen bytes, a busy one little more than a byte for each distinct bucket:
//!
//! ```text
//!   | 1: with histogram, 0: without | requests | hits | time | utime | stime | traffic | memory | errors | pair | pair ...
//!
//!   number: of variable length (`report::varint`)
//!   pair:   | steps from the last bucket (4 bits) | count (4 bits) |   0: too large, follows as a number
//! ```

use super::totals::Totals;
use super::varint;

/// Appends a row's sums; its histogram may follow ([`write_pairs`]).
pub(crate) fn write_totals(to: &mut Vec<u8>, totals: &Totals, with_histogram: bool) {
    to.push(u8::from(with_histogram));
    totals.push(to);
}

/// Appends a histogram: buckets ascending; one that comes again is counted with what came before.
pub(crate) fn write_pairs(to: &mut Vec<u8>, pairs: impl Iterator<Item = (u32, u64)>) {
    let mut pairs = pairs.peekable();
    // The first step is from "below 0", so that it is at least 1 as the others are.
    let mut next = 0;
    while let Some((bucket, mut count)) = pairs.next() {
        while let Some((_, more)) = pairs.next_if(|&(other, _)| other == bucket) {
            count = count.saturating_add(more);
        }
        let steps = bucket - next + 1;
        let (short_steps, short_count) = (
            if steps < 16 { steps as u8 } else { 0 },
            if count < 16 { count as u8 } else { 0 },
        );
        to.push(short_steps << 4 | short_count);
        if short_steps == 0 {
            varint::push(to, steps.into());
        }
        if short_count == 0 {
            varint::push(to, count.into());
        }
        next = bucket + 1;
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
        let pairs = (with_histogram == 1).then_some(Pairs {
            bytes: rest,
            next: 0,
        });
        (totals, pairs)
    }
}

/// The (bucket, count) of a packed histogram, buckets ascending.
#[derive(Debug, Clone)]
pub struct Pairs<'a> {
    bytes: &'a [u8],
    next: u32,
}

impl Iterator for Pairs<'_> {
    type Item = (u32, u64);

    #[inline]
    fn next(&mut self) -> Option<(u32, u64)> {
        let (&both, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let mut steps = u32::from(both >> 4);
        let mut count = u64::from(both & 15);
        if steps == 0 {
            steps = varint::take(&mut self.bytes) as u32;
        }
        if count == 0 {
            count = varint::take(&mut self.bytes) as u64;
        }
        let bucket = self.next + steps - 1;
        self.next = bucket + 1;
        Some((bucket, count))
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
        let pairs = [(0, 1), (1, 15), (2, 16), (17, 3), (18, 1), (2943, u64::MAX)];
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
