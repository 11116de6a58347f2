//! Exemplars: of each bucket of a row's histogram one recent request, whose tag `trace_id` names
//! its trace.
//!
//! Read from the raw pool by the push thread when an interval is cut, and by a scrape in
//! OpenMetrics: of the newest `EXAMINED_MAX` requests those with such a tag, `TRACED_MAX` at most.
//! A report gets them if the request's row follows from its keys alone: at the level of packets or
//! requests, without filters.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use crate::clock::Clock;
use crate::input::otlp::messages::{Exemplar, id};
use crate::merger::{SharedLive, answering};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::report::definition::{Definition, Key, KeySource, Level, Missing, Occurrence};
use crate::report::row_key::push_key;

/// Request tags that name the span of another tracer.
pub(super) const TRACE_ID: &str = "trace_id";
pub(super) const SPAN_ID: &str = "span_id";

/// Newest requests of an interval that are looked at.
const EXAMINED_MAX: u64 = 10_000;
/// Requests with traces that are kept of them.
const TRACED_MAX: usize = 1_000;
/// Most requests looked at while the lock is held once.
const CHUNK: u64 = 8_192;

/// Reads traced requests.
pub(super) struct Exemplars {
    live: SharedLive,
    clock: Arc<dyn Clock>,
    next: u64,
    /// Those read and not taken yet, newest first.
    traced: Vec<Traced>,
}

/// A request with a trace.
#[derive(Debug)]
pub struct Traced {
    pub(super) time_us: u64,
    pub(super) exemplar: Exemplar,
    /// Texts of its fields, in the order of [`Field`](crate::report::definition::Field).
    fields: [String; 5],
    tags: Vec<(String, String)>,
}

/// Traced requests of a report by key, newest first.
pub(super) type ByKey<'a> = HashMap<Vec<u8>, Vec<&'a Traced>, RandomState>;

impl Exemplars {
    pub(super) fn of(live: &SharedLive, clock: &Arc<dyn Clock>) -> Self {
        Self {
            next: answering(live).pool.requests.next_id(),
            live: Arc::clone(live),
            clock: Arc::clone(clock),
            traced: Vec::new(),
        }
    }

    /// Reads the newest traced requests that came since the last call.
    pub(super) fn read(&mut self) {
        let newest = answering(&self.live).pool.requests.next_id();
        self.next = self.next.max(newest.saturating_sub(EXAMINED_MAX));
        let mut traced = Vec::new();
        let clock = &*self.clock;
        walk(&self.live, &mut self.next, |pool, id, row| {
            traced.extend(Traced::of(pool, id, row, clock));
        });
        traced.reverse();
        self.traced.splice(..0, traced);
        self.traced.truncate(TRACED_MAX);
    }

    /// Takes those that came up to this unix millisecond, newest first: rows end with a second of
    /// the stream, and later requests are in later rows.
    pub(super) fn take(&mut self, unix_ms: u64) -> Vec<Traced> {
        let later = |it: &Traced| it.exemplar.time > unix_ms * 1_000_000;
        self.traced.split_off(self.traced.partition_point(later))
    }
}

/// Returns the newest traced requests, newest first.
#[must_use]
pub fn newest(live: &SharedLive, clock: &Arc<dyn Clock>) -> Vec<Traced> {
    let (live, clock) = (Arc::clone(live), Arc::clone(clock));
    let mut newest = Exemplars { live, clock, next: 0, traced: Vec::new() };
    newest.read();
    newest.traced
}

impl Traced {
    /// Returns the exemplar as OpenMetrics has it, behind the value of a bucket.
    pub(super) fn in_open_metrics(&self) -> String {
        let hex = |id: &[u8]| id.iter().map(|it| format!("{it:02x}")).collect::<String>();
        let Exemplar { time, trace_id, span_id, .. } = &self.exemplar;
        let span = match span_id.is_empty() {
            true => String::new(),
            false => format!(",{SPAN_ID}=\"{}\"", hex(span_id)),
        };
        let (trace, secs) = (hex(trace_id), self.time_us as f64 / 1e6);
        let (time_secs, ms) = (time / 1_000_000_000, time / 1_000_000 % 1_000);
        format!(" # {{{TRACE_ID}=\"{trace}\"{span}}} {secs} {time_secs}.{ms:03}")
    }

    fn of(pool: &Pool, request: u64, row: &RequestRow, clock: &dyn Clock) -> Option<Self> {
        let tags = pool.tags(row.request_tags);
        let trace_id = id::<16>(tags.get(TRACE_ID)?)?;
        let request = pool.resolve((0, request), row);
        let exemplar = Exemplar {
            time: end_ms(clock, row) * 1_000_000,
            as_double: Some(request.time_us as f64 / 1e6),
            span_id: tags.get(SPAN_ID).and_then(id::<8>).map_or_else(Vec::new, Vec::from),
            trace_id: trace_id.into(),
        };
        let status = request.status.to_string();
        let schema = request.schema.unwrap_or_default();
        let (host, server) = (request.hostname, request.server_name);
        Some(Self {
            time_us: request.time_us,
            exemplar,
            fields: [host, server, request.script_name, schema, &status].map(str::to_owned),
            tags: request.tags.to_vec(),
        })
    }

    fn text(&self, key: &Key) -> Option<&str> {
        let text = match &key.source {
            KeySource::Field(field) => Some(&self.fields[*field as usize]),
            KeySource::RequestTag(tag) => {
                let is_it = |(name, _): &&(String, String)| name == tag;
                let found = match key.occurrence {
                    Occurrence::First => self.tags.iter().find(is_it),
                    Occurrence::Last => self.tags.iter().rfind(is_it),
                };
                found.map(|(_, value)| value)
            }
            KeySource::TimerTag(_) | KeySource::TimerTagOrField(..) => None,
        };
        match (text.map(String::as_str), key.missing, &key.source) {
            (None, Missing::Empty, _) => Some(""),
            (Some(""), Missing::Skip, KeySource::Field(_)) | (Some(""), Missing::SkipEmpty, _) => {
                None
            }
            (text, ..) => text,
        }
    }

    fn key(&self, definition: &Definition) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        for of in &definition.keys {
            push_key(&mut key, self.text(of)?);
        }
        Some(key)
    }
}

/// Returns the traced requests of a report.
pub(super) fn by_key<'a>(traced: &'a [Traced], definition: &Definition) -> ByKey<'a> {
    let mut found = ByKey::default();
    if definition.level == Level::Timer || !definition.filters.is_empty() {
        return found;
    }
    for one in traced {
        if let Some(key) = one.key(definition) {
            found.entry(key).or_default().push(one);
        }
    }
    found
}

/// Passes the rows from `next` on to `look`, and moves it.
pub(super) fn walk(
    live: &SharedLive,
    next: &mut u64,
    mut look: impl FnMut(&Pool, u64, &RequestRow),
) {
    loop {
        let live = answering(live);
        let requests = &live.pool.requests;
        let from = (*next).max(requests.oldest_id());
        *next = requests.next_id().min(from.saturating_add(CHUNK));
        if from >= *next {
            return;
        }
        for id in from..*next {
            if let Some(row) = requests.get(id) {
                look(&live.pool, id, &row);
            }
        }
    }
}

/// Returns when a row was merged, milliseconds since 1970.
pub(super) fn end_ms(clock: &dyn Clock, row: &RequestRow) -> u64 {
    clock.unix_ms_at(row.merged_at(clock.mono_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::input::pinba::{Decoder, model};
    use crate::input::record::{Hasher, TextLimits};
    use crate::merger::test_harness::{self, Limits};

    #[test]
    fn a_request_after_the_interval_waits_for_the_next() {
        let hasher = Hasher::new();
        let live = Limits::SMALL.live(&hasher, Vec::new());
        let live = Arc::new(parking_lot::RwLock::new(live));
        let clock = Arc::new(ManualClock::new(1_700_000_000_000));
        let mut exemplars = Exemplars::of(&live, &(Arc::clone(&clock) as Arc<dyn Clock>));
        let mut decoder = Decoder::new(TextLimits::default(), hasher);
        let mut send = |nth: u32| {
            let mut sent = model::Request::named("h", "s", "/x");
            sent.add_tag(TRACE_ID, format!("{nth:032x}"));
            let mut record = Vec::new();
            test_harness::decode(&mut decoder, &sent, &mut record);
            live.write().merge(&record, clock.mono_ms());
            clock.advance_ms(600);
        };
        let mut taken = |until_ms| {
            exemplars.read();
            let taken = exemplars.take(until_ms);
            taken.iter().map(|it| it.exemplar.trace_id[15]).collect::<Vec<_>>()
        };
        (1..=3).for_each(&mut send);
        assert_eq!(taken(1_700_000_001_000), [2, 1]);
        send(4);
        assert_eq!(taken(1_700_000_002_000), [4, 3]);
        assert!(taken(1_700_000_003_000).is_empty());
    }
}
