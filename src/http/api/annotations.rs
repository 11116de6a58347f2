//! `/api/v1/annotations`: adds, lists and removes annotations of events such as deployments.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use serde_json::{Value as Json, json};

use super::requests::LIMIT_DEFAULT;
use crate::access::Pass;
use crate::http::answer::format::{Answer, created, ok};
use crate::http::answer::json::bare;
use crate::http::app::App;
use crate::http::error::Problem;
use crate::http::params::{self, NoParams, Params, Rounding};
use crate::http::request_checks::{JsonBody, members};
use crate::http::time_range::{END, Span};
use crate::query::error::QueryError;
use crate::state::StateError;
use crate::state::annotations::{ANNOTATION_BYTES_MAX, Annotation};

/// Most rows in an answer.
const LIMIT_MAX: usize = 1_000;

const EXAMPLE: &str = r#"{"text": "shop 2.4.1", "time": 1700000000, "tags": ["deploy"]}"#;

/// `GET /api/v1/annotations`
pub(in crate::http) async fn list(State(app): State<Arc<App>>, mut params: Params) -> Answer {
    let span = Span::take(&mut params);
    let tag = params.text("tag");
    let limit = params.rows(LIMIT_DEFAULT, LIMIT_MAX)?;
    params.finish()?;
    let body = app.query(move |source| {
        let (from, to) = span.ends(source.unix_ms())?;
        let mut found = source.annotations.within(&(from.unwrap_or(0)..=to.unwrap_or(u64::MAX)));
        found.retain(|it| tag.as_deref().is_none_or(|tag| it.tags().any(|of| of == tag)));
        let rows: Vec<Json> = found.iter().rev().take(limit).map(|it| row(it)).collect();
        Ok(json!({"total_rows": found.len(), "rows": rows}))
    });
    ok(body.await?)
}

/// `POST /api/v1/annotations`
pub(in crate::http) async fn create(
    State(app): State<Arc<App>>,
    _: NoParams,
    pass: Option<Extension<Pass>>,
    JsonBody(body): JsonBody,
) -> Answer {
    let author = pass.and_then(|Extension(pass)| pass.identity.name);
    let (time, mut made) = form(body)?;
    made.author = author.map(|name| name.to_string());
    let body = app.query(move |source| {
        made.time = time.unwrap_or_else(|| source.unix_ms() / 1_000);
        let annotations = &source.annotations;
        let mut row = row(&*annotations.add(made).map_err(not_kept)?);
        row["persistent"] = annotations.persistent().into();
        Ok(row)
    });
    created(body.await?)
}

/// `DELETE /api/v1/annotations/{id}`
pub(in crate::http) async fn remove(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    _: NoParams,
    _: JsonBody,
) -> Answer {
    let id = params::id(&id)?;
    let body = app.query(move |source| {
        let annotations = &source.annotations;
        match annotations.remove(id).map_err(not_kept)? {
            true => Ok(json!({"deleted": id, "persistent": annotations.persistent()})),
            false => Err(Problem::not_found(format!("there is no annotation {id}"))),
        }
    });
    ok(body.await?)
}

fn row(annotation: &Annotation) -> Json {
    let mut row = json!(annotation);
    row["tags"] = annotation.tags().collect();
    row
}

fn not_kept(error: StateError) -> Problem {
    let error = error.file_advised();
    tracing::error!(error, "Refused a change to the annotations, because it cannot be kept.");
    QueryError::NotKept(error).into()
}

/// Parses the body: an optional time, and the annotation.
fn form(body: Option<Json>) -> Result<(Option<u64>, Annotation), Problem> {
    let mut members = members(body, EXAMPLE)?;
    let text = match members.shift_remove("text") {
        Some(Json::String(text)) if !text.trim().is_empty() => text,
        Some(_) => return Err(Problem::parameter("text", "must be a text that is not empty")),
        None => return Err(Problem::parameter("text", format!("is missing; accepted: {EXAMPLE}"))),
    };
    let time = match members.shift_remove("time").unwrap_or_default() {
        Json::Null => None,
        given => {
            let time = params::moment(&bare(&given), Rounding::Down);
            let time = time.filter(|time| *time < END.unsigned_abs());
            Some(time.ok_or_else(|| {
                let accepted =
                    "unix seconds such as 1700000000, or RFC 3339 such as \"2023-11-14T22:13:20Z\"";
                Problem::parameter("time", format!("{given} is not accepted; accepted: {accepted}"))
            })?)
        }
    };
    let tags: Vec<String> = match members.shift_remove("tags").unwrap_or_default() {
        Json::Null => Vec::new(),
        given => {
            let is_tag = |tag: &String| !tag.is_empty() && !tag.contains(',');
            let tags = serde_json::from_value::<Vec<String>>(given).ok();
            let tags = tags.filter(|tags| tags.iter().all(is_tag));
            let why = "must be a list of texts that are not empty and have no commas";
            tags.ok_or_else(|| Problem::parameter("tags", why))?
        }
    };
    params::no_others(&members, &["text", "time", "tags"])?;
    let tags = tags.join(",");
    let bytes = text.len() + tags.len();
    if bytes > ANNOTATION_BYTES_MAX {
        let why =
            format!("has {bytes} bytes with its tags; accepted: up to {ANNOTATION_BYTES_MAX}");
        return Err(Problem::parameter("text", why));
    }
    Ok((time, Annotation { id: 0, time: 0, text, tags, author: None }))
}
