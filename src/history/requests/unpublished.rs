//! Requests that are in no file yet: in pieces, collected ones, and after those the ones only in
//! the pool, each with weight 1. All have one encoding, and are read as the columns of files.

use std::io;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use super::packed::{Kept, REQUEST, TIMER, unpack};
use crate::history::columns::{BatchBuilder, Cell};
use crate::history::pending::PackedRows;
use crate::history::{Dataset, Resolution};
use crate::merger::{SharedLive, answering};

/// Rows of the pool that are copied under one hold of its lock.
const COPIED: usize = 256;

/// Requests in transit to the disk at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Unpublished {
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

impl Unpublished {
    /// When the oldest was received, in unix seconds.
    pub(super) fn kept_from(&self) -> Option<u64> {
        let collected = self.kept.iter().map(|(_, kept)| kept.received);
        let pooled = answering(&self.live).pool.requests.held(self.ids.start);
        let pooled = pooled.map(|row| row.timestamp);
        collected.chain(pooled).min().map(u64::from)
    }

    /// The rows of a table, encoded, of some requests at a time.
    pub(super) fn packed(mut self, table: &'static str) -> PackedRows {
        let dataset = Dataset::raw(table);
        let mut to = BatchBuilder::pending(&dataset, Resolution::Minute);
        let (mut at, mut packed) = (0, Vec::new());
        let mut next = move || {
            if at == self.kept.len() {
                (at, self.kept) = (0, self.copy()?);
            }
            let some = self.kept.iter().skip(at).take(COPIED);
            at += some.len();
            let has_any = some.len() > 0;
            for (weight, kept) in some {
                packed.clear();
                if kept.push(table, *weight, &mut packed) > 0 {
                    to.push_cells([Cell::Bytes(Some(&packed))]);
                }
            }
            io::Result::Ok(has_any.then(|| to.finish()))
        };
        PackedRows::new(Box::new(iter::from_fn(move || next().transpose())))
    }

    /// The next rows of the pool, each with weight 1.
    fn copy(&mut self) -> io::Result<Arc<[(f64, Kept)]>> {
        let pool = &answering(&self.live).pool;
        let mut scratch = Vec::new();
        let ids = self.ids.by_ref().take(COPIED);
        let rows = ids.map(|id| {
            let left = || io::Error::other("requests left the memory while they were read");
            let row = pool.requests.held(id).ok_or_else(left)?;
            let kept = Kept::copy(pool, (self.run, id), &row, &mut scratch);
            Ok((1.0, kept))
        });
        rows.collect()
    }
}

/// Adds an encoded row to a table's columns: tags are stored with their requests.
pub(super) fn push(table: &str, packed: &[u8], to: &mut BatchBuilder) -> io::Result<()> {
    if table == TIMER {
        to.push_timers(&unpack(packed)?);
        return Ok(());
    }
    let (request, weight) = unpack(packed)?;
    match table {
        REQUEST => to.push_request(&request, weight),
        _ => to.push_tags(&request, weight),
    }
    Ok(())
}
