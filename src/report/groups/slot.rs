//! The running tick of a group: a slot with its sums and histogram, and a front, the two cache
//! lines that a record writes to.

use std::hint::black_box;
use std::iter;

use crate::report::histogram::{Histogram, Sample};
use crate::report::totals::NarrowTotals;

/// Samples in a front until it is settled.
pub(super) const SAMPLES: usize = 12;

/// Fewest blocks allocated at once.
const BLOCKS_AT_ONCE: usize = 256;

/// Blocks touched before they are read.
const TOUCHED_AT_ONCE: usize = 16;

/// Bytes of a block.
const BLOCK_BYTES: usize = size_of::<([Sample; SAMPLES], u32)>();

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

/// Samples of fronts that were full, a block each, until the second is cut. They are written
/// sequentially, and read when the histogram they go to is cached: a tenth of the cost of finding
/// it when they arrive.
///
/// The blocks of a front are chained backwards. The chain lies apart from the samples: it is small
/// enough for the cache, and where the next block is does not have to be read from the one before.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    samples: Vec<[Sample; SAMPLES]>,
    /// By block, the previous one of the same front, as [`Front::blocks`].
    before: Vec<u32>,
    /// Most blocks.
    max: usize,
}

impl Blocks {
    /// Sets the bytes that they may take.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.max = bytes / BLOCK_BYTES;
    }

    /// Moves the samples of a full front to a block of its own; returns false if there is no room.
    pub(super) fn take(&mut self, front: &mut Front) -> bool {
        let len = self.samples.len();
        if len >= self.max {
            return false;
        }
        if len == self.samples.capacity() {
            // They are copied each time: grows by an eighth, but not beyond the limit.
            let more = BLOCKS_AT_ONCE.max(len / 8).min(self.max - len);
            self.samples.reserve_exact(more);
            self.before.reserve_exact(more);
        }
        self.samples.push(front.samples);
        self.before.push(front.blocks);
        front.blocks = len as u32 + 1;
        front.len = 0;
        true
    }

    /// The blocks of a front, the latest first. Some are touched before the first of them is read:
    /// they lie anywhere, and the waits for them overlap.
    pub(super) fn of(&self, front: &Front) -> impl Iterator<Item = &[Sample; SAMPLES]> {
        let place = |block: u32| (block as usize).checked_sub(1);
        let mut places = iter::successors(place(front.blocks), move |&it| place(self.before[it]));
        let batches = iter::from_fn(move || {
            let mut batch = [None; TOUCHED_AT_ONCE];
            let mut touched = 0;
            for (block, place) in batch.iter_mut().zip(&mut places) {
                let samples = &self.samples[place];
                // Half of them lie in two cache lines.
                touched ^= samples[0].pair().0 ^ samples[SAMPLES - 1].pair().0;
                *block = Some(samples);
            }
            black_box(touched);
            batch[0].is_some().then_some(batch)
        });
        batches.flatten().flatten()
    }

    /// Removes all of them, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.samples.clear();
        self.before.clear();
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        self.samples.shrink_to_fit();
        self.before.shrink_to_fit();
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.samples.capacity() * BLOCK_BYTES
    }
}

/// The gain of a group in the running tick, without its [`Front`] and without [what did not
/// fit](super::running_tick::RunningTick::wide).
#[derive(Debug, Default)]
pub(in crate::report) struct Slot {
    pub(in crate::report) group: u32,
    pub(super) sums: NarrowTotals,
    pub(in crate::report) histogram: Histogram,
    /// Samples of the running second for which there was no room elsewhere.
    pub(super) second: Histogram,
}

impl Slot {
    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.histogram.heap_bytes() + self.second.heap_bytes()
    }
}
