//! Parses the COMMENT of `CREATE TABLE ... ENGINE=PINBA`, of Pinba and of pinba2, to a definition.
//!
//! `v1` parses `kind[:params[:conditions[:percentiles]]]`, `v2` parses
//! `v2/type/window/keys/histogram/filters`; both end in the same [`Definition`], so the engine
//! never learns which it was. Called at start for the built-in and the configured reports and on a
//! front end's thread for those created later; pure, bounded by [`COMMENT_BYTES_MAX`]. Every error
//! points at the part and says what is accepted there.

use self::error::{Wrong, message, wrong};
pub(super) use self::v2::{is_status, read_hv};
use super::FixedTable;
use crate::report::definition::{Defaults, Definition};

mod conditions;
mod error;
mod v1;
mod v2;

/// Longest COMMENT, in bytes (MySQL itself allows 2048 characters).
pub const COMMENT_BYTES_MAX: usize = 8192;

/// The meaning of a COMMENT.
#[derive(Debug, Clone, PartialEq)]
pub enum Comment {
    /// A report.
    Report(Box<Definition>),
    /// A fixed table, which is not a report of the engine.
    Fixed(FixedTable),
}

impl Comment {
    /// A fixed table, which takes no parameters.
    fn fixed<'a>(table: FixedTable, params: &[&'a str]) -> Result<Self, Wrong<'a>> {
        match params {
            [] => Ok(Self::Fixed(table)),
            [first, ..] => {
                wrong(first, format!("the table {} takes no parameters", table.comment()))
            }
        }
    }
}

/// Parses a COMMENT of either engine for a report of this name (which is not checked).
///
/// # Errors
/// Fails if the COMMENT is in neither grammar, or asks for something impossible.
pub fn parse(name: &str, comment: &str, defaults: &Defaults) -> Result<Comment, String> {
    if comment.len() > COMMENT_BYTES_MAX {
        let start: String = comment.chars().take(40).collect();
        let problem = format!("is longer than {COMMENT_BYTES_MAX} bytes");
        return Err(message(&start, (start.split_at(0).0, problem)));
    }
    let read = match comment.starts_with("v2/") {
        true => v2::parse(name, comment, defaults),
        false => v1::parse(name, comment, defaults),
    };
    read.map_err(|wrong| message(comment, wrong))
}

#[cfg(test)]
mod tests;
