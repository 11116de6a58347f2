//! The running tick of a group: a slot with its sums and histogram, and a front, the two cache
//! lines that a record writes to.

use crate::report::histogram::{Histogram, Sample};
use crate::report::totals::NarrowTotals;

/// Samples in a front until it is settled.
pub(super) const SAMPLES: usize = 12;

/// The gain of a slot since it was last settled: all that a record writes to.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Front {
    pub(super) sums: NarrowTotals,
    /// The last request counted, so that several timers of one request count it once.
    pub(super) last_request: u64,
    pub(super) samples: [Sample; SAMPLES],
    /// Number of samples.
    pub(super) len: u16,
    /// Whether a record arrived since the second was cut.
    pub(super) is_touched: bool,
    /// Earlier samples: one more than the index of the latest block, 0 if there is none.
    pub(super) blocks: u32,
}

const _: () = assert!(size_of::<Front>() == 128);

impl Front {
    pub(super) fn samples(&self) -> &[Sample] {
        &self.samples[..self.len.into()]
    }
}

/// Samples of a front that was full, until the second is cut. They are written sequentially, and
/// read when the histogram they go to is cached: a tenth of the cost of finding it when they
/// arrive.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Block {
    pub(super) samples: [Sample; SAMPLES],
    /// The previous block of the same front, as [`Front::blocks`].
    pub(super) before: u32,
}

/// The gain of a group in the running tick, without its [`Front`] and without [what did not
/// fit](super::Groups::widen).
#[derive(Debug, Default)]
pub(in crate::report) struct Slot {
    pub(in crate::report) group: u32,
    pub(super) sums: NarrowTotals,
    pub(in crate::report) histogram: Histogram,
    /// Samples of the running second for which there was no room elsewhere, while somebody reads
    /// gains by second.
    pub(super) second: Histogram,
}

impl Slot {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.histogram.heap_bytes() + self.second.heap_bytes()
    }
}
