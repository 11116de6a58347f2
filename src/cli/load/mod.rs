//! `pinbad load` and the traffic of `pinbad demo`: Pinba packets made and sent by ourselves.
//!
//! Outside the data path: nothing of the daemon calls this but the command line, tests and benches, and what it sends
//! goes through the kernel like anybody's packets. In reading order: `options` (the flags), `traffic` (what a request
//! looks like; `vocabulary` has the names, `packet` the ways of the PHP extension), `packets` (encoded ahead),
//! `pace` (when), `sender` (one call into the kernel for 64 packets), `run` (the sending threads), `summary` and
//! `totals` (what was sent, exactly). `demo` is a traffic of its own: a small shop's day in ten minutes.
//!
//! Only loopback is sent to unless remote targets are allowed: a mistyped address must not flood somebody.

pub mod demo;
pub mod options;
mod pace;
mod packet;
mod packets;
mod run;
mod sender;
mod summary;
pub mod totals;
pub mod traffic;
mod vocabulary;

use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};

use crate::shutdown::Shutdown;

pub use options::{Distribution, LoadOptions, SummaryFormat, TrafficOptions};
pub use packets::Packets;
pub use run::{Sent, run};
pub use summary::Summary;

/// A socket whose packets go to `target`.
fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
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
) -> io::Result<()> {
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
