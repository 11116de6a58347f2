//! Writes records: each is prepared in four parts, so that its exact length is known before the
//! ring is asked for room.
//!
//! One per decoder, on its receiver thread. For each request: [`begin`](RecordWriter::begin), the
//! four texts, its tags, its timers with theirs, [`finish`](RecordWriter::finish), and
//! [`write`](RecordWriter::write) once the ring has room. The buffers are allocated for the largest
//! record; one that outgrows that (only name rules can do so) is rejected.

use zerocopy::{FromBytes as _, IntoBytes as _};

use super::counts::bump;
use super::hasher::{ABSENT, TagSetHasher, padded};
use super::reject::{RejectReason, Repair};
use super::repeated_tags::Repeat;
use super::seconds::{clean, span_start};
use super::strings::{Interned, StringTable, low_u32};
use super::text::{self, TextLimits};
use super::{HEAD_BYTES, Hasher, Head, Tag, TimerHead};
use crate::input::rewrite::{Chain, Rewrite, TagOf, TextField};
use crate::limits::{RECORD_BYTES_MAX, REQUEST_TAGS_MAX, TAGS_TEXT_BYTES_MAX, TEXT_BYTES_MAX};

/// The bits that ASCII leaves unset.
const HIGH_BITS: u128 = 0x8080_8080_8080_8080_8080_8080_8080_8080;

/// Counts by `Repair as usize`.
type RepairCounts = [u64; Repair::COUNT];

/// The numbers of a request, as sent. Times are in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::input) struct Numbers {
    pub(in crate::input) request_count: u32,
    pub(in crate::input) document_size: u32,
    pub(in crate::input) memory_peak: u32,
    pub(in crate::input) memory_footprint: u32,
    pub(in crate::input) status: u32,
    pub(in crate::input) request_time: f32,
    pub(in crate::input) ru_utime: f32,
    pub(in crate::input) ru_stime: f32,
    pub(in crate::input) is_counted: bool,
}

/// The record being written, and its repairs.
#[derive(Debug)]
pub(in crate::input) struct RecordWriter {
    limits: TextLimits,
    hasher: Hasher,
    head: Head,
    /// Request tags, then timers with theirs.
    body: Vec<u8>,
    strings: StringTable,
    repaired: RepairCounts,
    /// A text as sent, made UTF-8 for the name rules.
    sent: Vec<u8>,
    /// The result of name rules.
    rewritten: Vec<u8>,
}

/// The tags of a request or timer being written.
pub(in crate::input) struct TagSetWriter {
    hasher: TagSetHasher,
    count: u16,
    count_max: usize,
    text_bytes: usize,
}

impl RecordWriter {
    /// Bytes of the buffers, for the memory plan.
    pub(in crate::input) const BYTES: usize = StringTable::BYTES + RECORD_BYTES_MAX;

    pub(in crate::input) fn new(limits: TextLimits, hasher: Hasher) -> Self {
        Self {
            limits,
            hasher,
            head: Head::default(),
            body: Vec::with_capacity(RECORD_BYTES_MAX),
            strings: StringTable::new(),
            repaired: RepairCounts::default(),
            sent: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    /// Starts a record.
    #[inline(always)]
    pub(in crate::input) fn begin(&mut self) {
        self.body.clear();
        self.strings.clear();
        self.head.repeat_turn.set(0);
        self.head.leaves_out_tags = 0;
        self.repaired = RepairCounts::default();
    }

    /// Appends the next of the four texts of the request, in the order of [`TextField`]; `None` if
    /// it was not sent.
    #[inline]
    pub(in crate::input) fn text<R: Rewrite>(
        &mut self,
        field: TextField,
        raw: Option<&[u8]>,
        rules: &mut R,
    ) {
        let bytes = raw.map_or(ABSENT, |raw| {
            let cap = match field {
                TextField::ScriptName => self.limits.script_name_bytes,
                _ => self.limits.text_bytes,
            };
            let start = match rules.field_chain(field) {
                Some(chain) if self.rewrite(chain, raw, cap, rules) => {
                    let raw = &self.rewritten;
                    self.strings.append(raw, cap, &mut self.repaired)
                }
                _ => self.strings.append(raw, cap, &mut self.repaired),
            };
            u16::try_from(self.strings.since(start).len()).unwrap_or(ABSENT)
        });
        if let Some(place) = self.head.text_bytes.get_mut(field as usize) {
            place.set(bytes);
        }
    }

    /// Ends the texts; strings of the table follow.
    #[inline(always)]
    pub(in crate::input) fn end_texts(&mut self, status: u32) {
        let lengths = self.head.text_bytes.map(|bytes| bytes.get());
        let joined = self.strings.bytes();
        let hash = self.hasher.hash_joined(joined, lengths, status);
        self.head.identity_hash.set(hash);
        self.strings.begin_strings();
    }

    /// Adds a string of at most [`SHORT_BYTES`](super::hasher::SHORT_BYTES) ASCII bytes, padded
    /// with zeros.
    #[inline(always)]
    pub(in crate::input) fn short_string(&mut self, padded: u128, bytes: usize) -> Interned {
        self.strings.add_short(padded, bytes, &self.hasher)
    }

    /// Adds any string, repaired and cut.
    #[inline(never)]
    pub(in crate::input) fn string(&mut self, raw: &[u8]) -> Interned {
        if let Some(padded) = padded(raw).filter(|it| it & HIGH_BITS == 0) {
            return self.short_string(padded, raw.len());
        }
        let cap = self.limits.text_bytes;
        self.strings.add(raw, cap, &self.hasher, &mut self.repaired)
    }

    /// Adds the result of name rules for `raw`; `None` if they leave it unchanged.
    pub(in crate::input) fn rewritten_string<R: Rewrite>(
        &mut self,
        chain: Chain,
        raw: &[u8],
        rules: &mut R,
    ) -> Option<Interned> {
        let cap = self.limits.text_bytes;
        let rewritten = self.rewrite(chain, raw, cap, rules);
        rewritten.then(|| {
            let raw = &self.rewritten;
            self.strings.add(raw, cap, &self.hasher, &mut self.repaired)
        })
    }

    /// Adds the value of a tag, after the rules for its name.
    pub(in crate::input) fn tag_value<R: Rewrite>(
        &mut self,
        rules: &mut R,
        (of, name): (TagOf, &[u8]),
        value: &[u8],
    ) -> Interned {
        let chain = match rules.has_tag_chains() {
            true => rules.tag_chain(of, name),
            false => None,
        };
        let rewritten = chain.and_then(|chain| self.rewritten_string(chain, value, rules));
        rewritten.unwrap_or_else(|| self.string(value))
    }

    /// Adds those of these tags of the request that have a value, as far as there is room.
    pub(in crate::input) fn request_tags<'t, R: Rewrite>(
        &mut self,
        rules: &mut R,
        tags: impl IntoIterator<Item = (&'t str, Option<&'t [u8]>)>,
    ) {
        let mut set = self.tag_set(REQUEST_TAGS_MAX);
        for (name, value) in tags {
            let (name, Some(value)) = (name.as_bytes(), value) else { continue };
            if self.has_room(&mut set, name.len(), value.len()) {
                let string = self.string(name);
                let value = self.tag_value(rules, (TagOf::Request, name), value);
                self.tag(&mut set, string, value);
            }
        }
        self.end_request_tags(&set);
    }

    /// The text of a string of this record.
    pub(in crate::input) fn string_text(&self, string: Interned) -> &[u8] {
        self.strings.text(string.number)
    }

    /// Starts a tag set of at most `count_max` pairs: the request's, or that of the last timer.
    #[inline(always)]
    pub(in crate::input) fn tag_set(&self, count_max: usize) -> TagSetWriter {
        TagSetWriter { hasher: self.hasher.tag_set(), count: 0, count_max, text_bytes: 0 }
    }

    /// Whether `set` has room for one more pair with texts of these lengths, as sent; if not,
    /// counts a repair.
    #[inline(always)]
    pub(in crate::input) fn has_room(
        &mut self,
        set: &mut TagSetWriter,
        name_bytes: usize,
        value_bytes: usize,
    ) -> bool {
        let cap = self.limits.text_bytes;
        let with =
            set.text_bytes.saturating_add(name_bytes.min(cap)).saturating_add(value_bytes.min(cap));
        if usize::from(set.count) >= set.count_max || with > TAGS_TEXT_BYTES_MAX {
            self.count(Repair::TagOverLimit);
            return false;
        }
        set.text_bytes = with;
        true
    }

    /// Adds a pair to `set`.
    #[inline(always)]
    pub(in crate::input) fn tag(
        &mut self,
        set: &mut TagSetWriter,
        name: Interned,
        value: Interned,
    ) {
        set.hasher.add(name.hash, value.hash);
        let tag = Tag { name: name.number.into(), value: value.number.into() };
        self.body.extend_from_slice(tag.as_bytes());
        set.count = set.count.saturating_add(1);
    }

    /// Ends the request's own tags.
    #[inline(always)]
    pub(in crate::input) fn end_request_tags(&mut self, set: &TagSetWriter) {
        self.head.request_tags_hash.set(set.hasher.finish());
        self.head.request_tag_count.set(set.count);
        self.head.timer_count.set(0);
    }

    /// Names the tags of the request and of its timers, and notes whether they are left out.
    #[inline(always)]
    pub(in crate::input) fn name_tags(&mut self, repeat: Repeat, left_out: bool) {
        self.head.repeat_number.set(repeat.number);
        self.head.repeat_turn.set(repeat.turn);
        self.head.leaves_out_tags = left_out.into();
    }

    /// Starts a timer: hits, then seconds of all hits together. Returns its position for
    /// [`Self::end_timer`].
    #[inline(always)]
    pub(in crate::input) fn begin_timer(
        &mut self,
        hit_count: u32,
        value: f32,
        ru_utime: f32,
        ru_stime: f32,
    ) -> usize {
        let head = TimerHead {
            hit_count: hit_count.into(),
            value: self.time(value).into(),
            ru_utime: self.time(ru_utime).into(),
            ru_stime: self.time(ru_stime).into(),
            tags_hash: 0.into(),
            tag_count: 0.into(),
        };
        let place = self.body.len();
        self.body.extend_from_slice(head.as_bytes());
        place
    }

    /// Notes that the timer at `place` came as a span, which began this many seconds after its
    /// request, and has no CPU times.
    pub(in crate::input) fn timer_is_span(&mut self, place: usize, after: f32) {
        let head = self.body.get_mut(place..);
        if let Some((head, _)) = head.and_then(|head| TimerHead::mut_from_prefix(head).ok()) {
            head.ru_stime = span_start(after).into();
        }
    }

    /// Notes that CPU times and memory of the finished record are not known.
    pub(in crate::input) fn is_unmeasured(&mut self) {
        self.head.ru_stime = span_start(0.0).into();
    }

    /// Ends the timer at `place`, whose tags were just written.
    #[inline(always)]
    pub(in crate::input) fn end_timer(&mut self, place: usize, tags: &TagSetWriter) {
        let head = self.body.get_mut(place..);
        if let Some((head, _)) = head.and_then(|head| TimerHead::mut_from_prefix(head).ok()) {
            head.tags_hash.set(tags.hasher.finish());
            head.tag_count.set(tags.count);
        }
        let timers = self.head.timer_count.get();
        self.head.timer_count.set(timers.saturating_add(1));
    }

    /// Completes the record and returns its length in bytes.
    #[inline]
    pub(in crate::input) fn finish(
        &mut self,
        numbers: &Numbers,
        received_secs: u32,
    ) -> Result<usize, RejectReason> {
        let texts_at =
            HEAD_BYTES.saturating_add(self.strings.ends().len()).saturating_add(self.body.len());
        let length = texts_at.saturating_add(self.strings.bytes().len());
        if self.strings.overflow() || length > RECORD_BYTES_MAX {
            return Err(RejectReason::TooLarge);
        }
        self.head = Head {
            length: low_u32(length).into(),
            received_secs: received_secs.into(),
            request_count: numbers.request_count.into(),
            document_size: numbers.document_size.into(),
            memory_peak: numbers.memory_peak.into(),
            memory_footprint: numbers.memory_footprint.into(),
            status: numbers.status.into(),
            request_time: self.time(numbers.request_time).into(),
            ru_utime: self.time(numbers.ru_utime).into(),
            ru_stime: self.time(numbers.ru_stime).into(),
            string_count: self.strings.count().into(),
            texts_at: low_u32(texts_at).into(),
            is_counted: numbers.is_counted.into(),
            ..self.head
        };
        Ok(length)
    }

    /// Appends the finished record to `out`.
    #[inline]
    pub(in crate::input) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(self.strings.ends());
        out.extend_from_slice(&self.body);
        out.extend_from_slice(self.strings.bytes());
    }

    /// Announces further data of the finished record: `bytes` that the caller will append to it.
    /// Returns the total length.
    pub(in crate::input) fn further(&mut self, bytes: usize) -> Result<usize, RejectReason> {
        let length = (self.head.length.get() as usize).saturating_add(bytes);
        let further = u16::try_from(bytes).ok().filter(|_| length <= RECORD_BYTES_MAX);
        self.head.further_bytes.set(further.ok_or(RejectReason::TooLarge)?);
        self.head.length.set(low_u32(length));
        Ok(length)
    }

    /// Its keyed hashes.
    pub(in crate::input) const fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Whether anything in this record was repaired.
    #[inline(always)]
    pub(in crate::input) fn is_repaired(&self) -> bool {
        self.repaired != RepairCounts::default()
    }

    /// Repairs in this record.
    pub(in crate::input) const fn repaired(&self) -> &RepairCounts {
        &self.repaired
    }

    /// Counts a repair.
    #[inline(always)]
    pub(in crate::input) fn count(&mut self, repair: Repair) {
        bump(&mut self.repaired, repair as usize);
    }

    /// Cleans a time; counts it if it became 0.
    #[inline(always)]
    fn time(&mut self, sent: f32) -> f32 {
        let kept = clean(sent);
        // Not for -0.0, which equals 0; but for NaN, which differs from everything.
        if kept != sent {
            self.count(Repair::TimeZeroed);
        }
        kept
    }

    /// Runs the rules of `chain` on a text as sent. Returns whether they changed it; then
    /// `rewritten` has the new one, which is UTF-8 but not cut to `cap` yet.
    fn rewrite<R: Rewrite>(&mut self, chain: Chain, raw: &[u8], cap: usize, rules: &mut R) -> bool {
        self.rewritten.clear();
        if raw.len() <= TEXT_BYTES_MAX && text::is_ascii(raw) {
            return rules.apply(chain, raw, &mut self.rewritten);
        }
        // Not cut to the limit: rules may match the end of a long text, or shorten it.
        let mut in_sent = RepairCounts::default();
        self.sent.clear();
        text::append(&mut self.sent, raw, TEXT_BYTES_MAX, &mut in_sent);
        let changed = rules.apply(chain, &self.sent, &mut self.rewritten);
        // If unchanged, the text is appended as it was sent, and counted then.
        let is_counted = |repair| changed && in_sent.get(repair as usize) != Some(&0);
        if is_counted(Repair::TextNotUtf8) {
            self.count(Repair::TextNotUtf8);
        }
        // Likewise a new one that is still too long.
        if is_counted(Repair::TextCut) && self.rewritten.len() <= cap {
            self.count(Repair::TextCut);
        }
        changed
    }
}
