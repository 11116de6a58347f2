//! From the bytes of a datagram to records: the first two steps of the data path.
//!
//! A packet is one protobuf message (`proto/pinba.proto`), perhaps with further ones nested in it. A [`Decoder`] takes it
//! apart (`cursor`, `request`), checks it (`request`, `timers`), makes its texts UTF-8 and keeps them short (`text`), asks
//! the name rules (`rewrite`) and writes one compact [`Record`] for each request to the caller's [`RecordSink`] (`encode`,
//! `record`). Pure: no I/O, no clock, no unsafe; every receiver thread has a decoder of its own and calls it for every
//! datagram. All memory is taken when the decoder is made, for the worst datagram there can be. Whatever arrives
//! ends in exactly one counter ([`DecodeCounts`]); nothing that arrives can panic.
//!
//! ```
//! use pinbad::wire::{Decoder, Hasher, Record, TextLimits, model};
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
//! let tags: Vec<_> = timer.tags.iter().map(|(n, v)| (record.word(n), record.word(v))).collect();
//! assert_eq!(tags, [(&b"group"[..], &b"db"[..]), (b"op", b"read")]);
//! ```

// Untrusted bytes: every access is checked, every sum says what it does past the end. Tests may be plain.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)
)]

mod counts;
mod cursor;
mod encode;
mod error;
mod hasher;
#[cfg(any(test, fuzzing))]
pub(crate) mod judged;
pub mod model;
mod record;
mod request;
mod rewrite;
mod seconds;
mod text;
mod timers;
mod words;

pub use counts::DecodeCounts;
pub use error::{Mend, Refusal};
pub use hasher::{Hasher, TagSetHasher};
pub use record::{HEAD_BYTES, Record, TAG_BYTES, TIMER_BYTES, TagSet, Timer, Timers, WORD_BYTES};
pub use rewrite::{AsSent, Chain, NameRules, Rewrite, RuleCounters, RuleCounts, TagOf, TextField};
pub use seconds::micros;
pub use text::TextLimits;

use crate::limits::{DATAGRAM_BYTES_MAX, RECORD_BYTES_MAX};
use encode::Encoder;
use request::{Fields, Lists, Span};
use words::Terms;

/// Where records go: a block of the ring, or any `Vec<u8>`.
pub trait RecordSink {
    /// The buffer to which one record of exactly `bytes` bytes is appended right after this call; asked for once a
    /// record, so a sink can count them here. `bytes` is at most [`RECORD_BYTES_MAX`]. A buffer that has the room never
    /// grows. `None`: there is no room and will be none, the request is refused as [`Refusal::TooLarge`].
    fn reserve(&mut self, bytes: usize) -> Option<&mut Vec<u8>>;
}

impl RecordSink for Vec<u8> {
    fn reserve(&mut self, _bytes: usize) -> Option<&mut Vec<u8>> {
        Some(self)
    }
}

/// Turns datagrams into records, with `R` as name rules. One for each receiver thread.
#[derive(Debug)]
pub struct Decoder<R = AsSent> {
    lists: Lists,
    /// Nested requests of the datagram at hand.
    nested: Vec<Span>,
    encoder: Encoder,
    /// Records of a datagram with nested requests, until it is known that all of it can be decoded.
    pending: Vec<u8>,
    terms: Terms,
    rules: R,
    counts: DecodeCounts,
}

/// Nested requests that a datagram can hold: two bytes of key and one of length, and nothing in them.
const NESTED_MAX: usize = DATAGRAM_BYTES_MAX / 3;

impl Decoder {
    /// Bytes that one decoder takes when it is made, for the memory plan; rules come on top.
    pub const BYTES: usize =
        Lists::BYTES + NESTED_MAX * size_of::<Span>() + Encoder::BYTES + RECORD_BYTES_MAX;

    /// A decoder that keeps names as sent. All decoders and the merger share one `hasher` (clones of it).
    #[must_use]
    pub fn new(limits: TextLimits, hasher: Hasher) -> Self {
        Self::with_rules(limits, hasher, AsSent)
    }
}

impl<R: Rewrite> Decoder<R> {
    /// A decoder that asks `rules` for every name.
    #[must_use]
    pub fn with_rules(limits: TextLimits, hasher: Hasher, rules: R) -> Self {
        Self {
            lists: Lists::new(),
            nested: Vec::with_capacity(NESTED_MAX),
            encoder: Encoder::new(rules.has_tag_chains()),
            pending: Vec::with_capacity(RECORD_BYTES_MAX),
            terms: Terms { limits, hasher },
            rules,
            counts: DecodeCounts::ZERO,
        }
    }

    /// Decodes one datagram, received in second `received_secs` (since 1970), and gives how many records went to
    /// `sink`: the outer request first, then the nested ones. Refused: nothing went there.
    ///
    /// A datagram is taken if all of it can be decoded, its timer lists agree (V1), and at least one of its requests keeps
    /// the rules V1 to V6. Requests of it that do not are left out.
    #[inline]
    pub fn decode(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, Refusal> {
        let result = self.take(datagram, received_secs, sink);
        if let Err(reason) = result {
            self.counts.refuse_datagram(reason);
        }
        result
    }

    /// Counts a datagram that is refused without being looked at.
    pub fn refuse(&mut self, reason: Refusal) {
        self.counts.refuse_datagram(reason);
    }

    /// What was counted since the last time, and starts again at zero.
    pub fn take_counts(&mut self) -> DecodeCounts {
        std::mem::take(&mut self.counts)
    }

    /// What was counted since the counts were taken.
    #[must_use]
    pub const fn counts(&self) -> &DecodeCounts {
        &self.counts
    }

    /// The name rules, with whatever they have counted.
    pub const fn rules(&self) -> &R {
        &self.rules
    }

    /// The same, to change them or to take their counts.
    pub const fn rules_mut(&mut self) -> &mut R {
        &mut self.rules
    }

    fn take(
        &mut self,
        datagram: &[u8],
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, Refusal> {
        if datagram.is_empty() {
            return Err(Refusal::Empty);
        }
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Refusal::TooLong);
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
        let room = sink.reserve(bytes).ok_or(Refusal::TooLarge)?;
        self.encoder.write(room);
        self.count_mended();
        self.counts.datagrams_accepted = self.counts.datagrams_accepted.saturating_add(1);
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        Ok(1)
    }

    /// The same for a datagram with nested requests. Its records wait in `pending`, because a nested request that cannot
    /// be decoded takes the whole datagram with it.
    #[cold]
    fn take_all(
        &mut self,
        datagram: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
        sink: &mut impl RecordSink,
    ) -> Result<u32, Refusal> {
        self.lists.check_timer_counts()?;
        let before = self.counts;
        let refused =
            self.take_pending(datagram, fields, received_secs)
                .and_then(|first_refusal| {
                    let mut pushed = 0_u32;
                    let mut rest = self.pending.as_slice();
                    while let Some(record) = Record::next(&mut rest) {
                        match sink.reserve(record.bytes().len()) {
                            Some(room) => {
                                room.extend_from_slice(record.bytes());
                                pushed = pushed.saturating_add(1);
                            }
                            None => self.counts.refuse_request(Refusal::TooLarge),
                        }
                    }
                    if pushed == 0 {
                        Err(first_refusal.unwrap_or(Refusal::TooLarge))
                    } else {
                        Ok(pushed)
                    }
                });
        if refused.is_ok() {
            self.counts.datagrams_accepted = self.counts.datagrams_accepted.saturating_add(1);
            let requests = 1_u64.saturating_add(self.nested.len() as u64);
            self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(requests);
        } else {
            // Nothing of it was taken: it counts as one invalid datagram and as nothing else.
            self.counts = before;
        }
        refused
    }

    /// Encodes the outer request and its nested ones into `pending`. Gives the first reason for which one was left out.
    fn take_pending(
        &mut self,
        datagram: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<Option<Refusal>, Refusal> {
        self.pending.clear();
        let mut first_refusal = None;
        if let Err(reason) = self.append_pending(datagram, fields, received_secs) {
            self.counts.refuse_request(reason);
            first_refusal = Some(reason);
        }
        let mut index = 0_usize;
        while let Some(span) = self.nested.get(index).copied() {
            index = index.saturating_add(1);
            let message = span.of(datagram);
            let fields = self
                .lists
                .parse(message, None)
                .map_err(|reason| undecodable(datagram, reason))?;
            if let Err(reason) = self.append_pending(message, &fields, received_secs) {
                self.counts.refuse_request(reason);
                first_refusal = first_refusal.or(Some(reason));
            }
        }
        Ok(first_refusal)
    }

    fn append_pending(
        &mut self,
        message: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<(), Refusal> {
        self.lists.check()?;
        let bytes = self.prepare(message, fields, received_secs)?;
        // All records of a datagram fit, see RECORD_GROWTH_MAX; unless rules made its names longer.
        if self.pending.len().saturating_add(bytes) > RECORD_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        self.encoder.write(&mut self.pending);
        self.count_mended();
        Ok(())
    }

    #[inline(always)]
    fn prepare(
        &mut self,
        message: &[u8],
        fields: &Fields<'_>,
        received_secs: u32,
    ) -> Result<usize, Refusal> {
        self.encoder.prepare(
            message,
            fields,
            &mut self.lists,
            received_secs,
            &self.terms,
            &mut self.rules,
        )
    }

    #[inline(always)]
    fn count_mended(&mut self) {
        for (counter, mended) in self.counts.mended.iter_mut().zip(self.encoder.mended()) {
            *counter = counter.wrapping_add(*mended);
        }
    }
}

/// The reason to give for a datagram that cannot be decoded. pinba2 may put a header of four bytes before the message, the
/// first one 0x1n; so do the messages that begin with field 2 or 3, hence the question comes after decoding, not before.
/// (Compressed bytes fail at their first key: what lacks a field but has no other fault is a message.)
#[cold]
fn undecodable(datagram: &[u8], reason: Refusal) -> Refusal {
    match datagram {
        [first, _, _, _, ..] if first >> 4 == 1 && reason != Refusal::MissingField => {
            Refusal::Lz4Header
        }
        _ => reason,
    }
}

#[cfg(test)]
mod tests;
