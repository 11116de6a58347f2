//! `/api/v1/releases`: what ran, and what each release changed.

use std::sync::Arc;

use axum::extract::State;
use serde_json::json;

use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::params::NoParams;

/// `GET /api/v1/releases`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, _: NoParams) -> Answer {
    let body = app.query(|source| {
        let releases = &source.releases;
        Ok(json!({"tag": releases.tag(), "rows": releases.all()}))
    });
    ok(body.await?)
}
