//! Splits a URL into the parts by which `squid` and `otlp` count its request.

/// The parts of a URL.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UrlParts<'u> {
    /// `http`.
    pub(super) schema: Option<&'u [u8]>,
    /// The origin, without user and port; empty if there is none.
    pub(super) host: &'u [u8],
    /// The path without its query. Text that is not a URL (`error:invalid-request`, `*`) is kept
    /// whole.
    pub(super) path: &'u [u8],
}

/// Splits a URL, or the `host:port` of a CONNECT or a header.
pub(super) fn url_parts<'u>(url: &'u [u8], is_host: bool) -> UrlParts<'u> {
    let until = |text: &'u [u8], ends: &[u8]| {
        let at = text.iter().position(|byte| ends.contains(byte));
        text.split_at_checked(at.unwrap_or(text.len())).unwrap_or((text, &[]))
    };
    let host_of = |authority: &'u [u8]| {
        let at = authority.iter().rposition(|byte| *byte == b'@');
        let host = at.and_then(|at| authority.get(at.saturating_add(1)..)).unwrap_or(authority);
        match (host.first(), host.iter().position(|byte| *byte == b']')) {
            (Some(b'['), Some(end)) => host.get(..=end).unwrap_or(host),
            _ => until(host, b":").0,
        }
    };
    if is_host {
        return UrlParts { schema: None, host: host_of(url), path: b"" };
    }
    let (scheme, rest) = until(url, b":/?#");
    if let [b':', b'/', b'/', rest @ ..] = rest
        && !scheme.is_empty()
    {
        let (authority, rest) = until(rest, b"/?#");
        let path = until(rest, b"?#").0;
        return UrlParts {
            schema: Some(scheme),
            host: host_of(authority),
            path: if path.is_empty() { b"/" } else { path },
        };
    }
    UrlParts { schema: None, host: b"", path: until(url, b"?#").0 }
}
