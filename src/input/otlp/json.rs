//! Decodes bodies in JSON: the same messages with lowerCamelCase names, processed as a stream.
//!
//! Ids are hexadecimal, 64-bit numbers are strings or numbers, enums are numbers; `null` counts as
//! absent, and unknown names are skipped whatever their depth. As in `protobuf`, nothing is kept
//! beyond what a [`Batch`] takes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::counters::BodyRefusal;
use super::facts::{ResourceHash, Value};
use super::span::{Batch, RawSpan, Resource, Span};
use crate::limits::SPAN_EVENTS_MAX;

/// Decodes a body.
pub(super) fn decode(body: &[u8], batch: &mut Batch<'_>) -> Result<(), BodyRefusal> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Seed(&mut Request { batch }).deserialize(&mut json);
    read.and_then(|()| json.end())
        .map_err(|_| BodyRefusal::BadJson)
}

/// An object read member by member.
trait Message<'de> {
    /// Reads the value of the member `name`. Returns false, having read nothing, if there is no
    /// such member.
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Called at the end of each element of a list.
    fn end(&mut self) {}
}

/// Reads one object.
struct Seed<'m, M>(&'m mut M);

/// Reads a list of objects.
struct Each<'m, M>(&'m mut M);

impl<'de, M: Message<'de>> DeserializeSeed<'de> for Seed<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, M: Message<'de>> Visitor<'de> for Seed<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Scalar<'_>>()? {
            let is_known = match &name {
                Scalar::Text(name) => self.0.member(name, &mut map)?,
                _ => false,
            };
            if !is_known {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

impl<'de, M: Message<'de>> DeserializeSeed<'de> for Each<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, M: Message<'de>> Visitor<'de> for Each<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Seed(&mut *self.0))?.is_some() {
            self.0.end();
        }
        Ok(())
    }
}

/// A value other than a list or an object.
#[derive(Debug, Default)]
enum Scalar<'de> {
    #[default]
    Null,
    Text(Cow<'de, str>),
    Whole(i128),
    Float(f64),
    Truth(bool),
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false or null")
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Truth(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Whole(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }
}

impl<'de> Scalar<'de> {
    /// Reads the next value as a text.
    fn text<A: MapAccess<'de>>(map: &mut A) -> Result<Cow<'de, str>, A::Error> {
        match map.next_value()? {
            Self::Text(text) => Ok(text),
            Self::Null => Ok(Cow::default()),
            Self::Whole(_) | Self::Float(_) | Self::Truth(_) => Err(A::Error::custom("no text")),
        }
    }

    /// Reads the next value as an enum or flags.
    fn number<A: MapAccess<'de>>(map: &mut A) -> Result<u64, A::Error> {
        match map.next_value()? {
            Self::Whole(number) => Ok(u64::try_from(number).unwrap_or(0)),
            Self::Null => Ok(0),
            Self::Text(_) | Self::Float(_) | Self::Truth(_) => Err(A::Error::custom("no number")),
        }
    }

    /// Reads the next value as a time; an invalid one becomes 0, for which the span is refused.
    fn time<A: MapAccess<'de>>(map: &mut A) -> Result<u64, A::Error> {
        Ok(match map.next_value()? {
            Self::Whole(number) => u64::try_from(number).unwrap_or(0),
            Self::Text(text) => text.parse().unwrap_or(0),
            Self::Null | Self::Float(_) | Self::Truth(_) => 0,
        })
    }

    /// Reads the next value as an id; text that is not hexadecimal becomes an invalid id, for which
    /// the span is refused.
    fn id<A: MapAccess<'de>>(map: &mut A) -> Result<Vec<u8>, A::Error> {
        let text = Self::text(map)?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => {
                let byte = digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?;
                u8::try_from(byte).ok()
            }
            _ => None,
        });
        let bytes: Option<Vec<u8>> = pairs.take(ID_BYTES_MAX).collect();
        Ok(bytes.unwrap_or(vec![0]))
    }
}

/// One byte more than the longest id.
const ID_BYTES_MAX: usize = 17;

struct Request<'b, 'k> {
    batch: &'b mut Batch<'k>,
}

impl<'de> Message<'de> for Request<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name != "resourceSpans" {
            return Ok(false);
        }
        map.next_value_seed(Each(&mut ResourceSpans {
            hash: self.batch.resource_hash(),
            batch: self.batch,
            resource: Resource::default(),
            spans: Vec::new(),
        }))?;
        Ok(true)
    }
}

struct ResourceSpans<'b, 'k> {
    batch: &'b mut Batch<'k>,
    hash: ResourceHash,
    resource: Resource,
    spans: Vec<Span>,
}

impl<'de> Message<'de> for ResourceSpans<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "resource" => {
                map.next_value_seed(Seed(&mut Attributed {
                    attribute: Attribute::new(self.batch, Some(&mut self.hash)),
                }))?;
                self.resource.facts = self.batch.facts.take();
            }
            "scopeSpans" => map.next_value_seed(Each(&mut ScopeSpans {
                batch: self.batch,
                spans: &mut self.spans,
            }))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self) {
        let hash = std::mem::replace(&mut self.hash, self.batch.resource_hash());
        self.resource.hash = hash.finish();
        let resource = std::mem::take(&mut self.resource);
        self.batch
            .add_resource(resource, std::mem::take(&mut self.spans));
    }
}

/// A resource, of which only the attributes are used.
struct Attributed<'b, 'k, 'h, 'de> {
    attribute: Attribute<'b, 'k, 'h, 'de>,
}

impl<'de> Message<'de> for Attributed<'_, '_, '_, 'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "attributes" {
            map.next_value_seed(Each(&mut self.attribute))?;
        }
        Ok(name == "attributes")
    }
}

struct ScopeSpans<'b, 'k> {
    batch: &'b mut Batch<'k>,
    spans: &'b mut Vec<Span>,
}

impl<'de> Message<'de> for ScopeSpans<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "spans" {
            map.next_value_seed(Each(&mut SpanReader {
                batch: self.batch,
                spans: self.spans,
                read: Members::default(),
            }))?;
        }
        Ok(name == "spans")
    }
}

struct SpanReader<'b, 'k, 'de> {
    batch: &'b mut Batch<'k>,
    spans: &'b mut Vec<Span>,
    read: Members<'de>,
}

/// The members of a span that have been read.
#[derive(Default)]
struct Members<'de> {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    state: Cow<'de, str>,
    name: Cow<'de, str>,
    kind: u64,
    flags: u32,
    start: u64,
    end: u64,
    status: Status,
    events: Events<'de>,
}

impl<'de> Message<'de> for SpanReader<'_, '_, 'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        let read = &mut self.read;
        match name {
            "traceId" => read.trace = Scalar::id(map)?,
            "spanId" => read.id = Scalar::id(map)?,
            "parentSpanId" => read.parent = Scalar::id(map)?,
            "traceState" => read.state = Scalar::text(map)?,
            "name" => read.name = Scalar::text(map)?,
            "kind" => read.kind = Scalar::number(map)?,
            "flags" => read.flags = u32::try_from(Scalar::number(map)?).unwrap_or(0),
            "startTimeUnixNano" => read.start = Scalar::time(map)?,
            "endTimeUnixNano" => read.end = Scalar::time(map)?,
            "status" => map.next_value_seed(Seed(&mut read.status))?,
            "events" => map.next_value_seed(Each(&mut read.events))?,
            "attributes" => {
                map.next_value_seed(Each(&mut Attribute::new(self.batch, None)))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self) {
        let read = std::mem::take(&mut self.read);
        let over = read.events.seen.saturating_sub(SPAN_EVENTS_MAX) as u64;
        self.batch.events_over_limit = self.batch.events_over_limit.saturating_add(over);
        let raw = RawSpan {
            trace: &read.trace,
            id: &read.id,
            parent: &read.parent,
            state: read.state.as_bytes(),
            name: read.name.as_bytes(),
            kind: read.kind,
            flags: read.flags,
            start: read.start,
            end: read.end,
            is_error: read.status.code == ERROR,
            exception: read.events.exception.as_bytes(),
        };
        self.batch.add(&raw, self.spans);
    }
}

/// Status code of an error.
const ERROR: u64 = 2;

#[derive(Default)]
struct Status {
    code: u64,
}

impl<'de> Message<'de> for Status {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "code" {
            self.code = Scalar::number(map)?;
        }
        Ok(name == "code")
    }
}

/// The events of a span.
#[derive(Default)]
struct Events<'de> {
    seen: usize,
    is_exception: bool,
    attributes: EventAttributes<'de>,
    /// Type of the last exception.
    exception: Cow<'de, str>,
}

impl<'de> Message<'de> for Events<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "name" => self.is_exception = Scalar::text(map)? == "exception",
            "attributes" => map.next_value_seed(Each(&mut self.attributes))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self) {
        self.seen = self.seen.saturating_add(1);
        let is_exception = std::mem::take(&mut self.is_exception);
        let EventAttributes { kind, .. } = std::mem::take(&mut self.attributes);
        if let Some(kind) = kind.filter(|_| is_exception && self.seen <= SPAN_EVENTS_MAX) {
            self.exception = kind;
        }
    }
}

/// Attributes of an event.
#[derive(Default)]
struct EventAttributes<'de> {
    pair: Pair<'de>,
    kind: Option<Cow<'de, str>>,
}

impl<'de> Message<'de> for EventAttributes<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        self.pair.member(name, map)
    }

    fn end(&mut self) {
        let Pair { name, value } = std::mem::take(&mut self.pair);
        if let (true, AnyValue::Text(text)) = (name == "exception.type", value) {
            self.kind = Some(text);
        }
    }
}

/// Name and value of an attribute.
#[derive(Default)]
struct Pair<'de> {
    name: Cow<'de, str>,
    value: AnyValue<'de>,
}

impl<'de> Message<'de> for Pair<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "key" => self.name = Scalar::text(map)?,
            "value" => map.next_value_seed(Seed(&mut self.value))?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The attributes of a span or a resource.
struct Attribute<'b, 'k, 'h, 'de> {
    batch: &'b mut Batch<'k>,
    hash: Option<&'h mut ResourceHash>,
    pair: Pair<'de>,
}

impl<'b, 'k, 'h> Attribute<'b, 'k, 'h, '_> {
    fn new(batch: &'b mut Batch<'k>, hash: Option<&'h mut ResourceHash>) -> Self {
        Self {
            batch,
            hash,
            pair: Pair::default(),
        }
    }
}

impl<'de> Message<'de> for Attribute<'_, '_, '_, 'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        self.pair.member(name, map)
    }

    fn end(&mut self) {
        let Pair { name, value } = std::mem::take(&mut self.pair);
        let facts = &mut self.batch.facts;
        if !facts.has_room() {
            return;
        }
        let value = match &value {
            AnyValue::Text(text) => Value::Text(text.as_bytes()),
            AnyValue::Plain(value) => *value,
        };
        if let Some(hash) = &mut self.hash {
            hash.add(name.as_bytes(), value);
        }
        if let Some(key) = facts.wanted(self.batch.keys, name.as_bytes()) {
            facts.value(key, value);
        }
    }
}

/// The value of an attribute.
enum AnyValue<'de> {
    Text(Cow<'de, str>),
    /// Anything else.
    Plain(Value<'static>),
}

impl Default for AnyValue<'_> {
    fn default() -> Self {
        Self::Plain(Value::Other)
    }
}

impl<'de> Message<'de> for AnyValue<'de> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        let plain = match (name, map) {
            ("stringValue", map) => {
                *self = Self::Text(Scalar::text(map)?);
                return Ok(true);
            }
            ("boolValue", map) => match map.next_value()? {
                Scalar::Truth(truth) => Value::Truth(truth),
                _ => Value::Other,
            },
            ("intValue", map) => match map.next_value()? {
                Scalar::Whole(number) => i64::try_from(number).map_or(Value::Other, Value::Whole),
                Scalar::Text(text) => text.parse().map_or(Value::Other, Value::Whole),
                _ => Value::Other,
            },
            ("doubleValue", map) => match map.next_value()? {
                Scalar::Float(number) => Value::Float(number),
                Scalar::Whole(number) => Value::Float(number as f64),
                Scalar::Text(text) => text.parse().map_or(Value::Other, Value::Float),
                _ => Value::Other,
            },
            _ => return Ok(false),
        };
        *self = Self::Plain(plain);
        Ok(true)
    }
}
