//! The only reader of raw protobuf: varints, fixed numbers, lengths, and skipped fields.
//!
//! `pinba` and `otlp` read one field after the other. All reads split a slice, so none can be out
//! of bounds; unreadable bytes give a [`RejectReason`]. Accepts and rejects exactly what prost does
//! (tests compare the two): also numbers written longer than needed, but not past 64 bits, and
//! groups no deeper than prost's recursion limit.

use crate::input::record::RejectReason;
use crate::limits::GROUP_DEPTH_MAX;

/// The wire types of protobuf: the low three bits of a field key.
pub(super) mod wire_type {
    pub(crate) const VARINT: u32 = 0;
    pub(crate) const FIXED64: u32 = 1;
    pub(crate) const LENGTH: u32 = 2;
    pub(crate) const GROUP: u32 = 3;
    pub(crate) const GROUP_END: u32 = 4;
    pub(crate) const FIXED32: u32 = 5;
}

/// The unread part of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Unread bytes.
    #[inline(always)]
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next field key (number times 8 plus wire type), unchecked.
    #[inline(always)]
    pub(super) fn key(&mut self) -> Result<u32, RejectReason> {
        match *self.rest {
            [first, ref rest @ ..] if first < 0x80 => {
                self.rest = rest;
                Ok(u32::from(first))
            }
            // Fields 16 to 2047: two bytes.
            [first, second, ref rest @ ..] if second < 0x80 => {
                self.rest = rest;
                Ok(two_byte_key(first, second))
            }
            _ => {
                let (key, rest) = long_varint(self.rest)?;
                self.rest = rest;
                u32::try_from(key).map_err(|_| RejectReason::BadKey)
            }
        }
    }

    /// Skips `key` if it comes next in its single-byte form.
    #[inline(always)]
    pub(super) fn eat(&mut self, key: u32) -> bool {
        match self.rest.split_first() {
            Some((&first, rest)) if u32::from(first) == key => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// The next number of a list, if `key` comes next in its shortest form and the number is a
    /// single byte.
    #[inline(always)]
    pub(super) fn next_number(&mut self, key: u32) -> Option<u32> {
        let (found, value, rest) = if key < 0x80 {
            let (&[first, value], rest) = self.rest.split_first_chunk()?;
            (u32::from(first), value, rest)
        } else {
            let (&[first, second, value], rest) = self.rest.split_first_chunk()?;
            (two_byte_key(first, second), value, rest)
        };
        if found != key || value >= 0x80 {
            return None;
        }
        self.rest = rest;
        Some(u32::from(value))
    }

    /// The next four numbers of a list, if all of them come as [`next_number`](Self::next_number)
    /// takes them and `key` is a single byte.
    #[inline(always)]
    pub(super) fn next_numbers(&mut self, key: u32) -> Option<[u32; 4]> {
        let (&bytes, rest) = self.rest.split_first_chunk()?;
        let pairs = u64::from_le_bytes(bytes);
        let keys = u64::from(key).wrapping_mul(0x0001_0001_0001_0001);
        if key >= 0x80 || pairs & 0x80ff_80ff_80ff_80ff != keys {
            return None;
        }
        self.rest = rest;
        let [_, a, _, b, _, c, _, d] = bytes;
        Some([a.into(), b.into(), c.into(), d.into()])
    }

    /// The next float of a list, if `key` comes next in its shortest form.
    #[inline(always)]
    pub(super) fn next_float(&mut self, key: u32) -> Option<f32> {
        let (found, value, rest) = if key < 0x80 {
            let (&[first, a, b, c, d], rest) = self.rest.split_first_chunk()?;
            (u32::from(first), [a, b, c, d], rest)
        } else {
            let (&[first, second, a, b, c, d], rest) = self.rest.split_first_chunk()?;
            (two_byte_key(first, second), [a, b, c, d], rest)
        };
        if found != key {
            return None;
        }
        self.rest = rest;
        Some(f32::from_le_bytes(value))
    }

    /// An unsigned integer of up to 64 bits.
    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, RejectReason> {
        match self.rest.split_first() {
            Some((&first, rest)) if first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(first))
            }
            _ => {
                let (value, rest) = long_varint(self.rest)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    /// An unsigned integer truncated to its low 32 bits, as in every protobuf decoder.
    #[inline(always)]
    pub(super) fn uint32(&mut self) -> Result<u32, RejectReason> {
        self.varint().map(low_bits)
    }

    /// A fixed number of `N` bytes, in little-endian order.
    #[inline(always)]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], RejectReason> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(RejectReason::Truncated)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A 32-bit float.
    #[inline(always)]
    pub(super) fn float(&mut self) -> Result<f32, RejectReason> {
        self.fixed().map(f32::from_le_bytes)
    }

    /// A length and that many bytes.
    #[inline(always)]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], RejectReason> {
        let len = usize::try_from(self.varint()?).map_err(|_| RejectReason::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(RejectReason::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Skips the value of an unknown field, with at most `groups_max` nested groups.
    pub(super) fn skip(&mut self, key: u32, groups_max: usize) -> Result<(), RejectReason> {
        match key & 7 {
            wire_type::GROUP => self.skip_group(key >> 3, groups_max),
            _ => self.skip_value(key),
        }
    }

    fn skip_value(&mut self, key: u32) -> Result<(), RejectReason> {
        if key >> 3 == 0 {
            return Err(RejectReason::BadKey);
        }
        match key & 7 {
            wire_type::VARINT => self.varint().map(drop),
            wire_type::FIXED64 => self.advance(8),
            wire_type::LENGTH => self.bytes().map(drop),
            wire_type::FIXED32 => self.advance(4),
            wire_type::GROUP | wire_type::GROUP_END => Err(RejectReason::BadGroup),
            _ => Err(RejectReason::BadKey),
        }
    }

    /// Skips a group whose opening key was just read. A loop with a list, not recursion: the sender
    /// chooses the depth.
    #[cold]
    fn skip_group(&mut self, field: u32, groups_max: usize) -> Result<(), RejectReason> {
        let mut open = [0_u32; GROUP_DEPTH_MAX];
        let mut depth = 0_usize;
        let mut opening = Some(field);
        loop {
            if let Some(field) = opening.take() {
                if field == 0 {
                    return Err(RejectReason::BadKey);
                }
                if depth >= groups_max {
                    return Err(RejectReason::BadGroup);
                }
                *open.get_mut(depth).ok_or(RejectReason::BadGroup)? = field;
                depth = depth.saturating_add(1);
            }
            let key = self.key()?;
            match key & 7 {
                wire_type::GROUP_END => {
                    depth = depth.saturating_sub(1);
                    if open.get(depth) != Some(&(key >> 3)) {
                        return Err(RejectReason::BadGroup);
                    }
                    if depth == 0 {
                        return Ok(());
                    }
                }
                _ if depth >= groups_max => return Err(RejectReason::BadGroup),
                wire_type::GROUP => opening = Some(key >> 3),
                _ => self.skip_value(key)?,
            }
        }
    }

    fn advance(&mut self, count: usize) -> Result<(), RejectReason> {
        self.rest = self.rest.get(count..).ok_or(RejectReason::Truncated)?;
        Ok(())
    }
}

/// A number of more than one byte, or an error. Not a method: a cursor whose address is never taken
/// stays in registers.
#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), RejectReason> {
    let mut value = 0_u64;
    let mut shift = 0_u32;
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        value |= u64::from(byte & 0x7f).wrapping_shl(shift);
        if byte < 0x80 {
            // The tenth byte holds bit 63 alone.
            if shift == 63 && byte > 1 {
                return Err(RejectReason::BadVarint);
            }
            return Ok((value, rest));
        }
        shift = shift.wrapping_add(7);
        if shift > 63 {
            return Err(RejectReason::BadVarint);
        }
    }
    Err(RejectReason::Truncated)
}

/// A key of two bytes. No key of the message has a second byte of 0x80 or more, and this cannot
/// create one.
#[inline(always)]
const fn two_byte_key(first: u8, second: u8) -> u32 {
    if first < 0x80 { 0 } else { (first & 0x7f) as u32 | ((second as u32) << 7) }
}

/// The low 32 bits of a number.
#[inline(always)]
pub(super) const fn low_bits(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}
