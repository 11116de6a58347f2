//! `pinbad load` and the traffic of `pinbad demo`: Pinba packets made and sent by ourselves.
//!
//! Outside the data path: nothing of the daemon calls this but the command line, tests and benches, and what it sends
//! goes through the kernel like anybody's packets. In reading order: `options` (the flags), `traffic` (what a request
//! looks like; `vocabulary` has the names, `packet` the ways of the PHP extension), `corpus` (packets encoded ahead),
//! `pace` (when), `sender` (one call into the kernel for 64 packets), `run` (the sending threads), `summary` and
//! `totals` (what was sent, exactly). `demo` is a traffic of its own: a small shop's day in ten minutes.
//!
//! Only loopback is sent to unless remote targets are allowed: a mistyped address must not flood somebody.

mod corpus;
pub mod demo;
pub mod options;
mod pace;
mod packet;
mod run;
mod sender;
mod summary;
pub mod totals;
pub mod traffic;
mod vocabulary;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use crate::shutdown::Shutdown;

pub use options::{Distribution, LoadOptions, SummaryFormat, TrafficOptions};
pub use run::{Packets, Sent, run};
pub use summary::Summary;

/// Why nothing was sent, or why sending ended before its time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LoadError(String);

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

/// A socket whose packets go to `target`.
fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let local: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.connect(target)?;
    Ok(socket)
}

/// The command `load`: runs it, then prints the totals to `out`, also of a run that ended early; a line a second goes
/// to `progress` when the options ask for it.
///
/// # Errors
/// As for [`run()`], and what writing to `out` says.
pub fn execute(
    options: &LoadOptions,
    shutdown: &Shutdown,
    out: &mut dyn Write,
    progress: &mut dyn Write,
) -> Result<(), LoadError> {
    let summary = run(options, shutdown, progress)?;
    match options.format {
        SummaryFormat::Text => write!(out, "{summary}")?,
        SummaryFormat::Json => writeln!(out, "{}", summary.to_json())?,
    }
    out.flush()?;
    summary.sent.ended_by.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
