//! A GET: an address with its parameters, over pools with some rows in them. An answer never is an
//! error of the server, and what says that it is JSON is.

use axum::body::Body;
use axum::http::{Request, StatusCode, Uri};

use super::live;
use crate::http::fuzz::Router;

/// The longest head that a connection reads, and more: `http::request_checks` bounds the address
/// itself.
const BYTES_MAX: usize = 16 << 10;

thread_local! {
    static ROUTER: Router = Router::new(live::catalog());
}

/// Any bytes: a line with the target, perhaps a line with what is accepted.
pub fn http(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    let mut lines = bytes.splitn(2, |byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let Ok(uri) = Uri::try_from(target) else {
        return;
    };
    let mut request = Request::builder().uri(uri).header("host", "localhost");
    if let Some(accept) = lines.next() {
        request = request.header("accept", accept);
    }
    let Ok(request) = request.body(Body::empty()) else {
        return;
    };
    let (status, media_type, body) = ROUTER.with(|router| router.ask(request));
    let shown = || String::from_utf8_lossy(&body).into_owned();
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", shown());
    let json = |bytes: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(bytes);
    match media_type.as_str() {
        "application/json" | "application/problem+json" if !body.is_empty() => {
            assert!(json(&body).is_ok(), "{}", shown());
        }
        "application/x-ndjson" => {
            let mut lines = body.split(|byte| *byte == b'\n');
            assert!(lines.all(|line| line.is_empty() || json(line).is_ok()), "{}", shown());
        }
        _ => {}
    }
}
