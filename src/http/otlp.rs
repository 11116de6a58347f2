//! OTLP over HTTP: receives bodies with spans for an `[[otlp_input]]` entry.
//!
//! Connections, TLS and logins are those of the HTTP side; every user may send. This module has the
//! rules of the protocol: which requests are accepted, how bodies are compressed, and how answers
//! are encoded. A web page cannot send spans, whatever host it pretends to be: browsers add
//! `Origin` to what pages post. `Host` may be any: containers are called by their names. The bodies
//! being received are bounded in bytes and decoded on the I/O thread.

use std::io::Read as _;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE, ORIGIN};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::read::MultiGzDecoder;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::warn;

use super::auth;
use super::error::Problem;
use super::request_checks::{self, announced, header, is_of_type, receive};
use super::settings::HttpSettings;
use crate::input::otlp::messages::{PartialSuccess, Response as Success, Status};
use crate::input::otlp::{BODIES_BYTES_MAX, BodyRefusal, Form, Source};
use crate::limits::{OTLP_BODY_BYTES_MAX, OTLP_UNPACKED_BYTES_MAX};

/// Media types of bodies and their answers.
const FORMS: [(&str, Form); 2] =
    [("application/x-protobuf", Form::Protobuf), ("application/json", Form::Json)];

/// Unit in which bodies being received are accounted, bytes.
const PIECE_BYTES: usize = 4 << 10;

/// Largest size of a small body, bytes.
const SMALL_BYTES: usize = 64 << 10;

/// What a sender of other signals is told.
const OTHER_SIGNALS: &str =
    "only traces are taken here: set OTEL_METRICS_EXPORTER=none and OTEL_LOGS_EXPORTER=none";

/// Longest description of what is wrong with a body, which may quote it, in characters.
const PROBLEM_CHARS_MAX: usize = 200;

/// State shared by all requests.
struct Intake {
    source: Arc<Source>,
    settings: HttpSettings,
    /// Units of bodies that may be received now: of small ones, and of others, which slow senders
    /// hold up.
    pieces: [Semaphore; 2],
}

/// Why a request is refused: what is counted, and what the sender is told.
type Refused = (BodyRefusal, Problem);

/// Builds the router of an input.
pub(super) fn router(source: Arc<Source>, settings: &HttpSettings) -> Router {
    let pieces = [(); 2].map(|()| Semaphore::new(BODIES_BYTES_MAX / 2 / PIECE_BYTES));
    let intake = Intake { source, settings: settings.clone(), pieces };
    Router::new().fallback(answer).with_state(Arc::new(intake))
}

async fn answer(State(intake): State<Arc<Intake>>, request: Request) -> Response {
    intake.source.counters.bodies_received.add(1);
    let named = FORMS.into_iter().find(|it| is_of_type(request.headers(), it.0));
    // Who names no form at all is a person with a browser or curl.
    let is_person = !request.headers().contains_key(CONTENT_TYPE);
    let (media_type, form) = named.unwrap_or(FORMS[usize::from(is_person)]);
    let mut response = match intake.take(request, named.map(|it| it.1)).await {
        Ok(partial_success) => form.encode(&Success { partial_success }).into_response(),
        Err((reason, problem)) => {
            let refused = &intake.source.counters.bodies_refused;
            // Most exporters show the status alone.
            if refused.get()[reason as usize] == 0 {
                let (listen, problem) = (intake.source.config.listen, problem.detail());
                let problem = format!("{problem:.PROBLEM_CHARS_MAX$}");
                warn!(%listen, reason = reason.name(), problem, "Refused a body of spans: the first for this reason.");
            }
            refused.add_one(reason as usize);
            let (code, message) = (code(problem.status), problem.detail().to_owned());
            let headers: HeaderMap = problem.headers.into_iter().collect();
            (problem.status, headers, form.encode(&Status { code, message })).into_response()
        }
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request_checks::protect(response.headers_mut());
    response
}

/// Returns the gRPC code of a status.
const fn code(status: StatusCode) -> i32 {
    match status {
        StatusCode::UNAUTHORIZED => 16,
        StatusCode::FORBIDDEN => 7,
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => 12,
        StatusCode::PAYLOAD_TOO_LARGE => 8,
        StatusCode::SERVICE_UNAVAILABLE => 14,
        _ => 3,
    }
}

impl Intake {
    async fn take(
        &self,
        request: Request,
        form: Option<Form>,
    ) -> Result<Option<PartialSuccess>, Refused> {
        let pass = auth::identify(&self.settings, &request);
        let pass = pass.map_err(|problem| (BodyRefusal::Unauthorized, problem))?;
        let (head, body) = request.into_parts();
        if head.headers.contains_key(ORIGIN) {
            let why = "requests of web pages, with the header origin, are not accepted";
            return Err((BodyRefusal::CrossOrigin, Problem::new(StatusCode::FORBIDDEN, why)));
        }
        let path = head.uri.path();
        if path != "/v1/traces" {
            let why = match path {
                "/v1/metrics" | "/v1/logs" => OTHER_SIGNALS.to_owned(),
                _ => format!("there is nothing at {path:?}; accepted: /v1/traces"),
            };
            return Err((BodyRefusal::NotTraces, Problem::not_found(why)));
        }
        if head.method != Method::POST {
            return Err((BodyRefusal::Method, Problem::method(&head.method, "POST")));
        }
        let media_type = |what: &str| {
            let [(protobuf, _), (json, _)] = FORMS;
            let why = format!("{what}; accepted: {protobuf} or {json}, as it is or as gzip");
            (BodyRefusal::MediaType, Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
        };
        let form = form.ok_or_else(|| media_type("the header content-type names another form"))?;
        let packing = header(&head.headers, CONTENT_ENCODING).unwrap_or_default();
        let is_packed = match &*packing.to_ascii_lowercase() {
            "" | "identity" => false,
            "gzip" | "x-gzip" => true,
            _ => return Err(media_type("the header content-encoding names another packing")),
        };
        // Waits for others to end if too many bytes are being received.
        let most = announced(&head.headers).unwrap_or(OTLP_BODY_BYTES_MAX).min(OTLP_BODY_BYTES_MAX);
        let patience = self.settings.body_max;
        let bad = |reason, why: &str| (reason, Problem::bad(why));
        let broken_off = || bad(BodyRefusal::BrokenOff, "the body did not arrive");
        let pieces = &self.pieces[usize::from(most > SMALL_BYTES)];
        let pieces = pieces.acquire_many(most.div_ceil(PIECE_BYTES) as u32);
        let _pieces = timeout(patience, pieces).await.map_err(|_| broken_off())?;
        let received = receive(&head.headers, body, OTLP_BODY_BYTES_MAX, patience).await;
        let received = received.map_err(|problem| match problem.status {
            StatusCode::PAYLOAD_TOO_LARGE => (BodyRefusal::TooLarge, problem),
            _ => broken_off(),
        })?;
        self.source.counters.bytes_received.add(received.len() as u64);
        let body = if is_packed { unpack(&received)? } else { received };
        self.source.take(&body, form, pass.peer).map_err(|(reason, problem)| {
            if reason == BodyRefusal::Stopping {
                return (reason, Problem::busy("the daemon ends"));
            }
            let problem = format!("{}, {problem:.PROBLEM_CHARS_MAX$}", reason.name());
            bad(reason, &format!("the body cannot be read: {problem}"))
        })
    }
}

/// Decompresses a body up to the accepted size.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut unpacked = Vec::new();
    let most = OTLP_UNPACKED_BYTES_MAX as u64 + 1;
    if MultiGzDecoder::new(packed).take(most).read_to_end(&mut unpacked).is_err() {
        return Err((BodyRefusal::BadGzip, Problem::bad("the body is not gzip")));
    }
    if unpacked.len() > OTLP_UNPACKED_BYTES_MAX {
        let most = OTLP_UNPACKED_BYTES_MAX;
        let why = format!("the body is too large unpacked; accepted: {most} bytes");
        return Err((BodyRefusal::TooLarge, Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)));
    }
    Ok(unpacked)
}
