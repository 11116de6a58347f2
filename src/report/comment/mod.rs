//! The COMMENT of `CREATE TABLE ... ENGINE=PINBA`, of Pinba and of pinba2, made into a definition.
//!
//! `v1` reads `kind[:params[:conditions[:percentiles]]]`, `v2` reads `v2/type/window/keys/histogram/filters`; both
//! end in the same [`Definition`], so the engine never learns which it was. Called at start for the built-in and the
//! configured reports and on a front end's thread for those made later; pure, bounded by [`COMMENT_BYTES_MAX`].
//! Whatever is wrong is told as a [`CommentError`] that points at the part and says what is accepted there.

use super::definition::{Defaults, Definition};

mod active;
mod conditions;
mod error;
mod fixed;
pub(super) mod number;
mod v1;
mod v2;

pub use active::ActiveText;
pub use error::CommentError;
use error::{Wrong, wrong};
pub use fixed::FixedTable;
pub(super) use v2::{is_status, read_hv};

/// Longest COMMENT that is read, bytes (MySQL itself allows 2048 characters).
pub const COMMENT_BYTES_MAX: usize = 8192;

/// What a COMMENT asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Comment {
    /// A report.
    Report(Box<Definition>),
    /// A table that is always there and is not a report of the engine.
    Fixed(FixedTable),
}

impl Comment {
    /// A table that is always there, which takes no parameters.
    fn fixed<'a>(table: FixedTable, params: &[&'a str]) -> Result<Self, Wrong<'a>> {
        match params {
            [] => Ok(Self::Fixed(table)),
            [first, ..] => {
                let name = table.comment();
                wrong(first, format!("the table {name} takes no parameters"))
            }
        }
    }
}

/// Reads a COMMENT of either engine for a report of this name (the name is not looked at).
///
/// # Errors
/// When the COMMENT is not of either grammar, or asks for what cannot be.
pub fn parse(name: &str, comment: &str, defaults: &Defaults) -> Result<Comment, CommentError> {
    if comment.len() > COMMENT_BYTES_MAX {
        return Err(CommentError {
            comment: comment.chars().take(40).collect(),
            at: 0,
            part: String::new(),
            problem: format!("is longer than {COMMENT_BYTES_MAX} bytes"),
        });
    }
    let read = match comment.starts_with("v2/") {
        true => v2::parse(name, comment, defaults),
        false => v1::parse(name, comment, defaults),
    };
    read.map_err(|wrong| CommentError::of(comment, wrong))
}

/// Percentiles with commas between them: `95,99.9`.
///
/// # Errors
/// What is wrong with the first that is none, is there twice or is one too many.
pub fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for percent in text.split(',') {
        number::add_percentile_text(&mut list, percent)?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
