//! What was wrong with a COMMENT, and where.

use thiserror::Error;

/// A COMMENT that cannot be read: the part that is wrong, where it starts, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("COMMENT '{comment}', position {}, {}: {problem}", .at + 1, shown(.part))]
pub struct CommentError {
    /// The whole COMMENT.
    pub comment: String,
    /// Where the bad part starts, characters from 0.
    pub at: usize,
    /// The bad part; empty where something is missing.
    pub part: String,
    /// What is wrong with it and what is accepted, as the end of a sentence.
    pub problem: String,
}

fn shown(part: &str) -> String {
    if part.is_empty() {
        "here".to_owned()
    } else {
        format!("'{part}'")
    }
}

/// A part of a COMMENT, which is a slice of it, and what is wrong with it.
pub(super) type Wrong<'a> = (&'a str, String);

/// Says what is wrong with a part.
pub(super) fn wrong<'a, T>(part: &'a str, problem: impl Into<String>) -> Result<T, Wrong<'a>> {
    Err((part, problem.into()))
}

/// A part that was read elsewhere, or what is wrong with it.
pub(super) fn checked<T>(part: &str, read: Result<T, String>) -> Result<T, Wrong<'_>> {
    read.map_err(|problem| (part, problem))
}

impl CommentError {
    /// The error of a COMMENT a part of which is wrong.
    pub(super) fn of(comment: &str, (part, problem): Wrong<'_>) -> Self {
        // Where a slice lies in the whole.
        let at = part.as_ptr().addr() - comment.as_ptr().addr();
        Self {
            comment: comment.to_owned(),
            at: comment.get(..at).unwrap_or_default().chars().count(),
            part: part.to_owned(),
            problem,
        }
    }
}
