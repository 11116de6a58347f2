//! Inputs: turn bytes from outside into records in the ring.
//!
//! `udp` has the sockets and the threads that read them; each thread has its own [`Decode`] for the
//! format of its socket. `pinba` decodes the packets of PHP's Pinba extension; `squid` decodes
//! Squid's log lines, which also arrive over connections and from files; `otlp` takes spans from
//! the HTTP side. Shared parts are in `cursor` (reads protobuf), `url` (splits one), `record`
//! (records, their writer and counts) and `rewrite` (name rules). Another format is one more folder
//! here with a [`Decode`], and a line in `daemon` that starts receivers with it. `stat` reads
//! samples, which are not requests and take a path of their own.

// Untrusted bytes: every access is checked, every sum states its behaviour on overflow. Tests may
// be plain.
#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
mod cursor;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod otlp;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod pinba;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod record;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod rewrite;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod squid;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
pub mod stat;

#[cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]
mod url;

pub mod udp;

use std::net::SocketAddr;
use std::sync::Arc;

use self::record::{DecodeCounts, RecordSink, RejectReason};
use crate::clock::Clock;
use crate::ring::Producer;
use crate::telemetry::SocketCounters;

/// The way of one source's records to the ring.
#[derive(Debug)]
pub struct Lane {
    /// Writes records to the ring.
    pub producer: Producer,
    /// Counters of this producer.
    pub counters: Arc<SocketCounters>,
    /// For the time of reception, and by which spans wait.
    pub clock: Arc<dyn Clock>,
}

/// Turns datagrams of one format into records. Each receiver thread has one of its own.
pub trait Decode {
    /// Whether [`sender`](Self::sender) is called before each datagram.
    const WANTS_SENDER: bool = false;

    /// Sets the sender of the next datagram.
    fn sender(&mut self, _sender: SocketAddr) {}

    /// Decodes one datagram, received in second `received_secs` (since 1970), and returns the
    /// number of records written to `sink`.
    ///
    /// # Errors
    /// The reason for rejection, which is counted; nothing was written to `sink`.
    fn decode(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason>;

    /// Counts a datagram that is rejected unread.
    fn reject(&mut self, reason: RejectReason);

    /// Returns the counts since the last call, and resets them. Called once per batch.
    fn take_counts(&mut self) -> DecodeCounts;
}
