//! Decodes bodies in protobuf, field by field.
//!
//! The messages are not decoded into structs first: a field of two bytes would grow to a hundred,
//! and most parts of a span are not kept; texts stay in the body. Whatever prost takes is taken
//! here too (tests compare the two). Values that are not kept are not read. Fields of another type
//! than expected are skipped as unknown ones are, and strings that are not UTF-8 are repaired later
//! like those of packets.
//!
//! ```text
//!   request   1 resource spans*
//!   resource spans   1 resource, 2 scope spans*          resource   1 attribute*
//!   scope spans   1 scope, 2 span*          scope   1 name
//!   span   1 trace id, 2 id, 3 state, 4 parent, 5 name, 6 kind, 7 start, 8 end, 9 attribute*, 11 event*, 15 status, 16 flags
//!   event   2 name, 3 attribute*          status   3 code          attribute   1 key, 2 value
//!   value   1 text, 2 truth, 3 whole number, 4 float
//! ```

use std::borrow::Cow;

use super::attributes::{Key, Keys, Texts};
use super::messages::OWN_SCOPE;
use super::span::{Batch, Kind, Span};
use crate::input::cursor::Cursor;
use crate::input::cursor::wire_type::{FIXED64, LENGTH, VARINT};
use crate::input::record::RejectReason;
use crate::limits::{GROUP_DEPTH_MAX, SPAN_EVENTS_MAX};

/// Usual size of a span, bytes.
const SPAN_BYTES: usize = 256;

/// Status code of an error.
const ERROR: &[u8] = b"2";

/// Keys of an attribute's name, which is also that of a text in a value, and of its value.
const FIRST: u8 = (1 << 3) | LENGTH as u8;
const SECOND: u8 = (2 << 3) | LENGTH as u8;

type Result<T> = std::result::Result<T, RejectReason>;

/// Passes on the messages in the field of this number.
fn each<'m>(
    message: &'m [u8],
    number: u32,
    mut take: impl FnMut(&'m [u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(message);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        match (key >> 3, key & 7) {
            (found, LENGTH) if found == number => take(cursor.bytes()?)?,
            _ => cursor = skip(cursor, key)?,
        }
    }
    Ok(())
}

/// Returns the last bytes in the field of this number.
fn last(message: &[u8], number: u32) -> Result<&[u8]> {
    let mut last = &[][..];
    each(message, number, |found| {
        last = found;
        Ok(())
    })?;
    Ok(last)
}

/// Skips the value of a field. A cursor whose address is never taken stays in registers.
fn skip(mut cursor: Cursor<'_>, key: u32) -> Result<Cursor<'_>> {
    cursor.skip(key, GROUP_DEPTH_MAX)?;
    Ok(cursor)
}

/// Decodes a body.
pub(super) fn decode<'b>(body: &'b [u8], keys: &Keys, batch: &mut Batch<'b>) -> Result<()> {
    batch.texts.sent = body;
    each(body, 1, |message| {
        let mut hash = 0_u64;
        // Its scopes may precede the resource; attributes of spans must not be mixed with the
        // resource's.
        each(message, 1, |of_resource| {
            hash = hash.rotate_left(1) ^ keys.hasher.hash_one(of_resource);
            each(of_resource, 1, |pair| attribute(pair, keys, &mut batch.texts))
        })?;
        if !batch.texts.open.has(&[Key::HostName])
            && let Some(sender) = batch.sender
        {
            let sender = sender.to_canonical().to_string();
            batch.texts.add(Key::Sender.number(), sender.as_bytes());
        }
        let (before, facts) = (batch.spans.len(), batch.texts.take());
        let instance = facts.among(&batch.texts).get(Key::InstanceId).unwrap_or_default();
        let is_own = keys.own_instance.as_ref().is_some_and(|own| own.as_bytes() == instance);
        batch.resources.push(facts);
        batch.spans.reserve(message.len() / SPAN_BYTES);
        batch.texts.reserve(message.len() / SPAN_BYTES);
        each(message, 2, |scope| {
            batch.is_own = is_own && last(last(scope, 1)?, 1)? == OWN_SCOPE.as_bytes();
            each(scope, 2, |message| span(message, hash, keys, batch))
        })?;
        if batch.spans.len() == before {
            batch.resources.pop();
            batch.texts.drop_last(facts);
        }
        Ok(())
    })
}

// Its loops have the registers for themselves.
#[inline(never)]
fn span(message: &[u8], resource_hash: u64, keys: &Keys, batch: &mut Batch<'_>) -> Result<()> {
    let (mut span, mut events, mut exception) = (Span::default(), 0_usize, &[][..]);
    let (mut trace, mut state, mut parent, mut name) = (&[][..], &[][..], &[][..], &[][..]);
    let mut cursor = Cursor::new(message);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        // In octal, the last digit is the wire type: one number to compare.
        match key {
            0o12 => trace = cursor.bytes()?,
            0o22 => span.id = number(cursor.bytes()?),
            0o32 => state = cursor.bytes()?,
            0o42 => parent = cursor.bytes()?,
            0o52 => name = cursor.bytes()?,
            0o60 => span.kind = Kind::try_from(cursor.varint()? as i32).unwrap_or_default(),
            0o71 => span.start = u64::from_le_bytes(cursor.fixed()?),
            0o101 => span.end = u64::from_le_bytes(cursor.fixed()?),
            0o112 => loop {
                attribute(cursor.bytes()?, keys, &mut batch.texts)?;
                if !cursor.eat(key) {
                    break;
                }
            },
            0o132 => {
                let event = cursor.bytes()?;
                events = events.saturating_add(1);
                if events > SPAN_EVENTS_MAX {
                    batch.events_over_limit = batch.events_over_limit.saturating_add(1);
                } else if last(event, 2)? == b"exception" {
                    exception = exception_type(event)?.unwrap_or(exception);
                }
            }
            // A status has its code where a value has a whole number.
            0o172 => span.is_error = *any_value(cursor.bytes()?)? == *ERROR,
            0o205 => span.flags = u32::from_le_bytes(cursor.fixed()?),
            _ => cursor = skip(cursor, key)?,
        }
    }
    batch.texts.add(Key::EventException.number(), exception);
    batch.texts.add(Key::Name.number(), name);
    span.facts = batch.texts.take();
    span.parent = number(parent);
    let trace = trace.try_into().map_or(0, u128::from_be_bytes);
    if trace != 0 {
        span.group = keys.hasher.hash_one(trace) ^ resource_hash;
    }
    span.resource = (batch.resources.len() as u32).saturating_sub(1);
    batch.add(span, !parent.is_empty(), is_sampled(state));
    Ok(())
}

/// Returns true if the state has the threshold of a sampler: `vendor=x,ot=rv:9;th:8`.
fn is_sampled(state: &[u8]) -> bool {
    let own = state.split(|it| *it == b',').filter_map(|it| it.trim_ascii().strip_prefix(b"ot="));
    own.flat_map(|it| it.split(|it| *it == b';')).any(|it| it.starts_with(b"th:"))
}

/// Returns the id of a span as a number; 0 if it is none.
fn number(id: &[u8]) -> u64 {
    id.try_into().map_or(0, u64::from_be_bytes)
}

/// Adds an attribute if it is to be kept.
#[inline(always)]
fn attribute(message: &[u8], keys: &Keys, texts: &mut Texts<'_>) -> Result<()> {
    let (name, value) = name_and_value(message)?;
    if let Some(number) = texts.number(keys, name) {
        match value {
            // Most values are short texts.
            [FIRST, length @ ..0x80, text @ ..] if usize::from(*length) == text.len() => {
                texts.value(keys, number, text);
            }
            _ => texts.value(keys, number, &any_value(value)?),
        }
    }
    Ok(())
}

/// Returns name and value, of which nearly all are short, with nothing beside them.
fn name_and_value(message: &[u8]) -> Result<(&[u8], &[u8])> {
    if let [FIRST, length @ ..0x80, rest @ ..] = message
        && let Some((name, rest)) = rest.split_at_checked((*length).into())
        && let [SECOND, length @ ..0x80, value @ ..] = rest
        && usize::from(*length) == value.len()
    {
        return Ok((name, value));
    }
    Ok((last(message, 1)?, last(message, 2)?))
}

/// Returns a value as text: as a part of the message if it was sent as one. Lists, maps and bytes
/// give none.
fn any_value(message: &[u8]) -> Result<Cow<'_, [u8]>> {
    let owned = |text: &str| Cow::Owned(text.as_bytes().to_vec());
    let (mut cursor, mut value) = (Cursor::new(message), Cow::default());
    while cursor.left() > 0 {
        let key = cursor.key()?;
        value = match (key >> 3, key & 7) {
            (1, LENGTH) => Cow::Borrowed(cursor.bytes()?),
            (2, VARINT) => owned(&(cursor.varint()? != 0).to_string()),
            (3, VARINT) => owned(itoa::Buffer::new().format(cursor.varint()?.cast_signed())),
            // Not as Display does, which writes out all zeros: 326 bytes for nine that were sent.
            (4, FIXED64) => {
                let text = format!("{:?}", f64::from_le_bytes(cursor.fixed()?));
                owned(text.trim_end_matches(".0"))
            }
            (number, _) => {
                cursor = skip(cursor, key)?;
                if matches!(number, 5..=7) { Cow::default() } else { value }
            }
        };
    }
    Ok(value)
}

/// Returns the type of the exception that an event describes, if it has one.
fn exception_type(event: &[u8]) -> Result<Option<&[u8]>> {
    let mut kind = None;
    each(event, 3, |pair| {
        let (name, value) = name_and_value(pair)?;
        if name == b"exception.type"
            && let Cow::Borrowed(text) = any_value(value)?
        {
            kind = Some(text);
        }
        Ok(())
    })?;
    Ok(kind)
}
