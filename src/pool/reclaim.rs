//! Reclamation of ids by epochs, which hold origins and tag sets.
//!
//! Reference counting the origin and tag sets of every row would touch them twice per row. Instead
//! each run of 8,192 requests is an epoch that holds everything its rows use, once; when the last
//! row of the epoch has left the pool, the epoch releases it. A string may thus outlive its last
//! row by up to 8,191 requests, which the memory plan allows for.

use std::collections::VecDeque;

/// Requests in an epoch.
pub(super) const EPOCH_REQUESTS: u64 = 8_192;

/// Epochs kept when there is no raw data, so that names are not removed and interned over and over.
pub(super) const EPOCHS_WITHOUT_ROWS: u64 = 16;

/// The ids held by one epoch.
#[derive(Debug, Default)]
pub(super) struct Epoch {
    pub(super) origins: Vec<u32>,
    pub(super) tag_sets: Vec<u32>,
}

/// The epochs whose rows may still be in the pool, oldest first.
#[derive(Debug)]
pub(super) struct Epochs {
    epochs: VecDeque<Epoch>,
    /// Number of the front epoch.
    first: u64,
    /// Emptied lists for reuse.
    spare: Vec<Epoch>,
}

impl Epochs {
    pub(super) fn new() -> Self {
        Self { epochs: VecDeque::from([Epoch::default()]), first: 0, spare: Vec::new() }
    }

    /// Restarts at the epoch of request `id`, after all were [removed](Self::pop).
    pub(super) fn go_on_from(&mut self, id: u64) {
        debug_assert!(self.epochs.is_empty(), "an epoch still holds something");
        self.epochs.push_back(Epoch::default());
        self.first = Self::of(id);
    }

    /// Removes the oldest epoch, whatever its rows.
    pub(super) fn pop(&mut self) -> Option<Epoch> {
        self.epochs.pop_front()
    }

    /// The epoch of request `id`.
    pub(super) fn of(id: u64) -> u64 {
        id / EPOCH_REQUESTS
    }

    /// Whether an epoch still holds what its rows use.
    pub(super) const fn has(&self, number: u64) -> bool {
        number >= self.first
    }

    /// Opens the epoch of request `id` if necessary, and returns its number (low bits) and its
    /// lists.
    pub(super) fn open(&mut self, id: u64) -> (u32, &mut Epoch) {
        let number = Self::of(id);
        while self.first + self.epochs.len() as u64 <= number {
            self.epochs.push_back(self.spare.pop().unwrap_or_default());
        }
        let at = self.epochs.len() - 1;
        (number as u32, &mut self.epochs[at])
    }

    /// Removes the oldest epoch if all its requests have ids below `oldest_id`.
    pub(super) fn pop_before(&mut self, oldest_id: u64) -> Option<Epoch> {
        if self.epochs.len() < 2 || (self.first + 1) * EPOCH_REQUESTS > oldest_id {
            return None;
        }
        self.first += 1;
        self.epochs.pop_front()
    }

    /// Takes back the lists of a released epoch.
    pub(super) fn recycle(&mut self, mut epoch: Epoch) {
        epoch.origins.clear();
        epoch.tag_sets.clear();
        if self.spare.len() < 4 {
            self.spare.push(epoch);
        }
    }
}
