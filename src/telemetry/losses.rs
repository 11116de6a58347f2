//! The log's lines about what was lost before it could be counted in a report.
//!
//! Losses are counted at the sockets; nobody there logs a packet. A thread of the daemon looks at
//! the counters every second: the first loss is logged at once, then what was lost since, once a
//! minute, for as long as there is any, and the rest at the stop.

use tracing::warn;

use super::Counters;

/// Shortest time between two lines, milliseconds.
const APART_MS: u64 = 60_000;

/// The kinds of losses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lost {
    kernel_drops: u64,
    requests_overwritten: u64,
    receive_errors: u64,
}

impl Lost {
    fn of(counters: &Counters) -> Self {
        let total = counters.total();
        Self {
            kernel_drops: total.kernel_drops.get(),
            requests_overwritten: total.requests_overwritten.get(),
            receive_errors: total.receive_errors.get(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            kernel_drops: self.kernel_drops.saturating_sub(before.kernel_drops),
            requests_overwritten: self
                .requests_overwritten
                .saturating_sub(before.requests_overwritten),
            receive_errors: self.receive_errors.saturating_sub(before.receive_errors),
        }
    }
}

/// Logs losses.
#[derive(Debug)]
pub struct LossLog {
    counters: Counters,
    /// The losses that have been logged.
    told: Lost,
    told_ms: Option<u64>,
}

impl LossLog {
    /// Begins with what these counters say now.
    pub(crate) fn new(counters: Counters) -> Self {
        Self { told: Lost::of(&counters), counters, told_ms: None }
    }

    /// Logs what was lost since the last line, if anything and that is long ago.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if self.told_ms.is_none_or(|told_ms| told_ms + APART_MS <= now_ms) && self.tell() {
            self.told_ms = Some(now_ms);
        }
    }

    /// Logs what was lost since the last line; returns whether anything was.
    pub(crate) fn tell(&mut self) -> bool {
        let now = Lost::of(&self.counters);
        let lost = now.since(self.told);
        self.told = now;
        if lost == Lost::default() {
            return false;
        }
        let Lost { kernel_drops, requests_overwritten, receive_errors } = lost;
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
            Lost::of(&counters).since(log.told)
        };
        assert_eq!((untold(&mut log, 0), log.told_ms), (Lost::default(), None));
        counters.sockets[1].requests_overwritten.add(7);
        assert_eq!(untold(&mut log, 1_000), Lost::default());
        assert_eq!(log.told_ms, Some(1_000));
        counters.sockets[0].kernel_drops.raise_to(8);
        assert_eq!(untold(&mut log, 2_000).kernel_drops, 3);
        assert_eq!(untold(&mut log, 60_999).kernel_drops, 3);
        assert_eq!(untold(&mut log, 61_000), Lost::default());
        assert_eq!(log.told_ms, Some(61_000));
        assert_eq!(untold(&mut log, 200_000), Lost::default());
        assert_eq!(log.told_ms, Some(61_000), "nothing more was lost");
        counters.sockets[0].kernel_drops.raise_to(9);
        assert!(log.tell() && !log.tell());
    }
}
