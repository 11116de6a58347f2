//! Raw timers, kept in step with the requests that own them.
//!
//! A timer's request is found through the requests' `first_timer` column, which ascends, so a timer
//! takes twenty bytes and no back reference. A request is evicted with all its timers, whichever
//! pool was full.

use super::rows::{Columns as _, Rows, columns};

columns! {
    /// One raw timer.
    TimerRow, TimerColumns, TimerSlices;

    /// Number of hits.
    hit_count: u32,
    /// Seconds over all hits, made valid.
    value: f32,
    /// Seconds, user CPU.
    ru_utime: f32,
    /// Seconds, system CPU; negative: CPU times [are not
    /// known](crate::input::record::is_unmeasured), and it began this long after its request.
    ru_stime: f32,
    /// Id in [`TagSets`](super::tag_sets::TagSets).
    tags: u32,
}

/// Bytes of a row.
pub const TIMER_ROW_BYTES: usize = TimerColumns::ROW_BYTES;

/// The raw timers.
pub type TimerPool = Rows<TimerColumns>;

impl TimerPool {
    /// The full id for the low half in a request row.
    pub fn full_id(&self, low: u32) -> u64 {
        // Fewer than 2^32 timers are kept, so the distance to the next id is unambiguous.
        let next = self.next_id();
        next - u64::from((next as u32).wrapping_sub(low))
    }
}
