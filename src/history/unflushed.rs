//! Rows in memory: gains of keys in the minutes since the last flush.
//!
//! Filled by the series thread and read under the same lock; then passed to the history thread, and
//! immutable from then on. Bytes are counted row by row; when they are too many, rows are shrunk
//! ([`UnflushedRows::shrink`]), with exact sums.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ahash::RandomState;
use datafusion::arrow::array::RecordBatch;

pub(super) use self::rows::Scratch;
use self::rows::{KeptRow, ROW_BYTES, Rows};
use super::Resolution;
use super::columns::BatchBuilder;
use super::dataset::{COVERAGE, Coverage, Dataset};
use super::log_of_seconds::Fresh;
use super::parquet::BATCH_ROWS;
use super::row::{Gain, Row};
use super::store::Lost;
use crate::delta::{RowDelta, RowKey};
use crate::report::encoded_gain::EncodedGain;
use crate::report::totals::Extremes;
use crate::report::{FIRST_ID, OTHER_ID};
use crate::value::row_memory::{Heft, Weight, divide};

mod rows;

/// Bytes per time, in addition to its rows.
const MOMENT_BYTES: usize = 64;

/// Rows of some datasets, by time and key.
#[derive(Debug, Default)]
pub struct UnflushedRows {
    parts: Vec<Part>,
    /// The part last added to.
    last: usize,
    /// Computes ids of keys, and breaks ties between rows of equal weight.
    hasher: RandomState,
    scratch: Scratch,
    /// A copy of additions for the log of seconds, if there is one.
    pub(super) fresh: Option<Fresh>,
}

/// The rows of one dataset.
#[derive(Debug)]
struct Part {
    dataset: Arc<Dataset>,
    /// The key of the overflow rows.
    other_key: Vec<u8>,
    /// Rows by time.
    moments: BTreeMap<u64, Rows>,
}

impl UnflushedRows {
    /// Adds to the row of a key in a dataset.
    pub fn add(&mut self, of: &Arc<Dataset>, time: u64, key: &[u8], is_other: bool, gain: &Gain) {
        let mut packed = Vec::new();
        gain.sum.encode(&mut packed, true);
        self.add_encoded(of, time, (key, is_other), (EncodedGain(&packed), gain.extremes));
    }

    /// The same of a gain that is encoded.
    pub(super) fn add_encoded(
        &mut self,
        dataset: &Arc<Dataset>,
        time: u64,
        (key, is_other): (&[u8], bool),
        (encoded, extremes): (EncodedGain<'_>, Extremes),
    ) {
        let (totals, times) = encoded.read();
        let id = if is_other { OTHER_ID } else { self.hasher.hash_one(key).max(FIRST_ID) };
        let row = RowDelta { id, key: RowKey::Bytes(key), encoded, totals, times, extremes };
        self.add_row(dataset, time, &row);
    }

    /// Adds to the row of an id. A key with several ids has several rows.
    pub(super) fn add_row(&mut self, dataset: &Arc<Dataset>, time: u64, row: &RowDelta<'_>) {
        let part = self.part(dataset);
        let Part { moments, other_key, .. } = &mut self.parts[part];
        let times = row.times.as_ref().map(|times| times.bytes);
        let gained = (&row.totals, &row.extremes, times);
        let key = if row.id == OTHER_ID { &RowKey::Bytes(other_key) } else { &row.key };
        let rows = moments.entry(time).or_default();
        // A row lasts for a few files at most, so these numbers tell them apart; 0 is none.
        let file = self.fresh.as_ref().map_or(0, |fresh| (fresh.file % 65_535) as u16 + 1);
        let is_known = rows.add((row.id, key), gained, &mut self.scratch, file);
        if let Some(fresh) = &mut self.fresh {
            fresh.add(dataset, time, row, is_known);
        }
    }

    /// Adds coverage of a dataset with this [key](Dataset::coverage_key) in a minute.
    pub(super) fn cover(&mut self, of: &[u8], minute: u64, more: Coverage) {
        self.add(&COVERAGE, minute, of, false, &more.gain());
    }

    /// The index of a dataset's part, created if missing.
    fn part(&mut self, dataset: &Arc<Dataset>) -> usize {
        let is_it = |part: &Part| Arc::ptr_eq(&part.dataset, dataset);
        if !self.parts.get(self.last).is_some_and(is_it) {
            let known = self.parts.iter().position(|it| it.dataset == *dataset);
            self.last = known.unwrap_or_else(|| {
                let (dataset, other_key) = (Arc::clone(dataset), dataset.other_key());
                self.parts.push(Part { dataset, other_key, moments: BTreeMap::new() });
                self.parts.len() - 1
            });
        }
        self.last
    }

    /// The datasets that have rows.
    pub fn datasets(&self) -> impl Iterator<Item = &Arc<Dataset>> {
        self.parts.iter().map(|part| &part.dataset)
    }

    /// Passes the rows of a dataset within a span of time to `each`, by time.
    pub fn rows(&self, dataset: &Dataset, span: Range<u64>, mut each: impl FnMut(&Row)) {
        let (buckets, mut scratch) = (&dataset.buckets, Scratch::default());
        for (of, row) in self.stored(dataset, span) {
            each(&row.encoded(of, buckets, &mut scratch).decoded(buckets));
        }
    }

    /// The rows of a dataset in stored form, in no particular order.
    pub(super) fn batches(&self, dataset: &Dataset) -> Vec<RecordBatch> {
        let mut to = BatchBuilder::pending(dataset, Resolution::Minute);
        let mut scratch = Scratch::default();
        let mut batches = Vec::new();
        let mut rows = self.stored(dataset, 0..u64::MAX).peekable();
        while rows.peek().is_some() {
            for (of, row) in rows.by_ref().take(BATCH_ROWS) {
                to.push_stored(&row.encoded(of, &dataset.buckets, &mut scratch));
            }
            batches.push(to.finish());
        }
        batches
    }

    /// Likewise, in memory form: each with its time, and whether it is the overflow row.
    pub(super) fn stored(
        &self,
        dataset: &Dataset,
        span: Range<u64>,
    ) -> impl Iterator<Item = ((u64, bool), &KeptRow)> {
        let part = self.parts.iter().find(|it| *it.dataset == *dataset);
        let part = part.filter(|_| !span.is_empty());
        part.map(|part| part.moments.range(span)).into_iter().flatten().flat_map(|(&time, rows)| {
            rows.rows().map(move |(is_other, row)| ((time, is_other), row))
        })
    }

    /// The times of its rows.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|it| it.moments.keys().copied())
    }

    /// The first time of a row within a span, without those of coverage.
    pub(crate) fn first_time_in(&self, span: Range<u64>) -> Option<u64> {
        let parts = self.parts.iter().filter(|it| !it.dataset.is_coverage());
        parts.filter_map(|it| it.moments.range(span.clone()).next()).map(|(time, _)| *time).min()
    }

    /// The number of rows of each report.
    pub(super) fn lens(&self) -> impl Iterator<Item = (&str, usize)> {
        let parts = self.parts.iter().filter(|it| !it.dataset.is_coverage());
        parts.map(|it| (&*it.dataset.report, it.moments.values().map(Rows::len).sum()))
    }

    /// Whether it has no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes taken: counted by the minute.
    pub(crate) fn bytes(&self) -> usize {
        let moments = self.parts.iter().flat_map(|part| part.moments.values());
        moments.map(|rows| MOMENT_BYTES + rows.bytes()).sum()
    }

    /// The span from the first time of its rows to one past the last.
    pub(crate) fn span(&self) -> Range<u64> {
        let end = self.times().max().map_or(0, |last| last + 1);
        self.times().min().unwrap_or_default()..end
    }

    /// Shrinks to three quarters of `bytes_max`. Rows without their histograms may have four fifths
    /// of that; the lightest beyond, by time and requests, are merged into `(other)`. Then the
    /// lightest of the rest lose their histograms. If it still exceeds `bytes_max`, because the
    /// disk has been stuck for long, the oldest minutes go. Coverage stays as long as its minute
    /// does. Returns what was given up.
    pub fn shrink(&mut self, bytes_max: usize) -> Coverage {
        // Logged rows are shrunk again when they are read.
        let fresh = self.fresh.take();
        let parts = self.parts.iter().filter(|it| !it.dataset.is_coverage());
        let rows = parts.flat_map(|it| it.moments.values().flat_map(Rows::rows));
        let heft = |(_, row): (bool, &KeptRow)| {
            let bytes = ROW_BYTES + row.key().len();
            (row.weight(&self.hasher), bytes as u32, row.histogram_bytes() as u32)
        };
        let rows: Vec<Heft> = rows.filter(|(is_other, _)| !is_other).map(heft).collect();
        let of_rows: usize = rows.iter().map(|row| row.1 as usize + row.2 as usize).sum();
        let room = (bytes_max / 4 * 3).saturating_sub(self.bytes().saturating_sub(of_rows));
        let mut shrunk = self.fold(divide(rows, room, room / 5 * 4));
        shrunk.rows_lost = self.drop_oldest(bytes_max);
        self.fresh = fresh;
        shrunk
    }

    /// Merges rows up to one weight into `(other)`, and drops the histograms of those up to
    /// another.
    fn fold(&mut self, up_to: [Option<Weight>; 2]) -> Coverage {
        let Self { parts, hasher, .. } = self;
        let mut shrunk = Coverage::default();
        let mut covers = Vec::new();
        for part in parts.iter_mut().filter(|it| !it.dataset.is_coverage()) {
            for (&minute, rows) in &mut part.moments {
                let cover = rows.fold(&part.other_key, up_to, hasher);
                shrunk.add_missing(&cover);
                covers.push((part.dataset.coverage_key(), minute, cover));
            }
        }
        self.cover_all(covers);
        shrunk
    }

    /// Drops the oldest minutes until it has at most this many bytes; keeps the newest. The next
    /// one records how many rows were lost. Returns their number.
    fn drop_oldest(&mut self, bytes_max: usize) -> u64 {
        let mut lost = 0;
        while self.bytes() > bytes_max {
            let start = self.span().start;
            let Some(next) = self.times().filter(|time| *time > start).min() else { break };
            let mut covers = Vec::new();
            for part in &mut self.parts {
                let Some(rows) = part.moments.remove(&start) else { continue };
                let rows_lost = rows.len() as u64;
                lost += rows_lost;
                if part.dataset.is_coverage() {
                    // Coverage of earlier minutes.
                    covers.extend(rows.rows().map(|(_, row)| {
                        let of = Coverage::of(&row.totals());
                        (row.key().to_vec(), next, Coverage { secs: 0, ..of })
                    }));
                } else {
                    let cover = Coverage { rows_lost, ..Coverage::default() };
                    covers.push((part.dataset.coverage_key(), next, cover));
                }
            }
            self.parts.retain(|it| !it.moments.is_empty());
            self.last = 0;
            self.cover_all(covers);
        }
        lost
    }

    /// Adds coverage, by key and second.
    pub(super) fn cover_all(&mut self, covers: impl IntoIterator<Item = Lost>) {
        for (of, time, more) in covers {
            if more != Coverage::default() {
                self.cover(&of, Resolution::Minute.begin(time), more);
            }
        }
    }
}

#[cfg(test)]
mod tests;
