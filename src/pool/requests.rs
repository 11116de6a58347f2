//! Raw requests.

use super::rows::{Columns as _, Rows, columns};

columns! {
    /// One raw request as appended, read and saved.
    RequestRow, RequestColumns, RequestSlices;

    /// Id in [`Origins`](super::dimensions::Origins).
    origin: u32,
    /// Id in [`TagSets`](super::tag_sets::TagSets).
    request_tags: u32,
    /// Monotonic milliseconds of its merge, low 32 bits.
    merged_ms: u32,
    /// Unix second of its reception.
    timestamp: u32,
    /// Field 4 as sent (0 is shown as 1).
    request_count: u32,
    /// Bytes.
    document_size: u32,
    /// Bytes.
    memory_peak: u32,
    /// Bytes.
    memory_footprint: u32,
    /// Seconds as sent, made valid; [`micros`](crate::input::record::micros) converts it for all
    /// calculations.
    request_time: f32,
    /// Seconds, user CPU.
    ru_utime: f32,
    /// Seconds, system CPU; negative: CPU times and memory [are not
    /// known](crate::input::record::is_unmeasured).
    ru_stime: f32,
    /// Low 32 bits of the id of its first timer.
    first_timer: u32,
    /// Number of its timers.
    timers: u16,
}

/// Bytes of a row over all columns.
pub const REQUEST_ROW_BYTES: usize = RequestColumns::ROW_BYTES;

/// The raw requests.
pub type RequestPool = Rows<RequestColumns>;

impl RequestRow {
    /// Monotonic milliseconds of its merge; rows are kept for less than the 49 days that 32 bits
    /// span.
    pub fn merged_at(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::from((now_ms as u32).wrapping_sub(self.merged_ms)))
    }
}

impl RequestPool {
    /// The first timer of a held row, as in [`RequestRow`].
    pub fn first_timer(&self, id: u64) -> Option<u32> {
        Some(self.columns.first_timer[self.held_slot(id)?])
    }

    /// The second in which the request of a held row was received; it never falls from one row to
    /// the next.
    pub fn timestamp(&self, id: u64) -> Option<u32> {
        Some(self.columns.timestamp[self.held_slot(id)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u32) -> RequestRow {
        RequestRow {
            origin: n,
            request_tags: n + 1,
            merged_ms: n + 2,
            timestamp: n + 3,
            request_count: n + 4,
            document_size: n + 5,
            memory_peak: n + 6,
            memory_footprint: n + 7,
            request_time: n as f32,
            ru_utime: 0.5,
            ru_stime: 0.25,
            first_timer: n + 8,
            timers: (n % 7) as u16,
        }
    }

    #[test]
    fn wraps_and_keeps_the_newest() {
        let mut pool = RequestPool::new(3, 2);
        for n in 1..=10u32 {
            if pool.room() == 0 {
                pool.evict_before(pool.oldest_id() + 1);
            }
            if pool.slots_left() == 0 {
                pool.let_go_before(pool.held_id() + 1);
            }
            assert_eq!(pool.append(&[row(n)]), u64::from(n));
        }
        assert_eq!(pool.len(), 3);
        assert_eq!(pool.get(7), None);
        assert_eq!(pool.get(11), None);
        for n in 8..=10u32 {
            assert_eq!(pool.get(u64::from(n)), Some(row(n)));
        }
        assert_eq!(pool.held_id(), 6, "two more can be read");
        assert!(pool.slices(5..11).is_none() && pool.slices(6..12).is_none());
        let [first, second] = pool.slices(6..11).unwrap();
        let origins: Vec<u32> = [first.origin, second.origin].concat();
        assert_eq!(origins, [6, 7, 8, 9, 10]);
        assert_eq!((pool.timestamp(6), pool.timestamp(5)), (Some(9), None));
        assert_eq!((pool.first_timer(7), pool.first_timer(11)), (Some(15), None));
        pool.let_go_before(9);
        assert_eq!(pool.held_id(), 8, "what is kept is held");
    }

    #[test]
    fn without_rows_ids_still_count() {
        let mut pool = RequestPool::new(0, 2);
        assert_eq!(pool.append(&[row(1)]), 1);
        assert_eq!(pool.append(&[row(2)]), 2);
        assert_eq!(pool.get(1), None);
        assert!(pool.is_empty());
    }
}
