//! The flags that stand for settings.
//!
//! Every command that has a configuration takes them. What they give is text and is checked with
//! the rest of the configuration, so `--http` and `http.listen` in a file get the same error.

use std::path::PathBuf;

use clap::Args as FlagGroup;

/// The flags that stand for settings, the same for every command that has a configuration.
#[derive(Debug, Clone, Default, FlagGroup)]
pub struct ConfigFlags {
    /// Configuration file (TOML); without one the defaults apply.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// UDP address to receive packets on; repeat for more [default: 0.0.0.0:30002].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub udp: Vec<String>,
    /// Address to serve HTTP on, "" for none [default: 127.0.0.1:30080].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub http: Option<String>,
    /// Address to serve MySQL clients on, "" for none [default: 127.0.0.1:33306].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub mysql: Option<String>,
    /// Folder for what survives a restart and for the past, "" for none [default: auto].
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Any setting of the file, as in pool.stats_history=60s; repeat for more.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Format of the log on stderr: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Lowest level that is logged: error, warn, info, debug or trace [default: info].
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
}

impl ConfigFlags {
    /// Flag, key and text of each flag that sets one key.
    pub(crate) fn shorthands(&self) -> Vec<(&'static str, &'static str, String)> {
        let udp = (!self.udp.is_empty()).then(|| self.udp.join(","));
        [
            ("--udp", "ingest.listen", udp.as_ref()),
            ("--http", "http.listen", self.http.as_ref()),
            ("--mysql", "mysql.listen", self.mysql.as_ref()),
            ("--data", "data.dir", self.data.as_ref()),
            ("--log-format", "log.format", self.log_format.as_ref()),
            ("--log-level", "log.level", self.log_level.as_ref()),
        ]
        .into_iter()
        .filter_map(|(flag, key, value)| Some((flag, key, value?.clone())))
        .collect()
    }
}
