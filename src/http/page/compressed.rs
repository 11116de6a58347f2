//! Pages, style and script as gzip: a quarter of the bytes.
//!
//! A [`Text`] is compressed once, on first use, however many clients get it: pages are kept for a
//! second (`cache`), style and script forever. Answers of the API are not compressed: they are
//! streamed, and their readers are machines nearby.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Response};
use axum::response::IntoResponse as _;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::http::answer::format::weighted;

/// Shorter texts fit into one network packet uncompressed.
const WORTH_BYTES: usize = 1_000;
/// Higher levels take longer than they save.
const LEVEL: u32 = 5;

/// A text that may be sent compressed.
#[derive(Debug, Clone)]
pub(super) struct Text {
    plain: Bytes,
    compressed: Arc<OnceLock<Bytes>>,
}

impl Text {
    pub(super) fn new(plain: impl Into<Bytes>) -> Self {
        Self { plain: plain.into(), compressed: Arc::default() }
    }

    /// The uncompressed bytes.
    pub(super) fn plain(&self) -> &Bytes {
        &self.plain
    }

    fn compressed(&self) -> &Bytes {
        self.compressed.get_or_init(|| gzip(&self.plain))
    }

    /// A response with this text, compressed if that is worth it and the request headers allow it.
    pub(super) fn response(&self, request: &HeaderMap, media_type: &'static str) -> Response<Body> {
        let media_type = (CONTENT_TYPE, media_type);
        if self.plain.len() < WORTH_BYTES {
            return ([media_type], self.plain.clone()).into_response();
        }
        let headers = [media_type, (VARY, "accept-encoding")];
        if !is_accepted(request) {
            return (headers, self.plain.clone()).into_response();
        }
        (headers, [(CONTENT_ENCODING, "gzip")], self.compressed().clone()).into_response()
    }
}

fn gzip(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(plain.len() / 3), Compression::new(LEVEL));
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    written.expect("writing to memory does not fail").into()
}

/// Whether gzip is accepted, with a nonzero weight.
fn is_accepted(headers: &HeaderMap) -> bool {
    let accepted = weighted(headers, ACCEPT_ENCODING);
    accepted.iter().any(|(name, weight)| name == "gzip" && *weight > 0.0)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn gzip_is_sent_to_who_accepts_it() {
        let accepts = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_str(text).unwrap());
            is_accepted(&headers)
        };
        for yes in ["gzip", "br, GZIP", "gzip;q=0.1", "deflate, gzip; q=1.0, br"] {
            assert!(accepts(yes), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip; q=0.000", "xgzip", "gzip;q=x", "identity"] {
            assert!(!accepts(no), "{no}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    #[test]
    fn what_is_compressed_is_what_it_was() {
        let text = Text::new("<td>12</td>".repeat(5_000));
        let compressed = text.compressed();
        assert!(compressed.len() < text.plain().len() / 20);
        let mut read = String::new();
        flate2::read::GzDecoder::new(&compressed[..]).read_to_string(&mut read).unwrap();
        assert_eq!(read.as_bytes(), text.plain());
        // The second time it is the same piece of memory.
        assert_eq!(text.compressed().as_ptr(), compressed.as_ptr());
    }
}
