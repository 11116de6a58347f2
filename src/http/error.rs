//! What a client is told when something went wrong: RFC 9457 `application/problem+json`.
//!
//! Every refusal of this front end, its own and those of the source, becomes a [`Problem`] here, and only here does a
//! [`QueryError`] get a status. The `detail` says what was wrong and what is accepted; where a list is accepted, the member
//! `accepted` holds it too, for programs. Defects of the daemon are logged in full and shown without their text.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use tracing::error;

use crate::query::error::QueryError;

/// The media type of every error.
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// What it will be sent with.
    pub(super) status: StatusCode,
    detail: String,
    /// The parameter or member that is to blame.
    parameter: Option<Box<str>>,
    /// What would be accepted in its place, when that is a list.
    accepted: Vec<String>,
    /// The methods that the path knows.
    allow: Option<&'static str>,
    /// MySQL's error number and SQLSTATE, for what is wrong with a statement.
    sql: Option<Box<(u16, &'static str)>>,
    /// Whether the answer asks for credentials.
    login: bool,
    /// Seconds after which asking again makes sense.
    retry_secs: Option<u64>,
}

/// What is asked for with every 401. The realm says nothing: whoever reads it is not in yet.
const CHALLENGES: [&str; 2] = [
    "Basic realm=\"restricted\", charset=\"UTF-8\"",
    "Bearer realm=\"restricted\"",
];

impl Problem {
    /// A refusal with nothing but a status and a reason.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            parameter: None,
            accepted: Vec::new(),
            allow: None,
            sql: None,
            login: false,
            retry_secs: None,
        }
    }

    /// 401: no credentials, or none that are right.
    pub(super) fn login(detail: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, detail);
        problem.login = true;
        problem
    }

    /// Says when asking again makes sense.
    pub(super) fn retry_after(mut self, secs: u64) -> Self {
        self.retry_secs = Some(secs);
        self
    }

    /// 400: this parameter or member cannot be used.
    pub(super) fn parameter(name: &str, why: impl AsRef<str>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, format!("{name}: {}", why.as_ref()));
        problem.parameter = Some(name.into());
        problem
    }

    /// 503: too much at once.
    pub(super) fn busy(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(1)
    }

    /// 405: the path is right, the method is not.
    pub(super) fn method(method: &str, allow: &'static str) -> Self {
        let mut problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{method} is not possible here; accepted: {allow}"),
        );
        problem.allow = Some(allow);
        problem
    }

    /// Adds what would be accepted, to the text and as a list.
    pub(super) fn accepting<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.accepted = names.into_iter().map(Into::into).collect();
        self.detail.push_str("; accepted: ");
        self.detail.push_str(&self.accepted.join(", "));
        self
    }

    /// Adds MySQL's error number and SQLSTATE.
    #[cfg(feature = "sql")]
    pub(super) fn with_sql(mut self, code: u16, state: &'static str) -> Self {
        self.sql = Some(Box::new((code, state)));
        self
    }

    /// What was wrong, and what would be accepted.
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// What would be accepted in its place.
    pub(super) fn accepted(&self) -> &[String] {
        &self.accepted
    }

    /// The body as it will be sent.
    pub(super) fn body(&self) -> String {
        let mut body = Map::new();
        body.insert("type".into(), json!("about:blank"));
        let title = self.status.canonical_reason().unwrap_or("Error");
        body.insert("title".into(), json!(title));
        body.insert("status".into(), json!(self.status.as_u16()));
        body.insert("detail".into(), json!(self.detail));
        if let Some(parameter) = &self.parameter {
            body.insert("parameter".into(), json!(parameter));
        }
        if let Some((code, state)) = self.sql.as_deref() {
            body.insert("code".into(), json!(code));
            body.insert("sqlstate".into(), json!(state));
        }
        if !self.accepted.is_empty() {
            body.insert("accepted".into(), json!(self.accepted));
        }
        format!("{}\n", Value::Object(body))
    }
}

impl From<QueryError> for Problem {
    fn from(error: QueryError) -> Self {
        let detail = error.to_string();
        match error {
            QueryError::UnknownReport { .. } => Self::new(
                StatusCode::NOT_FOUND,
                format!("{detail}; GET /api/v1/reports lists those that there are"),
            ),
            QueryError::UnknownRequest { .. } | QueryError::RawDataOff => {
                Self::new(StatusCode::NOT_FOUND, detail)
            }
            QueryError::BadValue { what, why } => Self::parameter(&what, why),
            QueryError::ReportExists { .. }
            | QueryError::ReportFixed { .. }
            | QueryError::LimitReached(_) => Self::new(StatusCode::CONFLICT, detail),
            QueryError::NotKept(_) => Self::new(StatusCode::INSUFFICIENT_STORAGE, detail),
            QueryError::Busy(_) | QueryError::SnapshotExpired => Self::busy(detail),
            QueryError::Internal(cause) => {
                error!(cause, "A query failed inside the daemon.");
                Self::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "the daemon failed to answer; its log says why",
                )
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let body = self.body();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(secs) = self.retry_secs {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        if self.login {
            for challenge in CHALLENGES {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
            }
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_error_has_a_status_and_keeps_its_text() {
        let text = String::from("x");
        let cases = [
            (
                QueryError::UnknownReport { name: text.clone() },
                404,
                "/api/v1/reports",
            ),
            (QueryError::UnknownRequest { id: 7 }, 404, "request 7"),
            (QueryError::RawDataOff, 404, "request_pool_size"),
            (
                QueryError::bad_value("keys[1]", "is odd"),
                400,
                "keys[1]: is odd",
            ),
            (
                QueryError::ReportExists {
                    name: text.clone(),
                    defined: "built-in".into(),
                },
                409,
                "built-in",
            ),
            (
                QueryError::ReportFixed {
                    name: text.clone(),
                    reason: "why".into(),
                },
                409,
                "why",
            ),
            (QueryError::LimitReached("full".into()), 409, "full"),
            (QueryError::NotKept("no space".into()), 507, "no space"),
            (QueryError::Busy("later".into()), 503, "later"),
            (QueryError::SnapshotExpired, 503, "snapshot expired"),
        ];
        for (error, status, part) in cases {
            let problem = Problem::from(error);
            assert_eq!(problem.status.as_u16(), status, "{problem:?}");
            assert!(problem.detail.contains(part), "{problem:?}");
        }
    }

    #[test]
    fn what_went_wrong_inside_is_not_shown() {
        let problem = Problem::from(QueryError::Internal("the secret".into()));
        assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!problem.body().contains("secret"));
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
