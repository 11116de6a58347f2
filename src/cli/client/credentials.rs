//! The credentials of a client: none, a bearer token, or a name and a password, as the value of the
//! header `Authorization`.
//!
//! A token comes from a file or from the variable `PINBAD_TOKEN`, never from a flag, which every
//! user of the machine could read in the list of processes. Secrets are never shown, not even by
//! `{:?}`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::config::TOKEN_VARIABLE;
use crate::config::secret::Secret;

/// Longest token, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Returns the header for a name and a password.
pub fn basic(name: &str, password: &str) -> Secret {
    let pair = STANDARD.encode(format!("{name}:{password}"));
    Secret::new(format!("Basic {pair}"))
}

/// Returns the header with the token from the file, if one is named, else from the environment,
/// else none.
///
/// # Errors
/// When there is a token that cannot be used; the error does not show it.
pub fn token(file: Option<&Path>) -> Result<Option<Secret>, String> {
    let (bytes, place) = match (file, std::env::var_os(TOKEN_VARIABLE)) {
        (Some(file), _) => {
            let name = file.display().to_string();
            let bytes = std::fs::read(file)
                .map_err(|error| format!("--token-file: cannot read {name}: {error}"))?;
            (bytes, name)
        }
        (None, Some(value)) if !value.is_empty() => {
            (value.into_encoded_bytes(), TOKEN_VARIABLE.to_owned())
        }
        _ => return Ok(None),
    };
    let token = String::from_utf8(bytes).unwrap_or_default();
    let token = token.trim();
    let fits = token.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits || token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        return Err(format!(
            "{place}: no token; accepted: one line of up to {TOKEN_BYTES_MAX} visible ASCII characters"
        ));
    }
    Ok(Some(Secret::new(format!("Bearer {token}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header() {
        // The example of RFC 7617.
        let expected = b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        assert_eq!(basic("Aladdin", "open sesame").reveal(), expected);
    }

    #[test]
    fn a_file_holds_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(token(Some(&file)).unwrap_err().contains("cannot read"));
        for (text, good) in [
            ("abc\n", true),
            (" abc \r\n", true),
            ("", false),
            ("a b", false),
            ("a\nb", false),
            ("\u{1b}", false),
        ] {
            std::fs::write(&file, text).unwrap();
            match token(Some(&file)) {
                Ok(found) => assert!(good && found == Some(Secret::new("Bearer abc"))),
                Err(error) => assert!(!good && error.contains("no token"), "{text:?}"),
            }
        }
    }
}
