//! One `Pinba.Request` taken apart: single fields by name, repeated ones as flat lists, nested ones as ranges.
//!
//! `decode` (mod.rs) calls [`Lists::parse`] and then [`Lists::check`]; a receiver thread runs both. The lists are made
//! once, for the worst datagram there can be (each list holds as many elements as that has bytes), so that parsing
//! takes no memory; they are read by `encode.rs` before the next message is parsed.
//!
//! A field key is matched whole, number and wire type in one: a known field with another wire type falls through to
//! the last arm and is refused there, an unknown one is skipped.

use super::cursor::{Cursor, wire_type};
use super::error::Refusal;
use crate::limits::{DATAGRAM_BYTES_MAX, GROUP_DEPTH_MAX};

/// Field numbers of `proto/pinba.proto`.
mod field {
    pub(super) const HOSTNAME: u32 = 1;
    pub(super) const SERVER_NAME: u32 = 2;
    pub(super) const SCRIPT_NAME: u32 = 3;
    pub(super) const REQUEST_COUNT: u32 = 4;
    pub(super) const DOCUMENT_SIZE: u32 = 5;
    pub(super) const MEMORY_PEAK: u32 = 6;
    pub(super) const REQUEST_TIME: u32 = 7;
    pub(super) const RU_UTIME: u32 = 8;
    pub(super) const RU_STIME: u32 = 9;
    pub(super) const TIMER_HIT_COUNT: u32 = 10;
    pub(super) const TIMER_VALUE: u32 = 11;
    pub(super) const TIMER_TAG_COUNT: u32 = 12;
    pub(super) const TIMER_TAG_NAME: u32 = 13;
    pub(super) const TIMER_TAG_VALUE: u32 = 14;
    pub(super) const DICTIONARY: u32 = 15;
    pub(super) const STATUS: u32 = 16;
    pub(super) const MEMORY_FOOTPRINT: u32 = 17;
    pub(super) const REQUESTS: u32 = 18;
    pub(super) const SCHEMA: u32 = 19;
    pub(super) const TAG_NAME: u32 = 20;
    pub(super) const TAG_VALUE: u32 = 21;
    pub(super) const TIMER_RU_UTIME: u32 = 22;
    pub(super) const TIMER_RU_STIME: u32 = 23;
    /// The last known number; all below are known too.
    pub(super) const LAST: u32 = TIMER_RU_STIME;
}

/// Keys: field number times 8 plus wire type.
mod key {
    use super::field;
    use super::wire_type::{FIXED32, LENGTH, VARINT};

    const fn key(field: u32, wire_type: u32) -> u32 {
        (field << 3) | wire_type
    }

    pub(super) const HOSTNAME: u32 = key(field::HOSTNAME, LENGTH);
    pub(super) const SERVER_NAME: u32 = key(field::SERVER_NAME, LENGTH);
    pub(super) const SCRIPT_NAME: u32 = key(field::SCRIPT_NAME, LENGTH);
    pub(super) const REQUEST_COUNT: u32 = key(field::REQUEST_COUNT, VARINT);
    pub(super) const DOCUMENT_SIZE: u32 = key(field::DOCUMENT_SIZE, VARINT);
    pub(super) const MEMORY_PEAK: u32 = key(field::MEMORY_PEAK, VARINT);
    pub(super) const REQUEST_TIME: u32 = key(field::REQUEST_TIME, FIXED32);
    pub(super) const RU_UTIME: u32 = key(field::RU_UTIME, FIXED32);
    pub(super) const RU_STIME: u32 = key(field::RU_STIME, FIXED32);
    pub(super) const TIMER_HIT_COUNT: u32 = key(field::TIMER_HIT_COUNT, VARINT);
    pub(super) const TIMER_HIT_COUNT_PACKED: u32 = key(field::TIMER_HIT_COUNT, LENGTH);
    pub(super) const TIMER_VALUE: u32 = key(field::TIMER_VALUE, FIXED32);
    pub(super) const TIMER_VALUE_PACKED: u32 = key(field::TIMER_VALUE, LENGTH);
    pub(super) const TIMER_TAG_COUNT: u32 = key(field::TIMER_TAG_COUNT, VARINT);
    pub(super) const TIMER_TAG_COUNT_PACKED: u32 = key(field::TIMER_TAG_COUNT, LENGTH);
    pub(super) const TIMER_TAG_NAME: u32 = key(field::TIMER_TAG_NAME, VARINT);
    pub(super) const TIMER_TAG_NAME_PACKED: u32 = key(field::TIMER_TAG_NAME, LENGTH);
    pub(super) const TIMER_TAG_VALUE: u32 = key(field::TIMER_TAG_VALUE, VARINT);
    pub(super) const TIMER_TAG_VALUE_PACKED: u32 = key(field::TIMER_TAG_VALUE, LENGTH);
    pub(super) const DICTIONARY: u32 = key(field::DICTIONARY, LENGTH);
    pub(super) const STATUS: u32 = key(field::STATUS, VARINT);
    pub(super) const MEMORY_FOOTPRINT: u32 = key(field::MEMORY_FOOTPRINT, VARINT);
    pub(super) const REQUESTS: u32 = key(field::REQUESTS, LENGTH);
    pub(super) const SCHEMA: u32 = key(field::SCHEMA, LENGTH);
    pub(super) const TAG_NAME: u32 = key(field::TAG_NAME, VARINT);
    pub(super) const TAG_NAME_PACKED: u32 = key(field::TAG_NAME, LENGTH);
    pub(super) const TAG_VALUE: u32 = key(field::TAG_VALUE, VARINT);
    pub(super) const TAG_VALUE_PACKED: u32 = key(field::TAG_VALUE, LENGTH);
    pub(super) const TIMER_RU_UTIME: u32 = key(field::TIMER_RU_UTIME, FIXED32);
    pub(super) const TIMER_RU_UTIME_PACKED: u32 = key(field::TIMER_RU_UTIME, LENGTH);
    pub(super) const TIMER_RU_STIME: u32 = key(field::TIMER_RU_STIME, FIXED32);
    pub(super) const TIMER_RU_STIME_PACKED: u32 = key(field::TIMER_RU_STIME, LENGTH);
}

/// Bits of [`Fields::seen`]: one for each required field, by its number.
const ALL_REQUIRED: u32 = 0b11_1111_1110;

/// The fields that occur once. Texts are as sent; an absent number is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    pub(super) hostname: &'a [u8],
    pub(super) server_name: &'a [u8],
    pub(super) script_name: &'a [u8],
    /// `None`: not sent. (Sent and empty is another value.)
    pub(super) schema: Option<&'a [u8]>,
    pub(super) request_count: u32,
    pub(super) document_size: u32,
    pub(super) memory_peak: u32,
    pub(super) memory_footprint: u32,
    pub(super) status: u32,
    pub(super) request_time: f32,
    pub(super) ru_utime: f32,
    pub(super) ru_stime: f32,
    /// Bit n: required field n was there.
    seen: u32,
}

/// A range of bytes in the message it was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u16,
    len: u16,
}

impl Span {
    /// The range of the `len` bytes that end where `left` bytes of a message of `total` are left.
    #[inline(always)]
    fn before(total: usize, left: usize, len: usize) -> Self {
        let start = total.wrapping_sub(left).wrapping_sub(len);
        // A datagram ends at DATAGRAM_BYTES_MAX, which fits: nothing is cut here.
        Self {
            start: start as u16,
            len: len as u16,
        }
    }

    /// Where the range begins.
    #[inline(always)]
    pub(super) fn start(self) -> usize {
        usize::from(self.start)
    }

    /// Its length in bytes.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        usize::from(self.len)
    }

    /// The bytes meant, out of that message.
    #[inline(always)]
    pub(super) fn of(self, message: &[u8]) -> &[u8] {
        message
            .get(self.start()..self.start().saturating_add(self.len()))
            .unwrap_or(&[])
    }
}

/// A word of the packet's dictionary, with what `encode.rs` finds out about it at its first use.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word {
    /// Keyed hash of the text; set with `slot`.
    pub(super) hash: u64,
    /// Where the text was sent.
    pub(super) span: Span,
    /// Its place among the record's words, or [`Word::UNUSED`].
    pub(super) slot: u16,
}

impl Word {
    /// No tag has used this word yet. A datagram cannot hold that many words, each takes two bytes at least.
    pub(super) const UNUSED: u16 = u16::MAX;
}

/// The repeated fields of the message parsed last, in packet order.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) timer_hit_counts: Vec<u32>,
    pub(super) timer_values: Vec<f32>,
    pub(super) timer_tag_counts: Vec<u32>,
    pub(super) timer_tag_names: Vec<u32>,
    pub(super) timer_tag_values: Vec<u32>,
    pub(super) timer_ru_utimes: Vec<f32>,
    pub(super) timer_ru_stimes: Vec<f32>,
    pub(super) tag_names: Vec<u32>,
    pub(super) tag_values: Vec<u32>,
    pub(super) dictionary: Vec<Word>,
}

impl Lists {
    /// Bytes that all lists together take, for the memory plan.
    pub(super) const BYTES: usize = {
        let numbers = DATAGRAM_BYTES_MAX * 6 * size_of::<u32>();
        let floats = DATAGRAM_BYTES_MAX / 4 * 3 * size_of::<f32>();
        numbers + floats + DATAGRAM_BYTES_MAX / 2 * size_of::<Word>()
    };

    /// Lists that no datagram can fill: a packed number takes a byte at least, a float four, a word two.
    pub(super) fn new() -> Self {
        let numbers = || Vec::with_capacity(DATAGRAM_BYTES_MAX);
        let floats = || Vec::with_capacity(DATAGRAM_BYTES_MAX / 4);
        Self {
            timer_hit_counts: numbers(),
            timer_values: floats(),
            timer_tag_counts: numbers(),
            timer_tag_names: numbers(),
            timer_tag_values: numbers(),
            timer_ru_utimes: floats(),
            timer_ru_stimes: floats(),
            tag_names: numbers(),
            tag_values: numbers(),
            dictionary: Vec::with_capacity(DATAGRAM_BYTES_MAX / 2),
        }
    }

    fn clear(&mut self) {
        self.timer_hit_counts.clear();
        self.timer_values.clear();
        self.timer_tag_counts.clear();
        self.timer_tag_names.clear();
        self.timer_tag_values.clear();
        self.timer_ru_utimes.clear();
        self.timer_ru_stimes.clear();
        self.tag_names.clear();
        self.tag_values.clear();
        self.dictionary.clear();
    }

    /// Takes `message` apart; the lists are overwritten. `nested` is where the nested requests of an outer message are
    /// noted; `None` for a nested one: requests nested deeper are skipped unread.
    ///
    /// `message` is at most [`DATAGRAM_BYTES_MAX`] long; the caller sees to that.
    pub(super) fn parse<'a>(
        &mut self,
        message: &'a [u8],
        mut nested: Option<&mut Vec<Span>>,
    ) -> Result<Fields<'a>, Refusal> {
        debug_assert!(
            message.len() <= DATAGRAM_BYTES_MAX,
            "positions have 16 bits"
        );
        self.clear();
        let mut fields = Fields::default();
        let mut cursor = Cursor::new(message);
        // The lists that the wire repeats key by key are read in runs: the key that was just seen is likely next.
        while cursor.left() > 0 {
            let key = cursor.key()?;
            match key {
                key::HOSTNAME => {
                    fields.hostname = cursor.bytes()?;
                    fields.seen |= 1 << field::HOSTNAME;
                }
                key::SERVER_NAME => {
                    fields.server_name = cursor.bytes()?;
                    fields.seen |= 1 << field::SERVER_NAME;
                }
                key::SCRIPT_NAME => {
                    fields.script_name = cursor.bytes()?;
                    fields.seen |= 1 << field::SCRIPT_NAME;
                }
                key::REQUEST_COUNT => {
                    fields.request_count = cursor.uint32()?;
                    fields.seen |= 1 << field::REQUEST_COUNT;
                }
                key::DOCUMENT_SIZE => {
                    fields.document_size = cursor.uint32()?;
                    fields.seen |= 1 << field::DOCUMENT_SIZE;
                }
                key::MEMORY_PEAK => {
                    fields.memory_peak = cursor.uint32()?;
                    fields.seen |= 1 << field::MEMORY_PEAK;
                }
                key::REQUEST_TIME => {
                    fields.request_time = cursor.float()?;
                    fields.seen |= 1 << field::REQUEST_TIME;
                }
                key::RU_UTIME => {
                    fields.ru_utime = cursor.float()?;
                    fields.seen |= 1 << field::RU_UTIME;
                }
                key::RU_STIME => {
                    fields.ru_stime = cursor.float()?;
                    fields.seen |= 1 << field::RU_STIME;
                }
                key::TIMER_HIT_COUNT => numbers(&mut cursor, key, &mut self.timer_hit_counts)?,
                key::TIMER_VALUE => floats(&mut cursor, key, &mut self.timer_values)?,
                key::TIMER_TAG_COUNT => numbers(&mut cursor, key, &mut self.timer_tag_counts)?,
                key::TIMER_TAG_NAME => numbers(&mut cursor, key, &mut self.timer_tag_names)?,
                key::TIMER_TAG_VALUE => numbers(&mut cursor, key, &mut self.timer_tag_values)?,
                key::DICTIONARY => loop {
                    let len = cursor.bytes()?.len();
                    let span = Span::before(message.len(), cursor.left(), len);
                    self.dictionary.push(Word {
                        hash: 0,
                        span,
                        slot: Word::UNUSED,
                    });
                    if !cursor.eat(key::DICTIONARY) {
                        break;
                    }
                },
                key::STATUS => fields.status = cursor.uint32()?,
                key::MEMORY_FOOTPRINT => fields.memory_footprint = cursor.uint32()?,
                key::REQUESTS => {
                    let len = cursor.bytes()?.len();
                    if let Some(nested) = nested.as_deref_mut() {
                        nested.push(Span::before(message.len(), cursor.left(), len));
                    }
                }
                key::SCHEMA => fields.schema = Some(cursor.bytes()?),
                key::TAG_NAME => long_key_numbers(&mut cursor, key, &mut self.tag_names)?,
                key::TAG_VALUE => long_key_numbers(&mut cursor, key, &mut self.tag_values)?,
                key::TIMER_RU_UTIME => {
                    long_key_floats(&mut cursor, key, &mut self.timer_ru_utimes)?;
                }
                key::TIMER_RU_STIME => {
                    long_key_floats(&mut cursor, key, &mut self.timer_ru_stimes)?;
                }
                _ => cursor = self.rare(key, cursor, nested.is_some())?,
            }
        }
        if fields.seen == ALL_REQUIRED {
            Ok(fields)
        } else {
            Err(Refusal::MissingField)
        }
    }

    /// Packed lists, which no known client sends; unknown fields; and what is not allowed.
    #[cold]
    fn rare<'a>(
        &mut self,
        key: u32,
        mut cursor: Cursor<'a>,
        outer: bool,
    ) -> Result<Cursor<'a>, Refusal> {
        let packed = &mut cursor;
        match key {
            key::TIMER_HIT_COUNT_PACKED => packed_numbers(packed, &mut self.timer_hit_counts)?,
            key::TIMER_VALUE_PACKED => packed_floats(packed, &mut self.timer_values)?,
            key::TIMER_TAG_COUNT_PACKED => packed_numbers(packed, &mut self.timer_tag_counts)?,
            key::TIMER_TAG_NAME_PACKED => packed_numbers(packed, &mut self.timer_tag_names)?,
            key::TIMER_TAG_VALUE_PACKED => packed_numbers(packed, &mut self.timer_tag_values)?,
            key::TAG_NAME_PACKED => packed_numbers(packed, &mut self.tag_names)?,
            key::TAG_VALUE_PACKED => packed_numbers(packed, &mut self.tag_values)?,
            key::TIMER_RU_UTIME_PACKED => packed_floats(packed, &mut self.timer_ru_utimes)?,
            key::TIMER_RU_STIME_PACKED => packed_floats(packed, &mut self.timer_ru_stimes)?,
            // Wire types 6 and 7 do not exist, whatever the field.
            _ if key & 7 > wire_type::FIXED32 => return Err(Refusal::BadKey),
            _ if (1..=field::LAST).contains(&(key >> 3)) => return Err(Refusal::WrongWireType),
            _ => cursor.skip(key, groups_max(outer))?,
        }
        Ok(cursor)
    }

    /// Rules V1 to V4 and V6, in this order: a request that breaks one is not taken.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Refusal> {
        self.check_timer_counts()?;
        if self.tag_names.len() != self.tag_values.len() {
            return Err(Refusal::RequestTagCounts);
        }
        let words = self.dictionary.len();
        if words == 0 && (!self.timer_hit_counts.is_empty() || !self.tag_names.is_empty()) {
            return Err(Refusal::NoDictionary);
        }
        let outside = |index: &u32| *index as usize >= words;
        if self.tag_names.iter().any(outside) || self.tag_values.iter().any(outside) {
            return Err(Refusal::RequestTagIndex);
        }
        let pairs = self
            .timer_tag_counts
            .iter()
            .fold(0_u64, |all, count| all.saturating_add(u64::from(*count)));
        if pairs != self.timer_tag_names.len() as u64 || pairs != self.timer_tag_values.len() as u64
        {
            return Err(Refusal::TimerTagCounts);
        }
        Ok(())
    }

    /// Rule V1 alone: in an outer request it decides over the nested ones too.
    #[inline]
    pub(super) fn check_timer_counts(&self) -> Result<(), Refusal> {
        let timers = self.timer_hit_counts.len();
        if timers == self.timer_values.len() && timers == self.timer_tag_counts.len() {
            Ok(())
        } else {
            Err(Refusal::TimerCounts)
        }
    }
}

/// How deep groups may go in a message: a nested message is itself one level deep.
const fn groups_max(outer: bool) -> usize {
    if outer {
        GROUP_DEPTH_MAX
    } else {
        GROUP_DEPTH_MAX - 1
    }
}

/// A run of unpacked numbers under one single-byte key, which was just read.
#[inline(always)]
fn numbers(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<u32>) -> Result<(), Refusal> {
    list.push(cursor.uint32()?);
    while let Some(number) = cursor.next_small(key) {
        list.push(number);
    }
    Ok(())
}

/// A run of unpacked floats under one single-byte key, which was just read.
#[inline(always)]
fn floats(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<f32>) -> Result<(), Refusal> {
    list.push(cursor.float()?);
    while let Some(float) = cursor.next_float(key) {
        list.push(float);
    }
    Ok(())
}

/// A run of unpacked numbers under one two-byte key, which was just read.
#[inline(always)]
fn long_key_numbers(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<u32>) -> Result<(), Refusal> {
    list.push(cursor.uint32()?);
    while let Some(number) = cursor.next_small_long_key(key) {
        list.push(number);
    }
    Ok(())
}

/// A run of unpacked floats under one two-byte key, which was just read.
#[inline(always)]
fn long_key_floats(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<f32>) -> Result<(), Refusal> {
    list.push(cursor.float()?);
    while let Some(float) = cursor.next_float_long_key(key) {
        list.push(float);
    }
    Ok(())
}

fn packed_numbers(cursor: &mut Cursor<'_>, list: &mut Vec<u32>) -> Result<(), Refusal> {
    let mut packed = Cursor::new(cursor.bytes()?);
    while packed.left() > 0 {
        list.push(packed.uint32()?);
    }
    Ok(())
}

fn packed_floats(cursor: &mut Cursor<'_>, list: &mut Vec<f32>) -> Result<(), Refusal> {
    let mut packed = Cursor::new(cursor.bytes()?);
    while packed.left() > 0 {
        list.push(packed.float()?);
    }
    Ok(())
}
