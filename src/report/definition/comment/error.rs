//! Errors of COMMENTs, with positions.

use thiserror::Error;

/// An invalid COMMENT: the part at fault, its position, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("COMMENT '{comment}', position {}, {}: {problem}", .at + 1, shown(.part))]
pub struct CommentError {
    /// The whole COMMENT.
    pub comment: String,
    /// Start of the bad part, in characters from 0.
    pub at: usize,
    /// The bad part; empty where something is missing.
    pub part: String,
    /// The problem and what is accepted, as the end of a sentence.
    pub problem: String,
}

fn shown(part: &str) -> String {
    if part.is_empty() { "here".to_owned() } else { format!("'{part}'") }
}

/// A slice of a COMMENT, and the problem with it.
pub(super) type Wrong<'a> = (&'a str, String);

/// The error for a part.
pub(super) fn wrong<'a, T>(part: &'a str, problem: impl Into<String>) -> Result<T, Wrong<'a>> {
    Err((part, problem.into()))
}

/// The result of parsing a part elsewhere.
pub(super) fn checked<T>(part: &str, read: Result<T, String>) -> Result<T, Wrong<'_>> {
    read.map_err(|problem| (part, problem))
}

impl CommentError {
    /// The error for a COMMENT with a bad part.
    pub(super) fn of(comment: &str, (part, problem): Wrong<'_>) -> Self {
        // The position of a slice in the whole.
        let at = part.as_ptr().addr() - comment.as_ptr().addr();
        Self {
            comment: comment.to_owned(),
            at: comment.get(..at).unwrap_or_default().chars().count(),
            part: part.to_owned(),
            problem,
        }
    }
}
