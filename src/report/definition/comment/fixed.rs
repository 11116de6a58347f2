//! The fixed tables: raw data, the word list, and the daemon's own data.
//!
//! They are not reports, so the engine does not know them; a COMMENT may name them (an old dump
//! does), and `pinbad tables` prints them. Their rows are built elsewhere; their columns are in
//! `columns.txt`.

use crate::report::columns;
use crate::report::definition::Defaults;
use crate::value::Column;

/// A table that is not a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FixedTable {
    /// Raw requests.
    Request,
    /// Raw timers.
    Timer,
    /// Tags of raw timers.
    TimerTag,
    /// Names of timer tags.
    Tag,
    /// Tags of raw requests, which Pinba only has as a column.
    RequestTag,
    /// Activities of raw requests from Squid. Only exists if there is such a source.
    SquidActivity,
    /// Pinba's own counters.
    Status,
    /// The live reports, Pinba's columns.
    ActiveReports,
    /// pinba2's counters.
    V2Stats,
    /// The live reports, pinba2's columns.
    V2Active,
    /// Objects that Squid moved to and from its disk.
    SquidSwap,
    /// Savings of Squid from revalidation.
    SquidSavings,
    /// Annotations of events. Not in Pinba.
    Annotation,
    /// Scripts by the hits of their timers in a request, from the raw rows.
    ManyCalls,
    /// Releases, and what they changed.
    Releases,
    /// Alerts, where there is an `[[alert]]` or `[[slo]]`.
    Alerts,
    /// Objectives, where there is an `[[slo]]`.
    Slo,
    /// Samples of PHP's functions, where there is a `[[stat]]`.
    Sample,
    /// Requests of samples.
    StatRequest,
}

impl FixedTable {
    /// The tables that Pinba has.
    pub const ALL: [Self; 8] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::Status,
        Self::ActiveReports,
        Self::V2Stats,
        Self::V2Active,
    ];

    /// The tables of sums over Squid's lines.
    pub const SQUID: [Self; 2] = [Self::SquidSwap, Self::SquidSavings];

    /// The tables of raw data.
    pub const RAW: [Self; 6] = [
        Self::Request,
        Self::Timer,
        Self::TimerTag,
        Self::Tag,
        Self::RequestTag,
        Self::SquidActivity,
    ];

    /// The table of raw data with this name.
    #[must_use]
    pub fn raw(name: &str) -> Option<Self> {
        Self::RAW.into_iter().find(|table| table.table() == name)
    }

    /// The table's name.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Timer => "timer",
            Self::TimerTag => "timertag",
            Self::Tag => "tag",
            Self::RequestTag => "request_tag",
            Self::SquidActivity => "squid_activity",
            Self::Status => "status",
            Self::ActiveReports => "active_reports",
            Self::V2Stats => "v2_stats",
            Self::V2Active => "v2_active",
            Self::Annotation => "annotation",
            Self::ManyCalls => "many_calls",
            Self::Releases => "releases",
            Self::Alerts => "alerts",
            Self::Slo => "slo",
            Self::Sample => "sample",
            Self::StatRequest => "stat_request",
            Self::SquidSwap => "squid_swap",
            Self::SquidSavings => "squid_savings",
        }
    }

    /// The COMMENT that names it; `active_reports` is also called `active`.
    #[must_use]
    pub const fn comment(self) -> &'static str {
        match self {
            Self::V2Stats => "v2/stats",
            Self::V2Active => "v2/active",
            other => other.table(),
        }
    }

    /// The v1 table that a COMMENT names.
    pub(super) fn v1(kind: &str) -> Option<Self> {
        if kind == "active" {
            return Some(Self::ActiveReports);
        }
        let all = Self::ALL.into_iter().chain(Self::SQUID);
        all.into_iter().find(|table| table.comment() == kind)
    }

    /// Its columns in order.
    #[must_use]
    pub fn columns(self, defaults: &Defaults) -> Vec<Column> {
        columns::table(self.table(), defaults)
    }

    /// Its keys of one column: `PRI`, `UNI` or `MUL`, as in information_schema, and the column.
    #[must_use]
    pub const fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Request => &[("PRI", "id")],
            Self::Timer => &[("PRI", "id"), ("MUL", "request_id")],
            Self::TimerTag => &[("MUL", "timer_id")],
            Self::Tag => &[("PRI", "id"), ("UNI", "name")],
            Self::SquidActivity => &[("MUL", "request_id")],
            _ => &[],
        }
    }
}
