//! The receiver: batch -> decode -> push, as long as the daemon runs.
//!
//! `daemon.rs` starts one thread per socket with [`run`], and passes all it needs: socket, decoder,
//! its end of the ring, counters, clock and stop flag. After its start the thread allocates nothing
//! but for tags that packets repeat. It waits for the next datagram when they arrive slowly and for
//! ten milliseconds' worth of them when they arrive fast, and logs nothing that a sender can cause.
//! Counts are kept in plain numbers and booked once per batch; the clock is read once per batch, so
//! all datagrams of a batch have the same second.
//!
//! The stop flag is checked after every batch, and at least ten times a second. Data still in the
//! socket's buffer is then received for at most half a second, unless the socket lives on with the
//! supervisor that passed it.
//! The thread owns the socket, which closes when it ends: from then on senders learn that nobody
//! listens.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tracing::warn;

use super::batch::{BATCH_DATAGRAMS_MAX, Batch};
use super::kernel::KernelGauge;
use super::senders::Senders;
use super::socket::ReceiveSocket;
use crate::clock::Clock;
use crate::input::Decode;
use crate::input::record::RejectReason;
use crate::instruments::Instrument;
use crate::ring::Producer;
use crate::shutdown::Shutdown;
use crate::telemetry::SocketCounters;
use crate::telemetry::log::Limit;

/// Waiting for datagrams.
pub static RECEIVE: Instrument = Instrument::wait("wait/io/socket/udp/receive", "recv");
/// Turns datagrams into records in the ring.
pub static DECODE_BATCH: Instrument = Instrument::new("stage/receive/decode batch");

/// Interval at which the kernel's drops are read.
const KERNEL_GAUGE_MS: u64 = 1000;

/// At most one log line per this time if they cannot be read: that will not get better.
const GAUGE_LOG_MS: u64 = 3_600_000;

/// Pause after an error of the kernel, so that a persistent one (no memory) does not take a whole
/// processor.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// How long a socket's buffer is drained after a stop: a buffer of 64 MB is empty long before,
/// unless packets keep arriving as fast as they are taken.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// At most one log line per this time about such errors.
const ERROR_LOG_MS: u64 = 10_000;

/// Receives from `socket` until `shutdown` is requested. Decodes datagrams that `senders` admits;
/// records go to `producer`, all counts to `counters`, which must be those that the ring has for
/// this producer.
pub fn run<D: Decode>(
    socket: &ReceiveSocket,
    senders: Option<Arc<Senders>>,
    decoder: D,
    producer: Producer,
    counters: &Arc<SocketCounters>,
    clock: &dyn Clock,
    shutdown: &Shutdown,
) {
    let (asked, granted) = (socket.buffer.asked_bytes, socket.buffer.granted_bytes);
    counters.recv_buffer_asked_bytes.set(asked as u64);
    counters.recv_buffer_granted_bytes.set(granted as u64);
    let gauge = KernelGauge::new(&socket.socket, Arc::clone(counters));
    let (mut gauge_due_ms, gauge_errors) = (0, Limit::new(GAUGE_LOG_MS));
    let refresh = |now_ms| {
        if let Err(error) = gauge.refresh()
            && let Some(repeated) = gauge_errors.pass(now_ms)
        {
            warn!(%error, repeated, "Cannot see what the kernel drops; `kernel_drops` stays as it is.");
        }
    };
    let errors = Limit::new(ERROR_LOG_MS);
    let mut batch = Batch::new(senders.is_some() || D::WANTS_SENDER);
    let mut handler = BatchHandler {
        senders,
        verdicts: Vec::with_capacity(BATCH_DATAGRAMS_MAX),
        decoder,
        producer,
        counters,
        clock,
    };
    let mut pauses = Pauses::new(granted);
    while !shutdown.requested() {
        let waiting = RECEIVE.begin();
        let received = batch.receive(socket.socket.as_fd());
        drop(waiting);
        match received {
            Ok(0) => {}
            Ok(received) => {
                handler.handle(&batch, received);
                pauses.after(received);
            }
            Err(error) => {
                counters.receive_errors.add(1);
                if let Some(repeated) = errors.pass(clock.mono_ms()) {
                    warn!(%error, repeated, address = %socket.address, "Could not receive.");
                }
                thread::sleep(ERROR_PAUSE);
            }
        }
        let now_ms = clock.mono_ms();
        if now_ms >= gauge_due_ms {
            gauge_due_ms = now_ms.saturating_add(KERNEL_GAUGE_MS);
            refresh(now_ms);
        }
    }
    if !socket.handed_over && socket.socket.set_nonblocking(true).is_ok() {
        let start = Instant::now();
        while let Ok(received @ 1..) = batch.receive(socket.socket.as_fd()) {
            handler.handle(&batch, received);
            if start.elapsed() > DRAIN_MAX {
                break;
            }
        }
    }
    refresh(clock.mono_ms());
    let left_bytes = counters.kernel_queue_bytes.get();
    if !socket.handed_over && left_bytes > 0 {
        warn!(
            left_bytes,
            address = %socket.address,
            "Closing a socket that still has packets in its buffer: they are lost."
        );
    }
}

/// Longest pause of a receiver that has drained its socket: the default gathering period. A pause
/// and the wake after it take some 35 us of processor time, half a microsecond for each packet at
/// 25,000/s and 2 ms. Longer ones than 10 ms gain little.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// The fastest that a buffer is assumed to fill, in bytes per microsecond: half a million packets a
/// second, a kilobyte each with the kernel's overhead.
const FILLS_BYTES_PER_US: usize = 512;

/// Pauses while packets arrive fast: waking for each of them costs receiver and sender more than
/// the packet itself.
///
/// Packets meanwhile wait in the socket's buffer; a pause lasts as long as a quarter of it takes to
/// fill, at most [`PAUSE_MAX`]. Packets farther apart than that are each received at once.
#[derive(Debug)]
struct Pauses {
    length: Duration,
    last: Option<Instant>,
}

impl Pauses {
    fn new(buffer_bytes: usize) -> Self {
        let lasts = buffer_bytes / 4 / FILLS_BYTES_PER_US;
        Self { length: Duration::from_micros(lasts as u64).min(PAUSE_MAX), last: None }
    }

    /// Call this after a batch of `received` datagrams.
    fn after(&mut self, received: usize) {
        if self.due(received, Instant::now()) {
            thread::sleep(self.length);
        }
    }

    /// Whether packets arrive fast, given a batch of `received` datagrams at `now`.
    fn due(&mut self, received: usize, now: Instant) -> bool {
        if received == BATCH_DATAGRAMS_MAX {
            return false;
        }
        let soon = |last: Instant| now - last < self.length / 4;
        let came_fast = received > 1 || self.last.is_some_and(soon);
        self.last = Some(now);
        came_fast
    }
}

/// Decodes batches into the ring.
struct BatchHandler<'a, D> {
    senders: Option<Arc<Senders>>,
    /// Verdicts of `senders` on each datagram of a batch; empty without them.
    verdicts: Vec<Result<(), RejectReason>>,
    decoder: D,
    producer: Producer,
    counters: &'a SocketCounters,
    clock: &'a dyn Clock,
}

impl<D: Decode> BatchHandler<'_, D> {
    /// Decodes and counts the datagrams of a batch.
    fn handle(&mut self, batch: &Batch, received: usize) {
        let mut stage = DECODE_BATCH.begin();
        stage.worked(received as u64);
        let received_secs = self.clock.unix_secs();
        let mut bytes = 0;
        if let Some(senders) = &self.senders {
            let lengths = batch.datagrams().map(<[u8]>::len);
            let sent = batch.senders().zip(lengths);
            senders.pass(sent, self.clock.mono_ms(), &mut self.verdicts);
        }
        for (datagram, at) in batch.datagrams().zip(0..) {
            bytes += datagram.len() as u64;
            if let Some(Err(reason)) = self.verdicts.get(at) {
                self.decoder.reject(*reason);
                continue;
            }
            if D::WANTS_SENDER {
                self.decoder.sender(batch.sender(at));
            }
            // The reason for rejection is in the decoder's counts.
            let _: Result<u32, _> =
                self.decoder.decode(datagram, received_secs, &mut self.producer);
        }
        self.counters.batches_received.add(1);
        self.counters.datagrams_received.add(received as u64);
        self.counters.received_bytes.add(bytes);
        self.counters.add_decoded(&self.decoder.take_counts());
        // Last: records that can be popped have been counted.
        self.producer.publish();
    }
}

#[cfg(test)]
#[path = "receive/tests.rs"]
mod tests;
