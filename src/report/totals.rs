//! The measures, and their sums in every row.
//!
//! All are integers (microseconds, bytes, counts), so that additions can be subtracted exactly, and
//! wide enough that no number of valid records overflows them: a time is below 2^51 us, a u32 below
//! 2^32. The last is nought wherever requests come from PHP, and is stored only where it is not.

use std::ops::{AddAssign, SubAssign};

use serde::{Deserialize, Serialize};

use super::definition::Level;
use crate::value::Unit;
use crate::value::varint;

/// Declares the measures: each with its field, the widths in [`Totals`] and [`NarrowTotals`], the
/// unit in which it is shown, and its column in stored rows. Tick logs, the state and pending files
/// have them in this order, so new ones come last.
macro_rules! measures {
    ($($(#[$about:meta])* $measure:ident $field:ident: $width:ty | $narrow:ty, $unit:ident, $stored:literal;)*) => {
        /// A sum that every row has.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Measure {
            $($(#[$about])* $measure,)*
        }

        impl Measure {
            /// Every measure, in the order in which sums are stored.
            pub const ALL: [Self; [$($stored),*].len()] = [$(Self::$measure),*];

            /// Its name in lists of columns.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$measure => stringify!($field),)* }
            }

            /// The unit in which it is shown: seconds are counted in microseconds, and bytes are
            /// KiB in Pinba's tables.
            pub const fn unit(self) -> Unit {
                match self { $(Self::$measure => Unit::$unit,)* }
            }

            /// Its column in stored rows, with times in microseconds.
            pub const fn stored(self) -> &'static str {
                match self { $(Self::$measure => $stored,)* }
            }

            /// This measure of a row: a count, microseconds or bytes.
            #[inline]
            pub fn of(self, totals: &Totals) -> u128 {
                match self { $(Self::$measure => totals.$field.into(),)* }
            }
        }

        /// The sums of a row, or of one tick of a row.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$about])* pub $field: $width,)*
        }

        impl Totals {
            /// All sums, in the order of tick logs.
            #[inline]
            pub(crate) const fn sums(&self) -> [u128; Measure::ALL.len()] {
                [$(self.$field as u128),*]
            }

            /// The totals with these [`sums`](Self::sums).
            #[inline]
            pub(crate) const fn of(sums: [u128; Measure::ALL.len()]) -> Self {
                let [$($field),*] = sums;
                Self { $($field: $field as $width),* }
            }
        }

        /// Sums half as wide, for groups and rows of history: one cache line instead of two.
        /// Those that could overflow are moved to [`Totals`] (see `groups`).
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(crate) struct NarrowTotals {
            $(pub(crate) $field: $narrow,)*
        }

        impl NarrowTotals {
            pub(crate) const ZERO: Self = Self { $($field: 0,)* };

            pub(crate) fn totals(&self) -> Totals {
                Totals { $($field: self.$field.into(),)* }
            }

            /// The sums, if they all have [room](Self::has_room) here.
            pub(crate) fn of(totals: &Totals) -> Option<Self> {
                let narrow = Self { $($field: totals.$field.try_into().ok()?,)* };
                narrow.has_room().then_some(narrow)
            }

            #[inline]
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$field += other.$field;)*
            }

            /// A bound of the largest of them, within a factor of two.
            pub(super) fn widest(&self) -> u64 {
                0 $(| u64::from(self.$field))*
            }
        }
    };
}

measures! {
    /// Requests (including nested ones); at timer level each counts once per row.
    Requests requests: u64 | u32, Count, "req_count";
    /// Timer level: hit counts. Request level: number of timers.
    Hits hits: u128 | u64, Count, "hit_count";
    /// Request time (request level) or timer value (timer level), microseconds.
    Time time: u128 | u64, Seconds, "time_total_us";
    /// User CPU, microseconds: the request's or the timer's.
    RuUtime ru_utime: u128 | u64, Seconds, "ru_utime_total_us";
    /// System CPU, microseconds: the request's or the timer's.
    RuStime ru_stime: u128 | u64, Seconds, "ru_stime_total_us";
    /// Document sizes, bytes. 0 at timer level.
    Traffic traffic: u128 | u64, Bytes, "traffic_total";
    /// Memory footprints, bytes. 0 at timer level.
    Memory memory: u128 | u64, Bytes, "memory_footprint_total";
    /// Requests with an error status (`reports.error_status` and above). 0 at timer level.
    Errors errors: u64 | u32, Count, "error_count";
    /// Requests, or hits at timer level, that came without CPU times and memory: averages of these
    /// leave them out.
    Unmeasured unmeasured: u128 | u64, Count, "unmeasured_count";
}

impl Measure {
    /// Whether it sums up CPU times or memory, which not all records have.
    pub(crate) const fn is_rusage(self) -> bool {
        matches!(self, Self::RuUtime | Self::RuStime | Self::Memory)
    }
}

impl Totals {
    /// Nothing counted yet.
    pub const ZERO: Self = Self::of([0; Measure::ALL.len()]);

    /// Sums that every row has: all but `unmeasured`.
    pub(crate) const USUAL: usize = Measure::ALL.len() - 1;

    /// Encodes the usual sums, then `unmeasured` if it is not 0, which the caller has to note.
    pub(crate) fn push(&self, to: &mut Vec<u8>) {
        let sums = self.sums();
        let len = Self::USUAL + usize::from(self.unmeasured > 0);
        sums[..len].iter().for_each(|sum| varint::push(to, *sum));
    }

    /// Decodes sums written by [`push`](Self::push) off the front.
    pub(crate) fn take(from: &mut &[u8], has_unmeasured: bool) -> Self {
        let len = Self::USUAL + usize::from(has_unmeasured);
        Self::of(std::array::from_fn(|at| if at < len { varint::take(from) } else { 0 }))
    }

    /// Requests, or at timer level hits, with CPU times and memory: what these are averaged over.
    pub(crate) fn measured(&self, level: Level) -> u128 {
        let events = match level {
            Level::Timer => self.hits,
            Level::Packet | Level::Request => self.requests.into(),
        };
        events.saturating_sub(self.unmeasured)
    }
}

impl NarrowTotals {
    /// Whether any record can be added, and the sum of two such sums represented: no record adds as
    /// much as an eighth of a sum's range.
    pub(crate) fn has_room(&self) -> bool {
        self.widest() < 1 << 61 && self.requests < u32::MAX / 2
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
/// The smallest and largest values of a row inside the window (only in reports that keep them).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extremes {
    /// Smallest request time, or timer value per hit, microseconds.
    pub time_min: u64,
    /// Largest request time, or timer value per hit, microseconds.
    pub time_max: u64,
    /// Largest `memory_peak`, bytes. 0 at timer level.
    pub memory_peak_max: u32,
}

impl Extremes {
    /// Those of no record at all.
    pub const NOTHING: Self = Self { time_min: u64::MAX, time_max: 0, memory_peak_max: 0 };

    /// The shortest and the longest time in seconds; `None` if there are no records.
    pub(crate) fn times_secs(&self) -> Option<(f64, f64)> {
        self.seen().map(|[shortest, longest, _]| (shortest as f64 / 1e6, longest as f64 / 1e6))
    }

    /// The smallest and largest values in the order of their columns, if there are records.
    pub(crate) fn seen(&self) -> Option<[u64; 3]> {
        let Self { time_min, time_max, memory_peak_max } = *self;
        (time_min <= time_max).then_some([time_min, time_max, memory_peak_max.into()])
    }

    /// From values in that order; nothing without both times.
    pub(crate) fn of([time_min, time_max, peak]: [Option<u64>; 3]) -> Self {
        let Some((time_min, time_max)) = time_min.zip(time_max) else { return Self::NOTHING };
        let memory_peak_max = u32::try_from(peak.unwrap_or_default()).unwrap_or(u32::MAX);
        Self { time_min, time_max, memory_peak_max }
    }

    /// Whether [`widen`](Self::widen) with `other` would change nothing.
    pub(in crate::report) fn spans(&self, other: &Self) -> bool {
        self.time_min <= other.time_min
            && self.time_max >= other.time_max
            && self.memory_peak_max >= other.memory_peak_max
    }

    /// Includes the values of `other`.
    pub fn widen(&mut self, other: &Self) {
        self.time_min = self.time_min.min(other.time_min);
        self.time_max = self.time_max.max(other.time_max);
        self.memory_peak_max = self.memory_peak_max.max(other.memory_peak_max);
    }
}

impl Default for Extremes {
    fn default() -> Self {
        Self::NOTHING
    }
}
