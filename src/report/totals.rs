//! The sums that every row has.
//!
//! All are integers (microseconds, bytes, counts), so that what is added can be taken away again without a trace,
//! and wide enough that no number of valid records overflows them: a time is below 2^51 us, a u32 below 2^32.

use std::ops::{AddAssign, SubAssign};

use serde::{Deserialize, Serialize};

use super::varint;

/// What a row, or one tick of a row, adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Request time (request level) or timer value (timer level), microseconds.
    pub time: u128,
    /// User CPU, microseconds: the request's or the timer's.
    pub ru_utime: u128,
    /// System CPU, microseconds: the request's or the timer's.
    pub ru_stime: u128,
    /// Document sizes, bytes. 0 at timer level.
    pub traffic: u128,
    /// Memory footprints, bytes. 0 at timer level.
    pub memory: u128,
    /// Timer level: hit counts. Request level: number of timers.
    pub hits: u128,
    /// Requests; at timer level each counts once per row.
    pub requests: u64,
    /// Requests with an error status (`reports.error_status` and above). 0 at timer level.
    pub errors: u64,
}

impl Totals {
    /// Nothing counted yet.
    pub const ZERO: Self = Self::of([0; 8]);

    /// All sums, in the order in which tick logs have them.
    #[inline]
    pub(crate) const fn sums(&self) -> [u128; 8] {
        [
            self.requests as u128,
            self.hits,
            self.time,
            self.ru_utime,
            self.ru_stime,
            self.traffic,
            self.memory,
            self.errors as u128,
        ]
    }

    /// The totals with these [`sums`](Self::sums).
    #[inline]
    pub(crate) const fn of(sums: [u128; 8]) -> Self {
        let [
            requests,
            hits,
            time,
            ru_utime,
            ru_stime,
            traffic,
            memory,
            errors,
        ] = sums;
        Self {
            time,
            ru_utime,
            ru_stime,
            traffic,
            memory,
            hits,
            requests: requests as u64,
            errors: errors as u64,
        }
    }

    /// Packs the sums.
    pub(crate) fn push(&self, to: &mut Vec<u8>) {
        for sum in self.sums() {
            varint::push(to, sum);
        }
    }

    /// Takes what [`push`](Self::push) packed off the front.
    pub(crate) fn take(from: &mut &[u8]) -> Self {
        Self::of(std::array::from_fn(|_| varint::take(from)))
    }
}

impl AddAssign<&Self> for Totals {
    #[inline]
    fn add_assign(&mut self, other: &Self) {
        let (sums, more) = (self.sums(), other.sums());
        *self = Self::of(std::array::from_fn(|at| sums[at] + more[at]));
    }
}

impl SubAssign<&Self> for Totals {
    fn sub_assign(&mut self, other: &Self) {
        let (sums, less) = (self.sums(), other.sums());
        *self = Self::of(std::array::from_fn(|at| sums[at] - less[at]));
    }
}
