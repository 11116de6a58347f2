//! The accept loop of a front end, and how its open connections end.
//!
//! HTTP and the MySQL wire accept connections in the same way. When `accept` fails (out of file descriptors, out of memory),
//! the loop logs it, pauses and tries again: open connections go on, and a busy loop helps nobody. It logs once for as long as
//! that lasts, and at most once a minute when it comes and goes: every connection that ends frees a descriptor, and the next
//! one takes it.

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
    failures: Failures,
}

impl Acceptor {
    /// For `front_end`, which is its name in the log.
    #[must_use]
    pub fn new(listener: TcpListener, front_end: &'static str) -> Self {
        Self {
            listener,
            front_end,
            opened: Instant::now(),
            failures: Failures::new(),
        }
    }

    /// The next connection and where it comes from. May be dropped while it waits: no connection is lost.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.failures.end();
                    return accepted;
                }
                Err(error) => {
                    if let Some(repeated) = self.failures.log(self.opened.elapsed()) {
                        let front_end = self.front_end;
                        warn!(%error, repeated, "Cannot accept {front_end} connections; trying on.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Which failures are worth a log line.
#[derive(Debug)]
struct Failures {
    /// Whether the last one failed, and that has been logged.
    failing: bool,
    lines: Limit,
}

impl Failures {
    const fn new() -> Self {
        Self {
            failing: false,
            lines: Limit::new(LOG_MS),
        }
    }

    /// An `accept` failed, so long after the start. Whether to log it: with how many lines were suppressed.
    fn log(&mut self, since: Duration) -> Option<u64> {
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut line = None;
        if !std::mem::replace(&mut self.failing, true) {
            line = self.lines.pass(now_ms);
            // What is suppressed now is logged when the minute is over, if it lasts until then.
            self.failing = line.is_some();
        }
        line
    }

    /// An `accept` succeeded.
    const fn end(&mut self) {
        self.failing = false;
    }
}

/// Waits until all connections have ended, but not longer than `grace`; what is left then is cut off.
pub async fn finish(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all).await.is_err() {
        connections.shutdown().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The log line of a failure at `at_ms` after the start.
    fn log(failures: &mut Failures, at_ms: u64) -> Option<u64> {
        failures.log(Duration::from_millis(at_ms))
    }

    #[test]
    fn what_comes_and_goes_is_logged_once_a_minute() {
        let mut failures = Failures::new();
        // Twenty times a second one cannot be had, and every second one can.
        let lines: Vec<_> = (0..3 * LOG_MS)
            .step_by(50)
            .filter_map(|at_ms| {
                if at_ms % 1000 == 0 {
                    failures.end();
                }
                log(&mut failures, at_ms).map(|repeated| (at_ms, repeated))
            })
            .collect();
        // The other failures of the first second belong to one that has been logged.
        let held_back = 59 * 20;
        assert_eq!(
            lines,
            [(0, 0), (LOG_MS, held_back), (2 * LOG_MS, held_back)]
        );
    }

    #[test]
    fn what_lasts_is_logged_once_and_also_when_it_began_too_soon() {
        let mut failures = Failures::new();
        assert_eq!(log(&mut failures, 0), Some(0));
        assert_eq!(log(&mut failures, 50), None);
        assert_eq!(log(&mut failures, 2 * LOG_MS), None, "it has been logged");
        failures.end();
        assert_eq!(log(&mut failures, 2 * LOG_MS), Some(0));
        failures.end();
        // Another one within the minute, which outlasts it.
        assert_eq!(log(&mut failures, 2 * LOG_MS + 100), None);
        assert_eq!(log(&mut failures, 3 * LOG_MS - 1), None);
        assert_eq!(log(&mut failures, 3 * LOG_MS), Some(2));
        assert_eq!(log(&mut failures, 9 * LOG_MS), None);
    }
}
