//! The connection to a `stat` extension's stream: reconnected when it breaks, and read however fast
//! samples arrive.
//!
//! PHP writes to its socket synchronously and blocks if nobody reads, so this thread does nothing
//! else. It reads what is available, puts it into the [`Queue`](super::Queue) and naps for two
//! milliseconds, so that it does not wake for each sample; after a large read, more than a socket
//! buffer should hold meanwhile, it does not nap. A stop closes the connection at once, because
//! PHP's shutdown waits for clients that stay connected without reading. A file can wait: a
//! [`DUMP`] is read no faster than its lines are processed.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use tracing::{info, warn};

use super::{Chunk, Source};
use crate::clock::Clock;
use crate::config::StatAddress;
use crate::instruments::Instrument;
use crate::shutdown::Shutdown;
use crate::telemetry::log::Limit;

/// Waiting for samples.
pub(crate) static READ: Instrument = Instrument::wait("wait/io/socket/stat/receive", "recv");

/// The first line of a dump's stream, which `pinbad import-stat` sends.
pub const DUMP: &[u8] = b"#dump\n";

/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// How long data may accumulate. A Unix socket holds some 200 samples that were written one by one.
const NAP: Duration = Duration::from_millis(2);

/// If a read returned more than this, there is no nap: a third of what the socket holds.
const BUSY_BYTES: usize = 24 << 10;

/// Longest wait for data, and longest delay until a stop is noticed.
const LOOK: Duration = Duration::from_millis(20);

/// Longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_millis(500);

/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 4;

/// Wait after the first failed attempt, and the longest; it doubles each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// At most one log line per this time about such errors.
const ERROR_LOG_MS: u64 = 60_000;

/// Connects to a stream or control socket. Reads wait for `LOOK`, writes for `CONNECT_MAX`.
///
/// # Errors
/// Any I/O error; also if a stop is requested meanwhile.
pub fn connect(address: &StatAddress, shutdown: &Shutdown) -> io::Result<File> {
    let socket = match address {
        StatAddress::Unix(path) => {
            // Does not wait for a server with a full backlog, as a blocking connect would.
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            rustix::io::ioctl_fionbio(&socket, false)?;
            socket
        }
        StatAddress::Tcp(address) => tcp(address, shutdown)?.into(),
    };
    set_socket_timeout(&socket, Timeout::Recv, Some(LOOK))?;
    set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_MAX))?;
    Ok(socket.into())
}

/// Whether a connection failed because nothing has made that Unix socket: PHP may start later, or
/// never, as with an entry for dumps.
pub fn is_absent(address: &StatAddress, error: &io::Error) -> bool {
    matches!(address, StatAddress::Unix(_)) && error.kind() == ErrorKind::NotFound
}

/// Tries each address of the host.
fn tcp(address: &str, shutdown: &Shutdown) -> io::Result<TcpStream> {
    let mut problem = io::Error::other("the name has no address");
    for address in look_up(address, shutdown)?.iter().take(ADDRESSES_MAX) {
        match TcpStream::connect_timeout(address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
        if shutdown.requested() {
            break;
        }
    }
    Err(problem)
}

/// The current addresses of a host. A look-up may take long and cannot be interrupted, so it runs
/// on a thread of its own, which a stop does not wait for.
fn look_up(address: &str, shutdown: &Shutdown) -> io::Result<Vec<SocketAddr>> {
    if let Ok(known) = address.parse() {
        return Ok(vec![known]);
    }
    let name = address.to_owned();
    let look_up = move || name.to_socket_addrs().map(Iterator::collect);
    let found = shutdown.unless_requested(("stat-lookup", Duration::ZERO), look_up);
    found.unwrap_or(Err("the name was not looked up".to_owned())).map_err(io::Error::other)?
}

/// Reads from the stream of `source` until `shutdown` is requested.
pub fn run(source: &Arc<Source>, clock: &dyn Clock, shutdown: &Shutdown) {
    let address = &source.config.stream;
    let errors = Limit::new(ERROR_LOG_MS);
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut number, mut back_off) = (0_u64, BACK_OFF.0);
    while !shutdown.requested() {
        let mut absent = false;
        let problem = match connect(address, shutdown) {
            Ok(mut stream) => {
                number = number.saturating_add(1);
                source.counters.connections.add(1);
                source.counters.connected.set(1);
                *source.problem.lock() = None;
                source.absent.store(false, Ordering::Relaxed);
                info!(%address, "Connected to a stat extension.");
                let (read, ended) = drain(&mut stream, number, source, &mut chunk, clock, shutdown);
                drop(stream);
                source.counters.connected.set(0);
                if read {
                    back_off = BACK_OFF.0;
                }
                ended
            }
            Err(error) => {
                source.counters.connections_failed.add(1);
                absent = is_absent(address, &error);
                error.to_string()
            }
        };
        if shutdown.requested() {
            return;
        }
        let was_absent = source.absent.swap(absent, Ordering::Relaxed);
        if absent {
            if !was_absent {
                info!(%address, "The socket of a stat extension is not there yet; waiting for it.");
            }
        } else if let Some(repeated) = errors.pass(clock.mono_ms()) {
            let problem: &dyn fmt::Display = &problem;
            warn!(%address, %problem, repeated, "No connection to a stat extension; trying again.");
        }
        *source.problem.lock() = Some(problem);
        wait(back_off, shutdown);
        back_off = back_off.saturating_mul(2).min(BACK_OFF.1);
    }
}

fn wait(span: Duration, shutdown: &Shutdown) {
    let since = Instant::now();
    while since.elapsed() < span && !shutdown.requested() {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Reads until the connection ends or a stop is requested. Returns whether anything arrived, and
/// why it ended.
fn drain(
    stream: &mut File,
    connection: u64,
    source: &Source,
    chunk: &mut [u8],
    clock: &dyn Clock,
    shutdown: &Shutdown,
) -> (bool, String) {
    let (mut any, mut is_dump) = (false, false);
    while !shutdown.requested() {
        if is_dump && source.queue.is_half_full() {
            thread::sleep(NAP);
            continue;
        }
        let waiting = READ.begin();
        let read = stream.read(chunk);
        drop(waiting);
        let read = match read {
            Ok(0) => return (any, "it closed the connection".to_owned()),
            Ok(read) => read,
            Err(error) => match error.kind() {
                ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => continue,
                _ => return (any, error.to_string()),
            },
        };
        let counters = &source.counters;
        counters.bytes_received.add(read as u64);
        let mut bytes = chunk.get(..read).unwrap_or_default();
        if !any && let Some(lines) = bytes.strip_prefix(DUMP) {
            (is_dump, bytes) = (true, lines);
        }
        any = true;
        let (bytes, lines) = source.queue.push(Chunk {
            connection,
            received_ms: clock.mono_ms(),
            after_gap: false,
            is_dump,
            bytes: bytes.into(),
        });
        if bytes > 0 {
            counters.bytes_dropped.add(bytes);
            counters.lines_dropped.add(lines);
        }
        if read < BUSY_BYTES {
            thread::sleep(NAP);
        }
    }
    (any, String::new())
}
