//! Records: the compact form in which a request waits in the ring, whatever its input.
//!
//! A receiver's decoder creates each with a `RecordWriter` in a block of the ring; the merger reads
//! it as a [`Record`]. Parts shared by inputs are here too: text repair and caps (`text`), the
//! string table of a record (`strings`), keyed hashes (`hasher`), the reasons for rejecting and
//! repairing, with their counts (`reject`, `counts`), names for tags that repeat (`repeated_tags`).
//! All numbers are little endian; nothing is aligned; texts are UTF-8 and already cut.
//!
//! ```text
//!   head (86)   length of the record, receive second, hashes, numbers, lengths of the four texts,
//!               counts of strings, request tags and timers, where the texts begin, name of its tags
//!   strings     4 each: where the string ends among the strings' bytes
//!   tags        4 each: string number of the name, string number of the value (the request's own tags)
//!   timers      26 each (hit count, value, two rusage times, hash of its tags, tag count) + 4 for each of its tags
//!   texts       hostname, server name, script name, schema, and then the strings
//!   further     what its input knows beside and the pool keeps apart: activities of Squid's requests; most have none
//! ```
//!
//! The writer is trusted, but reading never panics: a record that contradicts itself ends the
//! iteration.

mod counts;
mod hasher;
mod reject;
mod repeated_tags;
mod seconds;
mod strings;
mod text;
mod writer;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use self::counts::DecodeCounts;
pub(super) use self::counts::bump;
pub use self::hasher::{Hasher, TagSetHasher};
pub use self::reject::{Example, RejectReason, Repair};
pub use self::repeated_tags::{Confirmed, Repeat};
pub use self::seconds::{is_unmeasured, micros};
pub(super) use self::strings::Interned;
pub use self::text::TextLimits;
pub(crate) use self::text::is_same;
pub(super) use self::writer::{Numbers, RecordWriter, TagSetWriter};

use self::hasher::ABSENT;
pub(crate) use crate::telemetry::counter::counted;

/// The destination of records: a block of the ring, or any `Vec<u8>`.
pub trait RecordSink {
    /// Returns the buffer to which one record of exactly `bytes` bytes is appended right after this
    /// call. Called once per record, so a sink can count them here. `bytes` is at most
    /// [`RECORD_BYTES_MAX`](crate::limits::RECORD_BYTES_MAX). A buffer with room never grows.
    /// `None`: there is no room and will be none; the request is rejected as
    /// [`RejectReason::TooLarge`].
    fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>>;
}

impl RecordSink for Vec<u8> {
    fn reserve(&mut self, _bytes: usize) -> Option<&mut Vec<u8>> {
        Some(self)
    }
}

/// A float by its bits: `zerocopy` reads and writes its own by calls that are not inlined.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
struct F32(U32);

impl F32 {
    #[inline(always)]
    const fn get(self) -> f32 {
        f32::from_bits(self.0.get())
    }
}

impl From<f32> for F32 {
    #[inline(always)]
    fn from(float: f32) -> Self {
        Self(float.to_bits().into())
    }
}

/// The head of a record.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    length: U32,
    received_secs: U32,
    identity_hash: U64,
    request_tags_hash: U64,
    request_count: U32,
    document_size: U32,
    memory_peak: U32,
    memory_footprint: U32,
    status: U32,
    request_time: F32,
    ru_utime: F32,
    ru_stime: F32,
    /// Lengths of hostname, server name, script name and schema; [`ABSENT`] for a schema that was
    /// not sent.
    text_bytes: [U16; 4],
    string_count: U16,
    request_tag_count: U16,
    timer_count: U16,
    /// Bytes of further data, at the end.
    further_bytes: U16,
    texts_at: U32,
    /// 1 if reports already have the request: it is for raw rows alone.
    is_counted: u8,
    /// The [`Repeat`] that names its tags; turn 0 for none.
    repeat_number: U32,
    repeat_turn: U32,
    /// 1 if the tags of the request and of its timers are left out.
    leaves_out_tags: u8,
}

/// The head of a timer; its tags follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct TimerHead {
    hit_count: U32,
    value: F32,
    ru_utime: F32,
    ru_stime: F32,
    tags_hash: U64,
    tag_count: U16,
}

/// Names and values of tags as string numbers.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Tag {
    name: U16,
    value: U16,
}

/// Bytes of the head.
pub const HEAD_BYTES: usize = size_of::<Head>();
/// Bytes of a string's entry, without its text.
pub const STRING_BYTES: usize = size_of::<U32>();
/// Bytes of a tag pair.
pub const TAG_BYTES: usize = size_of::<Tag>();
/// Bytes of a timer, without its tags.
pub const TIMER_BYTES: usize = size_of::<TimerHead>();

/// One request, read in place.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    head: &'a Head,
    string_ends: &'a [U32],
    request_tags: &'a [Tag],
    timers: &'a [u8],
    texts: &'a [u8],
    /// The concatenated texts of the strings.
    strings: &'a [u8],
    bytes: &'a [u8],
}

/// The numbers of the head as methods of the record.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $number:ty;)+) => {
        impl Record<'_> {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self) -> $number {
                self.head.$name.get()
            })+
        }
    };
}

numbers! {
    /// Wall-clock second in which the datagram was received, since 1970-01-01 UTC.
    received_secs: u32;
    /// Keyed hash over host, server, script, schema and status: [`Hasher::hash_identity`].
    identity_hash: u64;
    /// Requests this one stands for, as sent (PHP sends 0).
    request_count: u32;
    /// Bytes of the document.
    document_size: u32;
    /// Peak memory in bytes.
    memory_peak: u32;
    /// Memory footprint in bytes; 0 when not sent.
    memory_footprint: u32;
    /// HTTP status, whole; 0 when not sent.
    status: u32;
    /// Wall time of the request in seconds, clean; [`micros`] converts it to an integer.
    request_time: f32;
    /// User CPU time in seconds, clean.
    ru_utime: f32;
    /// System CPU time in seconds, clean.
    ru_stime: f32;
    /// Strings of this record: those used by its tags.
    string_count: u16;
    /// Timers of the record.
    timer_count: u16;
}

impl<'a> Record<'a> {
    /// Takes the next record off the front of `rest`. `None` at the end, or if the bytes are not a
    /// record; `rest` is empty then.
    #[inline]
    pub fn next(rest: &mut &'a [u8]) -> Option<Self> {
        let all = std::mem::take(rest);
        let (head, _) = Head::ref_from_prefix(all).ok()?;
        let (bytes, after) = all.split_at_checked(head.length.get() as usize)?;
        let body = bytes.get(HEAD_BYTES..head.texts_at.get() as usize)?;
        let texts = bytes.get(head.texts_at.get() as usize..)?;
        let (string_ends, body) = prefix(body, head.string_count)?;
        let (request_tags, timers) = prefix(body, head.request_tag_count)?;
        let strings = texts.get(text_at(head, 4)..).unwrap_or(&[]);
        *rest = after;
        Some(Self { head, string_ends, request_tags, timers, texts, strings, bytes })
    }

    /// The bytes of the record, as they can be appended to another block.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether reports already have it: it is for raw rows alone.
    #[inline(always)]
    pub fn is_counted(&self) -> bool {
        self.head.is_counted != 0
    }

    /// The name of its tags, if they are likely to come again.
    #[inline(always)]
    pub fn repeat(&self) -> Option<Repeat> {
        let (number, turn) = (self.head.repeat_number.get(), self.head.repeat_turn.get());
        (turn != 0).then_some(Repeat { number, turn })
    }

    /// Whether the tags of the request and of its timers are left out, because the merger knows
    /// them by [name](Self::repeat).
    #[inline(always)]
    pub fn leaves_out_tags(&self) -> bool {
        self.head.leaves_out_tags != 0
    }

    /// Whether there is further data.
    #[inline(always)]
    pub fn has_further(&self) -> bool {
        self.head.further_bytes.get() != 0
    }

    /// Further data, as written by the input.
    pub fn further(&self) -> &'a [u8] {
        let bytes = self.bytes.len();
        let at = bytes.checked_sub(self.head.further_bytes.get().into());
        at.and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    /// The physical host.
    #[inline]
    pub fn hostname(&self) -> &'a [u8] {
        self.text(0)
    }

    /// The virtual host.
    #[inline]
    pub fn server_name(&self) -> &'a [u8] {
        self.text(1)
    }

    /// The script.
    #[inline]
    pub fn script_name(&self) -> &'a [u8] {
        self.text(2)
    }

    /// The schema (`http`, `https`, ...); `None` when not sent.
    #[inline]
    pub fn schema(&self) -> Option<&'a [u8]> {
        let [.., schema] = self.head.text_bytes;
        (schema.get() != ABSENT).then(|| self.text(3))
    }

    /// String number `i` of the record's own table; empty if there is none.
    #[inline]
    pub fn string(&self, i: u16) -> &'a [u8] {
        let i = usize::from(i);
        let end_of = |i: usize| self.string_ends.get(i).map(|end| end.get() as usize);
        let start = i.checked_sub(1).map_or(Some(0), end_of);
        let (Some(start), Some(end)) = (start, end_of(i)) else { return &[] };
        self.strings.get(start..end).unwrap_or(&[])
    }

    /// The request's own tags.
    #[inline]
    pub fn request_tags(&self) -> TagSet<'a> {
        TagSet { hash: self.head.request_tags_hash.get(), pairs: self.request_tags }
    }

    /// The timers, in the order in which they were sent.
    #[inline]
    pub fn timers(&self) -> Timers<'a> {
        Timers { rest: self.timers }
    }

    /// One of the four texts of the request.
    #[inline(always)]
    fn text(&self, number: usize) -> &'a [u8] {
        let start = text_at(self.head, number);
        let end = text_at(self.head, number.saturating_add(1));
        self.texts.get(start..end).unwrap_or(&[])
    }
}

/// Start of text `number` of a record; the strings follow the fourth.
#[inline(always)]
fn text_at(head: &Head, number: usize) -> usize {
    let before = head.text_bytes.iter().take(number);
    before.fold(0, |at, bytes| match bytes.get() {
        ABSENT => at,
        bytes => usize::from(bytes).saturating_add(at),
    })
}

/// A list of `count` elements at the front of `bytes`, and the rest.
#[inline(always)]
fn prefix<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
    count: U16,
) -> Option<(&[T], &[u8])> {
    <[T]>::ref_from_prefix_with_elems(bytes, usize::from(count.get())).ok()
}

/// The tags of a request or timer, in the order in which they were sent; a name may occur more than
/// once.
#[derive(Debug, Clone, Copy)]
pub struct TagSet<'a> {
    hash: u64,
    pairs: &'a [Tag],
}

impl<'a> TagSet<'a> {
    /// Keyed hash over the sequence of (name, value) texts: [`Hasher::hash_tags`].
    #[inline]
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of tag pairs.
    #[inline]
    pub const fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no tags.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The pairs as numbers for [`Record::string`]: (name, value).
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u16, u16)> + Clone + use<'a> {
        self.pairs.iter().map(|tag| (tag.name.get(), tag.value.get()))
    }
}

/// One timer of a request. Times are seconds, clean.
#[derive(Debug, Clone, Copy)]
pub struct Timer<'a> {
    /// Number of hits; at least 1.
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

/// Iterator over the timers of a record.
#[derive(Debug, Clone)]
pub struct Timers<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Timers<'a> {
    type Item = Timer<'a>;

    #[inline]
    fn next(&mut self) -> Option<Timer<'a>> {
        let (head, rest) = TimerHead::ref_from_prefix(std::mem::take(&mut self.rest)).ok()?;
        let (pairs, rest) = prefix(rest, head.tag_count)?;
        self.rest = rest;
        Some(Timer {
            hit_count: head.hit_count.get(),
            value: head.value.get(),
            ru_utime: head.ru_utime.get(),
            ru_stime: head.ru_stime.get(),
            tags: TagSet { hash: head.tags_hash.get(), pairs },
        })
    }
}
