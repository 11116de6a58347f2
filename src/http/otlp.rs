//! OTLP over HTTP: receives bodies with spans for an `[[otlp_input]]` entry.
//!
//! Connections, TLS and logins are those of the HTTP side; every user may send. This module has the
//! rules of the protocol: which requests are accepted, how bodies are compressed, and how answers
//! are encoded. A web page of another site cannot send spans: browsers first ask whether they may
//! send such a content type, and get no permission. The bodies being received are bounded in bytes
//! and decoded on the two I/O threads.

use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, RETRY_AFTER,
};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::read::MultiGzDecoder;
use futures::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::auth::{self, Peer};
use super::request_checks;
use super::settings::HttpSettings;
use crate::input::otlp::messages::{PartialSuccess, Response as Success, Status};
use crate::input::otlp::{BODIES_BYTES_MAX, BodyRefusal, Form, Source};
use crate::limits::{OTLP_BODY_BYTES_MAX, OTLP_UNPACKED_BYTES_MAX};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// Unit in which bodies being received are accounted, bytes.
const PIECE_BYTES: usize = 4 << 10;

/// Largest buffer that is kept for the next body, bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Longest description of what is wrong with a body, which may quote it, in characters.
const PROBLEM_CHARS_MAX: usize = 200;

/// State shared by all requests.
struct Intake {
    source: Arc<Source>,
    settings: HttpSettings,
    /// Units of bodies that may be received now.
    pieces: Semaphore,
    /// The buffer of the last body, for the next one.
    buffer: Mutex<Vec<u8>>,
}

/// A refused request.
struct Refused {
    reason: BodyRefusal,
    detail: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refused {
    fn new(reason: BodyRefusal, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into(), headers: Vec::new() }
    }

    fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }
}

/// Returns the HTTP status and the gRPC code of a reason.
const fn codes(reason: BodyRefusal) -> (StatusCode, i32) {
    match reason {
        BodyRefusal::Unauthorized => (StatusCode::UNAUTHORIZED, 16),
        BodyRefusal::NotTraces => (StatusCode::NOT_FOUND, 12),
        BodyRefusal::Method => (StatusCode::METHOD_NOT_ALLOWED, 12),
        BodyRefusal::MediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, 3),
        BodyRefusal::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, 8),
        BodyRefusal::BrokenOff
        | BodyRefusal::BadGzip
        | BodyRefusal::BadProtobuf
        | BodyRefusal::BadJson => (StatusCode::BAD_REQUEST, 3),
        BodyRefusal::Stopping => (StatusCode::SERVICE_UNAVAILABLE, 14),
    }
}

/// Builds the router of an input.
pub(super) fn router(source: Arc<Source>, settings: &HttpSettings) -> Router {
    let intake = Intake {
        source,
        settings: settings.clone(),
        pieces: Semaphore::new(BODIES_BYTES_MAX / PIECE_BYTES),
        buffer: Mutex::default(),
    };
    Router::new().fallback(answer).with_state(Arc::new(intake))
}

async fn answer(State(intake): State<Arc<Intake>>, request: Request) -> Response {
    intake.source.counters.bodies_received.add(1);
    let (head, body) = request.into_parts();
    let form = form(&head);
    let taken = intake.take(head, body, form).await;
    let form = form.unwrap_or(Form::Protobuf);
    let (status, body, headers) = match taken {
        Ok(partial_success) => {
            (StatusCode::OK, form.encode(&Success { partial_success }), Vec::new())
        }
        Err(refused) => {
            intake.source.refuse(refused.reason);
            let (status, code) = codes(refused.reason);
            let body = form.encode(&Status { code, message: refused.detail });
            (status, body, refused.headers)
        }
    };
    let mut response = (status, Body::from(body)).into_response();
    let media_type = match form {
        Form::Protobuf => PROTOBUF,
        Form::Json => JSON,
    };
    response.headers_mut().extend(headers);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request_checks::protect(response.headers_mut());
    response
}

fn header(head: &Parts, name: HeaderName) -> &str {
    let value = head.headers.get(name).and_then(|it| it.to_str().ok());
    value.unwrap_or_default().trim()
}

/// Returns the encoding that the headers declare.
fn form(head: &Parts) -> Option<Form> {
    let given = header(head, CONTENT_TYPE).split(';').next();
    let given = given.unwrap_or_default().trim();
    let mut forms = [(PROTOBUF, Form::Protobuf), (JSON, Form::Json)].into_iter();
    forms.find_map(|(name, form)| given.eq_ignore_ascii_case(name).then_some(form))
}

impl Intake {
    async fn take(
        &self,
        head: Parts,
        body: Body,
        form: Option<Form>,
    ) -> Result<Option<PartialSuccess>, Refused> {
        let head = Request::from_parts(head, ());
        if let Err(problem) = auth::identify(&self.settings, &head) {
            let mut refused = Refused::new(BodyRefusal::Unauthorized, problem.detail());
            refused.headers = problem.headers;
            return Err(refused);
        }
        let (head, ()) = head.into_parts();
        let sender = head.extensions.get::<Peer>().map(|peer| peer.0.ip());
        let sender = sender.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        match head.uri.path() {
            "/v1/traces" => {}
            "/v1/metrics" | "/v1/logs" => {
                let why = "only traces are taken here: set OTEL_METRICS_EXPORTER=none and OTEL_LOGS_EXPORTER=none";
                return Err(Refused::new(BodyRefusal::NotTraces, why));
            }
            path => {
                let why = format!("there is nothing at {path:?}; accepted: /v1/traces");
                return Err(Refused::new(BodyRefusal::NotTraces, why));
            }
        }
        if head.method != Method::POST {
            let why = format!("{} is not possible here; accepted: POST", head.method);
            return Err(Refused::new(BodyRefusal::Method, why).with(ALLOW, "POST"));
        }
        let media_type = |what: &str| {
            let why = format!("{what}; accepted: {PROTOBUF} or {JSON}, as it is or as gzip");
            Refused::new(BodyRefusal::MediaType, why)
        };
        let form = form.ok_or_else(|| media_type("the header content-type names another form"))?;
        let is_packed = match header(&head, CONTENT_ENCODING) {
            "" | "identity" => false,
            "gzip" => true,
            _ => {
                let what = "the header content-encoding names another packing";
                return Err(media_type(what));
            }
        };
        let announced = header(&head, CONTENT_LENGTH).parse().ok();
        let (_pieces, mut bytes) = self.receive(body, announced).await?;
        let unpacked = match is_packed {
            true => Some(unpack(&bytes)?),
            false => None,
        };
        let content = unpacked.as_deref().unwrap_or(&bytes);
        let taken = self.source.take(content, form, sender);
        if bytes.capacity() <= BUFFER_BYTES_MAX {
            bytes.clear();
            *self.buffer.lock() = bytes;
        }
        taken.map_err(|(reason, problem)| {
            if reason == BodyRefusal::Stopping {
                return Refused::new(reason, "the daemon ends").with(RETRY_AFTER, "1");
            }
            let problem: String = problem.chars().take(PROBLEM_CHARS_MAX).collect();
            let comma = if problem.is_empty() { "" } else { ", " };
            let why = format!("the body cannot be read: {}{comma}{problem}", reason.name());
            Refused::new(reason, why)
        })
    }

    /// Receives a body; waits for others to end if too many bytes are being received.
    async fn receive(
        &self,
        body: Body,
        announced: Option<usize>,
    ) -> Result<(SemaphorePermit<'_>, Vec<u8>), Refused> {
        let too_large = || {
            let why = format!("the body is too large; accepted: {OTLP_BODY_BYTES_MAX} bytes");
            Refused::new(BodyRefusal::TooLarge, why)
        };
        let most = announced.unwrap_or(OTLP_BODY_BYTES_MAX);
        if most > OTLP_BODY_BYTES_MAX {
            return Err(too_large());
        }
        let pieces = u32::try_from(most.div_ceil(PIECE_BYTES)).unwrap_or(u32::MAX);
        let broken_off = || Refused::new(BodyRefusal::BrokenOff, "the body did not arrive");
        let receive = async {
            let permit = self.pieces.acquire_many(pieces).await;
            let permit = permit.map_err(|_| broken_off())?;
            let mut bytes = std::mem::take(&mut *self.buffer.lock());
            bytes.reserve(announced.unwrap_or(0));
            // Piece by piece, so that each is free again before the next one is read.
            let mut body = body.into_data_stream();
            while let Some(piece) = body.next().await {
                let piece = piece.map_err(|_| broken_off())?;
                if bytes.len() + piece.len() > OTLP_BODY_BYTES_MAX {
                    return Err(too_large());
                }
                bytes.extend_from_slice(&piece);
            }
            Ok((permit, bytes))
        };
        let received = tokio::time::timeout(self.settings.body_max, receive).await;
        let received = received.map_err(|_| broken_off())??;
        let counters = &self.source.counters;
        counters.bytes_received.add(received.1.len() as u64);
        Ok(received)
    }
}

/// Decompresses a body up to the accepted size.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut unpacked = Vec::new();
    let most = OTLP_UNPACKED_BYTES_MAX as u64 + 1;
    let mut packed = MultiGzDecoder::new(packed).take(most);
    if packed.read_to_end(&mut unpacked).is_err() {
        return Err(Refused::new(BodyRefusal::BadGzip, "the body is not gzip"));
    }
    if unpacked.len() > OTLP_UNPACKED_BYTES_MAX {
        let why =
            format!("the body is too large unpacked; accepted: {OTLP_UNPACKED_BYTES_MAX} bytes");
        return Err(Refused::new(BodyRefusal::TooLarge, why));
    }
    Ok(unpacked)
}
