//! Raw timers, kept in step with the requests that own them.
//!
//! A timer's request is found through the requests' `first_timer` column, which ascends, so a timer costs twenty
//! bytes and no back reference. A request is evicted with all its timers, whichever pool was full.

use super::rows::{Columns as _, Rows, columns};

columns! {
    /// One raw timer.
    TimerRow, TimerColumns, TimerSlices;

    /// How many times it ran.
    hit_count: u32,
    /// Seconds over all hits, made valid.
    value: f32,
    /// Seconds, user CPU.
    ru_utime: f32,
    /// Seconds, system CPU.
    ru_stime: f32,
    /// Number in [`TagSets`](super::tag_sets::TagSets).
    tags: u32,
}

/// Bytes a row takes.
pub const TIMER_ROW_BYTES: usize = TimerColumns::ROW_BYTES;

/// The raw timers.
pub type TimerPool = Rows<TimerColumns>;

impl TimerPool {
    /// The full id of which a request row kept the low half.
    #[must_use]
    pub fn full_id(&self, low: u32) -> u64 {
        // Fewer than 2^32 timers are kept, so the distance to the next is unambiguous.
        let next = self.next_id();
        next - u64::from((next as u32).wrapping_sub(low))
    }
}
