//! Parses one `Pinba.Request`: single fields by name, repeated ones as flat lists, nested ones as
//! ranges.
//!
//! `decode` (mod.rs) calls [`Lists::parse`] and then [`Lists::check`]; a receiver thread runs both.
//! The lists are allocated once, for the worst possible datagram (each list holds as many elements
//! as the datagram has bytes), so that parsing allocates nothing; `encode.rs` reads them before the
//! next message is parsed.
//!
//! A field key is matched as a whole, number and wire type together: a known field with another
//! wire type reaches the last arm and is refused there, an unknown one is skipped.

use super::dictionary::{Span, Word};
use crate::input::cursor::{Cursor, wire_type};
use crate::input::record::{Numbers, RejectReason};
use crate::limits::{DATAGRAM_BYTES_MAX, GROUP_DEPTH_MAX};

/// Keys of the fields of `proto/pinba.proto`: field number times 8 plus wire type.
mod key {
    use super::wire_type::{FIXED32, LENGTH, VARINT};

    const fn key(field: u32, wire_type: u32) -> u32 {
        (field << 3) | wire_type
    }

    /// The key of the packed form of a list.
    pub(super) const fn packed(key: u32) -> u32 {
        key >> 3 << 3 | LENGTH
    }

    pub(super) const HOSTNAME: u32 = key(1, LENGTH);
    pub(super) const SERVER_NAME: u32 = key(2, LENGTH);
    pub(super) const SCRIPT_NAME: u32 = key(3, LENGTH);
    pub(super) const REQUEST_COUNT: u32 = key(4, VARINT);
    pub(super) const DOCUMENT_SIZE: u32 = key(5, VARINT);
    pub(super) const MEMORY_PEAK: u32 = key(6, VARINT);
    pub(super) const REQUEST_TIME: u32 = key(7, FIXED32);
    pub(super) const RU_UTIME: u32 = key(8, FIXED32);
    pub(super) const RU_STIME: u32 = key(9, FIXED32);
    pub(super) const TIMER_HIT_COUNT: u32 = key(10, VARINT);
    pub(super) const TIMER_VALUE: u32 = key(11, FIXED32);
    pub(super) const TIMER_TAG_COUNT: u32 = key(12, VARINT);
    pub(super) const TIMER_TAG_NAME: u32 = key(13, VARINT);
    pub(super) const TIMER_TAG_VALUE: u32 = key(14, VARINT);
    pub(super) const DICTIONARY: u32 = key(15, LENGTH);
    pub(super) const STATUS: u32 = key(16, VARINT);
    pub(super) const MEMORY_FOOTPRINT: u32 = key(17, VARINT);
    pub(super) const REQUESTS: u32 = key(18, LENGTH);
    pub(super) const SCHEMA: u32 = key(19, LENGTH);
    pub(super) const TAG_NAME: u32 = key(20, VARINT);
    pub(super) const TAG_VALUE: u32 = key(21, VARINT);
    pub(super) const TIMER_RU_UTIME: u32 = key(22, FIXED32);
    pub(super) const TIMER_RU_STIME: u32 = key(23, FIXED32);
    /// The last known field; all numbers below are known too.
    pub(super) const LAST: u32 = TIMER_RU_STIME;
}

/// Singular fields. Texts are as sent; an absent number is 0.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields<'a> {
    pub(super) hostname: &'a [u8],
    pub(super) server_name: &'a [u8],
    pub(super) script_name: &'a [u8],
    /// `None` if not sent. (An empty one is another value.)
    pub(super) schema: Option<&'a [u8]>,
    pub(super) numbers: Numbers,
}

/// The required fields 1 to 9 that were present: bit n is field n.
struct Seen(u32);

impl Seen {
    const ALL: u32 = 0b11_1111_1110;

    /// Records the presence of a field; returns its value.
    #[inline(always)]
    fn field<T>(&mut self, key: u32, value: T) -> T {
        self.0 |= 1_u32.wrapping_shl(key >> 3);
        value
    }
}

/// The repeated fields of the last parsed message, in packet order.
#[derive(Debug)]
pub(super) struct Lists {
    /// The tags of its timers and the dictionary, fields 12 to 15, if they are one range that was
    /// [passed over](Lists::parse_around_tags).
    pub(super) timer_tags: Option<Span>,
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
    /// Bytes of all lists together, for the memory plan.
    pub(super) const BYTES: usize = {
        let numbers = DATAGRAM_BYTES_MAX * 6 * size_of::<u32>();
        let floats = DATAGRAM_BYTES_MAX / 4 * 3 * size_of::<f32>();
        numbers + floats + DATAGRAM_BYTES_MAX / 2 * size_of::<Word>()
    };

    /// Lists that no datagram can overfill: a packed number takes at least one byte, a float four,
    /// a word two.
    pub(super) fn new() -> Self {
        let numbers = || Vec::with_capacity(DATAGRAM_BYTES_MAX);
        let floats = || Vec::with_capacity(DATAGRAM_BYTES_MAX / 4);
        Self {
            timer_tags: None,
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
        self.timer_tags = None;
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

    /// Parses `message`, overwriting the lists. `nested` collects the nested requests of an outer
    /// message; with `None`, for a nested message, deeper requests are skipped unread.
    ///
    /// The caller ensures that `message` is at most [`DATAGRAM_BYTES_MAX`] long.
    pub(super) fn parse<'a>(
        &mut self,
        message: &'a [u8],
        nested: Option<&mut Vec<Span>>,
    ) -> Result<Fields<'a>, RejectReason> {
        self.parse_fields::<false>(message, nested)
    }

    /// Parses `message` as [`parse`](Self::parse) does, but for tags of timers and dictionary: they
    /// are only delimited, in [`timer_tags`](Self::timer_tags), and what is delimited is not
    /// checked. An error may have another reason than that of `parse`, or none there.
    pub(super) fn parse_around_tags<'a>(
        &mut self,
        message: &'a [u8],
        nested: Option<&mut Vec<Span>>,
    ) -> Result<Fields<'a>, RejectReason> {
        self.parse_fields::<true>(message, nested)
    }

    #[inline(always)]
    fn parse_fields<'a, const AROUND_TAGS: bool>(
        &mut self,
        message: &'a [u8],
        mut nested: Option<&mut Vec<Span>>,
    ) -> Result<Fields<'a>, RejectReason> {
        debug_assert!(message.len() <= DATAGRAM_BYTES_MAX, "positions have 16 bits");
        self.clear();
        let mut fields = Fields::default();
        let numbers = &mut fields.numbers;
        let mut seen = Seen(0);
        let mut cursor = Cursor::new(message);
        // Lists that repeat their key are read in runs: the last key is likely to come next.
        while cursor.left() > 0 {
            let at = cursor.left();
            let key = cursor.key()?;
            match key {
                key::TIMER_TAG_COUNT
                | key::TIMER_TAG_NAME
                | key::TIMER_TAG_VALUE
                | key::DICTIONARY
                    if AROUND_TAGS =>
                {
                    let start = message.len().saturating_sub(at);
                    let rest = message.get(start..).and_then(|it| self.after_tags(it));
                    let rest = rest.ok_or(RejectReason::TimerTagCounts)?;
                    let bytes = at.saturating_sub(rest.len());
                    self.timer_tags = Some(Span::before(message.len(), rest.len(), bytes));
                    cursor = Cursor::new(rest);
                }
                key::HOSTNAME => fields.hostname = seen.field(key, cursor.bytes()?),
                key::SERVER_NAME => fields.server_name = seen.field(key, cursor.bytes()?),
                key::SCRIPT_NAME => fields.script_name = seen.field(key, cursor.bytes()?),
                key::REQUEST_COUNT => numbers.request_count = seen.field(key, cursor.uint32()?),
                key::DOCUMENT_SIZE => numbers.document_size = seen.field(key, cursor.uint32()?),
                key::MEMORY_PEAK => numbers.memory_peak = seen.field(key, cursor.uint32()?),
                key::REQUEST_TIME => numbers.request_time = seen.field(key, cursor.float()?),
                key::RU_UTIME => numbers.ru_utime = seen.field(key, cursor.float()?),
                key::RU_STIME => numbers.ru_stime = seen.field(key, cursor.float()?),
                key::TIMER_HIT_COUNT => number_run(&mut cursor, key, &mut self.timer_hit_counts)?,
                key::TIMER_VALUE => float_run(&mut cursor, key, &mut self.timer_values)?,
                key::TIMER_TAG_COUNT => number_run(&mut cursor, key, &mut self.timer_tag_counts)?,
                key::TIMER_TAG_NAME => number_run(&mut cursor, key, &mut self.timer_tag_names)?,
                key::TIMER_TAG_VALUE => number_run(&mut cursor, key, &mut self.timer_tag_values)?,
                key::DICTIONARY => loop {
                    let len = cursor.bytes()?.len();
                    let span = Span::before(message.len(), cursor.left(), len);
                    self.dictionary.push(Word::new(span));
                    if !cursor.eat(key::DICTIONARY) {
                        break;
                    }
                },
                key::STATUS => numbers.status = cursor.uint32()?,
                key::MEMORY_FOOTPRINT => numbers.memory_footprint = cursor.uint32()?,
                key::REQUESTS => {
                    let len = cursor.bytes()?.len();
                    if let Some(nested) = nested.as_deref_mut() {
                        nested.push(Span::before(message.len(), cursor.left(), len));
                    }
                }
                key::SCHEMA => fields.schema = Some(cursor.bytes()?),
                key::TAG_NAME => number_run(&mut cursor, key, &mut self.tag_names)?,
                key::TAG_VALUE => number_run(&mut cursor, key, &mut self.tag_values)?,
                key::TIMER_RU_UTIME => float_run(&mut cursor, key, &mut self.timer_ru_utimes)?,
                key::TIMER_RU_STIME => float_run(&mut cursor, key, &mut self.timer_ru_stimes)?,
                // It may be a list that was passed over.
                _ if AROUND_TAGS => return Err(RejectReason::WrongWireType),
                _ => cursor = self.rare(key, cursor, nested.is_some())?,
            }
        }
        if seen.0 == Seen::ALL { Ok(fields) } else { Err(RejectReason::MissingField) }
    }

    /// The part of a message after tags of timers and dictionary, if the message begins with them
    /// and nothing has been [delimited](Self::parse_around_tags) yet: as every known client writes
    /// them, each list in one run and each number in one byte.
    #[inline(always)]
    fn after_tags<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        const COUNT: u8 = key::TIMER_TAG_COUNT as u8;
        const WORD: u8 = key::DICTIONARY as u8;
        let timers = self.timer_hit_counts.len();
        let (counts, rest) = message.split_at_checked(timers.checked_mul(2)?)?;
        let mut tags = 0_usize;
        for [key, count] in counts.as_chunks::<2>().0 {
            if *key != COUNT || *count >= 0x80 {
                return None;
            }
            tags = tags.saturating_add(usize::from(*count));
        }
        // A name and a value, each with its key.
        let mut rest = rest.get(tags.saturating_mul(4)..)?;
        while let [WORD, bytes @ 0..0x80, after @ ..] = rest {
            rest = after.get(usize::from(*bytes)..)?;
        }
        let is_whole = self.timer_tags.is_none() && rest.first() != Some(&WORD);
        (is_whole && rest.len() < message.len()).then_some(rest)
    }

    /// Reads what was [passed over](Self::parse_around_tags). Returns false if it is not what it
    /// was taken for: the message has to be [parsed](Self::parse) as a whole.
    pub(super) fn read_timer_tags(&mut self, message: &[u8]) -> bool {
        let Some(span) = self.timer_tags else { return true };
        let bytes = span.of(message);
        let after = message.len().saturating_sub(span.end());
        let mut cursor = Cursor::new(bytes);
        let lists = [
            (key::TIMER_TAG_COUNT, &mut self.timer_tag_counts),
            (key::TIMER_TAG_NAME, &mut self.timer_tag_names),
            (key::TIMER_TAG_VALUE, &mut self.timer_tag_values),
        ];
        for (key, list) in lists {
            more_numbers(&mut cursor, key, list);
        }
        while cursor.eat(key::DICTIONARY) {
            let Ok(word) = cursor.bytes() else { return false };
            let left = cursor.left().saturating_add(after);
            self.dictionary.push(Word::new(Span::before(message.len(), left, word.len())));
        }
        cursor.left() == 0
    }

    /// Packed lists, which no known client sends; unknown fields; and invalid ones.
    #[cold]
    fn rare<'a>(
        &mut self,
        key: u32,
        mut cursor: Cursor<'a>,
        outer: bool,
    ) -> Result<Cursor<'a>, RejectReason> {
        let numbers = [
            (key::TIMER_HIT_COUNT, &mut self.timer_hit_counts),
            (key::TIMER_TAG_COUNT, &mut self.timer_tag_counts),
            (key::TIMER_TAG_NAME, &mut self.timer_tag_names),
            (key::TIMER_TAG_VALUE, &mut self.timer_tag_values),
            (key::TAG_NAME, &mut self.tag_names),
            (key::TAG_VALUE, &mut self.tag_values),
        ];
        let floats = [
            (key::TIMER_VALUE, &mut self.timer_values),
            (key::TIMER_RU_UTIME, &mut self.timer_ru_utimes),
            (key::TIMER_RU_STIME, &mut self.timer_ru_stimes),
        ];
        if unpack(key, &mut cursor, numbers, Cursor::uint32)?
            || unpack(key, &mut cursor, floats, Cursor::float)?
        {
            return Ok(cursor);
        }
        match key {
            // Wire types 6 and 7 do not exist, whatever the field.
            _ if key & 7 > wire_type::FIXED32 => return Err(RejectReason::BadKey),
            _ if (1..=key::LAST >> 3).contains(&(key >> 3)) => {
                return Err(RejectReason::WrongWireType);
            }
            _ => cursor.skip(key, groups_max(outer))?,
        }
        Ok(cursor)
    }

    /// Checks rules V1 to V4 and V6, in this order: a request that breaks one is refused.
    #[inline]
    pub(super) fn check(&self) -> Result<(), RejectReason> {
        self.check_timer_counts()?;
        if self.tag_names.len() != self.tag_values.len() {
            return Err(RejectReason::RequestTagCounts);
        }
        let words = self.dictionary.len();
        if words == 0 && (!self.timer_hit_counts.is_empty() || !self.tag_names.is_empty()) {
            return Err(RejectReason::NoDictionary);
        }
        let outside = |index: &u32| *index as usize >= words;
        if self.tag_names.iter().any(outside) || self.tag_values.iter().any(outside) {
            return Err(RejectReason::RequestTagIndex);
        }
        let pairs = self
            .timer_tag_counts
            .iter()
            .fold(0_u64, |all, count| all.saturating_add(u64::from(*count)));
        if pairs != self.timer_tag_names.len() as u64 || pairs != self.timer_tag_values.len() as u64
        {
            return Err(RejectReason::TimerTagCounts);
        }
        Ok(())
    }

    /// Checks rule V1 alone: in an outer request it decides over the nested ones too.
    #[inline]
    pub(super) fn check_timer_counts(&self) -> Result<(), RejectReason> {
        let timers = self.timer_hit_counts.len();
        if timers == self.timer_values.len() && timers == self.timer_tag_counts.len() {
            Ok(())
        } else {
            Err(RejectReason::TimerCounts)
        }
    }
}

/// Reads one of these lists if `key` is its packed form; elements by `next`.
fn unpack<'a, T, const N: usize>(
    key: u32,
    cursor: &mut Cursor<'a>,
    lists: [(u32, &mut Vec<T>); N],
    next: fn(&mut Cursor<'a>) -> Result<T, RejectReason>,
) -> Result<bool, RejectReason> {
    let of_key = |(of, _): &(u32, _)| key == key::packed(*of);
    let Some((_, list)) = lists.into_iter().find(of_key) else { return Ok(false) };
    let mut packed = Cursor::new(cursor.bytes()?);
    while packed.left() > 0 {
        list.push(next(&mut packed)?);
    }
    Ok(true)
}

/// Most nested groups in a message: a nested message is itself one level deep.
const fn groups_max(outer: bool) -> usize {
    if outer { GROUP_DEPTH_MAX } else { GROUP_DEPTH_MAX - 1 }
}

/// A run of unpacked numbers under one key, which was just read.
#[inline(always)]
fn number_run(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<u32>) -> Result<(), RejectReason> {
    list.push(cursor.uint32()?);
    more_numbers(cursor, key, list);
    Ok(())
}

/// The next numbers under `key`, as far as each takes one byte.
#[inline(always)]
fn more_numbers(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<u32>) {
    // Four in one comparison: a packet's tags are some thirty numbers.
    while let Some(numbers) = cursor.next_numbers(key) {
        list.extend_from_slice(&numbers);
    }
    while let Some(number) = cursor.next_number(key) {
        list.push(number);
    }
}

/// A run of unpacked floats under one key, which was just read.
#[inline(always)]
fn float_run(cursor: &mut Cursor<'_>, key: u32, list: &mut Vec<f32>) -> Result<(), RejectReason> {
    list.push(cursor.float()?);
    while let Some(float) = cursor.next_float(key) {
        list.push(float);
    }
    Ok(())
}
