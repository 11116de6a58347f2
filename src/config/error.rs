//! Errors of a configuration, worded for the person who wrote it.
//!
//! Each error is one line and names its location (file and line, variable or flag), the key, the
//! value given and what is accepted. They are collected: three slips in a file are reported at
//! once. `main` prints them and exits with code 2.

use std::fmt;

use super::location::Location;

/// One problem in a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{location}: {problem}")]
pub struct ConfigError {
    /// Where it is.
    pub(super) location: Location,
    /// The problem, and what is accepted instead.
    problem: String,
    /// Whether the problem is an environment variable that no setting has.
    pub(super) is_unknown_variable: bool,
}

impl ConfigError {
    pub(super) fn new(location: Location, problem: impl Into<String>) -> Self {
        Self { location, problem: problem.into(), is_unknown_variable: false }
    }

    /// An error for a known key or list whose value at `location` is refused.
    pub(super) fn value(location: Location, key: &str, problem: &str, accepted: &str) -> Self {
        let given = location.given();
        // A question has its own mark.
        let mark = if problem.ends_with('?') { "" } else { ";" };
        Self::new(location, format!("{key} = {given}: {problem}{mark} accepted: {accepted}"))
    }
}

/// All problems of a configuration, shown one per line, and the configuration with defaults in
/// their places. Never empty.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>, pub Box<super::Config>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}
