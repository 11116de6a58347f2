//! What one decoder has seen since it was last asked: plain numbers, no atomics.
//!
//! The receiver thread owns them with its decoder and moves them to the shared counters once a batch
//! ([`Decoder::take_counts`](super::Decoder::take_counts)). Every datagram ends in exactly one of
//! `datagrams_accepted` and `datagrams_invalid`, every request of an accepted one in the sink or in
//! `requests_invalid`; the sums hold after each call of `decode`, there is no moment at which they do not.

use super::error::{Mend, Refusal};

/// Counts of one decoder. All count up from the last [`take_counts`](super::Decoder::take_counts).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeCounts {
    /// Datagrams of which at least one request reached the sink.
    pub datagrams_accepted: u64,
    /// Datagrams of which nothing was taken, by `Refusal as usize`.
    pub datagrams_invalid: [u64; Refusal::COUNT],
    /// Requests of accepted datagrams: the outer ones and their nested ones, taken or not.
    pub requests_decoded: u64,
    /// Requests of accepted datagrams that were not taken, by `Refusal as usize`.
    pub requests_invalid: [u64; Refusal::COUNT],
    /// Elements left out of or changed in requests that were taken, by `Mend as usize`.
    pub mended: [u64; Mend::COUNT],
}

impl DecodeCounts {
    /// All zero.
    pub const ZERO: Self = Self {
        datagrams_accepted: 0,
        datagrams_invalid: [0; Refusal::COUNT],
        requests_decoded: 0,
        requests_invalid: [0; Refusal::COUNT],
        mended: [0; Mend::COUNT],
    };

    /// Datagrams looked at: accepted and invalid ones.
    #[must_use]
    pub fn datagrams_received(&self) -> u64 {
        self.datagrams_accepted
            .saturating_add(sum(&self.datagrams_invalid))
    }

    /// Requests that reached the sink.
    #[must_use]
    pub fn requests_pushed(&self) -> u64 {
        self.requests_decoded
            .saturating_sub(sum(&self.requests_invalid))
    }

    /// Datagrams refused for `reason`.
    #[must_use]
    pub fn datagrams_invalid_by(&self, reason: Refusal) -> u64 {
        self.datagrams_invalid
            .get(reason as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Requests of accepted datagrams refused for `reason`.
    #[must_use]
    pub fn requests_invalid_by(&self, reason: Refusal) -> u64 {
        self.requests_invalid
            .get(reason as usize)
            .copied()
            .unwrap_or(0)
    }

    /// Elements mended in the way of `mend`.
    #[must_use]
    pub fn mended_by(&self, mend: Mend) -> u64 {
        self.mended.get(mend as usize).copied().unwrap_or(0)
    }

    pub(super) fn refuse_datagram(&mut self, reason: Refusal) {
        bump(&mut self.datagrams_invalid, reason as usize);
    }

    pub(super) fn refuse_request(&mut self, reason: Refusal) {
        bump(&mut self.requests_invalid, reason as usize);
    }
}

impl Default for DecodeCounts {
    fn default() -> Self {
        Self::ZERO
    }
}

/// Adds one to the counter at `at`. The enums' numbers are all inside their arrays, so nothing is ever missed.
#[inline]
pub(super) fn bump(counters: &mut [u64], at: usize) {
    if let Some(counter) = counters.get_mut(at) {
        *counter = counter.saturating_add(1);
    }
}

fn sum(counters: &[u64]) -> u64 {
    counters.iter().fold(0, |all, one| all.saturating_add(*one))
}
