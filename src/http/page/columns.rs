//! What tables show of rows and counters: `columns.toml`, and how each number is written.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::formatting::{self, Unit};

static COLUMNS: LazyLock<HashMap<String, Vec<Column>>> = LazyLock::new(|| {
    toml::from_str(include_str!("columns.toml")).expect("the tables are well formed")
});

/// A column that is shown, or a counter.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Column {
    /// Its name in the report, the table or the status.
    pub(super) name: String,
    pub(super) title: String,
    /// What it means, in full.
    #[serde(default)]
    pub(super) hint: String,
    #[serde(default)]
    pub(super) show: Show,
    /// The counter that says how much of it there is room for.
    #[serde(default)]
    pub(super) room: String,
    /// In which unit all of its numbers are written; `None`: each in its own.
    #[serde(skip)]
    pub(super) unit: Option<Unit>,
}

/// How a value is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Show {
    /// Whatever the column's name and the value say.
    #[default]
    Any,
    Text,
    /// Tags in one text, which may need several lines.
    Tags,
    Number,
    Count,
    /// A count, and what part of the requests it is.
    Errors,
    Secs,
    /// A part of all.
    Share,
    /// By which part it changed.
    Change,
    /// The same of what is worse when it is more.
    Worse,
    Bytes,
    Kib,
    /// Of HTTP.
    Status,
    /// Processors that it keeps busy.
    Cores,
}

impl Show {
    /// One unit for all of these numbers; `None`: they have none.
    pub(super) fn unit(self, numbers: impl IntoIterator<Item = f64>) -> Option<Unit> {
        let numbers = numbers.into_iter();
        match self {
            Self::Secs => Some(Unit::of_secs(numbers)),
            Self::Bytes => Some(Unit::of_bytes(numbers)),
            Self::Kib => Some(Unit::of_bytes(numbers.map(|it| it * 1024.0))),
            _ => None,
        }
    }

    /// A number as text, in this unit if there is one.
    pub(super) fn text_in(self, unit: Option<Unit>, number: f64) -> String {
        match (unit, self) {
            (None, _) => self.text(number),
            (Some(unit), Self::Kib) => unit.text(number * 1024.0),
            (Some(unit), _) => unit.text(number),
        }
    }

    /// A number as text.
    pub(super) fn text(self, number: f64) -> String {
        match self {
            Self::Count | Self::Errors => formatting::count(number as u64),
            Self::Secs => formatting::secs(number),
            Self::Bytes => formatting::bytes(number),
            Self::Kib => formatting::bytes(number * 1024.0),
            Self::Share => formatting::percent(number),
            Self::Change | Self::Worse => formatting::change(number),
            Self::Status => number.to_string(),
            Self::Any | Self::Text | Self::Tags | Self::Number | Self::Cores => {
                formatting::number(number)
            }
        }
    }
}

/// The columns of one of the tables.
pub(super) fn columns(table: &str) -> &'static [Column] {
    COLUMNS.get(table).map_or(&[], Vec::as_slice)
}
