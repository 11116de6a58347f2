//! Squid's log over TCP: one connection per log, reopened when it breaks.
//!
//! One thread accepts connections and reads from them in turn, a chunk each, and naps when there is
//! nothing. Each has at most [`LINE_BYTES_MAX`](crate::limits::LINE_BYTES_MAX) of an incomplete
//! line, and there are at most [`CONNECTIONS_MAX`]. When all are taken, a new one replaces a less
//! useful one (`gives_way`), or is refused: an allowed sender may hold all of them, and neither
//! silence nor a full table may keep a Squid out forever. A vanished peer is detected by keepalive.
//! A line in which a connection breaks off is discarded: Squid sends it again, or its number is
//! missing.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tracing::{debug, warn};

use super::{CHUNK_BYTES, Intake, Lines};
use crate::input::Decode as _;
use crate::input::udp::senders::Senders;
use crate::shutdown::Shutdown;
use crate::telemetry::log::Limit;

/// Most connections.
pub const CONNECTIONS_MAX: usize = 64;

/// Silence after which a connection may be replaced when all are taken, in milliseconds. A Squid
/// whose connection was closed opens another.
const SILENT_MS: u64 = 60_000;

/// Idle time before keepalive probes, and time between them.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(10)];

/// Nap when nothing arrived.
const NAP: Duration = Duration::from_millis(10);

/// How long to read data sent before a stop.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// At most one log line per this time about such errors.
const ERROR_LOG_MS: u64 = 10_000;

struct Connection {
    stream: TcpStream,
    sender: SocketAddr,
    lines: Lines,
    /// Whether it has sent a usable line.
    proven: bool,
    /// When it last sent something, in monotonic milliseconds.
    heard_ms: u64,
}

/// Reads lines from connections to `listener`, which is non-blocking, if `senders` allows them,
/// until `shutdown` is requested.
pub fn run(
    listener: &TcpListener,
    senders: Option<&Senders>,
    mut intake: Intake,
    shutdown: &Shutdown,
) {
    let mut connections: Vec<Connection> = Vec::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    let errors = Limit::new(ERROR_LOG_MS);
    while !shutdown.requested() {
        let accepted = listener.accept().map(|(stream, sender)| {
            match senders.is_none_or(|senders| senders.allows(sender.ip())) {
                true => accept(stream, sender, &mut connections, &mut intake),
                false => intake.decoder.source.counters.connections_refused.add(1),
            }
        });
        if let Err(error) = &accepted
            && !is_nothing(error.kind())
            && let Some(repeated) = errors.pass(intake.lane.clock.mono_ms())
        {
            warn!(%error, repeated, "Could not take a connection of Squid's.");
        }
        let read = read_all(&mut connections, &mut chunk, &mut intake, shutdown);
        if accepted.is_err() && !read {
            thread::sleep(NAP);
        }
    }
    let since = Instant::now();
    while read_all(&mut connections, &mut chunk, &mut intake, shutdown)
        && since.elapsed() < DRAIN_MAX
    {}
}

fn accept(
    stream: TcpStream,
    sender: SocketAddr,
    connections: &mut Vec<Connection>,
    intake: &mut Intake,
) {
    // A listener at `[::]` also has those of IPv4.
    let sender = SocketAddr::new(sender.ip().to_canonical(), sender.port());
    let now_ms = intake.lane.clock.mono_ms();
    let counters = &intake.decoder.source.counters;
    if connections.len() >= CONNECTIONS_MAX {
        let Some(at) = gives_way(connections, sender, now_ms) else {
            counters.connections_refused.add(1);
            return;
        };
        counters.connections_closed.add(1);
        let closed = connections.remove(at).sender;
        intake.decoder.close(closed);
    }
    let [time, interval] = KEEPALIVE;
    let keepalive = TcpKeepalive::new().with_time(time).with_interval(interval);
    if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
        debug!(%error, "No keepalive for a connection of Squid's.");
    }
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    intake.decoder.source.counters.connections.add(1);
    debug!(%sender, "A log of Squid's is connected.");
    connections.push(Connection {
        stream,
        sender,
        lines: Lines::default(),
        proven: false,
        heard_ms: now_ms,
    });
}

/// The connection that a new one from `sender` may replace: one that has sent no line, one silent
/// for [`SILENT_MS`], or one of an address that has at least two more than the sender's. Prefers
/// one without a line, then the longest silent.
fn gives_way(connections: &[Connection], sender: SocketAddr, now_ms: u64) -> Option<usize> {
    let of = |ip: IpAddr| connections.iter().filter(|it| it.sender.ip() == ip).count();
    let senders = of(sender.ip());
    let silent_ms = |it: &Connection| now_ms.saturating_sub(it.heard_ms);
    let may_go = |it: &Connection| {
        !it.proven || silent_ms(it) >= SILENT_MS || of(it.sender.ip()) > senders.saturating_add(1)
    };
    let candidates = connections.iter().enumerate().filter(|(_, it)| may_go(it)).rev();
    candidates.max_by_key(|(_, it)| (!it.proven, silent_ms(it))).map(|(at, _)| at)
}

/// Reads a chunk from each connection; returns whether there was anything.
fn read_all(
    connections: &mut Vec<Connection>,
    chunk: &mut [u8],
    intake: &mut Intake,
    shutdown: &Shutdown,
) -> bool {
    let mut any = false;
    connections.retain_mut(|connection| {
        let bytes = match connection.stream.read(chunk) {
            Ok(bytes @ 1..) => bytes,
            Err(error) if is_nothing(error.kind()) => return true,
            Ok(0) | Err(_) => {
                intake.decoder.close(connection.sender);
                return false;
            }
        };
        any = true;
        connection.heard_ms = intake.lane.clock.mono_ms();
        intake.decoder.sender(connection.sender);
        let read = chunk.get(..bytes).unwrap_or_default();
        connection.proven |= intake.feed(&mut connection.lines, read) > 0;
        true
    });
    if any {
        intake.publish(None, shutdown);
    }
    any
}

fn is_nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{UDP, decoder, source};
    use super::*;
    use crate::clock::ManualClock;
    use crate::input::Lane;
    use crate::ring::{RingPlan, TempRing};
    use crate::telemetry::counters::SocketCounters;

    /// A listener at `[::]` is given addresses of IPv4 as those of IPv6; datagrams have them plain.
    #[test]
    fn a_sender_has_one_address() {
        let counters: Vec<Arc<SocketCounters>> = vec![Arc::default()];
        let plan = RingPlan::new(16, 1 << 20, 1);
        let (_ring, mut producers, _consumer) = TempRing::new(plan, &counters);
        let mut intake = Intake {
            decoder: decoder(&source(UDP)),
            lane: Lane {
                producer: producers.remove(0),
                counters: Arc::clone(&counters[0]),
                clock: Arc::new(ManualClock::new(1_700_000_000_000)),
            },
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connections = Vec::new();
        let mapped = "[::ffff:192.0.2.7]:5".parse().unwrap();
        accept(stream, mapped, &mut connections, &mut intake);
        assert_eq!(connections[0].sender, SocketAddr::from(([192, 0, 2, 7], 5)));
    }
}
