//! `/api/v1/sources`: who sends packets, the busiest first.
//!
//! At most as many as the table of the receivers has rows (4,096), so the answer is made in one piece.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde_json::{Value as Json, json};

use super::answer;
use super::error::Problem;
use super::params::Params;
use super::routes::App;
use crate::ingest::sources::Counts;

/// Sources that are listed unless `limit` says otherwise.
const LIMIT_DEFAULT: usize = 100;

/// `GET /api/v1/sources`
pub(super) async fn list(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let mut params = Params::parse(request.uri().query())?;
    let limit = match params.count("limit", LIMIT_DEFAULT)? {
        0 => usize::MAX,
        limit => limit,
    };
    params.finish()?;
    let body = app
        .ask(move |source| {
            let (list, other) = source.sources(limit).ok_or_else(|| {
                Problem::new(
                    StatusCode::NOT_FOUND,
                    "sources are not counted; ingest.count_sources = true in the configuration does that",
                )
            })?;
            let list: Vec<Json> = list
                .into_iter()
                .map(|source| {
                    let mut object = counts(source.counts);
                    object["address"] = json!(source.address.to_string());
                    object["silent_seconds"] = json!(source.silent_ms as f64 / 1000.0);
                    object
                })
                .collect();
            Ok(json!({"sources": list, "other": counts(other)}).to_string())
        })
        .await?;
    Ok(answer::json(StatusCode::OK, body.into_bytes()))
}

fn counts(counts: Counts) -> Json {
    json!({
        "address": null,
        "datagrams": counts.datagrams,
        "bytes": counts.bytes,
        "refused": counts.refused,
    })
}
