//! `/healthz`, `/readyz` and `/api/v1/status`: whether the daemon is up and keeps up, and its
//! counters.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value as Json, json};

use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::NoParams;
use crate::telemetry::reading;

/// `GET /healthz`: any answer means that the daemon is up.
pub(in crate::http) async fn healthy(_: NoParams) -> Answer {
    ok(r#"{"status":"ok"}"#)
}

/// `GET /readyz`. Needs no permit, since a busy daemon is ready. So is one that receives but cannot
/// keep history, as its detail says.
pub(in crate::http) async fn ready(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let found = app.query_with(None, |source| Ok((source.unready(), source.warnings())));
    let (reasons, detail) = found.await?;
    let (reasons, detail) = (reasons.join("; "), detail.join("; "));
    match reasons.is_empty() {
        true if detail.is_empty() => ok(r#"{"status":"ready"}"#),
        true => ok(json!({"status": "ready", "detail": detail})),
        false => Err(Problem::busy(format!("not ready: {reasons}"))),
    }
}

/// `GET /api/v1/status`
pub(in crate::http) async fn status(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    ok(Json::Object(reading::object(&app.status().await?)))
}
