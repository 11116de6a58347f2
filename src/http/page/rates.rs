//! Rates of counters on the daemon's pages.
//!
//! Rates are over the last seconds in which the page was built, for any client, and say how many: a
//! page that nobody loaded for a minute shows none at first.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Shortest span of rates, once the page has been viewed that long.
const APART: Duration = Duration::from_secs(5);
/// Readings farther apart say little about now.
const APART_MAX: Duration = Duration::from_secs(60);

/// The counters of the last readings.
#[derive(Debug, Default)]
pub(in crate::http) struct Rates(Mutex<VecDeque<(Instant, Vec<f64>)>>);

impl Rates {
    /// The rate of each counter, and the number of seconds; `None` if there was no recent reading,
    /// or one of other counters.
    pub(super) fn since(&self, now: Instant, counters: Vec<f64>) -> Option<(f64, Vec<f64>)> {
        let mut readings = self.0.lock();
        let is_of_use = |it: &(Instant, Vec<f64>)| {
            now.duration_since(it.0) < APART_MAX && it.1.len() == counters.len()
        };
        readings.retain(is_of_use);
        // Keeps the newest that is old enough.
        while readings.get(1).is_some_and(|it| now.duration_since(it.0) >= APART) {
            readings.pop_front();
        }
        let rates = readings.front().and_then(|(then, before)| {
            let secs = now.duration_since(*then).as_secs_f64();
            let rate = |(now, before): (&f64, &f64)| (now - before) / secs;
            (secs > 0.0).then(|| (secs, counters.iter().zip(before).map(rate).collect()))
        });
        // Pages are built once a second, those with other parameters more often.
        let is_new =
            |it: &(Instant, Vec<f64>)| now.duration_since(it.0) >= Duration::from_millis(500);
        if readings.back().is_none_or(is_new) {
            readings.push_back((now, counters));
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_last_seconds() {
        let (rates, start) = (Rates::default(), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        assert_eq!(rates.since(start, vec![100.0, 7.0]), None);
        let first = rates.since(after(2), vec![300.0, 7.0]);
        assert_eq!(first, Some((2.0, vec![100.0, 0.0])));
        // Back to the first, and then to the newest that is five seconds old.
        let second = rates.since(after(6), vec![900.0, 7.0]);
        assert_eq!(second, Some((6.0, vec![800.0 / 6.0, 0.0])));
        let third = rates.since(after(8), vec![1500.0, 7.0]);
        assert_eq!(third, Some((6.0, vec![200.0, 0.0])));
        assert_eq!(rates.since(after(9), vec![1.0]), None);
        assert_eq!(rates.since(after(80), vec![400.0, 7.0]), None);
    }
}
