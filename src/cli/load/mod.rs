//! `pinbad load` and the traffic of `pinbad demo`: Pinba packets, generated and sent.
//!
//! Outside the data path: only the command line, tests and benches call this, and its packets go
//! through the kernel like any others. In reading order: `options` (the flags), `traffic` (the
//! shape of a request; `vocabulary` has the names, `packet` the habits of the PHP extension),
//! `packets` (encoded ahead), `pace` (timing), `sender` (one call into the kernel for 64 packets),
//! `run` (the sending threads), `summary` and `totals` (exact counts of what was sent). `demo` is
//! separate traffic: a small shop's day in ten minutes.
//!
//! Packets go only to loopback unless remote targets are allowed: a mistyped address must not flood
//! somebody.

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

/// Returns a socket connected to `target`.
fn connect(target: SocketAddr) -> io::Result<UdpSocket> {
    let any = match target {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    Ok(socket)
}

/// Runs the command `load`, then prints the totals to `out`, even if the run ended early; writes a
/// line a second to `progress` if the options ask for it.
///
/// # Errors
/// As for [`run()`], and errors of writing to `out`.
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
