//! Keys: the values by which a report distinguishes its rows.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::input::record::counted;

counted! {
    /// A field of a request that can be a key.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    Field {
        /// `hostname`
        Hostname = "hostname",
        /// `server_name`
        ServerName = "server_name",
        /// `script_name`
        ScriptName = "script_name",
        /// `schema`; an absent one is the empty text here.
        Schema = "schema",
        /// `status`, the only number.
        Status = "status",
    }
}

impl Field {
    /// Its name in pinba2, without the `~`.
    pub const fn v2_name(self) -> &'static str {
        match self {
            Self::Hostname => "host",
            Self::ServerName => "server",
            Self::ScriptName => "script",
            Self::Schema | Self::Status => self.name(),
        }
    }

    /// Finds the field with this column name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// The source of a key's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeySource {
    /// A field of the request.
    Field(Field),
    /// A tag of the request.
    RequestTag(String),
    /// A tag of the timer (timer level only).
    TimerTag(String),
    /// A tag of the timer or, if the timer has none of that name, a field of its request:
    /// `__hostname`, `__server_name`, `__script_name`, `__schema`, `__status`. Always text.
    TimerTagOrField(String, Field),
}

impl KeySource {
    /// The timer tag of that name; `__hostname` and the like fall back to the field of the request.
    pub fn timer_tag(name: &str) -> Self {
        match name.strip_prefix("__").and_then(Field::named) {
            Some(field) => Self::TimerTagOrField(name.to_owned(), field),
            None => Self::TimerTag(name.to_owned()),
        }
    }

    /// Whether the value comes from the timer.
    pub const fn is_of_timer(&self) -> bool {
        matches!(self, Self::TimerTag(_) | Self::TimerTagOrField(..))
    }
}

/// As written in the native form: `script_name`, `+request_tag`, `@timer_tag`.
impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => f.write_str(field.name()),
            Self::RequestTag(name) => write!(f, "+{name}"),
            Self::TimerTag(name) | Self::TimerTagOrField(name, _) => write!(f, "@{name}"),
        }
    }
}

/// Which of several tags with the same name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// The first in packet order.
    First,
    /// The last in packet order (Pinba's `tag2_*`).
    Last,
}

/// The treatment of a record that lacks the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It is not counted. A field is missing if it is empty; a tag if there is none of that name
    /// (and its fallback field, if any, is empty).
    Skip,
    /// As `Skip`, and an empty tag value is missing too (pinba2).
    SkipEmpty,
    /// It is counted under the empty text.
    Empty,
}

/// One key of a report, or of the groups of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The source of the value.
    pub source: KeySource,
    /// Which of several tags counts.
    pub occurrence: Occurrence,
    /// The treatment of records without it.
    pub missing: Missing,
}

impl Key {
    /// The key with the defaults of its source: the first of several tags counts. A field always
    /// has a value, if only an empty text, and so has a tag with a fallback field; records without
    /// another tag are skipped.
    pub const fn of(source: KeySource) -> Self {
        let missing = match source {
            KeySource::Field(_) | KeySource::TimerTagOrField(..) => Missing::Empty,
            KeySource::RequestTag(_) | KeySource::TimerTag(_) => Missing::Skip,
        };
        Self { source, occurrence: Occurrence::First, missing }
    }

    /// Whether a record lacks the key: `None` if it has no value, else whether the value is empty.
    pub(crate) fn lacks(&self, is_empty: Option<bool>) -> bool {
        match self.missing {
            Missing::Empty => false,
            Missing::SkipEmpty => is_empty != Some(false),
            Missing::Skip => match self.source {
                KeySource::Field(_) => is_empty != Some(false),
                _ => is_empty.is_none(),
            },
        }
    }

    /// Whether groups with this key serve a report with `key`.
    ///
    /// A group key that distinguishes missing from empty serves keys that skip either or both. Not
    /// so with timers: two timers of one request, one of them without the tag, may be in one row,
    /// and then must be in one group.
    pub(in crate::report) fn serves(&self, key: &Self) -> bool {
        self.source == key.source
            && (self.occurrence == key.occurrence || matches!(self.source, KeySource::Field(_)))
            && (self.missing == key.missing
                || self.missing == Missing::Empty && !self.source.is_of_timer())
    }

    /// Whether a flood of different values is likely here.
    pub(in crate::report) fn is_open(&self) -> bool {
        !matches!(
            self.source,
            KeySource::Field(Field::Status | Field::Schema | Field::Hostname | Field::ServerName)
        )
    }
}
