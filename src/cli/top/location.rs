//! What a view shows: a tab, or what was opened from it.

use crate::cli::format::visible;

/// A view that is always there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// By script.
    Scripts,
    /// By server.
    Servers,
    /// By host.
    Hosts,
    /// By status.
    Statuses,
    /// The timers of the newest requests.
    Timers,
    /// The slowest requests of all.
    Requests,
    /// The list of reports.
    Reports,
}

impl Tab {
    /// All of them, in their order.
    pub const ALL: [Self; 7] = [
        Self::Scripts,
        Self::Servers,
        Self::Hosts,
        Self::Statuses,
        Self::Timers,
        Self::Requests,
        Self::Reports,
    ];

    /// Its title.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Scripts => "scripts",
            Self::Servers => "servers",
            Self::Hosts => "hosts",
            Self::Statuses => "statuses",
            Self::Timers => "timers",
            Self::Requests => "requests",
            Self::Reports => "reports",
        }
    }

    /// The report that it shows, and its key; `None` for those that show something else.
    pub const fn report(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Scripts => Some(("report_by_script_name", "script_name")),
            Self::Servers => Some(("report_by_server_name", "server_name")),
            Self::Hosts => Some(("report_by_hostname", "hostname")),
            Self::Statuses => Some(("report_by_status", "status")),
            Self::Timers | Self::Requests | Self::Reports => None,
        }
    }
}

/// Parameters of a search for requests, and their values.
pub type Conditions = Vec<(String, String)>;

/// What a view shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// One of the tabs.
    Tab(Tab),
    /// A report.
    Report(String),
    /// The requests that meet these conditions: their timers, and the slowest of them.
    Requests(Conditions),
    /// One request.
    Request(u64),
}

impl Location {
    /// Its title.
    pub fn name(&self) -> String {
        match self {
            Self::Tab(tab) => tab.title().to_owned(),
            Self::Report(name) => format!("report {}", visible(name)),
            Self::Requests(conditions) => {
                let pairs = conditions
                    .iter()
                    .map(|(name, value)| format!("{name} = {}", visible(value)));
                visible(&pairs.collect::<Vec<_>>().join(", ")).into_owned()
            }
            Self::Request(id) => format!("request {id}"),
        }
    }
}
