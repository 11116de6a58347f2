//! Data of the kernel on a socket: the datagrams it dropped because the receive buffer was full,
//! and how full that is.
//!
//! A receiver reads them once a second between two batches, and so does everything that shows the
//! counters, so the figures are never old. `getsockopt(SO_MEMINFO)` exists since Linux 4.12 and
//! counts in 32 bits that wrap; the exported counter does not.
//!
//! The `unsafe` code is one call that writes to an array on its function's stack; no pointer
//! survives it.
#![expect(unsafe_code, reason = "socket2 and rustix have no SO_MEMINFO")]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Weak};

use socket2::Socket;

use crate::telemetry::SocketCounters;

/// Number of values of `SO_MEMINFO` (`SK_MEMINFO_VARS` in linux/sock_diag.h); a later kernel may
/// have more, and writes as many as there is room for.
const MEMINFO_VALUES: usize = 9;

/// The kernel's data on one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketMemory {
    /// Datagrams dropped since the socket was opened; wraps at 2^32.
    pub drops: u32,
    /// Bytes waiting in the receive buffer, as the kernel counts them (including its own
    /// book-keeping).
    pub queued_bytes: u32,
}

/// The limit in bytes for all UDP sockets of this machine together (`net.ipv4.udp_mem`, the last
/// figure); `None` if not visible, as in a separate network namespace.
pub fn udp_memory_max() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/udp_mem").ok()?;
    let pages: u64 = text.split_whitespace().nth(2)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Keeps the kernel's figures in the counters of one socket up to date. Usable on any thread; it
/// does not keep the socket open, which is its receiver's alone.
#[derive(Debug, Clone)]
pub struct KernelGauge {
    socket: Weak<Socket>,
    counters: Arc<SocketCounters>,
}

impl KernelGauge {
    /// The gauge of `socket`, whose counters are `counters`.
    pub fn new(socket: &Arc<Socket>, counters: Arc<SocketCounters>) -> Self {
        Self { socket: Arc::downgrade(socket), counters }
    }

    /// Reads the kernel's figures into the counters. Those of a closed socket stay as they were.
    ///
    /// # Errors
    /// Fails if the kernel does not answer; the counters stay as they were.
    pub fn refresh(&self) -> io::Result<()> {
        let Some(socket) = self.socket.upgrade() else { return Ok(()) };
        let memory = read(socket.as_fd())?;
        self.counters.kernel_drops.raise_to(memory.drops);
        self.counters.kernel_queue_bytes.set(u64::from(memory.queued_bytes));
        Ok(())
    }
}

/// The kernel's id for a socket, the same in every process until reboot; 0 if unavailable.
pub fn cookie(socket: &Socket) -> u64 {
    rustix::net::sockopt::socket_cookie(socket).unwrap_or_default()
}

/// The kernel's figures for `socket`.
///
/// # Errors
/// Errors of the kernel, for instance one without `SO_MEMINFO`.
pub fn read(socket: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    let mut values = [0_u32; MEMINFO_VALUES];
    let mut bytes = size_of_val(&values) as libc::socklen_t;
    let to = values.as_mut_ptr().cast();
    // SAFETY: the file descriptor is open (borrowed); `to` and `bytes` give an array on this stack,
    // of integers, and its length, which the kernel does not write beyond.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut bytes)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SocketMemory {
        drops: values[libc::SK_MEMINFO_DROPS as usize],
        queued_bytes: values[libc::SK_MEMINFO_RMEM_ALLOC as usize],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A socket with the smallest buffer, `sent` datagrams of 1,000 bytes, and how many of them it
    /// still has.
    fn overfull(address: &str, sent: u32) -> (Arc<Socket>, u32) {
        let to = UdpSocket::bind(address).unwrap();
        let from = UdpSocket::bind(address).unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let to = Socket::from(to);
        to.set_recv_buffer_size(1).unwrap();
        for _ in 0..sent {
            from.send(&[0; 1000]).unwrap();
        }
        // A busy machine may be late with some.
        let start = Instant::now();
        let memory = loop {
            let memory = read(to.as_fd()).unwrap();
            if memory.drops > 0 || start.elapsed() > PATIENCE {
                break memory;
            }
        };
        assert!(memory.queued_bytes > 0);
        let to = UdpSocket::from(to);
        to.set_nonblocking(true).unwrap();
        let mut kept = 0;
        loop {
            kept += u32::from(to.recv(&mut [0; 2000]).is_ok());
            let drops = read(to.as_fd()).unwrap().drops;
            if kept + drops == sent {
                return (Arc::new(Socket::from(to)), kept);
            }
            assert!(start.elapsed() < PATIENCE, "{kept} and {drops} of {sent}");
        }
    }

    #[test]
    fn every_datagram_is_received_or_dropped() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (socket, kept) = overfull(address, 100);
            assert!(kept < 100, "the buffer was to overflow");
            let memory = read(socket.as_fd()).unwrap();
            assert_eq!(memory, SocketMemory { drops: 100 - kept, queued_bytes: 0 }, "{address}");
        }
    }

    #[test]
    fn the_gauge_writes_to_the_counters_once() {
        let (socket, kept) = overfull("127.0.0.1:0", 50);
        let counters = Arc::new(SocketCounters::default());
        let gauge = KernelGauge::new(&socket, Arc::clone(&counters));
        for _ in 0..2 {
            gauge.refresh().unwrap();
            assert_eq!(counters.kernel_drops.get(), u64::from(50 - kept));
        }
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(read(file.as_fd()).is_err());
    }
}
