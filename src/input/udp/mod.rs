//! UDP: from sockets to the temporary ring.
//!
//! One thread a socket runs [`receive::run`]: it takes datagrams in batches, has them decoded straight from the receive
//! buffer into the thread's open block of the ring, and adds what it counted to the shared counters once a batch. It waits
//! for nothing but the next datagram. All memory (receive buffers, decoder, blocks) is made before the first one.
//!
//! Before that `senders` says whose datagrams are decoded, if that is configured.
//!
//! When the ring is full the oldest block gives way and its requests are counted as overwritten; when the socket's
//! buffer is full the kernel drops the newest datagrams and `kernel` finds out how many. Each datagram, good or bad,
//! ends in exactly one counter.

pub mod socket;

pub mod batch;

pub mod senders;

pub mod receive;

pub mod kernel;
