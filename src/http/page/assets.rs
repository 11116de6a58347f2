//! The style sheet, the script and the icon: compiled in, and cached by browsers for a year.
//!
//! Their URLs contain a hash of their content, so a new version of the daemon has new URLs and no
//! browser shows an old style on a new page. A URL with another hash is not found.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, Response};

use super::compressed::Text;
use crate::http::error::Problem;

/// A file that pages refer to.
struct Asset {
    /// Its URL.
    path: String,
    media_type: &'static str,
    text: Text,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let files = [
        ("css", "text/css; charset=utf-8", include_str!("page.css")),
        ("js", "text/javascript; charset=utf-8", include_str!("live.js")),
        ("svg", "image/svg+xml", include_str!("icon.svg")),
    ];
    files.map(|(ending, media_type, text)| {
        let text = packed(text);
        Asset {
            path: format!("/assets/pinbad.{:08x}.{ending}", crc32fast::hash(text.as_bytes())),
            media_type,
            text: Text::new(text),
        }
    })
});

/// A file without what browsers do not need: the blanks before lines, and lines of comments.
fn packed(text: &str) -> String {
    let is_comment =
        |line: &str| line.starts_with("//") || line.starts_with("/*") && line.ends_with("*/");
    let lines = text.lines().map(str::trim_start).filter(|line| !is_comment(line));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The URLs of the style sheet, the script and the icon.
pub(super) fn paths() -> [&'static str; 3] {
    let [style, script, icon] = &*ASSETS;
    [&style.path, &script.path, &icon.path]
}

/// `GET /assets/{file}`
pub(super) async fn read(
    Path(file): Path<String>,
    headers: HeaderMap,
) -> Result<Response<Body>, Problem> {
    let mut assets = ASSETS.iter();
    let asset = assets.find(|asset| asset.path.strip_prefix("/assets/") == Some(&file));
    let asset = asset.ok_or_else(|| {
        Problem::not_found("this version of the page has no such file; load the page again")
    })?;
    let mut response = asset.text.response(&headers, asset.media_type);
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, kept);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_outside_and_nothing_runs_from_text() {
        for asset in ASSETS.iter() {
            // The name space of SVG is a name, not a URL that is fetched.
            let text = std::str::from_utf8(asset.text.plain()).unwrap();
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for outside in "http: https: //cdn @import url( eval( Function( innerHTML \
                 document.write"
                .split(' ')
            {
                assert!(!text.contains(outside), "{} has {outside}", asset.path);
            }
        }
    }

    #[test]
    fn comments_and_the_blanks_before_lines_stay_here() {
        let text = "// Why.\n  a {\n    b: \"// c\"; /* d */\n\n    /* e */\n  }";
        assert_eq!(packed(text), "a {\nb: \"// c\"; /* d */\n\n}\n");
        for asset in ASSETS.iter() {
            let text = std::str::from_utf8(asset.text.plain()).unwrap();
            let kept = text.lines().find(|line| line.starts_with([' ', '/']));
            assert_eq!(kept, None, "{}", asset.path);
        }
        // Lines of a text between these would change.
        assert!(!include_str!("live.js").contains('`'));
    }

    #[test]
    fn the_style_sheet_and_the_script_are_small() {
        let bytes: usize = ASSETS.iter().map(|asset| asset.text.plain().len()).sum();
        assert!(bytes < 30_000, "{bytes}");
    }
}
