//! Squid's log over TCP: a connection for each log, opened again when it breaks.
//!
//! One thread takes connections and what comes over them in turn, a chunk of each, and naps when nothing comes. Each has at most
//! [`LINE_BYTES_MAX`](crate::limits::LINE_BYTES_MAX) of an unfinished line, and there are at most [`CONNECTIONS_MAX`]. When all
//! are taken, a new one closes another that is of less use (`gives_way`), or is refused: whoever is allowed to send may hold all
//! of them, and neither silence nor a full table may keep a Squid out for ever. A peer that vanished is found by keepalive. A line
//! that a connection breaks off in is not taken: Squid sends it again, or its number is missing.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tracing::{debug, info, warn};

use super::{CHUNK_BYTES, Intake, Lines};
use crate::input::rewrite::Rewrite;
use crate::input::udp::senders::Senders;
use crate::shutdown::Shutdown;
use crate::telemetry::log::Limit;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;

/// Silence after which a connection gives way when all are taken, milliseconds. A Squid whose connection was closed opens another.
const SILENT_MS: u64 = 60_000;

/// Silence after which the peer is asked whether it is still there, and time from one question to the next.
const KEEPALIVE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(10)];

/// How long nothing is looked at when nothing came.
const NAP: Duration = Duration::from_millis(10);

/// How long what was sent before a stop is still read.
const DRAIN_MAX: Duration = Duration::from_millis(500);

/// One line about such errors in this time.
const ERROR_LOG_MS: u64 = 10_000;

struct Connection {
    stream: TcpStream,
    sender: SocketAddr,
    lines: Lines,
    /// Whether it brought a line that could be used.
    proven: bool,
    /// When something last came, monotonic milliseconds.
    heard_ms: u64,
}

/// Takes lines over connections to `listener`, which does not block, of those that `senders` allows, until `shutdown` is requested.
pub fn run<R: Rewrite>(
    listener: &TcpListener,
    senders: Option<&Senders>,
    mut intake: Intake<R>,
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
            && let Some(repeated) = errors.pass(intake.clock.mono_ms())
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

fn accept<R: Rewrite>(
    stream: TcpStream,
    sender: SocketAddr,
    connections: &mut Vec<Connection>,
    intake: &mut Intake<R>,
) {
    let now_ms = intake.clock.mono_ms();
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
    info!(%sender, "A log of Squid's is connected.");
    connections.push(Connection {
        stream,
        sender,
        lines: Lines::default(),
        proven: false,
        heard_ms: now_ms,
    });
}

/// The connection that a new one from `sender` may take the place of: one that has brought no line, one that has been silent
/// for [`SILENT_MS`], or one of an address that has at least two more than the sender's. Of several one without a line, and the
/// one that has been silent for longest.
fn gives_way(connections: &[Connection], sender: SocketAddr, now_ms: u64) -> Option<usize> {
    let of = |ip: IpAddr| {
        let same = connections.iter().filter(|it| it.sender.ip() == ip);
        same.count()
    };
    let senders = of(sender.ip());
    let silent_ms = |it: &Connection| now_ms.saturating_sub(it.heard_ms);
    let may_go = |it: &Connection| {
        !it.proven || silent_ms(it) >= SILENT_MS || of(it.sender.ip()) > senders.saturating_add(1)
    };
    let candidates = connections.iter().enumerate();
    let candidates = candidates.filter(|(_, it)| may_go(it)).rev();
    let found = candidates.max_by_key(|(_, it)| (!it.proven, silent_ms(it)));
    found.map(|(at, _)| at)
}

/// Reads a chunk of each connection; true if there was something.
fn read_all<R: Rewrite>(
    connections: &mut Vec<Connection>,
    chunk: &mut [u8],
    intake: &mut Intake<R>,
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
        connection.heard_ms = intake.clock.mono_ms();
        intake.decoder.set_sender(connection.sender);
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
