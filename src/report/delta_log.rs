//! The delta log: what each group of an aggregate gained in the second that runs, one record a group.
//!
//! A record speaks for itself: it has the group's key as text, so that it can be read when the group, or its strings, are
//! there no more. Written by the merger's thread at a cut, then never changed; whoever has it may keep it.
//!
//! ```text
//!   record:   | bytes that follow (4) | bytes of the key (4) | key values | extremes | sums and histogram (see `packed`) |
//!   value:    | length (2) | text |            65535: the record has no such value
//!   extremes: | shortest time + 1 | longest time | memory_peak |     numbers of variable length; 0 when none are kept
//! ```
//!
//! A log is bounded: past its bytes all further groups share one last record, whose values are all `(other)`.

use super::counts::Histogram;
use super::packed::{Packed, write_pairs, write_totals};
use super::reading::Extremes;
use super::row_key::push_value;
use super::totals::Totals;
use super::varint;
use crate::pool::strings::OTHER_TEXT;

/// The two lengths that a record begins with.
const HEAD_BYTES: usize = 8;

/// What groups of an aggregate gained. Several records may be of one group.
#[derive(Debug, Default)]
pub struct Deltas {
    /// How many values a key has.
    keys: usize,
    bytes: Vec<u8>,
    bytes_max: usize,
    /// What finds no room.
    other: Option<(Totals, Extremes, Histogram)>,
    /// Records that it stands for.
    folded: u64,
}

/// What one group gained.
#[derive(Debug, Clone, Copy)]
pub struct GroupDelta<'a> {
    /// Its values: see [`key_values`](super::row_key::key_values).
    pub key: &'a [u8],
    gained: &'a [u8],
}

impl<'a> GroupDelta<'a> {
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

    /// Writes down what a group gained.
    pub(super) fn write<'a>(
        &mut self,
        key: impl Iterator<Item = Option<&'a str>>,
        extremes: Option<&Extremes>,
        (totals, pairs): (&Totals, &[(u32, u64)]),
    ) {
        let extremes = extremes.copied().unwrap_or_default();
        if self.bytes.len() < self.bytes_max {
            self.push(key, &extremes, (totals, pairs.iter().copied()));
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

    /// What was written; this is empty again, with room for as much.
    pub(super) fn take(&mut self) -> Self {
        if let Some((totals, extremes, histogram)) = self.other.take() {
            let key = std::iter::repeat_n(Some(OTHER_TEXT), self.keys);
            self.push(key, &extremes, (&totals, histogram.iter()));
        }
        self.bytes.shrink_to_fit();
        let empty = Self {
            bytes: Vec::with_capacity(self.bytes.len()),
            ..Self::new(self.keys, self.bytes_max)
        };
        std::mem::replace(self, empty)
    }

    fn push<'a>(
        &mut self,
        key: impl Iterator<Item = Option<&'a str>>,
        extremes: &Extremes,
        (totals, pairs): (&Totals, impl Iterator<Item = (u32, u64)>),
    ) {
        let bytes = &mut self.bytes;
        let start = bytes.len() + HEAD_BYTES;
        bytes.extend_from_slice(&[0; HEAD_BYTES]);
        for value in key {
            push_value(bytes, value);
        }
        let key_len = (bytes.len() - start) as u32;
        let Extremes {
            time_min,
            time_max,
            memory_peak_max,
        } = *extremes;
        for number in [time_min.wrapping_add(1), time_max, memory_peak_max.into()] {
            varint::push(bytes, number.into());
        }
        write_totals(bytes, totals, true);
        write_pairs(bytes, pairs);
        let len = (bytes.len() - start) as u32;
        let head = u64::from(key_len) << 32 | u64::from(len);
        bytes[start - HEAD_BYTES..start].copy_from_slice(&head.to_le_bytes());
    }

    /// The record that begins at byte `at`, and where the next one does; `None` at the end.
    #[must_use]
    pub fn at(&self, at: usize) -> Option<(GroupDelta<'_>, usize)> {
        let rest = self.bytes.get(at..)?;
        let (head, rest) = rest.split_first_chunk::<HEAD_BYTES>()?;
        let head = u64::from_le_bytes(*head);
        let len = head as u32 as usize;
        let (key, gained) = rest.get(..len)?.split_at_checked((head >> 32) as usize)?;
        Some((GroupDelta { key, gained }, at + HEAD_BYTES + len))
    }

    /// Reads a little of the record that begins at byte `at`, so that it is at hand when its turn comes.
    pub(crate) fn touch(&self, at: usize) {
        std::hint::black_box(
            [self.bytes.get(at), self.bytes.get(at + 64)].map(Option::<&u8>::copied),
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
        self.bytes.capacity()
    }
}
