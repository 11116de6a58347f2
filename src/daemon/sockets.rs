//! The sockets that a process opens at start, or was handed over.

use std::net::{SocketAddr, TcpListener, UdpSocket};

use tracing::warn;

use super::error::StartError;
use crate::config::Config;
use crate::input::udp::socket::{self, ReceiveSocket, SocketError, explained};

/// Opens the sockets of the configuration, or takes those that were handed over in their place.
pub(super) fn open_sockets(
    config: &Config,
    handed: Vec<UdpSocket>,
) -> Result<Vec<ReceiveSocket>, SocketError> {
    let (listen, buffer) = (&config.ingest.listen, config.ingest.recv_buffer);
    if handed.is_empty() {
        return socket::open(listen, config.ingest.receivers, buffer);
    }
    let sockets = socket::adopt(handed, buffer)?;
    let bound = |address: &SocketAddr| sockets.iter().any(|it| receives_at(it, address));
    for address in listen.iter().filter(|address| !bound(address)) {
        warn!(
            %address,
            "Ignoring this address of ingest.listen: the sockets that were passed in replace the whole list."
        );
    }
    let is_wanted = |socket: &ReceiveSocket| {
        let wanted = |address: &&SocketAddr| {
            socket.address == **address
                || address.ip().is_unspecified() && receives_at(socket, address)
        };
        listen.iter().any(|address| wanted(&address))
    };
    for socket in sockets.iter().filter(|socket| !is_wanted(socket)) {
        warn!(
            address = %socket.address,
            "Receiving on a socket that was passed in and is not in ingest.listen. With systemd change ListenDatagram= of pinbad.socket."
        );
    }
    Ok(sockets)
}

/// Whether what is sent to an address comes to a socket.
fn receives_at(socket: &ReceiveSocket, address: &SocketAddr) -> bool {
    let (bound, ip) = (socket.address, address.ip());
    // One of IPv6 may take IPv4 too.
    let is_both = || bound.is_ipv6() && !socket.socket.only_v6().unwrap_or(true);
    bound == *address
        || bound.port() == address.port()
            && bound.ip().is_unspecified()
            && (bound.is_ipv4() == ip.is_ipv4() || is_both())
}

/// Binds the address of a front end, unless its listener was handed over; `None`: it is switched
/// off.
pub(super) fn open_front(
    section: &'static str,
    address: Option<SocketAddr>,
    handed: Option<TcpListener>,
) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address.filter(|_| handed.is_none()) else { return Ok(handed) };
    let opened = bind(address);
    opened.map(Some).map_err(|source| StartError::FrontEnd { section, address, source })
}

/// Binds an address for TCP. More may wait to be accepted than the standard library has it.
pub(super) fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(explained)?;
    rustix::net::listen(&listener, 1024)?;
    Ok(listener)
}
