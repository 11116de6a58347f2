//! Attributes kept of a span or a resource: only the texts that the mapping uses.
//!
//! An attribute is recognized by its name while decoding; its value becomes a text of at most
//! [`TEXT_BYTES_MAX`] bytes, which stays where it is in the body. Lists, maps and bytes are
//! skipped, and an empty text counts as absent. Only spans that wait have copies of their texts.
//! So the memory of a span is proportional to its useful content, however many attributes it has.

use std::hash::Hash;

use crate::limits::{SPAN_ATTRIBUTES_MAX, SPAN_TAGS_MAX, TEXT_BYTES_MAX};

macro_rules! keys {
    ($($key:ident = $($name:literal)|+,)+) => {
        /// A fact, from the first present of some attributes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Key {
            $($key,)+
        }

        /// The attributes by their numbers, each with its key.
        const ATTRIBUTES: &[(&str, Key)] = &[$($(($name, Key::$key),)+)+];
    };
}

// By their names in the semantic conventions, those of today before older ones. The last four are
// derived, not attributes of their own.
keys! {
    HostName = "host.name" | "k8s.pod.name",
    ServiceName = "service.name",
    ServiceNamespace = "service.namespace",
    ServiceVersion = "service.version",
    Environment = "deployment.environment.name" | "deployment.environment",
    Language = "telemetry.sdk.language",
    Route = "http.route",
    Method = "http.request.method" | "http.method",
    Status = "http.response.status_code" | "http.status_code",
    BodySize = "http.response.body.size" | "http.response_content_length",
    HttpHost = "http.host",
    Scheme = "url.scheme" | "http.scheme",
    Url = "url.full" | "http.url",
    ServerAddress = "server.address",
    OldHostName = "net.host.name",
    PeerAddress = "net.peer.name" | "network.peer.address" | "net.sock.peer.addr",
    DbSystem = "db.system.name" | "db.system",
    DbNamespace = "db.namespace" | "db.name",
    DbOperation = "db.operation.name" | "db.operation",
    QueryText = "db.query.text" | "db.statement",
    MessagingSystem = "messaging.system",
    Destination = "messaging.destination.name" | "messaging.destination",
    MessagingName = "messaging.operation.name",
    MessagingType = "messaging.operation.type" | "messaging.operation",
    RpcSystem = "rpc.system",
    ExceptionType = "exception.type" | "error.type",
    OtherDb = "db.",
    EventException = "event exception.type",
    Sender = "sender",
    Name = "name",
}

/// Number of the first attribute named by the configuration.
const CHOSEN: u8 = ATTRIBUTES.len() as u8;

// Each attribute has a bit in a `u64`.
const _: () = assert!(CHOSEN as usize + SPAN_TAGS_MAX <= 64);

/// The bits of the attributes of each key.
#[expect(clippy::indexing_slicing, reason = "the compiler does it, and checks it")]
const BITS: [u64; Key::Name as usize + 1] = {
    let (mut bits, mut number) = ([0; _], 0);
    while number < CHOSEN {
        bits[ATTRIBUTES[number as usize].1 as usize] |= bit(number);
        number += 1;
    }
    bits
};

impl Key {
    /// Its name in the semantic conventions of today.
    pub(super) fn name(self) -> &'static str {
        ATTRIBUTES.get(usize::from(self.number())).map_or("", |it| it.0)
    }

    /// Number of the first of its attributes.
    fn number(self) -> u8 {
        self.bits().trailing_zeros() as u8
    }

    fn bits(self) -> u64 {
        BITS.get(self as usize).copied().unwrap_or_default()
    }
}

/// Compares two short texts without a call.
#[inline]
pub(super) fn is_same(a: &[u8], b: &[u8]) -> bool {
    let eights = |it: &[u8]| it.last_chunk().map(|last: &[u8; 8]| u64::from_le_bytes(*last));
    a.len() == b.len()
        && match (eights(a), eights(b)) {
            (Some(x), Some(y)) => {
                x == y && a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).all(|(x, y)| x == y)
            }
            _ => a == b,
        }
}

/// Returns the bit of an attribute.
const fn bit(number: u8) -> u64 {
    1_u64.wrapping_shl(number as u32)
}

/// An attribute's value as sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Text(&'a [u8]),
    Whole(i64),
    Float(f64),
    Truth(bool),
    /// A list, a map, bytes or no value.
    Other,
}

/// Names of the attributes to keep.
#[derive(Debug)]
pub(super) struct Keys {
    /// A hash table: names with their numbers. They are few, and no sender adds any.
    places: [Option<(Box<str>, u8)>; 256],
    /// Attributes named by the configuration, with their numbers.
    pub(super) chosen: Vec<(String, u8)>,
    /// Whether the first word of a query is among these.
    has_query: bool,
    hasher: ahash::RandomState,
}

impl Keys {
    pub(super) fn new(chosen: &[String]) -> Self {
        let hasher = ahash::RandomState::new();
        let places = [const { None }; 256];
        let mut keys = Self { places, chosen: Vec::new(), has_query: false, hasher };
        for (number, (name, _)) in (0..Key::OtherDb.number()).zip(ATTRIBUTES) {
            keys.add(name, number);
        }
        for (number, name) in (CHOSEN..).zip(chosen) {
            let number = keys.add(name, number);
            keys.has_query |= Key::QueryText.bits() & bit(number) != 0;
            keys.chosen.push((name.clone(), number));
        }
        keys
    }

    /// Adds a name unless it is known; returns its number.
    fn add(&mut self, name: &str, number: u8) -> u8 {
        let place = self.place(name.as_bytes());
        self.places
            .get_mut(place)
            .map_or(number, |it| it.get_or_insert_with(|| (name.into(), number)).1)
    }

    /// Returns the number of a name, if it is known.
    #[inline]
    fn number(&self, name: &[u8]) -> Option<u8> {
        let (_, number) = self.places.get(self.place(name))?.as_ref()?;
        Some(*number)
    }

    /// Returns the place of a name, or a free one.
    #[inline]
    fn place(&self, name: &[u8]) -> usize {
        // Lengths and last eight bytes tell most names apart.
        let last = name.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        let hash = (last ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> 56) as u8;
        while let Some(Some((known, _))) = self.places.get(usize::from(place))
            && !is_same(known.as_bytes(), name)
        {
            place = place.wrapping_add(1);
        }
        place.into()
    }

    /// Returns a hash with keys of its own, which nobody outside can know.
    pub(super) fn hash(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }
}

/// The text of an attribute: its place among the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fact {
    number: u8,
    bytes: u16,
    at: u32,
}

/// The attributes of a span or a resource: their part of a list of facts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FactsAt {
    /// One bit for each attribute present.
    seen: u64,
    start: u32,
    count: u32,
}

impl FactsAt {
    /// Returns true if any of these keys is present.
    #[inline]
    pub(super) fn has(self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.seen & key.bits() != 0)
    }

    /// Returns the facts, which are among these.
    #[inline]
    pub(super) fn among<'a>(self, texts: &'a Texts<'a>) -> Facts<'a> {
        let own =
            texts.facts.get(self.start as usize..).and_then(|it| it.get(..self.count as usize));
        Facts { seen: self.seen, own: own.unwrap_or_default(), texts }
    }
}

/// Facts of many spans, and their texts: parts of the body as sent, and behind them those that were
/// derived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts<'a> {
    facts: &'a [Fact],
    sent: &'a [u8],
    derived: &'a [u8],
}

impl<'a> Texts<'a> {
    #[inline]
    fn text(&self, fact: Fact) -> &'a [u8] {
        let at = fact.at as usize;
        let from = match at.checked_sub(self.sent.len()) {
            None => self.sent.get(at..),
            Some(at) => self.derived.get(at..),
        };
        from.and_then(|it| it.get(..fact.bytes.into())).unwrap_or_default()
    }
}

/// Texts by attribute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    seen: u64,
    own: &'a [Fact],
    texts: &'a Texts<'a>,
}

impl<'a> Facts<'a> {
    /// Returns the text of a key; it is never empty.
    #[inline]
    pub(super) fn get(self, key: Key) -> Option<&'a [u8]> {
        self.first_of(key.bits())
    }

    /// Returns the text of an attribute by its number.
    pub(super) fn numbered(self, number: u8) -> Option<&'a [u8]> {
        self.first_of(bit(number))
    }

    #[inline]
    fn first_of(self, bits: u64) -> Option<&'a [u8]> {
        let seen = self.seen & bits;
        if seen == 0 {
            return None;
        }
        let number = seen.trailing_zeros() as u8;
        let fact = self.own.iter().find(|it| it.number == number)?;
        Some(self.texts.text(*fact))
    }

    /// Returns the text of the first of these keys that is present.
    #[inline]
    pub(super) fn first(self, keys: &[Key]) -> Option<&'a [u8]> {
        keys.iter().find_map(|key| self.get(*key))
    }
}

/// Facts and their texts, in buffers of their own or behind those of a body.
#[derive(Debug, Default)]
pub(super) struct FactBuffer {
    facts: Vec<Fact>,
    texts: Vec<u8>,
}

impl FactBuffer {
    /// Returns the facts, whose texts follow these.
    pub(super) fn after<'a>(&'a self, sent: &'a [u8]) -> Texts<'a> {
        Texts { facts: &self.facts, sent, derived: &self.texts }
    }

    /// Returns its size.
    pub(super) fn bytes(&self) -> usize {
        self.texts.len().saturating_add(size_of_val(&*self.facts))
    }

    /// Makes room for these facts, and no more.
    pub(super) fn reserve(
        &mut self,
        each: impl Iterator<Item = FactsAt> + Clone,
        texts: &Texts<'_>,
    ) {
        self.facts.reserve_exact(each.clone().map(|it| it.count as usize).sum());
        let facts = each.flat_map(|it| it.among(texts).own);
        self.texts.reserve_exact(facts.map(|it| usize::from(it.bytes)).sum());
    }

    /// Copies facts with their texts.
    pub(super) fn copy(&mut self, from: FactsAt, texts: &Texts<'_>) -> FactsAt {
        let start = self.facts.len() as u32;
        for fact in from.among(texts).own {
            self.facts.push(Fact { at: self.texts.len() as u32, ..*fact });
            self.texts.extend_from_slice(texts.text(*fact));
        }
        FactsAt { start, ..from }
    }
}

/// Collects facts attribute by attribute.
#[derive(Debug, Default)]
pub(super) struct FactsWriter<'b> {
    /// The body, whose parts most texts are.
    pub(super) sent: &'b [u8],
    buffer: FactBuffer,
    /// Those being collected.
    open: FactsAt,
    attributes: usize,
    /// Attributes beyond the limit, which were ignored; summed over all spans.
    pub(super) over_limit: u64,
}

impl FactsWriter<'_> {
    pub(super) fn texts(&self) -> Texts<'_> {
        self.buffer.after(self.sent)
    }

    /// Returns the collected facts and starts over.
    pub(super) fn take(&mut self) -> FactsAt {
        let end = self.buffer.facts.len() as u32;
        let facts = std::mem::replace(&mut self.open, FactsAt { start: end, ..FactsAt::default() });
        self.attributes = 0;
        FactsAt { count: end.saturating_sub(facts.start), ..facts }
    }

    /// Drops the facts that were taken last.
    pub(super) fn drop_last(&mut self, facts: FactsAt) {
        let mut dropped = self.buffer.facts.drain(facts.start as usize..);
        let derived = dropped.find_map(|it| (it.at as usize).checked_sub(self.sent.len()));
        drop(dropped);
        self.buffer.texts.truncate(derived.unwrap_or(usize::MAX));
        self.open.start = facts.start;
    }

    /// Counts an attribute; returns its number if it is to be kept.
    #[inline]
    pub(super) fn number(&mut self, keys: &Keys, name: &[u8]) -> Option<u8> {
        self.attributes = self.attributes.saturating_add(1);
        if self.attributes > SPAN_ATTRIBUTES_MAX {
            self.over_limit = self.over_limit.saturating_add(1);
            return None;
        }
        let number = keys.number(name);
        if number.is_none() && name.starts_with(b"db.") {
            self.text(Key::OtherDb, b"db");
        }
        number
    }

    /// Adds the value of an attribute.
    #[inline]
    pub(super) fn value(&mut self, keys: &Keys, number: u8, value: Value<'_>) {
        match value {
            Value::Text(text) if Key::QueryText.bits() & bit(number) == 0 => self.add(number, text),
            // Nobody asks for the first word of a query whose operation is known.
            Value::Text(_) if self.open.seen & Key::DbOperation.bits() != 0 && !keys.has_query => {}
            value => self.convert(number, value),
        }
    }

    /// Adds a value that is not kept as it was sent.
    #[inline(never)]
    fn convert(&mut self, number: u8, value: Value<'_>) {
        match value {
            Value::Text(text) => self.add(number, first_word(text, &mut [0; 32])),
            Value::Whole(whole) => self.add(number, itoa::Buffer::new().format(whole).as_bytes()),
            Value::Float(float) => {
                // Not as Display does, which writes out all zeros: 326 bytes for nine that were sent.
                let text = format!("{float:?}");
                self.add(number, text.trim_end_matches(".0").as_bytes());
            }
            Value::Truth(truth) => self.add(number, truth.to_string().as_bytes()),
            Value::Other => {}
        }
    }

    /// Returns true if no text of a key was added.
    pub(super) fn lacks(&self, key: Key) -> bool {
        self.open.seen & key.bits() == 0
    }

    /// Adds a text that is derived.
    #[inline]
    pub(super) fn text(&mut self, key: Key, text: &[u8]) {
        self.add(key.number(), text);
    }

    /// Adds a text, unless there is one already: one of the body by its place, another as a copy.
    #[inline]
    fn add(&mut self, number: u8, text: &[u8]) {
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
        if text.is_empty() || self.open.seen & bit(number) != 0 {
            return;
        }
        self.open.seen |= bit(number);
        let mut at = text.as_ptr().addr().wrapping_sub(self.sent.as_ptr().addr());
        if at >= self.sent.len() {
            at = self.sent.len().saturating_add(self.buffer.texts.len());
            self.buffer.texts.extend_from_slice(text);
        }
        let (bytes, at) = (text.len() as u16, at as u32);
        self.buffer.facts.push(Fact { number, bytes, at });
    }
}

/// Returns the first word of a query, its operation, in upper case.
fn first_word<'w>(text: &[u8], word: &'w mut [u8; 32]) -> &'w [u8] {
    let mut length = 0_usize;
    for (place, letter) in word.iter_mut().zip(text.trim_ascii_start()) {
        *place = letter.to_ascii_uppercase();
        if !place.is_ascii_uppercase() && *place != b'_' {
            break;
        }
        length = length.saturating_add(1);
    }
    word.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(writer: &mut FactsWriter<'_>, keys: &Keys, name: &[u8], value: Value<'_>) {
        if let Some(number) = writer.number(keys, name) {
            writer.value(keys, number, value);
        }
    }

    #[test]
    fn texts_are_found_again_and_the_first_of_a_name_counts() {
        let keys = Keys::new(&["tenant".to_owned(), "db.namespace".to_owned()]);
        let sent = b"users/{id}";
        let mut writer = FactsWriter { sent, ..FactsWriter::default() };
        for (name, value) in [
            (&b"http.route"[..], Value::Text(b"")),
            (b"http.route", Value::Text(sent)),
            (b"http.route", Value::Text(b"another")),
            (b"http.status_code", Value::Whole(500)),
            (b"http.response.status_code", Value::Whole(404)),
            (b"db.query.text", Value::Text(b"\n select * from secret")),
            (b"db.namespace", Value::Text(b"shop")),
            (b"tenant", Value::Truth(true)),
            (b"unknown", Value::Text(b"x")),
        ] {
            attribute(&mut writer, &keys, name, value);
        }
        let taken = writer.take();
        let texts = writer.texts();
        let facts = taken.among(&texts);
        assert_eq!(facts.get(Key::Route), Some(&b"users/{id}"[..]));
        assert_eq!(facts.get(Key::Status), Some(&b"404"[..]));
        assert_eq!(facts.get(Key::QueryText), Some(&b"SELECT"[..]));
        assert_eq!(facts.get(Key::OtherDb), None, "all of its kind are known");
        let [(tenant, at), (namespace, known)] = &keys.chosen[..] else { panic!() };
        assert_eq!((&**tenant, facts.numbered(*at)), ("tenant", Some(&b"true"[..])));
        assert_eq!((&**namespace, *known), ("db.namespace", Key::DbNamespace.number()));
        assert_eq!(writer.take().seen, 0);
        writer.drop_last(taken);
        assert_eq!(writer.buffer.bytes(), 0);
        assert_eq!(writer.take(), FactsAt::default());
    }

    #[test]
    fn texts_of_floats_are_short_and_exact() {
        let keys = Keys::new(&[]);
        let mut writer = FactsWriter::default();
        let mut text = |float| {
            attribute(&mut writer, &keys, b"http.route", Value::Float(float));
            let facts = writer.take();
            let texts = writer.texts();
            let text = facts.among(&texts).get(Key::Route).unwrap();
            String::from_utf8(text.to_vec()).unwrap()
        };
        for float in [-5e-324, f64::MIN_POSITIVE, f64::MIN, 1.0 / 3.0, 1e-5 / 3.0, 1e16, 1e15 / 3.0]
        {
            let text = text(float);
            assert!(text.len() <= 24 && text.parse() == Ok(float), "{text}");
        }
        for (float, expected) in [(200.0, "200"), (0.5, "0.5"), (-0.0, "-0"), (f64::NAN, "NaN")] {
            assert_eq!(text(float), expected);
        }
    }

    #[test]
    fn long_values_are_cut_and_attributes_past_the_limit_are_counted() {
        let keys = Keys::new(&[]);
        let mut writer = FactsWriter::default();
        let long = vec![b'x'; 100_000];
        attribute(&mut writer, &keys, b"url.full", Value::Text(&long));
        for _ in 1..SPAN_ATTRIBUTES_MAX {
            attribute(&mut writer, &keys, b"nothing", Value::Other);
        }
        assert_eq!(writer.over_limit, 0);
        for _ in 0..7 {
            attribute(&mut writer, &keys, b"http.route", Value::Text(b"x"));
        }
        assert_eq!(writer.over_limit, 7);
        let (facts, texts) = (writer.take(), writer.texts());
        let facts = facts.among(&texts);
        assert_eq!(facts.get(Key::Url).map(<[u8]>::len), Some(TEXT_BYTES_MAX));
        assert_eq!(facts.get(Key::Route), None);
    }
}
