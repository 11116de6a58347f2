//! Removal of rows from the pool: by time, with their tick ([`Pool::expire`]), and for room, one
//! request at a time.
//!
//! Removed rows are held for a while ([`HELD_MS`]), so that running queries can finish. Epochs of
//! rows hold the names and tag sets in use (`reclaim`) and release them with their last row. Only
//! the merger's thread calls this.

use super::reclaim::{EPOCH_REQUESTS, EPOCHS_WITHOUT_ROWS, Epoch};
use super::requests::RequestRow;
use super::timers::TimerRow;
use super::{Freed, Pool};

/// Longest hold of rows removed with their tick, in milliseconds.
pub const HELD_MS: u64 = 10_000;

impl Pool {
    /// Lets the epoch of request `id` hold the ids that its rows use.
    #[inline]
    pub(super) fn hold(&mut self, id: u64, row: &RequestRow, timers: &[TimerRow]) {
        let (number, epoch) = self.epochs.open(id);
        if self.origins.hold(row.origin, number) {
            epoch.origins.push(row.origin);
        }
        if self.tag_sets.hold(row.request_tags, number) {
            epoch.tag_sets.push(row.request_tags);
        }
        for timer in timers {
            let strings = &mut self.strings;
            if self.tag_sets.hold_for_timer(timer.tags, number, strings) {
                epoch.tag_sets.push(timer.tags);
            }
        }
    }

    /// Removes the oldest request with its timers because a pool is full.
    pub(super) fn evict_oldest(&mut self) {
        let id = self.requests.oldest_id() + 1;
        self.rows_evicted += 1;
        self.evicted_to = id;
        self.evict_before(id);
    }

    /// Removes every request with an id below `id`, with its timers.
    fn evict_before(&mut self, id: u64) {
        self.requests.evict_before(id);
        // Rows with that id may have been evicted long ago because a pool was full: timers of the
        // oldest row still there stay.
        let first_timer = match self.requests.get(self.requests.oldest_id()) {
            Some(row) => self.timers.full_id(row.first_timer),
            None => self.timers.next_id(),
        };
        self.timers.evict_before(first_timer);
    }

    /// Releases evicted requests with ids below `id`, and their timers.
    pub(super) fn let_go_before(&mut self, id: u64) {
        self.requests.let_go_before(id);
        let first_timer = match self.requests.held(self.requests.held_id()) {
            Some(row) => self.timers.full_id(row.first_timer),
            None => self.timers.next_id(),
        };
        self.timers.let_go_before(first_timer);
    }

    /// Removes all rows of ticks up to and including `last_gone`, and releases what the oldest of
    /// them held; `now_ms` is monotonic. Returns false if nothing is left to release.
    pub fn expire(&mut self, last_gone: u64, now_ms: u64) -> bool {
        let oldest = self.requests.oldest_id();
        while let Some(&(tick, _)) = self.ticks.front() {
            if tick > last_gone {
                break;
            }
            self.ticks.pop_front();
            let next = self.ticks.front().map_or(self.requests.next_id(), |&(_, first)| first);
            self.evict_before(next);
        }
        if self.requests.oldest_id() != oldest {
            self.leaving.push_back((now_ms + HELD_MS, self.requests.oldest_id()));
        }
        while let Some(&(until_ms, id)) = self.leaving.front() {
            if until_ms > now_ms {
                break;
            }
            self.leaving.pop_front();
            self.let_go_before(id);
        }
        self.release_epoch()
    }

    /// Removes all rows without holding them: queries that read them fail.
    pub fn clear(&mut self) {
        self.ticks.clear();
        self.leaving.clear();
        self.activities.clear();
        self.evict_before(self.requests.next_id());
        self.let_go_before(self.requests.next_id());
        self.release_epochs();
    }

    /// Releases the epochs without held rows.
    pub(super) fn release_epochs(&mut self) {
        while self.release_epoch() {}
    }

    /// Releases the oldest epoch if it has no held rows; returns false otherwise.
    fn release_epoch(&mut self) -> bool {
        // Without raw data the last epochs are kept as if they still had rows.
        let oldest = if self.timers.size() == 0 && self.requests.is_empty() {
            self.requests.next_id().saturating_sub(EPOCHS_WITHOUT_ROWS * EPOCH_REQUESTS)
        } else {
            self.requests.held_id()
        };
        let Some(epoch) = self.epochs.pop_before(oldest) else { return false };
        self.let_go(&epoch);
        self.epochs.recycle(epoch);
        true
    }

    pub(super) fn let_go(&mut self, epoch: &Epoch) {
        for &id in &epoch.origins {
            if self.origins.let_go(id, &mut self.strings) {
                self.freed.origins.push(id);
            }
        }
        for &id in &epoch.tag_sets {
            if self.tag_sets.let_go(id, &mut self.strings) {
                self.freed.tag_sets.push(id);
            }
        }
    }

    /// Passes the ids freed since the last call to `forget`, if any. Call it before the next
    /// append.
    pub fn notify_freed(&mut self, forget: impl FnOnce(&Freed)) {
        let Freed { origins, tag_sets } = &self.freed;
        if !origins.is_empty() || !tag_sets.is_empty() {
            forget(&self.freed);
            self.freed.origins.clear();
            self.freed.tag_sets.clear();
        }
    }
}
