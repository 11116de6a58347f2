//! The highest rate at which a part loses nothing and keeps up.
//!
//! First as fast as the sender can: if that is lossless, the sender is the limit. If not, the answer lies between
//! nothing and that, near what the part got done; the interval is halved until it is narrow enough or the trials are
//! used up. A trial that failed by bad luck costs precision, never the bound.

use std::time::Duration;

use super::BenchError;
use super::part::Part;
use super::trial::{self, Trial};
use crate::load::{LoadOptions, Packets};
use crate::shutdown::Shutdown;

/// Narrow enough, as a share of the rate.
const PRECISION: f64 = 0.04;

/// How a search ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    /// Packets a second, the highest that was seen lossless; 0 when none was.
    pub(super) rate: f64,
    /// Whether the sender could not send faster.
    pub(super) sender_bound: bool,
    /// The trial at full speed.
    pub(super) flood: Trial,
}

/// Searches with trials of `duration`, `trials_max` of them after the one at full speed.
pub(super) fn highest_lossless(
    part: &mut Part,
    packets: &Packets,
    load: &LoadOptions,
    duration: Duration,
    trials_max: u32,
    shutdown: &Shutdown,
) -> Result<Found, BenchError> {
    let flood = trial::run(part, packets, load, 0.0, duration, shutdown)?;
    let mut found = Found {
        rate: flood.rate(),
        sender_bound: true,
        flood,
    };
    if flood.kept_up() {
        return Ok(found);
    }
    found.rate = 0.0;
    found.sender_bound = false;
    let mut bounds = Bounds::new(flood.rate(), flood.done_rate());
    for _ in 0..trials_max {
        let Some(rate) = bounds.next() else { break };
        let trial = trial::run(part, packets, load, rate, duration, shutdown)?;
        // A sender that does not reach the rate has shown less than was asked for.
        let kept_up = trial.kept_up();
        if kept_up {
            found.rate = found.rate.max(trial.rate());
        }
        bounds.tried(rate, kept_up);
    }
    Ok(found)
}

/// What is known of the rate: lossless up to `low`, not from `high`.
#[derive(Debug)]
struct Bounds {
    low: f64,
    high: f64,
    /// Tried first.
    guess: Option<f64>,
}

impl Bounds {
    fn new(high: f64, guess: f64) -> Self {
        Self {
            low: 0.0,
            high,
            guess: Some(guess.min(high * 0.97)),
        }
    }

    /// The rate to try, unless it is known well enough.
    fn next(&mut self) -> Option<f64> {
        if let Some(guess) = self.guess.take() {
            return Some(guess);
        }
        let wide = self.high - self.low > self.high * PRECISION;
        // While nothing has worked yet: not half, but somewhat less.
        let next = if self.low == 0.0 {
            self.high * 0.85
        } else {
            f64::midpoint(self.low, self.high)
        };
        wide.then_some(next)
    }

    fn tried(&mut self, rate: f64, kept_up: bool) {
        if kept_up {
            self.low = self.low.max(rate);
        } else {
            self.high = self.high.min(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found when `limit` is the truth, and with how many trials.
    fn search(limit: f64, flood: f64, guess: f64, trials_max: u32) -> (f64, u32) {
        let mut bounds = Bounds::new(flood, guess);
        for trial in 0..trials_max {
            let Some(rate) = bounds.next() else {
                return (bounds.low, trial);
            };
            bounds.tried(rate, rate <= limit);
        }
        (bounds.low, trials_max)
    }

    #[test]
    fn closes_in_on_the_limit_from_either_side() {
        for (limit, guess) in [
            (200.0, 190.0),
            (200.0, 240.0),
            (100.0, 290.0),
            (290.0, 50.0),
        ] {
            let (found, trials) = search(limit, 300.0, guess, 20);
            assert!(
                found <= limit && found >= limit * 0.93,
                "{found} of {limit}"
            );
            assert!(trials <= 12, "{trials} trials for {limit}");
        }
        let (found, trials) = search(200.0, 300.0, 195.0, 4);
        assert!(found >= 190.0 && trials <= 4, "{found} after {trials}");
    }
}
