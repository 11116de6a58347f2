//! Squid's log over TCP: a connection for each log, opened again when it breaks.
//!
//! One thread takes connections and what comes over them in turn, a chunk of each, and naps when nothing comes. Each has at most
//! [`LINE_BYTES_MAX`](crate::limits::LINE_BYTES_MAX) of an unfinished line, and there are at most [`CONNECTIONS_MAX`]: when
//! there are more, one that has not brought a line yet gives way, or the new one is turned away. A line that a connection
//! breaks off in is not taken: Squid sends it again, or its number is missing.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::{CHUNK_BYTES, Intake, Lines};
use crate::input::rewrite::Rewrite;
use crate::input::udp::senders::Senders;
use crate::shutdown::Shutdown;
use crate::telemetry::log::Limit;

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 64;

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
                true => accept(stream, sender, &mut connections, &intake),
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
    intake: &Intake<R>,
) {
    let counters = &intake.decoder.source.counters;
    if connections.len() >= CONNECTIONS_MAX {
        // Those that came first stand first.
        match connections.iter().position(|it| !it.proven) {
            Some(at) => drop(connections.remove(at)),
            None => {
                counters.connections_refused.add(1);
                return;
            }
        }
    }
    if stream.set_nonblocking(true).is_err() {
        return;
    }
    counters.connections.add(1);
    info!(%sender, "A log of Squid's is connected.");
    connections.push(Connection {
        stream,
        sender,
        lines: Lines::default(),
        proven: false,
    });
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
