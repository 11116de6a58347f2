//! Parses the COMMENT of `CREATE TABLE ... ENGINE=PINBA`, of Pinba and of pinba2, to a definition.
//!
//! `v1` parses `kind[:params[:conditions[:percentiles]]]`, `v2` parses
//! `v2/type/window/keys/histogram/filters`; both end in the same [`Definition`], so the engine
//! never learns which it was. Called at start for the built-in and the configured reports and on a
//! front end's thread for those created later; pure, bounded by [`COMMENT_BYTES_MAX`]. Every error
//! points at the part and says what is accepted there.

use super::{Defaults, Definition};

mod active;
mod conditions;
mod error;
mod fixed;
pub(super) mod number;
mod v1;
mod v2;

pub use active::ActiveText;
use error::{Wrong, message, wrong};
pub use fixed::FixedTable;
pub(super) use v2::{is_status, read_hv};

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

/// Parses percentiles separated by commas: `95,99.9`.
///
/// # Errors
/// The problem with the first that is invalid, repeated or one too many.
pub fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for percent in text.split(',') {
        number::add_percentile_text(&mut list, percent)?;
    }
    Ok(list)
}

/// Which names of percentiles there are, where another was given.
pub const PERCENTILE_NAMES: &str =
    "a percentile is above 0 and at most 100, as p95 or p99_9, with six decimals at most";

/// The rank of a percentile by the name of its column, `p99_9` (`p99.9` too), in percent.
pub fn percentile_named(name: &str) -> Option<f64> {
    let rank = name.strip_prefix('p')?.replacen('_', ".", 1);
    let (whole, decimals) = rank.split_once('.').unwrap_or((&rank, "0"));
    let is_usual = (1..=3).contains(&whole.len()) && !decimals.is_empty();
    percentiles(&rank).ok().filter(|_| is_usual)?.pop()
}

/// [`PERCENTILE_NAMES`] behind a semicolon, if a name looks like one of these and is not.
pub fn percentile_hint(name: &str) -> String {
    let digit = name.strip_prefix('p').and_then(|rank| rank.chars().next());
    let is_like_one = digit.is_some_and(|it| it.is_ascii_digit());
    match is_like_one && percentile_named(name).is_none() {
        true => format!("; {PERCENTILE_NAMES}"),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests;
