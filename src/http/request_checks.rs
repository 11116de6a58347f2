//! The outermost layer: checks before any handler, and headers on every response.
//!
//! The daemon mostly listens on an engineer's own machine, where every web page in the browser can
//! send requests to it. A page that pretends to be this host by its DNS name (rebinding) is stopped
//! by the `Host` check; a page of another site by the `Origin` check and, for requests without one
//! (an image), by the browser's metadata (`Sec-Fetch-Site`); and a form post by the required
//! content type of JSON. Limits on the head are here too, on the body in [`JsonBody`].

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::{Map, Value as Json};

use super::answer::endless::Endless;
use super::app::App;
use super::auth;
use super::error::{PROBLEM_JSON, Problem};
use super::page::render;
use super::settings::HEADER_BYTES_MAX;

/// Longest request target, in bytes.
pub(super) const URI_BYTES_MAX: usize = 8 * 1024;
/// Largest body, in bytes.
pub(super) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// Longest text of a refusal by the router, in bytes.
const REASON_BYTES_MAX: usize = 1024;

/// Keeps pages of other sites from embedding a response as an image or script.
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName =
    HeaderName::from_static("cross-origin-resource-policy");

/// The browser's metadata on the requesting page, the target, and the purpose.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Runs the checks, then the routes, then adds the common headers. Credentials come first, so that
/// a peer without them learns nothing from the other checks. Handlers find the
/// [`crate::access::Pass`] among the request's extensions.
pub(super) async fn around(
    State(app): State<Arc<App>>,
    mut request: Request,
    next: Next,
) -> Response {
    let settings = &app.settings;
    let checked = auth::identify(settings, &request).and_then(|pass| {
        check(&request, &settings.host_names)?;
        auth::permit(&pass.identity, request.method(), request.uri().path())?;
        Ok(pass)
    });
    let mut response = match checked {
        // A person at a browser, who may have dismissed the login dialogue.
        Err(problem) if render::is_wanted(request.headers()) => render::stranger(problem),
        Err(problem) => problem.into_response(),
        Ok(_) if request.uri().path() == "*" => {
            other_method(request.method(), "GET,HEAD,POST,DELETE")
        }
        Ok(pass) => {
            request.extensions_mut().insert(pass.clone());
            let method = request.method().clone();
            let response = as_problem(&method, next.run(request).await).await;
            match response.extensions().get::<Endless>() {
                Some(Endless) => auth::until_revoked(pass, response),
                None => response,
            }
        }
    };
    protect(response.headers_mut());
    response
}

/// Adds the headers that tell browsers how to treat a response, unless it sets them itself.
pub(super) fn protect(headers: &mut HeaderMap) {
    let mut set = |name, value| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(CACHE_CONTROL, "no-store");
    set(REFERRER_POLICY, "no-referrer");
    set(CROSS_ORIGIN_RESOURCE_POLICY, "same-origin");
    set(CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
}

/// Converts the router's own short refusals to the common form. Pages show errors as pages.
async fn as_problem(method: &Method, response: Response) -> Response {
    let status = response.status();
    if status == StatusCode::METHOD_NOT_ALLOWED {
        return other_method(method, header(response.headers(), ALLOW).unwrap_or_default());
    }
    let media_type = response.headers().get(CONTENT_TYPE);
    let is_ours =
        media_type.is_some_and(|it| it == PROBLEM_JSON || it.as_bytes().starts_with(b"text/html"));
    if is_ours || !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let reason = axum::body::to_bytes(response.into_body(), REASON_BYTES_MAX).await;
    let reason = String::from_utf8_lossy(&reason.unwrap_or_default()).into_owned();
    let short = status.canonical_reason().unwrap_or("refused");
    let reason = if reason.is_empty() { short.to_lowercase() } else { reason };
    Problem::new(status, reason).into_response()
}

/// The answer to a method without a handler on a path with others: OPTIONS gets their list, other
/// methods a refusal. Deliberately without CORS headers.
fn other_method(method: &Method, handled: &str) -> Response {
    let allow = format!("{}, OPTIONS", handled.replace(',', ", "));
    match *method {
        Method::OPTIONS => (StatusCode::NO_CONTENT, [(ALLOW, allow)]).into_response(),
        _ => Problem::method(method, &allow).into_response(),
    }
}

fn check(request: &Request, host_names: &[String]) -> Result<(), Problem> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > URI_BYTES_MAX {
        let why = format!("the request target has {uri_bytes} bytes; accepted: {URI_BYTES_MAX}");
        return Err(Problem::new(StatusCode::URI_TOO_LONG, why));
    }
    let headers = request.headers();
    let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    let header_bytes: usize = headers.iter().map(line).sum();
    if header_bytes > HEADER_BYTES_MAX {
        let why = format!("the headers have {header_bytes} bytes; accepted: {HEADER_BYTES_MAX}");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why));
    }
    let host = host(request)?;
    if let Some(host) = &host {
        check_host(host, host_names)?;
    }
    check_origin(headers, host.as_ref())?;
    check_site(request)
}

/// The host that the request names; `None` only for HTTP/1.0 without any.
fn host(request: &Request) -> Result<Option<Authority>, Problem> {
    let bad = |why: &str| Problem::bad(format!("header Host: {why}"));
    let mut given = request.headers().get_all(HOST).iter();
    let host = match (given.next(), given.next()) {
        (None, _) if request.version() < Version::HTTP_11 => None,
        (None, _) => return Err(bad("is missing")),
        (Some(_), Some(_)) => return Err(bad("is given more than once")),
        (Some(host), None) => {
            let host = Authority::try_from(host.as_bytes()).ok();
            // An authority may hold a user name; a Host may not.
            let host = host.filter(|host| !host.as_str().contains('@'));
            Some(host.ok_or_else(|| bad("is not a host"))?)
        }
    };
    // A target in absolute form (as sent to a proxy) has its own host, which takes precedence.
    Ok(request.uri().authority().cloned().or(host))
}

fn check_host(host: &Authority, names: &[String]) -> Result<(), Problem> {
    let name = host.host();
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    if bare.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
    {
        return Ok(());
    }
    let why = format!("this daemon does not answer to the host name {name:?}");
    let accepted = ["an IP address", "localhost"].map(str::to_owned);
    let accepted = accepted.into_iter().chain(names.iter().cloned());
    Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, why).accepting(accepted))
}

fn check_origin(headers: &HeaderMap, host: Option<&Authority>) -> Result<(), Problem> {
    let is_same = |origin: Uri, host: &Authority| {
        let default_port = match origin.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return false,
        };
        let port = |it: &Authority| it.port_u16().unwrap_or(default_port);
        let is_host = |it: &Authority| it.host().eq_ignore_ascii_case(host.host());
        origin.authority().is_some_and(|it| is_host(it) && port(it) == port(host))
    };
    for origin in headers.get_all(ORIGIN) {
        let text = origin.to_str().unwrap_or_default();
        let uri = text.parse::<Uri>().ok();
        let same = uri.zip(host).is_some_and(|(uri, host)| is_same(uri, host));
        if !same {
            let why = format!("requests from pages of another site ({text}) are not accepted");
            return Err(Problem::new(StatusCode::FORBIDDEN, why));
        }
    }
    Ok(())
}

/// Refuses requests that another site's page makes a browser send: an image, a script, a frame.
/// Following a link from there opens the page, but nothing of the API. Browsers send this metadata
/// over TLS and to this machine; other clients never do.
fn check_site(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    let Some(site) = sites.find(|site| *site != "same-origin" && *site != "none") else {
        return Ok(());
    };
    let is = |name, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    let path = request.uri().path();
    let is_link = matches!(*request.method(), Method::GET | Method::HEAD)
        && is(SEC_FETCH_MODE, "navigate")
        && is(SEC_FETCH_DEST, "document");
    if is_link && path != "/api" && !path.starts_with("/api/") {
        return Ok(());
    }
    let site = site.to_str().unwrap_or_default();
    let why = format!(
        "requests from pages of another site (Sec-Fetch-Site: {site}) are not accepted, but for links to a page"
    );
    Err(Problem::new(StatusCode::FORBIDDEN, why))
}

/// The JSON in the body of a POST or DELETE; `None` if the body is empty. Reads at most
/// [`BODY_BYTES_MAX`], for at most `body_max`.
#[derive(Debug)]
pub(super) struct JsonBody(pub(super) Option<Json>);

impl JsonBody {
    /// Refuses a body with anything in it.
    pub(super) fn nothing(&self) -> Result<(), Problem> {
        let is_empty = |body: &Json| body.as_object().is_some_and(Map::is_empty);
        if self.0.as_ref().is_none_or(is_empty) {
            return Ok(());
        }
        Err(Problem::bad("the body must be empty or {}: there is nothing to choose"))
    }
}

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let bytes = body(request, app, "application/json", BODY_BYTES_MAX).await?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(None));
        }
        let document = serde_json::from_slice(&bytes);
        let bad = |error| Problem::bad(format!("the body is not JSON: {error}"));
        Ok(Self(Some(document.map_err(bad)?)))
    }
}

/// The members of a body that must be an object.
pub(super) fn members(body: Option<Json>, example: &str) -> Result<Map<String, Json>, Problem> {
    let Some(Json::Object(members)) = body else {
        return Err(Problem::bad(format!("the body must be a JSON object such as {example}")));
    };
    Ok(members)
}

/// A body that is said to be of `media_type`, of at most `bytes_max`.
pub(super) async fn body(
    request: Request,
    app: &App,
    media_type: &str,
    bytes_max: usize,
) -> Result<Vec<u8>, Problem> {
    let (head, body) = request.into_parts();
    if !is_of_type(&head.headers, media_type) {
        let wanted = format!("the header `content-type: {media_type}`, also without a body");
        let why = format!("{} wants {wanted}", head.method);
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    receive(&head.headers, body, bytes_max, app.settings.body_max).await
}

/// The value of a header, if it is text.
pub(super) fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Whether the body is said to be of this media type.
pub(super) fn is_of_type(headers: &HeaderMap, media_type: &str) -> bool {
    let given = header(headers, CONTENT_TYPE).unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(media_type)
}

/// Size of the body, if it was announced.
pub(super) fn announced(headers: &HeaderMap) -> Option<usize> {
    header(headers, CONTENT_LENGTH)?.parse().ok()
}

/// Receives a body of at most `bytes_max`, for at most `patience`; piece by piece, so that each is
/// free again before the next one is read.
pub(super) async fn receive(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    patience: Duration,
) -> Result<Vec<u8>, Problem> {
    let too_large = || {
        let why = format!("the body is too large; accepted: {bytes_max} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let announced = announced(headers).unwrap_or(0);
    if announced > bytes_max {
        return Err(too_large());
    }
    let receive = async {
        let mut bytes = Vec::with_capacity(announced);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let bad = |error| Problem::bad(format!("the body ended early: {error}"));
            let piece = piece.map_err(bad)?;
            if bytes.len() + piece.len() > bytes_max {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let late = || Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
    tokio::time::timeout(patience, receive).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(target: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(axum::body::Body::empty()).unwrap();
        check(&request, &["stats.example".to_owned()])
            .map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn hosts() {
        for host in "127.0.0.1 127.0.0.1:30080 10.1.2.3:1 [::1]:30080 [::1] localhost \
             LOCALHOST:30080 stats.example Stats.Example:443"
            .split(' ')
        {
            assert_eq!(status("/", &[("host", host)]), 200, "{host}");
        }
        for host in "evil.example localhost.evil.example 127.0.0.1.evil.example:30080 \
             ::1"
        .split(' ')
        {
            let status = status("/", &[("host", host)]);
            assert!(matches!(status, 400 | 421), "{host}: {status}");
        }
        assert_eq!(status("/", &[("host", "evil.example")]), 421);
        assert_eq!(status("/", &[]), 400);
        assert_eq!(status("/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(status("/", &[("host", "x@localhost")]), 400);
        assert_eq!(status("http://evil.example/", &[("host", "localhost")]), 421);
    }

    #[test]
    fn origins() {
        let with = |host: &str, origin: &str| status("/", &[("host", host), ("origin", origin)]);
        assert_eq!(with("localhost:30080", "http://localhost:30080"), 200);
        assert_eq!(with("localhost", "http://localhost:80"), 200);
        assert_eq!(with("stats.example", "https://stats.example"), 200);
        assert_eq!(with("[::1]:30080", "http://[::1]:30080"), 200);
        assert_eq!(with("localhost:30080", "http://localhost:8080"), 403);
        assert_eq!(with("localhost:30080", "http://127.0.0.1:30080"), 403);
        assert_eq!(with("localhost:30080", "http://evil.example"), 403);
        assert_eq!(with("localhost:30080", "file://localhost:30080"), 403);
        assert_eq!(with("localhost:30080", "null"), 403);
        assert_eq!(with("localhost:30080", ""), 403);
    }

    #[test]
    fn sites() {
        let with = |target: &str, site: &str, mode: &str, dest: &str| {
            let fetch = [
                ("host", "localhost"),
                ("sec-fetch-site", site),
                ("sec-fetch-mode", mode),
                ("sec-fetch-dest", dest),
            ];
            status(target, &fetch)
        };
        let sql = "/api/v1/sql?query=SELECT+1";
        for site in ["cross-site", "same-site", "", "?"] {
            assert_eq!(with(sql, site, "no-cors", "image"), 403, "{site}");
            assert_eq!(with("/", site, "no-cors", "image"), 403, "{site}");
            assert_eq!(with("/", site, "navigate", "iframe"), 403, "{site}");
            assert_eq!(with(sql, site, "navigate", "document"), 403, "{site}");
            assert_eq!(with("/api", site, "navigate", "document"), 403, "{site}");
            for page in ["/", "/reports/r?host=a", "/apis"] {
                assert_eq!(with(page, site, "navigate", "document"), 200, "{site}");
            }
        }
        for site in ["same-origin", "none"] {
            assert_eq!(with(sql, site, "cors", "empty"), 200, "{site}");
            assert_eq!(with(sql, site, "navigate", "document"), 200, "{site}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        let long = "x".repeat(URI_BYTES_MAX);
        assert_eq!(status(&format!("/{long}"), &[("host", "localhost")]), 414);
        assert_eq!(status(&format!("/?{}", &long[2..]), &[("host", "localhost")]), 200);
        let wide = "x".repeat(HEADER_BYTES_MAX);
        assert_eq!(status("/", &[("host", "localhost"), ("x", &wide)]), 431);
    }
}
