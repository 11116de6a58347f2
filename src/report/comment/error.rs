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
