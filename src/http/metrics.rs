//! `GET /metrics`: for Prometheus, in the format that it prefers.
//!
//! Written in one piece by a thread that may block; the budget of series bounds its length, and the gate of questions how
//! many are written at once.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::http::{HeaderValue, Response};

use super::error::Problem;
use super::params::Params;
use super::routes::App;
use crate::metrics::Format;

/// `GET /metrics`
pub(super) async fn read(
    State(app): State<App>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    // A header may stand there in several lines.
    let accept: Vec<&str> = request
        .headers()
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let accept = accept.join(",");
    let format = Format::accepted(Some(&accept));
    let status = app.status().await?;
    let metrics = app.metrics().clone();
    let text = app.ask(move |_| Ok(metrics.write(status, format))).await?;
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static(format.content_type()),
    );
    headers.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}
