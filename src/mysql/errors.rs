//! Errors of the wire itself; statements have the engine's.

use super::frames::FrameError;
use crate::sql::SqlError;

/// An error with a number and SQLSTATE.
pub(super) fn error(code: u16, state: &'static str, message: impl Into<String>) -> SqlError {
    SqlError { code, state, message: message.into() }
}

/// The error for a text that is not UTF-8.
pub(super) fn not_utf8() -> SqlError {
    let message = "Invalid utf8mb4 character string; only UTF-8 is understood";
    error(1300, "HY000", message)
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

impl FrameError {
    /// The error to send to the client; `None` if it cannot be reached.
    pub(super) fn answer(&self) -> Option<SqlError> {
        Some(match self {
            Self::Gone(_) | Self::Tls(_) | Self::Late(_) => return None,
            Self::OutOfOrder => error(1156, "08S01", "Got packets out of order"),
            Self::TooLarge(limit) => {
                let message = format!(
                    "Got a packet bigger than 'max_allowed_packet' bytes ({limit}; mysql.packet_max)"
                );
                SqlError::packet_too_large(message)
            }
            Self::NoMemory => SqlError::out_of_memory(
                "the memory for large packets is used up (mysql.memory); ask again in a moment",
            ),
        })
    }
}
