//! The running tick of a group: a slot with its sums and histogram, and a front, the two cache
//! lines that a record writes to.

use crate::report::counts::{Histogram, Sample};
use crate::report::totals::Totals;

/// Samples in a front until it is settled.
pub(super) const SAMPLES: usize = 14;

/// The gain of a slot since it was last settled: all that a record writes to.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Front {
    pub(super) sums: Sums,
    /// The last request counted, so that several timers of one request count it once.
    pub(super) last_request: u64,
    pub(super) samples: [Sample; SAMPLES],
    /// Number of samples.
    pub(super) len: u16,
    /// Whether a record arrived since the second was cut.
    pub(super) is_touched: bool,
    /// Whether the sums of the slot are nearly full: it has to be [taken
    /// over](super::Groups::take_over) first.
    pub(super) is_locked: bool,
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

/// The gain of a group in the running tick, without its [`Front`].
#[derive(Debug, Default)]
pub(in crate::report) struct Slot {
    pub(in crate::report) group: u32,
    pub(super) sums: Sums,
    /// Requests or hits without CPU times and memory, in the tick and in the running second; no more
    /// than there are, so they have room as long as the sums have.
    pub(super) unmeasured: u64,
    pub(super) unmeasured_second: u64,
    pub(in crate::report) histogram: Histogram,
    /// Samples of the running second for which there was no room elsewhere, while somebody reads
    /// gains by second.
    pub(super) second: Histogram,
}

impl Slot {
    pub(in crate::report) fn totals(&self) -> Totals {
        Totals {
            unmeasured: self.unmeasured.into(),
            ..self.sums.totals()
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.histogram.heap_bytes() + self.second.heap_bytes()
    }
}

/// Sums half as wide as [`Totals`]: a slot whose sums could overflow is taken over early (see
/// [`Groups::count`](super::Groups::count)), and a hundred bytes less save two cache lines per
/// packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) requests: u32,
    pub(super) errors: u32,
    pub(super) time: u64,
    pub(super) ru_utime: u64,
    pub(super) ru_stime: u64,
    pub(super) traffic: u64,
    pub(super) memory: u64,
    pub(super) hits: u64,
}

impl Sums {
    pub(super) fn totals(&self) -> Totals {
        Totals {
            time: self.time.into(),
            ru_utime: self.ru_utime.into(),
            ru_stime: self.ru_stime.into(),
            traffic: self.traffic.into(),
            memory: self.memory.into(),
            hits: self.hits.into(),
            requests: self.requests.into(),
            errors: self.errors.into(),
            unmeasured: 0,
        }
    }

    /// Whether any record can be added, and the sum of two such sums represented: no record adds as
    /// much as an eighth of a sum's range.
    pub(super) fn has_room(&self) -> bool {
        const FULL: u64 = 1 << 61;
        self.widest() < FULL && self.requests < u32::MAX / 2
    }

    /// A bound of the largest of them, within a factor of two.
    pub(super) fn widest(&self) -> u64 {
        let times = self.time | self.ru_utime | self.ru_stime;
        times | self.traffic | self.memory | self.hits | u64::from(self.requests)
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.time += other.time;
        self.ru_utime += other.ru_utime;
        self.ru_stime += other.ru_stime;
        self.traffic += other.traffic;
        self.memory += other.memory;
        self.hits += other.hits;
    }
}
