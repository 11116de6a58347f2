//! Bodies of the reference messages in both encodings, the requests made of traces with a
//! hand-moved clock, and a naive join.

mod decoding;
mod joining;
mod mapping;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::{BodyRefusal, Form, Joiner, Lane, LeftOut, OtlpCounters, Source, SpanRefusal};
use crate::clock::ManualClock;
use crate::config::{Config, OtlpInput};
use crate::input::record::{Hasher, Record, TextLimits};
use crate::input::rewrite::NameRules;
use crate::ring::{Consumer, RingPlan, TempRing};
use crate::telemetry::Counters;

/// Present time, nanoseconds since 1970.
const NOW_NS: u64 = 1_700_000_000_000_000_000;

const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));

fn config(more: &str) -> OtlpInput {
    let text = format!("[[otlp_input]]\nlisten = '127.0.0.1:0'\n{more}");
    let config = Config::from_toml("pinbad.toml", &text).unwrap();
    config.otlp_inputs[0].clone()
}

/// An input without the network.
struct World {
    source: Arc<Source>,
    counters: Arc<OtlpCounters>,
    sockets: Counters,
    clock: Arc<ManualClock>,
    consumer: Consumer,
    records: Vec<u8>,
}

/// A request as decoded from its record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    host: String,
    server: String,
    script: String,
    schema: Option<String>,
    status: u32,
    bytes: u32,
    time_us: u64,
    tags: String,
    /// Tags, hits, microseconds.
    timers: Vec<(String, u32, u64)>,
}

impl World {
    fn new(more: &str) -> Self {
        let source = Source::new(config(more), Some("own".into()));
        let sockets = Counters::new(1);
        let (_, mut producers, consumer) =
            TempRing::new(RingPlan::new(10_000, 16 << 20, 1), &sockets.sockets);
        let clock = Arc::new(ManualClock::new(NOW_NS / 1_000_000));
        let lane = Lane {
            producer: producers.remove(0),
            counters: Arc::clone(&sockets.sockets[0]),
            clock: Arc::<ManualClock>::clone(&clock),
        };
        let hasher = Hasher::with_seed(5);
        let rules = NameRules::new(&[], hasher.clone(), Arc::default());
        source.begin(lane, (TextLimits::default(), hasher), rules);
        let counters = Arc::clone(&source.counters);
        Self { source, counters, sockets, clock, consumer, records: Vec::new() }
    }

    fn with(&mut self, work: impl FnOnce(&mut Joiner)) {
        work(self.source.joiner.lock().as_mut().unwrap());
        self.assert_accounted();
    }

    fn take_bytes(&mut self, body: &[u8]) -> Result<u64, BodyRefusal> {
        let form = if body.first() == Some(&b'{') { Form::Json } else { Form::Protobuf };
        let taken = self.source.take(body, form, SENDER);
        self.assert_accounted();
        let refused = taken.map_err(|(reason, _)| reason)?;
        Ok(refused.map_or(0, |it| it.rejected.cast_unsigned()))
    }

    /// Takes spans of one resource with these attributes.
    fn take(&mut self, resource: Json, spans: Json) {
        let body = body(resource, spans).to_string();
        assert_eq!(self.take_bytes(body.as_bytes()), Ok(0));
    }

    fn pass(&mut self, ms: u64) {
        self.clock.advance_ms(ms);
        self.clock.set_unix_ms(NOW_NS / 1_000_000);
        self.with(Joiner::advance);
    }

    fn finish(&mut self) {
        self.with(Joiner::finish);
        let shown = self.requests();
        assert_eq!(shown.len() as u64, self.counters.requests.get());
        let timers: usize = shown.iter().map(|it| it.timers.len()).sum();
        assert_eq!(timers as u64, self.counters.timers.get());
        assert_eq!(self.counters.spans_waiting.get(), 0);
        assert_eq!(self.counters.waiting_bytes.get(), 0);
        assert_eq!(self.counters.traces_waiting.get(), 0);
    }

    fn left_out(&self, reason: LeftOut) -> u64 {
        self.counters.spans_left_out.get()[reason as usize]
    }

    fn refused(&self, reason: SpanRefusal) -> u64 {
        self.counters.spans_refused.get()[reason as usize]
    }

    #[track_caller]
    fn assert_accounted(&self) {
        let counters = &self.counters;
        let known = counters.requests.get()
            + counters.timers.get()
            + counters.spans_merged.get()
            + counters.spans_left_out.total()
            + counters.spans_refused.total()
            + counters.spans_waiting.get();
        assert_eq!(counters.spans_received.get(), known, "{counters:?}");
    }

    /// The requests so far.
    fn requests(&mut self) -> Vec<Shown> {
        while let Some(block) = self.consumer.pop() {
            self.records.extend(&block.bytes);
            self.consumer.give_back(block);
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut rest = &self.records[..];
        let records = std::iter::from_fn(|| Record::next(&mut rest));
        let shown = records.map(|record| {
            let us = crate::input::record::micros;
            let tags = |set: crate::input::record::TagSet<'_>| {
                let pairs = set.iter().map(|(name, value)| {
                    let [name, value] = [name, value].map(|it| text(record.string(it)));
                    format!("{name}={value}")
                });
                pairs.collect::<Vec<_>>().join(",")
            };
            assert_eq!((record.ru_utime(), record.ru_stime()), (0.0, 0.0));
            Shown {
                host: text(record.hostname()),
                server: text(record.server_name()),
                script: text(record.script_name()),
                schema: record.schema().map(text),
                status: record.status(),
                bytes: record.document_size(),
                time_us: us(record.request_time()),
                tags: tags(record.request_tags()),
                timers: record
                    .timers()
                    .map(|timer| (tags(timer.tags), timer.hit_count, us(timer.value)))
                    .collect(),
            }
        });
        shown.collect()
    }
}

/// Converts `{"a": "b"}` to a list of attributes, numbers in strings included.
fn attributes(of: &Json) -> Json {
    let pairs = of.as_object().unwrap().iter().map(|(key, value)| {
        let value = match value {
            Json::String(_) => json!({ "stringValue": value }),
            Json::Bool(_) => json!({ "boolValue": value }),
            Json::Number(number) if number.is_f64() => json!({ "doubleValue": value }),
            Json::Number(number) => json!({ "intValue": number.to_string() }),
            Json::Array(_) => json!({"arrayValue": {"values": [{"stringValue": "x"}]}}),
            _ => json!({}),
        };
        json!({"key": key, "value": value})
    });
    pairs.collect()
}

fn body(resource: Json, spans: Json) -> Json {
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&resource)},
        "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}],
    }]})
}

/// A span of the trace `trace` that begins `from` microseconds after a moment one second ago and
/// takes `us` microseconds.
fn span(trace: u64, (id, parent): (u64, u64), kind: u8, (from, us): (u64, u64), of: Json) -> Json {
    let start = NOW_NS - 1_000_000_000 + from * 1000;
    let mut span = json!({
        "traceId": format!("{trace:032x}"),
        "spanId": format!("{id:016X}"),
        "kind": kind,
        "name": of.get("name").cloned().unwrap_or(json!("")),
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": (start + us * 1000).to_string(),
        "attributes": attributes(&of),
        "flags": if parent == 0 { 0x101 } else { 0x100 },
    });
    if parent != 0 {
        span["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    span
}
