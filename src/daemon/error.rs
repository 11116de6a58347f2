//! Why the daemon did not start.

use std::net::SocketAddr;

use super::socket_activation::SocketActivationError;
use crate::access::SecretError;
use crate::access::tls::TlsError;
use crate::alert::rule::RuleError;
use crate::input::udp::socket::SocketError;
use crate::query::definitions::ConfiguredError;
use crate::series::ChoiceError;
use crate::state::StateError;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A UDP address.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address of a front end.
    #[error(
        "{section}.listen: cannot listen on {address}: {source}; change `{section}.listen` or use --{section}"
    )]
    FrontEnd {
        /// `http` or `mysql`.
        section: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// A source of Squid's lines.
    #[error(
        "{place}: squid: cannot take lines from {from}: {problem}; stop what has the address, or change it"
    )]
    Squid {
        /// Where the entry is.
        place: String,
        /// What it listens on.
        from: String,
        /// Why not.
        problem: String,
    },
    /// What takes spans.
    #[error(
        "{place}: otlp_input.listen: cannot listen on {address}: {source}; stop what has the address, or change it"
    )]
    OtlpInput {
        /// Where the entry is.
        place: String,
        /// What it listens on.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A report of the configuration.
    #[error(transparent)]
    Report(#[from] ConfiguredError),
    /// A rule of the configuration.
    #[error(transparent)]
    Alert(#[from] RuleError),
    /// The secrets of a user.
    #[error(transparent)]
    User(#[from] SecretError),
    /// Certificate or key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A list of reports.
    #[error("{key}: {source}")]
    Choice {
        /// The setting.
        key: &'static str,
        /// What is wrong with it.
        source: ChoiceError,
    },
    /// The folder of what survives a restart.
    #[error(transparent)]
    State(#[from] StateError),
    /// What this program cannot do is asked for.
    #[error(
        "history.dir: this program was built without SQL, and so without history; accepted: \"\""
    )]
    NoHistory,
    /// What ships to ClickHouse.
    #[error("{0}")]
    ClickHouse(String),
    /// What metrics are pushed to.
    #[error("{0}")]
    Push(String),
    /// A socket that was handed over.
    #[error(transparent)]
    ActivatedSockets(#[from] SocketActivationError),
    /// A thread or the runtime.
    #[error("cannot start {what}: {source}")]
    Thread {
        /// What was to be started.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl StartError {
    /// Whether it is the configuration that has to change, and not the machine.
    #[must_use]
    pub const fn is_configuration(&self) -> bool {
        match self {
            Self::Report(_)
            | Self::Alert(_)
            | Self::User(_)
            | Self::Tls(_)
            | Self::Push(_)
            | Self::Choice { .. } => true,
            Self::State(error) => matches!(error, StateError::NotAFolder { .. }),
            Self::NoHistory | Self::ClickHouse(_) => true,
            Self::Socket(_)
            | Self::FrontEnd { .. }
            | Self::Squid { .. }
            | Self::OtlpInput { .. }
            | Self::ActivatedSockets(_)
            | Self::Thread { .. } => false,
        }
    }
}
