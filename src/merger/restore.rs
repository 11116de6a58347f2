//! Restores the merger's data from a snapshot: rows, then reports, before anything is merged.
//!
//! Called at start by the reader of the snapshot, on a [`Live`] that is empty and not shared yet.
//! Time is that of the running process already: data that has left its window since the snapshot
//! was written is left out, or expires at the end.

use super::Live;
use crate::pool::snapshot::{Damage, PoolIds, SavedRows};
use crate::report::{NotRestored, ReportsRestore};

impl Live {
    /// Adds a chunk of raw rows; returns how many of them are still in the raw window.
    ///
    /// # Errors
    /// Fails if the chunk is not valid.
    pub fn restore_rows(&mut self, rows: &SavedRows, now_ms: u64) -> Result<u64, Damage> {
        let raw_window = self.raw_window;
        let gone = raw_window.last_gone(raw_window.at(now_ms));
        let taken = self.pool.restore_rows(rows, |ms| raw_window.at(ms), gone, now_ms);
        self.notify_freed();
        taken
    }

    /// Completes the restore: ids continue where they were, reports that were not restored are
    /// filled from the raw rows, and expired data leaves. Returns what was left out.
    pub fn finish_restore(
        &mut self,
        ids: Option<PoolIds>,
        reports: ReportsRestore,
        now_ms: u64,
    ) -> Vec<NotRestored> {
        if let Some(ids) = ids {
            self.pool.restore_ids(ids);
            self.notify_freed();
        }
        let left_out = reports.finish(&mut self.reports, &mut self.pool);
        self.advance(now_ms);
        left_out
    }
}
