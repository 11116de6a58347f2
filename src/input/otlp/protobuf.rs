//! Decodes bodies in protobuf, field by field, with prost's own primitives.
//!
//! The messages are not decoded into structs first: a field of two bytes would grow to a hundred,
//! and most parts of a span are not kept. Whatever prost rejects is rejected here too (tests
//! compare the two), except for strings that are not UTF-8, which are repaired later like those of
//! packets, and for the contents of skipped fields.
//!
//! ```text
//!   request   1 resource spans*
//!   resource spans   1 resource, 2 scope spans*          resource   1 attribute*
//!   scope spans   2 span*
//!   span   1 trace id, 2 id, 3 state, 4 parent, 5 name, 6 kind, 7 start, 8 end, 9 attribute*, 11 event*, 15 status, 16 flags
//!   event   2 name, 3 attribute*          status   3 code          attribute   1 key, 2 value
//!   value   1 text, 2 truth, 3 whole number, 4 float
//! ```

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::counters::BodyRefusal;
use super::facts::{ResourceHash, Value};
use super::span::{Batch, ERROR, RawSpan, Resource, Span};
use crate::limits::SPAN_EVENTS_MAX;

/// The value of a field.
#[derive(Debug, Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(&'a [u8]),
}

type Result<T> = std::result::Result<T, BodyRefusal>;

const BAD: BodyRefusal = BodyRefusal::BadProtobuf;

macro_rules! values {
    ($($name:ident $kind:ident: $of:ty,)*) => {
        impl<'a> Field<'a> {
            $(fn $name(self) -> Result<$of> {
                match self {
                    Self::$kind(value) => Ok(value),
                    _ => Err(BAD),
                }
            })*
        }
    };
}

values! {
    bytes Bytes: &'a [u8],
    number Number: u64,
    eight Eight: [u8; 8],
    four Four: [u8; 4],
}

/// Passes each field of a message to `take`; skips groups, which are obsolete.
fn fields<'a>(
    mut rest: &'a [u8],
    mut take: impl FnMut(u32, Field<'a>) -> Result<()>,
) -> Result<()> {
    while !rest.is_empty() {
        let (tag, wire_type) = decode_key(&mut rest).map_err(|_| BAD)?;
        let field = match wire_type {
            WireType::Varint => Field::Number(decode_varint(&mut rest).map_err(|_| BAD)?),
            WireType::SixtyFourBit => Field::Eight(fixed(&mut rest)?),
            WireType::ThirtyTwoBit => Field::Four(fixed(&mut rest)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut rest).map_err(|_| BAD)?;
                let length = usize::try_from(length).map_err(|_| BAD)?;
                let (bytes, after) = rest.split_at_checked(length).ok_or(BAD)?;
                rest = after;
                Field::Bytes(bytes)
            }
            WireType::StartGroup | WireType::EndGroup => {
                let context = DecodeContext::default();
                skip_field(wire_type, tag, &mut rest, context).map_err(|_| BAD)?;
                continue;
            }
        };
        take(tag, field)?;
    }
    Ok(())
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk().ok_or(BAD)?;
    *rest = after;
    Ok(*bytes)
}

/// Decodes a body.
pub(super) fn decode(body: &[u8], batch: &mut Batch<'_>) -> Result<()> {
    fields(body, |tag, field| match tag {
        1 => resource_spans(field.bytes()?, batch),
        _ => Ok(()),
    })
}

fn resource_spans(message: &[u8], batch: &mut Batch<'_>) -> Result<()> {
    let mut spans = Vec::new();
    let mut hash = batch.resource_hash();
    // Its scopes may precede the resource; attributes of spans must not be mixed with the
    // resource's.
    fields(message, |tag, field| match tag {
        1 => fields(field.bytes()?, |tag, field| match tag {
            1 => attribute(field.bytes()?, batch, Some(&mut hash)),
            _ => Ok(()),
        }),
        _ => Ok(()),
    })?;
    let resource = Resource {
        hash: hash.finish(),
        facts: batch.facts.take(),
    };
    fields(message, |tag, field| match tag {
        2 => fields(field.bytes()?, |tag, field| match tag {
            2 => span(field.bytes()?, batch, &mut spans),
            _ => Ok(()),
        }),
        _ => Ok(()),
    })?;
    batch.add_resource(resource, spans);
    Ok(())
}

fn span(message: &[u8], batch: &mut Batch<'_>, spans: &mut Vec<Span>) -> Result<()> {
    let (mut raw, mut events) = (RawSpan::default(), 0_usize);
    fields(message, |tag, field| {
        match tag {
            1 => raw.trace = field.bytes()?,
            2 => raw.id = field.bytes()?,
            3 => raw.state = field.bytes()?,
            4 => raw.parent = field.bytes()?,
            5 => raw.name = field.bytes()?,
            6 => raw.kind = field.number()?,
            7 => raw.start = u64::from_le_bytes(field.eight()?),
            8 => raw.end = u64::from_le_bytes(field.eight()?),
            9 => attribute(field.bytes()?, batch, None)?,
            11 => {
                events = events.saturating_add(1);
                match events <= SPAN_EVENTS_MAX {
                    true => raw.exception = exception(field.bytes()?)?.unwrap_or(raw.exception),
                    false => {
                        batch.events_over_limit = batch.events_over_limit.saturating_add(1);
                    }
                }
            }
            15 => fields(field.bytes()?, |tag, field| {
                if tag == 3 {
                    raw.is_error = field.number()? == ERROR;
                }
                Ok(())
            })?,
            16 => raw.flags = u32::from_le_bytes(field.four()?),
            _ => {}
        }
        Ok(())
    })?;
    batch.add(&raw, spans);
    Ok(())
}

fn attribute(message: &[u8], batch: &mut Batch<'_>, hash: Option<&mut ResourceHash>) -> Result<()> {
    let (name, value) = key_value(message)?;
    batch.attribute(name, value, hash);
    Ok(())
}

fn key_value(message: &[u8]) -> Result<(&[u8], Value<'_>)> {
    let (mut name, mut value) = (&[][..], Value::Other);
    fields(message, |tag, field| {
        match tag {
            1 => name = field.bytes()?,
            2 => value = any_value(field.bytes()?)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((name, value))
}

fn any_value(message: &[u8]) -> Result<Value<'_>> {
    let mut value = Value::Other;
    fields(message, |tag, field| {
        value = match tag {
            1 => Value::Text(field.bytes()?),
            2 => Value::Truth(field.number()? != 0),
            3 => Value::Whole(field.number()?.cast_signed()),
            4 => Value::Float(f64::from_le_bytes(field.eight()?)),
            5..=7 => Value::Other,
            _ => value,
        };
        Ok(())
    })?;
    Ok(value)
}

/// Returns the exception type if the event describes an exception that has one.
fn exception(event: &[u8]) -> Result<Option<&[u8]>> {
    let (mut is_exception, mut kind) = (false, None);
    fields(event, |tag, field| {
        match tag {
            2 => is_exception = field.bytes()? == b"exception",
            3 => {
                let (name, value) = key_value(field.bytes()?)?;
                if let (b"exception.type", Value::Text(text)) = (name, value) {
                    kind = Some(text);
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(kind.filter(|_| is_exception))
}
