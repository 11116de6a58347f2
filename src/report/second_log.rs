//! The second log: the gain of each group of an aggregate in the running second, in columns.
//!
//! ```text
//!   | number of the group (see `directory`) | extremes, if the aggregate keeps them | where its gain ends |
//!   | gain | gain | ..                                                               as `encoded_gain` has them
//! ```
//!
//! Written by the merger's thread at a cut, then immutable and shareable. A log is bounded: past
//! its limit all further groups share one last record, of [`OTHER_GROUP`].

use super::directory::{Directory, DirectoryChanges, KnownGroups, OTHER_GROUP};
use super::encoded_gain::{EncodedGain, encode};
use super::groups::cut_second::GroupGain;
use super::histogram::Histogram;
use super::key_table::KeyTable;
use super::totals::{Extremes, Totals};
use crate::pool::strings::StringInterner;

/// Gains of an aggregate's groups. Several records may be of one group.
#[derive(Debug, Default)]
pub struct SecondLog {
    /// The directory that has the numbers: unique.
    pub directory: u64,
    /// Number of keys per group.
    keys: usize,
    /// Changes of the directory.
    pub changes: DirectoryChanges,
    groups: Vec<u32>,
    extremes: Vec<Extremes>,
    ends: Vec<u32>,
    gains: Vec<u8>,
    /// Records counted for the group `(other)` for lack of memory.
    pub overflowed: u64,
}

impl SecondLog {
    /// A reader's state before the first log of its directory.
    pub fn nothing_known(&self) -> KnownGroups {
        KnownGroups::new(self.keys)
    }

    /// The number of each record's group.
    pub fn groups(&self) -> &[u32] {
        &self.groups
    }

    /// Record `at`: smallest and largest values, [`Extremes::NOTHING`] if the aggregate keeps none;
    /// and the gain.
    pub fn record(&self, at: usize) -> (Extremes, EncodedGain<'_>) {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let gain = &self.gains[begin as usize..self.ends[at] as usize];
        (self.extremes.get(at).copied().unwrap_or_default(), EncodedGain(gain))
    }

    /// Prefetches record `at`.
    pub(crate) fn touch(&self, at: usize) {
        let end = self.ends[at] as usize;
        std::hint::black_box(self.gains.get(end.wrapping_sub(1)));
    }

    /// Drops the gains, which nobody will read.
    pub(crate) fn drop_gains(&mut self) {
        *self = Self {
            directory: self.directory,
            keys: self.keys,
            changes: std::mem::take(&mut self.changes),
            ..Self::default()
        };
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.gains.capacity()
            + self.groups.capacity() * 8
            + self.extremes.capacity() * size_of::<Extremes>()
            + self.changes.bytes()
    }

    fn push(
        &mut self,
        group: u32,
        extremes: Option<&Extremes>,
        totals: &Totals,
        pairs: impl Iterator<Item = (u32, u64)>,
    ) {
        self.groups.push(group);
        self.extremes.extend(extremes);
        encode(&mut self.gains, totals, Some(pairs));
        self.ends.push(self.gains.len() as u32);
    }
}

/// Writes the log of the running second, and the directory.
#[derive(Debug)]
pub(super) struct SecondLogWriter {
    pub(super) directory: Directory,
    log: SecondLog,
    bytes_max: usize,
    /// Gains of groups without room.
    other: Option<(Totals, Option<Extremes>, Histogram)>,
}

impl SecondLogWriter {
    /// An empty writer; no other directory has this number.
    pub(super) fn new(directory: u64, keys: usize, strings: &StringInterner) -> Self {
        Self {
            directory: Directory::new(keys, strings),
            log: SecondLog { directory, keys, ..SecondLog::default() },
            bytes_max: 0,
            other: None,
        }
    }

    /// Sets the byte budget of log and directory: what the directory uses now, plus `more`.
    pub(super) fn allow(&mut self, more: usize) {
        self.bytes_max = self.directory.bytes() + more;
    }

    /// Writes the gain of a group; `keys` and `strings` have its key.
    pub(super) fn write(
        &mut self,
        gain: &GroupGain<'_>,
        keys: &KeyTable,
        strings: &StringInterner,
    ) {
        let GroupGain { group, totals, extremes, pairs } = gain;
        let pairs = pairs.iter().copied();
        let logged = self.log.gains.len() + self.log.groups.len() * 8;
        if logged + self.directory.bytes() < self.bytes_max {
            let number = self.directory.number(*group, keys.key(*group), strings);
            self.log.push(number, *extremes, totals, pairs);
            return;
        }
        self.log.overflowed += 1;
        let other = self.other.get_or_insert_default();
        other.0 += totals;
        if let Some(extremes) = extremes {
            other.1.get_or_insert_default().widen(extremes);
        }
        pairs.for_each(|(bucket, count)| other.2.add(bucket, count));
    }

    /// The log, for groups with these keys; the next one has room for as much. `is_over`: the
    /// second has ended.
    pub(super) fn take(&mut self, is_over: bool, keys: &KeyTable) -> SecondLog {
        if let Some((totals, extremes, histogram)) = self.other.take() {
            self.log.push(OTHER_GROUP, extremes.as_ref(), &totals, histogram.iter());
        }
        let excess = self.directory.bytes().saturating_sub(self.bytes_max / 2);
        self.log.changes = match is_over {
            true => self.directory.end_second(excess, keys),
            false => std::mem::take(&mut self.directory.changes),
        };
        self.log.gains.shrink_to_fit();
        self.log.groups.shrink_to_fit();
        self.log.ends.shrink_to_fit();
        self.log.extremes.shrink_to_fit();
        let next = SecondLog {
            directory: self.log.directory,
            keys: self.log.keys,
            groups: Vec::with_capacity(self.log.groups.len()),
            ends: Vec::with_capacity(self.log.ends.len()),
            gains: Vec::with_capacity(self.log.gains.len()),
            ..SecondLog::default()
        };
        std::mem::replace(&mut self.log, next)
    }
}
