//! Answers that last as long as the client stays: server-sent events and followed requests.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response};
use futures::{Stream, StreamExt as _};

use super::format::Format;

/// Marks such an answer: it may take any time, as long as bytes move.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Endless;

/// A response with the pieces of a stream.
pub(in crate::http) fn endless(
    format: Format,
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let mut response = format.response(Body::from_stream(pieces.map(Ok::<_, Infallible>)));
    response.extensions_mut().insert(Endless);
    // Makes nginx pass on data at once.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
