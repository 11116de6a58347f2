//! The configuration: flags over environment over file over defaults, checked.
//!
//! `settings` declares every key once. `layers` merges the layers; `check` turns them into a
//! [`Config`], or a list of all errors, each with file and line ([`ConfigErrors`]). Called by
//! `main`, before any thread starts; the stages get their part of [`Config`] and read no file,
//! variable or flag themselves. The memory it implies is summed up in
//! [`crate::daemon::memory_plan`].

pub mod alert;
mod check;
pub mod data_folder;
pub mod error;
pub mod flags;
pub(crate) mod key;
mod kinds;
mod layers;
mod list_entry;
pub mod location;
pub mod otlp;
mod raw_value;
pub mod rewrite;
pub mod secret;
pub(crate) mod settings;
pub mod slo;
pub mod squid;
pub mod stat;
pub(crate) mod suggest;
pub mod units;
pub mod user;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use alert::AlertEntry;
use data_folder::UsualFolder;
pub use error::{ConfigError, ConfigErrors};
pub use flags::ConfigFlags;
pub use layers::TOKEN_VARIABLE;
use layers::{CONFIG_VARIABLE, RawConfig};
use location::{Location, Origin};
pub use otlp::OtlpInput;
pub use raw_value::Entry;
pub use rewrite::RewriteRule;
pub use settings::{
    AlertingConfig, Changes, ClickHouseConfig, Config, DataConfig, HistoryConfig, HttpConfig,
    IngestConfig, InstrumentsConfig, KeptRequests, LogConfig, MetricsConfig, MySqlConfig,
    OtlpConfig, OtlpTemporality, OtlpTraces, PoolConfig, ProfileConfig, ReleasesConfig,
    ReportsConfig, SeriesConfig, ShippedRows, SqlConfig, StateConfig,
};
pub use slo::SloEntry;
pub use squid::{SquidFrom, SquidSource};
pub use stat::{StatAddress, StatSource};
pub use user::ConfiguredUser;

impl Config {
    /// Loads the configuration from flags, the environment of this process and the file that one of
    /// them names. Data goes to the usual folder unless they say otherwise.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_environment(flags: &ConfigFlags) -> Result<Self, ConfigErrors> {
        Self::load_beside(flags, std::env::vars_os(), data_folder::usual())
    }

    /// Loads the configuration from flags, `PINBAD_...` variables and the file that one of them
    /// names.
    ///
    /// # Errors
    /// All errors, not just the first.
    pub fn load(
        flags: &ConfigFlags,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigErrors> {
        Self::load_beside(flags, variables, None)
    }

    /// Like [`Config::load`], with the folder that "auto" stands for in `data.dir`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(crate) fn load_beside(
        flags: &ConfigFlags,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        usual_folder: UsualFolder,
    ) -> Result<Self, ConfigErrors> {
        let variables: Vec<_> = variables.into_iter().collect();
        let path = Self::file(flags, &variables);
        let mut raw = RawConfig { usual_folder, ..RawConfig::default() };
        if let Some((named_by, path)) = path {
            let shown = path.display();
            match std::fs::read_to_string(&path) {
                Ok(text) => raw.add_file(&shown.to_string(), &text),
                Err(error) => raw.errors.push(ConfigError::new(
                    Location::whole(named_by, ""),
                    format!("cannot read {shown}: {error}"),
                )),
            }
        }
        raw.add_variables(variables);
        raw.add_flags(flags);
        Self::checked(raw)
    }

    /// The file of a configuration, and what names it.
    pub(crate) fn file(
        flags: &ConfigFlags,
        variables: &[(OsString, OsString)],
    ) -> Option<(Origin, PathBuf)> {
        if let Some(path) = &flags.config {
            return Some((Origin::Flag("--config"), path.clone()));
        }
        let given = variables.iter().find(|it| it.0 == CONFIG_VARIABLE && !it.1.is_empty());
        given.map(|(_, path)| (Origin::Variable(CONFIG_VARIABLE.to_owned()), path.into()))
    }

    /// Reads the configuration from the text of a file, without environment and flags; errors call
    /// it `name`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ConfigErrors> {
        let mut raw = RawConfig::default();
        raw.add_file(name, text);
        Self::checked(raw)
    }

    fn checked(mut raw: RawConfig) -> Result<Self, ConfigErrors> {
        let config = check::check(&mut raw);
        let mut errors = raw.errors;
        // An unknown variable may hold the secret of a user.
        for name in config.users.iter().flat_map(ConfiguredUser::variables) {
            let secret = Origin::Variable(name.to_owned());
            errors.retain(|error| !error.is_unknown_variable || *error.location.origin() != secret);
        }
        match errors.is_empty() {
            true => Ok(config),
            false => Err(ConfigErrors(errors, Box::new(config))),
        }
    }
}

impl Default for Config {
    /// The configuration when nothing is set.
    fn default() -> Self {
        Self::checked(RawConfig::default()).expect("the defaults are within their own ranges")
    }
}

impl IngestConfig {
    /// Returns whether packets are counted or limited by source address.
    pub(crate) fn watches_sources(&self) -> bool {
        self.count_sources || self.source_rate_max > 0 || !self.allow.is_empty()
    }
}

impl InstrumentsConfig {
    /// Limits on instruments, by class.
    pub fn classes_max(&self) -> [usize; 9] {
        [
            self.max_mutex_classes,
            self.max_rwlock_classes,
            self.max_cond_classes,
            self.max_file_classes,
            self.max_socket_classes,
            self.max_stage_classes,
            self.max_statement_classes,
            self.max_memory_classes,
            self.max_thread_classes,
        ]
    }
}

/// Settings shared by `[http]`, `[mysql]` and each `[[otlp_input]]`.
#[derive(Debug, Clone, Copy)]
pub struct FrontConfig<'c> {
    /// `http`, `mysql` or `otlp_input`, for errors.
    pub section: &'static str,
    /// The address to listen on; `None` if switched off.
    pub listen: Option<SocketAddr>,
    /// Whether everyone who reaches `listen` may read.
    pub allow_anonymous: bool,
    tls_cert: Option<&'c PathBuf>,
    tls_key: Option<&'c PathBuf>,
}

impl FrontConfig<'_> {
    /// Returns whether listening on `address` needs no further permission: a loopback address is
    /// reachable from this machine alone; any other needs users who can log in, or
    /// `allow_anonymous`.
    pub(crate) fn is_open(&self, address: SocketAddr, users: bool) -> bool {
        !users && !self.allow_anonymous && !address.ip().to_canonical().is_loopback()
    }

    /// Certificate and key; `None` without TLS.
    pub(crate) fn tls(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            section: self.section,
            cert: self.tls_cert?.clone(),
            key: self.tls_key?.clone(),
        })
    }
}

/// Implements the shared settings for each section.
macro_rules! fronts {
    ($($Section:ident: $section:literal),*) => {
        $(impl $Section {
            /// The settings this front end shares with the others.
            pub fn front(&self) -> FrontConfig<'_> {
                FrontConfig {
                    section: $section,
                    listen: self.listen.into(),
                    allow_anonymous: self.allow_anonymous,
                    tls_cert: self.tls_cert.as_ref(),
                    tls_key: self.tls_key.as_ref(),
                }
            }
        })*
    };
}

fronts!(HttpConfig: "http", MySqlConfig: "mysql", OtlpInput: "otlp_input");

impl Config {
    /// Returns whether any Squid source is a file.
    pub(crate) fn follows_files(&self) -> bool {
        let mut squids = self.squids.iter();
        squids.any(|squid| matches!(squid.from, SquidFrom::File(..)))
    }

    /// Where the key that a text about a setting begins with was given; `None` if it was not.
    pub(crate) fn location_of(&self, text: &str) -> Option<&Location> {
        self.locations.get(text.split([' ', ':']).next()?)
    }

    /// All TCP front ends that may speak TLS.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = FrontConfig<'_>> {
        let inputs = self.otlp_inputs.iter().map(OtlpInput::front);
        [self.http.front(), self.mysql.front()].into_iter().chain(inputs)
    }

    /// Bytes that may wait for the log of seconds; 0 without a log.
    pub(crate) fn log_memory(&self) -> usize {
        if self.history.log { (self.history.memory / 8).min(48 << 20) } else { 0 }
    }

    /// Returns whether any active front end has a certificate.
    pub(crate) fn has_tls(&self) -> bool {
        let mut listening = self.fronts().filter(|front| front.listen.is_some());
        listening.any(|front| front.tls().is_some())
    }
}

/// `tls_cert` and `tls_key` of one front end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// `http`, `mysql` or `otlp_input`, for errors.
    pub section: &'static str,
    /// The certificate followed by intermediates, PEM.
    pub cert: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests;
