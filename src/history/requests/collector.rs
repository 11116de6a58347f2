//! Walks the raw pool by id and copies out what is to be kept.
//!
//! On a thread of its own: the merger does nothing for it. As other readers of raw rows it looks at some under one hold of the
//! lock, copies what it keeps of them and lets go. Of the tail it copies what has been in the pool for a while (see [`Tail`]).
//! Where it comes too late, because the pool does not hold rows any more, it counts them as missed. When what it has cannot be
//! written, it goes on while there is memory for it; after that the pool alone is the buffer.

use super::packed::Kept;
use super::tail::{Row, Tail};
use crate::input::record::micros;
use crate::merger::{SharedLive, answering};
use crate::pool::Pool;

/// Rows looked at under one hold of the lock: less than half a millisecond.
const CHUNK: u64 = 4_096;
/// Rows copied under one hold.
const COPIED: u32 = 256;

/// Which requests are kept.
#[derive(Debug)]
pub(super) enum Selection {
    /// The slowest, errors, and a sample of the others.
    Tail(Box<Tail>),
    /// All that fit until they are written.
    All {
        /// What is to be written.
        kept: Vec<Kept>,
        /// What it takes.
        bytes: usize,
        /// What it may take.
        bytes_max: usize,
    },
}

/// Where the walk is, and what it has copied since the last time that was written.
#[derive(Debug)]
pub(super) struct Collector {
    pub(super) selection: Selection,
    /// The run of whatever is merged from now on; 0 while the store is not open: until then the pool alone has it.
    pub(super) run: u64,
    /// The id to go on with.
    pub(super) next: u64,
    /// What is kept of the rows before this one is copied.
    copied_to: u64,
    /// Rows that had left before they were looked at or copied.
    pub(super) missed: u64,
    /// Whether what it has is being written: nothing is added meanwhile, the pool alone has what comes.
    pub(super) is_flushing: bool,
    scratch: Vec<u8>,
}

impl Collector {
    /// Begins with request `next`.
    pub(super) fn new(selection: Selection, run: u64, next: u64) -> Self {
        Self {
            selection,
            run,
            next,
            copied_to: next,
            missed: 0,
            is_flushing: false,
            scratch: Vec::new(),
        }
    }

    /// Looks at all that was merged, up to `limit`; false when there is no room for more of it.
    pub(super) fn collect(&mut self, live: &SharedLive, limit: u64) -> bool {
        // What comes meanwhile is for the next time.
        let end = answering(live).pool.requests.next_id().min(limit);
        while self.next < end && !self.is_flushing && self.run > 0 {
            if self.is_full() {
                return false;
            }
            self.look(&answering(live).pool, end);
        }
        // A quarter of the pool at a time, long before it leaves that.
        let (oldest, rows) = {
            let requests = &answering(live).pool.requests;
            (requests.oldest_id(), requests.len() as u64)
        };
        if self.copied_to < oldest + rows / 2 {
            self.copy_out(live, oldest + rows / 8 * 7);
        }
        true
    }

    /// Copies what is kept of the rows before this one.
    pub(super) fn copy_out(&mut self, live: &SharedLive, before: u64) {
        self.copied_to = before.min(self.next);
        let Selection::Tail(tail) = &mut self.selection else {
            return;
        };
        let (run, missed, scratch) = (self.run, &mut self.missed, &mut self.scratch);
        tail.copy_out(before, |candidates| {
            let pool = &answering(live).pool;
            let row_of = |id| pool.requests.held(id);
            // Before anything is done with them: the memory takes as long for one as for all of them.
            let rows: Vec<_> = candidates.iter().map(|it| row_of(it.id)).collect();
            for (candidate, row) in candidates.iter_mut().zip(rows) {
                candidate.row = match row {
                    Some(row) => Row::Copied(Kept::copy(pool, (run, candidate.id), &row, scratch)),
                    None => {
                        *missed += 1;
                        Row::Missed
                    }
                };
            }
        });
    }

    pub(super) fn is_full(&self) -> bool {
        match &self.selection {
            // It makes room.
            Selection::Tail(_) => false,
            Selection::All {
                bytes, bytes_max, ..
            } => bytes >= bytes_max,
        }
    }

    /// Looks at some rows.
    fn look(&mut self, pool: &Pool, end: u64) {
        let held = pool.requests.held_id();
        self.missed += held.saturating_sub(self.next);
        self.next = self.next.max(held);
        let end = end.min(self.next + CHUNK);
        let Some(rows) = pool.requests.slices(self.next..end) else {
            return;
        };
        let columns = rows
            .iter()
            .flat_map(|it| it.origin.iter().zip(it.request_time));
        let mut copied = 0;
        for (id, (&number, &time)) in (self.next..end).zip(columns) {
            if copied == COPIED || self.is_full() {
                return;
            }
            self.next = id + 1;
            match &mut self.selection {
                Selection::Tail(tail) => tail.offer((id, held), number, micros(time), pool),
                Selection::All { kept, bytes, .. } => {
                    let row = pool.requests.held(id);
                    let row =
                        row.map(|row| Kept::copy(pool, (self.run, id), &row, &mut self.scratch));
                    *bytes += row.iter().map(Kept::bytes).sum::<usize>();
                    kept.extend(row);
                    copied += 1;
                }
            }
        }
    }

    /// What is kept, with the number of requests that each stands for.
    pub(super) fn rows(&mut self, live: &SharedLive) -> Vec<(f64, Kept)> {
        self.copy_out(live, self.next);
        let shared = |(weight, kept): (f64, &Kept)| (weight, kept.clone());
        match &self.selection {
            Selection::Tail(tail) => tail.rows().map(shared).collect(),
            Selection::All { kept, .. } => kept.iter().map(|kept| shared((1.0, kept))).collect(),
        }
    }

    /// It was written.
    pub(super) fn clear(&mut self) {
        match &mut self.selection {
            Selection::Tail(tail) => tail.clear(),
            Selection::All { kept, bytes, .. } => {
                kept.clear();
                *bytes = 0;
            }
        }
    }
}
