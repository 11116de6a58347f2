//! Maps a request's span and the spans below it to a record.
//!
//! | of a request | from the first present of |
//! |---|---|
//! | hostname | `name` of the entry, `host.name`, `k8s.pod.name`, the sender's address |
//! | server name | `server.address`, `net.host.name`, `http.host`, the host of the URL, `service.name` |
//! | script name | `http.route`, else the span's name without a leading method; never the path |
//! | status | the response's; 500 if the span has status error, else 0 |
//!
//! A timer has the tags `group` (the system called), `server` and `operation`, and its start. CPU
//! and memory are unknown, which the record notes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::facts::{Facts, Key, Keys};
use super::span::{Kind, Resource, Span};
use crate::config::OtlpInput;
use crate::input::record::{
    DecodeCounts, Hasher, Interned, Numbers, RecordWriter, RejectReason, TextLimits,
};
use crate::input::rewrite::{Rewrite, TagOf, TextField};
use crate::limits::{SPAN_TIMERS_MAX, TIMER_TAGS_MAX};

/// Class of a span's operation. A span below another of its class measures the same work again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    Database = 1,
    Http = 2,
    Messaging = 4,
    Rpc = 8,
    /// None of the other classes.
    Other = 0,
}

impl Class {
    pub(super) fn of(facts: &Facts) -> Self {
        const DATABASE: [Key; 5] =
            [Key::DbSystem, Key::DbNamespace, Key::DbOperation, Key::QueryText, Key::OtherDb];
        match () {
            () if facts.has(&DATABASE) => Self::Database,
            () if facts.has(&[Key::MessagingSystem]) => Self::Messaging,
            () if facts.has(&[Key::RpcSystem]) => Self::Rpc,
            () if facts.has(&[Key::Method, Key::Status, Key::Url]) => Self::Http,
            () => Self::Other,
        }
    }
}

/// Tags of a timer, in this order; unknown ones are omitted.
const TIMER_TAGS: [&str; 3] = ["group", "server", "operation"];

type TimerTags<'a> = [Option<&'a [u8]>; 3];

fn timer_tags(span: &Span) -> TimerTags<'_> {
    let facts = &span.facts;
    let group = match (Class::of(facts), span.kind) {
        (Class::Database, _) => facts.get(Key::DbSystem).or(Some(&b"db"[..])),
        (Class::Messaging, _) => facts.get(Key::MessagingSystem),
        (Class::Rpc, _) => facts.get(Key::RpcSystem),
        (Class::Http, Kind::Client | Kind::Producer) => Some(&b"http"[..]),
        (_, Kind::Client | Kind::Producer) => Some(&b"client"[..]),
        (_, Kind::Internal | Kind::Server | Kind::Consumer) => Some(&b"internal"[..]),
    };
    let server = facts.first(&[Key::ServerAddress, Key::PeerAddress]);
    let server = server.or_else(|| Some(url(facts)?.1)).or_else(|| facts.get(Key::DbNamespace));
    let operation = facts.first(&[
        Key::DbOperation,
        Key::QueryText,
        Key::Method,
        Key::MessagingName,
        Key::MessagingType,
        Key::Name,
    ]);
    [group, server, operation]
}

/// Returns scheme and host of the URL.
fn url(facts: &Facts) -> Option<(&[u8], &[u8])> {
    let url = facts.get(Key::Url)?;
    let at = url.windows(3).position(|it| it == b"://")?;
    let (schema, rest) = url.split_at_checked(at)?;
    let rest = rest.get(3..)?;
    let end = rest.iter().position(|byte| b"/?#".contains(byte));
    let authority = rest.get(..end.unwrap_or(rest.len()))?;
    let host = authority.rsplit(|byte| *byte == b'@').next()?;
    let host = without_port(host);
    (!host.is_empty()).then_some((schema, host))
}

fn without_port(host: &[u8]) -> &[u8] {
    let colon = host.iter().rposition(|byte| *byte == b':');
    let is_port = |at: &usize| {
        let port = host.get(at.saturating_add(1)..).unwrap_or_default();
        port.iter().all(u8::is_ascii_digit)
    };
    host.get(..colon.filter(is_port).unwrap_or(host.len())).unwrap_or(host)
}

/// Methods with which span names begin; `HTTP` stands for an unknown one.
const METHODS: [&[u8]; 10] = [
    b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"PATCH", b"OPTIONS", b"CONNECT", b"TRACE",
    b"HTTP",
];

fn script_name(facts: &Facts) -> &[u8] {
    let without_method = |name| {
        let methods = METHODS.iter();
        let mut rests =
            methods.filter_map(|method| <[u8]>::strip_prefix(name, *method)?.strip_prefix(b" "));
        rests.next().unwrap_or(name)
    };
    let name = || facts.get(Key::Name).map(without_method);
    facts.get(Key::Route).or_else(name).unwrap_or_default()
}

fn number(facts: &Facts, key: Key) -> Option<u32> {
    let text = std::str::from_utf8(facts.get(key)?).ok()?;
    let number: u64 = text.trim().parse().ok()?;
    Some(u32::try_from(number).unwrap_or(u32::MAX))
}

fn status(span: &Span) -> u32 {
    let sent = number(&span.facts, Key::Status);
    sent.unwrap_or(if span.is_error { 500 } else { 0 })
}

/// Returns the seconds from `start` to `end`; negative if they are reversed, which is corrected
/// later.
fn seconds(start: u64, end: u64) -> f32 {
    let ns = i128::from(end).saturating_sub(start.into());
    (ns as f64 / 1e9) as f32
}

/// Number of timers in a record, and of spans merged into existing ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Timers {
    pub(super) rows: u64,
    pub(super) merged: u64,
}

/// Rules for names.
type Rules = dyn Rewrite + Send;

/// Writes the records of an input.
#[derive(Debug)]
pub(super) struct RequestWriter {
    pub(super) config: Arc<OtlpInput>,
    pub(super) keys: Arc<Keys>,
    pub(super) hasher: Hasher,
    record: RecordWriter,
    rules: Box<Rules>,
}

impl RequestWriter {
    /// Size of the buffers for the memory plan, bytes.
    pub(super) const BYTES: usize = RecordWriter::BYTES;

    pub(super) fn new(
        (config, keys): (&Arc<OtlpInput>, &Arc<Keys>),
        limits: TextLimits,
        hasher: Hasher,
        rules: Box<Rules>,
    ) -> Self {
        Self {
            config: Arc::clone(config),
            keys: Arc::clone(keys),
            record: RecordWriter::new(limits, hasher.clone()),
            hasher,
            rules,
        }
    }

    pub(super) fn publish_counts(&mut self) {
        self.rules.publish_counts();
    }

    /// Prepares the record of the request `root` with these timers. Returns its timers and its
    /// length in bytes.
    pub(super) fn write(
        &mut self,
        (resource, sender): (&Resource, IpAddr),
        root: &Span,
        timers: &mut [&Span],
        received_secs: u32,
    ) -> Result<(Timers, usize), RejectReason> {
        let (record, rules, facts) = (&mut self.record, &mut *self.rules, &root.facts);
        let of_resource = &resource.facts;
        record.begin();
        let hostname = self.config.name.as_deref().map(str::as_bytes);
        let hostname = match hostname.or_else(|| of_resource.get(Key::HostName)) {
            Some(hostname) => Cow::Borrowed(hostname),
            None => Cow::Owned(sender.to_canonical().to_string().into_bytes()),
        };
        let server_name = facts
            .first(&[Key::ServerAddress, Key::OldHostName])
            .or_else(|| facts.get(Key::HttpHost).map(without_port))
            .or_else(|| Some(url(facts)?.1))
            .or_else(|| of_resource.get(Key::ServiceName));
        let schema = facts.get(Key::Scheme);
        let schema = schema.or_else(|| Some(url(facts)?.0));
        let server_name = server_name.unwrap_or_default();
        record.text(TextField::Hostname, Some(&hostname), rules);
        record.text(TextField::ServerName, Some(server_name), rules);
        record.text(TextField::ScriptName, Some(script_name(facts)), rules);
        record.text(TextField::Schema, schema, rules);
        let status = status(root);
        record.end_texts(status);

        let exception = facts.first(&[Key::EventException, Key::ExceptionType]);
        let usual = [
            (Key::ServiceName, of_resource),
            (Key::ServiceNamespace, of_resource),
            (Key::ServiceVersion, of_resource),
            (Key::Environment, of_resource),
            (Key::Method, facts),
            (Key::Destination, facts),
        ];
        let usual = usual.map(|(key, facts)| (key, facts.get(key)));
        let exception = exception.filter(|_| root.is_error);
        let usual = || usual.into_iter().chain([(Key::ExceptionType, exception)]);
        let is_usual = |name: &str| usual().any(|(key, _)| key.name() == name);
        let chosen = self.keys.chosen().filter(|(name, _)| !is_usual(name));
        let chosen = chosen.map(|(name, key)| {
            let value = facts.numbered(key);
            (name, value.or_else(|| of_resource.numbered(key)))
        });
        let named = usual().map(|(key, value)| (key.name(), value));
        record.request_tags(rules, named.chain(chosen));
        let written = write_timers(record, rules, root, timers);
        let numbers = Numbers {
            request_count: 1,
            document_size: number(facts, Key::BodySize).unwrap_or(0),
            status,
            request_time: seconds(root.start, root.end),
            ..Numbers::default()
        };
        let bytes = record.finish(&numbers, received_secs)?;
        record.is_span();
        Ok((written, bytes))
    }

    /// Appends the prepared record to `room`.
    pub(super) fn finish(&self, room: &mut Vec<u8>, counts: &mut DecodeCounts) {
        self.record.write(room);
        for (counter, repaired) in counts.repaired.iter_mut().zip(self.record.repaired()) {
            *counter = counter.saturating_add(*repaired);
        }
    }
}

/// Writes the timers in the order of their start, each clipped to the request.
fn write_timers(
    record: &mut RecordWriter,
    rules: &mut Rules,
    root: &Span,
    timers: &mut [&Span],
) -> Timers {
    timers.sort_by_key(|span| span.start);
    let time = |span: &Span| match span.start <= span.end {
        true => {
            let (start, end) = (span.start.max(root.start), span.end.min(root.end));
            seconds(start, end.max(start))
        }
        false => seconds(span.start, span.end),
    };
    let (single, rest) = timers.split_at(timers.len().min(SPAN_TIMERS_MAX));
    let after = |span: &Span| seconds(root.start, span.start.max(root.start));
    let mut merged: BTreeMap<TimerTags<'_>, (u32, f64, f32)> = BTreeMap::new();
    for span in rest {
        let first = || (0, 0.0, after(span));
        let (hits, total, _) = merged.entry(timer_tags(span)).or_insert_with(first);
        *hits = hits.saturating_add(1);
        *total += f64::from(time(span).max(0.0));
    }
    let single = single.iter();
    let single = single.map(|span| (timer_tags(span), 1, time(span), after(span)));
    let merged = merged.into_iter();
    let merged = merged.map(|(tags, (hits, total, after))| (tags, hits, total as f32, after));
    let mut strings = TimerStrings::default();
    let mut rows = 0_u64;
    for (tags, hits, total, after) in single.chain(merged) {
        let timer = record.begin_timer(hits, total, 0.0, 0.0);
        record.timer_is_span(timer, after);
        let mut set = record.tag_set(TIMER_TAGS_MAX);
        for (at, text) in tags.into_iter().enumerate() {
            if let Some(text) = text {
                let (name, value) = strings.get(record, rules, at, text);
                record.tag(&mut set, name, value);
            }
        }
        record.end_timer(timer, &set);
        rows = rows.saturating_add(1);
    }
    Timers { rows, merged: (timers.len() as u64).saturating_sub(rows) }
}

/// Strings of timer tags; most timers share a few groups and servers.
#[derive(Default)]
struct TimerStrings<'a> {
    names: [Option<Interned>; 3],
    last: [Option<(&'a [u8], Interned)>; 3],
}

impl<'a> TimerStrings<'a> {
    fn get(
        &mut self,
        record: &mut RecordWriter,
        rules: &mut Rules,
        at: usize,
        text: &'a [u8],
    ) -> (Interned, Interned) {
        let name = TIMER_TAGS.get(at).map_or(&b""[..], |name| name.as_bytes());
        let known = self.names.get(at).copied().flatten();
        let string = known.unwrap_or_else(|| record.string(name));
        let value = match self.last.get(at).copied().flatten() {
            Some((last, value)) if last == text => value,
            _ => record.tag_value(rules, (TagOf::Timer, name), text),
        };
        if let (Some(names), Some(last)) = (self.names.get_mut(at), self.last.get_mut(at)) {
            *names = Some(string);
            *last = Some((text, value));
        }
        (string, value)
    }
}
