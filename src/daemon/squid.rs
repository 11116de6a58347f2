//! `[[squid]]`: opens the sources of Squid's log lines.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::StartError;
use crate::config::{Config, SquidFrom, SquidSource};
use crate::input::squid::Source;
use crate::input::udp::socket::{self, ReceiveSocket, SocketError};
use crate::state::counters::SocketName;

/// A source that can be read.
pub(crate) struct OpenSource {
    pub(super) source: Arc<Source>,
    pub(crate) opened: Opened,
}

/// An opened source.
pub(crate) enum Opened {
    Udp(ReceiveSocket),
    Tcp(TcpListener),
    File(PathBuf, bool),
}

/// Binds the addresses of the sources, and records each bound address.
pub(crate) fn open(config: &Config) -> Result<Vec<OpenSource>, StartError> {
    let opened = config.squids.iter().map(|squid| {
        let opened = open_one(squid, config.ingest.recv_buffer).map_err(|source| {
            let what = "squid: cannot take lines from";
            let (place, address) = (squid.location.to_string(), squid.from.to_string());
            StartError::Input { place, what, address, source }
        })?;
        let from = match &opened {
            Opened::Udp(socket) => SquidFrom::Udp(socket.address),
            Opened::Tcp(listener) => {
                listener.local_addr().map_or(squid.from.clone(), SquidFrom::Tcp)
            }
            Opened::File(..) => squid.from.clone(),
        };
        let source = Source::new(SquidSource { from, ..squid.clone() });
        let window_secs = config.pool.stats_history.as_secs();
        source.sums.lock().window_secs = u32::try_from(window_secs).unwrap_or(u32::MAX);
        Ok(OpenSource { source, opened })
    });
    opened.collect()
}

fn open_one(squid: &SquidSource, recv_buffer: usize) -> io::Result<Opened> {
    match &squid.from {
        SquidFrom::Udp(address) => match socket::open(&[*address], 1, recv_buffer) {
            Ok(mut sockets) => {
                sockets.pop().map(Opened::Udp).ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            Err(SocketError::Refused { action, source, .. }) => {
                Err(io::Error::new(source.kind(), format!("{action}: {source}")))
            }
            Err(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "the address is in use")),
        },
        SquidFrom::Tcp(address) => {
            let listener = TcpListener::bind(address).and_then(|listener| {
                listener.set_nonblocking(true)?;
                Ok(listener)
            });
            listener.map(Opened::Tcp)
        }
        SquidFrom::File(path, from_end) => Ok(Opened::File(path.clone(), *from_end)),
    }
}

impl OpenSource {
    /// The socket of datagrams, if it has one.
    pub(super) const fn socket(&self) -> Option<&ReceiveSocket> {
        let Opened::Udp(socket) = &self.opened else { return None };
        Some(socket)
    }

    /// The name of its counters in a snapshot.
    pub(super) fn name(&self) -> SocketName {
        SocketName { address: self.source.config.from.to_string(), cookie: 0 }
    }
}
