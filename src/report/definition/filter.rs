//! Filters: the conditions that a record of a report must satisfy.

use serde::{Deserialize, Serialize};

use super::Field;

/// How to match a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// `=`: byte for byte.
    Equals(String),
    /// `!=`: anything else, including a missing tag.
    Differs(String),
    /// `prefix*`
    StartsWith(String),
}

impl Pattern {
    /// Splits `KEY=text`, `KEY!=text` or `KEY=prefix*` into key and pattern, without blanks around
    /// them. There is no pattern in `KEY!=prefix*`.
    pub(crate) fn of_condition(text: &str) -> Option<(&str, Option<Self>)> {
        let (key, value) = text.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        Some(match (key.strip_suffix('!').map(str::trim_end), value.strip_suffix('*')) {
            (None, None) => (key, Some(Self::Equals(value.to_owned()))),
            (None, Some(prefix)) => (key, Some(Self::StartsWith(prefix.to_owned()))),
            (Some(key), None) => (key, Some(Self::Differs(value.to_owned()))),
            (Some(key), Some(_)) => (key, None),
        })
    }

    /// The text of a condition on `key`, as [`of_condition`](Self::of_condition) takes it.
    pub(crate) fn condition(&self, key: &str) -> String {
        match self {
            Self::Equals(value) => format!("{key}={value}"),
            Self::Differs(value) => format!("{key}!={value}"),
            Self::StartsWith(value) => format!("{key}={value}*"),
        }
    }

    /// Whether `text` matches.
    pub fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Equals(value) => text == value.as_bytes(),
            Self::Differs(value) => text != value.as_bytes(),
            Self::StartsWith(prefix) => text.starts_with(prefix.as_bytes()),
        }
    }
}

/// One condition on a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Filter {
    /// Request time at least this many microseconds.
    MinTime(u64),
    /// Request time below this many microseconds. An inclusive bound of `m` is stored as `m + 1`.
    TimeBelow(u64),
    /// A field of the request (status as decimal text).
    Field(Field, Pattern),
    /// The first request tag of that name.
    RequestTag(String, Pattern),
    /// Every timer tag of that name; at least one must be there (not for `Differs`). Timer level
    /// only.
    TimerTag(String, Pattern),
}

impl Filter {
    /// Whether a request with this time passes; true if this is not a filter on time.
    pub const fn time_passes(&self, time_us: u64) -> bool {
        match *self {
            Self::MinTime(min) => time_us >= min,
            Self::TimeBelow(bound) => time_us < bound,
            Self::Field(..) | Self::RequestTag(..) | Self::TimerTag(..) => true,
        }
    }
}
