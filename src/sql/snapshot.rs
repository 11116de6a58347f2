//! Which rows one query sees, settled when it starts.
//!
//! Two ranges of ids, taken under one short hold of the lock of [`Live`](crate::merger::Live). Merged rows never change, and
//! evicted ones are held for a while, so a scan reads one moment without a copy; a scan that comes too late for a row fails
//! ([`expired`]). A report is read when it is first used, once per query.
//!
//! It travels in the extensions of the [`TaskContext`], so a plan holds no data and can run again.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use parking_lot::Mutex;

use super::error::SqlError;
use super::tables::ReportData;
use crate::merger::SharedLive;
use crate::query::catalog::Catalog;

/// The rows of one query.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Ids of requests.
    pub(super) requests: Range<u64>,
    /// Ids of their timers.
    pub(super) timers: Range<u64>,
    live: SharedLive,
    /// The columns that the query shows of each report.
    needed: HashMap<String, Vec<String>>,
    reports: Mutex<HashMap<String, Reading>>,
    /// Rows of the pools that were looked at.
    rows_read: AtomicU64,
}

/// A report that was read, or is being read by the first who asked.
type Reading = Arc<OnceLock<std::result::Result<ReportData, SqlError>>>;

impl Snapshot {
    /// What is in the pools now; `needed` are the columns that the query shows of each report.
    pub(super) fn take(catalog: &Catalog, needed: HashMap<String, Vec<String>>) -> Self {
        let live = Arc::clone(catalog.live());
        let (requests, timers) = {
            let live = live.read();
            let (requests, timers) = (&live.pool.requests, &live.pool.timers);
            (
                requests.oldest_id()..requests.next_id(),
                timers.oldest_id()..timers.next_id(),
            )
        };
        Self {
            requests,
            timers,
            live,
            needed,
            reports: Mutex::default(),
            rows_read: AtomicU64::new(0),
        }
    }

    /// The snapshot of the query that runs.
    pub(super) fn of(context: &TaskContext) -> Result<Arc<Self>> {
        let found = context.session_config().get_extension::<Self>();
        found.ok_or_else(|| DataFusionError::Internal("a query without a snapshot".to_owned()))
    }

    /// Where the rows are.
    pub(super) fn live(&self) -> &SharedLive {
        &self.live
    }

    /// So many rows were looked at.
    pub(super) fn count_rows(&self, rows: u64) {
        self.rows_read.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows of the pools that were looked at so far.
    #[cfg(test)]
    pub(super) fn rows_read(&self) -> u64 {
        self.rows_read.load(Ordering::Relaxed)
    }

    /// The columns that the query shows of a report, if it is known.
    pub(super) fn needed(&self, report: &str) -> Option<&[String]> {
        self.needed.get(report).map(Vec::as_slice)
    }

    /// A report, which `read` reads unless this query did so before under the same name for the same purpose.
    pub(super) fn report(
        &self,
        purpose: String,
        read: impl FnOnce() -> std::result::Result<ReportData, SqlError>,
    ) -> std::result::Result<ReportData, SqlError> {
        let reading = Arc::clone(self.reports.lock().entry(purpose).or_default());
        reading.get_or_init(read).clone()
    }
}

/// A row of the snapshot is gone.
pub(super) fn expired() -> DataFusionError {
    SqlError::interrupted(
        "the query took so long that rows it began with have left the pool (snapshot expired); ask for less, or read faster",
    )
    .into()
}
