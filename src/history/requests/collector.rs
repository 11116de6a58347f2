//! Walks the raw pool by id and copies out what is to be kept.
//!
//! On a thread of its own: the merger does nothing for it. As other readers of raw rows it looks at some under one hold of the
//! lock, copies what it keeps of them and lets go. Where it comes too late, because rows have left the pool, it counts them as
//! missed. When what it has cannot be written, it goes on while there is memory for it; after that the pool alone is the buffer.

use super::packed::Kept;
use super::tail::Tail;
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
    /// The run of whatever is merged from now on.
    pub(super) run: u64,
    /// Status of errors, and above.
    error_status: u32,
    /// The id to go on with.
    pub(super) next: u64,
    /// Rows that had left before they were looked at.
    pub(super) missed: u64,
    /// Whether what it has is being written: nothing is added meanwhile, the pool alone has what comes.
    pub(super) is_flushing: bool,
    scratch: Vec<u8>,
}

impl Collector {
    /// Begins with request `next`.
    pub(super) fn new(selection: Selection, error_status: u32, run: u64, next: u64) -> Self {
        Self {
            selection,
            run,
            error_status,
            next,
            missed: 0,
            is_flushing: false,
            scratch: Vec::new(),
        }
    }

    /// Looks at all that was merged; false when there is no room for more of it.
    pub(super) fn collect(&mut self, live: &SharedLive) -> bool {
        // What comes meanwhile is for the next time.
        let end = answering(live).pool.requests.next_id();
        while self.next < end && !self.is_flushing {
            if self.is_full() {
                return false;
            }
            self.look(&answering(live).pool, end);
        }
        true
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
        let oldest = pool.requests.oldest_id();
        self.missed += oldest.saturating_sub(self.next);
        self.next = self.next.max(oldest);
        let end = end.min(self.next + CHUNK);
        let Some(rows) = pool.requests.slices(self.next..end) else {
            return;
        };
        let columns = rows
            .iter()
            .flat_map(|it| it.origin.iter().zip(it.request_time));
        let (mut copied, run) = (0, self.run);
        for (id, (&number, &time)) in (self.next..end).zip(columns) {
            if copied == COPIED || self.is_full() {
                return;
            }
            self.next = id + 1;
            let origin = pool.origins.get(number);
            let is_error = origin.status >= self.error_status;
            let scratch = &mut self.scratch;
            let mut copy = || {
                let row = pool.requests.held_row(id);
                Kept::copy(pool, (run, id), &row, is_error, scratch)
            };
            match &mut self.selection {
                Selection::Tail(tail) => {
                    let script = tail.script_of(number, origin, &pool.strings);
                    copied += u32::from(tail.offer(script, micros(time), is_error, copy));
                }
                Selection::All { kept, bytes, .. } => {
                    let row = copy();
                    *bytes += row.bytes();
                    kept.push(row);
                    copied += 1;
                }
            }
        }
    }

    /// What was kept, with the number of requests that each stands for.
    pub(super) fn rows(&self) -> Vec<(f64, Kept)> {
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
