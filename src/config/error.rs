//! What can be wrong with a configuration, in words for the person who typed it.
//!
//! Each error is one line and names the place (file and line, variable or flag), the key, the value given and what is
//! accepted. They are collected, not thrown at the first: who has three slips in a file learns of all three at once.
//! Made at start only; `main` prints them and exits with code 2.

use std::fmt;
use std::path::PathBuf;

use super::place::Place;

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file of `--config` or `PINBAD_CONFIG` cannot be read.
    #[error("{named_by}: cannot read {}: {source}", path.display())]
    Unreadable {
        /// The flag or the variable that names the file.
        named_by: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Not TOML at all.
    #[error("{place}: not valid TOML: {message}")]
    Syntax {
        /// Where the parser stumbled.
        place: Place,
        /// What it said, in one line.
        message: String,
    },
    /// A key, section or variable that does not exist.
    #[error("{place}: {typed}: unknown {what}; {hint}")]
    Unknown {
        /// Where it stands.
        place: Place,
        /// The key with its value, or the section.
        typed: String,
        /// "setting" or "section".
        what: &'static str,
        /// "did you mean ..?", or what there is.
        hint: String,
    },
    /// A known key with a value that is not accepted.
    #[error("{place}: {key} = {}: {problem}; accepted: {accepted}", place.given())]
    Value {
        /// Where the value stands.
        place: Place,
        /// The key.
        key: String,
        /// What is wrong with it, in a few words.
        problem: String,
        /// What would be right.
        accepted: String,
    },
    /// A flag or variable that cannot be read as a setting.
    #[error("{place}: {problem}")]
    Flag {
        /// Which flag or variable.
        place: Place,
        /// What is wrong with it and what is accepted.
        problem: String,
    },
    /// Two settings, each right alone, that do not go together.
    #[error("{place}: {problem}")]
    Conflict {
        /// Where the second of them stands, or the key with its default.
        place: Place,
        /// Both settings and the ways out.
        problem: String,
    },
}

/// All that is wrong with a configuration; one line each when shown. Never empty.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
