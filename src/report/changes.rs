//! What an aggregate counts while somebody reads it piece by piece, so that the sums are of one moment in the end.
//!
//! Written by the merger's thread, and only while somebody reads sums. Bounded: when it is full, readers begin anew.

use std::sync::Arc;

use super::arrivals::Delta;

/// Records that are written down at most: as many as a merger counts in some hundredths of a second.
const RECORDS_MAX: usize = 1 << 15;

/// What was counted since somebody began to read.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Every reader has one of these.
    reader: Arc<()>,
    /// Records, each with its group.
    pub(super) counted: Vec<(u32, Delta)>,
    /// How often sums went, or moved from one group to another: what was read before is of no use then.
    pub(super) moves: u64,
}

impl Changes {
    /// From now on, until what this returns is dropped, everything is written down.
    pub(super) fn reader(&self) -> Arc<()> {
        Arc::clone(&self.reader)
    }

    /// Records are counted, each in the group of its assignment.
    pub(super) fn count(&mut self, assignments: &[(u32, u32)], deltas: &[Delta]) {
        if Arc::strong_count(&self.reader) == 1 {
            self.counted = Vec::new();
        } else if self.counted.len() + assignments.len() > RECORDS_MAX {
            self.moved();
        } else {
            let records = assignments.iter();
            let records = records.map(|&(group, at)| (group, deltas[at as usize]));
            self.counted.extend(records);
        }
    }

    /// Sums went, or moved.
    pub(super) fn moved(&mut self) {
        self.moves += 1;
        self.counted.clear();
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        self.counted.capacity() * size_of::<(u32, Delta)>()
    }
}
