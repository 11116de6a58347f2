//! The slowest raw requests that match a search.
//!
//! Ids only grow, times do not: every row has to be looked at. The walk goes from the newest down, [`CHUNK`] rows under one
//! hold of the lock, and ends after as many rows as the caller allows. What is kept is what is shown: a few rows, whose names are
//! written out once it is known which of a chunk they are.

use super::{CHUNK, Matcher, RawReader, RequestShown, RequestTable, show};
use crate::input::record::micros;
use crate::pool::requests::RequestRow;
use crate::query::read_model::{RequestSearch, Scanned, SlowestPage};

/// One of the slowest so far.
struct Slow {
    id: u64,
    row: RequestRow,
    /// Written out before the lock is let go.
    shown: Option<RequestShown>,
}

impl RawReader {
    /// The slowest of the newest `scanned_max` requests, as far as they match.
    #[must_use]
    pub fn slowest(&self, search: &RequestSearch, scanned_max: usize) -> SlowestPage {
        let mut scanned = Scanned::default();
        let mut rows: Vec<Slow> = Vec::with_capacity(search.limit.min(1024));
        let mut before = u64::MAX;
        let mut more = search.limit > 0;
        while more && scanned.requests < scanned_max as u64 {
            let left = (scanned_max as u64 - scanned.requests).min(CHUNK);
            more = self.slowest_chunk(search, left, &mut before, &mut scanned, &mut rows);
        }
        scanned.all = !more;
        SlowestPage {
            table: Box::new(RequestTable {
                columns: self.columns.clone(),
                rows: rows.into_iter().filter_map(|slow| slow.shown).collect(),
            }),
            scanned,
        }
    }

    /// Looks at `left` rows below `before`, which moves down; false when there is nothing older.
    fn slowest_chunk(
        &self,
        search: &RequestSearch,
        left: u64,
        before: &mut u64,
        scanned: &mut Scanned,
        rows: &mut Vec<Slow>,
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
                break;
            };
            scanned.requests += 1;
            scanned.oldest = row.timestamp;
            // Only one that is slower than the last of those kept: of equals the newest came first.
            let time = micros(row.request_time);
            let slower = |slow: &Slow| micros(slow.row.request_time) >= time;
            let full = rows.len() >= search.limit;
            if full && rows.last().is_some_and(slower) || !matcher.matches(&row) {
                continue;
            }
            if full {
                rows.pop();
            }
            let at = rows.partition_point(slower);
            let id = *before;
            rows.insert(
                at,
                Slow {
                    id,
                    row,
                    shown: None,
                },
            );
        }
        for slow in rows.iter_mut() {
            let written = || show(pool, slow.id, slow.row);
            slow.shown.get_or_insert_with(written);
        }
        *before > oldest
    }
}
