//! The dictionary of a packet: the spans of its words, and the record's strings they became.
//!
//! A word is repaired, cut and hashed once, when the first tag uses it, and referred to by its
//! number from then on; unused words cost nothing.

use crate::input::record::{Interned, RecordWriter};

/// A range of bytes in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u16,
    len: u16,
}

impl Span {
    /// The range of the `len` bytes that end where `left` bytes remain of a message of `total`.
    #[inline(always)]
    pub(super) fn before(total: usize, left: usize, len: usize) -> Self {
        let start = total.wrapping_sub(left).wrapping_sub(len);
        // A datagram ends at DATAGRAM_BYTES_MAX, which fits: nothing is truncated here.
        Self { start: start as u16, len: len as u16 }
    }

    /// Its length in bytes.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }

    #[inline(always)]
    fn start(self) -> usize {
        usize::from(self.start)
    }

    /// Where it ends in its message.
    #[inline(always)]
    pub(super) fn end(self) -> usize {
        self.start().saturating_add(self.len())
    }

    /// The bytes of the range in its message.
    #[inline(always)]
    pub(super) fn of(self, message: &[u8]) -> &[u8] {
        message.get(self.start()..self.end()).unwrap_or(&[])
    }
}

/// A word of the dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// Keyed hash of the text; set with `number`.
    hash: u64,
    /// The text as sent.
    pub(super) span: Span,
    /// Its index among the record's strings, or [`Word::UNUSED`].
    number: u16,
}

impl Word {
    /// No tag has used this word yet. Never a valid index: each word takes at least two bytes of
    /// the datagram.
    const UNUSED: u16 = u16::MAX;

    #[inline(always)]
    pub(super) const fn new(span: Span) -> Self {
        Self { hash: 0, span, number: Self::UNUSED }
    }

    /// The string it became, if a tag has used it.
    #[inline(always)]
    pub(super) fn interned(&self) -> Option<Interned> {
        (self.number != Self::UNUSED).then_some(Interned { number: self.number, hash: self.hash })
    }

    /// Adds the word to the record, unless it is in there. Not inlined: most words have been used
    /// before.
    #[inline(never)]
    pub(super) fn intern(&mut self, message: &[u8], record: &mut RecordWriter) -> Interned {
        // A pair whose value equals its name: added a moment ago.
        if let Some(known) = self.interned() {
            return known;
        }
        let interned = match short(self.span, message) {
            Some(short) => record.short_string(short, self.span.len()),
            None => record.string(self.span.of(message)),
        };
        Interned { number: self.number, hash: self.hash } = interned;
        interned
    }
}

/// Longest word that is handled as one number, in bytes.
const SHORT_BYTES: usize = 16;

/// A word of at most 16 ASCII bytes, as most are, padded with zeros. `None` also if the message
/// ends within 16 bytes: such a word takes the slow path, like any other.
#[inline(always)]
fn short(span: Span, message: &[u8]) -> Option<u128> {
    const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
    const KEEP: [u128; SHORT_BYTES + 1] = keep_masks();
    let keep = KEEP.get(span.len())?;
    let near = message.get(span.start()..)?.first_chunk::<SHORT_BYTES>()?;
    let padded = u128::from_le_bytes(*near) & keep;
    if padded & HIGH == 0 { Some(padded) } else { None }
}

/// For each length, a mask for the first bytes of a little-endian number.
const fn keep_masks() -> [u128; SHORT_BYTES + 1] {
    let mut masks = [0; SHORT_BYTES + 1];
    let mut mask = 0_u128;
    let mut rest = masks.as_mut_slice();
    while let [here, after @ ..] = rest {
        *here = mask;
        mask = (mask << 8) | 0xff;
        rest = after;
    }
    masks
}
