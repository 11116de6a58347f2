//! The door of a front end: connections as they come in, and how those that are open end.
//!
//! HTTP and the MySQL wire take connections in the same way. When the kernel has none to give (out of file descriptors, out of
//! memory), the door says so once, waits a moment and tries on: what is connected goes on, and a busy loop helps nobody.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

/// How long the door waits when the kernel gave no connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Where connections come in.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    /// Whose connections they are, for the log.
    front_end: &'static str,
    /// Whether the last one could not be had.
    failing: bool,
}

impl Door {
    /// The door of `front_end`, which is named so in the log.
    #[must_use]
    pub const fn new(listener: TcpListener, front_end: &'static str) -> Self {
        Self {
            listener,
            front_end,
            failing: false,
        }
    }

    /// The next connection and where it comes from. May be dropped while it waits: no connection is lost.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.failing = false;
                    return accepted;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        let front_end = self.front_end;
                        warn!(%error, "Cannot accept {front_end} connections; trying on.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Waits until all connections have ended, but not longer than `grace`; what is left then is cut off.
pub async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        connections.shutdown().await;
    }
}
