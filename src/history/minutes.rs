//! Rolls the seconds of the stream up into rows of the running minutes, and records how long each
//! report existed.
//!
//! Runs on the series thread alone. Minutes are UTC minutes of the wall clock at the merge: when it
//! is set back, earlier minutes gain more; when it is set forward, a gap is left.

use std::collections::HashMap;
use std::sync::Arc;

use super::dataset::{Coverage, OF_SAMPLES, OF_SWAPS, SAMPLE_KEYS};
use super::{Dataset, Gain, History, Resolution, UnflushedRows};
use crate::delta::{RowDelta, RowReader, Second};
use crate::input::squid::sums::Swaps;
use crate::profile::{NewSamples, Profile};
use crate::report::Watched;
use crate::report::row_key::key_of;

/// The most seconds that count as running time when nothing ended them: more means that the process
/// was stopped.
const SECS_MAX: u64 = 3_600;

/// Rolls seconds up into the running minutes.
#[derive(Debug)]
pub struct MinuteRollup {
    history: History,
    error_status: u32,
    swaps: Arc<Dataset>,
    samples: Option<(Arc<Dataset>, NewSamples)>,
    /// Datasets of the reports watched in the last second, by number.
    datasets: HashMap<u64, Arc<Dataset>>,
}

impl MinuteRollup {
    /// Adds to the memory of `history`, with samples that come from now on. A status from
    /// `status` on is an error.
    pub(crate) fn new(history: History, status: u32, profile: Option<Arc<Profile>>) -> Self {
        let new = |profile| (Arc::new(Dataset::samples()), NewSamples::new(profile, &SAMPLE_KEYS));
        let (swaps, samples) = (Arc::new(Dataset::swaps()), profile.map(new));
        Self { history, error_status: status, swaps, samples, datasets: HashMap::new() }
    }

    /// Adds a second, with the rows from `read`. `missed`: requests of earlier seconds that were
    /// dropped unread.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        self.follow(second);
        let kept = second.reports().filter(|it| it.is_kept);
        // Reports share records: use the count of the report with most.
        let folded = kept.map(|it| second.folded(it)).max().unwrap_or(0);
        let minute = Resolution::Minute.begin(second.unix_secs);
        let datasets = &self.datasets;
        let sampled = self.samples.as_mut().map(|(dataset, new)| (&*dataset, new.take()));
        self.history.take(missed, folded, second.reached.clone(), |running| {
            read(&mut Adding { running, minute, datasets, dataset: None });
            for (texts, moved) in second.moves.iter() {
                let Swaps { count, bytes, timed, first_delay_us, total_us } = *moved;
                let counts = [count, bytes, timed, first_delay_us, total_us].map(u128::from);
                let gain = Gain::of(OF_SWAPS, counts);
                running.add(&self.swaps, minute, &key_of(texts), false, &gain);
            }
            if let Some((dataset, (rows, missed))) = sampled {
                for row in &rows.rows {
                    let us = (row.seconds * 1e6).round() as u128;
                    let gain = Gain::of(OF_SAMPLES, [row.samples.into(), us, row.memory_sum]);
                    running.add(dataset, minute, &key_of(row.texts()), row.is_other(), &gain);
                }
                if missed > 0 {
                    let lost = Coverage { missed, ..Coverage::default() };
                    running.cover(&dataset.coverage_key(), minute, lost);
                }
            }
            // For how long each report existed, which may be several minutes, and what was lost
            // before.
            let existed = second.unix_secs..second.unix_secs + second.secs.min(SECS_MAX);
            for report in second.reports() {
                let Some(dataset) = datasets.get(&report.number) else { continue };
                let (key, keys_folded) = (dataset.coverage_key(), second.folded(report));
                let mut lost = Coverage { missed, keys_folded, ..Coverage::default() };
                for (minute, secs) in Resolution::Minute.split(existed.clone()) {
                    running.cover(&key, minute, Coverage { secs, ..std::mem::take(&mut lost) });
                }
            }
        });
    }

    /// Updates the datasets of the reports that are kept.
    fn follow(&mut self, second: &Second) {
        let mut known = std::mem::take(&mut self.datasets);
        self.datasets.extend(second.reports().filter(|it| it.is_kept).map(|report| {
            let of = || Arc::new(Dataset::of(&report.definition, self.error_status));
            (report.number, known.remove(&report.number).unwrap_or_else(of))
        }));
    }
}

/// Adds rows to those of their minute.
struct Adding<'a> {
    running: &'a mut UnflushedRows,
    minute: u64,
    datasets: &'a HashMap<u64, Arc<Dataset>>,
    /// The dataset of the current report, if it is kept.
    dataset: Option<&'a Arc<Dataset>>,
}

impl RowReader for Adding<'_> {
    fn begin(&mut self, report: &Watched) {
        self.dataset = self.datasets.get(&report.number);
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        if let Some(dataset) = self.dataset {
            self.running.add_row(dataset, self.minute, row);
        }
    }
}
