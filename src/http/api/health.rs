//! `/healthz`, `/readyz` and `/api/v1/status`: whether the daemon is up, whether it keeps up, and its counters.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value as Json;

use crate::http::answer::format::json;
use crate::http::app::{Answer, App};
use crate::http::error::Problem;
use crate::http::params::NoParams;
use crate::telemetry::reading;

/// `GET /healthz`: that this is answered says it all.
pub(in crate::http) async fn healthy(_: NoParams) -> Answer {
    Ok(json(StatusCode::OK, r#"{"status":"ok"}"#))
}

/// `GET /readyz`. Takes no permit: a busy daemon is ready.
pub(in crate::http) async fn ready(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let reasons = app.query_with(None, |source| Ok(source.unready()));
    let reasons = reasons.await?.join("; ");
    match reasons.is_empty() {
        true => Ok(json(StatusCode::OK, r#"{"status":"ready"}"#)),
        false => Err(Problem::busy(format!("not ready: {reasons}"))),
    }
}

/// `GET /api/v1/status`
pub(in crate::http) async fn status(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let status = Json::Object(reading::object(&app.status().await?));
    Ok(json(StatusCode::OK, status.to_string()))
}
