//! The slowest raw requests that match a search.
//!
//! Ids only grow, times do not: every row has to be looked at. The walk goes from the newest down, [`CHUNK`] rows under one
//! hold of the lock, and ends after as many rows as the caller allows. What is kept is what is shown: a few rows.

use super::{CHUNK, Matcher, RawReader, RequestShown, RequestTable, show};
use crate::query::source::{Looked, RequestSearch, SlowestPage};
use crate::wire::micros;

impl RawReader {
    /// The slowest of the newest `looked_max` requests, as far as they match.
    #[must_use]
    pub fn slowest(&self, search: &RequestSearch, looked_max: usize) -> SlowestPage {
        let mut looked = Looked::default();
        let mut rows: Vec<RequestShown> = Vec::with_capacity(search.limit.min(1024));
        let mut before = u64::MAX;
        let mut more = search.limit > 0;
        while more && looked.requests < looked_max as u64 {
            let left = (looked_max as u64 - looked.requests).min(CHUNK);
            more = self.slowest_chunk(search, left, &mut before, &mut looked, &mut rows);
        }
        looked.all = !more;
        SlowestPage {
            table: Box::new(RequestTable {
                columns: self.columns.clone(),
                rows,
            }),
            looked,
        }
    }

    /// Looks at `left` rows below `before`, which moves down; false when there is nothing older.
    fn slowest_chunk(
        &self,
        search: &RequestSearch,
        left: u64,
        before: &mut u64,
        looked: &mut Looked,
        rows: &mut Vec<RequestShown>,
    ) -> bool {
        let live = self.live.read();
        let pool = &live.pool;
        let oldest = pool.requests.oldest_id();
        let mut matcher = Matcher::new(pool, search);
        *before = (*before).min(pool.requests.next_id());
        let stop = before.saturating_sub(left).max(oldest);
        while *before > stop {
            *before -= 1;
            let Some(row) = pool.requests.get(*before) else {
                return false;
            };
            looked.requests += 1;
            looked.oldest = row.timestamp;
            // Only one that is slower than the last of those kept: of equals the newest came first.
            let time = micros(row.request_time);
            let slower = |shown: &RequestShown| micros(shown.row.request_time) >= time;
            let full = rows.len() >= search.limit;
            if full && rows.last().is_some_and(slower) || !matcher.matches(&row) {
                continue;
            }
            if full {
                rows.pop();
            }
            let at = rows.partition_point(slower);
            rows.insert(at, show(pool, *before, row));
        }
        *before > oldest
    }
}
