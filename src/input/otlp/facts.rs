//! Attributes kept of a span or a resource: only the texts that the mapping uses.
//!
//! An attribute is recognized by its name while decoding; its value is converted to a text of at
//! most [`TEXT_BYTES_MAX`] bytes. Lists, maps and bytes are skipped, and an empty text counts as
//! absent. So the memory of a span is proportional to its useful content, however many attributes
//! it has.

use std::fmt::Write as _;

use hashbrown::HashMap;

use crate::input::record::{Hasher, TagSetHasher, counted};
use crate::limits::{SPAN_ATTRIBUTES_MAX, SPAN_TAGS_MAX, TEXT_BYTES_MAX};

counted! {
    /// Attributes used, by their names in the semantic conventions, current and former. The last
    /// three are derived, not attributes of their own.
    Key {
        HostName = "host.name",
        PodName = "k8s.pod.name",
        ServiceName = "service.name",
        ServiceNamespace = "service.namespace",
        ServiceVersion = "service.version",
        Environment = "deployment.environment.name",
        OldEnvironment = "deployment.environment",
        Language = "telemetry.sdk.language",
        Route = "http.route",
        Method = "http.request.method",
        OldMethod = "http.method",
        Status = "http.response.status_code",
        OldStatus = "http.status_code",
        BodySize = "http.response.body.size",
        OldBodySize = "http.response_content_length",
        HttpHost = "http.host",
        Scheme = "url.scheme",
        OldScheme = "http.scheme",
        Url = "url.full",
        OldUrl = "http.url",
        ServerAddress = "server.address",
        OldHostName = "net.host.name",
        OldPeerName = "net.peer.name",
        PeerAddress = "network.peer.address",
        OldPeerAddress = "net.sock.peer.addr",
        DbSystem = "db.system.name",
        OldDbSystem = "db.system",
        DbNamespace = "db.namespace",
        OldDbName = "db.name",
        DbOperation = "db.operation.name",
        OldDbOperation = "db.operation",
        QueryText = "db.query.text",
        OldStatement = "db.statement",
        MessagingSystem = "messaging.system",
        Destination = "messaging.destination.name",
        OldDestination = "messaging.destination",
        MessagingName = "messaging.operation.name",
        MessagingType = "messaging.operation.type",
        OldMessaging = "messaging.operation",
        RpcSystem = "rpc.system",
        ExceptionType = "exception.type",
        ErrorType = "error.type",
        OtherDb = "db.",
        EventException = "event exception.type",
        Name = "name",
    }
}

/// Number of the first attribute named by the configuration.
const CHOSEN: usize = Key::COUNT;

// Each of them has a bit in a `u64`.
const _: () = assert!(CHOSEN + SPAN_TAGS_MAX <= 64);

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
    by_name: HashMap<Vec<u8>, u8, ahash::RandomState>,
    /// Attributes named by the configuration, with their numbers.
    chosen: Vec<(String, u8)>,
}

impl Keys {
    pub(super) fn new(chosen: &[String]) -> Self {
        let attributes = Key::ALL.into_iter().take_while(|key| *key != Key::OtherDb);
        let known = attributes.map(|key| (key.name().as_bytes().to_vec(), key as u8));
        let mut by_name: HashMap<Vec<u8>, u8, _> = known.collect();
        let chosen = (CHOSEN as u8..).zip(chosen).map(|(number, name)| {
            let number = *by_name.entry(name.as_bytes().to_vec()).or_insert(number);
            (name.clone(), number)
        });
        Self {
            chosen: chosen.collect(),
            by_name,
        }
    }

    /// Returns the attributes named by the configuration, with their numbers.
    pub(super) fn chosen(&self) -> impl Iterator<Item = (&str, u8)> {
        self.chosen.iter().map(|(name, key)| (&**name, *key))
    }
}

/// Returns the bit of a key.
const fn bit(key: u8) -> u64 {
    1_u64.wrapping_shl(key as u32)
}

/// Texts by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// One bit for each key present.
    seen: u64,
    /// Repeated: key, length (two bytes), text.
    packed: Box<[u8]>,
}

impl Facts {
    /// Returns the text of a key; it is never empty.
    pub(super) fn get(&self, key: Key) -> Option<&[u8]> {
        self.numbered(key as u8)
    }

    /// Returns the text of a key by the key's number.
    pub(super) fn numbered(&self, key: u8) -> Option<&[u8]> {
        if self.seen & bit(key) == 0 {
            return None;
        }
        let mut rest = &*self.packed;
        while let Some(([found, low, high], after)) = rest.split_first_chunk() {
            let length = u16::from_le_bytes([*low, *high]);
            let (text, after) = after.split_at_checked(length.into())?;
            if *found == key {
                return Some(text);
            }
            rest = after;
        }
        None
    }

    /// Returns the text of the first of these keys that is present.
    pub(super) fn first(&self, keys: &[Key]) -> Option<&[u8]> {
        keys.iter().find_map(|key| self.get(*key))
    }

    /// Returns true if any of these keys is present.
    pub(super) fn has(&self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.seen & bit(*key as u8) != 0)
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.packed.len()
    }
}

/// Collects facts attribute by attribute; its buffer is reused.
#[derive(Debug, Default)]
pub(super) struct FactsWriter {
    seen: u64,
    packed: Vec<u8>,
    number: String,
    attributes: usize,
    /// Attributes beyond the limit, which were ignored; summed over all spans.
    pub(super) over_limit: u64,
}

impl FactsWriter {
    /// Returns the collected facts and starts over.
    pub(super) fn take(&mut self) -> Facts {
        let facts = Facts {
            seen: std::mem::take(&mut self.seen),
            packed: self.packed.as_slice().into(),
        };
        self.packed.clear();
        self.attributes = 0;
        facts
    }

    /// Counts an attribute; returns true if it is within the limit.
    pub(super) fn has_room(&mut self) -> bool {
        self.attributes = self.attributes.saturating_add(1);
        let has_room = self.attributes <= SPAN_ATTRIBUTES_MAX;
        self.over_limit = self.over_limit.saturating_add((!has_room).into());
        has_room
    }

    /// Returns the key of an attribute that is to be kept.
    pub(super) fn wanted(&mut self, keys: &Keys, name: &[u8]) -> Option<u8> {
        let known = keys.by_name.get(name).copied();
        if known.is_none() && name.starts_with(b"db.") {
            self.text(Key::OtherDb as u8, b"db");
        }
        known.filter(|key| self.seen & bit(*key) == 0)
    }

    /// Adds the value of a key.
    pub(super) fn value(&mut self, key: u8, value: Value<'_>) {
        let mut shown = std::mem::take(&mut self.number);
        shown.clear();
        let _infallible = match value {
            Value::Text(text) if key == Key::QueryText as u8 || key == Key::OldStatement as u8 => {
                self.text(key, &first_word(text));
                Ok(())
            }
            Value::Text(text) => {
                self.text(key, text);
                Ok(())
            }
            Value::Whole(number) => write!(shown, "{number}"),
            Value::Float(number) => write!(shown, "{number}"),
            Value::Truth(truth) => write!(shown, "{truth}"),
            Value::Other => Ok(()),
        };
        self.text(key, shown.as_bytes());
        self.number = shown;
    }

    /// Adds a text, unless the key has one already.
    pub(super) fn text(&mut self, key: u8, text: &[u8]) {
        let text = text.get(..TEXT_BYTES_MAX).unwrap_or(text);
        let Ok(length) = u16::try_from(text.len()) else {
            return;
        };
        if length == 0 || self.seen & bit(key) != 0 {
            return;
        }
        self.seen |= bit(key);
        self.packed.push(key);
        self.packed.extend_from_slice(&length.to_le_bytes());
        self.packed.extend_from_slice(text);
    }
}

/// Hash of a resource over all of its attributes, in order.
pub(super) struct ResourceHash {
    hasher: Hasher,
    set: TagSetHasher,
}

impl ResourceHash {
    pub(super) fn new(hasher: &Hasher) -> Self {
        Self {
            hasher: hasher.clone(),
            set: hasher.tag_set(),
        }
    }

    pub(super) fn add(&mut self, name: &[u8], value: Value<'_>) {
        let value = match value {
            Value::Text(text) => self.hasher.hash_bytes(text),
            Value::Whole(number) => self.hasher.hash_bytes(&number.to_le_bytes()),
            Value::Float(number) => self.hasher.hash_bytes(&number.to_le_bytes()),
            Value::Truth(truth) => truth.into(),
            Value::Other => 0,
        };
        self.set.add(self.hasher.hash_bytes(name), value);
    }

    pub(super) fn finish(&self) -> u64 {
        self.set.finish()
    }
}

/// Returns the first word of a query, its operation, in upper case.
fn first_word(text: &[u8]) -> Vec<u8> {
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
    let from = text.trim_ascii_start();
    let words = from.iter().copied().take_while(is_letter);
    words
        .take(32)
        .map(|byte| byte.to_ascii_uppercase())
        .collect()
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
            (b"http.response.status_code", Value::Whole(404)),
            (b"db.query.text", Value::Text(b"\n select * from secret")),
            (b"db.namespace", Value::Text(b"shop")),
            (b"tenant", Value::Truth(true)),
            (b"unknown", Value::Text(b"x")),
        ] {
            if let Some(key) = writer.wanted(&keys, name) {
                writer.value(key, value);
            }
        }
        let facts = writer.take();
        assert_eq!(facts.get(Key::Route), Some(&b"users/{id}"[..]));
        assert_eq!(
            facts.first(&[Key::OldStatus, Key::Status]),
            Some(&b"404"[..])
        );
        assert_eq!(facts.get(Key::QueryText), Some(&b"SELECT"[..]));
        assert_eq!(facts.get(Key::OtherDb), None, "all of its kind are known");
        let chosen: Vec<_> = keys.chosen().collect();
        let [(tenant, at), (namespace, known)] = chosen[..] else {
            panic!()
        };
        assert_eq!((tenant, facts.numbered(at)), ("tenant", Some(&b"true"[..])));
        assert_eq!((namespace, known), ("db.namespace", Key::DbNamespace as u8));
        assert_eq!(writer.take(), Facts::default());
    }

    #[test]
    fn long_values_are_cut_and_attributes_past_the_limit_are_counted() {
        let keys = Keys::new(&[]);
        let mut writer = FactsWriter::default();
        let key = writer.wanted(&keys, b"url.full").unwrap();
        writer.value(key, Value::Text(&vec![b'x'; 100_000]));
        let looked_at = (0..SPAN_ATTRIBUTES_MAX + 7).filter(|_| writer.has_room());
        assert_eq!(looked_at.count(), SPAN_ATTRIBUTES_MAX);
        assert_eq!(writer.over_limit, 7);
        let facts = writer.take();
        assert_eq!(facts.get(Key::Url).map(<[u8]>::len), Some(TEXT_BYTES_MAX));
    }
}
