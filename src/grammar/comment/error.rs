//! Errors of COMMENTs, with positions.

/// A slice of a COMMENT, empty where something is missing, and the problem with it: with what is
/// accepted, as the end of a sentence.
pub(super) type Wrong<'a> = (&'a str, String);

/// The error for a part.
pub(super) fn wrong<'a, T>(part: &'a str, problem: impl Into<String>) -> Result<T, Wrong<'a>> {
    Err((part, problem.into()))
}

/// The result of parsing a part elsewhere.
pub(super) fn checked<T>(part: &str, read: Result<T, String>) -> Result<T, Wrong<'_>> {
    read.map_err(|problem| (part, problem))
}

/// The error for a COMMENT with a bad part, with its position in characters from 1.
pub(super) fn message(comment: &str, (part, problem): Wrong<'_>) -> String {
    // The position of a slice in the whole.
    let at = part.as_ptr().addr() - comment.as_ptr().addr();
    let at = comment.get(..at).unwrap_or_default().chars().count() + 1;
    let shown = if part.is_empty() { "here".to_owned() } else { format!("'{part}'") };
    format!("COMMENT '{comment}', position {at}, {shown}: {problem}")
}
