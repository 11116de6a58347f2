//! The slowest raw requests that match a search.
//!
//! Ids only grow, times do not: every row has to be looked at. The walk goes from the newest down, [`CHUNK`] rows under one
//! hold of the lock, and ends after as many rows as the caller allows. What is kept is what is shown: a few rows, whose names are
//! written out once it is known which of a chunk they are.

use super::{CHUNK, RawReader, Shown, show, walk_down};
use crate::input::record::micros;
use crate::pool::requests::RequestRow;
use crate::query::read_model::{RequestSearch, Scanned, SlowestPage};

/// One of the slowest so far.
struct Slow {
    id: u64,
    row: RequestRow,
    /// Written out before the lock is let go.
    shown: Option<Shown>,
}

impl RawReader {
    /// The slowest of the newest `scanned_max` requests, as far as they match.
    #[must_use]
    pub fn slowest(&self, search: &RequestSearch, scanned_max: usize) -> SlowestPage {
        let mut scanned = Scanned::default();
        let mut slowest: Vec<Slow> = Vec::with_capacity(search.limit.min(1024));
        let mut before = u64::MAX;
        let mut more = search.limit > 0;
        while more && scanned.requests < scanned_max as u64 {
            let left = (scanned_max as u64 - scanned.requests).min(CHUNK);
            let live = self.live.read();
            more = walk_down(&live.pool, search, &mut before, left, |matcher, id, row| {
                scanned.requests += 1;
                scanned.oldest = row.timestamp;
                // Only one that is slower than the last of those kept: of equals the newest came first.
                let time = micros(row.request_time);
                let slower = |slow: &Slow| micros(slow.row.request_time) >= time;
                let full = slowest.len() >= search.limit;
                if full && slowest.last().is_some_and(slower) || !matcher.matches(&row) {
                    return true;
                }
                if full {
                    slowest.pop();
                }
                let (at, shown) = (slowest.partition_point(slower), None);
                slowest.insert(at, Slow { id, row, shown });
                true
            });
            for slow in &mut slowest {
                let written = || show(&live.pool, slow.id, &slow.row);
                slow.shown.get_or_insert_with(written);
            }
        }
        scanned.all = !more;
        SlowestPage {
            table: self.table(slowest.into_iter().filter_map(|slow| slow.shown).collect()),
            scanned,
        }
    }
}
