//! The bare receive loop that the daemon is compared with: `recvmmsg` into the same buffers, and nothing else.
//!
//! A process of its own (`pinbad bench-part sink`). It opens its sockets as the daemon does, says where on stdout, and
//! answers each line on stdin with what it has received and what the kernel has dropped. It ends when stdin does.

use std::io::{self, BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::ingest::batch::Batch;
use crate::ingest::kernel;
use crate::ingest::socket;

/// Receives and counts until stdin ends.
///
/// # Errors
/// When a socket, a thread or stdout cannot be had.
pub(super) fn run(receivers: u32, recv_buffer_bytes: u32) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sockets = socket::open(&[address], receivers as usize, recv_buffer_bytes as usize)
        .map_err(io::Error::other)?;
    let mut out = io::stdout();
    writeln!(
        out,
        "{} {}",
        sockets[0].address, sockets[0].buffer.granted_bytes
    )?;
    out.flush()?;
    let received = Arc::new(AtomicU64::new(0));
    for socket in &sockets {
        let (socket, received) = (Arc::clone(&socket.socket), Arc::clone(&received));
        // Never joined: it receives until the process ends.
        thread::Builder::new()
            .name("sink".to_owned())
            .spawn(move || {
                let mut batch = Batch::new();
                loop {
                    if let Ok(packets) = batch.receive(socket.as_fd()) {
                        // Looked at, or the compiler might think that nobody needs the bytes.
                        std::hint::black_box(batch.datagrams().last());
                        received.fetch_add(packets as u64, Ordering::Relaxed);
                    }
                }
            })?;
    }
    for line in io::stdin().lock().lines() {
        line?;
        let mut drops = 0;
        for socket in &sockets {
            drops += u64::from(kernel::read(socket.socket.as_fd())?.drops);
        }
        writeln!(out, "{} {drops}", received.load(Ordering::Relaxed))?;
        out.flush()?;
    }
    Ok(())
}
