//! The UDP sockets: every socket option is set in this file.
//!
//! `daemon.rs` calls [`open`] once at start; each [`ReceiveSocket`] then goes to its own receiver
//! thread. An address gets one or more sockets that share its port (SO_REUSEPORT). The kernel picks
//! the socket by a hash of the sender's and the receiver's address and port, so **all packets of
//! one sending socket land on one of ours**: a host with many PHP workers spreads well, one busy
//! `pinbad load` keeps one receiver busy and leaves the rest idle.
//!
//! SO_REUSEPORT would also let a second daemon of the same user bind the port and take half of the
//! packets. The first socket of an address is therefore bound without it, which fails if anyone
//! else is there, and gets the option only then, which admits our other sockets but no other
//! process doing the same.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// How long a receiver waits for a datagram before it checks the stop flag: the most that a stop
/// has to wait for it.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);

/// The reason why there is no socket. The text says which setting to change.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The port is in use.
    #[error(
        "cannot receive on {address}: the address is in use, maybe by another pinbad; \
         stop that one, or give another address with `ingest.listen` (or --udp)"
    )]
    InUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// Any other refusal by the kernel: not our address, not permitted, no IPv6.
    #[error("cannot receive on {address}, see `ingest.listen` (or --udp): {action}: {source}")]
    Refused {
        /// The requested address.
        address: SocketAddr,
        /// The action that failed.
        action: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// A socket passed by a supervisor.
    #[error("cannot receive on a socket that was handed over (LISTEN_FDS): {0}")]
    ActivatedSockets(io::Error),
}

/// The result of `ingest.recv_buffer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecvBuffer {
    /// Bytes requested.
    pub asked_bytes: usize,
    /// Bytes granted, in the same measure; fewer if `net.core.rmem_max` is smaller and the process
    /// may not exceed it (CAP_NET_ADMIN).
    pub granted_bytes: usize,
    /// Bytes that the kernel really sets aside: twice as much, because it counts its own
    /// book-keeping too. A datagram of up to a few hundred bytes takes 768 or more of these, so 64
    /// MiB are room for about 170,000.
    pub kernel_bytes: usize,
}

/// A bound socket, with the data that a receiver needs.
#[derive(Debug)]
pub struct ReceiveSocket {
    /// The socket, which gauges of the kernel's drops look at and do not keep open.
    pub socket: Arc<Socket>,
    /// The bound address: the real port if 0 was requested.
    pub address: SocketAddr,
    /// Its receive buffer.
    pub buffer: RecvBuffer,
    /// Whether it was passed by a supervisor, which keeps it when this process ends.
    pub handed_over: bool,
}

/// Binds `receivers` sockets to each of `addresses`, and returns them address by address.
///
/// For port 0 the first socket gets a free port and the others of the address share it.
///
/// # Errors
/// Fails if an address cannot be bound; sockets opened before are closed again.
pub fn open(
    addresses: &[SocketAddr],
    receivers: usize,
    recv_buffer_bytes: usize,
) -> Result<Vec<ReceiveSocket>, SocketError> {
    let mut sockets = Vec::with_capacity(addresses.len() * receivers);
    for &address in addresses {
        open_group(address, receivers.max(1), recv_buffer_bytes, &mut sockets)?;
    }
    Ok(sockets)
}

fn open_group(
    address: SocketAddr,
    receivers: usize,
    recv_buffer_bytes: usize,
    sockets: &mut Vec<ReceiveSocket>,
) -> Result<(), SocketError> {
    let mut bind_to = address;
    for index in 0..receivers {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM.cloexec(), Some(Protocol::UDP));
        let socket = at(address, "making a socket", socket)?;
        if address.is_ipv6() {
            // Otherwise [::] would take IPv4 too, and collide with 0.0.0.0 next to it.
            at(address, "setting IPV6_V6ONLY", socket.set_only_v6(true))?;
        }
        let timeout = socket.set_read_timeout(Some(RECEIVE_TIMEOUT));
        at(address, "setting SO_RCVTIMEO", timeout)?;
        // Before binding: from then on datagrams arrive.
        let buffer = set_recv_buffer(&socket, recv_buffer_bytes);
        let buffer = at(address, "setting the receive buffer", buffer)?;
        let share = || at(address, "setting SO_REUSEPORT", socket.set_reuse_port(true));
        if index > 0 {
            share()?;
        }
        match socket.bind(&bind_to.into()) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(SocketError::InUse { address });
            }
            bound => at(address, "binding", bound.map_err(explained))?,
        }
        if index == 0 && receivers > 1 {
            share()?;
        }
        let local = at(address, "asking for the address", socket.local_addr())?;
        bind_to = local.as_socket().unwrap_or(bind_to);
        sockets.push(ReceiveSocket {
            socket: Arc::new(socket),
            address: bind_to,
            buffer,
            handed_over: false,
        });
    }
    Ok(())
}

/// Says what the kernel's "cannot assign requested address" means.
pub(crate) fn explained(error: io::Error) -> io::Error {
    match error.kind() {
        kind @ io::ErrorKind::AddrNotAvailable => {
            io::Error::new(kind, "this machine has no such address")
        }
        _ => error,
    }
}

/// Wraps the error of an action for `address`.
fn at<T>(address: SocketAddr, action: &'static str, done: io::Result<T>) -> Result<T, SocketError> {
    done.map_err(|source| SocketError::Refused { address, action, source })
}

/// Adopts bound sockets from a supervisor: they get the options that [`open`] gives its own.
///
/// # Errors
/// Fails if the system refuses an option.
pub fn adopt(
    sockets: Vec<UdpSocket>,
    recv_buffer_bytes: usize,
) -> Result<Vec<ReceiveSocket>, SocketError> {
    let adopt = |socket: UdpSocket| {
        let address = socket.local_addr()?;
        let socket = Socket::from(socket);
        // The flag belongs to the socket, and the supervisor may have set it.
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
        Ok(ReceiveSocket {
            buffer: set_recv_buffer(&socket, recv_buffer_bytes)?,
            socket: Arc::new(socket),
            address,
            handed_over: true,
        })
    };
    let adopted = sockets.into_iter().map(adopt);
    adopted.collect::<io::Result<_>>().map_err(SocketError::ActivatedSockets)
}

/// The buffer that the kernel would grant to a socket, without an address: for when that one is in
/// use.
///
/// # Errors
/// Fails if the system refuses a socket.
pub fn grantable(recv_buffer_bytes: usize) -> io::Result<RecvBuffer> {
    let any = |domain| Socket::new(domain, Type::DGRAM.cloexec(), Some(Protocol::UDP));
    let socket = any(Domain::IPV4).or_else(|_| any(Domain::IPV6))?;
    set_recv_buffer(&socket, recv_buffer_bytes)
}

/// Uses SO_RCVBUFFORCE, which needs CAP_NET_ADMIN, then SO_RCVBUF, which `net.core.rmem_max`
/// bounds.
fn set_recv_buffer(socket: &Socket, asked_bytes: usize) -> io::Result<RecvBuffer> {
    // The kernel doubles the figure in 31 bits.
    let bytes = asked_bytes.min(i32::MAX as usize / 2);
    let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket.as_fd(), bytes);
    if forced.is_err() {
        socket.set_recv_buffer_size(bytes)?;
    }
    let kernel_bytes = socket.recv_buffer_size()?;
    Ok(RecvBuffer { asked_bytes, granted_bytes: kernel_bytes / 2, kernel_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn any_v4() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    /// How many datagrams each socket gets, once `all` of them have arrived.
    fn received(sockets: &[ReceiveSocket], all: usize) -> Vec<usize> {
        let start = std::time::Instant::now();
        let mut got = vec![0; sockets.len()];
        while got.iter().sum::<usize>() < all {
            assert!(start.elapsed() < Duration::from_secs(60), "{got:?} of {all}");
            for (socket, got) in sockets.iter().zip(&mut got) {
                let socket = UdpSocket::from(socket.socket.try_clone().unwrap());
                // The kernel keeps the flag with the socket, not the descriptor.
                socket.set_nonblocking(true).unwrap();
                *got += std::iter::from_fn(|| socket.recv(&mut [0; 10]).ok()).count();
            }
        }
        got
    }

    /// The first thing that comes of a port for which `try_with` has a use: one that is free at one
    /// address may be taken at another, by this very process.
    fn with_some_port<T>(mut try_with: impl FnMut(u16) -> Result<T, SocketError>) -> T {
        let mut last = None;
        for _ in 0..100 {
            let port = open(&[any_v4()], 1, 1 << 16).unwrap()[0].address.port();
            match try_with(port) {
                Ok(found) => return found,
                Err(error) => last = Some(error),
            }
        }
        panic!("no port of a hundred: {last:?}");
    }

    #[test]
    fn a_group_shares_one_port_and_every_socket_gets_packets() {
        for address in [any_v4(), "[::1]:0".parse().unwrap()] {
            let sockets = open(&[address], 3, 1 << 20).unwrap();
            let addresses: HashSet<_> = sockets.iter().map(|socket| socket.address).collect();
            assert_eq!((sockets.len(), addresses.len()), (3, 1));
            assert_ne!(sockets[0].address.port(), 0);
            let senders: Vec<_> = (0..200).map(|_| UdpSocket::bind(address).unwrap()).collect();
            for sender in &senders {
                for _ in 0..2 {
                    sender.send_to(b"x", sockets[0].address).unwrap();
                }
            }
            let got = received(&sockets, 400);
            assert_eq!(got.iter().sum::<usize>(), 400);
            for count in got {
                // 133 each if the hash is fair, and 40 is a chance of one in a million million; two
                // packets of one sender never part.
                assert!(count > 40 && count % 2 == 0, "{count}");
            }
        }
    }

    #[test]
    fn a_second_instance_is_refused_and_told_what_to_change() {
        for (first, second) in [(1, 1), (1, 3), (3, 1), (3, 3)] {
            let sockets = open(&[any_v4()], first, 1 << 16).unwrap();
            let address = sockets[0].address;
            // What a first instance leaves is free for a second one.
            with_some_port(|port| {
                let address = SocketAddr::new(address.ip(), port);
                drop(open(&[address], first, 1 << 16)?);
                open(&[address], second, 1 << 16)
            });
            let error = open(&[address], second, 1 << 16).unwrap_err();
            assert!(matches!(error, SocketError::InUse { .. }), "{error}");
            let text = error.to_string();
            assert_has!(text => "ingest.listen", "--udp");
            assert!(text.contains(&address.to_string()), "{text}");
        }
    }

    #[test]
    fn v4_and_v6_live_side_by_side_on_one_port() {
        let (v4, v6) = with_some_port(|port| {
            let v4 = SocketAddr::new("0.0.0.0".parse().unwrap(), port);
            let v6 = SocketAddr::new("::".parse().unwrap(), port);
            Ok((open(&[v4], 1, 1 << 16)?, open(&[v6], 2, 1 << 16)?))
        });
        let port = v4[0].address.port();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"4", ("127.0.0.1", port)).unwrap();
        let sender = UdpSocket::bind("[::1]:0").unwrap();
        sender.send_to(b"6", ("::1", port)).unwrap();
        assert_eq!(received(&v4, 1), [1]);
        assert_eq!(received(&v6, 1).iter().sum::<usize>(), 1);
    }

    #[test]
    fn what_is_not_ours_is_refused() {
        let error = open(&["192.0.2.1:30002".parse().unwrap()], 1, 1 << 16).unwrap_err();
        assert!(matches!(error, SocketError::Refused { action: "binding", .. }), "{error}");
        let text = error.to_string();
        assert!(text.ends_with("(or --udp): binding: this machine has no such address"), "{text}");
    }

    #[test]
    fn the_buffer_is_reported_in_the_measure_it_was_asked_in() {
        let sockets = open(&[any_v4()], 1, 100_000).unwrap();
        let buffer =
            RecvBuffer { asked_bytes: 100_000, granted_bytes: 100_000, kernel_bytes: 200_000 };
        assert_eq!(sockets[0].buffer, buffer);
        // More than anyone is granted: as much as there is, and no error.
        let sockets = open(&[any_v4()], 1, usize::MAX).unwrap();
        assert!(sockets[0].buffer.granted_bytes < usize::MAX);
        assert!(sockets[0].buffer.granted_bytes >= 100_000);
    }
}
