//! What tables show of rows and counters: `columns.toml`, and how each number is written.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::formatting;

static COLUMNS: LazyLock<HashMap<String, Vec<Column>>> = LazyLock::new(|| {
    toml::from_str(include_str!("columns.toml")).expect("the tables are well formed")
});

/// A column that is shown, or a counter.
#[derive(Debug, Clone, Deserialize)]
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
}

/// How a value is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Show {
    /// Whatever the column's name and the value say.
    #[default]
    Any,
    Text,
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
    /// Unix seconds.
    Moment,
}

impl Show {
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
            Self::Any | Self::Text | Self::Number | Self::Moment => formatting::number(number),
        }
    }
}

/// The columns of one of the tables.
pub(super) fn columns(table: &str) -> &'static [Column] {
    COLUMNS.get(table).map_or(&[], Vec::as_slice)
}
