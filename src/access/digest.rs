//! Digests of passwords and tokens, and checks of a peer's proof against them.
//!
//! Digests cannot be reversed. Comparisons take the same time wherever the difference is
//! (`subtle`). The digests are those of MySQL's two authentication methods:
//!
//! ```text
//!   mysql_native_password   kept: N = SHA1(SHA1(password))      sent: SHA1(password) xor SHA1(salt, N)
//!   caching_sha2_password   kept: S = SHA256(SHA256(password))  sent: SHA256(password) xor SHA256(S, salt)
//! ```
//!
//! So an attacker who reads the daemon's memory gets no more than from MySQL's own user table, and
//! a peer's proof is checked without knowing the password.

use std::fmt;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use subtle::{Choice, ConstantTimeEq};

/// Digests of a password. Digests can be compared with `==`; a peer's proof is checked by the
/// methods.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Password {
    /// SHA1(SHA1(password)).
    native: [u8; 20],
    /// SHA256(SHA256(password)); `None` if only `native` was configured.
    sha2: Option<[u8; 32]>,
}

impl Password {
    /// Creates the digests of a password.
    pub(super) fn of(plain: &[u8]) -> Self {
        Self { native: sha1(&[&sha1(&[plain])]), sha2: Some(sha256(&[&sha256(&[plain])])) }
    }

    /// Creates the digest from the hash that MySQL stores.
    pub(super) const fn of_native_hash(hash: [u8; 20]) -> Self {
        Self { native: hash, sha2: None }
    }

    /// Tests whether `plain` is the password.
    pub(super) fn is(&self, plain: &[u8]) -> Choice {
        let given = Self::of(plain);
        match (self.sha2, given.sha2) {
            (Some(kept), Some(given)) => kept.ct_eq(&given),
            _ => self.native.ct_eq(&given.native),
        }
    }

    /// Tests whether `response` is the answer of a client that has the password to `salt` under
    /// `mysql_native_password`.
    pub(super) fn answers_native(&self, salt: &[u8], response: &[u8]) -> Choice {
        let Ok(mut stage1) = <[u8; 20]>::try_from(response) else { return Choice::from(0) };
        xor(&mut stage1, &sha1(&[salt, &self.native]));
        sha1(&[&stage1]).ct_eq(&self.native)
    }

    /// Tests the same under `caching_sha2_password`. If only the other hash is known, no answer is
    /// right, and the test takes as long.
    pub(super) fn answers_sha2(&self, salt: &[u8], response: &[u8]) -> Choice {
        let Ok(mut stage1) = <[u8; 32]>::try_from(response) else { return Choice::from(0) };
        let known = Choice::from(u8::from(self.sha2.is_some()));
        let kept = self.sha2.unwrap_or_default();
        xor(&mut stage1, &sha256(&[&kept, salt]));
        sha256(&[&stage1]).ct_eq(&kept) & known
    }
}

/// SHA256 of a token. Tokens are long and random, so no slower hash is needed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token([u8; 32]);

impl Token {
    /// Creates the digest of a token.
    pub(super) fn of(plain: &[u8]) -> Self {
        Self(sha256(&[plain]))
    }

    /// Tests whether both are digests of the same token.
    pub(super) fn is(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(not shown)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(not shown)")
    }
}

fn xor<const N: usize>(into: &mut [u8; N], mask: &[u8; N]) {
    for (byte, mask) in into.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA1 has 20 bytes")
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
        std::array::from_fn(byte)
    }

    /// `SELECT PASSWORD('mariadb')` and `PASSWORD('password')`, as the servers' manuals print them.
    #[test]
    fn the_native_hash_is_that_of_mysql() {
        for (plain, hash) in [
            ("mariadb", "54958E764CE10E50764C2EECBB71D01F08549980"),
            ("password", "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"),
        ] {
            assert_eq!(Password::of(plain.as_bytes()).native, hex(hash), "{plain}");
            let kept = Password::of_native_hash(hex(hash));
            assert!(bool::from(kept.is(plain.as_bytes())));
            assert!(!bool::from(kept.is(b"other")));
        }
    }

    /// Computed with Python's hashlib from the formulas of MySQL's protocol documentation, in the
    /// way a client does.
    #[test]
    fn a_clients_answers_are_known_from_others() {
        let salt = *b"abcdefghijklmnopqrst";
        let native: [u8; 20] = hex("185fb3fa539b902ed9d38f5adf7e52cff6dc6c0f");
        let sha2: [u8; 32] =
            hex("5d17e7e6b266049d60876ca09e117599d255600fba68d9aa67d52c855924e375");
        let kept = Password::of(b"s3cret pass");
        assert!(bool::from(kept.answers_native(&salt, &native)));
        assert!(bool::from(kept.answers_sha2(&salt, &sha2)));
        for at in 0..20 {
            let mut wrong = native;
            wrong[at] ^= 1;
            assert!(!bool::from(kept.answers_native(&salt, &wrong)));
            let mut wrong = salt;
            wrong[at] ^= 1;
            assert!(!bool::from(kept.answers_native(&wrong, &native)));
            assert!(!bool::from(kept.answers_sha2(&wrong, &sha2)));
        }
        for short in [&native[..19], &[], &[0; 21]] {
            assert!(!bool::from(kept.answers_native(&salt, short)));
            assert!(!bool::from(kept.answers_sha2(&salt, short)));
        }
        let hash_only = Password::of_native_hash(kept.native);
        assert!(bool::from(hash_only.answers_native(&salt, &native)));
        assert!(!bool::from(hash_only.answers_sha2(&salt, &sha2)));
    }

    #[test]
    fn debug_shows_no_digest() {
        let shown = format!("{:?} {:?}", Password::of(b"x"), Token::of(b"x"));
        assert_eq!(shown, "Password(not shown) Token(not shown)");
    }
}
