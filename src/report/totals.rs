//! The sums that every row has.
//!
//! All are integers (microseconds, bytes, counts), so that what is added can be taken away again without a trace,
//! and wide enough that no number of valid records overflows them: a time is below 2^51 us, a u32 below 2^32.

use std::ops::{AddAssign, SubAssign};

/// What a row, or one tick of a row, adds up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    pub const ZERO: Self = Self {
        time: 0,
        ru_utime: 0,
        ru_stime: 0,
        traffic: 0,
        memory: 0,
        hits: 0,
        requests: 0,
        errors: 0,
    };
}

impl AddAssign<&Self> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.time += other.time;
        self.ru_utime += other.ru_utime;
        self.ru_stime += other.ru_stime;
        self.traffic += other.traffic;
        self.memory += other.memory;
        self.hits += other.hits;
        self.requests += other.requests;
        self.errors += other.errors;
    }
}

impl SubAssign<&Self> for Totals {
    fn sub_assign(&mut self, other: &Self) {
        self.time -= other.time;
        self.ru_utime -= other.ru_utime;
        self.ru_stime -= other.ru_stime;
        self.traffic -= other.traffic;
        self.memory -= other.memory;
        self.hits -= other.hits;
        self.requests -= other.requests;
        self.errors -= other.errors;
    }
}
