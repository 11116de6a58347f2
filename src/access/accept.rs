//! The accept loop of a front end, and the end of its open connections.
//!
//! HTTP and the MySQL listener accept connections in the same way. When `accept` fails (out of file
//! descriptors, out of memory), the loop logs the error at most once a minute, pauses and tries
//! again, so that open connections continue and the loop does not spin.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

use crate::telemetry::log::Limit;

/// Pause after a failed `accept`.
const PAUSE: Duration = Duration::from_millis(50);

/// Shortest time between two log lines about failures, milliseconds.
const LOG_MS: u64 = 60_000;

/// Accepts connections.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    /// Name of the front end for the log.
    front_end: &'static str,
    opened: Instant,
    failures_logged: Limit,
}

impl Acceptor {
    /// Creates an acceptor for `front_end`, its name in the log.
    pub(crate) fn new(listener: TcpListener, front_end: &'static str) -> Self {
        Self { listener, front_end, opened: Instant::now(), failures_logged: Limit::new(LOG_MS) }
    }

    /// Waits for the next connection and returns it with its peer's address. Cancel safe: no
    /// connection is lost.
    pub(crate) async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    let now_ms = u64::try_from(self.opened.elapsed().as_millis());
                    let line = self.failures_logged.pass(now_ms.unwrap_or(u64::MAX));
                    if let Some(repeated) = line {
                        let front_end = self.front_end;
                        warn!(%error, repeated, "Cannot accept {front_end} connections; retrying.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Waits at most `grace` for all connections to end, then aborts the rest.
pub(crate) async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        connections.shutdown().await;
    }
}
