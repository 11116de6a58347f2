//! Records counted while somebody reads an aggregate piece by piece, so that the sums are of one
//! moment in the end.
//!
//! Written by the merger's thread, and only while somebody reads sums. Bounded: when full, readers
//! start again.

use std::sync::Arc;

use crate::report::arrivals::Delta;

/// Most records stored: as many as a merger counts in a few hundredths of a second.
const RECORDS_MAX: usize = 1 << 15;

/// Records counted since somebody began to read.
#[derive(Debug, Default)]
pub(in crate::report) struct CountedMeanwhile {
    /// Every reader has a clone: records are stored until it is dropped.
    pub(in crate::report) reader: Arc<()>,
    /// Records with their groups.
    pub(in crate::report) counted: Vec<(u32, Delta)>,
    /// How often sums were removed, or moved between groups, which makes earlier reads useless.
    pub(in crate::report) moves: u64,
}

impl CountedMeanwhile {
    /// Records counted in the groups of their assignments.
    pub(in crate::report) fn count(&mut self, assignments: &[(u32, u32)], deltas: &[Delta]) {
        if Arc::strong_count(&self.reader) == 1 {
            self.counted = Vec::new();
        } else if self.counted.len() + assignments.len() > RECORDS_MAX {
            self.moved();
        } else {
            let records = assignments.iter();
            self.counted.extend(records.map(|&(group, at)| (group, deltas[at as usize])));
        }
    }

    /// Records that sums were removed or moved.
    pub(in crate::report) fn moved(&mut self) {
        self.moves += 1;
        self.counted.clear();
    }

    /// Bytes on the heap.
    pub(in crate::report) fn heap_bytes(&self) -> usize {
        self.counted.capacity() * size_of::<(u32, Delta)>()
    }
}
