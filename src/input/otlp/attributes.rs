//! Attributes kept of a span or a resource: only the texts that the mapping uses.
//!
//! An attribute is recognized by its name while decoding; its value is converted to a text of at
//! most [`TEXT_BYTES_MAX`] bytes. Lists, maps and bytes are skipped, and an empty text counts as
//! absent. So the memory of a span is proportional to its useful content, however many attributes
//! it has.

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
    hasher: ahash::RandomState,
}

impl Keys {
    pub(super) fn new(chosen: &[String]) -> Self {
        let hasher = ahash::RandomState::new();
        let mut keys = Self { places: [const { None }; 256], chosen: Vec::new(), hasher };
        for (number, (name, _)) in (0..Key::OtherDb.number()).zip(ATTRIBUTES) {
            keys.add(name, number);
        }
        for (number, name) in (CHOSEN..).zip(chosen) {
            let number = keys.add(name, number);
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

    /// Returns the place of a name, or a free one.
    fn place(&self, name: &[u8]) -> usize {
        // Lengths and last eight bytes tell most names apart.
        let last = name.last_chunk().map_or(0, |last| u64::from_le_bytes(*last));
        let hash = (last ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (hash >> 56) as u8;
        while let Some(Some((known, _))) = self.places.get(usize::from(place))
            && known.as_bytes() != name
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

/// The attributes of a span or a resource, and where their texts are: one buffer has those of a
/// whole body, another those of a group of spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FactsAt {
    /// One bit for each attribute present.
    seen: u64,
    start: u32,
    bytes: u32,
}

impl FactsAt {
    /// Returns true if any of these keys is present.
    #[inline]
    pub(super) fn has(self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.seen & key.bits() != 0)
    }

    /// Size of the texts.
    pub(super) const fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// Returns the facts, whose texts are in this buffer.
    pub(super) fn within(self, texts: &[u8]) -> Facts<'_> {
        let packed = texts.get(self.start as usize..).and_then(|it| it.get(..self.bytes()));
        Facts { seen: self.seen, packed: packed.unwrap_or_default() }
    }

    /// Copies the texts from one buffer to the end of another.
    pub(super) fn copied(self, from: &[u8], to: &mut Vec<u8>) -> Self {
        let start = to.len() as u32;
        to.extend_from_slice(self.within(from).packed);
        Self { start, ..self }
    }
}

/// Texts by attribute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Facts<'a> {
    seen: u64,
    /// Repeated: number, length (two bytes), text.
    packed: &'a [u8],
}

impl<'a> Facts<'a> {
    /// Returns the text of a key; it is never empty.
    pub(super) fn get(self, key: Key) -> Option<&'a [u8]> {
        self.first_of(key.bits())
    }

    /// Returns the text of an attribute by its number.
    pub(super) fn numbered(self, number: u8) -> Option<&'a [u8]> {
        self.first_of(bit(number))
    }

    fn first_of(self, bits: u64) -> Option<&'a [u8]> {
        let seen = self.seen & bits;
        if seen == 0 {
            return None;
        }
        let number = seen.trailing_zeros();
        let mut rest = self.packed;
        while let Some(([found, low, high], after)) = rest.split_first_chunk() {
            let length = u16::from_le_bytes([*low, *high]);
            let (text, after) = after.split_at_checked(length.into())?;
            if u32::from(*found) == number {
                return Some(text);
            }
            rest = after;
        }
        None
    }

    /// Returns the text of the first of these keys that is present.
    #[inline]
    pub(super) fn first(self, keys: &[Key]) -> Option<&'a [u8]> {
        keys.iter().find_map(|key| self.get(*key))
    }
}

/// Collects facts attribute by attribute, and the texts of all in one buffer.
#[derive(Debug, Default)]
pub(super) struct FactsWriter {
    pub(super) texts: Vec<u8>,
    /// Those being collected.
    open: FactsAt,
    attributes: usize,
    /// Attributes beyond the limit, which were ignored; summed over all spans.
    pub(super) over_limit: u64,
}

impl FactsWriter {
    /// Returns the collected facts and starts over.
    pub(super) fn take(&mut self) -> FactsAt {
        let end = self.texts.len() as u32;
        let next = FactsAt { start: end, ..FactsAt::default() };
        let facts = std::mem::replace(&mut self.open, next);
        self.attributes = 0;
        FactsAt { bytes: end.saturating_sub(facts.start), ..facts }
    }

    /// Drops the texts of the facts that were taken last.
    pub(super) fn drop_last(&mut self, facts: FactsAt) {
        self.texts.truncate(facts.start as usize);
        self.open.start = facts.start;
    }

    /// Adds an attribute if it is to be kept.
    pub(super) fn attribute(&mut self, keys: &Keys, name: &[u8], value: Value<'_>) {
        self.attributes = self.attributes.saturating_add(1);
        if self.attributes > SPAN_ATTRIBUTES_MAX {
            self.over_limit = self.over_limit.saturating_add(1);
            return;
        }
        let Some(&Some((_, number))) = keys.places.get(keys.place(name)) else {
            if name.starts_with(b"db.") {
                self.text(Key::OtherDb, b"db");
            }
            return;
        };
        match value {
            Value::Text(text) if Key::QueryText.bits() & bit(number) != 0 => {
                self.numbered(number, first_word(text, &mut [0; 32]));
            }
            Value::Text(text) => self.numbered(number, text),
            Value::Whole(whole) => {
                self.numbered(number, itoa::Buffer::new().format(whole).as_bytes());
            }
            Value::Float(float) => {
                // Not as Display does, which writes out all zeros: 326 bytes for nine that were sent.
                let text = format!("{float:?}");
                self.numbered(number, text.trim_end_matches(".0").as_bytes());
            }
            Value::Truth(truth) => self.numbered(number, truth.to_string().as_bytes()),
            Value::Other => {}
        }
    }

    /// Returns true if no text of a key was added.
    pub(super) fn lacks(&self, key: Key) -> bool {
        self.open.seen & key.bits() == 0
    }

    /// Adds a text that is derived.
    pub(super) fn text(&mut self, key: Key, text: &[u8]) {
        self.numbered(key.number(), text);
    }

    /// Adds a text, unless there is one already.
    fn numbered(&mut self, number: u8, text: &[u8]) {
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
        let Ok(length) = u16::try_from(text.len()) else {
            return;
        };
        if length == 0 || self.open.seen & bit(number) != 0 {
            return;
        }
        self.open.seen |= bit(number);
        let [low, high] = length.to_le_bytes();
        self.texts.extend_from_slice(&[number, low, high]);
        self.texts.extend_from_slice(text);
    }
}

/// Returns the first word of a query, its operation, in upper case.
fn first_word<'w>(text: &[u8], word: &'w mut [u8; 32]) -> &'w [u8] {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let letters = text.trim_ascii_start().iter().take_while(|it| is_letter(it));
    let places = word.iter_mut().zip(letters);
    let length = places.map(|(place, letter)| *place = letter.to_ascii_uppercase()).count();
    word.get(..length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_again_and_the_first_of_a_name_counts() {
        let keys = Keys::new(&["tenant".to_owned(), "db.namespace".to_owned()]);
        let mut writer = FactsWriter::default();
        for (name, value) in [
            (&b"http.route"[..], Value::Text(b"")),
            (b"http.route", Value::Text(b"users/{id}")),
            (b"http.route", Value::Text(b"another")),
            (b"http.status_code", Value::Whole(500)),
            (b"http.response.status_code", Value::Whole(404)),
            (b"db.query.text", Value::Text(b"\n select * from secret")),
            (b"db.namespace", Value::Text(b"shop")),
            (b"tenant", Value::Truth(true)),
            (b"unknown", Value::Text(b"x")),
        ] {
            writer.attribute(&keys, name, value);
        }
        let taken = writer.take();
        let facts = taken.within(&writer.texts);
        assert_eq!(facts.get(Key::Route), Some(&b"users/{id}"[..]));
        assert_eq!(facts.get(Key::Status), Some(&b"404"[..]));
        assert_eq!(facts.get(Key::QueryText), Some(&b"SELECT"[..]));
        assert_eq!(facts.get(Key::OtherDb), None, "all of its kind are known");
        let [(tenant, at), (namespace, known)] = &keys.chosen[..] else { panic!() };
        assert_eq!((&**tenant, facts.numbered(*at)), ("tenant", Some(&b"true"[..])));
        assert_eq!((&**namespace, *known), ("db.namespace", Key::DbNamespace.number()));
        assert_eq!(writer.take().within(&writer.texts), Facts::default());
        writer.drop_last(taken);
        assert_eq!(writer.take(), FactsAt::default());
    }

    #[test]
    fn texts_of_floats_are_short_and_exact() {
        let keys = Keys::new(&[]);
        let mut writer = FactsWriter::default();
        let mut text = |float| {
            writer.attribute(&keys, b"http.route", Value::Float(float));
            let facts = writer.take();
            let text = facts.within(&writer.texts).get(Key::Route).unwrap();
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
        writer.attribute(&keys, b"url.full", Value::Text(&long));
        for _ in 1..SPAN_ATTRIBUTES_MAX {
            writer.attribute(&keys, b"nothing", Value::Other);
        }
        assert_eq!(writer.over_limit, 0);
        for _ in 0..7 {
            writer.attribute(&keys, b"http.route", Value::Text(b"x"));
        }
        assert_eq!(writer.over_limit, 7);
        let facts = writer.take();
        let facts = facts.within(&writer.texts);
        assert_eq!(facts.get(Key::Url).map(<[u8]>::len), Some(TEXT_BYTES_MAX));
        assert_eq!(facts.get(Key::Route), None);
    }
}
