//! `GET /metrics`: for Prometheus, in the format that it prefers.
//!
//! Written in one piece by a thread that may block; the budget of series bounds its length, and the limit of short queries
//! how many are written at once.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Response};

use crate::http::app::{Answer, App};
use crate::http::params::NoParams;
use crate::metrics::Format;

/// `GET /metrics`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    _: NoParams,
    headers: HeaderMap,
) -> Answer {
    // A header may come in several lines.
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(Some(&accept.join(",")));
    let status = app.status().await?;
    let metrics = app.metrics.clone();
    let text = app
        .query(move |_| Ok(metrics.write(status, format)))
        .await?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    let media_type = HeaderValue::from_static(format.content_type());
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}
