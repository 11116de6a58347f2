//! The dictionary of a packet: where its words were sent, and which strings of the record they became.
//!
//! A word is repaired, cut and hashed once, when the first tag uses it, and known by its number from then on; a word that
//! nothing uses costs nothing.

use crate::input::record::{Interned, RecordWriter};

/// A range of bytes in the message it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u16,
    len: u16,
}

impl Span {
    /// The range of the `len` bytes that end where `left` bytes of a message of `total` are left.
    #[inline(always)]
    pub(super) fn before(total: usize, left: usize, len: usize) -> Self {
        let start = total.wrapping_sub(left).wrapping_sub(len);
        // A datagram ends at DATAGRAM_BYTES_MAX, which fits: nothing is cut here.
        Self {
            start: start as u16,
            len: len as u16,
        }
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

    /// The bytes meant, out of that message.
    #[inline(always)]
    pub(super) fn of(self, message: &[u8]) -> &[u8] {
        message
            .get(self.start()..self.start().saturating_add(self.len()))
            .unwrap_or(&[])
    }
}

/// A word of the dictionary.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// Keyed hash of the text; set with `number`.
    hash: u64,
    /// Where the text was sent.
    pub(super) span: Span,
    /// Its number among the record's strings, or [`Word::UNUSED`].
    number: u16,
}

impl Word {
    /// No tag has used this word yet. A datagram cannot hold that many words, each takes two bytes at least.
    const UNUSED: u16 = u16::MAX;

    #[inline(always)]
    pub(super) const fn new(span: Span) -> Self {
        Self {
            hash: 0,
            span,
            number: Self::UNUSED,
        }
    }

    /// The string that it became, if a tag has used it.
    #[inline(always)]
    pub(super) fn interned(&self) -> Option<Interned> {
        (self.number != Self::UNUSED).then_some(Interned {
            number: self.number,
            hash: self.hash,
        })
    }

    /// Adds the word to the record, unless it is in there. Not inlined: most words have been used before.
    #[inline(never)]
    pub(super) fn intern(&mut self, message: &[u8], record: &mut RecordWriter) -> Interned {
        // A pair whose value is its name: added a moment ago.
        if let Some(known) = self.interned() {
            return known;
        }
        let interned = match short(self.span, message) {
            Some(short) => record.short_string(short, self.span.len()),
            None => record.string(self.span.of(message)),
        };
        Interned {
            number: self.number,
            hash: self.hash,
        } = interned;
        interned
    }
}

/// Bytes of a word that is handled as one number.
const SHORT_BYTES: usize = 16;

/// A word of at most 16 bytes of ASCII, which most are, padded with zeros. `None` also where the message ends within 16
/// bytes: such a word takes the long way, as do others.
#[inline(always)]
fn short(span: Span, message: &[u8]) -> Option<u128> {
    const HIGH: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;
    const KEEP: [u128; SHORT_BYTES + 1] = keep_masks();
    let keep = KEEP.get(span.len())?;
    let near = message.get(span.start()..)?.first_chunk::<SHORT_BYTES>()?;
    let padded = u128::from_le_bytes(*near) & keep;
    if padded & HIGH == 0 {
        Some(padded)
    } else {
        None
    }
}

/// For each length the bits of a little-endian number that the first bytes make up.
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
