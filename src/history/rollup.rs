//! From the seconds of the stream to the rows of running minutes, and for how long there were which reports.
//!
//! Runs on the series thread alone. A minute is one of UTC by the wall clock at the merge: set back, more is gained in minutes that
//! were there before; set forward, it leaves a gap.

use std::collections::HashMap;
use std::sync::Arc;

use super::dataset::Coverage;
use super::{Batch, Dataset, History, Resolution};
use crate::delta::{RowDelta, RowReader, Second};
use crate::report::Watched;

/// The most seconds in which a daemon counts as running when nothing ended them: more is a stop of the process.
const SECS_MAX: u64 = 3_600;

/// Adds up what rows gain.
#[derive(Debug)]
pub struct Rollup {
    history: History,
    error_status: u32,
    coverage: Arc<Dataset>,
    /// Of the reports that were watched in the last second, by number.
    datasets: HashMap<u64, Arc<Dataset>>,
}

impl Rollup {
    /// Adds to the memory of `history`. A status from `error_status` on is an error.
    #[must_use]
    pub fn new(history: History, error_status: u32) -> Self {
        Self {
            history,
            error_status,
            coverage: Arc::new(Dataset::coverage()),
            datasets: HashMap::new(),
        }
    }

    /// Takes a second in. `missed`: requests of seconds before it that were dropped unread.
    pub fn take(&mut self, second: &Second, missed: u64) {
        self.take_rows(second, missed, |rows| second.read(&mut [rows]));
    }

    /// The same, with its rows from `read`.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        self.follow(second);
        let kept = second.reports().filter(|it| it.is_kept);
        // Reports share records: those of the one with most are counted.
        let folded = kept.map(|it| second.folded(it)).max().unwrap_or(0);
        let reached = second.reached.clone();
        self.history.take(missed, folded, reached, |running| {
            read(&mut Adding {
                running,
                minute: Resolution::Minute.begin(second.unix_secs),
                datasets: &self.datasets,
                dataset: None,
            });
            for report in second.reports() {
                if let Some(dataset) = self.datasets.get(&report.number) {
                    let folded = second.folded(report);
                    self.cover(dataset, second, [missed, folded], running);
                }
            }
        });
    }

    /// Knows the datasets of the reports that are kept.
    fn follow(&mut self, second: &Second) {
        let kept: Vec<&Arc<Watched>> = second.reports().filter(|it| it.is_kept).collect();
        let is_kept = |number: u64| kept.iter().any(|it| it.number == number);
        self.datasets.retain(|&number, _| is_kept(number));
        for report in kept {
            let of = || Arc::new(Dataset::of(&report.definition, self.error_status));
            self.datasets.entry(report.number).or_insert_with(of);
        }
    }

    /// Writes down that there was a report for some seconds, which may be of several minutes.
    fn cover(
        &self,
        dataset: &Dataset,
        second: &Second,
        missed_and_folded: [u64; 2],
        running: &mut Batch,
    ) {
        let (mut at, mut left) = (second.unix_secs, second.secs.min(SECS_MAX));
        let [mut missed, mut keys_folded] = missed_and_folded.map(u128::from);
        loop {
            let minute = Resolution::Minute.begin(at);
            let secs = left.min(minute + Resolution::Minute.secs() - at);
            let ran = Coverage {
                secs,
                missed,
                keys_folded,
                ..Coverage::default()
            };
            running.cover(&self.coverage, dataset, minute, ran);
            (at, left, missed, keys_folded) = (at + secs, left - secs, 0, 0);
            if left == 0 {
                return;
            }
        }
    }
}

/// Adds rows to those of their minute.
struct Adding<'a> {
    running: &'a mut Batch,
    minute: u64,
    datasets: &'a HashMap<u64, Arc<Dataset>>,
    /// Of the report at hand, if it is kept.
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

    fn end(&mut self) {}
}
