//! HTTP/JSON: the daemon's first front end.
//!
//! [`serve`] accepts connections on a listener that the daemon bound, on the runtime it is called on, and answers every request
//! from the one [`Source`], or runs a statement. Asynchronous code only moves bytes; questions are answered on threads that may block.
//!
//! Bounded are connections, in all and for each peer (beyond the cap a client is told 503, or nothing if it would have to
//! log in to be told anything), handshakes, heads, bodies and the time for each (`connection.rs`,
//! `guard.rs`), questions at once and answers under way (`gate.rs`). Whatever a client does wrong ends in a problem
//! document (`error.rs`) or a closed connection. On stop, answers under way get a moment to finish.

mod answer;
#[cfg(feature = "sql")]
mod batches;
mod connection;
mod error;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod gate;
mod guard;
mod json;
mod login;
mod metrics;
mod openapi;
mod order;
mod page;
mod params;
mod reports;
mod requests;
mod routes;
mod series;
mod sources;
#[cfg(feature = "sql")]
mod sql;
mod stream;
mod time;
mod writer;

#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::response::IntoResponse as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::warn;

use self::error::Problem;
use crate::access::Access;
use crate::access::door::{self, Door};
use crate::access::places::Places;
use crate::access::tls::Tls;
use crate::metrics::Metrics;
use crate::query::source::Source;
use crate::series::Series;
#[cfg(feature = "sql")]
use crate::sql::Engine;

/// Clients beyond the cap that are told so at once; those beyond that are closed without a word, as are strangers.
const TURNED_AWAY_MAX: usize = 32;
/// How long answers under way may take to finish after a stop.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Where answers come from.
#[derive(Clone)]
pub struct Answers {
    /// The read model.
    pub source: Arc<dyn Source>,
    /// Runs statements; `None` switches SQL off.
    #[cfg(feature = "sql")]
    pub sql: Option<Engine>,
}

impl Answers {
    /// Answers from the read model alone.
    #[must_use]
    pub fn new(source: Arc<dyn Source>) -> Self {
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

/// What bounds the front end.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Who may ask.
    pub access: Access,
    /// Whether `/healthz` and `/readyz` are answered without credentials.
    pub open_health: bool,
    /// Names in `Host` to answer to, beside `localhost` and every IP address.
    pub host_names: Arc<[String]>,
    /// With what TLS is done; `None`: without.
    pub tls: Option<Arc<Tls>>,
    /// Connections at once.
    pub connections_max: usize,
    /// Connections of one peer at once.
    pub peer_connections_max: usize,
    /// Reports and pages of raw requests being read at once: each may hold a copy of a report.
    pub readings_max: usize,
    /// Questions that wait for their turn.
    pub waiting_max: usize,
    /// Answers being sent at once that were too large to be written in one piece: each holds its table until it is sent.
    pub streams_max: usize,
    /// Clients at once that follow the requests as they pass.
    pub followers_max: usize,
    /// How long a question waits for its turn.
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
    /// What Prometheus is shown.
    pub metrics: Metrics,
}

impl HttpSettings {
    /// Bytes that pages take at most.
    #[must_use]
    pub const fn page_bytes_max(&self) -> usize {
        page::bytes_max(self.readings_max)
    }

    /// The defaults, with these host names, and open to this machine.
    #[must_use]
    pub fn new(host_names: Vec<String>) -> Self {
        Self {
            access: Access::open(),
            open_health: false,
            host_names: host_names.into(),
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
            metrics: Metrics::new(&[], &[], 0),
        }
    }
}

/// Answers requests until `stop` is done, then lets answers under way finish for half a second at most. Needs a runtime
/// with time and I/O.
pub async fn serve(
    listener: TcpListener,
    answers: Answers,
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) {
    let (stop_all, stopped) = watch::channel(false);
    let router = routes::router(answers, &settings, stopped.clone());
    let places = Places::new(settings.connections_max, settings.peer_connections_max);
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    let mut door = Door::new(listener, "HTTP");
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.as_mut() => break,
            accepted = door.next() => accepted,
            // Keeps the set no larger than the number of live connections.
            Some(_) = connections.join_next() => continue,
        };
        if let Err(error) = prepare(&stream, settings.idle_max) {
            warn!(%error, "Cannot switch off delays on a connection.");
        }
        if let Some(place) = places.take(peer.ip()) {
            let (router, settings) = (router.clone(), settings.clone());
            let stopped = stopped.clone();
            connections.spawn(async move {
                let _place = place;
                connection::drive(stream, peer, router, settings, stopped).await;
            });
        } else if settings.tls.is_none()
            && settings.access.anonymous(peer.ip()).is_some()
            && let Ok(place) = Arc::clone(&turned_away).try_acquire_owned()
        {
            connections.spawn(async move {
                let _place = place;
                let told = turn_away(stream);
                drop(tokio::time::timeout(Duration::from_secs(1), told).await);
            });
        }
    }
    drop(door);
    stop_all.send_replace(true);
    door::finish(connections, STOP_GRACE).await;
}

/// No delays; and a peer that is gone without a word is given up as soon as one that does not move.
fn prepare(stream: &TcpStream, idle_max: Duration) -> std::io::Result<()> {
    let millis = u32::try_from(idle_max.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?;
    stream.set_nodelay(true)
}

/// Tells a client that there is no place for it.
async fn turn_away(mut stream: TcpStream) -> std::io::Result<()> {
    let problem = Problem::busy("too many connections; ask again in a moment");
    let body = problem.body();
    let mut response = problem.into_response();
    guard::protect(response.headers_mut());
    let mut answer = format!("HTTP/1.1 {}\r\n", response.status()).into_bytes();
    for (name, value) in response.headers() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            answer.extend_from_slice(part);
        }
    }
    let rest = format!(
        "content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    answer.extend_from_slice(rest.as_bytes());
    // The request is taken first: closing with bytes unread would reset the connection and lose the answer.
    let mut head = [0; 4096];
    if stream.read(&mut head).await? == 0 {
        return Ok(());
    }
    stream.write_all(&answer).await?;
    stream.shutdown().await
}
