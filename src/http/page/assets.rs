//! The style sheet, the script and the icon: compiled in, and kept by browsers for a year.
//!
//! Their addresses hold a hash of what is in them, so a new version of the daemon has new addresses and nobody sees an old style on
//! a new page. An address with another hash is not found.

use std::hash::Hasher as _;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};

use super::compressed::Text;
use crate::http::error::Problem;

/// One file that pages refer to.
struct Asset {
    /// Its address.
    path: String,
    media_type: &'static str,
    text: Text,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |name: &str, ending: &str, media_type, text: &'static str| Asset {
        path: format!("/assets/{name}.{:08x}.{ending}", hash(text)),
        media_type,
        text: Text::new(text),
    };
    [
        asset(
            "pinbad",
            "css",
            "text/css; charset=utf-8",
            include_str!("page.css"),
        ),
        asset(
            "pinbad",
            "js",
            "text/javascript; charset=utf-8",
            include_str!("live.js"),
        ),
        asset("pinbad", "svg", "image/svg+xml", include_str!("icon.svg")),
    ]
});

/// Not a secret and not attacked: it only has to differ between versions.
fn hash(text: &str) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.write(text.as_bytes());
    hasher.finalize()
}

/// The address of the style sheet.
pub(super) fn style() -> &'static str {
    &ASSETS[0].path
}

/// The address of the script.
pub(super) fn script() -> &'static str {
    &ASSETS[1].path
}

/// The address of the icon.
pub(super) fn icon() -> &'static str {
    &ASSETS[2].path
}

/// `GET /assets/{file}`
pub(super) async fn read(Path(file): Path<String>) -> Result<Response<Body>, Problem> {
    let found = ASSETS
        .iter()
        .find(|asset| asset.path.ends_with(&format!("/{file}")));
    let asset = found.ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "this version of the page has no such file; load the page again",
        )
    })?;
    let mut response = asset.text.clone().into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(
        CACHE_CONTROL,
        HeaderValue::from_static("public, max-age=31536000, immutable"),
    );
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_outside_and_nothing_runs_from_text() {
        for asset in ASSETS.iter() {
            // The name space of SVG is a name, not an address that anybody asks.
            let text = std::str::from_utf8(asset.text.plain()).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for outside in [
                "http:",
                "https:",
                "//cdn",
                "@import",
                "url(",
                "eval(",
                "Function(",
                "innerHTML",
                "document.write",
            ] {
                assert!(!text.contains(outside), "{} has {outside}", asset.path);
            }
        }
    }

    #[test]
    fn the_style_sheet_and_the_script_are_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.plain().len()).sum();
        assert!(bytes < 30_000, "{bytes}");
    }
}
