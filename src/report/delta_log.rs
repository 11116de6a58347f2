//! The delta log: what each group of an aggregate gained in the second that runs, one record a group.
//!
//! It speaks for itself: it has the texts of the groups' keys, each once, so that it can be read when the groups, or their
//! strings, are there no more. Written by the merger's thread at a cut, then never changed; whoever has it may keep it.
//!
//! ```text
//!   record:   | bytes that follow (4) | number of each key value (4) | extremes | sums and histogram (see `packed`) |
//!   extremes: | shortest time + 1 | longest time | memory_peak |     numbers of variable length; 0 when none are kept
//! ```
//!
//! A log is bounded: past its bytes all further groups share one last record, whose values are all `(other)`.

use std::collections::HashMap;

use ahash::RandomState;

use super::counts::Histogram;
use super::packed::{Packed, write_pairs, write_totals};
use super::reading::Extremes;
use super::totals::Totals;
use super::varint;
use crate::pool::strings::{NONE, OTHER, StringInterner};

/// Length of a record, and number of a key value.
const NUMBER_BYTES: usize = 4;

/// The number of a key value that is none.
const NO_VALUE: u32 = u32::MAX;

/// What groups of an aggregate gained. Several records may be of one group.
#[derive(Debug, Default)]
pub struct Deltas {
    /// How many values a key has.
    keys: usize,
    records: Vec<u8>,
    /// Texts of key values, one behind the other.
    texts: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
    /// The number of a string's text, until strings may change.
    numbers: HashMap<u32, u32, RandomState>,
    bytes_max: usize,
    /// What finds no room.
    other: Option<(Totals, Extremes, Histogram)>,
    /// Records that it stands for.
    folded: u64,
}

/// What one group gained.
#[derive(Debug, Clone, Copy)]
pub struct GroupDelta<'a> {
    log: &'a Deltas,
    numbers: &'a [u8],
    gained: &'a [u8],
}

impl<'a> GroupDelta<'a> {
    /// The number of the value of its key `at`, if it has one: groups of a log with the same one have the same value.
    pub(super) fn number(&self, at: usize) -> Option<u32> {
        let (numbers, _) = self.numbers.as_chunks();
        let number = u32::from_le_bytes(*numbers.get(at)?);
        (number != NO_VALUE).then_some(number)
    }

    /// That value.
    pub(super) fn value(&self, at: usize) -> Option<&'a [u8]> {
        let number = self.number(at)?;
        let end = *self.log.ends.get(number as usize)?;
        let begin = number
            .checked_sub(1)
            .map_or(0, |it| self.log.ends[it as usize]);
        self.log.texts.get(begin as usize..end as usize)
    }

    /// Smallest and largest values, [`Extremes::NOTHING`] when the aggregate keeps none; sums and histogram.
    #[must_use]
    pub fn gained(&self) -> (Extremes, Packed<'a>) {
        let mut rest = self.gained;
        let [time_min, time_max, peak] = std::array::from_fn(|_| varint::take(&mut rest));
        let extremes = Extremes {
            time_min: (time_min as u64).wrapping_sub(1),
            time_max: time_max as u64,
            memory_peak_max: peak as u32,
        };
        (extremes, Packed(rest))
    }
}

impl Deltas {
    pub(super) fn new(keys: usize, bytes_max: usize) -> Self {
        Self {
            keys,
            bytes_max,
            ..Self::default()
        }
    }

    /// Writes down what a group gained, whose key has these strings.
    pub(super) fn write(
        &mut self,
        key: impl Iterator<Item = u32>,
        strings: &StringInterner,
        extremes: Option<&Extremes>,
        (totals, pairs): (&Totals, &[(u32, u64)]),
    ) {
        let extremes = extremes.copied().unwrap_or_default();
        if self.records.len() + self.texts.len() < self.bytes_max {
            self.push(key, strings, &extremes, (totals, pairs.iter().copied()));
            return;
        }
        self.folded += 1;
        let other = self.other.get_or_insert_default();
        other.0 += totals;
        other.1.widen(&extremes);
        for &(bucket, count) in pairs {
            other.2.add(bucket, count);
        }
    }

    /// It may take so many bytes from now on.
    pub(super) fn allow(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Numbers may stand for other strings from now on.
    pub(super) fn forget_strings(&mut self) {
        self.numbers.clear();
    }

    /// What was written; this is empty again, with room for as much.
    pub(super) fn take(&mut self, strings: &StringInterner) -> Self {
        if let Some((totals, extremes, histogram)) = self.other.take() {
            let key = std::iter::repeat_n(OTHER, self.keys);
            self.push(key, strings, &extremes, (&totals, histogram.iter()));
        }
        self.forget_strings();
        self.numbers.shrink_to(self.ends.len());
        self.records.shrink_to_fit();
        let empty = Self {
            records: Vec::with_capacity(self.records.len()),
            numbers: std::mem::take(&mut self.numbers),
            ..Self::new(self.keys, self.bytes_max)
        };
        std::mem::replace(self, empty)
    }

    fn push(
        &mut self,
        key: impl Iterator<Item = u32>,
        strings: &StringInterner,
        extremes: &Extremes,
        (totals, pairs): (&Totals, impl Iterator<Item = (u32, u64)>),
    ) {
        let records = &mut self.records;
        let start = records.len() + NUMBER_BYTES;
        records.extend_from_slice(&[0; NUMBER_BYTES]);
        for string in key {
            let number = match string {
                NONE => NO_VALUE,
                string => *self.numbers.entry(string).or_insert_with(|| {
                    self.texts.extend_from_slice(strings.bytes(string));
                    self.ends.push(self.texts.len() as u32);
                    self.ends.len() as u32 - 1
                }),
            };
            records.extend_from_slice(&number.to_le_bytes());
        }
        let Extremes {
            time_min,
            time_max,
            memory_peak_max,
        } = *extremes;
        for number in [time_min.wrapping_add(1), time_max, memory_peak_max.into()] {
            varint::push(records, number.into());
        }
        write_totals(records, totals, true);
        write_pairs(records, pairs);
        let len = (records.len() - start) as u32;
        records[start - NUMBER_BYTES..start].copy_from_slice(&len.to_le_bytes());
    }

    /// The record that begins at byte `at`, and where the next one does; `None` at the end.
    #[must_use]
    pub fn at(&self, at: usize) -> Option<(GroupDelta<'_>, usize)> {
        let rest = self.records.get(at..)?;
        let (len, rest) = rest.split_first_chunk::<NUMBER_BYTES>()?;
        let record = rest.get(..u32::from_le_bytes(*len) as usize)?;
        let (numbers, gained) = record.split_at_checked(self.keys * NUMBER_BYTES)?;
        let delta = GroupDelta {
            log: self,
            numbers,
            gained,
        };
        Some((delta, at + NUMBER_BYTES + record.len()))
    }

    /// Reads a little of the record that begins at byte `at`, so that it is at hand when its turn comes.
    pub(crate) fn touch(&self, at: usize) {
        std::hint::black_box(
            [self.records.get(at), self.records.get(at + 64)].map(Option::<&u8>::copied),
        );
    }

    /// Records that found no room and are in `(other)`.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Bytes taken.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.records.capacity() + self.texts.capacity() + self.ends.capacity() * NUMBER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::record::Hasher;

    #[test]
    fn each_text_is_there_once_and_stays_when_its_string_goes() {
        let mut strings = StringInterner::new(1 << 20, Hasher::new());
        let mut log = Deltas::new(2, 1 << 20);
        let write = |log: &mut Deltas, strings: &StringInterner, key: [u32; 2]| {
            let totals = Totals {
                requests: 1,
                ..Totals::ZERO
            };
            log.write(key.into_iter(), strings, None, (&totals, &[(7, 1)]));
        };
        let [a, b] = ["/a", "/b"].map(|text| strings.intern(text.as_bytes()));
        for key in [[a, b], [b, a], [a, NONE]] {
            write(&mut log, &strings, key);
        }
        assert_eq!(log.texts, b"/a/b");
        log.forget_strings();
        strings.release(a);
        let c = strings.intern(b"/c");
        assert_eq!(c, a, "its number is given again");
        write(&mut log, &strings, [c, b]);
        log.allow(0);
        write(&mut log, &strings, [c, c]);

        let taken = log.take(&strings);
        let (mut keys, mut at) = (Vec::new(), 0);
        while let Some((group, next)) = taken.at(at) {
            let text = |at| {
                group
                    .value(at)
                    .map(|it| String::from_utf8(it.to_vec()).unwrap())
            };
            keys.push([0, 1].map(|at| text(at).unwrap_or("none".to_owned())));
            at = next;
        }
        let expected = ["/a /b", "/b /a", "/a none", "/c /b", "(other) (other)"];
        let keys: Vec<String> = keys.iter().map(|it| it.join(" ")).collect();
        assert_eq!(keys, expected);
        assert_eq!((taken.folded(), log.at(0).is_none()), (1, true));
    }
}
