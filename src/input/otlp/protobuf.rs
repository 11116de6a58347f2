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

use super::counters::BodyRefusal;
use super::facts::{Key, Value};
use super::span::{Batch, ERROR, RawSpan, Resource};
use crate::input::cursor::Cursor;
use crate::input::cursor::wire_type::{FIXED32, FIXED64, LENGTH, VARINT};
use crate::input::record::RejectReason;
use crate::limits::{GROUP_DEPTH_MAX, SPAN_EVENTS_MAX};

/// Usual size of a span, bytes.
const SPAN_BYTES: usize = 256;

type Result<T> = std::result::Result<T, RejectReason>;

/// Decodes a body.
pub(super) fn decode(body: &[u8], batch: &mut Batch<'_>) -> std::result::Result<(), BodyRefusal> {
    let read = each(body, 1, |of_resource| resource_spans(of_resource, batch));
    read.map_err(|_| BodyRefusal::BadProtobuf)
}

/// Passes the messages in field `number` to `take`; skips all other fields.
fn each<'a>(
    message: &'a [u8],
    number: u32,
    mut take: impl FnMut(&'a [u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = Cursor::new(message);
    while cursor.left() > 0 {
        match cursor.key()? {
            key if key >> 3 == number && key & 7 == LENGTH => take(cursor.bytes()?)?,
            key => cursor.skip(key, GROUP_DEPTH_MAX)?,
        }
    }
    Ok(())
}

fn resource_spans(message: &[u8], batch: &mut Batch<'_>) -> Result<()> {
    let mut resource = Resource::default();
    // Its scopes may precede the resource; attributes of spans must not be mixed with the
    // resource's.
    each(message, 1, |of_resource| {
        resource.hash = resource.hash.rotate_left(1) ^ batch.hasher.hash_bytes(of_resource);
        each(of_resource, 1, |pair| attribute(pair, batch))
    })?;
    resource.facts = batch.facts.take();
    let mut spans = Vec::with_capacity(message.len() / SPAN_BYTES);
    each(message, 2, |scope| {
        each(scope, 2, |message| {
            let raw = span(message, batch)?;
            batch.add(&raw, &mut spans);
            Ok(())
        })
    })?;
    batch.add_resource(resource, spans);
    Ok(())
}

fn span<'a>(message: &'a [u8], batch: &mut Batch<'_>) -> Result<RawSpan<'a>> {
    let (mut raw, mut events) = (RawSpan::default(), 0_usize);
    let mut cursor = Cursor::new(message);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        match (key >> 3, key & 7) {
            (1, LENGTH) => raw.trace = cursor.bytes()?,
            (2, LENGTH) => raw.id = cursor.bytes()?,
            (3, LENGTH) => raw.state = cursor.bytes()?,
            (4, LENGTH) => raw.parent = cursor.bytes()?,
            (5, LENGTH) => raw.name = cursor.bytes()?,
            (6, VARINT) => raw.kind = cursor.varint()?,
            (7, FIXED64) => raw.start = u64::from_le_bytes(cursor.fixed()?),
            (8, FIXED64) => raw.end = u64::from_le_bytes(cursor.fixed()?),
            (9, LENGTH) => attribute(cursor.bytes()?, batch)?,
            (11, LENGTH) => {
                let event = cursor.bytes()?;
                events = events.saturating_add(1);
                if events > SPAN_EVENTS_MAX {
                    batch.events_over_limit = batch.events_over_limit.saturating_add(1);
                } else if let Some(kind) = exception(event)? {
                    raw.exception = kind;
                }
            }
            (15, LENGTH) => raw.is_error = status(cursor.bytes()?)? == ERROR,
            (16, FIXED32) => raw.flags = u32::from_le_bytes(cursor.fixed()?),
            _ => cursor.skip(key, GROUP_DEPTH_MAX)?,
        }
    }
    Ok(raw)
}

fn status(message: &[u8]) -> Result<u64> {
    let (mut cursor, mut code) = (Cursor::new(message), 0);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        match (key >> 3, key & 7) {
            (3, VARINT) => code = cursor.varint()?,
            _ => cursor.skip(key, GROUP_DEPTH_MAX)?,
        }
    }
    Ok(code)
}

#[inline]
fn attribute(message: &[u8], batch: &mut Batch<'_>) -> Result<()> {
    let (name, value) = key_value(message)?;
    batch.facts.attribute(batch.keys, name, value);
    Ok(())
}

#[inline]
fn key_value(message: &[u8]) -> Result<(&[u8], Value<'_>)> {
    let (mut name, mut value) = (&[][..], Value::Other);
    let mut cursor = Cursor::new(message);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        match (key >> 3, key & 7) {
            (1, LENGTH) => name = cursor.bytes()?,
            (2, LENGTH) => value = any_value(cursor.bytes()?)?,
            _ => cursor.skip(key, GROUP_DEPTH_MAX)?,
        }
    }
    Ok((name, value))
}

#[inline]
fn any_value(message: &[u8]) -> Result<Value<'_>> {
    let (mut cursor, mut value) = (Cursor::new(message), Value::Other);
    while cursor.left() > 0 {
        let key = cursor.key()?;
        value = match (key >> 3, key & 7) {
            (1, LENGTH) => Value::Text(cursor.bytes()?),
            (2, VARINT) => Value::Truth(cursor.varint()? != 0),
            (3, VARINT) => Value::Whole(cursor.varint()?.cast_signed()),
            (4, FIXED64) => Value::Float(f64::from_le_bytes(cursor.fixed()?)),
            (number, _) => {
                cursor.skip(key, GROUP_DEPTH_MAX)?;
                match number {
                    5..=7 => Value::Other,
                    _ => value,
                }
            }
        };
    }
    Ok(value)
}

/// Returns the exception type if the event describes an exception that has one.
fn exception(event: &[u8]) -> Result<Option<&[u8]>> {
    let (mut is_exception, mut kind) = (false, None);
    each(event, 2, |name| {
        is_exception = name == b"exception";
        Ok(())
    })?;
    each(event, 3, |pair| {
        if let (name, Value::Text(text)) = key_value(pair)?
            && name == Key::ExceptionType.name().as_bytes()
        {
            kind = Some(text);
        }
        Ok(())
    })?;
    Ok(kind.filter(|_| is_exception))
}
