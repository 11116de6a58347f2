//! The samples that came since somebody asked last, summed up by keys.

use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::definition::{SampleKey, SampleReport};
use super::report::SampleRows;

/// Hands out each sample once, in the rows of a report.
#[derive(Debug)]
pub(crate) struct NewSamples {
    profile: Arc<Profile>,
    report: SampleReport,
    /// The id of the last sample handed out.
    last_id: u64,
}

impl NewSamples {
    /// Begins with the next sample.
    pub(crate) fn new(profile: Arc<Profile>, keys: &[SampleKey]) -> Self {
        let last_id = profile.since(u64::MAX).1;
        let report =
            SampleReport { keys: keys.to_vec(), filters: Vec::new(), window: Duration::MAX };
        Self { profile, report, last_id }
    }

    /// Returns the rows of new samples, and the number of those that left the pool before.
    pub(crate) fn take(&mut self) -> (SampleRows, u64) {
        let (recent, last_id) = self.profile.since(self.last_id);
        let rows = SampleRows::new(&self.report, &recent);
        let taken: u64 = rows.rows.iter().map(|row| row.samples).sum();
        let came = last_id - self.last_id;
        self.last_id = last_id;
        (rows, came - taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{feed, profile, sample};

    #[test]
    fn each_sample_is_handed_out_once() {
        let (profile, mut intake, clock) = profile();
        clock.advance_ms(100_000);
        let mut feed = |elapsed: &[&str], function| {
            let lines: String = elapsed.iter().map(|it| sample(1, it, function)).collect();
            feed(&profile, &mut intake, 1, lines.as_bytes());
        };
        feed(&["1.00"], "before");
        let mut new = NewSamples::new(Arc::clone(&profile), &[SampleKey::Function]);
        let mut take = || {
            let (rows, missed) = new.take();
            assert_eq!(missed, 0);
            let rows = rows.rows.iter();
            let mut rows: Vec<_> = rows
                .map(|row| {
                    let us = (row.seconds * 1e6).round() as u64;
                    (row.texts().collect::<String>(), row.samples, us, row.memory_sum)
                })
                .collect();
            rows.sort();
            rows
        };
        feed(&["1.01", "1.02"], "a");
        feed(&["1.03"], "b");
        // Four samples in 30 ms.
        assert_eq!(take(), [("a".to_owned(), 2, 15_000, 14), ("b".to_owned(), 1, 7_500, 7)]);
        assert_eq!(take(), []);
        feed(&["1.04", "1.05"], "b");
        assert_eq!(take(), [("b".to_owned(), 2, 16_667, 14)]);
    }

    #[test]
    fn samples_that_left_the_pool_too_early_are_counted() {
        let (profile, mut intake, clock) = profile();
        clock.advance_ms(100_000);
        let mut new = NewSamples::new(Arc::clone(&profile), &[SampleKey::Function]);
        let lines: String = (0..1_000).map(|_| sample(1, "1.0", "a")).collect();
        for _ in 0..180 {
            feed(&profile, &mut intake, 1, lines.as_bytes());
        }
        let (rows, missed) = new.take();
        let kept: u64 = rows.rows.iter().map(|row| row.samples).sum();
        assert!(kept <= 100_000 && kept > 90_000, "{kept}");
        assert_eq!(kept + missed, 180_000);
    }
}
