//! Attributes kept of a span or a resource: only the texts that the mapping uses.
//!
//! An attribute is recognized by its name while decoding; its value becomes a text of at most
//! [`TEXT_BYTES_MAX`] bytes, which stays where it is in the body. Lists, maps and bytes are
//! skipped, and an empty text counts as absent. Only spans that wait have copies of their texts.
//! So the memory of a span is proportional to its useful content, however many attributes it has.

use std::sync::Arc;

use crate::input::record::is_same;
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
    InstanceId = "service.instance.id",
    Language = "telemetry.sdk.language",
    DbSystem = "db.system.name" | "db.system",
    DbNamespace = "db.namespace" | "db.name",
    DbOperation = "db.operation.name" | "db.operation",
    QueryText = "db.query.text" | "db.statement",
    Route = "http.route",
    Method = "http.request.method" | "http.method",
    Status = "http.response.status_code" | "http.status_code",
    BodySize = "http.response.body.size" | "http.response_content_length",
    Scheme = "url.scheme" | "http.scheme",
    Url = "url.full" | "http.url",
    ServerAddress = "server.address",
    OldHostName = "net.host.name" | "http.host",
    PeerAddress = "net.peer.name" | "network.peer.address" | "net.sock.peer.addr",
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
    pub(super) fn number(self) -> u8 {
        self.bits().trailing_zeros() as u8
    }

    fn bits(self) -> u64 {
        BITS.get(self as usize).copied().unwrap_or_default()
    }
}

/// Returns a hash of a text's first and last bytes, for tables that few texts share.
pub(super) fn hash_of_ends(text: &[u8]) -> usize {
    let ends = || Some([*text.first_chunk()?, *text.last_chunk()?].map(u64::from_le_bytes));
    let short = || text.iter().fold(0, |all, byte| (all << 8) | u64::from(*byte));
    let mixed = ends().map_or_else(short, |[first, last]| first ^ last.rotate_left(32));
    // Any odd number with ones and zeros in no order does. The upper bits depend on all.
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

/// Longest first word of a query that is kept.
const OPERATION_BYTES_MAX: usize = 32;

/// Returns the bit of an attribute.
const fn bit(number: u8) -> u64 {
    1_u64.wrapping_shl(number as u32)
}

/// Names of the attributes to keep.
#[derive(Debug)]
pub(super) struct Keys {
    /// Names with their numbers, by their hash; few have the same. No sender adds any.
    names: [Vec<(Box<[u8]>, u8)>; PLACES],
    /// The bit of each attribute named by the configuration.
    pub(super) chosen: Vec<u64>,
    /// The `service.instance.id` of spans that this daemon pushes, which are refused here.
    pub(super) own_instance: Option<Arc<str>>,
    /// Makes hashes that nobody outside can know.
    pub(super) hasher: ahash::RandomState,
}

const PLACES: usize = 256;

impl Keys {
    pub(super) fn new(chosen: &[String], own_instance: Option<Arc<str>>) -> Self {
        let (names, hasher) = ([const { Vec::new() }; PLACES], ahash::RandomState::new());
        let mut keys = Self { names, chosen: Vec::new(), own_instance, hasher };
        for (number, (name, _)) in (0..Key::OtherDb.number()).zip(ATTRIBUTES) {
            keys.add(name.as_bytes(), number);
        }
        let chosen = (CHOSEN..).zip(chosen);
        keys.chosen = chosen.map(|(number, it)| bit(keys.add(it.as_bytes(), number))).collect();
        keys
    }

    /// Adds a name unless it is known; returns its number.
    fn add(&mut self, name: &[u8], number: u8) -> u8 {
        self.find(name).unwrap_or_else(|| {
            let place = self.names.get_mut(hash_of_ends(name) % PLACES);
            place.into_iter().for_each(|it| it.push((name.into(), number)));
            number
        })
    }

    /// Returns the number of a name if it is known.
    #[inline(always)]
    fn find(&self, name: &[u8]) -> Option<u8> {
        let alike = self.names.get(hash_of_ends(name) % PLACES)?;
        alike.iter().find(|(known, _)| is_same(known, name)).map(|(_, number)| *number)
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
    pub(super) fn has(self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.seen & key.bits() != 0)
    }

    /// Returns the facts, which are among these.
    pub(super) fn among<'a>(self, texts: &'a Texts<'a>) -> Facts<'a> {
        let own = texts.facts.get(self.start as usize..);
        let own = own.and_then(|it| it.get(..self.count as usize)).unwrap_or_default();
        Facts { seen: self.seen, own, texts }
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
    pub(super) fn get(self, key: Key) -> Option<&'a [u8]> {
        self.first_of(key.bits())
    }

    /// Returns the text of the first of the attributes with these bits.
    pub(super) fn first_of(self, bits: u64) -> Option<&'a [u8]> {
        let seen = self.seen & bits;
        if seen == 0 {
            return None;
        }
        let number = seen.trailing_zeros() as u8;
        let fact = self.own.iter().find(|it| it.number == number)?;
        Some(self.texts.text(*fact))
    }

    /// Returns the text of the first of these keys, as they are declared, that is present.
    pub(super) fn first(self, keys: &[Key]) -> Option<&'a [u8]> {
        self.first_of(keys.iter().fold(0, |bits, key| bits | key.bits()))
    }
}

/// Facts of many spans, and their texts: parts of a body, and behind them those that were derived
/// or copied. Facts are collected attribute by attribute.
#[derive(Debug, Default)]
pub(super) struct Texts<'b> {
    /// The body, whose parts most texts are.
    pub(super) sent: &'b [u8],
    more: Vec<u8>,
    facts: Vec<Fact>,
    /// Those being collected.
    pub(super) open: FactsAt,
    attributes: usize,
    /// Attributes beyond the limit, which were ignored; summed over all spans.
    pub(super) over_limit: u64,
}

impl Texts<'_> {
    fn text(&self, fact: Fact) -> &[u8] {
        let at = fact.at as usize;
        let from = match at.checked_sub(self.sent.len()) {
            None => self.sent.get(at..),
            Some(at) => self.more.get(at..),
        };
        from.and_then(|it| it.get(..fact.bytes.into())).unwrap_or_default()
    }

    /// Returns the size of facts and copied texts.
    pub(super) fn bytes(&self) -> usize {
        self.more.len().saturating_add(size_of_val(&*self.facts))
    }

    /// Copies facts with their texts.
    pub(super) fn copy(&mut self, from: FactsAt, texts: &Texts<'_>) -> FactsAt {
        let start = self.facts.len() as u32;
        for fact in from.among(texts).own {
            self.facts.push(Fact { at: self.more.len() as u32, ..*fact });
            self.more.extend_from_slice(texts.text(*fact));
        }
        FactsAt { start, ..from }
    }

    /// Makes room for copies of the facts of so many spans, usually enough.
    pub(super) fn reserve(&mut self, spans: usize) {
        self.facts.reserve(spans.saturating_mul(8));
        self.more.reserve(spans.saturating_mul(128));
    }

    /// Gives back memory that copies do not need.
    pub(super) fn shrink(&mut self) {
        self.facts.shrink_to_fit();
        self.more.shrink_to_fit();
    }

    /// Returns the collected facts and starts over.
    pub(super) fn take(&mut self) -> FactsAt {
        let end = self.facts.len() as u32;
        let facts = std::mem::replace(&mut self.open, FactsAt { start: end, ..FactsAt::default() });
        self.attributes = 0;
        FactsAt { count: end.saturating_sub(facts.start), ..facts }
    }

    /// Drops the facts that were taken last.
    pub(super) fn drop_last(&mut self, facts: FactsAt) {
        let mut dropped = self.facts.drain(facts.start as usize..);
        let derived = dropped.find_map(|it| (it.at as usize).checked_sub(self.sent.len()));
        drop(dropped);
        self.more.truncate(derived.unwrap_or(usize::MAX));
        self.open.start = facts.start;
    }

    /// Counts an attribute; returns its number if it is to be kept.
    #[inline(always)]
    pub(super) fn number(&mut self, keys: &Keys, name: &[u8]) -> Option<u8> {
        self.attributes = self.attributes.saturating_add(1);
        if self.attributes > SPAN_ATTRIBUTES_MAX {
            self.over_limit = self.over_limit.saturating_add(1);
            return None;
        }
        let number = keys.find(name);
        if number.is_none() && name.starts_with(b"db.") {
            self.add(Key::OtherDb.number(), b"db");
        }
        number
    }

    /// Adds the value of an attribute, of a query only its operation.
    #[inline(always)]
    pub(super) fn value(&mut self, keys: &Keys, number: u8, value: &[u8]) {
        match Key::QueryText.bits() & bit(number) {
            0 => self.add(number, value),
            _ => self.operation(keys, number, value.trim_ascii_start()),
        }
    }

    /// Adds the first word of a query, its operation, in upper case; unless that is known, and the
    /// configuration does not name the query.
    fn operation(&mut self, keys: &Keys, number: u8, query: &[u8]) {
        let is_chosen = keys.chosen.iter().any(|bit| bit & Key::QueryText.bits() != 0);
        if !self.open.has(&[Key::DbOperation]) || is_chosen {
            let is_letter = |it: &&u8| it.is_ascii_alphabetic() || **it == b'_';
            let bytes = query.iter().take(OPERATION_BYTES_MAX).take_while(is_letter).count();
            self.add(number, &query.get(..bytes).unwrap_or_default().to_ascii_uppercase());
        }
    }

    /// Adds a text, unless there is one already: one of the body by its place, another as a copy.
    #[inline(always)]
    pub(super) fn add(&mut self, number: u8, text: &[u8]) {
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
        if text.is_empty() || self.open.seen & bit(number) != 0 {
            return;
        }
        self.open.seen |= bit(number);
        let mut at = text.as_ptr().addr().wrapping_sub(self.sent.as_ptr().addr());
        if at >= self.sent.len() {
            at = self.sent.len().saturating_add(self.more.len());
            self.more.extend_from_slice(text);
        }
        let (bytes, at) = (text.len() as u16, at as u32);
        self.facts.push(Fact { number, bytes, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(writer: &mut Texts<'_>, keys: &Keys, name: &[u8], value: &[u8]) {
        if let Some(number) = writer.number(keys, name) {
            writer.value(keys, number, value);
        }
    }

    #[test]
    fn texts_are_found_again_and_the_first_of_a_name_counts() {
        let keys = Keys::new(&["tenant".to_owned(), "db.namespace".to_owned()], None);
        let sent = b"users/{id}";
        let mut writer = Texts { sent, ..Texts::default() };
        for (name, value) in [
            (&b"http.route"[..], &b""[..]),
            (b"http.route", sent),
            (b"http.route", b"another"),
            (b"http.status_code", b"500"),
            (b"http.response.status_code", b"404"),
            (b"db.query.text", b"\n select * from secret"),
            (b"db.namespace", b"shop"),
            (b"tenant", b"true"),
            (b"unknown", b"x"),
        ] {
            attribute(&mut writer, &keys, name, value);
        }
        let taken = writer.take();
        let facts = taken.among(&writer);
        assert_eq!(facts.get(Key::Route), Some(&b"users/{id}"[..]));
        assert_eq!(facts.get(Key::Status), Some(&b"404"[..]));
        assert_eq!(facts.get(Key::QueryText), Some(&b"SELECT"[..]));
        assert_eq!(facts.get(Key::OtherDb), None, "all of its kind are known");
        let [tenant, namespace] = keys.chosen[..] else { panic!() };
        assert_eq!(facts.first_of(tenant), Some(&b"true"[..]));
        assert_eq!(namespace, bit(Key::DbNamespace.number()));
        assert_eq!(writer.take().seen, 0);
        writer.drop_last(taken);
        assert_eq!(writer.bytes(), 0);
        assert_eq!(writer.take(), FactsAt::default());
    }

    #[test]
    fn long_values_are_cut_and_attributes_past_the_limit_are_counted() {
        let keys = Keys::new(&[], None);
        let mut writer = Texts::default();
        let long = vec![b'x'; 100_000];
        attribute(&mut writer, &keys, b"url.full", &long);
        for _ in 1..SPAN_ATTRIBUTES_MAX {
            attribute(&mut writer, &keys, b"nothing", b"");
        }
        assert_eq!(writer.over_limit, 0);
        for _ in 0..7 {
            attribute(&mut writer, &keys, b"http.route", b"x");
        }
        assert_eq!(writer.over_limit, 7);
        let taken = writer.take();
        let facts = taken.among(&writer);
        assert_eq!(facts.get(Key::Url).map(<[u8]>::len), Some(TEXT_BYTES_MAX));
        assert_eq!(facts.get(Key::Route), None);
    }
}
