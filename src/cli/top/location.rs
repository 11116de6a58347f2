//! The content of a view: a tab, or a page opened from it.

use crate::cli::format::visible;

/// A report by one key that every daemon has: title of its tab, heading of its key, its key.
pub type ByKey = (&'static str, &'static str, &'static str);

/// The first tabs.
pub const BY_KEY: [ByKey; 4] = [
    ("scripts", "script", "script_name"),
    ("servers", "server", "server_name"),
    ("hosts", "host", "hostname"),
    ("statuses", "status", "status"),
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

/// Parameters of a search for requests, with their values.
pub type Conditions = Vec<(String, String)>;

/// The content of a view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Location {
    /// A tab with a report.
    ByKey(&'static ByKey),
    /// The tab with the timers of the newest requests.
    Timers,
    /// The tab with the slowest requests of all.
    Slowest,
    /// The tab with the list of reports.
    #[default]
    Reports,
    /// A report.
    Report(String),
    /// Requests that meet these conditions: their timers, and the slowest of them.
    Requests(Conditions),
    /// One request.
    Request(u64),
}

impl Location {
    /// Its title.
    pub fn title(&self) -> String {
        match self {
            Self::ByKey((title, ..)) => (*title).to_owned(),
            Self::Timers => "timers".to_owned(),
            Self::Slowest => "requests".to_owned(),
            Self::Reports => "reports".to_owned(),
            Self::Report(name) => format!("report {}", visible(name)),
            Self::Requests(conditions) => {
                let pairs = conditions.iter().map(|(name, value)| format!("{name} = {value}"));
                visible(&pairs.collect::<Vec<_>>().join(", ")).into_owned()
            }
            Self::Request(id) => format!("request {id}"),
        }
    }
}
