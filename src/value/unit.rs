//! Units: in what the numbers of a column are.
//!
//! Declared with the column, so that no reader has to guess it from a name. `/api/v1/reports` tells
//! it with every column; pages and `top` choose by it how a number is written, history and
//! ClickHouse what is stored.

/// In what a column's numbers are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// In nothing: texts, ids, codes.
    #[default]
    None,
    /// How many.
    Count,
    /// So long, seconds.
    Seconds,
    /// A moment, seconds since 1970.
    UnixSeconds,
    /// Bytes.
    Bytes,
    /// 1,024 bytes, as Pinba's tables have sizes.
    Kib,
    /// Hundredths of a whole.
    Percent,
    /// A part of what it was before: a change of 0.12 is 12 % more.
    Ratio,
    /// So many a second.
    CountPerSecond,
    /// Seconds spent in a second: of CPU time, the cores that are busy.
    SecondsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// 1,024 bytes a second.
    KibPerSecond,
}

impl Unit {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::None,
        Self::Count,
        Self::Seconds,
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
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Count => "count",
            Self::Seconds => "seconds",
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

    /// The unit of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The unit of the same numbers a second, where there is one.
    #[must_use]
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
