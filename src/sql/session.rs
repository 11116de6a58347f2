//! The state of a connection: its database, its variables, its user.
//!
//! A front end creates one per connection and passes it to the engine with each statement; USE, SET
//! and transactions change it. Variables are bounded: names of 64 characters, and
//! [`SESSION_BYTES_MAX`] for all names and values together.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::error::SqlError;
use crate::limits::SESSION_BYTES_MAX;

/// Longest name of a variable, as in MySQL.
const NAME_CHARS_MAX: usize = 64;

/// Overhead of a variable, in addition to its name and value: its share of a table that has just
/// grown, and of the heap.
const VARIABLE_BYTES: usize = 160;

/// A value given for a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// An integer beyond `i64`.
    UInt(u64),
    /// A decimal, in digits.
    Decimal(String),
    /// A double.
    Float(f64),
    /// Text.
    Text(String),
}

/// Shows the value without quotes.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Decimal(value) | Self::Text(value) => value.fmt(f),
        }
    }
}

/// A connection, as the engine sees it.
#[derive(Debug, Clone)]
pub struct Session {
    /// The default database.
    pub database: Option<String>,
    /// The user as in `USER()`: `name@host`.
    pub user: String,
    /// Whether reports may be created and dropped.
    pub admin: bool,
    /// `CONNECTION_ID()`.
    pub id: u64,
    /// `Ssl_cipher` and `Ssl_version`; empty without TLS.
    pub tls: [String; 2],
    /// Whether a transaction is open. It has no effect on reads.
    pub in_transaction: bool,
    /// Variables that were SET, by lower-case name. Shared with the running statement.
    pub variables: Arc<HashMap<String, String>>,
    /// Warnings of the last statement without rows.
    pub warnings: Vec<String>,
    /// User variables, by lower-case name without the `@`.
    pub user_variables: Arc<HashMap<String, Literal>>,
}

impl Session {
    /// A session on database `pinba`.
    pub fn new(id: u64, user: impl Into<String>, admin: bool) -> Self {
        Self {
            database: Some("pinba".to_owned()),
            user: user.into(),
            admin,
            id,
            tls: Default::default(),
            in_transaction: false,
            variables: Arc::default(),
            warnings: Vec::new(),
            user_variables: Arc::default(),
        }
    }

    /// Whether each statement is a transaction of its own.
    pub fn autocommit(&self) -> bool {
        self.variables.get("autocommit").is_none_or(|value| value != "OFF")
    }

    /// Whether `sql_mode` contains this word.
    pub(super) fn has_mode(&self, word: &str) -> bool {
        let modes = self.variables.get("sql_mode");
        modes.is_some_and(|modes| {
            let mut modes = modes.split(',').map(str::trim);
            modes.any(|mode| mode.eq_ignore_ascii_case(word))
        })
    }

    /// The session's time zone.
    pub(super) fn time_zone(&self) -> &str {
        self.variables.get("time_zone").map_or("SYSTEM", String::as_str)
    }

    /// The fixed time of the session's clock, if it was SET.
    pub(super) fn timestamp(&self) -> Option<DateTime<Utc>> {
        let seconds: f64 = self.number("timestamp").filter(|seconds| *seconds > 0.0)?;
        DateTime::from_timestamp_micros((seconds * 1e6) as i64)
    }

    /// A numeric variable that was SET.
    pub(super) fn number<T: FromStr>(&self, name: &str) -> Option<T> {
        self.variables.get(name)?.parse().ok()
    }

    /// Sets a system variable; `None` restores its default.
    pub(super) fn set(&mut self, name: &str, value: Option<String>) -> Result<(), SqlError> {
        let Some(value) = value else {
            Arc::make_mut(&mut self.variables).remove(name);
            return Ok(());
        };
        let known = self.variables.get(name).map(String::len);
        self.check_room(name, known, value.len())?;
        Arc::make_mut(&mut self.variables).insert(name.to_owned(), value);
        Ok(())
    }

    /// Restores variables to their values before a statement.
    pub(super) fn put_back<'a>(
        &mut self,
        before: &HashMap<String, String>,
        names: impl Iterator<Item = &'a str>,
    ) {
        let variables = Arc::make_mut(&mut self.variables);
        for name in names {
            match before.get(name) {
                Some(value) => variables.insert(name.to_owned(), value.clone()),
                None => variables.remove(name),
            };
        }
    }

    /// A copy for a query that serves another statement: `sql_select_limit` is for answers.
    pub(super) fn without_row_limit(&self) -> Self {
        let mut copy = self.clone();
        Arc::make_mut(&mut copy.variables).remove("sql_select_limit");
        copy
    }

    /// Sets a user variable.
    pub(super) fn set_own(&mut self, name: &str, value: Literal) -> Result<(), SqlError> {
        let known = self.user_variables.get(name).map(Literal::text_bytes);
        self.check_room(name, known, value.text_bytes())?;
        Arc::make_mut(&mut self.user_variables).insert(name.to_owned(), value);
        Ok(())
    }

    /// Checks whether there is room for a value of `size` bytes under this name, where one of
    /// `known` bytes may exist.
    fn check_room(&self, name: &str, known: Option<usize>, size: usize) -> Result<(), SqlError> {
        if let Some((end, _)) = name.char_indices().nth(NAME_CHARS_MAX) {
            return Err(SqlError::too_long_name(format!(
                "Identifier name '{}...' is too long; a variable's may have {NAME_CHARS_MAX} characters",
                &name[..end]
            )));
        }
        let one = |name: &str, size: usize| VARIABLE_BYTES + name.len() + size;
        let system = self.variables.iter();
        let own = self.user_variables.iter();
        let kept = system.map(|(name, value)| one(name, value.len())).sum::<usize>()
            + own.map(|(name, value)| one(name, value.text_bytes())).sum::<usize>();
        let bytes = kept - known.map_or(0, |known| one(name, known)) + one(name, size);
        if bytes > SESSION_BYTES_MAX {
            return Err(SqlError::wrong_arguments(format!(
                "the variables of a session may have {SESSION_BYTES_MAX} bytes together, names and values and \
                 {VARIABLE_BYTES} for each; with '{name}' it would be {bytes}"
            )));
        }
        Ok(())
    }
}

impl Literal {
    /// Bytes on the heap.
    fn text_bytes(&self) -> usize {
        match self {
            Self::Decimal(text) | Self::Text(text) => text.len(),
            Self::Null | Self::Int(_) | Self::UInt(_) | Self::Float(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session with as many variables of this length as allowed, and its size on the heap.
    fn filled(value: usize) -> (Session, usize) {
        let mut session = Session::new(1, "me@here", false);
        let text = "x".repeat(value);
        let mut count = 0;
        let refused = loop {
            let name = format!("v{count}");
            let set = match count % 2 {
                0 => session.set(&name, Some(text.clone())),
                _ => session.set_own(&name, Literal::Text(text.clone())),
            };
            match set {
                Ok(()) => count += 1,
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.code, 1210, "{refused}");
        assert_has!(refused.message => "65536 bytes together");
        (session, count)
    }

    #[test]
    fn all_variables_of_a_session_have_64_kib_together() {
        for (value, least, most) in [(0, 350, 410), (10, 300, 390), (10_000, 6, 6), (60_000, 1, 1)]
        {
            let (session, count) = filled(value);
            assert!((least..=most).contains(&count), "{count} of {value} bytes");
            let tables = session.variables.capacity() * (size_of::<(String, String)>() + 1)
                + session.user_variables.capacity() * (size_of::<(String, Literal)>() + 1);
            let texts = count * (value + 2 * 24);
            assert!(tables * 8 / 7 + texts < SESSION_BYTES_MAX, "{tables} and {texts}");
        }
    }

    #[test]
    fn a_value_that_takes_the_place_of_another_needs_room_for_itself_only() {
        let mut session = Session::new(1, "me@here", false);
        for length in [60_000, 1, 65_000] {
            session.set("a", Some("x".repeat(length))).unwrap();
        }
        assert_eq!(session.set_own("a", Literal::Text("x".repeat(1000))).unwrap_err().code, 1210);
        session.set("a", None).unwrap();
        session.set_own("a", Literal::Text("x".repeat(1000))).unwrap();
    }

    #[test]
    fn names_have_an_end() {
        let mut session = Session::new(1, "me@here", false);
        let name = "ж".repeat(64);
        session.set_own(&name, Literal::Int(1)).unwrap();
        let refused = session.set_own(&format!("{name}x"), Literal::Int(1)).unwrap_err();
        assert_eq!((refused.code, refused.state), (1059, "42000"));
        assert!(refused.message.starts_with(&format!("Identifier name '{name}...'")), "{refused}");
        assert_eq!(session.set(&"x".repeat(900_000), Some("1".to_owned())).unwrap_err().code, 1059);
    }

    #[test]
    fn a_statement_does_not_copy_what_was_set() {
        let (session, _) = filled(1000);
        let lent = session.clone();
        assert!(Arc::ptr_eq(&session.variables, &lent.variables));
        assert!(Arc::ptr_eq(&session.user_variables, &lent.user_variables));
    }
}
