//! The configuration as the program uses it: checked, defaults filled in, units resolved.
//!
//! Two steps. `file.rs` lays flags over environment over file ([`file::RawConfig`], what was typed); `check.rs` makes
//! of it a [`Config`], or a list of everything that is wrong, each with its file and line ([`ConfigErrors`]). `keys.rs`
//! is the one table of settings behind both. Called by `main`, once, before any thread starts; the stages get their
//! part of [`Config`] and read no file, variable or flag themselves. What it adds up to in memory is [`crate::plan`].

mod check;
pub mod error;
pub mod file;
pub mod flags;
pub mod keys;
pub mod place;
pub mod rewrite;
pub mod secret;
pub mod typed;
pub mod units;
pub mod user;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

pub use error::{ConfigError, ConfigErrors};
use file::{CONFIG_VARIABLE, RawConfig};
pub use file::{ConfiguredReport, TOKEN_VARIABLE};
pub use flags::ConfigFlags;
use place::Origin;
pub use rewrite::RewriteRule;
pub use user::ConfiguredUser;

pub use crate::telemetry::log::LogFormat;

/// Everything that `serve` needs to know. Made once at start; nothing below `main` reads a file, an environment
/// variable or a flag.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `[ingest]`: sockets and the temporary pool.
    pub ingest: IngestConfig,
    /// `[pool]`: the main pool.
    pub pool: PoolConfig,
    /// `[reports]`: budgets for all reports.
    pub reports: ReportsConfig,
    /// `[series]`: the last hour in memory.
    pub series: SeriesConfig,
    /// `[metrics]`: what Prometheus is shown.
    pub metrics: MetricsConfig,
    /// `[http]`
    pub http: FrontConfig,
    /// `[http] open_health`: whether `/healthz` and `/readyz` want no credentials.
    pub open_health: bool,
    /// `[http] host_names`: names in `Host` to answer to, beside `localhost` and every IP address.
    pub host_names: Vec<String>,
    /// `[mysql]`
    pub mysql: FrontConfig,
    /// `[sql]`
    pub sql: SqlConfig,
    /// `[mysql]`: what bounds its connections.
    pub mysql_limits: MySqlLimits,
    /// `[state] dir`: where what must survive a restart lives; `None`: in memory only.
    pub state_dir: Option<PathBuf>,
    /// `[state] snapshot_period`: how often pools and reports are written there; zero: at the stop only.
    pub snapshot_period: Duration,
    /// `[log]`
    pub log: LogConfig,
    /// `[[report]]` entries as typed; the report module checks them.
    pub configured_reports: Vec<ConfiguredReport>,
    /// `[[rewrite]]`: name rules, in the order in which they are asked.
    pub rewrites: Vec<RewriteRule>,
    /// `[[user]]`: who may ask over HTTP and MySQL.
    pub users: Vec<ConfiguredUser>,
    /// Every key with its value, as typed or by default: what a reload holds against the next configuration.
    pub settings: BTreeMap<&'static str, typed::Value>,
}

impl Config {
    /// The configuration from flags, variables (`PINBAD_...` of those given) and the file that one of them names.
    ///
    /// # Errors
    /// Everything that is wrong, not just the first.
    pub fn load(
        flags: &ConfigFlags,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigErrors> {
        let variables: Vec<_> = variables.into_iter().collect();
        let in_variable = variables.iter().find(|(name, _)| name == CONFIG_VARIABLE);
        let in_variable = in_variable.filter(|(_, path)| !path.is_empty());
        let path = match (&flags.config, in_variable) {
            (Some(path), _) => Some(("--config", path.clone())),
            (None, Some((_, path))) => Some((CONFIG_VARIABLE, PathBuf::from(path))),
            (None, None) => None,
        };
        let mut raw = RawConfig::default();
        let mut errors = Vec::new();
        if let Some((named_by, path)) = path {
            match std::fs::read_to_string(&path) {
                Ok(text) => raw.add_file(&path.display().to_string(), &text, &mut errors),
                Err(source) => errors.push(ConfigError::Unreadable {
                    named_by,
                    path,
                    source,
                }),
            }
        }
        raw.add_variables(variables, &mut errors);
        raw.add_flags(flags, &mut errors);
        Self::checked(&raw, errors)
    }

    /// The configuration that a file of this text would give, without environment and flags; `name` is what errors
    /// call it.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        let mut raw = RawConfig::default();
        let mut errors = Vec::new();
        raw.add_file(name, text, &mut errors);
        Self::checked(&raw, errors)
    }

    fn checked(raw: &RawConfig, mut errors: Vec<ConfigError>) -> Result<Self, ConfigErrors> {
        let config = check::check(raw, &mut errors);
        // A variable that is no setting is none of ours, or a slip; unless a user's secret is in it.
        errors.retain(|error| {
            let ConfigError::Flag { place, .. } = error else {
                return true;
            };
            let secret = |user: &ConfiguredUser| {
                user.variables()
                    .any(|name| *place.origin() == Origin::Variable(name.to_owned()))
            };
            !config.users.iter().any(secret)
        });
        if errors.is_empty() {
            Ok(config)
        } else {
            Err(ConfigErrors(errors))
        }
    }
}

impl Default for Config {
    /// What holds when nothing is configured.
    fn default() -> Self {
        Self::checked(&RawConfig::default(), Vec::new())
            .expect("the defaults stand in keys.rs and are within their own ranges")
    }
}

/// `[ingest]`
#[derive(Debug, Clone, PartialEq)]
pub struct IngestConfig {
    /// UDP addresses to receive on.
    pub listen: Vec<SocketAddr>,
    /// Sockets (and receiver threads) per address; already resolved, at least 1.
    pub receivers: usize,
    /// Socket receive buffer to ask for, bytes.
    pub recv_buffer_bytes: usize,
    /// Temporary pool: requests, in all.
    pub temp_pool_size: usize,
    /// Temporary pool: bytes, in all. Default 512 per request of `temp_pool_size`.
    pub temp_pool_bytes: usize,
    /// How often the merger runs.
    pub stats_gathering_period: Duration,
    /// Longest script name kept, bytes (default 512).
    pub script_name_bytes_max: usize,
    /// Longest other text kept, bytes (default 255).
    pub text_bytes_max: usize,
    /// Networks from which packets are looked at; empty: all.
    pub allow: Vec<IpNet>,
    /// Packets a second that one source address may send; 0: any number.
    pub source_rate_max: u32,
    /// Whether packets are counted by source address.
    pub count_sources: bool,
}

impl IngestConfig {
    /// Whether anyone wants to know where packets come from.
    #[must_use]
    pub fn watches_sources(&self) -> bool {
        self.count_sources || self.source_rate_max > 0 || !self.allow.is_empty()
    }
}

/// `[pool]`
#[derive(Debug, Clone, PartialEq)]
pub struct PoolConfig {
    /// Rows of raw requests; 0 keeps no raw data.
    pub request_pool_size: usize,
    /// Rows of raw timers.
    pub timer_pool_size: usize,
    /// How far back raw data and v1 reports reach.
    pub stats_history: Duration,
    /// Bytes for distinct texts (host, server and script names, tag names and values) and tag sets. Default 64 MiB.
    pub words_bytes: usize,
}

/// `[reports]`
#[derive(Debug, Clone, PartialEq)]
pub struct ReportsConfig {
    /// Rows per report before new keys fold into `(other)`.
    pub rows_max: usize,
    /// Bytes for all reports together: rows, tick deltas, histograms. Default 256 MiB.
    pub memory_bytes: usize,
    /// Statuses from here on count as errors (default 500).
    pub error_status: u32,
}

/// `[series]`: the last hour in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesConfig {
    /// Bytes in all; 0: no past is kept.
    pub memory_bytes: usize,
    /// Names of reports; `"*"`: all of the configuration's own.
    pub reports: Vec<String>,
}

/// `[metrics]`: what Prometheus is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricsConfig {
    /// Names of reports; `"*"`: all of the configuration's own.
    pub reports: Vec<String>,
    /// Series of all their rows together before rows fold into `(other)`.
    pub series_max: usize,
    /// Upper bounds of histogram buckets, ascending.
    pub buckets: Vec<Duration>,
}

/// `[http]` and `[mysql]`: a way in for readers.
#[derive(Debug, Clone, PartialEq)]
pub struct FrontConfig {
    /// Where to listen; `None`: switched off.
    pub listen: Option<SocketAddr>,
    /// What TLS is done with; `None`: without TLS.
    pub tls: Option<TlsFiles>,
    /// Whether a peer without credentials may read, also on an address that is not loopback.
    pub allow_anonymous: bool,
}

/// `tls_cert` and `tls_key` of one front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// `http` or `mysql`, for errors.
    pub section: &'static str,
    /// The certificate and those between it and the root, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// `[sql]`: what bounds queries.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlConfig {
    /// Threads that queries run on; already resolved, at least 1.
    pub threads: usize,
    /// What all queries together may hold in memory.
    pub memory_bytes: usize,
    /// How long a query may take.
    pub time_max: Duration,
    /// Rows in one answer.
    pub rows_max: u64,
    /// Queries at once.
    pub queries_max: usize,
    /// The longest statement.
    pub text_bytes_max: usize,
    /// Whether texts are compared and grouped without telling upper and lower case apart.
    pub case_insensitive: bool,
}

/// `[mysql]`: what bounds its connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MySqlLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// How long a connection lives on which nothing is asked.
    pub idle_max: Duration,
    /// Bytes of one packet.
    pub packet_bytes_max: usize,
    /// Prepared statements of one connection.
    pub statements_max: usize,
    /// Bytes for large packets and prepared statements of all connections.
    pub memory_bytes: usize,
}

/// `[log]`: what is said on stderr.
#[derive(Debug, Clone, PartialEq)]
pub struct LogConfig {
    /// How a line looks.
    pub format: LogFormat,
    /// The least that is logged.
    pub level: tracing::Level,
}

#[cfg(test)]
mod tests;
