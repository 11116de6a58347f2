//! What a connection has said so far: its database, its variables, who it is.
//!
//! A front end makes one per connection and lends it to the engine with each statement; USE, SET and the words of transactions
//! change it. What can be SET is bounded: 1,000 names of each kind, 64 KiB each.

use std::collections::HashMap;

use super::error::SqlError;

/// Variables that a session may set, of each kind.
const VARIABLES_MAX: usize = 1_000;

/// Bytes in the value of one.
const VALUE_MAX: usize = 64 << 10;

/// A value given for a `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// A whole number.
    Int(i64),
    /// A whole number beyond `i64`.
    UInt(u64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
}

/// One connection, as the engine sees it.
#[derive(Debug, Clone)]
pub struct Session {
    /// The database of names without one.
    pub database: Option<String>,
    /// Who asks, as `USER()` says it: `name@host`.
    pub user: String,
    /// Whether reports may be made and dropped.
    pub admin: bool,
    /// `CONNECTION_ID()`.
    pub id: u64,
    /// Whether a transaction was begun and not ended. It has no effect on what is read.
    pub in_transaction: bool,
    /// What was SET, by lower-case name.
    pub variables: HashMap<String, String>,
    /// The user's own variables, by lower-case name without its `@`.
    pub user_variables: HashMap<String, Literal>,
}

impl Session {
    /// A session on database `pinba`.
    #[must_use]
    pub fn new(id: u64, user: impl Into<String>, admin: bool) -> Self {
        Self {
            database: Some("pinba".to_owned()),
            user: user.into(),
            admin,
            id,
            in_transaction: false,
            variables: HashMap::new(),
            user_variables: HashMap::new(),
        }
    }

    /// Whether each statement is a transaction of its own.
    #[must_use]
    pub fn autocommit(&self) -> bool {
        !self
            .variables
            .get("autocommit")
            .is_some_and(|value| value == "0" || value.eq_ignore_ascii_case("off"))
    }

    /// Remembers a system variable; `None` for its default.
    pub(super) fn set(&mut self, name: &str, value: Option<String>) -> Result<(), SqlError> {
        let Some(value) = value else {
            self.variables.remove(name);
            return Ok(());
        };
        check_room(
            self.variables.len(),
            self.variables.contains_key(name),
            value.len(),
        )?;
        self.variables.insert(name.to_owned(), value);
        Ok(())
    }

    /// Remembers a variable of the user's.
    pub(super) fn set_own(&mut self, name: &str, value: Literal) -> Result<(), SqlError> {
        let size = match &value {
            Literal::Text(text) => text.len(),
            _ => 0,
        };
        check_room(
            self.user_variables.len(),
            self.user_variables.contains_key(name),
            size,
        )?;
        self.user_variables.insert(name.to_owned(), value);
        Ok(())
    }
}

fn check_room(count: usize, known: bool, size: usize) -> Result<(), SqlError> {
    if size > VALUE_MAX {
        return Err(SqlError::wrong_arguments(format!(
            "a variable may have {VALUE_MAX} bytes, not {size}"
        )));
    }
    if count >= VARIABLES_MAX && !known {
        return Err(SqlError::wrong_arguments(format!(
            "a session may set {VARIABLES_MAX} variables"
        )));
    }
    Ok(())
}
