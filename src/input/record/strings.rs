//! The texts of a record being written: the four of the request, then the table of strings used by
//! tags.
//!
//! Appended in record order. The buffers are allocated for the largest record. Only name rules can
//! exceed it; then `overflow` is set, nothing more is appended, and the request is rejected.

use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U32;

use super::STRING_BYTES;
use super::hasher::Hasher;
use super::reject::Repair;
use super::text;
use crate::limits::{RECORD_BYTES_MAX, TEXT_BYTES_MAX};

/// A string of the record: its number and the hash of its text.
#[derive(Debug, Clone, Copy)]
pub(in crate::input) struct Interned {
    pub(in crate::input) number: u16,
    pub(in crate::input) hash: u64,
}

/// Most strings in a record: fewer than a datagram has bytes, as each takes at least two.
const STRINGS_MAX: u16 = u16::MAX;

/// The texts of one record.
#[derive(Debug)]
pub(super) struct StringTable {
    bytes: Vec<u8>,
    /// Start of the strings in `bytes`.
    strings_at: usize,
    /// End of each string, relative to `strings_at`.
    ends: Vec<U32>,
    /// Whether a string did not fit.
    overflow: bool,
}

impl StringTable {
    /// Bytes of the buffers, for the memory plan.
    pub(super) const BYTES: usize =
        STRINGS_MAX as usize * STRING_BYTES + RECORD_BYTES_MAX + TEXT_BYTES_MAX;

    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(RECORD_BYTES_MAX.saturating_add(TEXT_BYTES_MAX)),
            strings_at: 0,
            ends: Vec::with_capacity(usize::from(STRINGS_MAX)),
            overflow: false,
        }
    }

    /// Starts a new record.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.overflow = false;
    }

    /// All texts so far, concatenated.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The texts from position `start` on.
    #[inline(always)]
    pub(super) fn since(&self, start: usize) -> &[u8] {
        self.bytes.get(start..).unwrap_or(&[])
    }

    /// The table of the ends of strings.
    #[inline(always)]
    pub(super) fn ends(&self) -> &[u8] {
        self.ends.as_bytes()
    }

    /// Number of strings so far, at most [`STRINGS_MAX`].
    #[inline(always)]
    pub(super) const fn count(&self) -> u16 {
        self.ends.len() as u16
    }

    /// Whether a string was lost, so that the record is invalid.
    #[inline(always)]
    pub(super) const fn overflow(&self) -> bool {
        self.overflow
    }

    /// Appends `raw` as text of at most `cap` bytes; returns its start.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        raw: &[u8],
        cap: usize,
        repaired: &mut [u64; Repair::COUNT],
    ) -> usize {
        let start = self.bytes.len();
        text::append(&mut self.bytes, raw, cap, repaired);
        start
    }

    /// Ends the texts of the request; strings follow.
    #[inline(always)]
    pub(super) fn begin_strings(&mut self) {
        self.strings_at = self.bytes.len();
    }

    /// Adds a string of at most 16 ASCII bytes, padded with zeros.
    #[inline(always)]
    pub(super) fn add_short(&mut self, padded: u128, bytes: usize, hasher: &Hasher) -> Interned {
        let start = self.bytes.len();
        // Copying 16 bytes is faster than copying a variable number.
        self.bytes.extend_from_slice(&padded.to_le_bytes());
        self.bytes.truncate(start.saturating_add(bytes));
        let hash = hasher.hash_short(padded, bytes);
        self.end_string(start, hash)
    }

    /// Adds any string.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        raw: &[u8],
        cap: usize,
        hasher: &Hasher,
        repaired: &mut [u64; Repair::COUNT],
    ) -> Interned {
        let start = self.append(raw, cap, repaired);
        let hash = hasher.hash_bytes(self.since(start));
        self.end_string(start, hash)
    }

    /// The text of string `number`.
    pub(super) fn text(&self, number: u16) -> &[u8] {
        let number = usize::from(number);
        let end_of = |number: usize| self.ends.get(number).map_or(0, |end| end.get() as usize);
        let start = number.checked_sub(1).map_or(0, end_of);
        self.since(self.strings_at).get(start..end_of(number)).unwrap_or(&[])
    }

    /// Turns the bytes appended since `start` into the next string.
    #[inline(always)]
    fn end_string(&mut self, start: usize, hash: u64) -> Interned {
        let number = self.count();
        if self.bytes.len() > RECORD_BYTES_MAX || number == STRINGS_MAX {
            self.bytes.truncate(start);
            self.overflow = true;
            return Interned { number: 0, hash };
        }
        let end = self.bytes.len().saturating_sub(self.strings_at);
        self.ends.push(low_u32(end).into());
        Interned { number, hash }
    }
}

/// A position inside a record, which always fits 32 bits.
#[inline(always)]
pub(super) const fn low_u32(position: usize) -> u32 {
    (position & 0xffff_ffff) as u32
}
