//! Requests that are not flushed yet: collected ones, and after those the ones only in the pool,
//! each with weight 1. They have the encoding of those in pieces, and like these they are read as
//! the columns of files.

use std::io;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::packed::{Kept, REQUEST, REQUEST_TAG, TIMER, unpack};
use crate::history::columns::{BatchBuilder, Batches, columns};
use crate::history::parquet::BATCH_ROWS;
use crate::history::resolution::hull;
use crate::history::{Dataset, Resolution};
use crate::merger::{SharedLive, answering};

/// Rows of the pool that are copied under one hold of its lock.
const COPIED: usize = 256;
/// Rows of the first batch.
const FIRST_ROWS: usize = 256;

/// Requests in transit to the disk at one moment.
#[derive(Debug, Clone)]
pub(crate) struct UnflushedRequests {
    /// The collected ones, with their weights.
    pub(super) kept: Arc<[(f64, Kept)]>,
    pub(super) live: SharedLive,
    /// Those only in the pool.
    pub(super) ids: Range<u64>,
    /// The run of requests merged now.
    pub(crate) run: u64,
    /// The first id of this run.
    pub(crate) begin: u64,
    /// Whether not all are kept.
    pub(crate) is_sample: bool,
}

impl UnflushedRequests {
    /// From when to when they were received, in unix seconds.
    pub(super) fn received(&self) -> Option<Range<u64>> {
        let collected = self.kept.iter().map(|(_, kept)| kept.received);
        let live = answering(&self.live);
        let ends = [self.ids.start, self.ids.end.saturating_sub(1)].into_iter();
        let pooled = ends.filter(|id| self.ids.contains(id));
        let pooled = pooled.filter_map(|id| live.pool.requests.held(id)).map(|row| row.timestamp);
        collected.chain(pooled).map(u64::from).map(|secs| secs..secs + 1).reduce(hull)
    }

    /// These columns of the rows of a table, of some requests at a time.
    pub(in crate::history) fn batches(mut self, dataset: &Dataset, columns: &[&str]) -> Batches {
        let (table, mut at) = (dataset.report.clone(), 0);
        unpacked(dataset, columns, move |to| {
            let mut count = 0;
            while count == 0 {
                if at == self.kept.len() {
                    (at, self.kept) = (0, self.copy()?);
                }
                let Some((weight, kept)) = self.kept.get(at) else { break };
                at += 1;
                count = kept.push(&table, *weight, to);
            }
            Ok(count > 0)
        })
    }

    /// The next rows of the pool, each with weight 1.
    fn copy(&mut self) -> io::Result<Arc<[(f64, Kept)]>> {
        let pool = &answering(&self.live).pool;
        let mut scratch = Vec::new();
        let ids = self.ids.by_ref().take(COPIED);
        let rows = ids.map(|id| {
            let left = || io::Error::other("requests left the memory while they were read");
            let row = pool.requests.held(id).ok_or_else(left)?;
            Ok((1.0, Kept::copy(pool, (self.run, id), &row, &mut scratch)))
        });
        rows.collect()
    }
}

/// The table of a table's rows in pieces, where tags are stored with their requests.
pub(in crate::history) fn packed_in(dataset: &Dataset) -> Dataset {
    if dataset.report == REQUEST_TAG { Dataset::raw(REQUEST) } else { dataset.clone() }
}

/// These columns of encoded rows in batches: few rows first, then twice as many each time, up to
/// the usual number. `next` appends the next row, if there is one.
pub(in crate::history) fn unpacked(
    dataset: &Dataset,
    wanted: &[&str],
    mut next: impl FnMut(&mut Vec<u8>) -> io::Result<bool> + Send + 'static,
) -> Batches {
    let (columns, is_wanted) = (columns(dataset), |name: &str| wanted.contains(&name));
    let mut to = BatchBuilder::new(dataset, Resolution::Minute, &columns, is_wanted);
    let (table, mut rows, mut packed) = (dataset.report.clone(), FIRST_ROWS, Vec::new());
    let mut read = move || {
        while to.rows < rows && next(&mut packed)? {
            match &*table {
                REQUEST => to.push_request(&unpack(&packed)?),
                TIMER => to.push_timers(&unpack(&packed)?),
                _ => to.push_tags(&unpack(&packed)?),
            }
            packed.clear();
        }
        rows = (rows * 2).min(BATCH_ROWS);
        io::Result::Ok((to.rows > 0).then(|| to.finish()))
    };
    Box::new(iter::from_fn(move || read().transpose()))
}
