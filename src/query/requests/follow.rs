//! Raw requests as they are merged: each reader walks the ids upwards at its own pace.
//!
//! Rows never change once they are merged and ids only grow, so a reader's whole state is the last
//! id it has seen; the pool keeps no list of readers and the merger does nothing for them. Called
//! from the front ends' blocking threads, step by step; each step examines [`CHUNK`] rows and
//! copies at most [`SHOWN`] under one hold of the lock.
//!
//! A reader that is more than [`BEHIND_MAX`] rows behind is moved to [`BEHIND_KEPT`] rows behind
//! the youngest. The matching rows it skips are counted, in the same short holds and for at most
//! [`COUNTED_MAX`] rows; rows that are older, or have left the pool, count as if they matched.

use super::{CHUNK, Look, Matches, RawReader, answering};
use crate::query::answer::Followed;
use crate::query::question::{FollowStep, RequestSearch};

/// Rows copied under one hold of the lock, which takes a few hundred microseconds.
const SHOWN: usize = 128;
/// The furthest that a reader may be behind: about a second of heavy traffic.
const BEHIND_MAX: u64 = 65_536;
/// Rows that it is behind after a jump.
const BEHIND_KEPT: u64 = 8_192;
/// Skipped rows examined for the count, which takes some ten milliseconds.
const COUNTED_MAX: u64 = 2_000_000;
/// Rows examined in one step that finds nothing, which takes some milliseconds.
const LOOKED_MAX: u64 = 512 * 1024;

impl RawReader {
    /// Returns the id of the youngest request so far; 0 before the first.
    pub fn last_id(&self) -> u64 {
        answering(&self.live).pool.requests.next_id() - 1
    }

    /// Returns the next requests after `step.after_id` that match, oldest first, as streams ask
    /// repeatedly. Only the conditions of `search` apply, not the limit.
    pub fn follow(&self, search: &RequestSearch, step: FollowStep) -> Followed {
        let mut walk = Walk { after: step.after_id, last: 0, missed: 0, found: Matches::default() };
        self.catch_up(search, step.sample, &mut walk);
        let ids = walk.after + 1..=walk.after.saturating_add(LOOKED_MAX);
        self.walk(search, ids, CHUNK, |matcher, id| {
            let pool = matcher.pool;
            walk.last = pool.requests.next_id() - 1;
            if id > walk.last || !walk.has_room(&step) {
                return Look::Stop;
            }
            if id < pool.requests.oldest_id() {
                // Missed rows precede the rows of a step; once the step has rows, they wait for the
                // next one.
                if !walk.found.rows.is_empty() {
                    return Look::Stop;
                }
                walk.jump(id);
                return Look::On;
            }
            walk.after = id;
            let Some(row) = matcher.find(id) else { return Look::On };
            walk.found.take(pool, id, &row, search.timers);
            match walk.found.rows.len() % SHOWN {
                0 => Look::Release,
                _ => Look::On,
            }
        });
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

    /// Moves a reader to where it can go on: it may be ahead (ids started again) or too far behind.
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
        let skipped = walk.after + 1..=to;
        walk.after = to;
        self.walk(search, skipped, CHUNK, |matcher, id| {
            let row = matcher.pool.requests.get(id);
            walk.missed += u64::from(row.is_none_or(|row| matcher.matches(&row)));
            Look::On
        });
    }
}

/// A step under way.
struct Walk {
    /// The last id examined.
    after: u64,
    /// The youngest id.
    last: u64,
    missed: u64,
    found: Matches,
}

impl Walk {
    /// Continues after `to`; the rows in between are missed.
    fn jump(&mut self, to: u64) {
        self.missed += to - self.after;
        self.after = to;
    }

    fn has_room(&self, step: &FollowStep) -> bool {
        self.found.rows.len() < step.rows_max
            && self.found.text_bytes + self.found.timer_bytes < step.bytes_max
    }
}
