//! Activities of requests from Squid, stored separately from requests: a cyclic store that exists
//! only with a `[[squid]]` entry.
//!
//! Rows are ordered by request, with those of one request adjacent, and are found by its id. When
//! full, the oldest request's rows are overwritten. Nobody asks for the activities of a request
//! that left the pool.

use std::collections::VecDeque;
use std::ops::Range;

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::snapshot::Damage;
use crate::config::PoolConfig;
use crate::input::squid::activity::{Measures, Packed};

/// One activity of a request.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Row {
    request: U64,
    known: Packed,
}

/// Bytes of one row.
pub const ACTIVITY_ROW_BYTES: usize = size_of::<Row>();

/// The store of activities.
#[derive(Debug, Default)]
pub struct Activities {
    rows: VecDeque<Row>,
    rows_max: usize,
}

impl Activities {
    /// Capacity of a pool's store. A request has at least two timers for each of its activities, or
    /// one timer and no activity.
    pub fn rows_max(config: &PoolConfig) -> usize {
        match config.request_pool_size {
            0 => 0,
            requests => usize::midpoint(requests, config.timer_pool_size),
        }
    }

    /// A store with this capacity. Pages never written take no memory.
    pub fn new(rows_max: usize) -> Self {
        Self { rows: VecDeque::with_capacity(rows_max), rows_max }
    }

    /// Whether there is any capacity.
    pub const fn are_kept(&self) -> bool {
        self.rows_max > 0
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Appends the activities of a request, whose id is greater than that of any before.
    #[cold]
    pub(super) fn append(&mut self, request: u64, record: &[u8]) {
        let (packed, _) = record.as_chunks::<{ size_of::<Packed>() }>();
        for known in packed.iter().filter_map(|it| Packed::read_from_bytes(it).ok()) {
            self.push(Row { request: request.into(), known });
        }
    }

    fn push(&mut self, row: Row) {
        if self.rows_max == 0 {
            return;
        }
        if self.rows.len() >= self.rows_max {
            let oldest = self.rows.pop_front().map(|it| it.request);
            while self.rows.front().map(|it| it.request) == oldest {
                self.rows.pop_front();
            }
        }
        self.rows.push_back(row);
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    fn places(&self, requests: &Range<u64>) -> Range<usize> {
        let before = |id: u64| self.rows.partition_point(|row| row.request.get() < id);
        let start = before(requests.start);
        start..before(requests.end).max(start)
    }

    /// The activities of one request; `None` if it did not come from Squid.
    pub fn of(&self, request: u64) -> Option<Measures> {
        let mut measures = Measures::default();
        let rows = self.rows.range(self.places(&(request..request + 1)));
        let known = rows.map(|row| row.known.unpack(&mut measures)).count();
        (known > 0).then_some(measures)
    }

    /// The activities of those of these requests that came from Squid, in order.
    pub fn within(&self, requests: &Range<u64>) -> impl Iterator<Item = (u64, Measures)> {
        let mut rows = self.rows.range(self.places(requests)).peekable();
        std::iter::from_fn(move || {
            let first = rows.next()?;
            let mut measures = Measures::default();
            first.known.unpack(&mut measures);
            while let Some(row) = rows.next_if(|row| row.request == first.request) {
                row.known.unpack(&mut measures);
            }
            Some((first.request.get(), measures))
        })
    }

    /// Encodes the activities of these requests for a snapshot.
    pub fn save(&self, requests: &Range<u64>) -> Vec<u8> {
        self.rows.range(self.places(requests)).flat_map(|row| row.as_bytes()).copied().collect()
    }

    /// Restores saved activities of those requests that `are_kept`.
    ///
    /// # Errors
    /// Fails if the data was not saved here, in this order.
    pub(super) fn restore(
        &mut self,
        saved: &[u8],
        are_kept: impl Fn(u64) -> bool,
    ) -> Result<(), Damage> {
        let (rows, []) = saved.as_chunks::<ACTIVITY_ROW_BYTES>() else {
            return Err(Damage("activities are cut off"));
        };
        for row in rows.iter().filter_map(|it| Row::read_from_bytes(it).ok()) {
            let newest = self.rows.back().map_or(0, |it| it.request.get());
            if row.request.get() < newest {
                return Err(Damage("activities are out of order"));
            }
            if are_kept(row.request.get()) {
                self.push(row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(totals: &[u64]) -> Vec<u8> {
        let mut measures = Measures::default();
        for (measure, total) in measures.iter_mut().zip(totals) {
            measure.total_us = Some(*total);
        }
        Packed::all(&measures).flat_map(|it| it.as_bytes().to_vec()).collect()
    }

    fn shown(activities: &Activities, requests: Range<u64>) -> Vec<(u64, Vec<u64>)> {
        let rows = activities.within(&requests);
        rows.map(|(id, it)| (id, it.iter().filter_map(|it| it.total_us).collect())).collect()
    }

    #[test]
    fn the_oldest_request_gives_way_with_all_of_its_own() {
        let mut activities = Activities::new(6);
        activities.append(3, &record(&[1, 2, 3]));
        activities.append(7, &record(&[]));
        activities.append(8, &record(&[4, 5]));
        assert_eq!(shown(&activities, 0..100), [(3, vec![1, 2, 3]), (7, vec![]), (8, vec![4, 5])]);
        assert_eq!(shown(&activities, 4..8), [(7, vec![])]);
        assert_eq!(activities.of(5), None);
        assert_eq!(activities.of(7), Some(Measures::default()));
        activities.append(9, &record(&[6]));
        assert_eq!(activities.of(3), None);
        assert_eq!(activities.len(), 4);
        let saved = activities.save(&(8..100));
        let mut again = Activities::new(6);
        again.restore(&saved, |id| id != 8).unwrap();
        assert_eq!(shown(&again, 0..100), [(9, vec![6])]);
        assert!(again.restore(&saved, |_| true).is_err(), "8 is before 9");
        assert!(again.restore(&saved[1..], |_| true).is_err());
        let mut none = Activities::default();
        none.append(1, &record(&[1]));
        assert!(none.is_empty() && !none.are_kept());
    }
}
