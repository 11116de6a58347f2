//! Load for daemons that are killed: numbered packets at a steady rate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Sends numbered packets at a steady rate to whoever is there; nothing to nobody.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    sent: AtomicU64,
    to: Mutex<Option<SocketAddr>>,
    pub(crate) over: AtomicBool,
}

impl Traffic {
    /// Sends until it is over. What was missed while the machine did something else is not made up
    /// for: losses are counted in packets.
    pub(crate) fn run(&self, rate: u64, packet: fn(u64) -> Vec<u8>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        while !self.over.load(Ordering::SeqCst) {
            // Not while it is sent, so that nothing is sent any more once there is nobody.
            let to = self.to.lock().unwrap();
            if let Some(to) = *to {
                for _ in 0..(rate / 500).max(1) {
                    let n = self.sent.fetch_add(1, Ordering::SeqCst);
                    socket.send_to(&packet(n), to).unwrap();
                }
            }
            drop(to);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends there from now on; how many were sent until now.
    pub(crate) fn turn(&self, to: Option<SocketAddr>) -> u64 {
        *self.to.lock().unwrap() = to;
        self.sent.load(Ordering::SeqCst)
    }
}

/// Ends the traffic, also of a test that fails.
pub(crate) struct Over<'a>(pub(crate) &'a Traffic);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}
