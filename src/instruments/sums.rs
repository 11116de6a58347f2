//! Sums of events, per thread and instrument.
//!
//! A sum is written by its thread alone. Setting sums to zero counts up the epoch of their kind; a
//! thread that finds its own sum in an older one starts it anew, and a reader takes it for zero.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::registry::Kind;

static EPOCHS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];

/// One thread's sums of one instrument. All relaxed but for the epoch, whose store follows the
/// zeros.
#[derive(Debug, Default)]
pub(super) struct Sum {
    epoch: AtomicU32,
    /// In the order of [`Totals`].
    values: [AtomicU64; 7],
}

/// The same, read. Times are units of the instrument's timer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events.
    pub count: u64,
    /// Those that had times.
    pub timed: u64,
    /// Of their times.
    pub sum: u64,
    /// The shortest; 0 without any.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// Statements that failed.
    pub errors: u64,
    /// Rows that statements sent.
    pub rows: u64,
}

impl Totals {
    /// Adds others to them.
    pub fn add(&mut self, other: &Self) {
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

    /// The mean of those that had times.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum / self.timed.max(1)
    }

    fn values(&self) -> [u64; 7] {
        let Self {
            count,
            timed,
            sum,
            min,
            max,
            errors,
            rows,
        } = *self;
        [count, timed, sum, min, max, errors, rows]
    }

    /// Those of one event.
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
    /// Adds an event. For the thread that it belongs to.
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
        let own = |at: usize| self.values[at].load(Ordering::Relaxed);
        Totals {
            count: own(0),
            timed: own(1),
            sum: own(2),
            min: own(3),
            max: own(4),
            errors: own(5),
            rows: own(6),
        }
    }
}

/// The epoch of each kind now.
pub(super) fn epochs() -> [u32; 3] {
    [0, 1, 2].map(|kind: usize| EPOCHS[kind].load(Ordering::Relaxed))
}

/// Sets the sums of a kind to zero, of all threads and so over all.
pub fn truncate(kind: Kind) {
    EPOCHS[kind as usize].fetch_add(1, Ordering::Relaxed);
}
