//! Authentication: credentials of a request become a [`Pass`], or a 401 that says nothing else.
//!
//! Runs before every other check (`request_checks.rs`), so that a peer without credentials learns
//! neither names nor paths. Basic authentication and bearer tokens are taken from `Authorization`,
//! never from the URL, which ends up in logs and histories. Permissions are checked here too:
//! reading needs the role `read`, creating annotations `annotate`, everything else `admin`; and
//! streams end when their reader loses the right to read.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;

use super::error::Problem;
use super::settings::HttpSettings;
use crate::access::{Denied, Identity, Pass, Role};

/// The peer of the connection that a request came on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// The path for creating annotations.
pub(super) const ANNOTATIONS: &str = "/api/v1/annotations";

/// The path for creating and ending silences.
pub(super) const SILENCES: &str = "/api/v1/silences";

/// The path for playing rules over the past, which every reader may do with rules of their own.
pub(super) const REPLAY: &str = "/api/v1/alerts/test";

/// The content of `Authorization`.
#[derive(PartialEq, Eq)]
enum Credentials {
    Password(String, Vec<u8>),
    Token(Vec<u8>),
}

/// Authenticates the sender of a request.
pub(super) fn identify<B>(settings: &HttpSettings, request: &Request<B>) -> Result<Pass, Problem> {
    // Only a connection created without a peer lacks one, and then its origin is unknown.
    let unknown = IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED);
    let peer = request.extensions().get::<Peer>();
    let peer = peer.map_or(unknown, |peer| peer.0.ip());
    let identity = identity(settings, peer, request)?;
    Ok(Pass::new(settings.access.clone(), peer, identity))
}

fn identity<B>(
    settings: &HttpSettings,
    peer: IpAddr,
    request: &Request<B>,
) -> Result<Identity, Problem> {
    let (access, path) = (&settings.access, request.uri().path());
    if settings.open_health && (path == "/healthz" || path == "/readyz") {
        return Ok(Identity::anonymous(Role::Read));
    }
    let headers = request.headers();
    if !headers.contains_key(AUTHORIZATION) || access.has_no_users() {
        let role = access.anonymous(peer).map(Identity::anonymous);
        let why = "this needs a user name and password, or a token";
        return role.ok_or_else(|| Problem::login(why));
    }
    let identity = match credentials(headers) {
        Some(Credentials::Password(name, password)) => access.password(peer, &name, &password),
        Some(Credentials::Token(token)) => access.token(peer, &token),
        None => {
            let why =
                "the header Authorization cannot be understood; accepted: one, Basic or Bearer";
            return Err(Problem::login(why));
        }
    };
    identity.map_err(|denied| {
        let problem = Problem::login(denied.to_string());
        match denied {
            Denied::TooMany { wait_ms } => problem.retry_after(wait_ms.div_ceil(1000)),
            Denied::Wrong => problem,
        }
    })
}

/// Checks whether `identity` may send this request.
pub(super) fn permit(identity: &Identity, method: &Method, path: &str) -> Result<(), Problem> {
    let reads = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    // SQL mostly reads, even in a POST body; its handler decides on statements that would change
    // something.
    let annotates = *method == Method::POST && path == ANNOTATIONS || path.starts_with(SILENCES);
    let needed = if annotates { Role::Annotate } else { Role::Admin };
    let may_read_by_post = ["/api/v1/sql", REPLAY].contains(&path);
    if reads || may_read_by_post || identity.role >= needed {
        return Ok(());
    }
    let who = match &identity.name {
        Some(name) => format!("user {name:?} has the role {:?}", identity.role.name()),
        None => "without credentials one may only read here".to_owned(),
    };
    let needed = needed.name();
    let why = format!("this needs the role {needed:?} of a [[user]] of the configuration; {who}");
    Err(Problem::new(StatusCode::FORBIDDEN, why))
}

/// Ends an endless answer when the client loses the right to read.
pub(super) fn until_revoked(pass: Pass, response: Response) -> Response {
    let revoked = Box::pin(async move { pass.revoked().await });
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(revoked)))
}

/// The credentials of the `Authorization` header; `None` if there are several or the scheme is
/// unknown.
fn credentials(headers: &HeaderMap) -> Option<Credentials> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (given.next(), given.next()) else { return None };
    let (scheme, rest) = value.to_str().ok()?.split_once(' ')?;
    let rest = rest.trim_matches(' ');
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(Credentials::Token(rest.as_bytes().to_vec()));
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(rest).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (name, password) = decoded.split_at(colon);
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some(Credentials::Password(name, password.get(1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: &[&str]) -> Option<Credentials> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        credentials(&headers)
    }

    #[test]
    fn headers_are_read_in_both_schemes() {
        let password = |name: &str, password: &[u8]| {
            Some(Credentials::Password(name.to_owned(), password.to_vec()))
        };
        // RFC 7617's own example.
        let aladdin = read(&["Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="]);
        assert!(aladdin == password("Aladdin", b"open sesame"));
        assert!(read(&["basic  YTpiOmM="]) == password("a", b"b:c"));
        assert!(read(&["BASIC YTo="]) == password("a", b""));
        assert!(read(&["Bearer abc.def"]) == Some(Credentials::Token(b"abc.def".to_vec())));
        assert!(read(&["bearer  x "]) == Some(Credentials::Token(b"x".to_vec())));
        for bad in [
            &[][..],
            &[""],
            &["Basic"],
            &["Basic !"],
            &["Basic YWJj"],
            &["Basic YTpi", "Basic YTpi"],
            &["Digest username=\"a\""],
            &["Negotiate abc"],
        ] {
            assert!(read(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn reading_needs_no_more_than_read_and_changing_needs_admin() {
        let who = |role| Identity { name: Some("kim".into()), role };
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            assert!(permit(&who(Role::Read), &method, "/api/v1/reports").is_ok());
        }
        for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH] {
            let problem = permit(&who(Role::Read), &method, "/api/v1/reports").unwrap_err();
            assert_eq!(problem.status, StatusCode::FORBIDDEN);
            assert!(problem.body().contains("kim"), "{problem:?}");
            assert!(permit(&who(Role::Admin), &method, "/api/v1/reports").is_ok());
            assert!(permit(&Identity::anonymous(Role::Read), &method, "/x").is_err());
        }
        for path in ["/api/v1/sql", REPLAY] {
            assert!(permit(&who(Role::Read), &Method::POST, path).is_ok());
        }
        let annotate = |role, method| permit(&who(role), &method, ANNOTATIONS);
        assert!(annotate(Role::Read, Method::POST).is_err());
        assert!(annotate(Role::Annotate, Method::POST).is_ok());
        assert!(annotate(Role::Annotate, Method::DELETE).is_err());
        assert!(permit(&who(Role::Annotate), &Method::POST, "/api/v1/reports").is_err());
    }
}
