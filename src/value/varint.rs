//! Variable-length numbers: seven bits per byte, lowest first; the top bit says that more follow.
//!
//! The encoding of numbers in tick logs, in points of the last hour, in history's pieces and in
//! what ClickHouse is sent. Any bytes can be read: a number that ends early reads as 0. (Snapshots
//! are encoded by `postcard`, and contain tick logs unchanged. Packets and spans, where an
//! unreadable number is an error, are read by `input::cursor`.)

/// Appends a number.
#[inline]
pub(crate) fn push(to: &mut Vec<u8>, value: u128) {
    match u64::try_from(value) {
        Ok(mut value) => {
            while value >= 0x80 {
                to.push(value as u8 | 0x80);
                value >>= 7;
            }
            to.push(value as u8);
        }
        Err(_) => push_wide(to, value),
    }
}

#[cold]
fn push_wide(to: &mut Vec<u8>, value: u128) {
    to.push(value as u8 | 0x80);
    push(to, value >> 7);
}

/// Bytes of an encoded number.
pub(crate) fn bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Takes a number off the front.
#[inline]
pub(crate) fn take(from: &mut &[u8]) -> u128 {
    match from.split_first() {
        // Most are small.
        Some((&byte, rest)) if byte < 0x80 => {
            *from = rest;
            byte.into()
        }
        _ => take_long(from),
    }
}

fn take_long(from: &mut &[u8]) -> u128 {
    let mut low = 0u64;
    let mut shift = 0;
    while let Some((&byte, rest)) = from.split_first() {
        *from = rest;
        low |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return u128::from(low);
        }
        shift += 7;
        if shift == 63 {
            return take_wide(from, low);
        }
    }
    u128::from(low)
}

/// The rest of a number of more than 63 bits; bits past the 128th are dropped.
#[cold]
fn take_wide(from: &mut &[u8], low: u64) -> u128 {
    let mut value = u128::from(low);
    let mut shift = 63;
    while let Some((&byte, rest)) = from.split_first() {
        *from = rest;
        value |= u128::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            break;
        }
        shift += 7;
    }
    value
}
