//! `pinbad import-stat`: sends a dump of the stat extension to a running daemon.
//!
//! Takes the place of the extension at the stream of a `[[stat]]` entry that nobody serves, so that
//! the daemon connects and reads as usual. Each file gets its own connection, because each is a run
//! of its own. Called by `main`, on its thread.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as FlagGroup;
use socket2::Socket;

use super::Failure;
use super::import_log::{end, send_lines};
use crate::config::{Config, StatAddress};
use crate::input::stat::client;
use crate::shutdown::Shutdown;

/// The flags of `import-stat`.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ImportStatFlags {
    /// Dumps of samples, as stat.dump writes them; - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Configuration file of the daemon, to find where it reads [default: the defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The stream of one of its `[[stat]]` entries [default: the first that nobody serves].
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,
}

/// Longest wait for the daemon to connect: it tries every five seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends all files to the daemon and waits until it has read them. `stdin` stands for the file `-`.
///
/// # Errors
/// Fails if a file cannot be read, or nobody takes its lines.
pub fn execute(
    flags: &ImportStatFlags,
    config: &Config,
    mut stdin: impl Read,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let to = match &flags.to {
        Some(given) => {
            let wrong = |problem| Failure::usage(format!("--to {given}: {problem}"));
            StatAddress::parse(given).map_err(wrong)?
        }
        None => {
            let free = config.stats.iter().map(|it| &it.stream);
            let free = free.into_iter().find(|it| client::connect(it, &Shutdown::new()).is_err());
            let none = "the configuration has no [[stat]] whose stream nobody serves; add one for dumps, or give --to";
            free.ok_or_else(|| Failure::usage(none))?.clone()
        }
    };
    let cannot = |error: io::Error| Failure::failed(format!("cannot serve {to}: {error}"));
    let listener = Listener::bind(&to).map_err(cannot)?;
    let mut lines = 0;
    for path in &flags.files {
        let mut stream = listener.accept().map_err(cannot)?;
        stream.write_all(client::DUMP).map_err(cannot)?;
        lines += send_lines(path, &mut stdin, &mut stream, cannot)?;
        end(stream).map_err(cannot)?;
    }
    writeln!(
        out,
        "{lines} lines given to {to}; `stats` in /api/v1/status says what became of them."
    )
    .map_err(Failure::write)
}

/// The listener that the daemon connects to. Removes its Unix socket on drop.
struct Listener {
    socket: Socket,
    path: Option<PathBuf>,
}

impl Listener {
    fn bind(address: &StatAddress) -> io::Result<Self> {
        let (socket, path) = match address {
            StatAddress::Unix(path) => {
                // A connection to any other kind of file is refused like one to a dead socket.
                let found = fs::symlink_metadata(path);
                if found.is_ok_and(|found| !found.file_type().is_socket()) {
                    let why = "it exists and is not a socket";
                    return Err(io::Error::new(ErrorKind::AlreadyExists, why));
                }
                let nobody = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
                if UnixStream::connect(path).is_err_and(|error| nobody(&error)) {
                    // Left behind by a process that is gone.
                    fs::remove_file(path)?;
                }
                (UnixListener::bind(path)?.into(), Some(path.clone()))
            }
            StatAddress::Tcp(address) => (TcpListener::bind(address)?.into(), None),
        };
        let listener = Self { socket, path };
        // Of a listener it limits how long `accept` waits.
        listener.socket.set_read_timeout(Some(PATIENCE))?;
        Ok(listener)
    }

    /// Accepts the daemon's connection.
    fn accept(&self) -> io::Result<Socket> {
        let accepted = self.socket.accept().map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                let why = "no pinbad connected; does one run with a [[stat]] of this stream?";
                io::Error::new(ErrorKind::TimedOut, why)
            }
            _ => error,
        });
        let (stream, _) = accepted?;
        stream.set_read_timeout(None)?;
        Ok(stream)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // A leftover is replaced next time.
            let _left = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dead_socket_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stream");
        let bind = || Listener::bind(&StatAddress::Unix(path.clone()));
        fs::write(&path, "data").unwrap();
        let error = bind().err().unwrap();
        assert_eq!(error.to_string(), "it exists and is not a socket");
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        bind().unwrap();
    }
}
