//! Sums up samples of PHP's functions for the rows of [`Dataset::samples`].

use std::sync::Arc;
use std::time::Duration;

use super::dataset::{Coverage, Dataset, SAMPLE_KEYS};
use super::row::Gain;
use super::unflushed::UnflushedRows;
use crate::profile::Profile;
use crate::profile::definition::SampleReport;
use crate::profile::report::{KeyValue, OTHER, SampleRow, SampleRows};
use crate::report::row_key::key_of;
use crate::report::totals::Totals;

/// Sums up the samples that came since it last did so.
#[derive(Debug)]
pub(super) struct SampleRollup {
    profile: Arc<Profile>,
    report: SampleReport,
    dataset: Arc<Dataset>,
    /// The id of the last sample summed up.
    last_id: u64,
}

impl SampleRollup {
    /// Begins with the next sample: those restored from a snapshot were counted before.
    pub(super) fn new(profile: Arc<Profile>) -> Self {
        let last_id = profile.since(u64::MAX).1;
        let keys = SAMPLE_KEYS.into();
        let report = SampleReport { keys, filters: Vec::new(), window: Duration::MAX };
        Self { profile, report, dataset: Arc::new(Dataset::samples()), last_id }
    }

    /// Returns the rows of new samples, and the number of those that left the pool too early.
    pub(super) fn take(&mut self) -> (SampleRows, u64) {
        let (recent, last_id) = self.profile.since(self.last_id);
        let rows = SampleRows::new(&self.report, &recent);
        let taken: u64 = rows.rows.iter().map(|row| row.samples).sum();
        let came = last_id - self.last_id;
        self.last_id = last_id;
        (rows, came - taken)
    }

    /// Adds rows to those of a minute.
    pub(super) fn add_to(
        &self,
        running: &mut UnflushedRows,
        minute: u64,
        (rows, missed): &(SampleRows, u64),
    ) {
        for row in &rows.rows {
            let is_other = row.keys.iter().all(|key| *key == KeyValue::Text(OTHER.into()));
            let texts = row.keys.iter().map(|key| match key {
                KeyValue::Text(text) => text,
                KeyValue::Absent | KeyValue::Number(_) => "",
            });
            running.add(&self.dataset, minute, &key_of(texts), is_other, &gain_of(row));
        }
        if *missed > 0 {
            let lost = Coverage { missed: *missed, ..Coverage::default() };
            running.cover(&self.dataset.coverage_key(), minute, lost);
        }
    }
}

/// A row's samples as sums, in the columns of [`Dataset::samples`].
fn gain_of(row: &SampleRow) -> Gain {
    Gain::of(Totals {
        requests: row.samples,
        time: (row.seconds * 1e6).round() as u128,
        memory: row.memory_sum,
        ..Totals::ZERO
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::tests::{feed, profile, sample};
    use crate::report::row_key::key_texts;

    #[test]
    fn each_sample_is_summed_up_once_in_its_minute() {
        let (profile, mut intake, clock) = profile();
        clock.advance_ms(100_000);
        let mut feed = |elapsed: &[&str], function| {
            let lines: String = elapsed.iter().map(|it| sample(1, it, function)).collect();
            feed(&profile, &mut intake, 1, lines.as_bytes());
        };
        feed(&["1.00"], "before");
        let mut rollup = SampleRollup::new(Arc::clone(&profile));
        let mut running = UnflushedRows::default();
        let mut add = |minute| {
            let taken = rollup.take();
            assert_eq!(taken.1, 0);
            rollup.add_to(&mut running, minute, &taken);
        };
        feed(&["1.01", "1.02"], "a");
        feed(&["1.03"], "b");
        add(0);
        add(0);
        feed(&["1.04", "1.05"], "b");
        add(60);
        let mut seen = Vec::new();
        running.rows(&Dataset::samples(), 0..u64::MAX, |row| {
            let texts: Vec<String> = key_texts(&row.key).map(str::to_owned).collect();
            let Totals { requests, time, memory, .. } = row.gain.sum.totals;
            seen.push((row.time, texts[1..4].join(","), requests, time, memory));
        });
        seen.sort();
        // Ten milliseconds between two, and the first of a request takes none: four in 30 ms.
        assert_eq!(
            seen,
            [
                (0, "/a.php,,a".to_owned(), 2, 15_000, 14),
                (0, "/a.php,,b".to_owned(), 1, 7_500, 7),
                (60, "/a.php,,b".to_owned(), 2, 16_667, 14),
            ]
        );
    }

    #[test]
    fn samples_that_left_the_pool_too_early_are_counted() {
        let (profile, mut intake, clock) = profile();
        clock.advance_ms(100_000);
        let mut rollup = SampleRollup::new(Arc::clone(&profile));
        let lines: String = (0..1_000).map(|_| sample(1, "1.0", "a")).collect();
        for _ in 0..180 {
            feed(&profile, &mut intake, 1, lines.as_bytes());
        }
        let taken = rollup.take();
        let kept: u64 = taken.0.rows.iter().map(|row| row.samples).sum();
        assert!(kept <= 100_000 && kept > 90_000, "{kept}");
        assert_eq!(kept + taken.1, 180_000);
        let mut running = UnflushedRows::default();
        rollup.add_to(&mut running, 60, &taken);
        let mut missed = 0;
        running.rows(&Dataset::coverage(), 0..u64::MAX, |row| {
            missed += Coverage::of(&row.gain.sum.totals).missed;
        });
        assert_eq!(missed, taken.1);
    }
}
