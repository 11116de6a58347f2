//! Errors of the wire itself; statements have the engine's.

use std::io;

use super::connections::Victim;
use crate::sql::SqlError;

/// The reason why a command failed or broke off, or why there is no packet.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    /// The client is told, and continues: what it sent was read to its end.
    #[error(transparent)]
    Reported(#[from] SqlError),
    /// The client is told, and the connection ends.
    #[error(transparent)]
    Fatal(SqlError),
    /// The client cannot be reached: it has gone, or was silent for too long.
    #[error("{0}")]
    Lost(String),
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self::Lost(format!("the client has gone: {error}"))
    }
}

impl CommandError {
    /// The error when nothing arrived, or nothing could be sent, for too long.
    pub(super) fn late(what: &str) -> Self {
        Self::Lost(what.to_owned())
    }

    /// The error after KILL of a statement or connection.
    pub(super) fn killed(victim: Victim) -> Self {
        match victim {
            Victim::Query => {
                Self::Reported(SqlError::interrupted("Query execution was interrupted"))
            }
            Victim::Connection => Self::Fatal(error(1927, "70100", "Connection was killed")),
        }
    }
}

/// An error with a number and SQLSTATE.
pub(super) fn error(code: u16, state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError { code, state, message: message.into() }
}

/// The text in these bytes.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, SqlError> {
    let message = "Invalid utf8mb4 character string; only UTF-8 is understood";
    std::str::from_utf8(bytes).map_err(|_| error(1300, "HY000", message))
}

/// The error for a packet that is truncated or lacks announced values.
pub(super) fn malformed(what: &str) -> SqlError {
    let message = format!("Malformed communication packet{what}");
    error(1835, "HY000", message)
}

/// The error for an unknown or unsupported command.
pub(super) fn unknown_command() -> SqlError {
    error(1047, "08S01", "Unknown command")
}

/// The error for an invalid login packet.
pub(super) fn bad_handshake() -> SqlError {
    error(1043, "08S01", "Bad handshake")
}

/// The error when the budget of all connections is used up.
pub(super) fn no_statement_memory() -> SqlError {
    SqlError::out_of_memory(
        "the memory of all connections is used up (mysql.memory); close statements",
    )
}
