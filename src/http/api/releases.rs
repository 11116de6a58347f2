//! `/api/v1/releases`: what ran, and what each release changed.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

use crate::http::answer::format;
use crate::http::app::{Answer, App};
use crate::http::params::NoParams;
use crate::release::Release;

/// `GET /api/v1/releases`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let body = app.query(|source| {
        let releases = source.releases();
        let rows: Vec<Json> = releases.all().iter().map(row).collect();
        Ok(json!({"tag": releases.tag(), "rows": rows}))
    });
    Ok(format::json(StatusCode::OK, body.await?.to_string()))
}

fn row(release: &Release) -> Json {
    json!({
        "release": release.name,
        "first_seen": release.first_seen,
        "last_seen": release.last_seen,
        "share": release.share(),
        "requests": release.requests,
        "requests_per_second": release.rate(),
        "errors": release.errors,
        "p50": release.quantile(50.0),
        "p95": release.quantile(95.0),
        "cpu": release.cpu(),
        "memory": release.memory(),
        "verdict": release.verdict,
    })
}
