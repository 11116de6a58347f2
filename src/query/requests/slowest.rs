//! The slowest raw requests that match a search.
//!
//! Ids only grow, times do not, so every row has to be examined. The walk goes from the newest
//! down, [`CHUNK`] rows under one hold of the lock, and ends after as many rows as the caller
//! allows. It keeps only the few rows to be shown, written out.

use super::{CHUNK, Look, RawReader, Slowest, answering, show};
use crate::input::record::micros;
use crate::query::answer::{RequestPage, Scanned};
use crate::query::question::RequestSearch;

impl RawReader {
    /// The slowest of the newest `scanned_max` requests, as far as they match.
    pub(super) fn slowest(
        &self,
        search: &RequestSearch,
        scanned_max: usize,
        page: &mut RequestPage,
    ) {
        let mut scanned = Scanned::default();
        let mut slowest = Slowest::new(search.limit);
        let mut ids = self.ids().rev();
        let newest = ids.by_ref().take(scanned_max);
        self.walk(search, newest, CHUNK, |matcher, id| {
            let pool = matcher.pool;
            let Some(row) = pool.requests.get(id) else { return Look::On };
            scanned.requests += 1;
            scanned.oldest = row.timestamp;
            let time = micros(row.request_time);
            if slowest.takes(&time) && matcher.matches(&row) {
                slowest.put(time, show(pool, id, &row));
            }
            Look::On
        });
        scanned.all = ids.next().is_none() && !answering(&self.live).pool.is_cut();
        page.scanned = Some(scanned);
        page.table = self.table(slowest.finish());
    }
}
