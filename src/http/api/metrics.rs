//! `GET /metrics`: for Prometheus, in the format that it prefers.
//!
//! Written in one piece on a thread that may block; the budget of series bounds its length, and the
//! limit of short queries how many are written at once.

use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::IntoResponse as _;

use crate::http::answer::format::{Answer, weighted};
use crate::http::app::App;
use crate::http::params::NoParams;
use crate::metrics::Format;
use crate::metrics::exemplars;

/// `GET /metrics`
pub(in crate::http) async fn read(
    State(app): State<Arc<App>>,
    _: NoParams,
    headers: HeaderMap,
) -> Answer {
    let format = preferred(&headers);
    let status = app.status().await?;
    let metrics = app.settings.metrics.clone();
    let text = app
        .query(move |source| {
            let traced = match format {
                Format::OpenMetrics => exemplars::newest(&source.live, &source.clock),
                Format::Classic => Vec::new(),
            };
            Ok(metrics.write(status, format, traced))
        })
        .await?;
    let headers = [(CONTENT_TYPE, format.content_type()), (VARY, "accept")];
    Ok((headers, text).into_response())
}

/// The format that `Accept` prefers; the classic one by default.
fn preferred(headers: &HeaderMap) -> Format {
    let weight = |wanted: &str| {
        let all = weighted(headers, ACCEPT).into_iter().filter(|(name, _)| name == wanted);
        all.map(|(_, weight)| weight).fold(0.0, f32::max)
    };
    match weight("application/openmetrics-text") > weight("text/plain") {
        true => Format::OpenMetrics,
        false => Format::Classic,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_liked_best() {
        let of = |accept: &'static str| {
            let accept = (ACCEPT, HeaderValue::from_static(accept));
            preferred(&HeaderMap::from_iter([accept]))
        };
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(of(prometheus), Format::OpenMetrics);
        for classic in [
            "",
            "*/*",
            "text/plain",
            "text/html,application/xml;q=0.9,*/*;q=0.8",
            "text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.2",
            "application/openmetrics-text;q=0",
        ] {
            assert_eq!(of(classic), Format::Classic, "{classic}");
        }
        assert_eq!(preferred(&HeaderMap::new()), Format::Classic);
    }
}
