//! What a report is: level, keys, filters, percentiles, window, and the shape in which it is shown.
//!
//! Every way to ask for a report (a Pinba COMMENT, a pinba2 COMMENT, TOML, JSON) is translated to a
//! [`Definition`], and the engine knows nothing else. A definition is checked when it is made; the engine trusts it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::histogram::{BucketLayout, Rank, Ranks, Rounding};
use super::layout::{Cell, ColumnLayout, Table};
use super::v1_kinds::V1Kind;

/// Most keys that can be asked for (`tagN_report2` adds script, host and server to its tags).
pub const KEYS_MAX: usize = 15;
/// Most keys of any definition: 15 tags and three fields.
pub const DEFINITION_KEYS_MAX: usize = KEYS_MAX + 3;
/// Most percentiles of one report.
pub const PERCENTILES_MAX: usize = 32;
/// Most filters of one report.
pub const FILTERS_MAX: usize = 32;
/// Longest name of a report, bytes: what MySQL allows a table.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest window: 366 days.
pub const WINDOW_SECS_MAX: u64 = 366 * 86_400;

/// What a definition takes from the configuration when it does not say so itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// `pool.stats_history`: the window of v1 reports, and of others that name none.
    pub history: Duration,
    /// Upper end of linear histograms, seconds (`pinba_histogram_max_time`).
    pub histogram_max_secs: u64,
    /// Buckets of linear histograms (`pinba_histogram_size`).
    pub histogram_size: u32,
    /// Longest script name that is kept, bytes: the declared length of such columns.
    pub script_name_bytes_max: u16,
    /// Longest other text that is kept, bytes.
    pub text_bytes_max: u16,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            history: Duration::from_secs(900),
            histogram_max_secs: 10,
            histogram_size: 1024,
            script_name_bytes_max: 512,
            text_bytes_max: 255,
        }
    }
}

/// One report, ready for the engine.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// The name under which it is read; unique among the live reports.
    pub name: String,
    /// The Pinba or pinba2 COMMENT it came from (or could have come from); `None` for what only the native form can say.
    pub comment: Option<String>,
    /// `base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`: what `GET /api/v1/reports` shows.
    pub kind: Kind,
    /// What is counted.
    pub level: Level,
    /// What rows are told apart by, in column order; empty: one row.
    pub keys: Vec<Key>,
    /// What a record must satisfy to be counted; all of them.
    pub filters: Vec<Filter>,
    /// Percent ranks, each in (0, 100], in column order.
    pub percentiles: Vec<f64>,
    /// Percent ranks that a reader asked for on top of them: empty but in a definition made by [`Definition::read_as`].
    pub added: Vec<f64>,
    /// How far back it reaches. Divided into ticks of `max(1 s, window / 120)`.
    pub window: Duration,
    /// How times are put into buckets for medians, percentiles and histogram views.
    pub buckets: BucketLayout,
    /// Whether the smallest and largest values inside the window are kept (native reports).
    pub extremes: bool,
    /// Whether its past is kept on disk; `None`: if `history.reports` says so.
    pub history: Option<bool>,
    /// The columns, and how each is computed from a row.
    pub layout: ColumnLayout,
}

impl Definition {
    /// The ranks of a row's quantiles: the median, the percentiles, and those that were added.
    #[must_use]
    pub fn ranks(&self) -> Ranks {
        let rounding = self.kind.rounding();
        let own = std::iter::once(50.0).chain(self.percentiles.iter().copied());
        let own = own.filter_map(|percent| Rank::percent(percent, rounding));
        let added = self.added.iter();
        let added = added.filter_map(|percent| Rank::percent(*percent, Rounding::Up));
        Ranks::new(own.chain(added).collect())
    }

    /// The place of the first quantile that is never above the longest time: those of the native form, and added ones.
    pub(super) fn bounded_from(&self) -> usize {
        match self.kind {
            Kind::Native => 0,
            _ => 1 + self.percentiles.len(),
        }
    }

    /// The same report in other columns: what it counts, for how long and by what stays as it is, so it can be read in
    /// place of the other. `None`: in its own.
    #[must_use]
    pub fn read_as(&self, columns: &Columns, defaults: &Defaults) -> Option<Self> {
        match columns {
            Columns::Own => None,
            Columns::Native(percentiles) => Some(self.in_native_columns(percentiles, defaults)),
            Columns::With(percentiles) | Columns::Extended(percentiles) => {
                let native = self.in_native_columns(percentiles, defaults);
                let is_extended = matches!(columns, Columns::Extended(_));
                Some(self.with_columns_of(&native, is_extended))
            }
        }
    }

    /// The same with the percentiles of another that it lacks, and all other columns of that one too if `all`.
    fn with_columns_of(&self, other: &Self, all: bool) -> Self {
        let mut extended = self.clone();
        for column in other.layout.columns() {
            let name = &column.column.name;
            if extended.layout.position(name).is_some() {
                continue;
            }
            let mut column = column.clone();
            if let Cell::Quantile(rank) = &mut column.cell {
                let percentiles = other.percentiles.get(rank.wrapping_sub(1));
                if percentiles.is_none() && !all {
                    continue;
                }
                extended.added.push(percentiles.copied().unwrap_or(50.0));
                *rank = self.percentiles.len() + extended.added.len();
            } else if !all {
                continue;
            }
            extended.layout.push(column);
        }
        extended
    }

    /// The same report in the columns of the native form, with percentiles of choice. Key columns keep their names.
    fn in_native_columns(&self, percentiles: &[f64], defaults: &Defaults) -> Self {
        let mut native = Self {
            kind: Kind::Native,
            percentiles: percentiles.to_vec(),
            // No histogram column.
            buckets: BucketLayout::LogLinear,
            ..self.clone()
        };
        native.layout = native.table(None, defaults).layout();
        for column in self.layout.columns() {
            if let Cell::Key(key) | Cell::KeyText(key) = column.cell {
                native.layout.rename(key, &column.column.name);
            }
        }
        native.buckets = self.buckets;
        native
    }

    /// What its columns are made from; `v1_kind` if it is one of Pinba's.
    pub(super) fn table<'a>(
        &'a self,
        v1_kind: Option<&'a V1Kind>,
        defaults: &'a Defaults,
    ) -> Table<'a> {
        Table {
            definition: self,
            v1_kind,
            defaults,
        }
    }
}

/// The columns in which a report is read.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Columns {
    /// Its own.
    #[default]
    Own,
    /// Its own, then these percentiles, without those that it has already.
    With(Vec<f64>),
    /// Its own, then those of the native form with these percentiles, without those that it has already.
    Extended(Vec<f64>),
    /// Those of the native form, with these percentiles.
    Native(Vec<f64>),
}

/// Who defined a report, and so who may drop it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinedBy {
    /// It is always there.
    BuiltIn,
    /// A `[[report]]` of the configuration; the text says where.
    Configuration(String),
    /// Somebody, while the daemon ran.
    RunTime,
}

impl DefinedBy {
    /// `built-in`, `configuration` or `run time`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Configuration(_) => "configuration",
            Self::RunTime => "run time",
        }
    }
}

/// The aggregate of table shapes that a report belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `info` and `report1` to `report18`.
    Base,
    /// Timer-tag reports of Pinba.
    Tag,
    /// Request-tag reports of Pinba.
    RequestTag,
    /// `v2/packet` of pinba2.
    V2Packet,
    /// `v2/request` of pinba2.
    V2Request,
    /// `v2/timer` of pinba2.
    V2Timer,
    /// The daemon's own form.
    Native,
}

impl Kind {
    /// The kind's name in `GET /api/v1/reports` and `active_reports`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Tag => "tag",
            Self::RequestTag => "rtag",
            Self::V2Packet => "v2/packet",
            Self::V2Request => "v2/request",
            Self::V2Timer => "v2/timer",
            Self::Native => "native",
        }
    }

    /// Which sample a percentile between two of them means.
    #[must_use]
    pub const fn rounding(self) -> Rounding {
        match self {
            Self::Base | Self::Tag | Self::RequestTag => Rounding::Down,
            Self::V2Packet | Self::V2Request | Self::V2Timer | Self::Native => Rounding::Up,
        }
    }
}

/// What one record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One request; the report has no keys.
    Packet,
    /// One request.
    Request,
    /// One timer of a request. A row's request count takes a request once, however many of its timers hit the row.
    Timer,
}

/// A field of a request that rows can be told apart by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Field {
    /// `hostname`
    Hostname,
    /// `server_name`
    ServerName,
    /// `script_name`
    ScriptName,
    /// `schema`; absent in a packet is the empty text here.
    Schema,
    /// `status`, the only number.
    Status,
}

impl Field {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Hostname,
        Self::ServerName,
        Self::ScriptName,
        Self::Schema,
        Self::Status,
    ];

    /// Its column name in Pinba's tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hostname => "hostname",
            Self::ServerName => "server_name",
            Self::ScriptName => "script_name",
            Self::Schema => "schema",
            Self::Status => "status",
        }
    }

    /// pinba2's name of it, without the `~`.
    #[must_use]
    pub const fn v2_name(self) -> &'static str {
        match self {
            Self::Hostname => "host",
            Self::ServerName => "server",
            Self::ScriptName => "script",
            Self::Schema => "schema",
            Self::Status => "status",
        }
    }

    /// The field of this column name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// Where a key's value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeySource {
    /// A field of the request.
    Field(Field),
    /// A tag of the request.
    RequestTag(String),
    /// A tag of the timer (timer level only).
    TimerTag(String),
    /// A tag of the timer and, when the timer has none of that name, a field of its request:
    /// `__hostname`, `__server_name`, `__script_name`, `__schema`, `__status`. Always text.
    TimerTagOrField(String, Field),
}

impl KeySource {
    /// The timer tag of that name; `__hostname` and its like fall back to the field of the request.
    #[must_use]
    pub fn timer_tag(name: &str) -> Self {
        match name.strip_prefix("__").and_then(Field::named) {
            Some(field) => Self::TimerTagOrField(name.to_owned(), field),
            None => Self::TimerTag(name.to_owned()),
        }
    }

    /// Whether the value comes from the timer.
    #[must_use]
    pub const fn is_of_timer(&self) -> bool {
        matches!(self, Self::TimerTag(_) | Self::TimerTagOrField(..))
    }
}

impl Key {
    /// The key with the defaults of its source: the first of several tags counts. A field is always there, if only as an
    /// empty text, and so is a tag that a field stands in for; what lacks another tag is skipped.
    #[must_use]
    pub const fn of(source: KeySource) -> Self {
        let missing = match source {
            KeySource::Field(_) | KeySource::TimerTagOrField(..) => Missing::Empty,
            KeySource::RequestTag(_) | KeySource::TimerTag(_) => Missing::Skip,
        };
        Self {
            source,
            occurrence: Occurrence::First,
            missing,
        }
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

/// Which of several tags of one name counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// The first in packet order.
    First,
    /// The last in packet order (Pinba's `tag2_*`).
    Last,
}

/// What happens to a record that lacks the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// It is not counted. A field counts as lacking when it is empty; a tag when there is none of that name
    /// (and, where a field stands in for the tag, the field is empty).
    Skip,
    /// As `Skip`, and an empty tag value counts as lacking too (pinba2).
    SkipEmpty,
    /// It is counted under the empty text.
    Empty,
}

/// One key of a report.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// Where the value comes from.
    pub source: KeySource,
    /// Which tag counts when there are several.
    pub occurrence: Occurrence,
    /// What to do without.
    pub missing: Missing,
}

/// How a text is held against a filter's value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pattern {
    /// `=`: byte for byte.
    Equals(String),
    /// `!=`: anything else, also a missing tag.
    Differs(String),
    /// `prefix*`
    StartsWith(String),
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
    /// Every timer tag of that name; at least one must be there (not for `Differs`). Timer level only.
    TimerTag(String, Pattern),
}

impl Filter {
    /// Whether a request of this time passes, as far as this is a filter on time.
    #[must_use]
    pub const fn time_passes(&self, time_us: u64) -> bool {
        match *self {
            Self::MinTime(min) => time_us >= min,
            Self::TimeBelow(bound) => time_us < bound,
            Self::Field(..) | Self::RequestTag(..) | Self::TimerTag(..) => true,
        }
    }
}
