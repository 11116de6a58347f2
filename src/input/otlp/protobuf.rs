//! Decodes bodies in protobuf, field by field.
//!
//! The messages are not decoded into structs first: a field of two bytes would grow to a hundred,
//! and most parts of a span are not kept. Whatever prost takes is taken here too (tests compare the
//! two). Fields of another type than expected are skipped as unknown ones are, and strings that are
//! not UTF-8 are repaired later like those of packets.
//!
//! ```text
//!   request   1 resource spans*
//!   resource spans   1 resource, 2 scope spans*          resource   1 attribute*
//!   scope spans   2 span*
//!   span   1 trace id, 2 id, 3 state, 4 parent, 5 name, 6 kind, 7 start, 8 end, 9 attribute*, 11 event*, 15 status, 16 flags
//!   event   2 name, 3 attribute*          status   3 code          attribute   1 key, 2 value
//!   value   1 text, 2 truth, 3 whole number, 4 float
//! ```

use super::facts::{Key, Keys, Value};
use super::span::{Batch, Kind, Resource, Span};
use crate::input::cursor::Cursor;
use crate::input::cursor::wire_type::{FIXED32, FIXED64, LENGTH, VARINT};
use crate::input::record::RejectReason;
use crate::limits::{GROUP_DEPTH_MAX, SPAN_EVENTS_MAX};

/// Usual size of a span, bytes.
const SPAN_BYTES: usize = 256;

/// Status code of an error.
const ERROR: u64 = 2;

type Result<T> = std::result::Result<T, RejectReason>;

/// Value of a field by its type on the wire.
enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    /// A text, bytes or a message.
    Bytes(&'a [u8]),
    Group,
}

/// Returns the fields of a message with their numbers.
#[inline(always)]
fn fields(message: &[u8]) -> impl Iterator<Item = Result<(u32, Field<'_>)>> {
    let mut cursor = Cursor::new(message);
    std::iter::from_fn(move || (cursor.left() > 0).then(|| field(&mut cursor)))
}

#[inline(always)]
fn field<'a>(cursor: &mut Cursor<'a>) -> Result<(u32, Field<'a>)> {
    let key = cursor.key()?;
    let field = match key & 7 {
        _ if key >> 3 == 0 => return Err(RejectReason::BadKey),
        VARINT => Field::Varint(cursor.varint()?),
        FIXED64 => Field::Fixed64(cursor.fixed()?),
        FIXED32 => Field::Fixed32(cursor.fixed()?),
        LENGTH => Field::Bytes(cursor.bytes()?),
        _ => {
            cursor.skip(key, GROUP_DEPTH_MAX)?;
            Field::Group
        }
    };
    Ok((key >> 3, field))
}

/// Returns the messages in the field of this number.
fn messages(message: &[u8], number: u32) -> impl Iterator<Item = Result<&[u8]>> {
    fields(message).filter_map(move |field| match field {
        Ok((found, Field::Bytes(message))) => (found == number).then_some(Ok(message)),
        Ok(_) => None,
        Err(reason) => Some(Err(reason)),
    })
}

/// Decodes a body.
pub(super) fn decode(body: &[u8], keys: &Keys, batch: &mut Batch) -> Result<()> {
    for message in messages(body, 1) {
        let message = message?;
        let mut resource = Resource::default();
        // Its scopes may precede the resource; attributes of spans must not be mixed with the
        // resource's.
        for of_resource in messages(message, 1) {
            let of_resource = of_resource?;
            resource.hash = resource.hash.rotate_left(1) ^ keys.hash(of_resource);
            for pair in messages(of_resource, 1) {
                attribute(pair?, keys, batch)?;
            }
        }
        if batch.facts.lacks(Key::HostName)
            && let Some(sender) = batch.sender
        {
            batch.facts.text(Key::Sender, sender.to_canonical().to_string().as_bytes());
        }
        resource.facts = batch.facts.take();
        let mut spans = Vec::with_capacity(message.len() / SPAN_BYTES);
        for scope in messages(message, 2) {
            for message in messages(scope?, 2) {
                spans.extend(span(message?, keys, batch)?);
            }
        }
        if !spans.is_empty() {
            batch.resources.push((resource, spans));
        }
    }
    Ok(())
}

fn span(message: &[u8], keys: &Keys, batch: &mut Batch) -> Result<Option<Span>> {
    let (mut span, mut events, mut exception) = (Span::default(), 0_usize, &[][..]);
    let (mut state, mut parent, mut name) = (&[][..], &[][..], &[][..]);
    for field in fields(message) {
        match field? {
            (1, Field::Bytes(id)) => span.trace = id.try_into().unwrap_or_default(),
            (2, Field::Bytes(id)) => span.id = number(id),
            (3, Field::Bytes(it)) => state = it,
            (4, Field::Bytes(it)) => parent = it,
            (5, Field::Bytes(it)) => name = it,
            (6, Field::Varint(kind)) => span.kind = Kind::of(kind),
            (7, Field::Fixed64(ns)) => span.start = u64::from_le_bytes(ns),
            (8, Field::Fixed64(ns)) => span.end = u64::from_le_bytes(ns),
            (9, Field::Bytes(pair)) => attribute(pair, keys, batch)?,
            (11, Field::Bytes(event)) => {
                events = events.saturating_add(1);
                if events > SPAN_EVENTS_MAX {
                    batch.events_over_limit = batch.events_over_limit.saturating_add(1);
                } else if let Some(kind) = exception_type(event)? {
                    exception = kind;
                }
            }
            (15, Field::Bytes(status)) => {
                span.is_error = false;
                for field in fields(status) {
                    if let (3, Field::Varint(code)) = field? {
                        span.is_error = code == ERROR;
                    }
                }
            }
            (16, Field::Fixed32(flags)) => span.flags = u32::from_le_bytes(flags),
            _ => {}
        }
    }
    batch.facts.text(Key::EventException, exception);
    batch.facts.text(Key::Name, name);
    span.facts = batch.facts.take();
    span.parent = number(parent);
    let is_sampled = state.windows(6).any(|it| it == b"ot=th:");
    Ok(batch.checked(span, !parent.is_empty(), is_sampled))
}

/// Returns the id of a span as a number; 0 if it is none.
fn number(id: &[u8]) -> u64 {
    id.try_into().map_or(0, u64::from_be_bytes)
}

#[inline]
fn attribute(message: &[u8], keys: &Keys, batch: &mut Batch) -> Result<()> {
    let (name, value) = key_value(message)?;
    batch.facts.attribute(keys, name, value);
    Ok(())
}

#[inline]
fn key_value(message: &[u8]) -> Result<(&[u8], Value<'_>)> {
    let (mut name, mut value) = (&[][..], Value::Other);
    for field in fields(message) {
        match field? {
            (1, Field::Bytes(it)) => name = it,
            (2, Field::Bytes(it)) => value = any_value(it)?,
            _ => {}
        }
    }
    Ok((name, value))
}

#[inline]
fn any_value(message: &[u8]) -> Result<Value<'_>> {
    let mut value = Value::Other;
    for field in fields(message) {
        value = match field? {
            (1, Field::Bytes(text)) => Value::Text(text),
            (2, Field::Varint(truth)) => Value::Truth(truth != 0),
            (3, Field::Varint(whole)) => Value::Whole(whole.cast_signed()),
            (4, Field::Fixed64(float)) => Value::Float(f64::from_le_bytes(float)),
            (5..=7, _) => Value::Other,
            _ => value,
        };
    }
    Ok(value)
}

/// Returns the exception type if the event describes an exception that has one.
fn exception_type(event: &[u8]) -> Result<Option<&[u8]>> {
    let (mut is_exception, mut kind) = (false, None);
    for field in fields(event) {
        match field? {
            (2, Field::Bytes(name)) => is_exception = name == b"exception",
            (3, Field::Bytes(pair)) => {
                if let (b"exception.type", Value::Text(text)) = key_value(pair)? {
                    kind = Some(text);
                }
            }
            _ => {}
        }
    }
    Ok(kind.filter(|_| is_exception))
}
