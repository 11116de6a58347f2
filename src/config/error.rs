//! What is wrong with a configuration, in words for the person who wrote it.
//!
//! Each error is one line and names its location (file and line, variable or flag), the key, the value given and what is
//! accepted. They are collected: three slips in a file are reported at once. `main` prints them and exits with code 2.

use std::fmt;

use super::location::Location;

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct ConfigError {
    /// Where.
    pub(super) location: Location,
    /// What, and what is accepted instead.
    problem: String,
    /// Whether it is only that no setting has this variable.
    pub(super) is_unknown_variable: bool,
}

impl ConfigError {
    pub(super) fn new(location: Location, problem: impl Into<String>) -> Self {
        Self {
            location,
            problem: problem.into(),
            is_unknown_variable: false,
        }
    }

    /// A known key, or list, whose value at `location` is not accepted.
    pub(super) fn value(location: Location, key: &str, problem: &str, accepted: &str) -> Self {
        let given = location.given();
        Self::new(
            location,
            format!("{key} = {given}: {problem}; accepted: {accepted}"),
        )
    }
}

/// All that is wrong with a configuration; one line each when shown. Never empty.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
