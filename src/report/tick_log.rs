//! The tick log: the gain of each group in a tick, encoded, to be subtracted when the tick leaves
//! the window.
//!
//! One entry per group: its number, its sums, its histogram, as variable-length integers. A busy
//! group takes little more than its distinct buckets, however many requests it had. Nothing else is
//! needed to expire a tick: not the raw rows, which may be gone by then.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::encoded_gain::{Pairs, write_pairs};
use super::totals::Totals;
use crate::value::varint;

/// Size of the pieces of a tick log, in bytes or groups, whichever is reached first. Each of them
/// leaves its window under one hold of the lock: a millisecond. Tests have few groups.
const PIECE_BYTES: usize = if cfg!(test) { 4 << 10 } else { 128 << 10 };
const PIECE_GROUPS: usize = 1024;

/// Beside a group's number: the sums have `unmeasured`, which is left out otherwise.
const UNMEASURED: u128 = 1 << 32;

/// A piece of a tick's log.
#[derive(Debug)]
pub(super) struct TickLog {
    pub(super) head: TickHead,
    /// Shared with a snapshot being written, never for longer.
    pub(super) entries: Arc<[u8]>,
}

/// The tick of a piece, and what is missing in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TickHead {
    pub(super) tick: u64,
    pub(super) histograms: bool,
    /// Some of this tick's counts are under `(other)` for lack of memory.
    pub(super) overflowed: bool,
    /// First and last merge of the tick so far, in milliseconds, whether or not it counted here.
    pub(super) seen: Option<(u64, u64)>,
}

impl TickHead {
    /// The head of a tick in which nothing was merged yet.
    pub(super) fn new(tick: u64) -> Self {
        Self { tick, histograms: true, overflowed: false, seen: None }
    }
}

/// The logs of the ticks in a window, and of the running one so far.
#[derive(Debug, Default)]
pub(super) struct TickLogs {
    /// Oldest first.
    pub(super) closed: VecDeque<TickLog>,
    /// Bytes of their entries.
    closed_bytes: usize,
    pub(super) writer: TickLogWriter,
}

impl TickLogs {
    /// Keeps what was written as the next piece.
    pub(super) fn finish(&mut self, head: TickHead) {
        let log = self.writer.finish(head);
        self.closed_bytes += log.entries.len();
        self.closed.push_back(log);
    }

    /// Removes the oldest piece.
    pub(super) fn pop(&mut self) -> Option<TickLog> {
        let log = self.closed.pop_front()?;
        self.closed_bytes -= log.entries.len();
        Some(log)
    }

    /// Bytes of entries.
    pub(super) fn bytes(&self) -> usize {
        self.closed_bytes + self.writer.bytes.len()
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes() + self.closed.capacity() * size_of::<TickLog>()
    }
}

/// Writes entries one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct TickLogWriter {
    /// Entries written since the last log was finished.
    pub(super) bytes: Vec<u8>,
    /// Number of entries.
    groups: usize,
}

impl TickLogWriter {
    /// Adds the gain of `group`, whose histogram has `len` pairs of (bucket, count), buckets
    /// ascending.
    pub(super) fn entry(
        &mut self,
        group: u32,
        totals: &Totals,
        len: usize,
        pairs: impl Iterator<Item = (u32, u64)>,
    ) {
        let unmeasured = if totals.unmeasured > 0 { UNMEASURED } else { 0 };
        varint::push(&mut self.bytes, u128::from(group) | unmeasured);
        totals.push(&mut self.bytes);
        varint::push(&mut self.bytes, len as u128);
        write_pairs(&mut self.bytes, pairs);
        self.groups += 1;
    }

    /// Whether its entries are enough for a piece.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= PIECE_BYTES || self.groups >= PIECE_GROUPS
    }

    /// The log, exactly as large as necessary; the writer is empty again, and gives back the memory
    /// of an unusually large one.
    pub(super) fn finish(&mut self, head: TickHead) -> TickLog {
        let entries = self.bytes.as_slice().into();
        self.bytes.clear();
        self.bytes.shrink_to(PIECE_BYTES * 2);
        self.groups = 0;
        TickLog { head, entries }
    }
}

/// Takes the next entry off the front: returns its group and sums; its histogram goes to `pairs`.
/// Bytes that are not entries give numbers of any size, and buckets in any order.
pub(super) fn take_entry(from: &mut &[u8], pairs: &mut Vec<(u32, u64)>) -> Option<(u32, Totals)> {
    if from.is_empty() {
        return None;
    }
    let group = varint::take(from);
    let totals = Totals::take(from, group & UNMEASURED != 0);
    pairs.clear();
    let len = varint::take(from) as usize;
    let mut encoded = Pairs::of(from);
    pairs.extend(encoded.by_ref().take(len));
    *from = encoded.bytes;
    Some((group as u32, totals))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::histogram::Histogram;

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
            unmeasured: u128::from(u64::MAX) + 6,
        };
        let mut writer = TickLogWriter::default();
        writer.entry(9, &large, histogram.len(), histogram.iter());
        writer.entry(u32::MAX - 9, &Totals::ZERO, 0, [].into_iter());
        let head = TickHead::new(1);
        let log = writer.finish(head);
        assert_eq!(log.head, head);
        let mut entries = &log.entries[..];
        let mut pairs = Vec::new();
        assert_eq!(take_entry(&mut entries, &mut pairs), Some((9, large)));
        assert_eq!(pairs, histogram.iter().collect::<Vec<_>>());
        assert_eq!(take_entry(&mut entries, &mut pairs), Some((u32::MAX - 9, Totals::ZERO)));
        assert!(pairs.is_empty());
        assert_eq!(take_entry(&mut entries, &mut pairs), None);
    }
}
