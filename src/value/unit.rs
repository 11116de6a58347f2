//! Units of columns.
//!
//! Declared with the column, so that no reader has to guess it from a name. `/api/v1/reports` shows
//! it with every column; pages and `top` format numbers by it, history and ClickHouse choose what
//! to store.

use crate::telemetry::counter::counted;

counted! {
    /// The unit of a column's numbers. Its name is that in JSON and in lists of columns.
    #[derive(Default)]
    Unit {
        /// No unit: texts, ids, codes.
        #[default]
        None = "none",
        /// A count.
        Count = "count",
        /// A duration in seconds.
        Seconds = "seconds",
        /// A duration in microseconds.
        Microseconds = "microseconds",
        /// A time, in seconds since 1970.
        UnixSeconds = "unix_seconds",
        /// Bytes.
        Bytes = "bytes",
        /// 1,024 bytes, as for sizes in Pinba's tables.
        Kib = "kib",
        /// Percent.
        Percent = "percent",
        /// A part of a whole: 0.12 is 12 %.
        Part = "part",
        /// A relative change: 0.12 is 12 % more.
        Ratio = "ratio",
        /// A count per second.
        CountPerSecond = "count_per_second",
        /// Seconds spent per second: of CPU time, the number of busy cores.
        SecondsPerSecond = "seconds_per_second",
        /// Bytes per second.
        BytesPerSecond = "bytes_per_second",
        /// 1,024 bytes per second.
        KibPerSecond = "kib_per_second",
    }
}

impl Unit {
    /// Finds a unit by name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The unit of the same quantity per second, if there is one.
    pub const fn per_second(self) -> Self {
        match self {
            Self::Count => Self::CountPerSecond,
            Self::Seconds => Self::SecondsPerSecond,
            Self::Bytes => Self::BytesPerSecond,
            Self::Kib => Self::KibPerSecond,
            other => other,
        }
    }
}
