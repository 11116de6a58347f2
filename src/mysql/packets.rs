//! The packets that answer: OK, EOF, ERR, and the words they are made of.
//!
//! `mysql_common` knows how a client reads them; to write OK and EOF is ours. Called by the session; nothing here
//! waits or fails.

use mysql_common::constants::{CapabilityFlags, StatusFlags};

use crate::sql::SqlError;

/// The longest text of an error, bytes: what libmysqlclient has room for.
const MESSAGE_MAX: usize = 511;

/// A number as long as it needs to be.
pub(super) fn put_number(to: &mut Vec<u8>, number: u64) {
    let bytes = number.to_le_bytes();
    match number {
        0..=250 => to.push(bytes[0]),
        251..=0xFFFF => {
            to.push(0xFC);
            to.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            to.push(0xFD);
            to.extend_from_slice(&bytes[..3]);
        }
        _ => {
            to.push(0xFE);
            to.extend_from_slice(&bytes);
        }
    }
}

/// A text with its length before it.
pub(super) fn put_text(to: &mut Vec<u8>, text: &[u8]) {
    put_number(to, text.len() as u64);
    to.extend_from_slice(text);
}

/// What the end of an answer says of the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// Autocommit, transaction, more results.
    pub(super) status: StatusFlags,
    /// Warnings of the statement.
    pub(super) warnings: u16,
}

/// OK: something was done.
pub(super) fn ok(to: &mut Vec<u8>, affected_rows: u64, info: &str, standing: Standing) {
    to.push(0x00);
    put_ok_body(to, affected_rows, info, standing);
}

fn put_ok_body(to: &mut Vec<u8>, affected_rows: u64, info: &str, standing: Standing) {
    put_number(to, affected_rows);
    put_number(to, 0);
    to.extend_from_slice(&standing.status.bits().to_le_bytes());
    to.extend_from_slice(&standing.warnings.to_le_bytes());
    if !info.is_empty() {
        put_text(to, info.as_bytes());
    }
}

/// The end of rows, as the client understands it.
pub(super) fn end_of_rows(to: &mut Vec<u8>, capabilities: CapabilityFlags, standing: Standing) {
    to.push(0xFE);
    if capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
        put_ok_body(to, 0, "", standing);
    } else {
        to.extend_from_slice(&standing.warnings.to_le_bytes());
        to.extend_from_slice(&standing.status.bits().to_le_bytes());
    }
}

/// ERR.
pub(super) fn error(to: &mut Vec<u8>, error: &SqlError) {
    to.push(0xFF);
    to.extend_from_slice(&error.code.to_le_bytes());
    to.push(b'#');
    to.extend_from_slice(error.state.as_bytes());
    to.extend_from_slice(cut(&error.message).as_bytes());
}

/// ERR before the client has said what it understands: without the state.
pub(super) fn early_error(to: &mut Vec<u8>, code: u16, message: &str) {
    to.push(0xFF);
    to.extend_from_slice(&code.to_le_bytes());
    to.extend_from_slice(cut(message).as_bytes());
}

fn cut(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_MAX)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_fewest_bytes() {
        for (number, bytes) in [
            (0, vec![0]),
            (250, vec![250]),
            (251, vec![0xFC, 251, 0]),
            (0xFFFF, vec![0xFC, 0xFF, 0xFF]),
            (0x1_0000, vec![0xFD, 0, 0, 1]),
            (0x100_0000, vec![0xFE, 0, 0, 0, 1, 0, 0, 0, 0]),
        ] {
            let mut to = Vec::new();
            put_number(&mut to, number);
            assert_eq!(to, bytes, "{number}");
        }
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let mut to = Vec::new();
        error(&mut to, &SqlError::parse("ж".repeat(400)));
        assert_eq!(to[..9], *b"\xFF\x28\x04#42000");
        assert_eq!(std::str::from_utf8(&to[9..]).unwrap(), "ж".repeat(255));
    }
}
