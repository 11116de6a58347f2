//! What a connection has said so far: its database, its variables, who it is.

use std::collections::HashMap;

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
    /// What was SET, by lower-case name: session variables plain, user variables with their `@`.
    pub variables: HashMap<String, String>,
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
            variables: HashMap::new(),
        }
    }
}
