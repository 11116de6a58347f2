//! The definition of a report: level, keys, filters, percentiles, window, and columns.
//!
//! Every way to ask for a report (a Pinba COMMENT, a pinba2 COMMENT, TOML, JSON) is translated to a
//! [`Definition`] by `grammar`: the only form that the engine knows. A definition is checked when
//! it is created; the engine trusts it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::input::record::counted;

use super::histogram::{BucketLayout, Rank, Rounding};
use super::layout::{Cell, ColumnLayout, Measure};

pub use self::filter::{Filter, Pattern};
pub use self::key::{Field, Key, KeySource, Missing, Occurrence};
use self::v1_kinds::V1Kind;

mod filter;
mod key;
pub(crate) mod v1_kinds;

/// Most keys that a COMMENT can name (`tagN_report2` adds script, host and server to its tags).
pub const KEYS_MAX: usize = 15;
/// Most keys of any definition: 15 tags and three fields.
pub const DEFINITION_KEYS_MAX: usize = KEYS_MAX + 3;
/// Most percentiles of one report.
pub const PERCENTILES_MAX: usize = 32;
/// Most filters of one report.
pub const FILTERS_MAX: usize = 32;
/// Longest name of a report, in bytes: MySQL's limit for tables.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest window: 366 days.
pub const WINDOW_SECS_MAX: u64 = 366 * 86_400;

/// Defaults of definitions, from the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defaults {
    /// `pool.stats_history`: the window of v1 reports, and the default of others.
    pub raw_window: Duration,
    /// Upper end of linear histograms, seconds (`pinba_histogram_max_time`).
    pub histogram_max_secs: u64,
    /// Number of buckets of linear histograms (`pinba_histogram_size`).
    pub histogram_size: u32,
    /// Longest script name, in bytes: the declared length of such columns.
    pub script_name_bytes_max: u16,
    /// Longest other text, in bytes.
    pub text_bytes_max: u16,
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            raw_window: Duration::from_secs(900),
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
    /// Its name, unique among the live reports.
    pub name: String,
    /// The Pinba or pinba2 COMMENT it came from (or could have come from); `None` if only the
    /// native form can express it.
    pub comment: Option<String>,
    /// `base`, `tag`, `rtag`, `v2/packet`, `v2/request`, `v2/timer`, `native`: shown by `GET
    /// /api/v1/reports`.
    pub kind: Kind,
    /// The records it counts.
    pub level: Level,
    /// The keys that distinguish rows, in column order; empty for a single row.
    pub keys: Vec<Key>,
    /// Conditions that a record must all satisfy.
    pub filters: Vec<Filter>,
    /// Percent ranks, each in (0, 100], in column order.
    pub percentiles: Vec<f64>,
    /// Percent ranks added by a reader: empty except in a definition from [`Definition::read_as`].
    pub added: Vec<f64>,
    /// Length of the window. Divided into ticks of `max(1 s, window / 120)`.
    pub window: Duration,
    /// The buckets of times for medians, percentiles and histogram views.
    pub buckets: BucketLayout,
    /// Whether the smallest and largest values inside the window are kept (native reports).
    pub extremes: bool,
    /// Whether its past is kept on disk; `None` leaves it to `history.reports`.
    pub history: Option<bool>,
    /// Whether CPU times and memory of its records are known; if not, the columns of these are
    /// NULL.
    pub has_rusage: bool,
    /// The columns, and how each is computed from a row.
    pub layout: ColumnLayout,
}

impl Definition {
    /// A report with neither keys nor columns yet.
    pub(crate) fn new(name: &str, kind: Kind, level: Level, window: Duration) -> Self {
        Self {
            name: name.to_owned(),
            comment: None,
            kind,
            level,
            keys: Vec::new(),
            filters: Vec::new(),
            percentiles: Vec::new(),
            added: Vec::new(),
            window,
            buckets: BucketLayout::LogLinear,
            extremes: kind == Kind::Native,
            history: None,
            has_rusage: true,
            layout: ColumnLayout::default(),
        }
    }

    /// The ranks of a row's quantiles: the median, the percentiles, and added ones.
    pub fn ranks(&self) -> Vec<Rank> {
        let rounding = self.kind.rounding();
        let own = std::iter::once(50.0).chain(self.percentiles.iter().copied());
        let own = own.filter_map(|percent| Rank::percent(percent, rounding));
        let added = self.added.iter().filter_map(|percent| Rank::percent(*percent, Rounding::Up));
        own.chain(added).collect()
    }

    /// Index of the first quantile that is limited to the extremes: those of the native form, and
    /// added ones.
    pub(super) fn bounded_from(&self) -> usize {
        if self.kind == Kind::Native { 0 } else { 1 + self.percentiles.len() }
    }

    /// Whether a quantile may be as low as the start of its bucket, because the longest time is not
    /// kept.
    pub(crate) fn may_understate(&self) -> bool {
        !self.extremes && self.bounded_from() < self.ranks().len()
    }

    /// The same report in other columns: its records, window and keys stay the same, so it can be
    /// read in place of the other. `None` if its own columns are wanted.
    pub fn read_as(&self, columns: &Columns, defaults: &Defaults) -> Option<Self> {
        match columns {
            Columns::Own => None,
            Columns::Native(percentiles) => Some(self.in_native_columns(percentiles, defaults)),
            Columns::With(percentiles) | Columns::Extended(percentiles) => {
                let native = self.in_native_columns(percentiles, defaults);
                Some(self.with_columns_of(&native, matches!(columns, Columns::Extended(_))))
            }
        }
    }

    /// Makes it a report, in the native form, of records whose CPU times and memory are not known.
    pub fn forgo_rusage(&mut self, defaults: &Defaults) {
        self.has_rusage = false;
        self.layout = ColumnLayout::of(self, defaults);
    }

    /// Adds the percentiles and errors of `other` that it lacks, and all its other columns too if
    /// `all`.
    fn with_columns_of(&self, other: &Self, all: bool) -> Self {
        let mut extended = self.clone();
        for column in other.layout.columns() {
            if extended.layout.position(&column.column.name).is_some() {
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
            } else if !all && column.column.name != Measure::Errors.stored() {
                continue;
            }
            extended.layout.push(column);
        }
        extended
    }

    /// The same report in the columns of the native form, with these percentiles. Key columns keep
    /// their names.
    fn in_native_columns(&self, percentiles: &[f64], defaults: &Defaults) -> Self {
        let native = Self {
            kind: Kind::Native,
            percentiles: percentiles.to_vec(),
            // No histogram column.
            buckets: BucketLayout::LogLinear,
            ..self.clone()
        };
        let mut native = native.with_columns(defaults);
        for column in self.layout.columns() {
            if let Cell::Key(key) = column.cell {
                native.layout.rename(key, &column.column.name);
            }
        }
        native.buckets = self.buckets;
        native
    }

    /// The same report with the columns that follow from the rest.
    pub(crate) fn with_columns(self, defaults: &Defaults) -> Self {
        Self { layout: ColumnLayout::of(&self, defaults), ..self }
    }

    /// The kind of Pinba's that it is, with its type number.
    pub(crate) fn v1_kind(&self) -> Option<(&'static V1Kind, usize)> {
        let is_v1 = matches!(self.kind, Kind::Base | Kind::Tag | Kind::RequestTag);
        let comment = self.comment.as_deref().filter(|_| is_v1)?;
        V1Kind::named(comment.strip_prefix("hv.").unwrap_or(comment).split(':').next()?)
    }
}

/// The columns in which to read a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Columns {
    /// Its own.
    #[default]
    Own,
    /// Its own, and any missing ones of these percentiles and of errors.
    With(Vec<f64>),
    /// Its own, and any missing ones of the native form with these percentiles.
    Extended(Vec<f64>),
    /// Those of the native form, with these percentiles.
    Native(Vec<f64>),
}

/// The source of a definition, which decides who may drop it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinedBy {
    /// Always there.
    BuiltIn,
    /// A `[[report]]` of the configuration; the text is its location.
    Configuration(String),
    /// A `[[squid]]` or `[[stat]]` of the configuration, which brings it along.
    Source,
    /// Created at run time.
    RunTime,
}

impl DefinedBy {
    /// Whether it can be dropped while the daemon runs.
    pub const fn is_droppable(&self) -> bool {
        matches!(self, Self::Source | Self::RunTime)
    }

    /// `built-in`, `configuration` or `run time`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Configuration(_) | Self::Source => "configuration",
            Self::RunTime => "run time",
        }
    }
}

counted! {
    /// The family of column layouts that a report belongs to.
    Kind {
        /// `info` and `report1` to `report18`.
        Base = "base",
        /// Timer-tag reports of Pinba.
        Tag = "tag",
        /// Request-tag reports of Pinba.
        RequestTag = "rtag",
        /// `v2/packet` of pinba2.
        V2Packet = "v2/packet",
        /// `v2/request` of pinba2.
        V2Request = "v2/request",
        /// `v2/timer` of pinba2.
        V2Timer = "v2/timer",
        /// The daemon's own form.
        Native = "native",
    }
}

impl Kind {
    /// Rounding of a percentile between two samples.
    pub const fn rounding(self) -> Rounding {
        match self {
            Self::Base | Self::Tag | Self::RequestTag => Rounding::Down,
            Self::V2Packet | Self::V2Request | Self::V2Timer | Self::Native => Rounding::Up,
        }
    }
}

/// The unit that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// One request; the report has no keys.
    Packet,
    /// One request.
    Request,
    /// One timer of a request. A row counts a request once, however many of its timers are in the
    /// row.
    Timer,
}
