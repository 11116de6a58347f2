//! What the kernel knows of a socket and we cannot count ourselves: the datagrams it threw away because the receive
//! buffer was full, and how full that is.
//!
//! A receiver asks once a second between two batches, and whoever shows the counters asks again, so the figure is
//! never old. `getsockopt(SO_MEMINFO)` (Linux 4.12) costs 0.4 µs; where it is missing, `/proc/net/udp` is read, which
//! walks every UDP socket of the machine (54 µs with one of them, more on a busy one: why it is not the first
//! choice). Both count in 32 bits that wrap round; the exported counter does not.
//!
//! The `unsafe` code is one call that writes to an array on the stack of its function; no pointer survives it.
#![expect(
    unsafe_code,
    reason = "socket2 and rustix have no SO_MEMINFO; 150 times faster than /proc/net/udp"
)]

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use socket2::Socket;

use crate::telemetry::SocketCounters;

/// Values that `SO_MEMINFO` has (`SK_MEMINFO_VARS` in linux/sock_diag.h); a later kernel may know more of them, and
/// fills in as many as there is room for.
const MEMINFO_VALUES: usize = 9;

/// What the kernel says of one socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SocketMemory {
    /// Datagrams dropped since the socket was opened; wraps round at 2^32.
    pub drops: u32,
    /// Bytes that wait in the receive buffer, as the kernel counts them (with its own book-keeping).
    pub queued_bytes: u32,
}

/// What all UDP sockets of this machine may hold together, bytes (`net.ipv4.udp_mem`, the last figure); `None`: not shown
/// here, as in a network namespace of its own.
#[must_use]
pub fn udp_memory_max() -> Option<u64> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/udp_mem").ok()?;
    let pages: u64 = text.split_whitespace().nth(2)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

/// Keeps the kernel's figures in the counters of one socket up to date. Any thread may ask.
#[derive(Debug, Clone)]
pub struct KernelGauge {
    socket: Arc<Socket>,
    counters: Arc<SocketCounters>,
}

impl KernelGauge {
    /// The gauge of `socket`, whose counters are `counters`.
    #[must_use]
    pub const fn new(socket: Arc<Socket>, counters: Arc<SocketCounters>) -> Self {
        Self { socket, counters }
    }

    /// Reads the kernel's figures into the counters.
    ///
    /// # Errors
    /// When neither `SO_MEMINFO` nor `/proc/net/udp` can be read; the counters stay as they were.
    pub fn refresh(&self) -> io::Result<()> {
        let memory = read(self.socket.as_fd())?;
        self.counters.kernel_drops.raise_to(memory.drops);
        self.counters
            .kernel_queue_bytes
            .set(u64::from(memory.queued_bytes));
        Ok(())
    }
}

/// The number by which the kernel knows a socket, in whichever process it is, until the machine is restarted; 0 when it
/// does not say.
#[must_use]
pub fn cookie(socket: &Socket) -> u64 {
    rustix::net::sockopt::socket_cookie(socket).unwrap_or_default()
}

/// The kernel's figures for `socket`, from whichever source there is.
///
/// # Errors
/// What `/proc/net/udp` says when `SO_MEMINFO` is missing too.
pub fn read(socket: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    read_meminfo(socket).or_else(|_| read_proc(socket))
}

fn read_meminfo(socket: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    let mut values = [0_u32; MEMINFO_VALUES];
    let mut bytes = size_of_val(&values) as libc::socklen_t;
    let to = values.as_mut_ptr().cast();
    // SAFETY: the file descriptor is open (borrowed); `to` and `bytes` give an array on this stack, of integers, and
    // its length, which the kernel does not write beyond.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            to,
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(SocketMemory {
        drops: values[libc::SK_MEMINFO_DROPS as usize],
        queued_bytes: values[libc::SK_MEMINFO_RMEM_ALLOC as usize],
    })
}

/// The line of the socket in `/proc/net/udp` or `udp6`, found by the number of its inode.
fn read_proc(socket: BorrowedFd<'_>) -> io::Result<SocketMemory> {
    let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd()))?;
    let link = link.to_string_lossy();
    let inode = link
        .strip_prefix("socket:[")
        .and_then(|rest| rest.strip_suffix(']'));
    let inode = inode.ok_or_else(|| io::Error::other(format!("{link} is not a socket")))?;
    for table in ["/proc/self/net/udp", "/proc/self/net/udp6"] {
        let found = fs::read_to_string(table)?
            .lines()
            .find_map(|line| parse_proc(line, inode));
        if let Some(memory) = found {
            return Ok(memory);
        }
    }
    Err(io::Error::other(format!(
        "no UDP socket with inode {inode} in /proc/net"
    )))
}

/// `sl local rem st tx_queue:rx_queue tr:when retrnsmt uid timeout inode ref pointer drops`, if it is `inode`'s.
fn parse_proc(line: &str, inode: &str) -> Option<SocketMemory> {
    let mut fields = line.split_ascii_whitespace();
    let queues = fields.nth(4)?;
    if fields.nth(4)? != inode {
        return None;
    }
    let drops = fields.nth(2)?.parse().ok()?;
    let (_, queued) = queues.split_once(':')?;
    Some(SocketMemory {
        drops,
        queued_bytes: u32::from_str_radix(queued, 16).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A socket with the smallest buffer, `sent` datagrams of 1,000 bytes, and how many of them it still had.
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
        let both = loop {
            let both = [
                read_meminfo(to.as_fd()).unwrap(),
                read_proc(to.as_fd()).unwrap(),
            ];
            if both[0] == both[1] && both[0].drops > 0 || start.elapsed() > PATIENCE {
                break both;
            }
        };
        assert_eq!(both[0], both[1], "two ways to the same figures");
        assert!(both[0].queued_bytes > 0);
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
            assert_eq!(
                memory,
                SocketMemory {
                    drops: 100 - kept,
                    queued_bytes: 0
                },
                "{address}"
            );
        }
    }

    #[test]
    fn the_gauge_writes_to_the_counters_once() {
        let (socket, kept) = overfull("127.0.0.1:0", 50);
        let counters = Arc::new(SocketCounters::default());
        let gauge = KernelGauge::new(socket, Arc::clone(&counters));
        for _ in 0..2 {
            gauge.refresh().unwrap();
            assert_eq!(counters.kernel_drops.get(), u64::from(50 - kept));
        }
    }

    #[test]
    fn lines_of_proc_are_found_by_inode() {
        let line = "  430: 0100007F:7532 00000000:0000 07 00000000:0001F500 00:00000000 00000000     0        0 17253 2 00000000cd8e2dfb 4294967295";
        let memory = SocketMemory {
            drops: u32::MAX,
            queued_bytes: 0x1f500,
        };
        assert_eq!(parse_proc(line, "17253"), Some(memory));
        assert_eq!(parse_proc(line, "1725"), None);
        assert_eq!(
            parse_proc(
                "  sl  local_address rem_address   st tx_queue rx_queue",
                "0"
            ),
            None
        );
    }

    #[test]
    fn what_is_no_socket_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(read(file.as_fd()).is_err());
    }
}
