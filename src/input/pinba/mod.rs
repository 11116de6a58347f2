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
mod request;
mod tag_memo;

use super::Decode;
use super::record::{
    DecodeCounts, Hasher, Record, RecordSink, RecordWriter, RejectReason, TextLimits,
};
use super::rewrite::{AsSent, Rewrite};
use crate::limits::{DATAGRAM_BYTES_MAX, RECORD_BYTES_MAX};
use dictionary::Span;
use encode::Encoder;
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
            counts: DecodeCounts::default(),
        }
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
        self.nested.clear();
        let fields = self
            .lists
            .parse(datagram, Some(&mut self.nested))
            .map_err(|reason| undecodable(datagram, reason))?;
        if !self.nested.is_empty() {
            return self.take_all(datagram, &fields, received_secs, sink);
        }
        self.lists.check()?;
        let bytes = self.prepare(datagram, &fields, received_secs)?;
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
        fields: &Fields<'_>,
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, RejectReason> {
        self.lists.check_timer_counts()?;
        let before = self.counts;
        let result = self.take_pending(datagram, fields, received_secs).and_then(|first_reason| {
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
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<Option<RejectReason>, RejectReason> {
        self.pending.clear();
        let mut first_reason = None;
        if let Err(reason) = self.append_pending(datagram, fields, received_secs) {
            self.counts.reject_request(reason);
            first_reason = Some(reason);
        }
        let mut index = 0_usize;
        while let Some(span) = self.nested.get(index).copied() {
            index = index.saturating_add(1);
            let message = span.of(datagram);
            let fields =
                self.lists.parse(message, None).map_err(|reason| undecodable(datagram, reason))?;
            if let Err(reason) = self.append_pending(message, &fields, received_secs) {
                self.counts.reject_request(reason);
                first_reason = first_reason.or(Some(reason));
            }
        }
        Ok(first_reason)
    }

    fn append_pending(
        &mut self,
        message: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<(), RejectReason> {
        self.lists.check()?;
        let bytes = self.prepare(message, fields, received_secs)?;
        // All records of a datagram fit, see RECORD_GROWTH_MAX, unless rules made its names longer.
        if self.pending.len().saturating_add(bytes) > RECORD_BYTES_MAX {
            return Err(RejectReason::TooLarge);
        }
        self.encoder.record.write(&mut self.pending);
        self.counts.add_repaired(self.encoder.record.repaired());
        Ok(())
    }

    #[inline(always)]
    fn prepare(
        &mut self,
        message: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<usize, RejectReason> {
        self.encoder.prepare(message, fields, &mut self.lists, received_secs, &mut self.rules)
    }
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
