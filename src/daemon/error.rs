//! Errors that prevent the daemon from starting.

use std::fmt;
use std::net::SocketAddr;

use crate::access::SecretError;
use crate::access::tls::TlsError;
use crate::alert::rule::RuleError;
use crate::config::Config;
use crate::config::location::Location;
use crate::config::units::rounded_bytes;
use crate::input::udp::socket::SocketError;
use crate::query::definitions::ConfiguredError;
use crate::series::ChoiceError;
use crate::state::StateError;

/// An error that prevents the daemon from starting.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A UDP address cannot be used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address of a front end cannot be bound.
    #[error(
        "{section}.listen: cannot listen on {address}: {source}; change `{section}.listen` or use --{section}"
    )]
    FrontEnd {
        /// `http` or `mysql`.
        section: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: std::io::Error,
    },
    /// A Squid log source or span listener cannot be opened.
    #[error("{place}: {what} {address}: {source}; stop what has the address, or change it")]
    Input {
        /// The location of the entry.
        place: String,
        /// What cannot be done, as in "squid: cannot take lines from".
        what: &'static str,
        /// The address or file.
        address: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A report of the configuration is invalid.
    #[error(transparent)]
    Report(#[from] ConfiguredError),
    /// A rule of the configuration is invalid.
    #[error(transparent)]
    Alert(#[from] RuleError),
    /// A user's secret cannot be used.
    #[error(transparent)]
    User(#[from] SecretError),
    /// A certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A list of reports is invalid.
    #[error("{key}: {source}")]
    Choice {
        /// The setting.
        key: &'static str,
        /// The problem.
        source: ChoiceError,
    },
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The configuration asks for history, but this build does not support it.
    #[error(
        "history.dir: this program was built without SQL, and so without history; accepted: \"\""
    )]
    NoHistory,
    /// Pushing metrics or alerts, or shipping to ClickHouse, cannot start; the setting comes first.
    #[error("{0}")]
    Push(String),
    /// A pool is larger than the system's memory.
    #[error("{key}: the system has no {} of memory for it; accepted: a smaller one", rounded_bytes(*.bytes as u64))]
    NoMemory {
        /// The setting.
        key: &'static str,
        /// The size of the pool's largest table.
        bytes: usize,
    },
    /// HTTP cannot name such a time.
    #[error("the clock of this machine shows a time before 1970; set it")]
    Clock,
    /// A thread or runtime cannot be created.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// The thing to start.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
}

/// An error of the configuration, and where it stands.
#[derive(Debug)]
pub struct Misconfigured {
    /// The location; `None` if the error says it itself, or nobody gave that key.
    place: Option<Location>,
    /// The error.
    pub error: StartError,
}

impl Misconfigured {
    /// Finds the place of an error by the key that its text begins with.
    pub(super) fn of(config: &Config, error: StartError) -> Self {
        let text = error.to_string();
        let input = || {
            // A key of several entries.
            let StartError::Tls(error) = &error else { return None };
            config
                .otlp_inputs
                .iter()
                .find(|input| error.is_of(&input.front()))
                .map(|it| &it.location)
        };
        let place = config.location_of(&text).or_else(input).cloned();
        Self { place, error }
    }
}

impl fmt::Display for Misconfigured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "{place}: {}", self.error),
            None => write!(f, "{}", self.error),
        }
    }
}

impl StartError {
    /// Whether the configuration has to change, as opposed to the machine.
    pub(crate) const fn is_configuration(&self) -> bool {
        match self {
            Self::Report(_)
            | Self::Alert(_)
            | Self::User(_)
            | Self::Tls(_)
            | Self::Push(_)
            | Self::Choice { .. }
            | Self::NoHistory => true,
            Self::State(error) => matches!(error, StateError::NotAFolder { .. }),
            Self::Socket(_)
            | Self::FrontEnd { .. }
            | Self::Input { .. }
            | Self::NoMemory { .. }
            | Self::Clock
            | Self::Thread { .. } => false,
        }
    }
}
