//! Where requests come from: bytes from outside become records in the ring.
//!
//! `udp` has the sockets and the threads that read them; each thread has a [`Decode`] of its own, for the format that its
//! socket receives. `pinba` decodes what PHP's Pinba extension sends, `squid` the lines that Squid logs, which also come over
//! connections and from files; `otlp` takes spans, which the HTTP side hands to it. What formats share is in `record` (records, how they are written and what is counted
//! meanwhile) and `rewrite` (name rules). Another format is one more folder here with a [`Decode`], and a line in `daemon`
//! that starts receivers with it. `stat` reads samples, which are no requests and go a way of their own.

// Untrusted bytes: every access is checked, every sum says what it does past the end. Tests may be plain.
#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod otlp;

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod pinba;

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod record;

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod rewrite;

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod squid;

#[cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]
pub mod stat;

pub mod udp;

use std::net::SocketAddr;

use self::record::{DecodeCounts, RecordSink, RejectReason};

/// Turns datagrams of one format into records. Each receiver thread has one of its own.
pub trait Decode {
    /// Whether [`sender`](Self::sender) is called before each datagram.
    const WANTS_SENDER: bool = false;

    /// The next datagram is from there.
    fn sender(&mut self, _sender: SocketAddr) {}

    /// Decodes one datagram, received in second `received_secs` (since 1970), and gives how many records went to `sink`.
    ///
    /// # Errors
    /// Why it was rejected, which is counted; nothing went to `sink`.
    fn decode(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason>;

    /// Counts a datagram that is rejected unread.
    fn reject(&mut self, reason: RejectReason);

    /// What was counted since the last time, and starts again at zero. Called once a batch.
    fn take_counts(&mut self) -> DecodeCounts;
}
