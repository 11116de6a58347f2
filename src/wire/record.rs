//! The compact form in which a request waits in the ring, and the API to read it back.
//!
//! Written by `encode.rs` on a receiver thread into a block of the ring; read by the merger, and by whoever wants a
//! request as plain values. All numbers are little endian; nothing is aligned; texts are UTF-8 and already cut.
//!
//! ```text
//!   head (76)   length of the record, receive second, hashes, numbers, lengths of the four texts,
//!               counts of words, request tags and timers, where the texts begin
//!   words       4 each: where the word ends among the words' bytes
//!   tags        4 each: word number of the name, word number of the value (the request's own tags)
//!   timers      26 each (hit count, value, two rusage times, hash of its tags, tag count) + 4 for each of its tags
//!   texts       hostname, server name, script name, schema, and then the words
//! ```
//!
//! Why a record takes at most [`RECORD_GROWTH_MAX`] (4) times what the request took on the wire: the head stands for
//! fields 1 to 9, which take 27 bytes when the texts are empty; a text grows by escapes, one byte to four; a word takes
//! 4 for 2; a tag 4 for 2 (packed indexes); a timer that is kept 26 for 6 (packed) and it has a tag, so 30 for 8.
//!
//! The writer is trusted, but reading never panics: a record that contradicts itself ends the iteration.

use super::hasher::ABSENT;
use crate::limits::RECORD_GROWTH_MAX;

/// Positions in the head.
pub(super) mod at {
    pub(crate) const LENGTH: usize = 0;
    pub(crate) const RECEIVED_SECS: usize = 4;
    pub(crate) const IDENTITY_HASH: usize = 8;
    pub(crate) const REQUEST_TAGS_HASH: usize = 16;
    pub(crate) const REQUEST_COUNT: usize = 24;
    pub(crate) const DOCUMENT_SIZE: usize = 28;
    pub(crate) const MEMORY_PEAK: usize = 32;
    pub(crate) const MEMORY_FOOTPRINT: usize = 36;
    pub(crate) const STATUS: usize = 40;
    pub(crate) const REQUEST_TIME: usize = 44;
    pub(crate) const RU_UTIME: usize = 48;
    pub(crate) const RU_STIME: usize = 52;
    pub(crate) const HOSTNAME_BYTES: usize = 56;
    pub(crate) const SERVER_NAME_BYTES: usize = 58;
    pub(crate) const SCRIPT_NAME_BYTES: usize = 60;
    pub(crate) const SCHEMA_BYTES: usize = 62;
    pub(crate) const WORD_COUNT: usize = 64;
    pub(crate) const REQUEST_TAG_COUNT: usize = 66;
    pub(crate) const TIMER_COUNT: usize = 68;
    pub(crate) const TEXTS_AT: usize = 72;
    pub(crate) const END: usize = 76;
}

/// Bytes of the head.
pub const HEAD_BYTES: usize = at::END;
/// Bytes of a word's entry, its text apart.
pub const WORD_BYTES: usize = 4;
/// Bytes of a tag pair.
pub const TAG_BYTES: usize = 4;
/// Bytes of a timer, its tags apart.
pub const TIMER_BYTES: usize = 26;

// The sum of the header comment. Least bytes on the wire: fields 1-9 27, a word 2, a pair 2, a timer 6 and one pair.
const _: () = {
    assert!(HEAD_BYTES <= RECORD_GROWTH_MAX * 27);
    assert!(WORD_BYTES <= RECORD_GROWTH_MAX * 2);
    assert!(TAG_BYTES <= RECORD_GROWTH_MAX * 2);
    assert!(TIMER_BYTES + TAG_BYTES <= RECORD_GROWTH_MAX * (6 + 2));
};

/// One request, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    head: &'a [u8; HEAD_BYTES],
    word_ends: &'a [[u8; WORD_BYTES]],
    request_tags: &'a [[u8; TAG_BYTES]],
    timers: &'a [u8],
    texts: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Takes the next record off the front of `rest`. `None` at the end, and when what follows is no record; `rest` is
    /// empty then.
    #[inline]
    pub fn next(rest: &mut &'a [u8]) -> Option<Self> {
        let all = std::mem::take(rest);
        let head = all.first_chunk::<HEAD_BYTES>()?;
        let (bytes, after) = all.split_at_checked(u32_at(head, at::LENGTH) as usize)?;
        let body = bytes.get(HEAD_BYTES..u32_at(head, at::TEXTS_AT) as usize)?;
        let texts = bytes.get(u32_at(head, at::TEXTS_AT) as usize..)?;
        let words = usize::from(u16_at(head, at::WORD_COUNT)).checked_mul(WORD_BYTES)?;
        let (word_ends, body) = body.split_at_checked(words)?;
        let tags = usize::from(u16_at(head, at::REQUEST_TAG_COUNT)).checked_mul(TAG_BYTES)?;
        let (request_tags, timers) = body.split_at_checked(tags)?;
        *rest = after;
        Some(Self {
            head,
            word_ends: word_ends.as_chunks().0,
            request_tags: request_tags.as_chunks().0,
            timers,
            texts,
            bytes,
        })
    }

    /// The bytes of the record itself, as they can be appended to another block.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Wall-clock second in which the datagram was received, since 1970-01-01 UTC.
    #[inline]
    #[must_use]
    pub fn received_secs(&self) -> u32 {
        u32_at(self.head, at::RECEIVED_SECS)
    }

    /// Keyed hash over host, server, script, schema and status: [`Hasher::hash_identity`](super::Hasher::hash_identity).
    #[inline]
    #[must_use]
    pub fn identity_hash(&self) -> u64 {
        u64_at(self.head, at::IDENTITY_HASH)
    }

    /// Requests this one stands for, as sent (PHP sends 0).
    #[inline]
    #[must_use]
    pub fn request_count(&self) -> u32 {
        u32_at(self.head, at::REQUEST_COUNT)
    }

    /// Bytes of the document.
    #[inline]
    #[must_use]
    pub fn document_size(&self) -> u32 {
        u32_at(self.head, at::DOCUMENT_SIZE)
    }

    /// Peak memory in bytes.
    #[inline]
    #[must_use]
    pub fn memory_peak(&self) -> u32 {
        u32_at(self.head, at::MEMORY_PEAK)
    }

    /// Memory footprint in bytes; 0 when not sent.
    #[inline]
    #[must_use]
    pub fn memory_footprint(&self) -> u32 {
        u32_at(self.head, at::MEMORY_FOOTPRINT)
    }

    /// HTTP status, whole; 0 when not sent.
    #[inline]
    #[must_use]
    pub fn status(&self) -> u32 {
        u32_at(self.head, at::STATUS)
    }

    /// Wall time of the request in seconds, clean; [`micros`](super::micros) makes it an integer.
    #[inline]
    #[must_use]
    pub fn request_time(&self) -> f32 {
        f32_at(self.head, at::REQUEST_TIME)
    }

    /// User CPU time in seconds, clean.
    #[inline]
    #[must_use]
    pub fn ru_utime(&self) -> f32 {
        f32_at(self.head, at::RU_UTIME)
    }

    /// System CPU time in seconds, clean.
    #[inline]
    #[must_use]
    pub fn ru_stime(&self) -> f32 {
        f32_at(self.head, at::RU_STIME)
    }

    /// The physical host.
    #[inline]
    #[must_use]
    pub fn hostname(&self) -> &'a [u8] {
        slice(self.texts, 0, u16_at(self.head, at::HOSTNAME_BYTES))
    }

    /// The virtual host.
    #[inline]
    #[must_use]
    pub fn server_name(&self) -> &'a [u8] {
        slice(
            self.texts,
            usize::from(u16_at(self.head, at::HOSTNAME_BYTES)),
            u16_at(self.head, at::SERVER_NAME_BYTES),
        )
    }

    /// The script.
    #[inline]
    #[must_use]
    pub fn script_name(&self) -> &'a [u8] {
        let start = usize::from(u16_at(self.head, at::HOSTNAME_BYTES))
            .saturating_add(usize::from(u16_at(self.head, at::SERVER_NAME_BYTES)));
        slice(self.texts, start, u16_at(self.head, at::SCRIPT_NAME_BYTES))
    }

    /// The schema (`http`, `https`, ...); `None` when not sent.
    #[inline]
    #[must_use]
    pub fn schema(&self) -> Option<&'a [u8]> {
        let len = u16_at(self.head, at::SCHEMA_BYTES);
        if len == ABSENT {
            return None;
        }
        let start = self.words_at().saturating_sub(usize::from(len));
        Some(slice(self.texts, start, len))
    }

    /// Words of this record: those that its tags use.
    #[inline]
    #[must_use]
    pub fn word_count(&self) -> u16 {
        u16_at(self.head, at::WORD_COUNT)
    }

    /// Word number `i` of the record's own dictionary; empty if there is none.
    #[inline]
    #[must_use]
    pub fn word(&self, i: u16) -> &'a [u8] {
        let i = usize::from(i);
        let end_of = |i: usize| {
            self.word_ends
                .get(i)
                .map(|end| u32::from_le_bytes(*end) as usize)
        };
        let start = i.checked_sub(1).map_or(Some(0), end_of);
        let (Some(start), Some(end)) = (start, end_of(i)) else {
            return &[];
        };
        let words = self.texts.get(self.words_at()..).unwrap_or(&[]);
        words.get(start..end).unwrap_or(&[])
    }

    /// The request's own tags.
    #[inline]
    #[must_use]
    pub fn request_tags(&self) -> TagSet<'a> {
        TagSet {
            hash: u64_at(self.head, at::REQUEST_TAGS_HASH),
            pairs: self.request_tags,
        }
    }

    /// Timers of the record.
    #[inline]
    #[must_use]
    pub fn timer_count(&self) -> u32 {
        u32_at(self.head, at::TIMER_COUNT)
    }

    /// The timers, in packet order.
    #[inline]
    #[must_use]
    pub fn timers(&self) -> Timers<'a> {
        Timers { rest: self.timers }
    }

    /// Where the words begin among the texts: behind the four texts of the request.
    #[inline]
    fn words_at(&self) -> usize {
        let schema = u16_at(self.head, at::SCHEMA_BYTES);
        usize::from(u16_at(self.head, at::HOSTNAME_BYTES))
            .saturating_add(usize::from(u16_at(self.head, at::SERVER_NAME_BYTES)))
            .saturating_add(usize::from(u16_at(self.head, at::SCRIPT_NAME_BYTES)))
            .saturating_add(if schema == ABSENT {
                0
            } else {
                usize::from(schema)
            })
    }
}

/// The tags of a request or of a timer, in packet order; a name may occur more than once.
#[derive(Debug, Clone, Copy)]
pub struct TagSet<'a> {
    hash: u64,
    pairs: &'a [[u8; TAG_BYTES]],
}

impl<'a> TagSet<'a> {
    /// Keyed hash over the sequence of (name, value) texts: [`Hasher::hash_tags`](super::Hasher::hash_tags).
    #[inline]
    #[must_use]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Tag pairs.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there is none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The pairs as numbers for [`Record::word`]: (name, value).
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.pairs
            .iter()
            .map(|[a, b, c, d]| (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])))
    }
}

/// One timer of a request. Times are seconds, clean.
#[derive(Debug, Clone, Copy)]
pub struct Timer<'a> {
    /// How often it was hit; at least 1.
    pub hit_count: u32,
    /// Total time of all hits.
    pub value: f32,
    /// User CPU time of all hits; 0 when not sent.
    pub ru_utime: f32,
    /// System CPU time of all hits; 0 when not sent.
    pub ru_stime: f32,
    /// Its tags; none if all pointed outside the dictionary.
    pub tags: TagSet<'a>,
}

/// Positions in a timer.
pub(super) mod timer_at {
    pub(crate) const HIT_COUNT: usize = 0;
    pub(crate) const VALUE: usize = 4;
    pub(crate) const RU_UTIME: usize = 8;
    pub(crate) const RU_STIME: usize = 12;
    pub(crate) const TAGS_HASH: usize = 16;
    pub(crate) const TAG_COUNT: usize = 24;
}

/// Iterator over the timers of a record.
#[derive(Debug, Clone)]
pub struct Timers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Timers<'a> {
    type Item = Timer<'a>;

    #[inline]
    fn next(&mut self) -> Option<Timer<'a>> {
        let (fixed, rest) = std::mem::take(&mut self.rest).split_first_chunk::<TIMER_BYTES>()?;
        let tags = usize::from(u16_at(fixed, timer_at::TAG_COUNT)).checked_mul(TAG_BYTES)?;
        let (pairs, rest) = rest.split_at_checked(tags)?;
        self.rest = rest;
        Some(Timer {
            hit_count: u32_at(fixed, timer_at::HIT_COUNT),
            value: f32_at(fixed, timer_at::VALUE),
            ru_utime: f32_at(fixed, timer_at::RU_UTIME),
            ru_stime: f32_at(fixed, timer_at::RU_STIME),
            tags: TagSet {
                hash: u64_at(fixed, timer_at::TAGS_HASH),
                pairs: pairs.as_chunks().0,
            },
        })
    }
}

/// Writes `bytes` at a fixed position. Positions are constants inside the array: checked and folded by the compiler.
#[inline(always)]
pub(super) fn put<const ALL: usize, const N: usize>(
    out: &mut [u8; ALL],
    at: usize,
    bytes: [u8; N],
) {
    if let Some(place) = out
        .get_mut(at..)
        .and_then(|tail| tail.first_chunk_mut::<N>())
    {
        *place = bytes;
    } else {
        debug_assert!(false, "{at}+{N} is outside {ALL}");
    }
}

#[inline(always)]
fn chunk_at<const ALL: usize, const N: usize>(bytes: &[u8; ALL], at: usize) -> [u8; N] {
    bytes
        .get(at..)
        .and_then(|tail| tail.first_chunk::<N>())
        .map_or([0; N], |chunk| *chunk)
}

#[inline(always)]
fn u16_at<const ALL: usize>(bytes: &[u8; ALL], at: usize) -> u16 {
    u16::from_le_bytes(chunk_at(bytes, at))
}

#[inline(always)]
fn u32_at<const ALL: usize>(bytes: &[u8; ALL], at: usize) -> u32 {
    u32::from_le_bytes(chunk_at(bytes, at))
}

#[inline(always)]
fn u64_at<const ALL: usize>(bytes: &[u8; ALL], at: usize) -> u64 {
    u64::from_le_bytes(chunk_at(bytes, at))
}

#[inline(always)]
fn f32_at<const ALL: usize>(bytes: &[u8; ALL], at: usize) -> f32 {
    f32::from_le_bytes(chunk_at(bytes, at))
}

#[inline(always)]
fn slice(texts: &[u8], start: usize, len: u16) -> &[u8] {
    texts
        .get(start..start.saturating_add(usize::from(len)))
        .unwrap_or(&[])
}
