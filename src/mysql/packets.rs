//! The response packets OK, EOF and ERR.
//!
//! `mysql_common` can parse them, but not write OK and EOF. Called by the session; nothing here
//! waits or fails.

use mysql_common::constants::{CapabilityFlags, StatusFlags};

use crate::sql::SqlError;

/// Longest error message, in bytes: libmysqlclient has no room for more.
const MESSAGE_MAX: usize = 511;

/// The first byte of OK, and of the end of rows.
pub(super) const OK: u8 = 0x00;
const END: u8 = 0xFE;

/// OK: a statement was executed, with this many warnings. Nothing is ever changed, so no row is
/// affected, and there is no id of a new one.
pub(super) fn ok(to: &mut Vec<u8>, head: u8, status: StatusFlags, warnings: u16) {
    to.extend_from_slice(&[head, 0, 0]);
    to.extend_from_slice(&status.bits().to_le_bytes());
    to.extend_from_slice(&warnings.to_le_bytes());
}

/// The end of rows, as the client understands it: without warnings.
pub(super) fn end_of_rows(to: &mut Vec<u8>, capabilities: CapabilityFlags, status: StatusFlags) {
    if capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
        return ok(to, END, status, 0);
    }
    to.extend_from_slice(&[END, 0, 0]);
    to.extend_from_slice(&status.bits().to_le_bytes());
}

/// ERR; before the client's capabilities are known it has no state.
pub(super) fn error(to: &mut Vec<u8>, error: &SqlError, has_state: bool) {
    let SqlError { code, state, message } = error;
    to.push(0xFF);
    to.extend_from_slice(&code.to_le_bytes());
    if has_state {
        to.push(b'#');
        to.extend_from_slice(state.as_bytes());
    }
    to.extend_from_slice(&message.as_bytes()[..message.floor_char_boundary(MESSAGE_MAX)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_between_characters() {
        let mut to = Vec::new();
        error(&mut to, &SqlError::parse("ж".repeat(400)), true);
        assert_eq!(to[..9], *b"\xFF\x28\x04#42000");
        assert_eq!(std::str::from_utf8(&to[9..]).unwrap(), "ж".repeat(255));
    }
}
