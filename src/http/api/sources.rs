//! `/api/v1/sources`: the senders of packets, the busiest first.
//!
//! Bounded by the rows in the table of the receivers (4,096), so the answer is written in one
//! piece.

use std::sync::Arc;

use axum::extract::State;
use serde_json::{Value as Json, json};

use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::Params;
use crate::input::udp::senders::Counts;

/// Senders listed by default.
const LIMIT_DEFAULT: usize = 100;

/// `GET /api/v1/sources`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, mut params: Params) -> Answer {
    let limit = params.count("limit", LIMIT_DEFAULT)?;
    params.finish()?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    let sources = app.query(move |source| {
        source.sources(limit).ok_or_else(|| {
            let how = "ingest.count_sources = true in the configuration does that";
            Problem::not_found(format!("sources are not counted; {how}"))
        })
    });
    let (list, other) = sources.await?;
    let list = list.into_iter().map(|source| {
        let mut object = counts(source.counts);
        object["address"] = source.address.to_string().into();
        object["silent_seconds"] = (source.silent_ms as f64 / 1000.0).into();
        object
    });
    ok(json!({"sources": list.collect::<Json>(), "other": counts(other)}))
}

fn counts(counts: Counts) -> Json {
    json!({
        "address": null,
        "datagrams": counts.datagrams,
        "bytes": counts.bytes,
        "refused": counts.refused,
    })
}
