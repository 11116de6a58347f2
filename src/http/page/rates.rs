//! What counters of the daemon's page grew by, a second.
//!
//! Rates are over the time since the page was last made, for whichever client: a page that nobody loaded for a minute shows none at first.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Readings that are further apart say little about now.
const APART_MAX: Duration = Duration::from_secs(60);

/// The counters of the last reading.
#[derive(Debug, Default)]
pub(in crate::http) struct Rates(Mutex<Option<(Instant, Vec<f64>)>>);

impl Rates {
    /// What each counter grew by a second since the last reading; `None`: there was none of late.
    pub(super) fn since(&self, now: Instant, counters: Vec<f64>) -> Option<Vec<f64>> {
        let mut last = self.0.lock();
        let rates = last.as_ref().and_then(|(then, before)| {
            let apart = now.duration_since(*then);
            let secs = apart.as_secs_f64();
            let rate = |(now, before): (&f64, &f64)| (now - before) / secs;
            (apart < APART_MAX && secs > 0.0)
                .then(|| counters.iter().zip(before).map(rate).collect())
        });
        *last = Some((now, counters));
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_between_readings() {
        let (rates, start) = (Rates::default(), Instant::now());
        assert_eq!(rates.since(start, vec![100.0, 7.0]), None);
        let later = start + Duration::from_secs(2);
        assert_eq!(rates.since(later, vec![300.0, 7.0]), Some(vec![100.0, 0.0]));
        assert_eq!(rates.since(later + APART_MAX, vec![400.0, 7.0]), None);
    }
}
