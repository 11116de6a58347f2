//! Walks the raw pool by id and copies out the selected requests.
//!
//! Runs on its own thread: the merger does nothing for it. Like other readers of raw rows it
//! processes some under one hold of the lock, and copies the selected ones. Those of the tail are
//! copied after some time in the pool (see [`Tail`]). Rows that have already left the pool are
//! counted as missed. While writing fails, it continues as long as there is memory; after that the
//! pool alone is the buffer.

use super::packed::Kept;
use super::tail_sampling::{Row, Tail};
use crate::input::record::micros;
use crate::merger::{SharedLive, answering};
use crate::pool::Pool;

/// Rows processed under one hold of the lock: less than half a millisecond.
const CHUNK: u64 = 4_096;
/// Rows copied under one hold.
const COPIED: u32 = 256;

/// The position of the walk, and the copies since the last write.
#[derive(Debug, Default)]
pub(in crate::history) struct Copier {
    /// Selects the slowest, errors, and a sample of the rest; `None` if all are kept that fit until
    /// they are written.
    pub(super) tail: Option<Tail>,
    /// The copies of all requests, if all are kept.
    kept: Vec<Kept>,
    /// Their bytes.
    pub(super) bytes: usize,
    /// Most bytes.
    bytes_max: usize,
    /// The run of requests merged from now on; 0 while the store is not open: until then only the
    /// pool has them.
    pub(in crate::history) run: u64,
    /// The next id.
    pub(in crate::history) next: u64,
    /// Selected rows before this one are copied.
    copied_to: u64,
    /// Rows that had left before they were processed or copied.
    pub(in crate::history) missed: u64,
    /// Requests that were written.
    pub(super) written: u64,
    /// Whether its copies are being written: nothing is added meanwhile, only the pool has new
    /// requests.
    pub(in crate::history) is_flushing: bool,
    scratch: Vec<u8>,
}

impl Copier {
    /// Starts at request `next`.
    pub(super) fn new(tail: Option<Tail>, bytes_max: usize, run: u64, next: u64) -> Self {
        Self { tail, bytes_max, run, next, copied_to: next, ..Self::default() }
    }

    /// Processes all merged requests, up to `limit`; returns false if there is no room for more.
    pub(super) fn select(&mut self, live: &SharedLive, limit: u64) -> bool {
        // Later ones are for the next time.
        let end = answering(live).pool.requests.next_id().min(limit);
        while self.next < end && !self.is_flushing && self.run > 0 {
            if self.is_full() {
                return false;
            }
            self.look(&answering(live).pool, end);
        }
        // A quarter of the pool at a time, long before it leaves.
        let (oldest, rows) = {
            let requests = &answering(live).pool.requests;
            (requests.oldest_id(), requests.len() as u64)
        };
        if self.copied_to < oldest + rows / 2 {
            self.copy_out(live, oldest + rows / 8 * 7);
        }
        true
    }

    /// Copies the selected rows before this one.
    pub(super) fn copy_out(&mut self, live: &SharedLive, before: u64) {
        self.copied_to = before.min(self.next);
        let Some(tail) = &mut self.tail else { return };
        let (run, missed, scratch) = (self.run, &mut self.missed, &mut self.scratch);
        tail.copy_out(before, |candidates| {
            let pool = &answering(live).pool;
            let row_of = |id| pool.requests.held(id);
            // Prefetched: memory takes as long for one as for all of them.
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

    /// Whether nothing more fits until the next write: a tail makes room.
    pub(in crate::history) fn is_full(&self) -> bool {
        self.tail.is_none() && self.bytes >= self.bytes_max
    }

    /// Processes some rows.
    fn look(&mut self, pool: &Pool, end: u64) {
        let held = pool.requests.held_id();
        self.missed += held.saturating_sub(self.next);
        self.next = self.next.max(held);
        let end = end.min(self.next + CHUNK);
        let Some(rows) = pool.requests.slices(self.next..end) else { return };
        let columns = rows.iter().flat_map(|it| it.origin.iter().zip(it.request_time));
        let mut copied = 0;
        for (id, (&number, &time)) in (self.next..end).zip(columns) {
            if copied == COPIED || self.is_full() {
                return;
            }
            self.next = id + 1;
            if let Some(tail) = &mut self.tail {
                tail.offer((id, held), number, micros(time), pool);
            } else if let Some(row) = pool.requests.held(id) {
                let kept = Kept::copy(pool, (self.run, id), &row, &mut self.scratch);
                self.bytes += size_of::<Kept>() + kept.heap_bytes();
                self.kept.push(kept);
                copied += 1;
            }
        }
    }

    /// The selected requests, with the number of requests that each stands for.
    pub(super) fn rows(&mut self, live: &SharedLive) -> Vec<(f64, Kept)> {
        self.copy_out(live, self.next);
        let all = self.kept.iter().map(|kept| (1.0, kept));
        let of_tail = self.tail.iter().flat_map(Tail::rows);
        all.chain(of_tail).map(|(weight, kept)| (weight, kept.clone())).collect()
    }

    /// Clears them after they were written.
    pub(in crate::history) fn clear(&mut self) {
        self.tail.iter_mut().for_each(Tail::clear);
        self.kept.clear();
        self.bytes = 0;
    }
}
