//! A window: how far back reports reach, in ticks of the monotonic clock.
//!
//! A record belongs to the tick in which it was merged and is inside a window of N ticks as long as
//! that tick is one of the last N, including the running one. A tick is `max(1 s, window / 120)`
//! wide (whole milliseconds, rounded up).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The division of a window into ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticks {
    /// Width of a tick in milliseconds.
    pub tick_ms: u64,
    /// Number of ticks in the window.
    pub count: u64,
}

impl Ticks {
    /// The ticks of a window.
    pub fn of(window: Duration) -> Self {
        let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX / 2).max(1);
        let tick_ms = window_ms.div_ceil(120).max(1000);
        Self { tick_ms, count: window_ms.div_ceil(tick_ms).max(1) }
    }

    /// The tick at `now_ms`.
    pub fn at(&self, now_ms: u64) -> u64 {
        now_ms / self.tick_ms
    }

    /// The latest tick outside the window while `tick` runs; `None` while there is none.
    pub fn last_gone(&self, tick: u64) -> Option<u64> {
        tick.checked_sub(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_a_120th_but_never_below_a_second() {
        let ticks = |secs| Ticks::of(Duration::from_secs(secs));
        assert_eq!(ticks(900), Ticks { tick_ms: 7_500, count: 120 });
        assert_eq!(ticks(60), Ticks { tick_ms: 1_000, count: 60 });
        assert_eq!(ticks(5), Ticks { tick_ms: 1_000, count: 5 });
        assert_eq!(ticks(86_400), Ticks { tick_ms: 720_000, count: 120 });
        assert_eq!(Ticks::of(Duration::from_millis(1_500)), Ticks { tick_ms: 1_000, count: 2 });
        assert_eq!(ticks(200), Ticks { tick_ms: 1_667, count: 120 });
    }
}
