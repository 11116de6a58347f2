//! The response packets OK, EOF and ERR.
//!
//! `mysql_common` can parse them, but not write OK and EOF. Called by the session; nothing here
//! waits or fails.

use mysql_common::constants::{CapabilityFlags, StatusFlags};

use crate::sql::SqlError;

/// Longest error message, in bytes: libmysqlclient has no room for more.
const MESSAGE_MAX: usize = 511;

/// OK: a statement without rows was executed, with this many warnings.
pub(super) fn ok(to: &mut Vec<u8>, status: StatusFlags, warnings: u16) {
    put_ok(to, 0x00, status, warnings);
}

/// An OK packet that begins with this byte. Nothing is ever changed, so no row is affected, and
/// there is no id of a new one.
fn put_ok(to: &mut Vec<u8>, head: u8, status: StatusFlags, warnings: u16) {
    to.extend_from_slice(&[head, 0, 0]);
    to.extend_from_slice(&status.bits().to_le_bytes());
    to.extend_from_slice(&warnings.to_le_bytes());
}

/// The end of rows, as the client understands it: without warnings.
pub(super) fn end_of_rows(to: &mut Vec<u8>, capabilities: CapabilityFlags, status: StatusFlags) {
    if capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
        return put_ok(to, 0xFE, status, 0);
    }
    to.extend_from_slice(&[0xFE, 0, 0]);
    to.extend_from_slice(&status.bits().to_le_bytes());
}

/// ERR.
pub(super) fn error(to: &mut Vec<u8>, error: &SqlError) {
    to.push(0xFF);
    to.extend_from_slice(&error.code.to_le_bytes());
    to.push(b'#');
    to.extend_from_slice(error.state.as_bytes());
    to.extend_from_slice(cut(&error.message).as_bytes());
}

/// ERR before the client's capabilities are known: without the state.
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
    fn messages_are_cut_between_characters() {
        let mut to = Vec::new();
        error(&mut to, &SqlError::parse("ж".repeat(400)));
        assert_eq!(to[..9], *b"\xFF\x28\x04#42000");
        assert_eq!(std::str::from_utf8(&to[9..]).unwrap(), "ж".repeat(255));
    }
}
