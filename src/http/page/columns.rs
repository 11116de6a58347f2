//! The columns of tables and lists of counters (`columns.toml`), and their formats.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::formatting::{self, Scale};
use crate::value::{self, ColumnType, Unit};

static COLUMNS: LazyLock<HashMap<String, Vec<Column>>> = LazyLock::new(|| {
    toml::from_str(include_str!("columns.toml")).expect("the tables are well formed")
});

/// A displayed column or counter.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Column {
    /// Its name in the report, the table or the status.
    pub(super) name: String,
    pub(super) title: String,
    /// Its meaning, in full.
    #[serde(default)]
    pub(super) hint: String,
    #[serde(default)]
    pub(super) show: Show,
    /// The counter with its limit.
    #[serde(default)]
    pub(super) room: String,
    /// The common scale of its numbers; `None` formats each on its own.
    #[serde(skip)]
    pub(super) scale: Option<Scale>,
}

/// The format of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Show {
    /// By the declared unit, else by type.
    #[default]
    Any,
    Text,
    /// A text of any length, which may wrap.
    Prose,
    /// Tags as one text, which may wrap.
    Tags,
    Number,
    Count,
    /// A count, and its share of the requests.
    Errors,
    Secs,
    /// A moment, in the zone of the page.
    Moment,
    /// Microseconds, never in a larger unit: they can be far below one.
    Micros,
    /// Percent of the whole.
    Share,
    /// A fraction of the whole.
    Part,
    /// A relative change.
    Change,
    /// A relative change where more is worse.
    Worse,
    Bytes,
    Kib,
    /// An HTTP status.
    Status,
}

impl Show {
    /// The format for a column as declared.
    pub(super) fn of(column: &value::Column) -> Self {
        match column.unit {
            Unit::None if column.column_type == ColumnType::Text => Self::Prose,
            Unit::None if column.column_type.is_text() => Self::Text,
            Unit::None => Self::Any,
            Unit::UnixSeconds => Self::Moment,
            Unit::Count => Self::Count,
            Unit::Seconds => Self::Secs,
            Unit::Microseconds => Self::Micros,
            Unit::Bytes | Unit::BytesPerSecond => Self::Bytes,
            Unit::Kib | Unit::KibPerSecond => Self::Kib,
            Unit::Percent => Self::Share,
            Unit::Part => Self::Part,
            Unit::Ratio => Self::Change,
            Unit::CountPerSecond | Unit::SecondsPerSecond => Self::Number,
        }
    }

    /// A common scale for these numbers; `None` if the format has none.
    pub(super) fn scale(self, numbers: impl IntoIterator<Item = f64>) -> Option<Scale> {
        let numbers = numbers.into_iter();
        match self {
            Self::Secs => Some(Scale::of_secs(numbers)),
            Self::Bytes => Some(Scale::of_bytes(numbers)),
            Self::Kib => Some(Scale::of_bytes(numbers.map(|it| it * 1024.0))),
            _ => None,
        }
    }

    /// Formats a number, on this scale if there is one.
    pub(super) fn text_in(self, scale: Option<Scale>, number: f64) -> String {
        match (scale, self) {
            (None, _) => self.text(number),
            (Some(scale), Self::Kib) => scale.text(number * 1024.0),
            (Some(scale), _) => scale.text(number),
        }
    }

    /// Formats a number.
    pub(super) fn text(self, number: f64) -> String {
        match self {
            Self::Count | Self::Errors => formatting::count(number as u64),
            Self::Secs => formatting::secs(number),
            Self::Micros => value::text::with_unit(number, Unit::Microseconds),
            Self::Bytes => formatting::bytes(number),
            Self::Kib => formatting::bytes(number * 1024.0),
            Self::Share => formatting::percent(number),
            Self::Part => formatting::percent(number * 100.0),
            Self::Change | Self::Worse => formatting::change(number),
            Self::Status => number.to_string(),
            Self::Any | Self::Text | Self::Prose | Self::Tags | Self::Number | Self::Moment => {
                formatting::number(number)
            }
        }
    }
}

/// The columns of one of the tables.
pub(super) fn columns(table: &str) -> &'static [Column] {
    COLUMNS.get(table).map_or(&[], Vec::as_slice)
}
