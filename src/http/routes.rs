//! Maps paths to handlers.
//!
//! [`endpoints`] and the pages' list are the only lists of paths: the router is built from them,
//! and a test compares the OpenAPI document with them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use axum::response::IntoResponse as _;
use axum::routing::{delete, get, post};
use tokio::sync::watch;

use super::api::{
    alerts, annotations, changes, health, heatmap, imports, metrics, openapi, profile, releases,
    reports, requests, series, sources, sql, stream, test_packet,
};
use super::app::{App, Endpoint};
use super::auth::{ANNOTATIONS, REPLAY, SILENCES};
use super::error::{Problem, with_clause};
use super::measured;
use super::page;
use super::request_checks;
use super::settings::HttpSettings;
use crate::config::suggest;
use crate::query::catalog::Catalog;
use crate::sql::Engine;

/// The endpoints for programs.
pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        ("/", page::overview()),
        ("/healthz", get(health::healthy)),
        ("/readyz", get(health::ready)),
        ("/metrics", get(metrics::read)),
        ("/api/v1/info", get(reports::info)),
        ("/api/v1/status", get(health::status)),
        ("/api/v1/reports", get(reports::list).post(reports::create)),
        ("/api/v1/reports/{name}", get(reports::read).delete(reports::drop_one)),
        ("/api/v1/reports/{name}/series", get(series::read)),
        ("/api/v1/reports/{name}/heatmap", get(heatmap::get)),
        (ANNOTATIONS, get(annotations::list).post(annotations::create)),
        ("/api/v1/annotations/{id}", delete(annotations::remove)),
        ("/api/v1/alerts", get(alerts::list)),
        ("/api/v1/slos", get(alerts::slos)),
        ("/api/v1/slo", get(alerts::slos)),
        (REPLAY, get(alerts::replay).post(alerts::replay_given)),
        (SILENCES, get(alerts::silences).post(alerts::silence)),
        ("/api/v1/silences/{id}", delete(alerts::end_silence)),
        ("/api/v1/changes", get(changes::read)),
        ("/api/v1/releases", get(releases::list)),
        ("/api/v1/sources", get(sources::list)),
        ("/api/v1/profile", get(profile::read)),
        ("/api/v1/requests", get(requests::list)),
        ("/api/v1/requests/{id}", get(requests::read)),
        ("/api/v1/sql", get(sql::query).post(sql::run)),
        ("/api/v1/stream/requests", get(stream::read)),
        ("/api/v1/stream/samples", get(stream::samples)),
        ("/api/v1/import", post(imports::import)),
        ("/api/v1/reset", post(reports::reset)),
        ("/api/v1/test-packet", post(test_packet::send)),
        ("/api/v1/openapi.json", get(openapi::read)),
    ]
}

/// The service behind every connection.
pub(super) fn router(
    answers: (Arc<Catalog>, Option<Engine>),
    settings: &HttpSettings,
    stopped: watch::Receiver<bool>,
) -> Router {
    let app = App::new(answers, settings, stopped);
    let mut router = Router::new();
    for (path, methods) in endpoints().into_iter().chain(page::paths()) {
        router = router.route(path, measured::route(path, methods));
    }
    let router = router.fallback(nothing_here).with_state(Arc::clone(&app));
    // Around everything, not around each path: a layer inside would let axum add `Allow` to a
    // stranger's 401, which would reveal which paths exist.
    Router::new()
        .fallback_service(router)
        .layer(axum::middleware::from_fn_with_state(app, request_checks::around))
}

/// 404.
async fn nothing_here(State(app): State<Arc<App>>, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path();
    if page::render::is_wanted(&headers) && !path.starts_with("/api/") {
        return page::render::not_found(&app, path, &headers);
    }
    let paths = endpoints().into_iter().chain(page::paths()).map(|(path, _)| path);
    let paths: Vec<_> = paths.collect();
    let nothing = format!("there is nothing at {path:?}{}", suggest::question(path, paths));
    let listed = " GET /api/v1/openapi.json lists what there is";
    Problem::not_found(with_clause(&nothing, listed)).into_response()
}
