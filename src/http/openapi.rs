//! `/api/v1/openapi.json`: this interface described for programs, in OpenAPI 3.1.
//!
//! The document is a file beside this one, written by hand like the interface itself; tests hold its paths, methods and
//! parameters against what the routes do. Only the version is filled in here.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use serde_json::{Value, json};

use super::error::Problem;
use super::params::Params;

/// The document as it is sent.
static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let mut document: Value =
        serde_json::from_str(include_str!("openapi.json")).expect("a test reads the same file");
    document["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    format!("{document:#}\n").into()
});

/// `GET /api/v1/openapi.json`
pub(super) async fn read(request: Request) -> Result<Response<Body>, Problem> {
    Params::parse(request.uri().query())?.finish()?;
    let mut response = Response::new(Body::from(DOCUMENT.clone()));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every `$ref` in the document.
    fn refs<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|member| refs(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| refs(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_component_is_used() {
        let document: Value = serde_json::from_slice(&DOCUMENT).unwrap();
        let mut found = Vec::new();
        refs(&document, &mut found);
        for reference in &found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        for (kind, components) in document["components"].as_object().unwrap() {
            // Those are named in `security`, not referred to.
            if kind == "securitySchemes" {
                let named = document["security"].as_array().unwrap();
                for name in components.as_object().unwrap().keys() {
                    assert!(named.iter().any(|it| it.get(name).is_some()), "{name}");
                }
                continue;
            }
            for name in components.as_object().unwrap().keys() {
                let reference = format!("#/components/{kind}/{name}");
                assert!(
                    found.contains(&reference.as_str()),
                    "{reference} is not used"
                );
            }
        }
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }
}
