//! `pinbad import-log`: logs of Squid, sent to a running daemon.
//!
//! Goes through the daemon's own way in, a `[[squid]]` entry that listens for connections, which takes lines no faster than they
//! are merged; what becomes of each is in its counters. Called by `main`, on its thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use clap::Args as FlagGroup;

use super::Failure;
use crate::config::{Config, SquidFrom};
use crate::daemon::local;

/// What `import-log` takes.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ImportLogFlags {
    /// Logs in any of Squid's formats, in the order in which they were written; - for stdin.
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Count the lines as if they came now.
    #[arg(long, required = true)]
    pub live: bool,
    /// Configuration file of the daemon, to find where it listens [default: the defaults].
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where the daemon listens for Squid's connections [default: the first such entry of squid in the configuration].
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<SocketAddr>,
}

/// Sends all lines and waits until the daemon has read them. `stdin` stands for the file `-`.
///
/// # Errors
/// When a file cannot be read, or nobody takes its lines.
pub fn execute(
    flags: &ImportLogFlags,
    config: &Config,
    mut stdin: impl Read,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let configured = || {
        config.squids.iter().find_map(|squid| match squid.from {
            SquidFrom::Tcp(address) => Some(local(address)),
            SquidFrom::Udp(_) | SquidFrom::File(..) => None,
        })
    };
    let Some(to) = flags.to.or_else(configured) else {
        return Err(Failure::usage(
            "the configuration has no [[squid]] with listen = \"tcp://...\", so nobody takes lines; give --to",
        ));
    };
    let cannot = |error: io::Error| {
        Failure::failed(format!(
            "cannot send to {to}: {error}; does a pinbad with [[squid]] listen there?"
        ))
    };
    let mut stream = TcpStream::connect(to).map_err(cannot)?;
    let mut sent = 0;
    for path in &flags.files {
        let unreadable =
            |error| Failure::failed(format!("cannot read {}: {error}", path.display()));
        sent += match path == Path::new("-") {
            true => send(&mut stdin, &mut stream),
            false => send(&mut File::open(path).map_err(unreadable)?, &mut stream),
        }
        .map_err(|error| match error {
            SendError::Read(error) => unreadable(error),
            SendError::Write(error) => cannot(error),
        })?;
    }
    stream.shutdown(Shutdown::Write).map_err(cannot)?;
    // The daemon says nothing, and closes when it has read all.
    io::copy(&mut stream, &mut io::sink()).map_err(cannot)?;
    writeln!(
        out,
        "{sent} lines sent to {to}; `squids` in /api/v1/status says what became of them."
    )
    .map_err(Failure::write)
}

enum SendError {
    Read(io::Error),
    Write(io::Error),
}

/// Sends what there is to read, with a newline at its end; how many lines that were.
fn send(from: &mut impl Read, to: &mut impl Write) -> Result<usize, SendError> {
    let (mut chunk, mut lines, mut last) = (vec![0; 64 << 10], 0, b'\n');
    loop {
        let bytes = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(SendError::Read(error)),
        };
        let read = &chunk[..bytes];
        lines += read.iter().filter(|byte| **byte == b'\n').count();
        last = read[bytes - 1];
        to.write_all(read).map_err(SendError::Write)?;
    }
    if last != b'\n' {
        lines += 1;
        to.write_all(b"\n").map_err(SendError::Write)?;
    }
    Ok(lines)
}
