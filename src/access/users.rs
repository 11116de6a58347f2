//! The users: names, roles and digests of their secrets.
//!
//! Built from the configuration at start, and again on reload. The files and variables that contain
//! secrets are read only here, and only digests of them are kept. The table has at most
//! [`USERS_MAX`] entries and is searched linearly: a lookup takes as long for a name that exists as
//! for one that does not.
//!
//! [`USERS_MAX`]: crate::limits::USERS_MAX

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use subtle::Choice;
use tracing::warn;

use super::digest::{Password, Token};
use super::{Identity, Role};
use crate::config::user::{ConfiguredPassword, ConfiguredUser, SecretFrom};
use crate::limits::{SECRET_BYTES_MAX, TOKEN_BYTES_MIN};
use crate::state::files;

/// A secret that cannot be used. Names the entry and the file or variable, never its content.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {key} = {from}: {problem}; accepted: {accepted}")]
pub struct SecretError {
    /// The entry.
    place: String,
    /// Name of the setting, such as `user.password_file`.
    key: String,
    /// The file or variable.
    from: String,
    problem: String,
    accepted: &'static str,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: Arc<str>,
    role: Role,
    password: Option<Password>,
    token: Option<Token>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    users: Vec<User>,
    /// Checked for unknown names, so that they take as long as known ones.
    nobody: Password,
}

const PASSWORD: &str = "1 to 1024 bytes, the line end apart";
const TOKEN: &str =
    "16 to 1024 letters, digits and -._~+/=, the line end apart, as from `openssl rand -hex 32`";

impl Users {
    /// Creates a table without users.
    pub(crate) fn none() -> Self {
        Self { users: Vec::new(), nobody: Password::of(b"") }
    }

    /// Returns the number of users.
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    /// Returns true if a user of this name is configured.
    pub(crate) fn is_configured(&self, name: &str) -> bool {
        self.users.iter().any(|user| *user.name == *name)
    }

    /// Reads the secrets of the configured users; `variable` reads the environment. Logs a warning
    /// for files that everybody may read.
    ///
    /// # Errors
    /// The first secret that cannot be read or used.
    pub(crate) fn load(
        configured: &[ConfiguredUser],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, SecretError> {
        let mut users = Self::none();
        for user in configured {
            let read = |name, from: &SecretFrom| read(user, name, from, &variable);
            let password = match &user.password {
                None => None,
                Some(ConfiguredPassword::NativeHash(hash)) => {
                    hash.reveal().try_into().ok().map(Password::of_native_hash)
                }
                Some(ConfiguredPassword::Plain(from)) => {
                    if matches!(from, SecretFrom::Inline(_)) {
                        warn!(
                            user = user.name,
                            place = %user.location,
                            "The configuration has a password in plain text; password_file or mysql_native_hash would keep \
                             it out."
                        );
                    }
                    Some(Password::of(&read("password", from)?))
                }
            };
            let token = user.token.as_ref().map(|from| read("token", from));
            let token = token.transpose()?.map(|token| Token::of(&token));
            users.users.push(User {
                name: user.name.as_str().into(),
                role: user.role,
                password,
                token,
            });
        }
        Ok(users)
    }

    /// Returns true if there are no users.
    pub(crate) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Gives users that are unchanged since `before` the same name pointer, which [`Users::has`]
    /// compares.
    pub(super) fn stay(&mut self, before: &Self) {
        for user in &mut self.users {
            let same = before.users.iter().find(|known| *known == user);
            if let Some(same) = same {
                user.name = Arc::clone(&same.name);
            }
        }
    }

    /// Returns true if the user with this name pointer still exists, with the same role and
    /// secrets.
    pub(super) fn has(&self, name: &Arc<str>) -> bool {
        self.users.iter().any(|user| Arc::ptr_eq(&user.name, name))
    }

    /// Returns the user called `name` if the password passes `check`, which runs in any case.
    pub(super) fn by_password(
        &self,
        name: &str,
        check: impl FnOnce(&Password) -> Choice,
    ) -> Option<Identity> {
        let user = self.users.iter().find(|user| &*user.name == name);
        let password = user.and_then(|user| user.password.as_ref());
        let right = check(password.unwrap_or(&self.nobody));
        // Bitwise, not short-circuit: the digest of "" does not let in those that have no password.
        let known = Choice::from(u8::from(password.is_some()));
        user.filter(|_| bool::from(right & known)).map(identity)
    }

    /// Returns the user of a token.
    pub(super) fn by_token(&self, token: &[u8]) -> Option<Identity> {
        let given = Token::of(token);
        let has = |kept: &Token| bool::from(kept.is(&given));
        // Always compares with all users, whichever it is.
        let found = self.users.iter().fold(None, |found, user| {
            let is_this = user.token.as_ref().is_some_and(has);
            if is_this { Some(user) } else { found }
        });
        found.map(identity)
    }
}

fn identity(user: &User) -> Identity {
    Identity { name: Some(Arc::clone(&user.name)), role: user.role }
}

/// Reads the bytes of a password or token, as `name` says.
fn read(
    user: &ConfiguredUser,
    name: &str,
    from: &SecretFrom,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<u8>, SecretError> {
    let (source, shown, bytes) = match from {
        SecretFrom::Inline(secret) => ("", "(not shown)".to_owned(), Ok(secret.reveal().to_vec())),
        SecretFrom::File(path) => {
            let bytes = read_secret(path, SECRET_BYTES_MAX);
            let bytes = bytes.and_then(|bytes| match bytes.contains(&b'\n') {
                true => Err("more than one line".to_owned()),
                false => Ok(bytes),
            });
            ("_file", path.display().to_string(), bytes)
        }
        SecretFrom::Variable(name) => {
            let bytes = variable(name).map(OsString::into_encoded_bytes);
            let bytes = bytes.ok_or_else(|| "there is no such variable".to_owned());
            ("_env", name.clone(), bytes)
        }
    };
    let is_token = name == "token";
    let bytes = bytes.and_then(|bytes| trimmed(bytes, SECRET_BYTES_MAX));
    let checked = bytes.and_then(|bytes| {
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
        let problem = if is_token && bytes.len() < TOKEN_BYTES_MIN {
            "too short, it could be guessed"
        } else if is_token && !bytes.iter().all(fits) {
            "a character that a token cannot have"
        } else {
            return Ok(bytes);
        };
        Err(problem.to_owned())
    });
    checked.map_err(|problem| SecretError {
        place: user.location.to_string(),
        key: format!("user.{name}{source}"),
        from: shown,
        problem,
        accepted: if is_token { TOKEN } else { PASSWORD },
    })
}

/// Reads a secret of at most `bytes_max` bytes from a file, without the line end.
///
/// # Errors
/// The reason why there is none.
pub fn read_secret(path: &Path, bytes_max: usize) -> Result<Vec<u8>, String> {
    // Room for a line end of two bytes, and for one byte that shows that the secret is too long.
    let bytes = read_file(path, bytes_max + 3, true);
    bytes.and_then(|bytes| trimmed(bytes, bytes_max))
}

fn trimmed(mut bytes: Vec<u8>, bytes_max: usize) -> Result<Vec<u8>, String> {
    while let Some(b'\n' | b'\r') = bytes.last() {
        bytes.pop();
    }
    match bytes.len() {
        0 => Err("empty".to_owned()),
        length if length <= bytes_max => Ok(bytes),
        _ => Err(format!("too long, more than {bytes_max} bytes")),
    }
}

/// Reads at most `bytes_max` bytes of a regular file. Logs a warning if it contains a `secret` and
/// all users of the machine may read it.
pub(super) fn read_file(path: &Path, bytes_max: usize, secret: bool) -> Result<Vec<u8>, String> {
    let file = files::open_named(path)?;
    if secret {
        warn_if_open(path, &file);
    }
    let mut bytes = Vec::new();
    let read = file.take(bytes_max as u64).read_to_end(&mut bytes);
    read.map(|_| bytes).map_err(|error| error.to_string())
}

/// Warns if all users of the machine may read a file that contains a secret.
fn warn_if_open(path: &Path, file: &std::fs::File) {
    let mode = file.metadata().map(|data| data.permissions().mode());
    if mode.is_ok_and(|mode| mode & 0o004 != 0) {
        warn!(
            file = %path.display(),
            "Everybody on this machine can read this file, which holds a secret; chmod o-r would prevent that."
        );
    }
}

#[cfg(test)]
mod tests;
