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

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attributes::{Facts, FactsAt, Key, Keys, Texts, hash_of_ends};
use super::span::Span;
use crate::config::OtlpInput;
use crate::input::Lane;
use crate::input::record::{
    DecodeCounts, Interned, Numbers, RecordSink, RecordWriter, RejectReason, is_same,
};
use crate::input::rewrite::{NameRules, Rewrite as _, TagOf, TextField};
use crate::input::url::{UrlParts, url_parts};
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
    pub(super) fn of(facts: FactsAt) -> Self {
        use Key::{DbNamespace, DbOperation, DbSystem, OtherDb, QueryText};
        match facts {
            _ if facts.has(&[DbSystem, DbNamespace, DbOperation, QueryText, OtherDb]) => {
                Self::Database
            }
            _ if facts.has(&[Key::MessagingSystem]) => Self::Messaging,
            _ if facts.has(&[Key::RpcSystem]) => Self::Rpc,
            _ if facts.has(&[Key::Method, Key::Status, Key::Url]) => Self::Http,
            _ => Self::Other,
        }
    }
}

/// Tags of a timer, in this order; unknown ones are omitted.
const TIMER_TAGS: [&str; 3] = ["group", "server", "operation"];

type TimerTags<'a> = [Option<&'a [u8]>; 3];

fn timer_tags<'a>(span: &Span, texts: &'a Texts<'a>) -> TimerTags<'a> {
    let facts = span.facts.among(texts);
    let group = match Class::of(span.facts) {
        Class::Database => facts.get(Key::DbSystem).or(Some(&b"db"[..])),
        Class::Messaging => facts.get(Key::MessagingSystem),
        Class::Rpc => facts.get(Key::RpcSystem),
        Class::Http | Class::Other if !span.kind.asks() => Some(&b"internal"[..]),
        Class::Http => Some(&b"http"[..]),
        Class::Other => Some(&b"client"[..]),
    };
    let server = facts.first(&[Key::ServerAddress, Key::PeerAddress]);
    let server = server.or_else(|| Some(url(facts)?.host)).or_else(|| facts.get(Key::DbNamespace));
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

/// Returns the parts of the URL, if it has a host.
fn url(facts: Facts<'_>) -> Option<UrlParts<'_>> {
    let parts = url_parts(facts.get(Key::Url)?, false);
    Some(parts).filter(|it| !it.host.is_empty())
}

/// Methods with which span names begin; `HTTP` stands for an unknown one.
const METHODS: [&str; 10] = [
    "GET ", "POST ", "PUT ", "DELETE ", "HEAD ", "PATCH ", "OPTIONS ", "CONNECT ", "TRACE ",
    "HTTP ",
];

fn script_name(facts: Facts<'_>) -> &[u8] {
    let name = facts.get(Key::Name).unwrap_or_default();
    let without_method = METHODS.iter().find_map(|method| name.strip_prefix(method.as_bytes()));
    facts.get(Key::Route).or(without_method).unwrap_or(name)
}

fn number(facts: Facts<'_>, key: Key) -> Option<u32> {
    let digits = facts.get(key)?.trim_ascii().iter().map(|it| char::from(*it).to_digit(10));
    digits.reduce(|all, digit| Some(all?.saturating_mul(10).saturating_add(digit?)))?
}

/// Returns the seconds from `start` to `end`; negative if they are reversed, which is corrected
/// later.
fn seconds(start: u64, end: u64) -> f32 {
    // Both are below 2^63.
    (end.wrapping_sub(start).cast_signed() as f64 / 1e9) as f32
}

/// Some instrumentations put the `Host` header into the name. An IPv6 address without brackets has
/// no port.
fn without_port(name: &[u8]) -> &[u8] {
    let colons = name.iter().filter(|byte| **byte == b':').count();
    let may_have_one = name.first() == Some(&b'[') || colons == 1;
    if may_have_one { url_parts(name, true).host } else { name }
}

/// Writes the records of an input.
#[derive(Debug)]
pub(super) struct RequestWriter {
    pub(super) config: Arc<OtlpInput>,
    pub(super) keys: Arc<Keys>,
    pub(super) record: RecordWriter,
    pub(super) rules: NameRules,
    pub(super) lane: Lane,
    /// Not yet published: an atomic addition for each request would wait for the cache misses of
    /// the one before.
    pub(super) counts: DecodeCounts,
}

impl RequestWriter {
    /// Writes the record of the request `root` with these spans as timers, which it puts in the
    /// order of their start. `texts` has those of all. Returns the number of its timers; `None` if
    /// it is too large.
    pub(super) fn write(
        &mut self,
        resource: FactsAt,
        texts: &Texts<'_>,
        root: &Span,
        timers: &mut [&Span],
        received_secs: u32,
    ) -> Option<u64> {
        self.counts.requests_decoded = self.counts.requests_decoded.saturating_add(1);
        let (record, rules) = (&mut self.record, &mut self.rules);
        let [of_resource, facts] = [resource, root.facts].map(|it| it.among(texts));
        record.begin();
        let hostname = self.config.name.as_deref().map(str::as_bytes);
        let hostname = hostname.or_else(|| of_resource.first(&[Key::HostName, Key::Sender]));
        let server_name = facts
            .get(Key::ServerAddress)
            .or_else(|| Some(without_port(facts.get(Key::OldHostName)?)))
            .or_else(|| Some(url(facts)?.host))
            .or_else(|| of_resource.get(Key::ServiceName));
        let schema = facts.get(Key::Scheme).or_else(|| url(facts)?.schema);
        record.text(TextField::Hostname, Some(hostname.unwrap_or_default()), rules);
        record.text(TextField::ServerName, Some(server_name.unwrap_or_default()), rules);
        record.text(TextField::ScriptName, Some(script_name(facts)), rules);
        record.text(TextField::Schema, schema, rules);
        let status = number(facts, Key::Status).unwrap_or(if root.is_error { 500 } else { 0 });
        record.end_texts(status);

        let exception = facts.get(Key::EventException).or_else(|| facts.get(Key::ExceptionType));
        let usual = [
            (Key::ServiceName, of_resource.get(Key::ServiceName)),
            (Key::ServiceNamespace, of_resource.get(Key::ServiceNamespace)),
            (Key::ServiceVersion, of_resource.get(Key::ServiceVersion)),
            (Key::Environment, of_resource.get(Key::Environment)),
            (Key::Method, facts.get(Key::Method)),
            (Key::Destination, facts.get(Key::Destination)),
            (Key::ExceptionType, exception.filter(|_| root.is_error)),
        ];
        let usual = usual.map(|(key, value)| (key.name(), value));
        let chosen = self.config.attributes.iter().map(String::as_str).zip(&self.keys.chosen);
        let chosen = chosen.filter(|(name, _)| usual.iter().all(|it| it.0 != *name));
        let chosen = chosen
            .map(|(name, bit)| (name, facts.first_of(*bit).or_else(|| of_resource.first_of(*bit))));
        record.request_tags(rules, usual.into_iter().chain(chosen));
        let rows = write_timers(record, rules, (root, texts), timers);
        let numbers = Numbers {
            request_count: 1,
            document_size: number(facts, Key::BodySize).unwrap_or(0),
            status,
            request_time: seconds(root.start, root.end),
            ..Numbers::default()
        };
        let bytes = record.finish(&numbers, received_secs);
        let Some(to) = bytes.ok().and_then(|bytes| self.lane.producer.reserve(bytes)) else {
            self.counts.reject_request(RejectReason::TooLarge);
            return None;
        };
        record.is_unmeasured();
        record.write(to);
        self.counts.add_repaired(record.repaired());
        Some(rows)
    }

    /// Hands over the records; returns their number.
    pub(super) fn publish(&mut self) -> u64 {
        let counts = std::mem::take(&mut self.counts);
        self.rules.publish_counts();
        self.lane.counters.add_decoded(&counts);
        self.lane.producer.publish();
        counts.requests_decoded.saturating_sub(counts.requests_invalid.iter().sum())
    }
}

/// Number of values of a tag that are found again.
const KNOWN: usize = 16;

/// Writes the timers in the order of their start, each clipped to the request; those past
/// [`SPAN_TIMERS_MAX`] are added up by their tags. Returns their number then.
fn write_timers(
    record: &mut RecordWriter,
    rules: &mut NameRules,
    (root, texts): (&Span, &Texts<'_>),
    timers: &mut [&Span],
) -> u64 {
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
        let (hits, total, _) = merged.entry(timer_tags(span, texts)).or_insert_with(first);
        *hits = hits.saturating_add(1);
        *total += f64::from(time(span).max(0.0));
    }
    let single = single.iter().map(|it| (timer_tags(it, texts), 1, time(it), after(it)));
    let merged = merged.into_iter();
    let merged = merged.map(|(tags, (hits, total, after))| (tags, hits, total as f32, after));
    // Of each tag its name once one has it, and the last values by a hash: most timers share a few.
    let nothing_known: [Option<(&[u8], Interned)>; KNOWN] = [None; _];
    let mut columns = TIMER_TAGS.map(|tag| (tag.as_bytes(), None, nothing_known));
    let rows = single.len().saturating_add(merged.len());
    for (tags, hits, total, after) in single.chain(merged) {
        let timer = record.begin_timer(hits, total, 0.0, 0.0);
        record.timer_is_span(timer, after);
        let mut set = record.tag_set(TIMER_TAGS_MAX);
        for ((tag, name, known), text) in columns.iter_mut().zip(tags) {
            let Some(text) = text else { continue };
            let name = *name.get_or_insert_with(|| record.string(tag));
            let place = known.get_mut(hash_of_ends(text) % KNOWN);
            let value = match place {
                Some(Some((known, value))) if is_same(known, text) => *value,
                place => {
                    let value = record.tag_value(rules, (TagOf::Timer, tag), text);
                    *(place.unwrap_or(&mut None)) = Some((text, value));
                    value
                }
            };
            record.tag(&mut set, name, value);
        }
        record.end_timer(timer, &set);
    }
    rows as u64
}
