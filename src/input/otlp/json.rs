//! Decodes bodies in JSON: they are rewritten as protobuf while they are read, which is decoded
//! then.
//!
//! Names are in lowerCamelCase, ids hexadecimal, 64-bit numbers strings or numbers, enums numbers;
//! `null` counts as absent, and names that the mapping does not use are skipped whatever their
//! depth. Protobuf is never longer than the JSON it is made of.

use std::borrow::Cow;
use std::fmt;

use prost::encoding::{WireType, encode_key, encode_varint};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::counters::BodyRefusal;
use super::messages::id;
use super::protobuf;
use super::span::Batch;

/// The kind of a field's value.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Id,
    Enum,
    Flags,
    Time,
    Whole,
    Float,
    Truth,
    /// A message, or a list of them.
    Message(Fields),
}

/// Name, number and kind of each field that is used.
type Fields = &'static [(&'static str, u32, Kind)];

const REQUEST: Fields = &[("resourceSpans", 1, Kind::Message(RESOURCE_SPANS))];
const RESOURCE_SPANS: Fields =
    &[("resource", 1, Kind::Message(RESOURCE)), ("scopeSpans", 2, Kind::Message(SCOPE_SPANS))];
const RESOURCE: Fields = &[("attributes", 1, Kind::Message(ATTRIBUTE))];
const SCOPE_SPANS: Fields = &[("spans", 2, Kind::Message(SPAN))];
const SPAN: Fields = &[
    ("traceId", 1, Kind::Id),
    ("spanId", 2, Kind::Id),
    ("traceState", 3, Kind::Text),
    ("parentSpanId", 4, Kind::Id),
    ("name", 5, Kind::Text),
    ("kind", 6, Kind::Enum),
    ("startTimeUnixNano", 7, Kind::Time),
    ("endTimeUnixNano", 8, Kind::Time),
    ("attributes", 9, Kind::Message(ATTRIBUTE)),
    ("events", 11, Kind::Message(EVENT)),
    ("status", 15, Kind::Message(STATUS)),
    ("flags", 16, Kind::Flags),
];
const EVENT: Fields = &[("name", 2, Kind::Text), ("attributes", 3, Kind::Message(ATTRIBUTE))];
const STATUS: Fields = &[("code", 3, Kind::Enum)];
const ATTRIBUTE: Fields = &[("key", 1, Kind::Text), ("value", 2, Kind::Message(VALUE))];
const VALUE: Fields = &[
    ("stringValue", 1, Kind::Text),
    ("boolValue", 2, Kind::Truth),
    ("intValue", 3, Kind::Whole),
    ("doubleValue", 4, Kind::Float),
];

/// Decodes a body.
pub(super) fn decode(body: &[u8], batch: &mut Batch<'_>) -> Result<(), BodyRefusal> {
    let out = rewritten(body).map_err(|_| BodyRefusal::BadJson)?;
    protobuf::decode(&out, batch)
}

/// Returns what is wrong with a body that was refused, and where.
pub(super) fn problem(body: &[u8]) -> Option<String> {
    Some(rewritten(body).err()?.to_string())
}

/// Rewrites a body as protobuf.
fn rewritten(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let mut out = Vec::with_capacity(body.len());
    Members(REQUEST, &mut out).deserialize(&mut json)?;
    json.end()?;
    Ok(out)
}

/// Reads an object into the fields of a message.
struct Members<'o>(Fields, &'o mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(fields, out) = self;
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match fields.iter().find(|field| field.0 == name) {
                Some((_, number, kind)) => map.next_value_seed(Member(*number, *kind, out))?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }
}

/// Reads the value of a member as a field: its number, what it is, and where it is written.
struct Member<'o>(u32, Kind, &'o mut Vec<u8>);

impl Member<'_> {
    fn varint<E>(self, value: u64) -> Result<(), E> {
        encode_key(self.0, WireType::Varint, self.2);
        encode_varint(value, self.2);
        Ok(())
    }

    fn eight<E>(self, bytes: [u8; 8]) -> Result<(), E> {
        encode_key(self.0, WireType::SixtyFourBit, self.2);
        self.2.extend(bytes);
        Ok(())
    }

    fn bytes<E>(self, bytes: &[u8]) -> Result<(), E> {
        encode_key(self.0, WireType::LengthDelimited, self.2);
        encode_varint(bytes.len() as u64, self.2);
        self.2.extend_from_slice(bytes);
        Ok(())
    }

    fn whole<E: Error>(self, number: i128) -> Result<(), E> {
        // A number that its field cannot hold is none, and a span without times is refused.
        let unsigned = u64::try_from(number).unwrap_or(0);
        match self.1 {
            Kind::Enum => self.varint(unsigned),
            Kind::Time => self.eight(unsigned.to_le_bytes()),
            Kind::Float => self.eight((number as f64).to_le_bytes()),
            Kind::Whole => match i64::try_from(number) {
                Ok(number) => self.varint(number.cast_unsigned()),
                Err(_) => Ok(()),
            },
            Kind::Flags => {
                encode_key(self.0, WireType::ThirtyTwoBit, self.2);
                let flags = u32::try_from(unsigned).unwrap_or(0);
                self.2.extend(flags.to_le_bytes());
                Ok(())
            }
            Kind::Text | Kind::Id | Kind::Truth | Kind::Message(_) => {
                Err(E::invalid_type(Unexpected::Other("a number"), &self))
            }
        }
    }
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.1 {
            Kind::Text => "a text",
            Kind::Id => "hexadecimal digits",
            Kind::Enum | Kind::Flags | Kind::Float => "a number",
            Kind::Time | Kind::Whole => "a whole number",
            Kind::Truth => "true or false",
            Kind::Message(_) => "an object or a list of objects",
        })
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        match self.1 {
            Kind::Truth => self.varint(truth.into()),
            _ => Err(E::invalid_type(Unexpected::Bool(truth), &self)),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.whole(number.into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.whole(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        match self.1 {
            Kind::Float => self.eight(number.to_le_bytes()),
            _ => Err(E::invalid_type(Unexpected::Float(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.1 {
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Id => {
                let id = match text.len() {
                    0 => return Ok(()),
                    16 => id::<8>(text).map(Vec::from),
                    _ => id::<16>(text).map(Vec::from),
                };
                // A span with an id of one byte is refused.
                self.bytes(&id.unwrap_or(vec![0]))
            }
            Kind::Time | Kind::Whole => text.parse().map_or(Ok(()), |it| self.whole(it)),
            Kind::Float => text.parse().map_or(Ok(()), |it: f64| self.eight(it.to_le_bytes())),
            Kind::Enum | Kind::Flags | Kind::Truth | Kind::Message(_) => {
                Err(E::invalid_type(Unexpected::Str(text), &self))
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(number, kind @ Kind::Message(_), out) = self else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        while list.next_element_seed(Member(number, kind, out))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        let Self(number, Kind::Message(fields), out) = self else {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        };
        // The length is known afterwards: four bytes of it at first, one if that suffices.
        encode_key(number, WireType::LengthDelimited, out);
        let start = out.len();
        let content = start.saturating_add(4);
        out.extend([0x80, 0x80, 0x80, 0]);
        Members(fields, out).visit_map(map)?;
        let length = out.len().saturating_sub(content);
        if length < 0x80 {
            out.copy_within(content.., start.saturating_add(1));
            out.truncate(start.saturating_add(1).saturating_add(length));
        }
        let groups = [length, length >> 7, length >> 14, length >> 21];
        let [a, b, c, d] = groups.map(|group| (group & 0x7f) as u8);
        let (bytes, count) = match length < 0x80 {
            true => ([a, 0, 0, 0], 1),
            false => ([a | 0x80, b | 0x80, c | 0x80, d], 4),
        };
        let places = out.iter_mut().skip(start).zip(bytes);
        places.take(count).for_each(|(place, byte)| *place = byte);
        Ok(())
    }
}
