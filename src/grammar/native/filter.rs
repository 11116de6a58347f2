//! Filters in forms: `"min_time=0.5"`, `"max_time<2"`, `"status=5*"`, `"+env!=test"`, or a table.
//!
//! | text | table | keeps |
//! |---|---|---|
//! | `min_time=0.5` (or `>=`), `min_time>0.5` | `{min_time = 0.5}`, with `exclusive = true` | request times from, above |
//! | `max_time=2` (or `<=`), `max_time<2` | `{max_time = 2}`, with `exclusive = true` | request times up to, below |
//! | `KEY=text` | `{key = "KEY", equals = "text"}` | exactly this text |
//! | `KEY!=text` | `{key = "KEY", differs = "text"}` | anything else, including a missing tag |
//! | `KEY=text*` | `{key = "KEY", starts_with = "text"}` | texts with this prefix |
//!
//! KEY is a field, `+request_tag` (the first of that name) or `@timer_tag` (every one of that
//! name). Blanks around KEY, operator and value do not count. Only a table can match a value that
//! ends with a star or has blanks around it, or name such a tag or one that contains `=`.

use serde::{Deserialize, Serialize};

use super::key::read_source;
use super::scalar::{FormTable, TextOr, seconds};
use crate::grammar::comment::is_status;
use crate::grammar::number::{Seconds, seconds_text};
use crate::report::definition::{Defaults, Field, Filter, KeySource, Level, Pattern};

const FILTERS: &str = "a filter is min_time=<seconds>, max_time=<seconds>, max_time<<seconds>, or KEY=value, \
    KEY!=value, KEY=prefix*, where KEY is hostname, server_name, script_name, schema, status, +<request tag> or \
    @<timer tag>";

/// What else a filter may be on.
const TIMES: [&str; 2] = ["min_time", "max_time"];

/// A filter, as text or as a table.
pub type FilterForm = TextOr<FilterTable>;

/// A filter in parts: either `min_time` or `max_time`, or `key` with one of `equals`, `differs`,
/// `starts_with`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilterTable {
    /// Shortest request time, in seconds.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub min_time: Option<f64>,
    /// Longest request time, in seconds.
    #[serde(default, deserialize_with = "seconds", skip_serializing_if = "Option::is_none")]
    pub max_time: Option<f64>,
    /// Whether the bound itself is excluded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// The key to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The text it must equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
    /// The text it must not equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differs: Option<String>,
    /// The required prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_with: Option<String>,
}

impl FormTable for FilterTable {
    const EXPECTED: &str = "a filter such as \"min_time=0.5\" or \"+env=prod\", or a table";
}

impl FilterForm {
    /// A filter as text if possible.
    pub(crate) fn of(filter: &Filter) -> Self {
        let (key, pattern) = match filter {
            Filter::MinTime(us) => return Self::Text(format!("min_time={}", seconds_text(*us))),
            Filter::TimeBelow(us) => return Self::Text(below(*us)),
            Filter::Field(field, pattern) => (field.name().to_owned(), pattern),
            Filter::RequestTag(name, pattern) => (format!("+{name}"), pattern),
            Filter::TimerTag(name, pattern) => (format!("@{name}"), pattern),
        };
        let text = pattern.condition(&key);
        // Lengths were checked when the filter was created.
        let any_length = Defaults { text_bytes_max: u16::MAX, ..Defaults::default() };
        if read_text(&text, Level::Timer, &any_length).as_ref() == Ok(filter) {
            return Self::Text(text);
        }
        let mut table = FilterTable { key: Some(key), ..FilterTable::default() };
        match pattern {
            Pattern::Equals(value) => table.equals = Some(value.clone()),
            Pattern::Differs(value) => table.differs = Some(value.clone()),
            Pattern::StartsWith(value) => table.starts_with = Some(value.clone()),
        }
        Self::Table(table)
    }

    pub(super) fn read(&self, level: Level, defaults: &Defaults) -> Result<Filter, String> {
        match self {
            Self::Text(text) => read_text(text, level, defaults),
            Self::Table(table) => read_table(table, level, defaults),
        }
    }
}

fn read_text(text: &str, level: Level, defaults: &Defaults) -> Result<Filter, String> {
    let text = text.trim();
    for (name, or_equal, strict) in [("min_time", ">=", ">"), ("max_time", "<=", "<")] {
        let Some(bound) = text.strip_prefix(name).map(str::trim_start) else { continue };
        let mut operators = [(or_equal, false), ("=", false), (strict, true)].into_iter();
        let read = operators.find_map(|(it, exclusive)| Some((bound.strip_prefix(it)?, exclusive)));
        let (value, exclusive) = read.ok_or_else(|| {
            format!("'{text}': {name} takes =, {or_equal} or {strict}, then seconds")
        })?;
        return on_time(name == "min_time", value.trim_start(), exclusive);
    }
    let (key, pattern) =
        Pattern::of_condition(text).ok_or_else(|| format!("'{text}': {FILTERS}"))?;
    let pattern = pattern.ok_or_else(|| {
        format!(
            "'{text}': != takes a whole text, not a prefix (for a text that ends with a star: \
             {{\"key\": .., \"differs\": ..}})"
        )
    })?;
    on_key(read_source(key, &TIMES, level, defaults)?, pattern)
}

/// An upper bound in the shorter of its two spellings: `max_time=0.1` rather than
/// `max_time<0.100001`, `max_time<1` rather than `max_time=0.999999`.
fn below(us: u64) -> String {
    let exclusive = seconds_text(us);
    let inclusive = us.checked_sub(1).map(seconds_text);
    match inclusive.filter(|inclusive| inclusive.len() <= exclusive.len()) {
        Some(inclusive) => format!("max_time={inclusive}"),
        None => format!("max_time<{exclusive}"),
    }
}

fn read_table(table: &FilterTable, level: Level, defaults: &Defaults) -> Result<Filter, String> {
    let exclusive = table.exclusive.unwrap_or(false);
    let patterns = [
        table.equals.clone().map(Pattern::Equals),
        table.differs.clone().map(Pattern::Differs),
        table.starts_with.clone().map(Pattern::StartsWith),
    ];
    let mut patterns = patterns.into_iter().flatten();
    match (table.min_time, table.max_time, &table.key, patterns.next(), patterns.next()) {
        (Some(secs), None, None, None, _) => on_time(true, &secs.to_string(), exclusive),
        (None, Some(secs), None, None, _) => on_time(false, &secs.to_string(), exclusive),
        (None, None, Some(key), Some(pattern), None) if table.exclusive.is_none() => {
            on_key(read_source(key, &[], level, defaults)?, pattern)
        }
        _ => Err(
            "a filter table has either min_time or max_time (and exclusive), or key with one of \
                  equals, differs, starts_with"
                .to_owned(),
        ),
    }
}

/// A lower or an upper bound of the request time.
fn on_time(is_lower: bool, text: &str, exclusive: bool) -> Result<Filter, String> {
    let bound = Seconds::parse(text).map_err(|problem| format!("'{text}': {problem}"))?;
    // The first microsecond that passes, or the first that does not.
    let first = if is_lower == exclusive { bound.us_floor + 1 } else { bound.us_ceil };
    Ok(if is_lower { Filter::MinTime(first) } else { Filter::TimeBelow(first) })
}

fn on_key(source: KeySource, pattern: Pattern) -> Result<Filter, String> {
    match source {
        KeySource::Field(Field::Status) => {
            let fits = match &pattern {
                Pattern::Equals(value) | Pattern::Differs(value) => is_status(value),
                Pattern::StartsWith(value) => value.bytes().all(|byte| byte.is_ascii_digit()),
            };
            if fits {
                Ok(Filter::Field(Field::Status, pattern))
            } else {
                Err("a status is a whole number from 0 to 4294967295, or its first digits and a star"
                    .to_owned())
            }
        }
        KeySource::Field(field) => Ok(Filter::Field(field, pattern)),
        KeySource::RequestTag(name) => Ok(Filter::RequestTag(name, pattern)),
        KeySource::TimerTag(name) | KeySource::TimerTagOrField(name, _) => {
            Ok(Filter::TimerTag(name, pattern))
        }
    }
}
