//! The texts of a record in the making: the four of the request, then the words that its tags use.
//!
//! `encode.rs` appends them here, in the order in which a record has them. A word of the packet's dictionary is converted,
//! cut and hashed once, at its first use, and known by its number from then on; a word that nothing uses costs nothing.
//! The buffers are made for the largest record. Only name rules can make more of it; then `overflow` is set, nothing is
//! appended any more, and the request is refused.

use super::error::Mend;
use super::hasher::{Hasher, SHORT_BYTES};
use super::request::{Span, Word};
use super::text::{self, TextLimits};
use crate::limits::{RECORD_BYTES_MAX, TEXT_BYTES_MAX};

/// What every request is encoded with; fixed for the life of a decoder.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) limits: TextLimits,
    pub(super) hasher: Hasher,
}

/// A word of the record: its number and the hash of its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resolved {
    pub(super) slot: u16,
    pub(super) hash: u64,
}

/// The texts of one record.
#[derive(Debug)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    /// Where in `bytes` the words begin.
    words_at: usize,
    /// For each word where it ends, counted from `words_at`: 4 bytes, little endian.
    word_ends: Vec<u8>,
    word_count: u16,
    /// A word had no room any more.
    overflow: bool,
}

impl Texts {
    /// Bytes of the buffers, for the memory plan.
    pub(super) const BYTES: usize = Word::UNUSED as usize * 4 + RECORD_BYTES_MAX + TEXT_BYTES_MAX;

    pub(super) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(RECORD_BYTES_MAX.saturating_add(TEXT_BYTES_MAX)),
            words_at: 0,
            word_ends: Vec::with_capacity(usize::from(Word::UNUSED).saturating_mul(4)),
            word_count: 0,
            overflow: false,
        }
    }

    /// Begins a new record.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.word_ends.clear();
        self.word_count = 0;
        self.overflow = false;
    }

    /// All texts so far, end to end.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The texts from position `start` on.
    #[inline(always)]
    pub(super) fn since(&self, start: usize) -> &[u8] {
        self.bytes.get(start..).unwrap_or(&[])
    }

    /// The table of the words' ends.
    #[inline(always)]
    pub(super) fn word_ends(&self) -> &[u8] {
        &self.word_ends
    }

    #[inline(always)]
    pub(super) const fn word_count(&self) -> u16 {
        self.word_count
    }

    /// Whether a word was lost: the record is not one.
    #[inline(always)]
    pub(super) const fn overflow(&self) -> bool {
        self.overflow
    }

    /// Appends `raw` as text of at most `cap` bytes, and gives where it begins.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        raw: &[u8],
        cap: usize,
        mended: &mut [u64; Mend::COUNT],
    ) -> usize {
        let start = self.bytes.len();
        text::append(&mut self.bytes, raw, cap, mended);
        start
    }

    /// What was appended so far are the texts of the request; what follows are words.
    #[inline(always)]
    pub(super) fn begin_words(&mut self) {
        self.words_at = self.bytes.len();
    }

    /// Takes a dictionary word into the record and notes in it what became of it. Not inlined: of the look-ups of a
    /// word most find it noted.
    #[inline(never)]
    pub(super) fn first_use(
        &mut self,
        word: &mut Word,
        message: &[u8],
        terms: &Terms,
        mended: &mut [u64; Mend::COUNT],
    ) -> Resolved {
        // A pair whose value is its name: taken in a moment ago.
        if word.slot != Word::UNUSED {
            return Resolved {
                slot: word.slot,
                hash: word.hash,
            };
        }
        let start = self.bytes.len();
        word.hash = if let Some(short) = short_word(word.span, message) {
            // 16 bytes are copied faster than as many as there are.
            self.bytes.extend_from_slice(&short.to_le_bytes());
            self.bytes.truncate(start.saturating_add(word.span.len()));
            terms.hasher.hash_short(short, word.span.len())
        } else {
            self.append_word(word.span.of(message), terms, mended)
        };
        word.slot = self.end_word(start);
        Resolved {
            slot: word.slot,
            hash: word.hash,
        }
    }

    /// Takes a text that is in no dictionary into the record as a word.
    pub(super) fn add_word(
        &mut self,
        raw: &[u8],
        terms: &Terms,
        mended: &mut [u64; Mend::COUNT],
    ) -> Resolved {
        let start = self.bytes.len();
        let hash = self.append_word(raw, terms, mended);
        Resolved {
            slot: self.end_word(start),
            hash,
        }
    }

    /// The text of word number `slot`.
    pub(super) fn word(&self, slot: u16) -> &[u8] {
        let ends = self.word_ends.as_chunks::<4>().0;
        let end_of = |slot: usize| {
            ends.get(slot)
                .map_or(0, |end| u32::from_le_bytes(*end) as usize)
        };
        let start = usize::from(slot).checked_sub(1).map_or(0, end_of);
        self.since(self.words_at)
            .get(start..end_of(usize::from(slot)))
            .unwrap_or(&[])
    }

    /// Appends any word, and gives the hash of what is kept of it.
    #[inline(never)]
    fn append_word(&mut self, raw: &[u8], terms: &Terms, mended: &mut [u64; Mend::COUNT]) -> u64 {
        let start = self.append(raw, terms.limits.text_bytes(), mended);
        terms.hasher.hash_bytes(self.since(start))
    }

    /// Makes what was appended since `start` the next word, and gives its number.
    #[inline(always)]
    fn end_word(&mut self, start: usize) -> u16 {
        let slot = self.word_count;
        if self.bytes.len() > RECORD_BYTES_MAX || slot == Word::UNUSED {
            self.bytes.truncate(start);
            self.overflow = true;
            return 0;
        }
        let end = self.bytes.len().saturating_sub(self.words_at);
        self.word_ends
            .extend_from_slice(&low_u32(end).to_le_bytes());
        self.word_count = slot.saturating_add(1);
        slot
    }
}

/// A word of at most 16 bytes of ASCII, which most are, padded with zeros. `None` also where the message ends within 16
/// bytes: such a word takes the long way, as do others.
#[inline(always)]
fn short_word(span: Span, message: &[u8]) -> Option<u128> {
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

/// A position inside a record, all of which fit 32 bits.
#[inline(always)]
pub(super) const fn low_u32(position: usize) -> u32 {
    (position & 0xffff_ffff) as u32
}
