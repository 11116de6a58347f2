//! What the front end is started with: where answers come from, who may log in, and every limit.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::access::tls::Tls;
use crate::alert::Alerts;
use crate::metrics::Metrics;
use crate::query::catalog::Catalog;
use crate::report::Watchlist;
use crate::series::Series;
#[cfg(feature = "sql")]
use crate::sql::Engine;

/// Longest head of a request without its first line, bytes.
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// What answers come from.
#[derive(Clone)]
pub struct Answers {
    /// The read model.
    pub source: Arc<Catalog>,
    /// Runs statements; `None` switches SQL off.
    #[cfg(feature = "sql")]
    pub sql: Option<Engine>,
}

impl Answers {
    /// Answers from the read model alone.
    #[must_use]
    pub fn new(source: Arc<Catalog>) -> Self {
        Self {
            source,
            #[cfg(feature = "sql")]
            sql: None,
        }
    }
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

/// A line of the memory plan, as the page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What takes it.
    pub name: &'static str,
    /// At most so many bytes.
    pub bytes: u64,
    /// Which settings make it so.
    pub why: String,
}

/// What the front end is started with: mostly its limits.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Who may log in.
    pub access: Access,
    /// Whether `/healthz` and `/readyz` are answered without credentials.
    pub open_health: bool,
    /// Names in `Host` to answer to, in lower case, beside `localhost` and every IP address.
    pub host_names: Arc<[String]>,
    /// Certificate and key; `None`: no TLS.
    pub tls: Option<Arc<Tls>>,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections of one peer at once.
    pub peer_connections_max: usize,
    /// Readings of reports and raw requests at once: each may hold a copy of a report.
    pub readings_max: usize,
    /// Queries that wait for their turn.
    pub waiting_max: usize,
    /// Answers being sent at once that were too large to be written in one piece: each holds its table until it is sent.
    pub streams_max: usize,
    /// Clients at once that follow requests as they pass.
    pub followers_max: usize,
    /// How long a query waits for its turn.
    pub patience: Duration,
    /// How long a client may take for the TLS handshake.
    pub handshake_max: Duration,
    /// How long a client may take for the head of a request, the time before it included.
    pub head_max: Duration,
    /// How long a client may take for a body.
    pub body_max: Duration,
    /// How long a client may take for one answer.
    pub answer_max: Duration,
    /// How long a connection lives on which nothing moves.
    pub idle_max: Duration,
    /// The memory plan, for people to see.
    pub memory_plan: Arc<[Planned]>,
    /// The last hour; `None`: not kept.
    pub series: Option<Series>,
    /// What `/metrics` answers with.
    pub metrics: Metrics,
    /// The alerts, and who is told.
    pub alerts: Alerts,
}

impl HttpSettings {
    /// The defaults, with these host names, and open to this machine.
    #[must_use]
    pub fn new(host_names: &[String]) -> Self {
        Self {
            access: Access::open(),
            open_health: false,
            host_names: host_names
                .iter()
                .map(|name| name.to_ascii_lowercase())
                .collect(),
            tls: None,
            connections_max: 256,
            // Half: one peer alone cannot keep all others out, and a proxy in front has enough.
            peer_connections_max: 128,
            readings_max: 2,
            waiting_max: 64,
            streams_max: 4,
            followers_max: 16,
            patience: Duration::from_secs(5),
            handshake_max: Duration::from_secs(10),
            head_max: Duration::from_secs(15),
            body_max: Duration::from_secs(10),
            answer_max: Duration::from_secs(120),
            idle_max: Duration::from_secs(30),
            memory_plan: [].into(),
            series: None,
            metrics: Metrics::new(Watchlist::default(), &[], 0),
            alerts: Alerts::none(),
        }
    }
}
