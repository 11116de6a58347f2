//! The log's lines about what was lost before it could be counted in a report.
//!
//! Losses are counted at the sockets; nobody there logs a packet. A thread of the daemon looks at
//! the counters every second: the first loss is logged at once, then what was lost since, once a
//! minute, for as long as there is any, and the rest at the stop.

use tracing::warn;

use super::Counters;

/// Shortest time between two lines, milliseconds.
const APART_MS: u64 = 60_000;

/// What was lost between two readings of [`SocketCounters::losses`](super::SocketCounters).
fn between(before: [u64; 3], now: [u64; 3]) -> [u64; 3] {
    std::array::from_fn(|at| now[at].saturating_sub(before[at]))
}

/// Logs losses.
#[derive(Debug)]
pub struct LossLog {
    counters: Counters,
    /// The losses that have been logged.
    told: [u64; 3],
    told_ms: Option<u64>,
}

impl LossLog {
    /// Begins with what these counters say now.
    pub(crate) fn new(counters: Counters) -> Self {
        Self { told: counters.total().losses(), counters, told_ms: None }
    }

    /// Logs what was lost since the last line, if anything and that is long ago.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if self.told_ms.is_none_or(|told_ms| told_ms + APART_MS <= now_ms) && self.tell() {
            self.told_ms = Some(now_ms);
        }
    }

    /// Logs what was lost since the last line; returns whether anything was.
    pub(crate) fn tell(&mut self) -> bool {
        let now = self.counters.total().losses();
        let lost = between(self.told, now);
        self.told = now;
        if lost == [0; 3] {
            return false;
        }
        let [kernel_drops, requests_overwritten, receive_errors] = lost;
        warn!(
            kernel_drops,
            requests_overwritten,
            receive_errors,
            "Packets or requests were lost: `pinbad doctor --running` says what holds the daemon up. The next line about that is a \
             minute from now at the earliest."
        );
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_and_then_once_a_minute() {
        let counters = Counters::new(2);
        counters.sockets[0].kernel_drops.raise_to(5);
        let mut log = LossLog::new(counters.clone());
        let untold = |log: &mut LossLog, now_ms| {
            log.look(now_ms);
            between(log.told, counters.total().losses())
        };
        assert_eq!((untold(&mut log, 0), log.told_ms), ([0; 3], None));
        counters.sockets[1].requests_overwritten.add(7);
        assert_eq!(untold(&mut log, 1_000), [0; 3]);
        assert_eq!(log.told_ms, Some(1_000));
        counters.sockets[0].kernel_drops.raise_to(8);
        assert_eq!(untold(&mut log, 2_000), [3, 0, 0]);
        assert_eq!(untold(&mut log, 60_999), [3, 0, 0]);
        assert_eq!(untold(&mut log, 61_000), [0; 3]);
        assert_eq!(log.told_ms, Some(61_000));
        assert_eq!(untold(&mut log, 200_000), [0; 3]);
        assert_eq!(log.told_ms, Some(61_000), "nothing more was lost");
        counters.sockets[0].kernel_drops.raise_to(9);
        assert!(log.tell() && !log.tell());
    }
}
