//! The accept loop of a front end, and how its open connections end.
//!
//! HTTP and the MySQL wire accept connections in the same way. When `accept` fails (out of file
//! descriptors, out of memory), the loop logs it, at most once a minute, pauses and tries again:
//! open connections go on, and a busy loop helps nobody.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

use crate::telemetry::log::Limit;

/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(50);

/// One log line about failures in this time.
const LOG_MS: u64 = 60_000;

/// Accepts connections.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    /// Whose connections they are, for the log.
    front_end: &'static str,
    opened: Instant,
    failures_logged: Limit,
}

impl Acceptor {
    /// For `front_end`, which is its name in the log.
    #[must_use]
    pub fn new(listener: TcpListener, front_end: &'static str) -> Self {
        Self {
            listener,
            front_end,
            opened: Instant::now(),
            failures_logged: Limit::new(LOG_MS),
        }
    }

    /// The next connection and where it comes from. May be dropped while it waits: no connection is
    /// lost.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    let now_ms = u64::try_from(self.opened.elapsed().as_millis());
                    let line = self.failures_logged.pass(now_ms.unwrap_or(u64::MAX));
                    if let Some(repeated) = line {
                        let front_end = self.front_end;
                        warn!(%error, repeated, "Cannot accept {front_end} connections; trying on.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Waits until all connections have ended, but not longer than `grace`; what is left then is cut
/// off.
pub async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        connections.shutdown().await;
    }
}
