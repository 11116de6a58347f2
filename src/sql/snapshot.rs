//! The rows of the pools that one query sees. Taken at its first read, so a query that reads none
//! does not wait for the lock.
//!
//! Two ranges of ids, taken under one short hold of the lock of [`Live`](crate::merger::Live).
//! Merged rows never change, and evicted ones are held for a while, so a scan sees one moment
//! without a copy; a scan that comes too late for a row fails ([`expired`]). It travels in the
//! extensions of the [`TaskContext`], so a plan holds no data and can run again.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;

use super::error::SqlError;
use crate::merger::{SharedLive, answering};

/// The rows visible to one query.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) live: SharedLive,
    /// Ids of requests, and of their timers; taken at the first read.
    ids: OnceLock<[Range<u64>; 2]>,
    /// Pool rows read so far.
    rows_read: AtomicU64,
}

impl Snapshot {
    /// The snapshot of a query about to run.
    pub(super) fn new(live: &SharedLive) -> Self {
        Self { live: Arc::clone(live), ids: OnceLock::new(), rows_read: AtomicU64::new(0) }
    }

    /// The snapshot of the running query. Takes the lock, so the caller must not hold it.
    pub(super) fn of(context: &TaskContext) -> Result<Arc<Self>> {
        let found = context.session_config().get_extension::<Self>();
        let nowhere = || DataFusionError::Internal("a query without a snapshot".to_owned());
        let snapshot = found.ok_or_else(nowhere)?;
        snapshot.ids();
        Ok(snapshot)
    }

    /// Ids of requests, and of their timers.
    fn ids(&self) -> &[Range<u64>; 2] {
        self.ids.get_or_init(|| {
            let live = answering(&self.live);
            let (requests, timers) = (&live.pool.requests, &live.pool.timers);
            [requests.oldest_id()..requests.next_id(), timers.oldest_id()..timers.next_id()]
        })
    }

    /// Ids of requests.
    pub(super) fn requests(&self) -> &Range<u64> {
        &self.ids()[0]
    }

    /// Ids of their timers.
    pub(super) fn timers(&self) -> &Range<u64> {
        &self.ids()[1]
    }

    /// Counts rows read.
    pub(super) fn count_rows(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Pool rows read so far.
    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }
}

/// The error for a row of the snapshot that is gone.
pub(super) fn expired() -> DataFusionError {
    SqlError::interrupted(
        "the query took so long that rows it began with have left the pool (snapshot expired); ask for less, or read faster",
    )
    .into()
}
