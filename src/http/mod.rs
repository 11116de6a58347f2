//! HTTP: the API in JSON, the pages for people, and `/metrics`.
//!
//! [`serve`] accepts connections on a listener that the daemon bound, on the runtime it is called
//! on. Every answer comes from the one [`Catalog`] or from the SQL engine. Asynchronous code only
//! moves bytes; queries run on threads that may block (`app.rs`).
//!
//! Bounds: connections, in total and per peer (beyond the limit a client gets 503, or nothing if it
//! would have to log in first), handshakes, heads, bodies and the time for each (`connection.rs`,
//! `request_checks.rs`), concurrent queries and large answers (`concurrency_limit.rs`). Every
//! client error ends in a problem document (`error.rs`) or a closed connection. On stop, answers in
//! progress get a moment to finish.
//!
//! | folder | holds |
//! |---|---|
//! | `api` | the endpoints for programs, and their OpenAPI document |
//! | `page` | the pages for people |
//! | `answer` | rows as bytes: JSON, newline-delimited JSON, CSV, Arrow |

mod answer;
mod api;
mod app;
mod auth;
mod concurrency_limit;
mod connection;
mod error;
mod fleet;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod measured;
mod otlp;
mod page;
mod params;
mod request_checks;
mod routes;
mod settings;
mod time_range;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::warn;

pub(crate) use self::concurrency_limit::PERMIT;
use self::error::Problem;
pub use self::page::bytes_max as page_bytes_max;
pub use self::params::encode;
pub use self::settings::{HttpSettings, Planned};
use crate::access::accept::{self, Acceptor};
use crate::access::connection_limits::ConnectionLimits;
use crate::input::otlp::Source;
use crate::query::catalog::Catalog;
use crate::sql::Engine;

/// Clients beyond the limit that get 503; further ones are just closed, as are strangers.
const TURNED_AWAY_MAX: usize = 32;
/// Time for answers in progress to finish after a stop.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Answers requests until `stop` completes, then lets answers in progress finish for at most half a
/// second. Without an engine there is no SQL. Needs a runtime with time and I/O.
pub async fn serve(
    listener: TcpListener,
    (source, sql): (Arc<Catalog>, Option<Engine>),
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) {
    let stopping = watch::channel(false);
    let router = routes::router((source, sql), &settings, stopping.1.clone());
    serve_router(listener, router, settings, stopping, stop).await;
}

/// Accepts spans for `source`, as [`serve`] answers requests.
pub async fn serve_spans(
    listener: TcpListener,
    source: Arc<Source>,
    settings: HttpSettings,
    stop: impl Future<Output = ()>,
) {
    let router = otlp::router(source, &settings);
    serve_router(listener, router, settings, watch::channel(false), stop).await;
}

async fn serve_router(
    listener: TcpListener,
    router: Router,
    settings: HttpSettings,
    (stop_all, stopped): (watch::Sender<bool>, watch::Receiver<bool>),
    stop: impl Future<Output = ()>,
) {
    let limits = ConnectionLimits::new(settings.connections_max, settings.peer_connections_max);
    let turned_away = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
    let mut connections = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    let mut acceptor = Acceptor::new(listener, "HTTP");
    loop {
        let (stream, peer) = tokio::select! {
            () = stop.as_mut() => break,
            accepted = acceptor.next() => accepted,
            // Keeps the set no larger than the number of live connections.
            Some(_) = connections.join_next() => continue,
        };
        if let Err(error) = prepare(&stream, settings.idle_max) {
            warn!(%error, "Cannot switch off delays on a connection.");
        }
        if let Some(permit) = limits.take(peer.ip()) {
            let (router, settings) = (router.clone(), settings.clone());
            let stopped = stopped.clone();
            connections.spawn(async move {
                let _permit = permit;
                connection::drive(stream, peer, router, settings, stopped).await;
            });
        } else if settings.tls.is_none()
            && settings.access.anonymous(peer.ip()).is_some()
            && let Ok(permit) = Arc::clone(&turned_away).try_acquire_owned()
        {
            connections.spawn(async move {
                let _permit = permit;
                drop(tokio::time::timeout(Duration::from_secs(1), turn_away(stream)).await);
            });
        }
    }
    drop(acceptor);
    stop_all.send_replace(true);
    accept::finish(connections, STOP_GRACE).await;
}

/// Disables delays; and a vanished peer is given up as soon as an idle one.
fn prepare(stream: &TcpStream, idle_max: Duration) -> std::io::Result<()> {
    let millis = u32::try_from(idle_max.as_millis()).unwrap_or(u32::MAX);
    rustix::net::sockopt::set_tcp_user_timeout(stream, millis)?;
    stream.set_nodelay(true)
}

/// Answers 503 without reading the request.
async fn turn_away(stream: TcpStream) -> hyper::Result<()> {
    let answer = service_fn(async |_| {
        let problem = Problem::busy("too many connections; ask again in a moment");
        let mut response = problem.into_response();
        request_checks::protect(response.headers_mut());
        Ok::<_, Infallible>(response)
    });
    let mut connection = hyper::server::conn::http1::Builder::new();
    connection.keep_alive(false).serve_connection(TokioIo::new(stream), answer).await
}
