//! Slow requests as spans: each is a trace with a SERVER span for the request and an INTERNAL one
//! for each timer.
//!
//! Read from the raw pool by the push thread when an interval is cut: every request is looked at
//! once, in holds of the lock as short as those of a search; the chosen ones are copied afterwards.
//! Bounded by [`BYTES_MAX`] an interval, the slowest first.
//!
//! pinbad knows when a request was merged and how long it took, not when it began, and of timers
//! that came in packets only their length. Such spans are laid out as the waterfall does, and say
//! so: `pinbad.synthetic`.

use std::cmp::Reverse;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use prost::Message as _;

use super::body::Bodies;
use super::rows::push_unique;
use crate::clock::Clock;
use crate::config::{Config, OtlpTraces};
use crate::input::otlp::Kind;
use crate::input::otlp::messages::{KeyValue, Link, Span, SpanStatus, id};
use crate::input::record::micros;
use crate::merger::{SharedLive, answering};
use crate::metrics::exemplars::{NewRequests, SPAN_ID, TRACE_ID, end_ms};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::query::requests::Slowest;

/// Maximum size of the spans of an interval, bytes.
pub(super) const BYTES_MAX: usize = 4 << 20;
/// Most slow requests of an interval, of all scripts together.
const SLOW_MAX: usize = 100;
/// Most slow requests of one script in an interval.
const SCRIPT_MAX: usize = 10;
/// Most scripts considered in an interval.
const SCRIPTS_MAX: usize = 1_000;
/// Most errors of an interval: the first ones.
const ERRORS_MAX: usize = 100;
/// Most requests copied while the lock is held once.
const COPIED: usize = 64;

/// Status code of an error.
const ERROR: i32 = 2;

/// Chooses requests, and makes spans of them.
pub(super) struct Traces {
    requests: NewRequests,
    choice: OtlpTraces,
    error_status: u32,
    /// Ids of spans are hashes of ids of requests, new ones in each run.
    ids: RandomState,
}

impl Traces {
    /// For requests from now on; `None` if none are wanted.
    pub(super) fn of(config: &Config, live: &SharedLive, clock: &Arc<dyn Clock>) -> Option<Self> {
        (config.otlp.traces != OtlpTraces::None).then(|| Self {
            requests: NewRequests::of(live, clock),
            choice: config.otlp.traces,
            error_status: config.reports.error_status,
            ids: RandomState::new(),
        })
    }

    /// Chooses among the requests that came since the last call, slowest first.
    fn choose(&mut self) -> Vec<u64> {
        // By script, or all together.
        let mut slowest: HashMap<Option<u32>, Slowest<_, _>, RandomState> = HashMap::default();
        let mut chosen = Vec::new();
        self.requests.each(|pool, id, row| {
            let time = micros(row.request_time);
            let (mut script, mut max) = (None, SLOW_MAX);
            if self.choice == OtlpTraces::Tail {
                let origin = pool.origins.get(row.origin);
                if origin.status >= self.error_status && chosen.len() < ERRORS_MAX {
                    chosen.push((time, id));
                }
                (script, max) = (Some(origin.script_name), SCRIPT_MAX);
            }
            if slowest.len() < SCRIPTS_MAX || slowest.contains_key(&script) {
                let among = slowest.entry(script).or_insert_with(|| Slowest::new(max));
                if among.takes(&time) {
                    among.put(time, (time, id));
                }
            }
            true
        });
        chosen.extend(slowest.into_values().flat_map(Slowest::finish));
        chosen.sort_unstable_by_key(|it| Reverse(*it));
        chosen.dedup();
        chosen.into_iter().map(|(_, id)| id).collect()
    }

    /// Adds the spans of requests that came since the last call; returns the number of chosen
    /// requests for which there was no room, or which had left the pool.
    pub(super) fn cut(&mut self, bodies: &mut Bodies) -> u64 {
        let chosen = self.choose();
        let (mut bytes, mut left_out) = (0, 0);
        for ids in chosen.chunks(COPIED) {
            let live = answering(&self.requests.live);
            for id in ids {
                let row = live.pool.requests.get(*id);
                let spans = row.map_or_else(Vec::new, |row| self.spans(&live.pool, *id, &row));
                let more: usize = spans.iter().map(Span::encoded_len).sum();
                if spans.is_empty() || bytes + more > BYTES_MAX {
                    left_out += 1;
                    continue;
                }
                bytes += more;
                spans.iter().for_each(|span| bodies.span(span));
            }
        }
        left_out
    }

    /// Makes the spans of a request.
    fn spans(&self, pool: &Pool, request_id: u64, row: &RequestRow) -> Vec<Span> {
        let request = pool.resolve((0, request_id), row);
        let end = end_ms(&*self.requests.clock, row) * 1_000_000;
        let start = end.saturating_sub(request.time_us * 1_000);
        let mut attributes = vec![
            KeyValue::text("host.name", request.hostname),
            KeyValue::text("server.address", request.server_name),
            KeyValue::text("http.route", request.script_name),
            KeyValue::number("http.response.status_code", request.status.into()),
            KeyValue::number("http.response.body.size", request.document_size.into()),
            KeyValue::number("pinbad.request.id", request_id.cast_signed()),
            KeyValue::truth(SYNTHETIC),
        ];
        attributes.extend(request.schema.map(|schema| KeyValue::text("url.scheme", schema)));
        let tag = |name| request.tags.get(name);
        let link = tag(TRACE_ID).and_then(id::<16>).zip(tag(SPAN_ID).and_then(id::<8>));
        let link = link.map(|(trace, span)| Link { trace_id: trace.into(), span_id: span.into() });
        for (name, value) in request.tags.pairs() {
            push_unique(&mut attributes, name, value);
        }
        let new_id = |nth: usize| self.ids.hash_one((request_id, nth)).max(1).to_be_bytes();
        let trace_id = [new_id(0), new_id(1)].concat();
        // The first one is that of the request.
        let span = |nth: usize, (start, end), name, attributes| Span {
            trace_id: trace_id.clone(),
            span_id: new_id(2 + nth).into(),
            parent_span_id: if nth == 0 { Vec::new() } else { new_id(2).into() },
            kind: (if nth == 0 { Kind::Server } else { Kind::Internal }).into(),
            name,
            start,
            end,
            attributes,
            ..Span::default()
        };
        let is_error = request.status >= self.error_status;
        let root = Span {
            links: link.into_iter().collect(),
            status: is_error.then_some(SpanStatus { code: ERROR }),
            ..span(0, (start, end), request.script_name.to_owned(), attributes)
        };
        let mut laid_out_us = 0;
        let mut spans = vec![root];
        for (nth, timer) in (1..).zip(pool.resolve_timers(row)) {
            let known = timer.rusage.start_us();
            let start = start + known.unwrap_or(laid_out_us) * 1_000;
            laid_out_us += timer.value_us;
            let mut attributes = vec![KeyValue::number("pinbad.hits", timer.hit_count.into())];
            attributes.extend(known.is_none().then(|| KeyValue::truth(SYNTHETIC)));
            for (tag, value) in timer.tags.pairs() {
                push_unique(&mut attributes, tag, value);
            }
            let values = timer.tags.pairs().map(|(_, value)| value).filter(|it| !it.is_empty());
            let name = values.collect::<Vec<_>>().join(" ");
            let end = start + timer.value_us * 1_000;
            spans.push(span(nth, (start, end), name, attributes));
        }
        spans
    }
}

/// Marks a span whose start was computed.
const SYNTHETIC: &str = "pinbad.synthetic";
