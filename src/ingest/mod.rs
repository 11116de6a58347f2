//! From the socket to the temporary ring: the second stage of the data path.
//!
//! One thread a socket runs [`receive::run`]: it takes datagrams in batches, has `wire` decode each straight from the
//! receive buffer into the thread's open block of the ring, and books what it counted, once a batch. It waits for
//! nothing but the next datagram. All memory (receive buffers, decoder, blocks) is made before the first one.
//!
//! Before that `sources` says whose datagrams are looked at, if anyone wants to know.
//!
//! When the ring is full the oldest block gives way and its requests are counted as overwritten; when the socket's
//! buffer is full the kernel drops the newest datagrams and `kernel` finds out how many. Each datagram, good or bad,
//! ends in exactly one counter.

pub mod socket;

pub mod batch;

pub mod sources;

pub mod receive;

pub mod ring;

pub mod kernel;

pub use ring::{Block, Inlet, Outlet, RingPlan, TempRing};
