//! `recvmmsg` into fixed buffers: up to 64 datagrams per system call.
//!
//! Each receiver thread creates one [`Batch`] and keeps it: 64 buffers, each longer than any UDP
//! datagram, with the headers that point to them. The buffers are virtual memory (4 MiB) until a
//! datagram is written to them, so ordinary traffic keeps 64 pages in use, and the largest burst
//! all of it.
//!
//! The standard library receives one datagram per call: 790 ns of processor time each against 655
//! in batches of 64 (179 bytes, full buffer, EPYC), hence `unsafe` here. The invariant: `buffers`,
//! `iovecs`, `headers` and `names` are allocated once, never resized, and every pointer passed to
//! the kernel is derived from them again, right before the call, with no reference to them alive
//! during it. No raw pointer leaves this file.
#![expect(
    unsafe_code,
    reason = "recvmmsg has no safe wrapper that keeps its buffers between calls"
)]

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

#[cfg(not(miri))]
use libc::recvmmsg;

#[cfg(miri)]
use self::stand_in::recvmmsg;
use crate::limits::DATAGRAM_BYTES_MAX;

#[cfg(miri)]
#[path = "batch/tests/stand_in.rs"]
mod stand_in;

/// Most datagrams in one batch.
pub const BATCH_DATAGRAMS_MAX: usize = 64;

/// Room for one datagram: a byte more than the maximum, so that one truncated at the end of the
/// buffer is longer than the decoder accepts, and refused there (`too_long`). UDP cannot carry one;
/// IPv6 jumbograms can. (Buffers at varying offsets in their pages, for the sake of the cache, made
/// no difference.)
const BUFFER_BYTES: usize = DATAGRAM_BYTES_MAX + 1;

/// A `sockaddr_in` (16 bytes) or `sockaddr_in6` (28).
type Name = [u8; size_of::<libc::sockaddr_in6>()];

/// Bytes of one batch once the largest datagrams filled it, for the memory plan.
pub const BATCH_BYTES: usize = BATCH_DATAGRAMS_MAX
    * (BUFFER_BYTES + size_of::<libc::iovec>() + size_of::<libc::mmsghdr>() + size_of::<Name>());

/// The receive buffers of one receiver. Not `Send`: created on the thread that uses them.
pub struct Batch {
    buffers: Vec<u8>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// The senders' addresses as the kernel writes them; empty if they are not needed.
    names: Vec<Name>,
    /// Datagrams of the last call; the first `received` headers are valid.
    received: usize,
}

impl Batch {
    /// Allocates the buffers, zeroed and untouched; with those of the senders' addresses
    /// ([`Batch::senders`]) if they are wanted.
    pub fn new(wants_senders: bool) -> Self {
        let names = if wants_senders { BATCH_DATAGRAMS_MAX } else { 0 };
        let iovecs = (0..BATCH_DATAGRAMS_MAX)
            .map(|_| libc::iovec { iov_base: ptr::null_mut(), iov_len: BUFFER_BYTES })
            .collect();
        let headers = (0..BATCH_DATAGRAMS_MAX)
            .map(|_| {
                // SAFETY: `mmsghdr` is a C struct of integers and pointers, for which zero is a
                // valid value: no sender's address (as long as `receive` asks for none) and no
                // control data wanted.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self {
            buffers: vec![0; BUFFER_BYTES * BATCH_DATAGRAMS_MAX],
            iovecs,
            headers,
            names: vec![Name::default(); names],
            received: 0,
        }
    }

    /// Waits for one datagram, at most as long as the socket's receive timeout, then takes any
    /// others available, and returns their number. 0 if the wait ended without one (timeout, or a
    /// signal).
    ///
    /// # Errors
    /// Errors of the kernel, except the timeout and `EINTR`. The datagrams of the previous batch
    /// are gone.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received = 0;
        let buffers = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        for ((header, iovec), buffer) in self.headers.iter_mut().zip(&mut self.iovecs).zip(buffers)
        {
            iovec.iov_base = buffer.as_mut_ptr().cast();
            header.msg_hdr.msg_iov = ptr::from_mut(iovec);
        }
        for (header, name) in self.headers.iter_mut().zip(&mut self.names) {
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            // The kernel overwrites this with the length of each.
            header.msg_hdr.msg_namelen = size_of::<Name>() as libc::socklen_t;
        }
        let headers = self.headers.as_mut_ptr();
        // SAFETY: the file descriptor is open (borrowed). `headers` points to BATCH_DATAGRAMS_MAX
        // headers, each with one iovec of BUFFER_BYTES bytes in a place of its own in `buffers`,
        // and no name or one of `names` with its length; all four live in `self`, which is borrowed
        // exclusively, and nothing refers to them during the call. A null timeout is allowed.
        let received = unsafe {
            recvmmsg(
                socket.as_raw_fd(),
                headers,
                BATCH_DATAGRAMS_MAX as libc::c_uint,
                libc::MSG_WAITFORONE,
                ptr::null_mut(),
            )
        };
        if let Ok(received) = usize::try_from(received) {
            self.received = received.min(BATCH_DATAGRAMS_MAX);
            return Ok(self.received);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            // EAGAIN is the receive timeout.
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    }

    /// The datagrams of the last [`Batch::receive`], in the order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let buffers = self.buffers.chunks_exact(BUFFER_BYTES);
        self.headers[..self.received]
            .iter()
            .zip(buffers)
            .map(|(header, buffer)| &buffer[..(header.msg_len as usize).min(BUFFER_BYTES)])
    }

    /// The senders of [`Batch::datagrams`], in the same order, as [`bits`](super::senders::bits) of
    /// their addresses; empty if the batch was not created for that.
    pub fn senders(&self) -> impl Iterator<Item = u128> {
        self.names.iter().take(self.received).map(sender)
    }

    /// Address and port of the sender of datagram `at`; unspecified if the batch was not created
    /// for that.
    pub fn sender(&self, at: usize) -> SocketAddr {
        let name = self.names.get(at).copied().unwrap_or_default();
        let [_, _, high, low, ..] = name;
        let ip = Ipv6Addr::from_bits(sender(&name)).to_canonical();
        SocketAddr::new(ip, u16::from_be_bytes([high, low]))
    }
}

/// The address in a `sockaddr`: the family in the first two bytes, then the port, then (IPv6: after
/// four more bytes) the address. 0 for anything else, which no UDP socket returns.
fn sender(name: &Name) -> u128 {
    let [f0, f1, _, _, a, b, c, d, ..] = *name;
    match libc::c_int::from(u16::from_ne_bytes([f0, f1])) {
        libc::AF_INET => Ipv4Addr::new(a, b, c, d).to_ipv6_mapped().to_bits(),
        libc::AF_INET6 => {
            name.get(8..24).and_then(|bytes| bytes.try_into().ok()).map_or(0, u128::from_be_bytes)
        }
        _ => 0,
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("received", &self.received).finish_non_exhaustive()
    }
}

/// `tests/miri.sh`: every pointer passed to the kernel may be written through, call after call,
/// also after the batch has moved and was read in between.
#[cfg(test)]
#[cfg(miri)]
mod in_miri {
    use std::os::fd::AsFd;

    use super::stand_in::LENGTHS;
    use super::*;

    #[test]
    fn the_kernel_may_write_where_it_is_told_to() {
        for mut batch in [Batch::new(false), Batch::new(true)] {
            let stdin = std::io::stdin();
            for _ in 0..2 {
                assert_eq!(batch.receive(stdin.as_fd()).unwrap(), BATCH_DATAGRAMS_MAX);
                for (at, datagram) in batch.datagrams().enumerate() {
                    assert_eq!(datagram.len(), LENGTHS[at % LENGTHS.len()]);
                    assert!(datagram.first().is_none_or(|byte| *byte == at as u8));
                    assert!(datagram.last().is_none_or(|byte| *byte == at as u8));
                }
                let sources: Vec<u128> = batch.senders().collect();
                assert!(sources.is_empty() || sources.len() == BATCH_DATAGRAMS_MAX);
                for (at, source) in sources.iter().enumerate() {
                    assert_eq!(*source, 0xffff_7f00_0000 + at as u128);
                }
                // Moves it.
                batch = *Box::new(batch);
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::time::{Duration, Instant};

    fn pair() -> (UdpSocket, UdpSocket) {
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        to.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let from = UdpSocket::bind("127.0.0.1:0").unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        (to, from)
    }

    /// Receives this many datagrams; returns them and the number of calls: one, unless the kernel
    /// of a busy machine is late with some of them.
    fn take(batch: &mut Batch, to: &UdpSocket, datagrams: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut got, mut calls) = (Vec::new(), 0);
        while got.len() < datagrams {
            assert!(batch.receive(to.as_fd()).unwrap() > 0, "nothing is lost");
            got.extend(batch.datagrams().map(<[u8]>::to_vec));
            calls += 1;
        }
        (got, calls)
    }

    #[test]
    fn takes_what_is_there_and_no_more() {
        let (to, from) = pair();
        let mut batch = Batch::new(false);
        let calls = (0..20).map(|_| {
            for i in 0..3_u8 {
                from.send(&[i; 5]).unwrap();
            }
            let (got, calls) = take(&mut batch, &to, 3);
            assert_eq!(got, [[0; 5], [1; 5], [2; 5]]);
            calls
        });
        assert_eq!(calls.min(), Some(1), "all that is there in one call");
    }

    #[test]
    fn every_length_arrives_whole() {
        let (to, from) = pair();
        let mut batch = Batch::new(false);
        for bytes in [0, 1, 1472, 65_507] {
            let packet: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            from.send(&packet).unwrap();
            assert_eq!(batch.receive(to.as_fd()).unwrap(), 1);
            assert_eq!(batch.datagrams().next().unwrap(), packet);
        }
    }

    #[test]
    fn more_than_one_batch_stays_in_order() {
        let (to, from) = pair();
        let mut batch = Batch::new(false);
        for i in 0..100_u8 {
            from.send(&[i]).unwrap();
        }
        let mut got = Vec::new();
        while got.len() < 100 {
            assert!(batch.receive(to.as_fd()).unwrap() > 0);
            got.extend(batch.datagrams().map(|datagram| datagram[0]));
        }
        assert_eq!(got, (0..100).collect::<Vec<u8>>());
    }

    #[test]
    fn the_wait_ends_and_leaves_nothing_behind() {
        let (to, from) = pair();
        let mut batch = Batch::new(false);
        from.send(b"before").unwrap();
        assert_eq!(batch.receive(to.as_fd()).unwrap(), 1);
        to.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let start = Instant::now();
        assert_eq!(batch.receive(to.as_fd()).unwrap(), 0);
        assert!(start.elapsed() >= Duration::from_millis(10), "it has to wait");
        assert_eq!(batch.datagrams().count(), 0, "no datagram is seen twice");
    }

    #[test]
    fn senders_are_known_if_wanted_each_with_its_datagram() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let to = UdpSocket::bind(address).unwrap();
            let ip = to.local_addr().unwrap().ip();
            let mut sources: Vec<_> = vec![UdpSocket::bind(address).unwrap()];
            let mut expected = vec![super::super::senders::bits(ip)];
            if ip.is_ipv4() {
                sources.push(UdpSocket::bind("127.9.8.7:0").unwrap());
                expected.push(0xffff_7f09_0807);
            }
            let mut batch = Batch::new(true);
            // Twice: the kernel has overwritten the lengths of the names.
            for _ in 0..2 {
                for (number, from) in sources.iter().enumerate() {
                    let bytes = [number as u8; 3];
                    from.send_to(&bytes, to.local_addr().unwrap()).unwrap();
                }
                let (mut numbers, mut got) = (Vec::new(), Vec::new());
                while got.len() < sources.len() {
                    assert!(batch.receive(to.as_fd()).unwrap() > 0, "nothing is lost");
                    numbers.extend(batch.datagrams().map(|datagram| usize::from(datagram[0])));
                    got.extend(batch.senders());
                    assert_eq!(numbers.len(), got.len());
                }
                assert!(numbers.iter().copied().eq(0..sources.len()), "{numbers:?}");
                assert_eq!(got, expected);
            }
            let mut without = Batch::new(false);
            sources[0].send_to(b"x", to.local_addr().unwrap()).unwrap();
            assert_eq!(without.receive(to.as_fd()).unwrap(), 1);
            assert_eq!(without.senders().count(), 0);
        }
    }

    #[test]
    fn an_error_is_told() {
        let file = tempfile::tempfile().unwrap();
        let error = Batch::new(false).receive(file.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
