//! UDP: from sockets to the temporary ring.
//!
//! One thread per socket runs [`receive::run`]: it receives datagrams in batches, decodes them
//! straight from the receive buffer into the thread's open block of the ring, and adds its counts
//! to the shared counters once per batch. It waits only for the next datagram. All memory (receive
//! buffers, decoder, blocks) is allocated before the first one.
//!
//! If configured, `senders` decides first whose datagrams are decoded.
//!
//! When the ring is full the oldest block is overwritten and its requests are counted; when the
//! socket's buffer is full the kernel drops the newest datagrams and `kernel` finds out how many.
//! Each datagram, good or bad, ends in exactly one counter.

pub mod socket;

pub mod batch;

pub mod senders;

pub mod receive;

pub mod kernel;
