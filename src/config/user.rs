//! `[[user]]`: who may ask, with which role, and where the secrets that prove it are.
//!
//! `check.rs` hands over the entries as typed; each becomes a [`ConfiguredUser`], or errors with file, line and key. No
//! secret is read here: `access` does that when the daemon starts, from the files and variables that the entries name. A
//! secret that was typed into the file itself is kept as a [`Secret`], and no error repeats what may be one.

use std::path::PathBuf;

use toml::Value;

use super::error::ConfigError;
use super::file::ConfiguredReport;
use super::keys::nearest;
use super::place::{Origin, Place};
use super::secret::Secret;
use crate::limits::{USER_NAME_BYTES_MAX, USERS_MAX};

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Ask whatever can be asked.
    Read,
    /// That, and change things: make and drop reports, empty the pools.
    Admin,
}

impl Role {
    /// As it is typed: `read` or `admin`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Admin => "admin",
        }
    }
}

/// Where a secret is to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretFrom {
    /// The content of this file, less the line end.
    File(PathBuf),
    /// The value of this variable of the environment.
    Variable(String),
    /// It stands in the configuration.
    Typed(Secret),
}

/// What a password is checked against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfiguredPassword {
    /// The password itself.
    Plain(SecretFrom),
    /// What MySQL's `mysql_native_password` keeps of it: SHA1 of SHA1, 20 bytes.
    NativeHash(Secret),
}

/// An entry, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredUser {
    /// Where the entry begins.
    pub place: Place,
    /// The name to log in with.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// For HTTP basic authentication and MySQL.
    pub password: Option<ConfiguredPassword>,
    /// For HTTP bearer authentication.
    pub token: Option<SecretFrom>,
}

impl ConfiguredUser {
    /// The variables of the environment that hold its secrets.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let password = match &self.password {
            Some(ConfiguredPassword::Plain(from)) => Some(from),
            Some(ConfiguredPassword::NativeHash(_)) | None => None,
        };
        password
            .into_iter()
            .chain(&self.token)
            .filter_map(|from| match from {
                SecretFrom::Variable(name) => Some(name.as_str()),
                SecretFrom::File(_) | SecretFrom::Typed(_) => None,
            })
    }
}

/// The keys of an entry.
const KEYS: [&str; 8] = [
    "name",
    "role",
    "password_file",
    "password_env",
    "password",
    "mysql_native_hash",
    "token_file",
    "token_env",
];

/// Those whose values are no secrets themselves and may be repeated in errors.
pub(super) const SHOWN: [&str; 6] = [
    "name",
    "role",
    "password_file",
    "password_env",
    "token_file",
    "token_env",
];

const NAME: &str = "1 to 64 bytes without a colon, without control characters, and not used twice";
const HASH: &str = "\"*\" and 40 hexadecimal digits, as MySQL's mysql.user has it and SELECT PASSWORD('...') gives it";
const PASSWORDS: &str = "one of password_file, password_env, mysql_native_hash, password";

/// The users of all entries; what is wrong goes to `errors` and is left out.
pub(super) fn read(
    entries: &[ConfiguredReport],
    errors: &mut Vec<ConfigError>,
) -> Vec<ConfiguredUser> {
    if let Some(beyond) = entries.get(USERS_MAX) {
        errors.push(ConfigError::Conflict {
            place: beyond.place.clone(),
            problem: format!(
                "user: {} entries; accepted: up to {USERS_MAX}",
                entries.len()
            ),
        });
    }
    let mut users: Vec<ConfiguredUser> = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut reading = Entry { entry, errors };
        let Ok(user) = reading.read() else { continue };
        match users.iter().find(|other| other.name == user.name) {
            Some(other) => {
                let problem = format!("used by the entry at {} too", other.place);
                let _refused: Result<(), Refused> = reading.refuse("name", &problem, NAME);
            }
            None => users.push(user),
        }
    }
    users
}

/// One entry while it is read.
struct Entry<'e> {
    entry: &'e ConfiguredReport,
    errors: &'e mut Vec<ConfigError>,
}

/// Something of an entry is not accepted; the error has been pushed.
struct Refused;

impl Entry<'_> {
    fn read(&mut self) -> Result<ConfiguredUser, Refused> {
        self.refuse_unknown();
        // All first: who has a slip in each learns of each.
        let (name, role) = (self.name(), self.role());
        let (password, token) = (self.password(), self.token());
        let (password, token) = (password?, token?);
        if password.is_none() && token.is_none() {
            self.errors.push(ConfigError::Conflict {
                place: self.entry.place.clone(),
                problem: format!(
                    "user: nothing to log in with; accepted: {PASSWORDS}, or one of token_file, token_env, or both"
                ),
            });
            return Err(Refused);
        }
        Ok(ConfiguredUser {
            place: self.entry.place.clone(),
            name: name?,
            role: role?,
            password,
            token,
        })
    }

    fn refuse_unknown(&mut self) {
        for key in self.entry.table.keys() {
            if KEYS.contains(&key.as_str()) {
                continue;
            }
            self.errors.push(ConfigError::Unknown {
                // Not its value: it may be a secret under a misspelt name.
                typed: format!("user.{key}"),
                what: "setting",
                hint: match (key.as_str(), nearest(key, KEYS)) {
                    ("token", _) => {
                        "a token is kept in a file (token_file) or in the environment (token_env)"
                            .to_owned()
                    }
                    (_, Some(meant)) => format!("did you mean user.{meant}?"),
                    (_, None) => format!("[[user]] takes {}", KEYS.join(", ")),
                },
                place: self.entry.place_of(key).clone(),
            });
        }
    }

    fn name(&mut self) -> Result<String, Refused> {
        let Some(name) = self.text("name", NAME)? else {
            self.errors.push(ConfigError::Conflict {
                place: self.entry.place.clone(),
                problem: format!("user: no name; accepted: name = {NAME}"),
            });
            return Err(Refused);
        };
        if name.is_empty() {
            self.refuse("name", "empty", NAME)
        } else if name.len() > USER_NAME_BYTES_MAX {
            self.refuse("name", "too long", NAME)
        } else if name
            .chars()
            .any(|letter| letter == ':' || letter.is_control())
        {
            self.refuse("name", "a character that a name cannot have", NAME)
        } else {
            Ok(name)
        }
    }

    fn role(&mut self) -> Result<Role, Refused> {
        let accepted = "read, admin";
        match self.text("role", accepted)?.as_deref() {
            None | Some("read") => Ok(Role::Read),
            Some("admin") => Ok(Role::Admin),
            Some(_) => self.refuse("role", "no such role", accepted),
        }
    }

    fn password(&mut self) -> Result<Option<ConfiguredPassword>, Refused> {
        let keys = [
            "password_file",
            "password_env",
            "password",
            "mysql_native_hash",
        ];
        let Some(key) = self.only_one(&keys, PASSWORDS)? else {
            return Ok(None);
        };
        Ok(Some(match key {
            "mysql_native_hash" => {
                let typed = self.typed_secret(key, HASH)?;
                match native_hash(&typed) {
                    Some(hash) => ConfiguredPassword::NativeHash(Secret::new(hash)),
                    None => return self.refuse(key, "not such a hash", HASH),
                }
            }
            "password" => {
                let accepted = "a text that is not empty; better: password_file";
                let typed = self.typed_secret(key, accepted)?;
                if typed.is_empty() {
                    return self.refuse(key, "empty", accepted);
                }
                ConfiguredPassword::Plain(SecretFrom::Typed(Secret::new(typed)))
            }
            _ => ConfiguredPassword::Plain(self.secret_from(key)?),
        }))
    }

    fn token(&mut self) -> Result<Option<SecretFrom>, Refused> {
        let keys = ["token_file", "token_env"];
        match self.only_one(&keys, "one of token_file, token_env")? {
            Some(key) => self.secret_from(key).map(Some),
            None => Ok(None),
        }
    }

    /// The one of `keys` that is given.
    fn only_one(
        &mut self,
        keys: &[&'static str],
        accepted: &str,
    ) -> Result<Option<&'static str>, Refused> {
        let mut given = keys
            .iter()
            .copied()
            .filter(|key| self.entry.table.contains_key(*key));
        match (given.next(), given.next()) {
            (first, None) => Ok(first),
            (first, Some(second)) => {
                let first = first.unwrap_or_default();
                self.refuse(second, &format!("there is {first} too"), accepted)
            }
        }
    }

    /// A file or a variable that holds a secret.
    fn secret_from(&mut self, key: &'static str) -> Result<SecretFrom, Refused> {
        let accepted = if key.ends_with("_file") {
            "the path of a file that holds nothing but the secret"
        } else {
            "the name of a variable of the environment"
        };
        match self.text(key, accepted)? {
            Some(given) if given.is_empty() || given.contains(['\0', '=']) => {
                self.refuse(key, "no such name can be", accepted)
            }
            Some(given) if key.ends_with("_file") => Ok(SecretFrom::File(PathBuf::from(given))),
            Some(given) => Ok(SecretFrom::Variable(given)),
            None => Err(Refused),
        }
    }

    /// A secret that stands in the configuration; on the command line everybody on the machine could read it.
    fn typed_secret(&mut self, key: &'static str, accepted: &str) -> Result<String, Refused> {
        if matches!(self.entry.place.origin(), Origin::Flag(_)) {
            let problem = "everybody on this machine can read the command line of a process (ps)";
            return self.refuse(key, problem, "the configuration file; or password_file");
        }
        Ok(self.text(key, accepted)?.unwrap_or_default())
    }

    fn text(&mut self, key: &str, accepted: &str) -> Result<Option<String>, Refused> {
        match self.entry.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => self.refuse(key, "not a text", accepted),
        }
    }

    fn refuse<T>(&mut self, key: &str, problem: &str, accepted: &str) -> Result<T, Refused> {
        self.errors.push(ConfigError::Value {
            place: self.entry.place_of(key).clone(),
            key: format!("user.{key}"),
            problem: problem.to_owned(),
            accepted: accepted.to_owned(),
        });
        Err(Refused)
    }
}

/// "*2470C0C0..." as 20 bytes.
fn native_hash(typed: &str) -> Option<[u8; 20]> {
    let digits = typed.strip_prefix('*')?.as_bytes();
    if digits.len() != 40 {
        return None;
    }
    let mut hash = [0; 20];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests;
