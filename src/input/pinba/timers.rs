//! The parallel timer lists of a packet as one iterator.
//!
//! On the wire the timers of a request are columns: hit counts, values, tag counts, and two flat lists of dictionary
//! indexes of which each timer owns the next `tag count` entries:
//!
//! ```text
//!   tag counts       2       1     3
//!   tag names     [ 3 5 ] [ 3 ] [ 3 5 7 ]
//!   tag values    [ 4 6 ] [ 8 ] [ 4 6 9 ]
//! ```
//!
//! `encode.rs` walks them, after [`Lists::check`](super::request::Lists::check) has found the counts to agree (V1, V6).
//! A timer that is skipped (V7, V8) still takes its tags along, so that the later ones keep theirs.

use crate::input::record::Repair;

/// One timer as sent. Times are unchecked; missing rusage is 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawTimer<'a> {
    pub(super) hit_count: u32,
    pub(super) value: f32,
    pub(super) ru_utime: f32,
    pub(super) ru_stime: f32,
    /// Dictionary indexes of the tag names, parallel to `values`.
    pub(super) names: &'a [u32],
    /// Dictionary indexes of the tag values.
    pub(super) values: &'a [u32],
}

/// The timers of one request, in packet order: each is to be kept, or skipped for the reason given.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawTimers<'a> {
    pub(super) hit_counts: &'a [u32],
    pub(super) values: &'a [f32],
    pub(super) tag_counts: &'a [u32],
    pub(super) tag_names: &'a [u32],
    pub(super) tag_values: &'a [u32],
    pub(super) ru_utimes: &'a [f32],
    pub(super) ru_stimes: &'a [f32],
    /// Timers given out so far; 0 to begin with.
    pub(super) timers_done: usize,
    /// Tag pairs given out so far; 0 to begin with.
    pub(super) pairs_done: usize,
}

impl<'a> Iterator for RawTimers<'a> {
    type Item = Result<RawTimer<'a>, Repair>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let index = self.timers_done;
        let hit_count = *self.hit_counts.get(index)?;
        let value = *self.values.get(index)?;
        let tag_count = *self.tag_counts.get(index)? as usize;
        let pairs_end = self.pairs_done.saturating_add(tag_count);
        let names = self.tag_names.get(self.pairs_done..pairs_end)?;
        let values = self.tag_values.get(self.pairs_done..pairs_end)?;
        self.timers_done = index.saturating_add(1);
        self.pairs_done = pairs_end;
        if hit_count == 0 {
            return Some(Err(Repair::TimerWithoutHits));
        }
        if tag_count == 0 {
            return Some(Err(Repair::TimerWithoutTags));
        }
        let ru_utime = self.ru_utimes.get(index).copied().unwrap_or(0.0);
        let ru_stime = self.ru_stimes.get(index).copied().unwrap_or(0.0);
        Some(Ok(RawTimer {
            hit_count,
            value,
            ru_utime,
            ru_stime,
            names,
            values,
        }))
    }
}
