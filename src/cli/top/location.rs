//! What a view shows: a tab, or what was opened from it.

use super::cell::Unit;
use crate::cli::format::visible;

/// A report by one key that every daemon has.
#[derive(Debug, PartialEq, Eq)]
pub struct ByKey {
    /// The title of its tab.
    pub title: &'static str,
    /// The report.
    pub report: &'static str,
    /// Its key, with heading and unit.
    pub key: (&'static str, &'static str, Unit),
}

const fn by_key(
    title: &'static str,
    report: &'static str,
    key: (&'static str, &'static str, Unit),
) -> ByKey {
    ByKey { title, report, key }
}

/// The first tabs.
#[rustfmt::skip]
pub const BY_KEY: [ByKey; 4] = [
    by_key("scripts", "report_by_script_name", ("script_name", "script", Unit::Text)),
    by_key("servers", "report_by_server_name", ("server_name", "server", Unit::Text)),
    by_key("hosts", "report_by_hostname", ("hostname", "host", Unit::Text)),
    by_key("statuses", "report_by_status", ("status", "status", Unit::Plain)),
];

/// All tabs, in their order.
pub const TABS: [Location; 7] = [
    Location::ByKey(&BY_KEY[0]),
    Location::ByKey(&BY_KEY[1]),
    Location::ByKey(&BY_KEY[2]),
    Location::ByKey(&BY_KEY[3]),
    Location::Timers,
    Location::Slowest,
    Location::Reports,
];

/// Parameters of a search for requests, and their values.
pub type Conditions = Vec<(String, String)>;

/// What a view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A tab with a report.
    ByKey(&'static ByKey),
    /// The tab with the timers of the newest requests.
    Timers,
    /// The tab with the slowest requests of all.
    Slowest,
    /// The tab with the list of reports.
    Reports,
    /// A report.
    Report(String),
    /// The requests that meet these conditions: their timers, and the slowest of them.
    Requests(Conditions),
    /// One request.
    Request(u64),
}

impl Location {
    /// Its title.
    pub fn title(&self) -> String {
        match self {
            Self::ByKey(tab) => tab.title.to_owned(),
            Self::Timers => "timers".to_owned(),
            Self::Slowest => "requests".to_owned(),
            Self::Reports => "reports".to_owned(),
            Self::Report(name) => format!("report {}", visible(name)),
            Self::Requests(conditions) => {
                let pairs = conditions.iter();
                let pairs = pairs.map(|(name, value)| format!("{name} = {value}"));
                visible(&pairs.collect::<Vec<_>>().join(", ")).into_owned()
            }
            Self::Request(id) => format!("request {id}"),
        }
    }
}
