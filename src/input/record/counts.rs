//! Counts of one decoder since the last read: plain numbers, no atomics.
//!
//! The receiver thread owns them with its decoder and adds them to the shared counters once per
//! batch. Every datagram ends in exactly one of `datagrams_accepted` and `datagrams_invalid`, every
//! request of an accepted one in the sink or in `requests_invalid`; the sums hold after each call
//! of `decode`.

use super::reject::{RejectReason, Repair};

/// Counts of one decoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Datagrams with at least one request that reached the sink.
    pub datagrams_accepted: u64,
    /// Datagrams of which nothing was accepted, by `RejectReason as usize`.
    pub datagrams_invalid: [u64; RejectReason::COUNT],
    /// Requests of accepted datagrams: outer and nested ones, accepted or not.
    pub requests_decoded: u64,
    /// Requests of accepted datagrams that were refused, by `RejectReason as usize`.
    pub requests_invalid: [u64; RejectReason::COUNT],
    /// Elements left out of or changed in accepted requests, by `Repair as usize`.
    pub repaired: [u64; Repair::COUNT],
}

impl DecodeCounts {
    pub(in crate::input) fn reject_datagram(&mut self, reason: RejectReason) {
        bump(&mut self.datagrams_invalid, reason as usize);
    }

    pub(in crate::input) fn reject_request(&mut self, reason: RejectReason) {
        bump(&mut self.requests_invalid, reason as usize);
    }

    /// Adds the repairs in a record.
    #[inline(always)]
    pub(in crate::input) fn add_repaired(&mut self, repaired: &[u64; Repair::COUNT]) {
        for (counter, repaired) in self.repaired.iter_mut().zip(repaired) {
            *counter = counter.wrapping_add(*repaired);
        }
    }
}

/// Adds one to the counter at `at`. The enums' numbers are all within their arrays, so nothing is
/// ever lost.
#[inline]
pub(in crate::input) fn bump(counters: &mut [u64], at: usize) {
    if let Some(counter) = counters.get_mut(at) {
        *counter = counter.saturating_add(1);
    }
}
