//! The shared memory of all answers over the past, which bounds the number of keys they sum.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::PAST_ANSWERS_BYTES_MAX;

/// The memory of all answers.
#[derive(Debug)]
pub(super) struct AnswerMemory {
    free: AtomicUsize,
}

static ALL: AnswerMemory = AnswerMemory::new(PAST_ANSWERS_BYTES_MAX);

impl AnswerMemory {
    pub(super) const fn new(bytes: usize) -> Self {
        Self {
            free: AtomicUsize::new(bytes),
        }
    }
}

/// Bytes taken at once.
const PIECE_BYTES: usize = 64 << 10;

/// The share of an answer; returned on drop.
#[derive(Debug)]
pub(super) struct Share {
    of: &'static AnswerMemory,
    taken: usize,
    used: usize,
}

impl Share {
    pub(super) const fn of(memory: &'static AnswerMemory) -> Self {
        Self {
            of: memory,
            taken: 0,
            used: 0,
        }
    }

    /// Uses `bytes` more if there is room; returns whether there was.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let used = self.used + bytes;
        if used > self.taken {
            let more = (used - self.taken).next_multiple_of(PIECE_BYTES);
            let free = &self.of.free;
            let left = |free: usize| free.checked_sub(more);
            if free
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left)
                .is_err()
            {
                return false;
            }
            self.taken += more;
        }
        self.used = used;
        true
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::of(&ALL)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.free.fetch_add(self.taken, Ordering::Relaxed);
    }
}
