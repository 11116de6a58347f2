//! The fixed tables: raw data, the word list, and the daemon's own data.
//!
//! They are not reports, so the engine does not know them; a COMMENT may name them (an old dump
//! does), and `pinbad tables` prints them. Their rows are built elsewhere; their columns are in
//! `columns.txt`.

use crate::input::record::counted;
use crate::report::columns;
use crate::report::definition::Defaults;
use crate::value::Column;

counted! {
    /// A table that is not a report, with its name.
    FixedTable {
        /// Raw requests.
        Request = "request",
        /// Raw timers.
        Timer = "timer",
        /// Tags of raw timers.
        TimerTag = "timertag",
        /// Names of timer tags.
        Tag = "tag",
        /// Tags of raw requests, which Pinba only has as a column.
        RequestTag = "request_tag",
        /// Activities of raw requests from Squid. Only exists if there is such a source.
        SquidActivity = "squid_activity",
        /// Pinba's own counters.
        Status = "status",
        /// The live reports, Pinba's columns.
        ActiveReports = "active_reports",
        /// pinba2's counters.
        V2Stats = "v2_stats",
        /// The live reports, pinba2's columns.
        V2Active = "v2_active",
        /// Objects that Squid moved to and from its disk.
        SquidSwap = "squid_swap",
        /// Savings of Squid from revalidation.
        SquidSavings = "squid_savings",
        /// Annotations of events. Not in Pinba.
        Annotation = "annotation",
        /// Scripts by the hits of their timers in a request, from the raw rows.
        ManyCalls = "many_calls",
        /// Releases, and what they changed.
        Releases = "releases",
        /// Alerts, where there is an `[[alert]]` or `[[slo]]`.
        Alerts = "alerts",
        /// Objectives, where there is an `[[slo]]`.
        Slo = "slo",
        /// Samples of PHP's functions, where there is a `[[stat]]`.
        Sample = "sample",
        /// Requests of samples.
        StatRequest = "stat_request",
    }
}

impl FixedTable {
    /// The tables that Pinba has.
    pub const PINBA: [Self; 8] = [
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
    pub fn raw(name: &str) -> Option<Self> {
        Self::RAW.into_iter().find(|table| table.name() == name)
    }

    /// The COMMENT that names it; `active_reports` is also called `active`.
    pub const fn comment(self) -> &'static str {
        match self {
            Self::V2Stats => "v2/stats",
            Self::V2Active => "v2/active",
            other => other.name(),
        }
    }

    /// The v1 table that a COMMENT names.
    pub(super) fn v1(kind: &str) -> Option<Self> {
        if kind == "active" {
            return Some(Self::ActiveReports);
        }
        let all = Self::PINBA.into_iter().chain(Self::SQUID);
        all.into_iter().find(|table| table.comment() == kind)
    }

    /// Its columns in order.
    pub fn columns(self, defaults: &Defaults) -> Vec<Column> {
        columns::table(self.name(), defaults)
    }

    /// Its keys of one column: `PRI`, `UNI` or `MUL`, as in information_schema, and the column.
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
