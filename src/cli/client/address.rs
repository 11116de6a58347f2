//! The address of a daemon as a person types it: scheme, name and password, host, port.
//!
//! Pure functions. Errors are in words; a password is never part of an error or of the address
//! shown.

use percent_encoding::percent_decode_str;

use super::credentials::basic;
use super::format::visible;
use crate::config::secret::Secret;

/// Splits an address into the URL of the daemon and the credentials.
///
/// # Errors
/// Names the mistake and what is accepted.
pub fn split(url: &str) -> Result<(String, Option<Secret>), String> {
    const ACCEPTED: &str = "accepted: http://HOST:PORT, https://USER:PASSWORD@HOST:PORT";
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = ["http", "https"]
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(scheme))
        .ok_or_else(|| format!("--url: {:?} is not a scheme; {ACCEPTED}", visible(scheme)))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.trim_end_matches('/');
    let (credentials, host) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((user, host)) => {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            let (Some(name), Some(password)) = (decoded(name), decoded(password)) else {
                return Err(format!(
                    "--url: name or password is not percent-encoded text; {ACCEPTED}"
                ));
            };
            (Some(basic(&name, &password)), host)
        }
    };
    if host.is_empty() || host.starts_with(':') || path.contains(['?', '#']) {
        return Err(format!("--url: there is no host, or more than a host; {ACCEPTED}"));
    }
    let fits = |byte: u8| byte.is_ascii_graphic() && !br#"<>"\^`{|}"#.contains(&byte);
    if !host.bytes().chain(path.bytes()).all(fits) {
        let shown = visible(host);
        return Err(format!("--url: {shown:?} is not a host; {ACCEPTED}"));
    }
    Ok((format!("{scheme}://{host}{path}"), credentials))
}

/// Decodes percent-encoded text such as `%41`.
fn decoded(text: &str) -> Option<String> {
    let is_hex = |part: &str| part.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    let is_whole = text.split('%').skip(1).all(is_hex);
    let decoded = percent_decode_str(text).decode_utf8().ok();
    Some(decoded.filter(|_| is_whole)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemes_paths_and_passwords() {
        for (url, address) in [
            ("127.0.0.1:30080", "http://127.0.0.1:30080"),
            ("HTTP://h:1/", "http://h:1"),
            ("HTTPS://h", "https://h"),
            ("http://[::1]:1", "http://[::1]:1"),
            ("http://proxy/pinbad/", "http://proxy/pinbad"),
        ] {
            assert_eq!(split(url), Ok((address.to_owned(), None)), "{url}");
        }
        let (address, who) = split("http://me:p%40ss:w@h:1").unwrap();
        assert_eq!((address.as_str(), who), ("http://h:1", Some(basic("me", "p@ss:w"))));
        assert_eq!(split("me@h:1").unwrap().1, Some(basic("me", "")));
    }

    #[test]
    fn what_is_no_address_is_refused_without_its_password() {
        for url in [
            "",
            "http://",
            "https://",
            "ftp://h",
            "http://:1",
            "http://h/?a=b",
            "http://h h",
            "http://h\u{1b}",
            "http://me:secret%zz@h",
            "http://me:secret@",
        ] {
            let error = split(url).unwrap_err();
            assert!(error.starts_with("--url: "), "{url}: {error}");
            assert!(error.contains("accepted: http://"), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
