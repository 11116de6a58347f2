//! A text that never shows up in errors, in the log or in `{:?}`.
//!
//! Created where the configuration is read, consumed where `access` turns it into a digest. The
//! content is only available through `Secret::reveal`, so a search for that word finds every
//! place where it can get out.

use std::fmt;

/// A password or token as given.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Wraps the bytes.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, to compute a digest or a header from them and for nothing else.
    pub(crate) fn reveal(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing_of_it() {
        let secret = Secret::new("hunter2");
        assert_eq!(secret.reveal(), b"hunter2");
        assert_eq!(
            format!("{secret:?} {:#?}", Some(&secret)),
            "(not shown) Some(\n    (not shown),\n)"
        );
    }
}
