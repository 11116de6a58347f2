//! Which path leads where, and how a handler gets at the source.
//!
//! [`paths`] is the one list of paths: the router is made from it, and a test holds the OpenAPI document against it. Handlers
//! ask through [`App`], which waits for a turn at a gate and runs the question on a thread that may block, so that
//! neither a slow question nor a panic in one touches the tasks that move bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, delete, get, post};
use serde_json::{Map, Value as Json};
use tokio::sync::watch;
use tracing::error;

use super::answer::{self, RowBytes};
use super::error::Problem;
use super::gate::{Gate, Permit};
use super::guard::{self, Guard, HostNames};
use super::login::Login;
use super::params::Params;
use super::{
    Answers, HttpSettings, metrics, openapi, page, reports, requests, series, sources, stream,
};
use crate::metrics::Metrics;
use crate::query::source::{Readiness, Source};
use crate::series::Series;

#[cfg(feature = "sql")]
use super::sql::run as run_sql;

/// Short questions being answered at once: status, lists, single requests.
const SHORT_MAX: usize = 4;

/// What every handler has.
#[derive(Clone)]
pub(super) struct App(Arc<Shared>);

struct Shared {
    answers: Answers,
    /// For questions with short answers.
    short: Gate,
    /// For reports and pages of requests.
    readings: Gate,
    /// For answers that are written while they are sent.
    streams: Gate,
    /// For those that follow requests as they pass: nobody waits for a place.
    followers: Gate,
    body_max: Duration,
    series: Option<Series>,
    /// What the pages keep between requests.
    kept: page::Kept,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    metrics: Metrics,
}

impl App {
    fn new(answers: Answers, settings: &HttpSettings, stopped: watch::Receiver<bool>) -> Self {
        let gate = |what, inside| Gate::new(what, inside, settings.waiting_max, settings.patience);
        Self(Arc::new(Shared {
            answers,
            short: gate("questions", SHORT_MAX),
            readings: gate("readings", settings.readings_max),
            streams: gate("large answers", settings.streams_max),
            followers: Gate::new("followers", settings.followers_max, 0, Duration::ZERO),
            body_max: settings.body_max,
            series: settings.series.clone(),
            kept: page::Kept::new(Arc::clone(&settings.memory_plan)),
            stopped,
            metrics: settings.metrics.clone(),
        }))
    }

    /// What runs statements.
    #[cfg(feature = "sql")]
    pub(super) fn sql(&self) -> Option<crate::sql::Engine> {
        self.0.answers.sql.clone()
    }

    /// A place among those that follow the requests, if there is one.
    pub(super) fn follower(&self) -> Option<Permit> {
        self.0.followers.try_enter()
    }

    /// Becomes true when the server stops.
    pub(super) fn stopped(&self) -> watch::Receiver<bool> {
        self.0.stopped.clone()
    }

    /// Asks the source on behalf of one that has a place of its own already.
    pub(super) async fn step<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Source) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let shared = Arc::clone(&self.0);
        blocking(move || question(shared.answers.source.as_ref())).await
    }

    /// How long a client may take for a body.
    pub(super) fn body_max(&self) -> Duration {
        self.0.body_max
    }

    /// The last hour in memory; `None`: none is kept.
    pub(super) fn series(&self) -> Option<Series> {
        self.0.series.clone()
    }

    /// What the pages keep between requests.
    pub(super) fn kept(&self) -> &page::Kept {
        &self.0.kept
    }

    /// Asks the source for what a page shows: whole reports may be read for it.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Source) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.0.readings.enter().await?;
        let shared = Arc::clone(&self.0);
        blocking(move || {
            let _permit = permit;
            question(shared.answers.source.as_ref())
        })
        .await
    }

    /// What Prometheus is shown.
    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// The status with what is kept beside the source: the last hour and the metrics.
    pub(super) async fn status(&self) -> Result<Map<String, Json>, Problem> {
        let (series, metrics) = (self.series(), self.metrics().clone());
        self.ask(move |source| {
            let mut status = source.status();
            if let Some(series) = series {
                status.insert("series".to_owned(), series::status(&series.status()));
            }
            status.insert("metrics".to_owned(), metrics.status());
            Ok(status)
        })
        .await
    }

    /// Asks the source something short.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Source) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let permit = self.0.short.enter().await?;
        let shared = Arc::clone(&self.0);
        // The permit goes along: a client that leaves does not end the work that it caused.
        blocking(move || {
            let _permit = permit;
            question(shared.answers.source.as_ref())
        })
        .await
    }

    /// Asks the source for rows.
    pub(super) async fn read(
        &self,
        question: impl FnOnce(&dyn Source) -> Result<RowBytes, Problem> + Send + 'static,
    ) -> Result<Response<Body>, Problem> {
        let permit = self.0.readings.enter().await?;
        let shared = Arc::clone(&self.0);
        let (bytes, permit) =
            blocking(move || Ok((question(shared.answers.source.as_ref())?, permit))).await?;
        if bytes.is_whole() {
            return Ok(bytes.into_response(permit));
        }
        // The reading's permit is kept until the stream has its own, so tables never outnumber permits.
        let stream = self.0.streams.enter().await?;
        drop(permit);
        Ok(bytes.into_response(stream))
    }
}

/// Runs something on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|failure| {
            error!(%failure, "A query panicked.");
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the daemon failed to answer; its log says why",
            ))
        })
}

/// Every path of the API and `/`, the methods it knows, and their handlers. GET brings HEAD with it.
pub(super) fn paths() -> [(&'static str, &'static str, MethodRouter<App>); 16] {
    const GET: &str = "GET, HEAD, OPTIONS";
    [
        ("/", GET, get(page::read)),
        ("/healthz", GET, get(healthy)),
        ("/readyz", GET, get(ready)),
        ("/api/v1/info", GET, get(reports::info)),
        ("/api/v1/status", GET, get(status)),
        (
            "/api/v1/reports",
            "GET, HEAD, POST, OPTIONS",
            get(reports::list).merge(post(reports::create)),
        ),
        (
            "/api/v1/reports/{name}",
            "GET, HEAD, DELETE, OPTIONS",
            get(reports::read).merge(delete(reports::drop_one)),
        ),
        ("/api/v1/reports/{name}/series", GET, get(series::read)),
        ("/api/v1/sources", GET, get(sources::list)),
        ("/api/v1/requests", GET, get(requests::list)),
        ("/api/v1/requests/{id}", GET, get(requests::read)),
        (
            "/api/v1/sql",
            "GET, HEAD, POST, OPTIONS",
            get(run_sql).post(run_sql),
        ),
        ("/api/v1/stream/requests", GET, get(stream::read)),
        ("/api/v1/reset", "POST, OPTIONS", post(reports::reset)),
        ("/api/v1/openapi.json", GET, get(openapi::read)),
        ("/metrics", GET, get(metrics::read)),
    ]
}

/// The service behind every connection.
pub(super) fn router(
    answers: Answers,
    settings: &HttpSettings,
    stopped: watch::Receiver<bool>,
) -> Router {
    let app = App::new(answers, settings, stopped);
    let lower = settings
        .host_names
        .iter()
        .map(|name| name.to_ascii_lowercase());
    let guard = Guard {
        login: Login {
            access: settings.access.clone(),
            open_health: settings.open_health,
        },
        names: HostNames(lower.collect()),
    };
    let mut router = Router::new();
    for (path, allow, methods) in paths().into_iter().chain(page::paths()) {
        let others = move |method: Method| async move { guard::other_method(&method, allow) };
        router = router.route(path, methods.fallback(others));
    }
    let router = router.fallback(nothing_here).with_state(app);
    // Around all of it, not around each path: a layer inside would let axum add `Allow` to a stranger's 401, and that
    // would tell which paths there are.
    Router::new()
        .fallback_service(router)
        .layer(axum::middleware::from_fn(page::compress))
        .layer(axum::middleware::from_fn_with_state(guard, guard::around))
}

/// 404, with a word about paths that one might expect.
async fn nothing_here(uri: Uri) -> Problem {
    let detail = match uri.path() {
        "/metrics" => {
            "this version has no /metrics; the same counters are in /api/v1/status".to_owned()
        }

        "/api/v1/sql" => {
            "this version has no SQL; /api/v1/reports/{name} sorts and filters".to_owned()
        }
        path => {
            format!("there is nothing at {path:?}; GET /api/v1/openapi.json lists what there is")
        }
    };
    Problem::new(StatusCode::NOT_FOUND, detail)
}

/// `/api/v1/sql` where there is none.
#[cfg(not(feature = "sql"))]
async fn run_sql() -> Problem {
    Problem::new(
        StatusCode::NOT_IMPLEMENTED,
        "this program was built without SQL (feature `sql`); /api/v1/reports/{name} sorts and filters",
    )
}

/// `GET /healthz`: that this is answered says it all.
async fn healthy(request: Request) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    Ok(answer::json(StatusCode::OK, br#"{"status":"ok"}"#.to_vec()))
}

/// `GET /readyz`. Goes past the gates: a busy daemon is ready.
async fn ready(State(app): State<App>, request: Request) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let Readiness { reasons } = blocking(move || Ok(app.0.answers.source.readiness())).await?;
    if reasons.is_empty() {
        return Ok(answer::json(
            StatusCode::OK,
            br#"{"status":"ready"}"#.to_vec(),
        ));
    }
    let reasons = reasons.join("; ");
    Ok(Problem::busy(format!("not ready: {reasons}")).into_response())
}

/// `GET /api/v1/status`
async fn status(State(app): State<App>, request: Request) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let status = app.status().await?;
    let body = Json::Object(status).to_string();
    Ok(answer::json(StatusCode::OK, body.into_bytes()))
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App").finish_non_exhaustive()
    }
}
