//! Pinba's datagrams: from bytes to records.
//!
//! A packet is one protobuf message (`proto/pinba.proto`), perhaps with nested requests. A
//! [`Decoder`] parses it (`request`), checks it (`request`) and writes one record for
//! each request (`encode`, `dictionary`), after applying the name rules
//! ([`rewrite`](super::rewrite)). Pure: no I/O, no clock, no unsafe; every receiver thread has its
//! own decoder and calls it for every datagram. All memory is allocated when the decoder is
//! created, for the worst possible datagram. Every input ends in exactly one counter
//! ([`DecodeCounts`]); no input can cause a panic.
//!
//! ```
//! use pinbad::input::Decode as _;
//! use pinbad::input::pinba::{Decoder, model};
//! use pinbad::input::record::{Hasher, Record, TextLimits};
//! use prost::Message as _;
//!
//! let mut packet = model::Request::named("web-1", "example.org", "/index.php");
//! packet.request_time = Some(0.25);
//! packet.add_timer(2, 0.125, &[("group", "db"), ("op", "read")]);
//!
//! let mut decoder = Decoder::new(TextLimits::default(), Hasher::new());
//! let mut block = Vec::new();
//! assert_eq!(decoder.decode(&packet.encode_to_vec(), 1_700_000_000, &mut block), Ok(1));
//!
//! let mut rest = &block[..];
//! let record = Record::next(&mut rest).unwrap();
//! assert_eq!(record.script_name(), b"/index.php");
//! let timer = record.timers().next().unwrap();
//! let tags: Vec<_> = timer.tags.iter().map(|(n, v)| (record.string(n), record.string(v))).collect();
//! assert_eq!(tags, [(&b"group"[..], &b"db"[..]), (b"op", b"read")]);
//! ```

mod dictionary;
mod encode;
pub mod model;
mod repeated_tags;
mod request;
mod rule_memo;

use super::Decode;
use super::record::{
    DecodeCounts, Hasher, Record, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use super::rewrite::{AsSent, Rewrite};
use crate::limits::{DATAGRAM_BYTES_MAX, RECORD_BYTES_MAX};
use dictionary::Span;
use encode::Encoder;
pub use repeated_tags::RepeatedTags;
use repeated_tags::{Seen, Tags};
use request::{Fields, Lists};

/// Turns datagrams into records, with `R` as name rules. One for each receiver thread.
#[derive(Debug)]
pub struct Decoder<R = AsSent> {
    lists: Lists,
    /// Nested requests of the current datagram.
    nested: Vec<Span>,
    encoder: Encoder,
    /// Records of a datagram with nested requests, until all of it has been decoded.
    pending: Vec<u8>,
    rules: R,
    repeats: RepeatedTags,
    /// The indexes of the request's own tags.
    request_tags: Vec<u8>,
    counts: DecodeCounts,
}

/// Most nested requests in a datagram: two bytes of key and one of length, and nothing inside.
const NESTED_MAX: usize = DATAGRAM_BYTES_MAX / 3;

impl Decoder {
    /// Bytes that a decoder allocates, for the memory plan; rules need more.
    pub const BYTES: usize =
        Lists::BYTES + NESTED_MAX * size_of::<Span>() + RecordWriter::BYTES + RECORD_BYTES_MAX;

    /// A decoder that keeps names as sent. All decoders and the merger share one `hasher` (clones
    /// of it).
    pub fn new(limits: TextLimits, hasher: Hasher) -> Self {
        Self::with_rules(limits, hasher, AsSent)
    }
}

impl<R: Rewrite> Decoder<R> {
    /// A decoder that applies `rules` to every name.
    pub fn with_rules(limits: TextLimits, hasher: Hasher, rules: R) -> Self {
        Self {
            lists: Lists::new(),
            nested: Vec::with_capacity(NESTED_MAX),
            encoder: Encoder::new(limits, hasher, rules.has_tag_chains()),
            pending: Vec::with_capacity(RECORD_BYTES_MAX),
            rules,
            repeats: RepeatedTags::default(),
            request_tags: Vec::new(),
            counts: DecodeCounts::default(),
        }
    }

    /// The same, which lets records leave out tags that `repeats` has and the merger knows. With
    /// rules for tags it does not: they count what they change.
    pub fn repeating(mut self, repeats: RepeatedTags) -> Self {
        if !self.rules.has_tag_chains() {
            self.repeats = repeats;
        }
        self
    }
}

impl<R: Rewrite> Decode for Decoder<R> {
    /// Writes the outer request to `sink` first, then the nested ones.
    ///
    /// A datagram is accepted if all of it can be decoded, its timer lists agree (V1), and at least
    /// one of its requests passes rules V1 to V6. Requests that do not are left out.
    #[inline]
    fn decode(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason> {
        let result = self.take(datagram, received_secs, sink);
        if let Err(reason) = result {
            self.reject(reason);
        }
        result
    }

    fn reject(&mut self, reason: RejectReason) {
        self.counts.reject_datagram(reason);
    }

    fn take_counts(&mut self) -> DecodeCounts {
        self.rules.publish_counts();
        std::mem::take(&mut self.counts)
    }
}

impl<R: Rewrite> Decoder<R> {
    fn take(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason> {
        if datagram.is_empty() {
            return Err(RejectReason::Empty);
        }
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(RejectReason::TooLong);
        }
        let parsed = self.parse(datagram, true);
        let (fields, seen) = parsed.map_err(|reason| undecodable(datagram, reason))?;
        if !self.nested.is_empty() {
            return self.take_all(datagram, (&fields, seen), received_secs, sink);
        }
        let bytes = self.prepare(datagram, (&fields, seen), received_secs)?;
        let room = sink.reserve(bytes).ok_or(RejectReason::TooLarge)?;
        self.encoder.record.write(room);
        self.counts.add_repaired(self.encoder.record.repaired());
        self.counts.datagrams_accepted = self.counts.datagrams_accepted.saturating_add(1);
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        Ok(1)
    }

    /// Decodes a datagram with nested requests. Its records wait in `pending`, because a nested
    /// request that cannot be decoded invalidates the whole datagram.
    #[cold]
    fn take_all(
        &mut self,
        datagram: &[u8],
        outer: (&Fields<'_>, Seen),
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason> {
        if !matches!(outer.1, Seen::Confirmed(_)) {
            self.lists.check_timer_counts()?;
        }
        let before = self.counts;
        let result = self.take_pending(datagram, outer, received_secs).and_then(|first_reason| {
            let mut pushed = 0_u32;
            let mut rest = self.pending.as_slice();
            while let Some(record) = Record::next(&mut rest) {
                match sink.reserve(record.bytes().len()) {
                    Some(room) => {
                        room.extend_from_slice(record.bytes());
                        pushed = pushed.saturating_add(1);
                    }
                    None => self.counts.reject_request(RejectReason::TooLarge),
                }
            }
            if pushed == 0 {
                Err(first_reason.unwrap_or(RejectReason::TooLarge))
            } else {
                Ok(pushed)
            }
        });
        if result.is_ok() {
            self.counts.datagrams_accepted = self.counts.datagrams_accepted.saturating_add(1);
            let requests = 1_u64.saturating_add(self.nested.len() as u64);
            self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(requests);
        } else {
            // Nothing was accepted: it counts as one invalid datagram and as nothing else.
            self.counts = before;
        }
        result
    }

    /// Encodes the outer request and its nested ones into `pending`. Returns the first reason for
    /// leaving one out.
    fn take_pending(
        &mut self,
        datagram: &[u8],
        outer: (&Fields<'_>, Seen),
        received_secs: u32,
    ) -> Result<Option<RejectReason>, RejectReason> {
        self.pending.clear();
        let mut first_reason = None;
        if let Err(reason) = self.append_pending(datagram, outer, received_secs) {
            self.counts.reject_request(reason);
            first_reason = Some(reason);
        }
        let mut index = 0_usize;
        while let Some(span) = self.nested.get(index).copied() {
            index = index.saturating_add(1);
            let message = span.of(datagram);
            let parsed = self.parse(message, false);
            let (fields, seen) = parsed.map_err(|reason| undecodable(datagram, reason))?;
            if let Err(reason) = self.append_pending(message, (&fields, seen), received_secs) {
                self.counts.reject_request(reason);
                first_reason = first_reason.or(Some(reason));
            }
        }
        Ok(first_reason)
    }

    fn append_pending(
        &mut self,
        message: &[u8],
        parsed: (&Fields<'_>, Seen),
        received_secs: u32,
    ) -> Result<(), RejectReason> {
        let bytes = self.prepare(message, parsed, received_secs)?;
        // All records of a datagram fit, see RECORD_GROWTH_MAX, unless rules made its names longer.
        if self.pending.len().saturating_add(bytes) > RECORD_BYTES_MAX {
            return Err(RejectReason::TooLarge);
        }
        self.encoder.record.write(&mut self.pending);
        self.counts.add_repaired(self.encoder.record.repaired());
        Ok(())
    }

    /// Parses a message; if it is the outer one, collects those in it. Tags that the merger knows
    /// are not read.
    #[inline(always)]
    fn parse<'a>(
        &mut self,
        message: &'a [u8],
        is_outer: bool,
    ) -> Result<(Fields<'a>, Seen), RejectReason> {
        if self.repeats.are_kept()
            && let Some(parsed) = self.parse_around_tags(message, is_outer)
        {
            return Ok(parsed);
        }
        self.parse_whole(message, is_outer)
    }

    #[inline(never)]
    fn parse_whole<'a>(
        &mut self,
        message: &'a [u8],
        is_outer: bool,
    ) -> Result<(Fields<'a>, Seen), RejectReason> {
        Ok((self.lists.parse(message, outer(is_outer, &mut self.nested))?, Seen::Not))
    }

    /// The same for a message as known clients write it; [`None`] if it is not one.
    #[inline(always)]
    fn parse_around_tags<'a>(
        &mut self,
        message: &'a [u8],
        is_outer: bool,
    ) -> Option<(Fields<'a>, Seen)> {
        let nested = outer(is_outer, &mut self.nested);
        let fields = self.lists.parse_around_tags(message, nested).ok()?;
        let Self { lists, repeats, request_tags, encoder, .. } = self;
        let seen = match tags(lists, request_tags, message) {
            Some(tags) => repeats.find(tags, encoder.record.hasher()),
            None => Seen::Not,
        };
        let is_read = matches!(seen, Seen::Confirmed(_)) || self.lists.read_timer_tags(message);
        is_read.then_some((fields, seen))
    }

    #[inline(always)]
    fn prepare(
        &mut self,
        message: &[u8],
        (fields, seen): (&Fields<'_>, Seen),
        received_secs: u32,
    ) -> Result<usize, RejectReason> {
        let Self { encoder, lists, rules, repeats, request_tags, .. } = self;
        encoder.begin(fields, rules);
        if let Seen::Confirmed(repeat) = seen {
            encoder.timers_without_tags(lists);
            encoder.record.name_tags(repeat, true);
        } else {
            lists.check()?;
            encoder.all_tags(message, lists, rules);
            let repeat = match seen {
                _ if encoder.record.is_repaired() => None,
                Seen::New(hash) => {
                    tags(lists, request_tags, message).and_then(|tags| repeats.name(tags, hash))
                }
                Seen::Named(repeat) => Some(repeat),
                _ => None,
            };
            if let Some(repeat) = repeat {
                encoder.record.name_tags(repeat, false);
            }
        }
        encoder.record.finish(&fields.numbers, received_secs)
    }
}

/// The tags of the parsed message, if its record can leave them out.
#[inline(always)]
fn tags<'a>(lists: &Lists, request_tags: &'a mut Vec<u8>, message: &'a [u8]) -> Option<Tags<'a>> {
    let timers = lists.timer_hit_counts.len();
    let agree =
        timers == lists.timer_values.len() && lists.tag_names.len() == lists.tag_values.len();
    if !agree || lists.timer_hit_counts.contains(&0) {
        return None;
    }
    request_tags.clear();
    for index in lists.tag_names.iter().chain(&lists.tag_values) {
        request_tags.push(u8::try_from(*index).ok()?);
    }
    let of_timers = lists.timer_tags?.of(message);
    Some(Tags { timers, of_timers, of_request: request_tags })
}

/// The list of nested messages, emptied; none within a nested message.
fn outer(is_outer: bool, nested: &mut Vec<Span>) -> Option<&mut Vec<Span>> {
    is_outer.then(|| {
        nested.clear();
        nested
    })
}

/// The reason for a datagram that cannot be decoded. pinba2 may put a header of four bytes before
/// the message, the first one 0x1n; messages that begin with field 2 or 3 do too, hence the check
/// comes after decoding, not before. (Compressed bytes fail at their first key: a datagram that
/// only lacks a field is a message.)
#[cold]
fn undecodable(datagram: &[u8], reason: RejectReason) -> RejectReason {
    match datagram {
        [first, _, _, _, ..] if first >> 4 == 1 && reason != RejectReason::MissingField => {
            RejectReason::Lz4Header
        }
        _ => reason,
    }
}

#[cfg(any(test, fuzzing))]
#[path = "tests/reference/mod.rs"]
pub(crate) mod reference;
#[cfg(test)]
mod tests;
