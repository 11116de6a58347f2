//! Growing delays between attempts to reach a server that fails.
//!
//! The first delay doubles with each further failure up to the longest one. Each varies by a fifth,
//! so that many daemons do not come back at the same moment.

use std::time::Duration;

/// Attempts at something, in milliseconds of the monotonic clock.
#[derive(Debug)]
pub struct BackOff {
    first_ms: u64,
    longest_ms: u64,
    /// The present delay; 0 unless the last attempt failed.
    delay_ms: u64,
    next_ms: u64,
}

impl BackOff {
    /// Allows the first attempt at once.
    pub const fn new(first_ms: u64, longest_ms: u64) -> Self {
        Self { first_ms, longest_ms, delay_ms: 0, next_ms: 0 }
    }

    /// Returns whether the next attempt may be made.
    pub const fn is_over(&self, now_ms: u64) -> bool {
        now_ms >= self.next_ms
    }

    /// Records a failed attempt, after which the server asked for this delay, if any. Returns
    /// whether the attempt before had succeeded.
    pub fn failed(&mut self, now_ms: u64, asked: Option<Duration>) -> bool {
        let is_first = self.delay_ms == 0;
        self.delay_ms = (self.delay_ms * 2).clamp(self.first_ms, self.longest_ms);
        let chance = ahash::RandomState::new().hash_one(now_ms) % 401;
        let varied_ms = self.delay_ms * (800 + chance) / 1_000;
        self.next_ms = now_ms + asked.map_or(varied_ms, |asked| asked.as_millis() as u64);
        is_first
    }

    /// Records a successful attempt. Returns whether the one before had failed.
    pub const fn succeeded(&mut self) -> bool {
        let has_failed = self.delay_ms > 0;
        self.delay_ms = 0;
        has_failed
    }

    /// Allows no further attempt.
    pub const fn end(&mut self) {
        self.next_ms = u64::MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_vary_by_a_fifth_and_have_an_end() {
        let (mut back_off, mut now_ms) = (BackOff::new(1_000, 3_000), 7);
        assert!(back_off.is_over(now_ms) && !back_off.succeeded());
        for (nth, delay_ms) in [1_000, 2_000, 3_000, 3_000].into_iter().enumerate() {
            assert_eq!(back_off.failed(now_ms, None), nth == 0);
            assert!(!back_off.is_over(now_ms + delay_ms * 4 / 5 - 1));
            now_ms += delay_ms * 6 / 5;
            assert!(back_off.is_over(now_ms));
        }
        assert!(!back_off.failed(now_ms, Some(Duration::from_secs(100))));
        assert!(!back_off.is_over(now_ms + 99_999) && back_off.is_over(now_ms + 100_000));
        assert!(back_off.succeeded() && !back_off.succeeded());
        assert!(back_off.failed(now_ms, None), "from the start again");
        back_off.end();
        assert!(!back_off.is_over(u64::MAX - 1));
    }
}
