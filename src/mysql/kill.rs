//! `KILL [HARD|SOFT] [CONNECTION|QUERY] n`: the one statement that the wire handles itself, because
//! it concerns connections.

use super::connections::Victim;
use crate::sql::SqlError;

/// A parsed KILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kill {
    /// The number of the connection.
    pub(super) id: u64,
    pub(super) victim: Victim,
}

/// Parses a KILL; `None` for any other statement.
pub(super) fn parse(text: &str) -> Option<Result<Kill, SqlError>> {
    let mut words = without_comments(text).split_ascii_whitespace();
    if !words.next()?.eq_ignore_ascii_case("kill") {
        return None;
    }
    let rest = words.collect::<Vec<_>>().join(" ").to_ascii_lowercase();
    let rest = rest.trim_end_matches([';', ' ']);
    let rest = rest.strip_prefix("hard ").or(rest.strip_prefix("soft ")).unwrap_or(rest);
    let (victim, id) = match rest.strip_prefix("query ") {
        Some(id) => (Victim::Query, id),
        None => (Victim::Connection, rest.strip_prefix("connection ").unwrap_or(rest)),
    };
    let wrong =
        "KILL takes [CONNECTION | QUERY] and the number of a connection, as in KILL QUERY 7";
    Some(id.parse().map(|id| Kill { id, victim }).map_err(|_| SqlError::parse(wrong)))
}

/// The text after leading comments.
fn without_comments(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(rest) = text.strip_prefix("/*") {
        match rest.split_once("*/") {
            Some((comment, after)) if !comment.starts_with(['!', 'M']) => text = after.trim_start(),
            _ => break,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_told_from_other_statements() {
        let kill = |text| parse(text).map(|kill| kill.map(|kill| (kill.id, kill.victim)));
        assert_eq!(kill("SELECT 1"), None);
        assert_eq!(kill(""), None);
        assert_eq!(kill("KILL 7"), Some(Ok((7, Victim::Connection))));
        assert_eq!(kill("kill hard query 7;"), Some(Ok((7, Victim::Query))));
        assert_eq!(kill("/* by hand */ Kill Connection 8 ; "), Some(Ok((8, Victim::Connection))));
        for wrong in ["KILL", "KILL QUERY", "KILL x", "KILL 1 2", "KILL -1"] {
            assert_eq!(kill(wrong).unwrap().unwrap_err().code, 1064, "{wrong}");
        }
    }
}
