//! A window: how far back reports reach, in ticks of the monotonic clock.
//!
//! A record belongs to the tick in which it was merged and is inside a window of N ticks as long as that tick is one of
//! the last N, the running one included. A tick is `max(1 s, window / 120)` wide (whole milliseconds, rounded up).

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pool::snapshot::Damage;

/// The division of a window into ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ticks {
    /// Width of one, milliseconds.
    pub tick_ms: u64,
    /// How many make the window.
    pub count: u64,
}

impl Ticks {
    /// The ticks of a window.
    #[must_use]
    pub fn of(window: Duration) -> Self {
        let window_ms = u64::try_from(window.as_millis())
            .unwrap_or(u64::MAX / 2)
            .max(1);
        let tick_ms = window_ms.div_ceil(120).max(1000);
        Self {
            tick_ms,
            count: window_ms.div_ceil(tick_ms).max(1),
        }
    }

    /// The tick that runs at `now_ms`.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> u64 {
        now_ms / self.tick_ms
    }

    /// The youngest tick that is outside the window while `tick` runs; `None` while nothing can be.
    #[must_use]
    pub fn last_gone(&self, tick: u64) -> Option<u64> {
        tick.checked_sub(self.count)
    }
}

/// When data came in, tick by tick: what `covered_seconds` is made of.
#[derive(Debug)]
pub(super) struct Coverage {
    ticks: Ticks,
    /// First and last merge of every tick in the window with data, milliseconds.
    seen: VecDeque<(u64, u64)>,
}

impl Coverage {
    pub(super) fn new(ticks: Ticks) -> Self {
        Self {
            ticks,
            seen: VecDeque::new(),
        }
    }

    /// Something was merged at `now_ms`.
    pub(super) fn merged(&mut self, now_ms: u64) {
        let tick = self.ticks.at(now_ms);
        match self.seen.back_mut() {
            Some((_, last)) if self.ticks.at(*last) == tick => *last = now_ms,
            _ => self.seen.push_back((now_ms, now_ms)),
        }
    }

    /// Drops the ticks that are outside the window at `now_ms`.
    pub(super) fn advance(&mut self, now_ms: u64) {
        let Some(gone) = self.ticks.last_gone(self.ticks.at(now_ms)) else {
            return;
        };
        let ticks = self.ticks;
        while self
            .seen
            .pop_front_if(|(first, _)| ticks.at(*first) <= gone)
            .is_some()
        {}
    }

    /// First and last merge of each tick with data.
    pub(super) fn save(&self) -> Vec<(u64, u64)> {
        self.seen.iter().copied().collect()
    }

    /// What was [saved](Self::save); none of it may be later than `now_ms`.
    pub(super) fn restore(ticks: Ticks, saved: &[(u64, u64)], now_ms: u64) -> Result<Self, Damage> {
        let mut coverage = Self::new(ticks);
        let mut after = 0;
        for &(first, last) in saved {
            let tick = ticks.at(first);
            let before = coverage.seen.back();
            let is_new = before.is_none_or(|&(other, _)| ticks.at(other) < tick);
            if first < after || last < first || last > now_ms || ticks.at(last) != tick || !is_new {
                return Err(Damage("data came in at a time that cannot be"));
            }
            after = last;
            coverage.seen.push_back((first, last));
        }
        match saved.len() as u64 <= ticks.count + 1 {
            true => Ok(coverage),
            false => Err(Damage("data came in at too many times")),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.seen.clear();
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        self.seen.capacity() * size_of::<(u64, u64)>()
    }

    /// Whole seconds between the oldest and the newest data in the window, from 1 to the window.
    pub(super) fn covered_secs(&self, window_ms: u64) -> u64 {
        let (Some(&(first, _)), Some(&(_, last))) = (self.seen.front(), self.seen.back()) else {
            return 1;
        };
        let span_ms = last.saturating_sub(first);
        (span_ms.min(window_ms) / 1000).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_a_120th_but_never_below_a_second() {
        let ticks = |secs| Ticks::of(Duration::from_secs(secs));
        assert_eq!(
            ticks(900),
            Ticks {
                tick_ms: 7_500,
                count: 120
            }
        );
        assert_eq!(
            ticks(60),
            Ticks {
                tick_ms: 1_000,
                count: 60
            }
        );
        assert_eq!(
            ticks(5),
            Ticks {
                tick_ms: 1_000,
                count: 5
            }
        );
        assert_eq!(
            ticks(86_400),
            Ticks {
                tick_ms: 720_000,
                count: 120
            }
        );
        assert_eq!(
            Ticks::of(Duration::from_millis(1_500)),
            Ticks {
                tick_ms: 1_000,
                count: 2
            }
        );
        assert_eq!(
            ticks(200),
            Ticks {
                tick_ms: 1_667,
                count: 120
            }
        );
    }

    #[test]
    fn covered_is_the_span_of_the_data() {
        let mut coverage = Coverage::new(Ticks::of(Duration::from_secs(10)));
        assert_eq!(coverage.covered_secs(10_000), 1);
        coverage.merged(500);
        assert_eq!(coverage.covered_secs(10_000), 1);
        coverage.merged(4_700);
        assert_eq!(coverage.covered_secs(10_000), 4);
        coverage.advance(10_900);
        assert_eq!(
            coverage.covered_secs(10_000),
            1,
            "the first second has left"
        );
    }
}
