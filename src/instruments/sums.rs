//! Sums of events, by thread and instrument.
//!
//! A sum is written only by its thread. Resetting sums increments the epoch of their kind; a thread
//! that finds its sum in an older epoch starts it over, and a reader treats it as zero.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::registry::Kind;

static EPOCHS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

/// Sums of one instrument on one thread. All accesses are relaxed except for the epoch, which is
/// stored after the values of the new epoch.
#[derive(Debug, Default)]
pub(super) struct Sum {
    epoch: AtomicU32,
    /// In the order of [`Totals`].
    values: [AtomicU64; 7],
}

/// A reading of sums. Times are in units of the instrument's timer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of events.
    pub count: u64,
    /// Number of timed events.
    pub timed: u64,
    /// Sum of their times.
    pub sum: u64,
    /// Shortest time; 0 without timed events.
    pub min: u64,
    /// Longest time.
    pub max: u64,
    /// Failed statements.
    pub errors: u64,
    /// Rows sent by statements.
    pub rows: u64,
}

impl Totals {
    /// Adds other sums.
    pub(crate) fn add(&mut self, other: &Self) {
        self.min = match (self.timed, other.timed) {
            (_, 0) => self.min,
            (0, _) => other.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.timed += other.timed;
        self.sum += other.sum;
        self.errors += other.errors;
        self.rows += other.rows;
    }

    /// Returns the mean of timed events.
    pub(crate) fn mean(&self) -> u64 {
        self.sum / self.timed.max(1)
    }

    fn values(&self) -> [u64; 7] {
        let Self { count, timed, sum, min, max, errors, rows } = *self;
        [count, timed, sum, min, max, errors, rows]
    }

    /// Creates the sums of a single event.
    pub(super) fn of(time: Option<u64>, errors: u64, rows: u64) -> Self {
        let shown = time.unwrap_or(0);
        Self {
            count: 1,
            timed: u64::from(time.is_some()),
            sum: shown,
            min: shown,
            max: shown,
            errors,
            rows,
        }
    }
}

impl Sum {
    /// Adds an event. Only for the thread that owns the sum.
    pub(super) fn add(&self, kind: Kind, event: &Totals) {
        let epoch = EPOCHS[kind as usize].load(Ordering::Relaxed);
        let mut totals = self.read(epoch);
        totals.add(event);
        for (own, value) in self.values.iter().zip(totals.values()) {
            own.store(value, Ordering::Relaxed);
        }
        if self.epoch.load(Ordering::Relaxed) != epoch {
            // Pairs with the load in `read`.
            self.epoch.store(epoch, Ordering::Release);
        }
    }

    pub(super) fn read(&self, epoch: u32) -> Totals {
        if self.epoch.load(Ordering::Acquire) != epoch {
            return Totals::default();
        }
        let values = self.values.each_ref().map(|it| it.load(Ordering::Relaxed));
        let [count, timed, sum, min, max, errors, rows] = values;
        Totals { count, timed, sum, min, max, errors, rows }
    }
}

/// Returns the present epoch of each kind.
pub(super) fn epochs() -> [u32; 3] {
    [0, 1, 2].map(|kind: usize| EPOCHS[kind].load(Ordering::Relaxed))
}

/// Resets the sums of a kind on every thread.
pub(super) fn next_epoch(kind: Kind) {
    EPOCHS[kind as usize].fetch_add(1, Ordering::Relaxed);
}
