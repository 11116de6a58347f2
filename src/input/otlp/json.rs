//! Rewrites bodies in JSON as protobuf, which is decoded then.
//!
//! Names are in lowerCamelCase, ids hexadecimal, 64-bit numbers strings or numbers, enums numbers;
//! whole numbers may have an exponent, or a fraction of zeros. `null` counts as absent, and names
//! that the mapping does not use are skipped whatever their depth. Protobuf is never longer than
//! the JSON it is made of.

use std::borrow::Cow;
use std::fmt;

use prost::encoding::{
    self, WireType, double, encode_key, encode_varint, fixed32, fixed64, int64, uint64,
};
use serde::de::{
    DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor,
};

use super::messages::id;

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
const SCOPE_SPANS: Fields =
    &[("scope", 1, Kind::Message(SCOPE)), ("spans", 2, Kind::Message(SPAN))];
const SCOPE: Fields = &[("name", 1, Kind::Text)];
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

/// Rewrites a body.
///
/// # Errors
/// A description of what is wrong with it, and where.
pub(super) fn as_protobuf(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let mut out = Vec::with_capacity(body.len());
    Member(BODY, Kind::Message(REQUEST), &mut out).deserialize(&mut json)?;
    json.end()?;
    Ok(out)
}

/// Stands for the number of a field that is the whole body: it has no key, and is no list.
const BODY: u32 = 0;

/// Reads the value of a member as a field: its number, what it is, and where it is written.
struct Member<'o>(u32, Kind, &'o mut Vec<u8>);

impl Member<'_> {
    fn bytes(self, bytes: &[u8]) {
        encode_key(self.0, WireType::LengthDelimited, self.2);
        encode_varint(bytes.len() as u64, self.2);
        self.2.extend_from_slice(bytes);
    }

    /// Adds a number, which is also given as a whole one if it is that. One that its field cannot
    /// hold is none, and a span without times is refused.
    fn number<E: Error>(self, whole: Option<i128>, number: f64) -> Result<(), E> {
        let unsigned = whole.and_then(|it| u64::try_from(it).ok()).unwrap_or(0);
        match (self.1, whole.map(i64::try_from)) {
            (Kind::Enum, _) => uint64::encode(self.0, &unsigned, self.2),
            (Kind::Flags, _) => fixed32::encode(self.0, &unsigned.try_into().unwrap_or(0), self.2),
            (Kind::Time, _) => fixed64::encode(self.0, &unsigned, self.2),
            (Kind::Float, _) => double::encode(self.0, &number, self.2),
            (Kind::Whole, Some(Ok(whole))) => int64::encode(self.0, &whole, self.2),
            (Kind::Whole, _) => {}
            _ => return Err(E::invalid_type(Unexpected::Other("a number"), &self)),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.1 {
            Kind::Text => "a text",
            Kind::Id => "hexadecimal digits",
            Kind::Enum | Kind::Flags | Kind::Time | Kind::Whole | Kind::Float => "a number",
            Kind::Truth => "true or false",
            Kind::Message(_) if self.0 == BODY => "an object or null",
            Kind::Message(_) => "an object or a list of objects",
        })
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        match self.1 {
            // SDKs cut texts within characters; these are repaired later, as those of protobuf are.
            Kind::Text => json.deserialize_bytes(self),
            _ => json.deserialize_any(self),
        }
    }

    fn visit_bytes<E>(self, text: &[u8]) -> Result<(), E> {
        self.bytes(text);
        Ok(())
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<(), E> {
        match self.1 {
            Kind::Truth => encoding::bool::encode(self.0, &truth, self.2),
            _ => return Err(E::invalid_type(Unexpected::Bool(truth), &self)),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(Some(number.into()), number as f64)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(Some(number.into()), number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        // Those past all integers become the largest one, which no field holds.
        self.number((number.fract() == 0.0).then_some(number as i128), number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.1 {
            Kind::Id => match (id::<8>(text), id::<16>(text)) {
                (Some(id), _) => self.bytes(&id),
                (_, Some(id)) => self.bytes(&id),
                _ if text.is_empty() => {}
                // A span with an id of one byte is refused.
                _ => self.bytes(&[0]),
            },
            Kind::Time | Kind::Whole | Kind::Float => match (text.parse(), text.parse()) {
                (Ok(whole), Ok(number)) => return self.number(Some(whole), number),
                (_, Ok(number)) => return self.visit_f64(number),
                _ => {}
            },
            _ => return Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(number @ 1.., kind @ Kind::Message(_), out) = self else {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        };
        while list.next_element_seed(Member(number, kind, out))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(number, Kind::Message(fields), out) = self else {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        };
        let start = out.len();
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            match fields.iter().find(|field| field.0 == name) {
                Some((_, number, kind)) => map.next_value_seed(Member(*number, *kind, out))?,
                None => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        if number == BODY {
            return Ok(());
        }
        // Key and length are known now, and are moved to the front.
        let content = out.len();
        encode_key(number, WireType::LengthDelimited, out);
        encode_varint(content.saturating_sub(start) as u64, out);
        let head = out.len().saturating_sub(content);
        if let Some(message) = out.get_mut(start..) {
            message.rotate_right(head);
        }
        Ok(())
    }
}
