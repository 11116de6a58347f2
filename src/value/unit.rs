//! Units of columns.
//!
//! Declared with the column, so that no reader has to guess it from a name. `/api/v1/reports` shows
//! it with every column; pages and `top` format numbers by it, history and ClickHouse choose what
//! to store.

/// The unit of a column's numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// No unit: texts, ids, codes.
    #[default]
    None,
    /// A count.
    Count,
    /// A duration in seconds.
    Seconds,
    /// A duration in microseconds.
    Microseconds,
    /// A time, in seconds since 1970.
    UnixSeconds,
    /// Bytes.
    Bytes,
    /// 1,024 bytes, as for sizes in Pinba's tables.
    Kib,
    /// Percent.
    Percent,
    /// A relative change: 0.12 is 12 % more.
    Ratio,
    /// A count per second.
    CountPerSecond,
    /// Seconds spent per second: of CPU time, the number of busy cores.
    SecondsPerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// 1,024 bytes per second.
    KibPerSecond,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::None,
        Self::Count,
        Self::Seconds,
        Self::Microseconds,
        Self::UnixSeconds,
        Self::Bytes,
        Self::Kib,
        Self::Percent,
        Self::Ratio,
        Self::CountPerSecond,
        Self::SecondsPerSecond,
        Self::BytesPerSecond,
        Self::KibPerSecond,
    ];

    /// Its name in JSON and in lists of columns.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Microseconds => "microseconds",
            Self::UnixSeconds => "unix_seconds",
            Self::Bytes => "bytes",
            Self::Kib => "kib",
            Self::Percent => "percent",
            Self::Ratio => "ratio",
            Self::CountPerSecond => "count_per_second",
            Self::SecondsPerSecond => "seconds_per_second",
            Self::BytesPerSecond => "bytes_per_second",
            Self::KibPerSecond => "kib_per_second",
        }
    }

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
