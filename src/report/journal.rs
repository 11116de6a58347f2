//! The journal of a tick: what each group gained in it, packed, to be taken away when the tick leaves the window.
//!
//! One entry a group: its number, its sums, its histogram, as variable-length integers; about twenty bytes for a
//! single request, and a busy group costs little more than its distinct buckets, however many requests it had. With the
//! journal nothing else is needed to retire a tick: not the raw rows, which may be long gone.

use std::sync::Arc;

use super::counts::Histogram;
use super::totals::Totals;

/// Writes entries one after the other.
#[derive(Debug, Default)]
pub(super) struct JournalWriter {
    bytes: Vec<u8>,
    entries: usize,
}

impl JournalWriter {
    /// Adds what `group` gained. With `histogram` `None` it is left out (memory budget).
    pub(super) fn entry(&mut self, group: u32, totals: &Totals, histogram: Option<&Histogram>) {
        match histogram {
            Some(histogram) => self.pairs(group, totals, histogram.len(), histogram.iter()),
            None => self.pairs(group, totals, 0, std::iter::empty()),
        }
    }

    /// The same from `len` (bucket, count), buckets ascending.
    pub(super) fn pairs(
        &mut self,
        group: u32,
        totals: &Totals,
        len: usize,
        pairs: impl Iterator<Item = (u32, u64)>,
    ) {
        self.entries += 1;
        self.number(u128::from(group));
        self.number(u128::from(totals.requests));
        self.number(totals.hits);
        self.number(totals.time);
        self.number(totals.ru_utime);
        self.number(totals.ru_stime);
        self.number(totals.traffic);
        self.number(totals.memory);
        self.number(u128::from(totals.errors));
        self.number(len as u128);
        let mut last = 0;
        for (bucket, count) in pairs {
            self.number(u128::from(bucket - last));
            self.number(u128::from(count));
            last = bucket;
        }
    }

    /// Bytes of the entry that [`entry`](Self::entry) would write.
    pub(super) fn entry_bytes(group: u32, totals: &Totals, histogram: &Histogram) -> usize {
        let sums = [
            totals.hits,
            totals.time,
            totals.ru_utime,
            totals.ru_stime,
            totals.traffic,
            totals.memory,
            totals.requests.into(),
            totals.errors.into(),
            group.into(),
            histogram.len() as u128,
        ];
        let mut bytes: usize = sums.into_iter().map(number_bytes).sum();
        let mut last = 0;
        for (bucket, count) in histogram.iter() {
            bytes += number_bytes((bucket - last).into()) + number_bytes(count.into());
            last = bucket;
        }
        bytes
    }

    /// What was written since the last one was finished.
    pub(super) fn unfinished(&self) -> &[u8] {
        &self.bytes
    }

    /// Begins with entries that were written elsewhere.
    pub(super) fn beginning_with(entries: &[u8]) -> Self {
        Self {
            bytes: entries.to_vec(),
            entries: 0,
        }
    }

    /// How many entries were written since the last one was finished.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// The finished journal, exactly as large as it needs to be; the writer is empty again.
    pub(super) fn finish(&mut self) -> Arc<[u8]> {
        let bytes = self.bytes.as_slice().into();
        self.bytes.clear();
        self.entries = 0;
        bytes
    }

    /// Gives memory back after an unusually large tick.
    pub(super) fn shrink(&mut self) {
        self.bytes.shrink_to(1 << 16);
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    fn number(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// Bytes that a number takes.
fn number_bytes(value: u128) -> usize {
    (128 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Reads entries in the order in which they were written.
#[derive(Debug)]
pub(super) struct JournalReader<'a> {
    bytes: &'a [u8],
}

impl<'a> JournalReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// What was not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next entry's group and sums; its histogram pairs go to `pair`.
    pub(super) fn next(&mut self, pairs: &mut Vec<(u32, u64)>) -> Option<(u32, Totals)> {
        if self.bytes.is_empty() {
            return None;
        }
        let group = self.number() as u32;
        let totals = Totals {
            requests: self.number() as u64,
            hits: self.number(),
            time: self.number(),
            ru_utime: self.number(),
            ru_stime: self.number(),
            traffic: self.number(),
            memory: self.number(),
            errors: self.number() as u64,
        };
        pairs.clear();
        let mut bucket = 0;
        for _ in 0..self.number() {
            bucket += self.number() as u32;
            pairs.push((bucket, self.number() as u64));
        }
        Some((group, totals))
    }

    fn number(&mut self) -> u128 {
        let mut low = 0u64;
        let mut shift = 0;
        while let Some((&byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            low |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u128::from(low);
            }
            shift += 7;
            if shift == 63 {
                return self.wide(low);
            }
        }
        u128::from(low)
    }

    /// The rest of a number of more than 63 bits.
    #[cold]
    fn wide(&mut self, low: u64) -> u128 {
        let mut value = u128::from(low);
        let mut shift = 63;
        while let Some((&byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut histogram = Histogram::new();
        histogram.add(0, 1);
        histogram.add(70_000, 1 << 35);
        let large = Totals {
            requests: u64::MAX,
            hits: u128::MAX,
            time: 1 << 63,
            ru_utime: (1 << 63) - 1,
            ru_stime: 127,
            traffic: 128,
            memory: u128::from(u64::MAX) + 5,
            errors: 3,
        };
        let mut writer = JournalWriter::default();
        writer.entry(9, &large, Some(&histogram));
        let bytes = JournalWriter::entry_bytes(9, &large, &histogram);
        assert_eq!(writer.unfinished().len(), bytes);
        writer.entry(u32::MAX - 9, &Totals::ZERO, None);
        let bytes = writer.finish();
        let mut reader = JournalReader::new(&bytes);
        let mut pairs = Vec::new();
        assert_eq!(reader.next(&mut pairs), Some((9, large)));
        assert_eq!(pairs, histogram.iter().collect::<Vec<_>>());
        assert_eq!(reader.next(&mut pairs), Some((u32::MAX - 9, Totals::ZERO)));
        assert!(pairs.is_empty());
        assert_eq!(reader.next(&mut pairs), None);
    }
}
