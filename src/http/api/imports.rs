//! `/api/v1/import`: imports log lines into the minutes that they name.

use std::sync::Arc;

use axum::extract::{Request, State};

use crate::http::answer::format::{Answer, ok};
use crate::http::app::App;
use crate::http::params::Params;
use crate::http::request_checks;
use crate::limits::LOG_PIECE_BYTES_MAX;

/// The media type of lines: one that a page of another site cannot send.
const MEDIA_TYPE: &str = "application/octet-stream";

/// `POST /api/v1/import`
pub(in crate::http) async fn import(
    State(app): State<Arc<App>>,
    mut params: Params,
    request: Request,
) -> Answer {
    let accepted = "the hostname of the requests, 1 to 255 bytes";
    let name = params.parsed("name", accepted, |name| {
        (1..=255).contains(&name.len()).then(|| name.to_owned())
    })?;
    let covered_to = params.number("covered_to")?;
    params.finish()?;
    // One at a time, and before anything is in memory.
    let permit = app.imports.enter().await?;
    let lines = request_checks::body(request, &app, MEDIA_TYPE, LOG_PIECE_BYTES_MAX).await?;
    let import = app
        .query_with(Some(permit), move |source| Ok(source.import_log(&lines, name, covered_to)?));
    ok(import.await?)
}
