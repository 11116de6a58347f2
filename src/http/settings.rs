//! Settings of the front end: access, and every limit.

use std::sync::Arc;
use std::time::Duration;

use crate::access::Access;
use crate::access::tls::Tls;
use crate::alert::Alerts;
use crate::metrics::Metrics;
use crate::report::Watchlist;
use crate::series::Series;

/// Longest head of a request without its first line, in bytes.
pub(super) const HEADER_BYTES_MAX: usize = 16 * 1024;

/// A line of the memory plan, as the page shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its name.
    pub name: &'static str,
    /// Most bytes.
    pub bytes: u64,
    /// The settings that determine it.
    pub why: String,
}

/// Settings of the front end, mostly limits.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Who may log in.
    pub access: Access,
    /// Whether `/healthz` and `/readyz` are answered without credentials.
    pub open_health: bool,
    /// Accepted names in `Host`, in lower case, in addition to `localhost` and every IP address.
    pub host_names: Arc<[String]>,
    /// Certificate and key; `None` for no TLS.
    pub tls: Option<Arc<Tls>>,
    /// Most connections.
    pub connections_max: usize,
    /// Most connections of one peer.
    pub peer_connections_max: usize,
    /// Most concurrent reads of reports and raw requests: each may hold a copy of a report.
    pub readings_max: usize,
    /// Most waiting queries.
    pub waiting_max: usize,
    /// Most streamed answers, which were too large for one piece: each holds its table until it is
    /// sent.
    pub streams_max: usize,
    /// Most clients that follow requests.
    pub followers_max: usize,
    /// Longest wait of a query.
    pub patience: Duration,
    /// Time limit of a TLS handshake.
    pub handshake_max: Duration,
    /// Time limit of the head of a request, including the idle time before it.
    pub head_max: Duration,
    /// Time limit of a body.
    pub body_max: Duration,
    /// Time limit of one answer.
    pub answer_max: Duration,
    /// Lifetime of an idle connection.
    pub idle_max: Duration,
    /// The memory plan, for people.
    pub memory_plan: Arc<[Planned]>,
    /// The last hour; `None` if not kept.
    pub series: Option<Series>,
    /// The source of `/metrics`.
    pub metrics: Metrics,
    /// The alerts, and their receivers.
    pub alerts: Arc<Alerts>,
}

impl HttpSettings {
    /// The defaults, with these host names, and open to this machine.
    pub fn new(host_names: &[String]) -> Self {
        Self {
            access: Access::open(),
            open_health: false,
            host_names: host_names.iter().map(|name| name.to_ascii_lowercase()).collect(),
            tls: None,
            connections_max: 256,
            // Half: one peer cannot keep all others out, and a proxy in front has enough.
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
            alerts: Arc::default(),
        }
    }
}
