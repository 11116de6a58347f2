//! The door of a front end: connections as they come in, and how those that are open end.
//!
//! HTTP and the MySQL wire take connections in the same way. When the kernel has none to give (out of file descriptors, out of
//! memory), the door says so, waits a moment and tries on: what is connected goes on, and a busy loop helps nobody. It says so
//! once for as long as that lasts, and at most once a minute when it comes and goes: with every connection that ends a place
//! becomes free, and the next one takes it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tracing::warn;

use crate::telemetry::log::Limit;

/// How long the door waits when the kernel gave no connection.
const PAUSE: Duration = Duration::from_millis(50);

/// One line about connections that could not be had in this time.
const LOG_MS: u64 = 60_000;

/// Where connections come in.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    /// Whose connections they are, for the log.
    front_end: &'static str,
    opened: Instant,
    refusals: Refusals,
}

impl Door {
    /// The door of `front_end`, which is named so in the log.
    #[must_use]
    pub fn new(listener: TcpListener, front_end: &'static str) -> Self {
        Self {
            listener,
            front_end,
            opened: Instant::now(),
            refusals: Refusals::new(),
        }
    }

    /// The next connection and where it comes from. May be dropped while it waits: no connection is lost.
    pub async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => {
                    self.refusals.end();
                    return accepted;
                }
                Err(error) => {
                    if let Some(repeated) = self.refusals.say(self.opened.elapsed()) {
                        let front_end = self.front_end;
                        warn!(%error, repeated, "Cannot accept {front_end} connections; trying on.");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Which of the connections that could not be had are worth a line.
#[derive(Debug)]
struct Refusals {
    /// Whether the last one could not be had, and that has been said.
    failing: bool,
    said: Limit,
}

impl Refusals {
    const fn new() -> Self {
        Self {
            failing: false,
            said: Limit::new(LOG_MS),
        }
    }

    /// One could not be had, so long after the door was opened. Whether to say so: with how many were held back.
    fn say(&mut self, since: Duration) -> Option<u64> {
        let now_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let mut line = None;
        if !std::mem::replace(&mut self.failing, true) {
            line = self.said.pass(now_ms);
            // What is held back now is said when the minute is over, if it lasts until then.
            self.failing = line.is_some();
        }
        line
    }

    /// One could be had.
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

    /// What is said when `at_ms` after the start a connection could not be had.
    fn say(refusals: &mut Refusals, at_ms: u64) -> Option<u64> {
        refusals.say(Duration::from_millis(at_ms))
    }

    #[test]
    fn what_comes_and_goes_is_said_once_a_minute() {
        let mut refusals = Refusals::new();
        // Twenty times a second one cannot be had, and every second one can.
        let lines: Vec<_> = (0..3 * LOG_MS)
            .step_by(50)
            .filter_map(|at_ms| {
                if at_ms % 1000 == 0 {
                    refusals.end();
                }
                say(&mut refusals, at_ms).map(|repeated| (at_ms, repeated))
            })
            .collect();
        // The first second's other failures are those of one that has been said.
        let held_back = 59 * 20;
        assert_eq!(
            lines,
            [(0, 0), (LOG_MS, held_back), (2 * LOG_MS, held_back)]
        );
    }

    #[test]
    fn what_lasts_is_said_once_and_also_when_it_began_too_soon() {
        let mut refusals = Refusals::new();
        assert_eq!(say(&mut refusals, 0), Some(0));
        assert_eq!(say(&mut refusals, 50), None);
        assert_eq!(say(&mut refusals, 2 * LOG_MS), None, "it has been said");
        refusals.end();
        assert_eq!(say(&mut refusals, 2 * LOG_MS), Some(0));
        refusals.end();
        // Another one within the minute, which outlasts it.
        assert_eq!(say(&mut refusals, 2 * LOG_MS + 100), None);
        assert_eq!(say(&mut refusals, 3 * LOG_MS - 1), None);
        assert_eq!(say(&mut refusals, 3 * LOG_MS), Some(2));
        assert_eq!(say(&mut refusals, 9 * LOG_MS), None);
    }
}
