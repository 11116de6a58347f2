//! Which path leads where.
//!
//! [`endpoints`] and the pages' list are the only lists of paths: the router is made from them, and a test holds the OpenAPI
//! document against them.

use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{delete, get, post};
use tokio::sync::watch;

#[cfg(feature = "sql")]
use super::api::sql;
use super::api::{health, metrics, openapi, reports, requests, series, sources, stream};
use super::app::{App, Endpoint};
use super::error::Problem;
use super::login::Login;
use super::page;
use super::request_checks::{self, Checks};
use super::settings::{Answers, HttpSettings};

/// The endpoints for programs.
pub(super) fn endpoints() -> Vec<Endpoint> {
    const GET: &str = "GET, HEAD, OPTIONS";
    let list = get(reports::list).merge(post(reports::create));
    let report = get(reports::read).merge(delete(reports::drop_one));
    #[cfg(feature = "sql")]
    let sql = get(sql::query).merge(post(sql::run));
    #[cfg(not(feature = "sql"))]
    let sql = get(no_sql).merge(post(no_sql));
    vec![
        ("/", GET, page::overview()),
        ("/healthz", GET, get(health::healthy)),
        ("/readyz", GET, get(health::ready)),
        ("/metrics", GET, get(metrics::read)),
        ("/api/v1/info", GET, get(reports::info)),
        ("/api/v1/status", GET, get(health::status)),
        ("/api/v1/reports", "GET, HEAD, POST, OPTIONS", list),
        (
            "/api/v1/reports/{name}",
            "GET, HEAD, DELETE, OPTIONS",
            report,
        ),
        ("/api/v1/reports/{name}/series", GET, get(series::read)),
        ("/api/v1/sources", GET, get(sources::list)),
        ("/api/v1/requests", GET, get(requests::list)),
        ("/api/v1/requests/{id}", GET, get(requests::read)),
        ("/api/v1/sql", "GET, HEAD, POST, OPTIONS", sql),
        ("/api/v1/stream/requests", GET, get(stream::read)),
        ("/api/v1/reset", "POST, OPTIONS", post(reports::reset)),
        ("/api/v1/openapi.json", GET, get(openapi::read)),
    ]
}

/// The service behind every connection.
pub(super) fn router(
    answers: Answers,
    settings: &HttpSettings,
    stopped: watch::Receiver<bool>,
) -> Router {
    let app = App::new(answers, settings, stopped);
    let checks = Checks {
        login: Login {
            access: settings.access.clone(),
            open_health: settings.open_health,
        },
        host_names: Arc::clone(&settings.host_names),
    };
    let mut router = Router::new();
    for (path, allow, methods) in endpoints().into_iter().chain(page::paths()) {
        let others =
            move |method: Method| async move { request_checks::other_method(&method, allow) };
        router = router.route(path, methods.fallback(others));
    }
    let router = router.fallback(nothing_here).with_state(app);
    // Around all of it, not around each path: a layer inside would let axum add `Allow` to a stranger's 401, and that
    // would tell which paths there are.
    Router::new()
        .fallback_service(router)
        .layer(axum::middleware::from_fn_with_state(
            checks,
            request_checks::around,
        ))
}

/// 404.
async fn nothing_here(uri: Uri) -> Problem {
    let path = uri.path();
    let detail = "GET /api/v1/openapi.json lists what there is";
    Problem::not_found(format!("there is nothing at {path:?}; {detail}"))
}

/// `/api/v1/sql` where there is none.
#[cfg(not(feature = "sql"))]
async fn no_sql() -> Problem {
    let how = "/api/v1/reports/{name} sorts and filters";
    let why = format!("this program was built without SQL (feature `sql`); {how}");
    Problem::new(axum::http::StatusCode::NOT_IMPLEMENTED, why)
}
