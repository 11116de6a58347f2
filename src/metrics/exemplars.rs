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
use crate::input::record::micros;
use crate::merger::{SharedLive, answering};
use crate::pool::Pool;
use crate::pool::requests::RequestRow;
use crate::query::requests::shown_field;
use crate::report::definition::{Definition, Field, KeySource, Level, Occurrence};
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

/// Reads the requests that were merged since it last did.
pub(super) struct NewRequests {
    pub(super) live: SharedLive,
    pub(super) clock: Arc<dyn Clock>,
    /// The next request to look at.
    next: u64,
}

/// A request with a trace.
#[derive(Debug)]
pub struct Traced {
    pub(super) time_us: u64,
    pub(super) exemplar: Exemplar,
    /// Its fields and tags.
    texts: Vec<(KeySource, String)>,
}

/// Traced requests of a report by key, newest first.
pub(super) type ByKey<'a> = HashMap<Vec<u8>, Vec<&'a Traced>, RandomState>;

impl NewRequests {
    /// Those from now on.
    pub(super) fn of(live: &SharedLive, clock: &Arc<dyn Clock>) -> Self {
        Self {
            next: answering(live).pool.requests.next_id(),
            live: Arc::clone(live),
            clock: Arc::clone(clock),
        }
    }

    /// Passes them to `look`, up to the first one for which it returns false.
    pub(super) fn each(&mut self, mut look: impl FnMut(&Pool, u64, &RequestRow) -> bool) {
        loop {
            let live = answering(&self.live);
            let requests = &live.pool.requests;
            let from = self.next.max(requests.oldest_id());
            self.next = requests.next_id().min(from.saturating_add(CHUNK));
            if from >= self.next {
                return;
            }
            for id in from..self.next {
                if requests.get(id).is_some_and(|row| !look(&live.pool, id, &row)) {
                    self.next = id;
                    return;
                }
            }
        }
    }

    /// Returns the newest traced ones, up to this unix millisecond, newest first: rows end with a
    /// second of the stream, and later requests are in later rows.
    pub(super) fn traced(&mut self, unix_ms: u64) -> Vec<Traced> {
        let newest = answering(&self.live).pool.requests.next_id();
        self.next = self.next.max(newest.saturating_sub(EXAMINED_MAX));
        let (mut traced, clock) = (Vec::new(), Arc::clone(&self.clock));
        self.each(|pool, _, row| {
            let found = Traced::of(pool, row, &*clock);
            let is_later = found.as_ref().is_some_and(|it| it.exemplar.time / 1_000_000 > unix_ms);
            traced.extend(found.filter(|_| !is_later));
            !is_later
        });
        traced.reverse();
        traced.truncate(TRACED_MAX);
        traced
    }
}

/// Returns the newest traced requests, newest first.
pub fn newest(live: &SharedLive, clock: &Arc<dyn Clock>) -> Vec<Traced> {
    NewRequests { next: 0, ..NewRequests::of(live, clock) }.traced(u64::MAX)
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

    fn of(pool: &Pool, row: &RequestRow, clock: &dyn Clock) -> Option<Self> {
        let tags = pool.tags(row.request_tags);
        let trace_id = id::<16>(tags.get(TRACE_ID)?)?;
        let time_us = micros(row.request_time);
        let exemplar = Exemplar {
            time: end_ms(clock, row) * 1_000_000,
            as_double: Some(time_us as f64 / 1e6),
            span_id: tags.get(SPAN_ID).and_then(id::<8>).map_or_else(Vec::new, Vec::from),
            trace_id: trace_id.into(),
        };
        let fields = Field::ALL.map(|it| (KeySource::Field(it), shown_field(pool, row, it)));
        let tags = tags.to_vec().into_iter();
        let tags = tags.map(|(name, value)| (KeySource::RequestTag(name), value));
        Some(Self { time_us, exemplar, texts: fields.into_iter().chain(tags).collect() })
    }

    /// Returns its key in a report; `None` if that does not count it.
    fn key(&self, definition: &Definition) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        for of in &definition.keys {
            let mut texts = self.texts.iter().filter(|it| it.0 == of.source).map(|it| &*it.1);
            let text = match of.occurrence {
                Occurrence::First => texts.next(),
                Occurrence::Last => texts.next_back(),
            };
            if of.lacks(text.map(str::is_empty)) {
                return None;
            }
            push_key(&mut key, text.unwrap_or_default());
        }
        Some(key)
    }
}

/// Returns the traced requests of a report.
pub(super) fn by_key<'a>(traced: &'a [Traced], definition: &Definition) -> ByKey<'a> {
    let mut found = ByKey::default();
    let is_by_keys = definition.level != Level::Timer && definition.filters.is_empty();
    for one in traced.iter().filter(|_| is_by_keys) {
        if let Some(key) = one.key(definition) {
            found.entry(key).or_default().push(one);
        }
    }
    found
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
        let mut exemplars = NewRequests::of(&live, &(Arc::clone(&clock) as Arc<dyn Clock>));
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
            let taken = exemplars.traced(until_ms);
            taken.iter().map(|it| it.exemplar.trace_id[15]).collect::<Vec<_>>()
        };
        (1..=3).for_each(&mut send);
        assert_eq!(taken(1_700_000_001_000), [2, 1]);
        send(4);
        assert_eq!(taken(1_700_000_002_000), [4, 3]);
        assert!(taken(1_700_000_003_000).is_empty());
    }
}
