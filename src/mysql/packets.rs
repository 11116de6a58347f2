//! The response packets OK, EOF and ERR.
//!
//! `mysql_common` can parse them, but not write OK and EOF. Called by the session; nothing here
//! waits or fails.

use mysql_common::constants::{CapabilityFlags, StatusFlags};
use mysql_common::io::BufMutExt as _;

use crate::sql::SqlError;

/// Longest error message, in bytes: libmysqlclient has no room for more.
const MESSAGE_MAX: usize = 511;

/// Warning count of a statement with rows: always zero.
const WARNINGS: [u8; 2] = [0, 0];

/// OK: a statement was executed, with this many warnings.
pub(super) fn ok(
    to: &mut Vec<u8>,
    affected_rows: u64,
    info: &str,
    status: StatusFlags,
    warnings: u16,
) {
    to.push(0x00);
    put_ok_body(to, affected_rows, info, status, warnings.to_le_bytes());
}

fn put_ok_body(
    to: &mut Vec<u8>,
    affected_rows: u64,
    info: &str,
    status: StatusFlags,
    warnings: [u8; 2],
) {
    to.put_lenenc_int(affected_rows);
    to.put_lenenc_int(0);
    to.extend_from_slice(&status.bits().to_le_bytes());
    to.extend_from_slice(&warnings);
    if !info.is_empty() {
        to.put_lenenc_str(info.as_bytes());
    }
}

/// The end of rows, as the client understands it.
pub(super) fn end_of_rows(to: &mut Vec<u8>, capabilities: CapabilityFlags, status: StatusFlags) {
    to.push(0xFE);
    if capabilities.contains(CapabilityFlags::CLIENT_DEPRECATE_EOF) {
        put_ok_body(to, 0, "", status, WARNINGS);
    } else {
        to.extend_from_slice(&WARNINGS);
        to.extend_from_slice(&status.bits().to_le_bytes());
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
