//! Decodes bodies in JSON: the same messages with lowerCamelCase names, processed as a stream.
//!
//! Ids are hexadecimal, 64-bit numbers are strings or numbers, enums are numbers; `null` counts as
//! absent, and unknown names are skipped whatever their depth. One span is in memory at a time, with
//! no more attributes and events than are used; beyond that nothing is kept but what a [`Batch`]
//! takes.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use super::counters::BodyRefusal;
use super::facts::{ResourceHash, Value};
use super::span::{Batch, ERROR, RawSpan, Resource, Span};
use crate::limits::{SPAN_ATTRIBUTES_MAX, SPAN_EVENTS_MAX};

/// Decodes a body.
pub(super) fn decode(body: &[u8], batch: &mut Batch<'_>) -> Result<(), BodyRefusal> {
    let is_list = body.trim_ascii_start().starts_with(b"[");
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = Each(&mut Request(batch)).deserialize(&mut json);
    let read = read.and_then(|()| json.end()).ok().filter(|()| !is_list);
    read.ok_or(BodyRefusal::BadJson)
}

/// An object read member by member.
trait Message<'de> {
    /// Reads the value of the member `name`. Returns false, having read nothing, if there is no
    /// such member.
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error>;

    /// Called at the end of each object.
    fn end(&mut self) {}
}

/// Reads an object, or each of a list.
struct Each<'m, M>(&'m mut M);

impl<'de, M: Message<'de>> DeserializeSeed<'de> for Each<'_, M> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, M: Message<'de>> Visitor<'de> for Each<'_, M> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Each(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<'_, str>>()? {
            if !self.0.member(&name, &mut map)? {
                map.next_value::<IgnoredAny>()?;
            }
        }
        self.0.end();
        Ok(())
    }
}

struct Request<'b, 'k>(&'b mut Batch<'k>);

impl<'de> Message<'de> for Request<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "resourceSpans" {
            map.next_value_seed(Each(&mut ResourceSpans {
                batch: self.0,
                resource: Resource::default(),
                spans: Vec::new(),
            }))?;
        }
        Ok(name == "resourceSpans")
    }
}

struct ResourceSpans<'b, 'k> {
    batch: &'b mut Batch<'k>,
    resource: Resource,
    spans: Vec<Span>,
}

impl<'de> Message<'de> for ResourceSpans<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        match name {
            "resource" => {
                let sent: Option<JsonResource<'_>> = map.next_value()?;
                let mut hash = self.batch.resource_hash();
                sent.unwrap_or_default()
                    .attributes
                    .add(self.batch, Some(&mut hash));
                self.resource = Resource {
                    hash: hash.finish(),
                    facts: self.batch.facts.take(),
                };
            }
            "scopeSpans" => {
                map.next_value_seed(Each(&mut ScopeSpans(self.batch, &mut self.spans)))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end(&mut self) {
        if self.resource == Resource::default() {
            self.resource.hash = self.batch.resource_hash().finish();
        }
        let resource = std::mem::take(&mut self.resource);
        self.batch
            .add_resource(resource, std::mem::take(&mut self.spans));
    }
}

struct ScopeSpans<'b, 'k>(&'b mut Batch<'k>, &'b mut Vec<Span>);

impl<'de> Message<'de> for ScopeSpans<'_, '_> {
    fn member<A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<bool, A::Error> {
        if name == "spans" {
            map.next_value_seed(Spans(self.0, self.1))?;
        }
        Ok(name == "spans")
    }
}

/// Takes one span after the other.
struct Spans<'b, 'k>(&'b mut Batch<'k>, &'b mut Vec<Span>);

impl<'de> DeserializeSeed<'de> for Spans<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Spans<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or null")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(span) = seq.next_element::<Option<JsonSpan<'_>>>()? {
            span.unwrap_or_default().add(self.0, self.1);
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonResource<'a> {
    #[serde(borrow)]
    attributes: First<Pair<'a>, SPAN_ATTRIBUTES_MAX>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonSpan<'a> {
    #[serde(deserialize_with = "id")]
    trace_id: Vec<u8>,
    #[serde(deserialize_with = "id")]
    span_id: Vec<u8>,
    #[serde(deserialize_with = "id")]
    parent_span_id: Vec<u8>,
    #[serde(deserialize_with = "text", borrow)]
    trace_state: Cow<'a, str>,
    #[serde(deserialize_with = "text", borrow)]
    name: Cow<'a, str>,
    #[serde(deserialize_with = "number")]
    kind: u64,
    #[serde(deserialize_with = "number")]
    flags: u64,
    #[serde(deserialize_with = "time")]
    start_time_unix_nano: u64,
    #[serde(deserialize_with = "time")]
    end_time_unix_nano: u64,
    status: Option<Status>,
    #[serde(borrow)]
    events: First<Event<'a>, SPAN_EVENTS_MAX>,
    #[serde(borrow)]
    attributes: First<Pair<'a>, SPAN_ATTRIBUTES_MAX>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "number")]
    code: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event<'a> {
    #[serde(deserialize_with = "text", borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    attributes: First<Pair<'a>, SPAN_ATTRIBUTES_MAX>,
}

/// Name and value of an attribute.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Pair<'a> {
    #[serde(deserialize_with = "text", borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    value: Option<AnyValue<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AnyValue<'a> {
    #[serde(borrow)]
    string_value: Scalar<'a>,
    #[serde(borrow)]
    bool_value: Scalar<'a>,
    #[serde(borrow)]
    int_value: Scalar<'a>,
    #[serde(borrow)]
    double_value: Scalar<'a>,
}

impl JsonSpan<'_> {
    fn add(&self, batch: &mut Batch<'_>, spans: &mut Vec<Span>) {
        self.attributes.add(batch, None);
        batch.events_over_limit = batch.events_over_limit.saturating_add(self.events.over);
        let exceptions = self.events.kept.iter().rev();
        let exception = exceptions
            .filter(|it| it.name == "exception")
            .find_map(|it| {
                let mut types = it.attributes.kept.iter().rev();
                types.find_map(|it| match it.value() {
                    Value::Text(text) if it.key == "exception.type" => Some(text),
                    _ => None,
                })
            });
        let raw = RawSpan {
            trace: &self.trace_id,
            id: &self.span_id,
            parent: &self.parent_span_id,
            state: self.trace_state.as_bytes(),
            name: self.name.as_bytes(),
            kind: self.kind,
            flags: u32::try_from(self.flags).unwrap_or(0),
            start: self.start_time_unix_nano,
            end: self.end_time_unix_nano,
            is_error: self.status.as_ref().is_some_and(|it| it.code == ERROR),
            exception: exception.unwrap_or_default(),
        };
        batch.add(&raw, spans);
    }
}

impl<const N: usize> First<Pair<'_>, N> {
    fn add(&self, batch: &mut Batch<'_>, mut hash: Option<&mut ResourceHash>) {
        for pair in &self.kept {
            batch.attribute(pair.key.as_bytes(), pair.value(), hash.as_deref_mut());
        }
        batch.facts.over_limit = batch.facts.over_limit.saturating_add(self.over);
    }
}

impl Pair<'_> {
    fn value(&self) -> Value<'_> {
        let Some(of) = &self.value else {
            return Value::Other;
        };
        match (
            &of.string_value,
            &of.bool_value,
            &of.int_value,
            &of.double_value,
        ) {
            (Scalar::Text(text), ..) => Value::Text(text.as_bytes()),
            (_, Scalar::Truth(truth), ..) => Value::Truth(*truth),
            (_, _, Scalar::Whole(number), _) => {
                i64::try_from(*number).map_or(Value::Other, Value::Whole)
            }
            (_, _, Scalar::Text(text), _) => text.parse().map_or(Value::Other, Value::Whole),
            (.., Scalar::Float(number)) => Value::Float(*number),
            (.., Scalar::Whole(number)) => Value::Float(*number as f64),
            (.., Scalar::Text(text)) => text.parse().map_or(Value::Other, Value::Float),
            _ => Value::Other,
        }
    }
}

/// The first `N` elements of a list.
struct First<T, const N: usize> {
    kept: Vec<T>,
    /// Number of others.
    over: u64,
}

impl<T, const N: usize> Default for First<T, N> {
    fn default() -> Self {
        let kept = Vec::new();
        Self { kept, over: 0 }
    }
}

impl<'de, T: Deserialize<'de> + Default, const N: usize> Deserialize<'de> for First<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self::default())
    }
}

impl<'de, T: Deserialize<'de> + Default, const N: usize> Visitor<'de> for First<T, N> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list or null")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Self, A::Error> {
        while self.kept.len() < N
            && let Some(element) = seq.next_element::<Option<T>>()?
        {
            self.kept.push(element.unwrap_or_default());
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            self.over = self.over.saturating_add(1);
        }
        Ok(self)
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

impl<'de: 'a, 'a> Deserialize<'de> for Scalar<'a> {
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

fn text<'de, D: Deserializer<'de>>(json: D) -> Result<Cow<'de, str>, D::Error> {
    match Scalar::deserialize(json)? {
        Scalar::Text(text) => Ok(text),
        Scalar::Null => Ok(Cow::default()),
        Scalar::Whole(_) | Scalar::Float(_) | Scalar::Truth(_) => Err(D::Error::custom("no text")),
    }
}

/// Reads an enum or flags.
fn number<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    match Scalar::deserialize(json)? {
        Scalar::Whole(number) => Ok(u64::try_from(number).unwrap_or(0)),
        Scalar::Null => Ok(0),
        Scalar::Text(_) | Scalar::Float(_) | Scalar::Truth(_) => Err(D::Error::custom("no number")),
    }
}

/// Reads a time; an invalid one becomes 0, for which the span is refused.
fn time<'de, D: Deserializer<'de>>(json: D) -> Result<u64, D::Error> {
    Ok(match Scalar::deserialize(json)? {
        Scalar::Whole(number) => u64::try_from(number).unwrap_or(0),
        Scalar::Text(text) => text.parse().unwrap_or(0),
        Scalar::Null | Scalar::Float(_) | Scalar::Truth(_) => 0,
    })
}

/// Reads an id; text that is not one becomes an invalid id, for which the span is refused.
fn id<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<u8>, D::Error> {
    let text = text(json)?;
    let valid = match text.len() {
        0 => return Ok(Vec::new()),
        16 => super::messages::id::<8>(&text).map(Vec::from),
        _ => super::messages::id::<16>(&text).map(Vec::from),
    };
    Ok(valid.unwrap_or(vec![0]))
}
