//! Who a client is: nothing, a token, or a name and a password, as the header `Authorization` says it.
//!
//! A token comes from a file or from the variable `PINBAD_TOKEN`, never from a flag, where every user of the machine would
//! read it in the list of processes. What is secret is never shown, not even by `{:?}`.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::config::TOKEN_VARIABLE;

/// Longest token, bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// Who one is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nobody in particular.
    None,
    /// The bearer of a token.
    Bearer(String),
    /// Somebody with a password.
    Basic {
        /// The name; without a colon.
        name: String,
        /// The password.
        password: String,
    },
}

/// Why a token cannot be used. It is not shown.
#[derive(Debug, Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("--token-file: cannot read {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why not.
        source: std::io::Error,
    },
    /// What is in it is no token.
    #[error(
        "{place}: no token; accepted: one line of up to {TOKEN_BYTES_MAX} visible ASCII characters"
    )]
    NoToken {
        /// Where it came from.
        place: String,
    },
}

impl Credentials {
    /// What the header `Authorization` holds.
    pub fn header(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Bearer(token) => Some(format!("Bearer {token}")),
            Self::Basic { name, password } => {
                let pair = STANDARD.encode(format!("{name}:{password}"));
                Some(format!("Basic {pair}"))
            }
        }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bearer(_) => f.write_str("Bearer(..)"),
            Self::Basic { name, .. } => write!(f, "Basic {{ name: {name:?}, .. }}"),
        }
    }
}

/// The token of the file if one is named, else of the environment, else none.
///
/// # Errors
/// When there is one that cannot be used.
pub fn token(file: Option<&Path>) -> Result<Credentials, CredentialsError> {
    if let Some(file) = file {
        let name = file.display().to_string();
        return match std::fs::read(file) {
            Ok(bytes) => checked(bytes, name),
            Err(source) => Err(CredentialsError::Unreadable { file: name, source }),
        };
    }
    match std::env::var_os(TOKEN_VARIABLE) {
        Some(value) if !value.is_empty() => {
            checked(value.into_encoded_bytes(), TOKEN_VARIABLE.to_owned())
        }
        _ => Ok(Credentials::None),
    }
}

fn checked(bytes: Vec<u8>, place: String) -> Result<Credentials, CredentialsError> {
    let token = String::from_utf8(bytes).unwrap_or_default();
    let token = token.trim();
    let fits = !token.is_empty()
        && token.len() <= TOKEN_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits {
        Ok(Credentials::Bearer(token.to_owned()))
    } else {
        Err(CredentialsError::NoToken { place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        let basic = Credentials::Basic {
            name: "Aladdin".to_owned(),
            password: "open sesame".to_owned(),
        };
        // The example of RFC 7617.
        assert_eq!(
            basic.header().as_deref(),
            Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
        );
        assert_eq!(Credentials::None.header(), None);
        assert!(!format!("{basic:?}").contains("sesame"));
        let bearer = Credentials::Bearer("secret".to_owned());
        assert_eq!(bearer.header().as_deref(), Some("Bearer secret"));
        assert!(!format!("{bearer:?}").contains("secret"));
    }

    #[test]
    fn a_file_holds_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        assert!(
            token(Some(&file))
                .unwrap_err()
                .to_string()
                .contains("cannot read")
        );
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
                Ok(found) => assert!(good && found == Credentials::Bearer("abc".to_owned())),
                Err(error) => assert!(!good && error.to_string().contains("no token"), "{text:?}"),
            }
        }
    }
}
