//! RFC 9457 `application/problem+json`: the form of every error.
//!
//! Errors of this front end and of the read model become a [`Problem`] here, the only place where a
//! [`QueryError`] gets a status. The `detail` says what was wrong and what is accepted; a list of
//! accepted values is also in the member `accepted`, for programs. Defects of the daemon are logged
//! in full and shown without their text.

use std::fmt::Display;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value};

use crate::config::suggest;
use crate::query::error::QueryError;

/// Where clients find the names of reports.
const LISTED: &str = " GET /api/v1/reports lists those that there are";

/// The media type of every error.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// An error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    document: Map<String, Value>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Sent with every 401. The realm reveals nothing, since its reader has not logged in yet.
const CHALLENGES: [&str; 2] =
    ["Basic realm=\"restricted\", charset=\"UTF-8\"", "Bearer realm=\"restricted\""];

impl Problem {
    /// An error with just a status and a reason.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, document: Map::new(), headers: Vec::new() }
            .with("type", "about:blank")
            .with("title", status.canonical_reason().unwrap_or("Error"))
            .with("status", status.as_u16())
            .with("detail", detail.into())
    }

    /// Adds or replaces a member of the document.
    pub(super) fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.document.insert(member.to_owned(), value.into());
        self
    }

    fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// 401: no credentials, or wrong ones.
    pub(super) fn login(detail: impl Into<String>) -> Self {
        let [basic, bearer] = CHALLENGES.map(HeaderValue::from_static);
        let problem = Self::new(StatusCode::UNAUTHORIZED, detail);
        problem.header(WWW_AUTHENTICATE, basic).header(WWW_AUTHENTICATE, bearer)
    }

    /// Sets the seconds after which a retry makes sense.
    pub(super) fn retry_after(self, secs: u64) -> Self {
        self.header(RETRY_AFTER, secs)
    }

    /// 400.
    pub(super) fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 400: an unusable parameter or member.
    pub(super) fn parameter(name: &str, why: impl Display) -> Self {
        Self::bad(format!("{name}: {why}")).with("parameter", name)
    }

    /// 400: a text that is not among those that a parameter takes.
    pub(super) fn refused(name: &str, text: &str, accepted: &str) -> Self {
        Self::parameter(name, format!("{text:?} is not accepted; accepted: {accepted}"))
    }

    /// The same of a few names: asks for the one that may be meant, and lists all.
    pub(super) fn none_of<'a>(
        name: &str,
        why: impl Display,
        given: &str,
        names: impl IntoIterator<Item = &'a str> + Clone,
    ) -> Self {
        let question = suggest::question(given, names.clone());
        Self::parameter(name, format!("{why}{question}")).accepting(names)
    }

    /// 404.
    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 500: a defect, described in the log.
    pub(super) fn internal() -> Self {
        let detail = "the daemon failed to answer; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, detail)
    }

    /// 503: too many at once.
    pub(super) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1)
    }

    /// 405: the path is right, the method is not.
    pub(super) fn method(method: &Method, allow: &str) -> Self {
        let detail = format!("{method} is not possible here; accepted: {allow}");
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, detail);
        problem.header(ALLOW, HeaderValue::from_str(allow).expect("names of methods"))
    }

    /// Adds the accepted values, to the text and as a list.
    pub(super) fn accepting<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let detail = with_clause(self.detail(), &format!(" accepted: {}", names.join(", ")));
        self.with("detail", detail).with("accepted", names)
    }

    /// The problem, and what is accepted.
    pub(super) fn detail(&self) -> &str {
        self.document["detail"].as_str().unwrap_or_default()
    }

    /// The detail for readers of pages, without the part for programs.
    pub(super) fn detail_for_pages(&self) -> &str {
        let detail = self.detail();
        detail.strip_suffix(LISTED).map_or(detail, |detail| detail.trim_end_matches(';'))
    }

    /// The body as sent.
    pub(super) fn body(&self) -> String {
        format!("{}\n", Value::Object(self.document.clone()))
    }
}

/// Adds a clause to a text; a question has its own mark.
pub(super) fn with_clause(text: &str, clause: &str) -> String {
    let mark = if text.ends_with('?') { "" } else { ";" };
    format!("{text}{mark}{clause}")
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = error.to_string();
        match error {
            QueryError::UnknownReport { .. } => Self::not_found(with_clause(&detail, LISTED)),
            QueryError::UnknownRequest { .. }
            | QueryError::UnknownPastRequest { .. }
            | QueryError::RawDataOff
            | QueryError::NoHistory(_) => Self::not_found(detail),
            QueryError::BadValue { what, why } => Self::parameter(&what, why),
            QueryError::ReportExists { .. }
            | QueryError::ReportFixed { .. }
            | QueryError::LimitReached(_) => Self::new(StatusCode::CONFLICT, detail),
            QueryError::NotKept(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, detail),
            QueryError::Busy(_) => Self::busy(detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        for (name, value) in self.headers {
            headers.append(name, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_query_error_has_a_status_and_keeps_its_text() {
        let text = String::from("x");
        let cases = cases![
            QueryError::unknown_report(&text) => 404, "/api/v1/reports";
            QueryError::UnknownRequest { id: 7 } => 404, "request 7";
            QueryError::UnknownPastRequest { run: 3, id: 7 } => 404, "request 7 of run 3";
            QueryError::RawDataOff => 404, "request_pool_size";
            QueryError::no_history() => 404, "no history";
            QueryError::bad_value("keys[1]", "is odd") => 400, "keys[1]: is odd";
            QueryError::ReportExists { name: text.clone(), defined: "built-in".into() } => 409,
                "built-in";
            QueryError::ReportFixed { name: text.clone(), reason: "why".into() } => 409, "why";
            QueryError::LimitReached("full".into()) => 409, "full";
            QueryError::NotKept("no space".into()) => 507, "no space";
            QueryError::Busy("later".into()) => 503, "later";
        ];
        for (error, status, part) in cases {
            let problem = Problem::from(error);
            assert_eq!(problem.status.as_u16(), status, "{problem:?}");
            assert!(problem.detail().contains(part), "{problem:?}");
            let response = problem.into_response();
            let later = response.headers().get("retry-after");
            assert_eq!(later.is_some(), status == 503, "{response:?}");
        }
    }

    #[test]
    fn the_body_has_the_members_of_the_rfc() {
        let problem = Problem::parameter("limit", "\"x\" is no number").accepting(["0", "1"]);
        let body: Value = serde_json::from_str(&problem.body()).unwrap();
        assert_eq!(
            body,
            json!({"type": "about:blank", "title": "Bad Request", "status": 400,
                "detail": "limit: \"x\" is no number; accepted: 0, 1",
                "parameter": "limit", "accepted": ["0", "1"]})
        );
    }
}
