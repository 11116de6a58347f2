//! Raw requests as they are merged: each reader walks the ids upwards at its own pace.
//!
//! Rows never change once they are merged and ids only grow, so a reader is nothing but the id that it has come to; the
//! pool keeps no list of readers and the merger does nothing for them. Called from the front ends' blocking threads,
//! step by step; each step looks at [`CHUNK`] rows and copies [`SHOWN`] at most under one hold of the lock.
//!
//! A reader that is more than [`BEHIND_MAX`] rows behind is put [`BEHIND_KEPT`] rows behind the youngest, and what it
//! jumps over is counted if it matches: that looks at rows in the same short holds, at most [`COUNTED_MAX`] of them, and
//! takes what is older, or has left the pool, as if it matched.

use super::{CHUNK, Matcher, Matches, RawReader, Shown, answering, show, text_bytes, timers};
use crate::query::read_model::{FollowStep, Followed, RequestSearch, TimerDetail};

/// Rows copied under one hold of the lock: some hundred microseconds.
const SHOWN: usize = 128;
/// How far behind a reader may be: what passes in a second or so of heavy traffic.
const BEHIND_MAX: u64 = 65_536;
/// How far behind it is after a jump.
const BEHIND_KEPT: u64 = 8_192;
/// Rows looked at to count what is jumped over: some ten milliseconds.
const COUNTED_MAX: u64 = 2_000_000;
/// Rows looked at in one step that finds nothing: some milliseconds.
const LOOKED_MAX: u64 = 512 * 1024;

impl RawReader {
    /// The id of the youngest request that there has been; 0 before the first.
    #[must_use]
    pub fn last_id(&self) -> u64 {
        answering(&self.live).pool.requests.next_id() - 1
    }

    /// The next requests behind `step.after_id` that match, oldest first.
    #[must_use]
    pub fn follow(&self, search: &RequestSearch, step: FollowStep) -> Followed {
        let mut walk = Walk {
            after: step.after_id,
            last: 0,
            missed: 0,
            name_bytes: 0,
            found: Matches::default(),
        };
        self.catch_up(search, step.sample, &mut walk);
        let end = walk.after.saturating_add(LOOKED_MAX);
        while walk.after < walk.last.min(end) && walk.has_room(&step) {
            if !self.look(search, &step, end, &mut walk) {
                break;
            }
        }
        if step.sample {
            walk.after = walk.last;
            walk.missed = 0;
        }
        Followed {
            table: self.table(walk.found.rows),
            timers: walk.found.timers,
            after_id: walk.after,
            missed: walk.missed,
            more: walk.after < walk.last,
        }
    }

    /// Puts a reader where it can go on: it may be ahead (ids began anew) or too far behind.
    fn catch_up(&self, search: &RequestSearch, sample: bool, walk: &mut Walk) {
        let oldest = {
            let live = answering(&self.live);
            walk.last = live.pool.requests.next_id() - 1;
            live.pool.requests.oldest_id()
        };
        walk.after = walk.after.min(walk.last);
        if walk.last - walk.after <= BEHIND_MAX {
            return;
        }
        let to = walk.last - BEHIND_KEPT;
        if sample || !search.has_conditions() {
            return walk.jump(to);
        }
        let counted = (oldest - 1).max(to.saturating_sub(COUNTED_MAX));
        walk.jump(counted.clamp(walk.after, to));
        while walk.after < to {
            self.count(search, to, walk);
        }
    }

    /// Counts one chunk of what is jumped over.
    fn count(&self, search: &RequestSearch, to: u64, walk: &mut Walk) {
        let live = answering(&self.live);
        let pool = &live.pool;
        let mut matcher = Matcher::new(pool, search);
        let stop = to.min(walk.after + CHUNK);
        while walk.after < stop {
            walk.after += 1;
            let row = pool.requests.get(walk.after);
            walk.missed += u64::from(row.is_none_or(|row| matcher.matches(&row)));
        }
    }

    /// Looks at one chunk and copies what matches; false when the rest is for another step.
    fn look(&self, search: &RequestSearch, step: &FollowStep, end: u64, walk: &mut Walk) -> bool {
        let live = answering(&self.live);
        let pool = &live.pool;
        walk.last = pool.requests.next_id() - 1;
        let gone = pool.requests.oldest_id() - 1;
        if walk.after < gone {
            // What is missed is missed before the rows of a step, so behind a row it waits for the next.
            if !walk.found.rows.is_empty() {
                return false;
            }
            walk.jump(gone);
        }
        let mut matcher = Matcher::new(pool, search);
        let stop = walk.last.min(end).min(walk.after + CHUNK);
        let full = walk.found.rows.len() + SHOWN;
        while walk.after < stop && walk.found.rows.len() < full && walk.has_room(step) {
            walk.after += 1;
            let Some(row) = pool.requests.get(walk.after) else {
                continue;
            };
            if !matcher.matches(&row) {
                continue;
            }
            let timers = step.timers.then(|| timers(pool, &row));
            walk.take(show(pool, walk.after, &row), timers);
        }
        true
    }
}

/// A step under way.
struct Walk {
    /// The id that was looked at last.
    after: u64,
    /// The youngest id.
    last: u64,
    missed: u64,
    /// Bytes of the texts in `found`, timers apart.
    name_bytes: usize,
    found: Matches,
}

impl Walk {
    /// Goes on behind `to`; what lies between is missed.
    fn jump(&mut self, to: u64) {
        self.missed += to - self.after;
        self.after = to;
    }

    fn has_room(&self, step: &FollowStep) -> bool {
        self.found.rows.len() < step.rows_max
            && self.name_bytes + self.found.timer_bytes < step.bytes_max
    }

    fn take(&mut self, row: Shown, timers: Option<Vec<TimerDetail>>) {
        self.name_bytes += row.iter().map(text_bytes).sum::<usize>();
        self.found.take(row, timers);
    }
}
