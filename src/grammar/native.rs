//! The native form of a report, in TOML (`[[report]]`) and JSON (`POST /api/v1/reports`), and back
//! again.
//!
//! ```toml
//! [[report]]
//! name = "slow_groups"
//! level = "timer"                                  # packet, request, timer or sample
//! keys = ["script_name", "+env", { key = "@group", missing = "empty" }]
//! filters = ["min_time=0.5", "max_time<10", "server_name!=test", "+env=prod", "@server=db*"]
//! percentiles = [50, 99.9]
//! window = "10m"                                   # default: pool.stats_history
//! ```
//!
//! or `name` with `comment`, any COMMENT of Pinba or pinba2. Both end in a [`Definition`]; every
//! definition, whatever its source, can also be shown as a form. Read at start and on front ends'
//! threads; every list is bounded. Errors name the part at fault and what is accepted; the caller
//! names the report and the file.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::FixedTable;
use super::comment::{self, Comment, read_hv};
use super::percentile::add_percentile;
use crate::config::suggest::accepting;
use crate::profile::definition::SampleReport;
use crate::report::definition::{
    DEFINITION_KEYS_MAX, Defaults, Definition, FILTERS_MAX, Filter, Key, Kind, Level,
    NAME_BYTES_MAX,
};
use crate::report::histogram::BucketLayout;

mod filter;
mod key;
mod scalar;

pub use filter::{FilterForm, FilterTable};
pub use key::{KeyForm, KeyTable};
pub use scalar::{FormTable, PercentForm, TextOr, WindowForm};

/// A report as a person writes it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportForm {
    /// Its name.
    pub name: String,
    /// A COMMENT of Pinba or pinba2. Excludes all other members but `history`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The records to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<FormLevel>,
    /// The keys that distinguish rows, in column order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyForm>,
    /// Conditions that a record must all satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<FilterForm>,
    /// Percent ranks, in column order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<PercentForm>,
    /// Length of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowForm>,
    /// The buckets of times: `log-linear` (the default), `linear=<seconds>:<buckets>`, `hv=<min
    /// ms>:<max ms>:<buckets>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
    /// Whether its past is kept on disk; by default `history.reports` decides. May accompany a
    /// COMMENT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<bool>,
}

/// The records that a report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormLevel {
    /// See [`Level::Packet`].
    Packet,
    /// See [`Level::Request`].
    Request,
    /// See [`Level::Timer`].
    Timer,
    /// A sample of a stat extension.
    Sample,
}

/// The reason why a form does not define a report.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormError {
    /// It is the COMMENT of a fixed table.
    #[error("comment '{}': the table {} is always there and is not a report", .0.comment(), .0.name())]
    Fixed(FixedTable),
    /// It is a report over samples, not requests.
    #[error("level: a report over samples is none over requests")]
    Samples(SampleReport),
    /// It contains two definitions: a COMMENT, and this.
    #[error("comment: {}", mixed(.0))]
    Mixed(&'static str),
    /// The name, the COMMENT or (`""`) the form as a whole, and the problem.
    #[error("{1}")]
    Whole(&'static str, String),
    /// One setting, in a list with its index (`keys[0]`), and the problem.
    #[error("{0}: {1}")]
    Part(String, String),
}

impl FormError {
    fn part(part: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Part(part.into(), problem.into())
    }

    /// The setting at fault (`keys[0]`; empty for the form as a whole), and the problem.
    pub fn part_and_problem(&self) -> (&str, String) {
        match self {
            Self::Part(part, problem) => (part, problem.clone()),
            Self::Whole(part, problem) => (part, problem.clone()),
            Self::Mixed(other) => ("comment", mixed(other)),
            Self::Fixed(_) => ("comment", self.to_string()),
            Self::Samples(_) => ("level", self.to_string()),
        }
    }
}

/// Reads the items of a list.
fn each<T, U>(
    list: &str,
    items: &[T],
    mut read: impl FnMut(&T) -> Result<U, String>,
) -> Result<Vec<U>, FormError> {
    let read = |(place, item): (usize, &T)| {
        read(item).map_err(|problem| FormError::part(format!("{list}[{place}]"), problem))
    };
    items.iter().enumerate().map(read).collect()
}

fn mixed(other: &str) -> String {
    format!("cannot be given together with {other}; give either a comment or level, keys, ...")
}

fn in_comment(error: impl ToString) -> FormError {
    FormError::Whole("comment", error.to_string())
}

/// Words an error of the parser about a setting (`""`: about the form as a whole) as other messages
/// do: with the nearest name, or with all that is accepted.
pub fn reworded(setting: &str, error: &str) -> String {
    // TOML's says below in which key of a table it was.
    let (error, place) = error.split_once('\n').unwrap_or((error, ""));
    let place = place.trim().strip_prefix("in `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(key) = place {
        return format!("{key}: {}", reworded("", error));
    }
    let missing = error.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`'));
    if let Some(key) = missing {
        let accepted = if key == "name" { "the name of the report" } else { "a field or a tag" };
        return format!("no {key}; accepted: {key} = {accepted}");
    }
    let mut unknown = ["unknown field `", "unknown variant `"].into_iter();
    let unknown = unknown.find_map(|begin| error.strip_prefix(begin));
    let Some((given, accepted)) = unknown.and_then(|rest| rest.split_once("`, expected ")) else {
        return match accepted(setting).filter(|_| error.starts_with("invalid type")) {
            // The parser's words for it are about variants.
            Some(accepted) if setting == "level" => format!("not a text; accepted: {accepted}"),
            Some(accepted) => format!("{error}; accepted: {accepted}"),
            None => error.to_owned(),
        };
    };
    // They stand between backticks.
    let accepted: Vec<&str> = accepted.split('`').skip(1).step_by(2).collect();
    format!("{given:?} is unknown{}", accepting(given, &accepted))
}

/// What a setting accepts, for errors about its type; that of `window` says so itself.
fn accepted(setting: &str) -> Option<&'static str> {
    Some(match setting {
        "name" | "comment" | "histogram" => "a text",
        "level" => "packet, request, timer, sample",
        "keys" | "filters" => "a list of texts or tables",
        "percentiles" => "a list of numbers greater than 0 and at most 100",
        "history" => "true or false",
        _ => return None,
    })
}

/// Parses a table's COMMENT: Pinba's or pinba2's grammar, or the native form as a JSON object
/// (without `name`), as `pinbad tables` writes native reports.
///
/// # Errors
/// Fails if the name, the COMMENT or the form is invalid.
pub fn read_comment(name: &str, comment: &str, defaults: &Defaults) -> Result<Comment, FormError> {
    check_name(name)?;
    if !comment.starts_with('{') || comment.len() > comment::COMMENT_BYTES_MAX {
        return comment::parse(name, comment, defaults).map_err(in_comment);
    }
    let members = serde_json::from_str(comment).map_err(in_comment)?;
    let form = ReportForm::from_members(name, members)?;
    // A COMMENT inside a COMMENT would recurse.
    if form.comment.is_some() {
        return Err(in_comment("give level, keys, ... and no comment inside"));
    }
    Ok(Comment::Report(Box::new(form.definition(defaults)?)))
}

impl ReportForm {
    /// A form from its name and its other members, as in a JSON object.
    ///
    /// # Errors
    /// Fails if a member is unknown or of the wrong type.
    pub fn from_members(
        name: &str,
        mut members: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Self, FormError> {
        let known = "comment level keys filters percentiles window histogram history name";
        let known: Vec<&str> = known.split(' ').collect();
        if let Some(member) = members.keys().find(|it| !known.contains(&it.as_str())) {
            let problem = format!("is unknown{}", accepting(member, &known));
            return Err(FormError::part(member, problem));
        }
        members.insert("name".to_owned(), name.into());
        let read = |members: serde_json::Map<_, _>| serde_json::from_value::<Self>(members.into());
        let whole = match read(members.clone()) {
            Ok(form) => return Ok(form),
            Err(error) => error,
        };
        // The parser does not say which member it was, so each is tried separately.
        let wrong = members.into_iter().find_map(|(member, value)| {
            let alone = [("name".to_owned(), name.into()), (member.clone(), value)];
            let error = read(alone.into_iter().collect()).err()?;
            let problem = reworded(&member, &error.to_string());
            Some(FormError::part(member, problem))
        });
        Err(wrong.unwrap_or_else(|| in_comment(whole)))
    }

    /// A form with a COMMENT.
    pub fn of_comment(name: &str, comment: &str) -> Self {
        Self { name: name.to_owned(), comment: Some(comment.to_owned()), ..Self::default() }
    }

    /// The definition of the form.
    ///
    /// # Errors
    /// Fails if any part is invalid; the error names it.
    pub fn definition(&self, defaults: &Defaults) -> Result<Definition, FormError> {
        check_name(&self.name)?;
        let Some(comment) = &self.comment else { return self.native(defaults) };
        let others = [
            ("level", self.level.is_some()),
            ("keys", !self.keys.is_empty()),
            ("filters", !self.filters.is_empty()),
            ("percentiles", !self.percentiles.is_empty()),
            ("window", self.window.is_some()),
            ("histogram", self.histogram.is_some()),
        ];
        if let Some((other, _)) = others.iter().find(|(_, given)| *given) {
            return Err(FormError::Mixed(other));
        }
        match read_comment(&self.name, comment, defaults)? {
            Comment::Report(definition) => Ok(Definition { history: self.history, ..*definition }),
            Comment::Fixed(table) => Err(FormError::Fixed(table)),
        }
    }

    fn native(&self, defaults: &Defaults) -> Result<Definition, FormError> {
        let nothing =
            "give either comment, or level (packet, request, timer or sample) with keys, ...";
        let level = match self.level.ok_or(FormError::Whole("", nothing.to_owned()))? {
            FormLevel::Packet => Level::Packet,
            FormLevel::Request => Level::Request,
            FormLevel::Timer => Level::Timer,
            FormLevel::Sample => return Err(FormError::Samples(self.samples(defaults)?)),
        };
        let keys = self.read_keys(level, defaults)?;
        let filters = self.read_filters(level, defaults)?;
        let mut percentiles = Vec::with_capacity(self.percentiles.len());
        let add = |it: &PercentForm| add_percentile(&mut percentiles, it.0);
        each("percentiles", &self.percentiles, add)?;
        let window = self.read_window(defaults)?;
        let buckets = match &self.histogram {
            None => BucketLayout::LogLinear,
            Some(text) => read_layout(text, defaults)
                .map_err(|problem| FormError::part("histogram", problem))?,
        };
        let definition = Definition {
            keys,
            filters,
            percentiles,
            buckets,
            history: self.history,
            ..Definition::new(&self.name, Kind::Native, level, window)
        };
        Ok(definition.with_columns(defaults))
    }

    /// The report over samples that the form defines.
    fn samples(&self, defaults: &Defaults) -> Result<SampleReport, FormError> {
        for (part, is_given) in
            [("percentiles", !self.percentiles.is_empty()), ("histogram", self.histogram.is_some())]
        {
            if is_given {
                return Err(FormError::part(part, "a report of level sample has none"));
            }
        }
        if self.history == Some(true) {
            let problem = "a report of level sample has none of its own: history.profile_functions has all samples by host, \
                           script, scope, function and file. To keep them one by one, record GET /api/v1/stream/samples";
            return Err(FormError::part("history", problem));
        }
        if self.keys.len() > DEFINITION_KEYS_MAX || self.filters.len() > FILTERS_MAX {
            let problem =
                format!("there may be {DEFINITION_KEYS_MAX} keys and {FILTERS_MAX} filters");
            return Err(FormError::part("keys", problem));
        }
        let keys = each("keys", &self.keys, TextOr::only_text)?;
        let filters = each("filters", &self.filters, TextOr::only_text)?;
        SampleReport::read(&keys, &filters, self.read_window(defaults)?)
            .map_err(|(list, place, problem)| FormError::part(format!("{list}[{place}]"), problem))
    }

    fn read_window(&self, defaults: &Defaults) -> Result<Duration, FormError> {
        let given = self.window.as_ref().map(WindowForm::read).transpose();
        let given = given.map_err(|problem| FormError::part("window", problem))?;
        Ok(given.unwrap_or(defaults.raw_window))
    }

    fn read_keys(&self, level: Level, defaults: &Defaults) -> Result<Vec<Key>, FormError> {
        let (given, most) = (self.keys.len(), DEFINITION_KEYS_MAX);
        if level == Level::Packet && given > 0 {
            return Err(FormError::part("keys", "a report of level packet has no keys"));
        }
        if level != Level::Packet && !(1..=most).contains(&given) {
            let problem =
                format!("there must be 1 to {most} keys, not {given} (level packet has none)");
            return Err(FormError::part("keys", problem));
        }
        let mut sources = Vec::with_capacity(given);
        each("keys", &self.keys, |form| {
            let key = form.read(level, defaults)?;
            if sources.contains(&key.source) {
                return Err(format!("the key '{}' is given twice", key.source));
            }
            sources.push(key.source.clone());
            Ok(key)
        })
    }

    fn read_filters(&self, level: Level, defaults: &Defaults) -> Result<Vec<Filter>, FormError> {
        if self.filters.len() > FILTERS_MAX {
            return Err(FormError::part("filters", format!("there may be at most {FILTERS_MAX}")));
        }
        let filters = each("filters", &self.filters, |form| form.read(level, defaults))?;
        let (mut min, mut below) = (None, None);
        for filter in &filters {
            match filter {
                Filter::MinTime(us) => min = min.or(Some(*us)),
                Filter::TimeBelow(us) => below = below.or(Some(*us)),
                _ => {}
            }
        }
        // If they are equal nothing is between them, but pinba2 accepts such a COMMENT, so its form
        // is accepted too.
        if min.zip(below).is_some_and(|(min, below)| min > below) {
            return Err(FormError::part("filters", "min_time is greater than max_time"));
        }
        Ok(filters)
    }
}

/// Every definition as a native form.
impl From<&Definition> for ReportForm {
    fn from(definition: &Definition) -> Self {
        let percentiles = definition.percentiles.iter().copied();
        Self {
            name: definition.name.clone(),
            comment: None,
            level: Some(match definition.level {
                Level::Packet => FormLevel::Packet,
                Level::Request => FormLevel::Request,
                Level::Timer => FormLevel::Timer,
            }),
            keys: definition.keys.iter().map(KeyForm::from).collect(),
            filters: definition.filters.iter().map(FilterForm::of).collect(),
            percentiles: percentiles.map(PercentForm).collect(),
            window: Some(WindowForm::from(definition.window)),
            histogram: (definition.buckets != BucketLayout::LogLinear)
                .then(|| definition.buckets.to_string()),
            history: definition.history,
        }
    }
}

/// A report over samples as a form.
impl From<&SampleReport> for ReportForm {
    fn from(report: &SampleReport) -> Self {
        let keys = report.keys.iter().map(|key| key.name().to_owned());
        let filters = report.filters.iter();
        let filters = filters.map(|(key, wanted)| FilterForm::Text(wanted.condition(key.name())));
        Self {
            level: Some(FormLevel::Sample),
            keys: keys.map(KeyForm::Text).collect(),
            filters: filters.collect(),
            window: Some(WindowForm::from(report.window)),
            ..Self::default()
        }
    }
}

/// Checks whether a report may have this name, which appears in URLs and in SQL.
///
/// # Errors
/// Fails if it may not.
pub fn check_name(name: &str) -> Result<(), FormError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let starts = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.bytes().next().is_some_and(starts)
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(allowed)
    {
        Ok(())
    } else {
        let shown: String = name.chars().take(NAME_BYTES_MAX + 1).collect();
        let problem = format!(
            "name '{shown}': a report's name has 1 to {NAME_BYTES_MAX} of a-z, A-Z, 0-9, '_', '-' and '.', \
             and does not start with '-' or '.'"
        );
        Err(FormError::Whole("name", problem))
    }
}

fn read_layout(text: &str, defaults: &Defaults) -> Result<BucketLayout, String> {
    if text == "log-linear" {
        return Ok(BucketLayout::LogLinear);
    }
    if let Some(hv) = text.strip_prefix("hv=") {
        return read_hv(hv);
    }
    let usual = defaults.histogram_size.to_string();
    let range = text.strip_prefix("linear=");
    let range = range.map(|range| range.split_once(':').unwrap_or((range, &usual)));
    let read = range.and_then(|(max, size)| Some((max.parse().ok()?, size.parse().ok()?)));
    let (max, size) = read.ok_or(
        "must be log-linear, linear=<seconds>:<buckets> or hv=<min ms>:<max ms>:<buckets>",
    )?;
    BucketLayout::linear(max, size)
}

#[cfg(test)]
mod tests;
