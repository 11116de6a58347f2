//! `[[user]]`: who may log in, with which role, and where their secrets are.
//!
//! Each entry becomes a [`ConfiguredUser`], or errors with file, line and key. No secret is read
//! here: `access` does that when the daemon starts, from the files and variables that the entries
//! name. A secret given in the configuration itself is kept as a [`Secret`], and no error repeats a
//! possible one.

use std::path::PathBuf;

use super::kinds::{Kind, choice};
use super::list_entry::EntryReader;
use super::location::{Location, Origin};
use super::raw_value::SHOWN;
use super::secret::Secret;
use crate::limits::USER_NAME_BYTES_MAX;
use crate::telemetry::counter::counted;

counted! {
    /// The permissions of a user, by their names in the configuration.
    #[derive(PartialOrd, Ord)]
    Role {
        /// Read everything.
        Read = "read",
        /// `Read`, plus creating annotations and silences: for scripts that deploy.
        Annotate = "annotate",
        /// `Annotate`, plus creating and dropping reports, removing annotations, emptying the
        /// pools.
        Admin = "admin",
    }
}

/// The place of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    /// The content of a file, without the line end.
    File(PathBuf),
    /// The value of an environment variable.
    Variable(String),
    /// The configuration itself.
    Inline(Secret),
}

/// How to check a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfiguredPassword {
    /// Against the password itself.
    Plain(SecretFrom),
    /// Against the hash of MySQL's `mysql_native_password`: SHA1 of SHA1, 20 bytes.
    NativeHash(Secret),
}

/// A checked entry.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredUser {
    /// Where the entry begins.
    pub location: Location,
    /// The name to log in with.
    pub name: String,
    /// The user's permissions.
    pub role: Role,
    /// Password for HTTP basic authentication and MySQL.
    pub password: Option<ConfiguredPassword>,
    /// Token for HTTP bearer authentication.
    pub token: Option<SecretFrom>,
}

impl ConfiguredUser {
    /// The environment variables that hold its secrets.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        let password = match &self.password {
            Some(ConfiguredPassword::Plain(from)) => Some(from),
            Some(ConfiguredPassword::NativeHash(_)) | None => None,
        };
        password.into_iter().chain(&self.token).filter_map(|from| match from {
            SecretFrom::Variable(name) => Some(name.as_str()),
            SecretFrom::File(_) | SecretFrom::Inline(_) => None,
        })
    }
}

/// The keys whose values are secrets.
const SECRETS: [&str; 2] = ["password", "mysql_native_hash"];
const PASSWORD_KEYS: [&str; 4] = ["password_file", "password_env", "password", "mysql_native_hash"];
const TOKEN_KEYS: [&str; 2] = ["token_file", "token_env"];

const NAME: &str = "1 to 64 bytes without a colon, without control characters, and not used twice";
const HASH: &str = "\"*\" and 40 hexadecimal digits, as MySQL's mysql.user has it and SELECT PASSWORD('...') gives it";
const PASSWORDS: &str = "one of password_file, password_env, mysql_native_hash, password";
const TOKENS: &str = "one of token_file, token_env";

impl EntryReader<'_> {
    /// Reads a user.
    pub(super) fn user(&mut self, before: &[ConfiguredUser]) -> Option<ConfiguredUser> {
        self.refuse_unknown(&[&SHOWN[..], &SECRETS].concat(), |key| {
            let hint = "a token is kept in a file (token_file) or in the environment (token_env)";
            (key == "token").then(|| hint.to_owned())
        });
        let name = self.required("name", &user_name());
        let roles =
            choice(&[("read", Role::Read), ("annotate", Role::Annotate), ("admin", Role::Admin)]);
        let role = self.read("role", &roles).unwrap_or(Role::Read);
        let (password, token) = (self.password(), self.token());
        if self.given(PASSWORD_KEYS).is_empty() && self.given(TOKEN_KEYS).is_empty() {
            let accepted = format!("{PASSWORDS}, or {TOKENS}, or both");
            return self.missing("nothing to log in with", &accepted);
        }
        let name = name?;
        if let Some(other) = before.iter().find(|other| other.name == name) {
            let problem = format!("used by the entry at {} too", other.location);
            return self.refuse("name", &problem, NAME);
        }
        Some(ConfiguredUser { location: self.entry.location.clone(), name, role, password, token })
    }

    fn password(&mut self) -> Option<ConfiguredPassword> {
        let key = self.only_one(PASSWORD_KEYS, PASSWORDS)?;
        if SECRETS.contains(&key) && matches!(self.entry.location.origin(), Origin::Flag(_)) {
            let problem = "everybody on this machine can read the command line of a process (ps)";
            return self.refuse(key, problem, "the configuration file; or password_file");
        }
        match key {
            "password" => self.read(key, &inline()).map(ConfiguredPassword::Plain),
            "mysql_native_hash" => self.read(key, &native_hash()),
            _ => self.read(key, &secret_from(key)).map(ConfiguredPassword::Plain),
        }
    }

    fn token(&mut self) -> Option<SecretFrom> {
        let key = self.only_one(TOKEN_KEYS, TOKENS)?;
        self.read(key, &secret_from(key))
    }

    /// Returns the one of `keys` that is given.
    fn only_one<const N: usize>(
        &mut self,
        keys: [&'static str; N],
        accepted: &str,
    ) -> Option<&'static str> {
        match self.given(keys)[..] {
            [] => None,
            [key] => Some(key),
            [first, second, ..] => self.refuse(second, &format!("there is {first} too"), accepted),
        }
    }
}

fn user_name() -> Kind<String> {
    Kind::new(NAME, |given| {
        let name = given.text().ok_or("not a text")?;
        let is_wrong = |letter: char| letter == ':' || letter.is_control();
        match name {
            "" => Err("empty".into()),
            _ if name.len() > USER_NAME_BYTES_MAX => Err("too long".into()),
            _ if name.contains(is_wrong) => Err("a character that a name cannot have".into()),
            _ => Ok(name.to_owned()),
        }
    })
}

/// A file or a variable that holds a secret.
fn secret_from(key: &str) -> Kind<SecretFrom> {
    let is_file = key.ends_with("_file");
    let accepted = match is_file {
        true => "the path of a file that holds nothing but the secret",
        false => "the name of a variable of the environment",
    };
    Kind::new(accepted, move |given| {
        let name = given.text().ok_or("not a text")?;
        if name.is_empty() || name.contains(['\0', '=']) {
            return Err("no such name can be".into());
        }
        Ok(match is_file {
            true => SecretFrom::File(PathBuf::from(name)),
            false => SecretFrom::Variable(name.to_owned()),
        })
    })
}

/// A password that stands in the configuration.
fn inline() -> Kind<SecretFrom> {
    let accepted = "a text that is not empty; better: password_file";
    Kind::new(accepted, |given| match given.text().ok_or("not a text")? {
        "" => Err("empty".into()),
        password => Ok(SecretFrom::Inline(Secret::new(password))),
    })
}

/// Parses "*2470C0C0..." into 20 bytes.
fn native_hash() -> Kind<ConfiguredPassword> {
    Kind::new(HASH, |given| {
        let digits = given.text().and_then(|text| text.strip_prefix('*'));
        let digits = digits.filter(|digits| digits.len() == 40);
        let bytes = digits.and_then(|digits| {
            let pairs = digits.as_bytes().chunks_exact(2);
            let digit = |byte: u8| char::from(byte).to_digit(16);
            pairs
                .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
                .collect::<Option<Vec<u8>>>()
        });
        let hash = Secret::new(bytes.ok_or("not such a hash")?);
        Ok(ConfiguredPassword::NativeHash(hash))
    })
}

#[cfg(test)]
mod tests;
