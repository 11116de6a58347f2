//! What one decoder has counted since it was last asked: plain numbers, no atomics.
//!
//! The receiver thread owns them with its decoder and moves them to the shared counters once a batch. Every datagram
//! ends in exactly one of `datagrams_accepted` and `datagrams_invalid`, every request of an accepted one in the sink or in
//! `requests_invalid`; the sums hold after each call of `decode`, there is no moment at which they do not.

use super::reject::{RejectReason, Repair};

/// Counts of one decoder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Datagrams of which at least one request reached the sink.
    pub datagrams_accepted: u64,
    /// Datagrams of which nothing was taken, by `RejectReason as usize`.
    pub datagrams_invalid: [u64; RejectReason::COUNT],
    /// Requests of accepted datagrams: the outer ones and their nested ones, taken or not.
    pub requests_decoded: u64,
    /// Requests of accepted datagrams that were not taken, by `RejectReason as usize`.
    pub requests_invalid: [u64; RejectReason::COUNT],
    /// Elements left out of or changed in requests that were taken, by `Repair as usize`.
    pub repaired: [u64; Repair::COUNT],
}

impl DecodeCounts {
    pub(in crate::input) fn reject_datagram(&mut self, reason: RejectReason) {
        bump(&mut self.datagrams_invalid, reason as usize);
    }

    pub(in crate::input) fn reject_request(&mut self, reason: RejectReason) {
        bump(&mut self.requests_invalid, reason as usize);
    }
}

/// Adds one to the counter at `at`. The enums' numbers are all inside their arrays, so nothing is ever missed.
#[inline]
pub(super) fn bump(counters: &mut [u64], at: usize) {
    if let Some(counter) = counters.get_mut(at) {
        *counter = counter.saturating_add(1);
    }
}
