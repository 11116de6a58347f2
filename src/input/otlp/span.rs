//! Decoded spans as they wait to be joined, and the checks that refuse invalid ones.
//!
//! The decoder fills a [`Batch`]. Its size is bounded by the bytes of the body and
//! [`BODY_SPANS_MAX`], although a message can take very few bytes on the wire.

use super::facts::{Facts, FactsWriter, Key, Keys};
use crate::input::record::{Hasher, counted};
use crate::limits::BODY_SPANS_MAX;

counted! {
    /// Reason for refusing a span, which the sender is told.
    SpanRefusal {
        /// The trace id is zero or not 16 bytes long.
        TraceId = "trace_id",
        /// The span id is zero or not eight bytes long.
        SpanId = "span_id",
        /// The parent's id is zero or not eight bytes long.
        ParentId = "parent_id",
        /// Start or end is missing or past 2262, or the end is more than a day ahead of this
        /// machine's clock.
        Time = "time",
        /// The span ended more than an hour ago.
        TooOld = "too_old",
        /// The body has more spans than are accepted at once.
        TooMany = "too_many_spans",
    }
}

/// Identifies a trace.
pub(super) type TraceId = [u8; 16];

/// Kind of a span; numbers above 5 are undefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Internal,
    Server,
    Client,
    Producer,
    Consumer,
}

impl Kind {
    pub(super) const fn of(number: u64) -> Self {
        match number {
            2 => Self::Server,
            3 => Self::Client,
            4 => Self::Producer,
            5 => Self::Consumer,
            _ => Self::Internal,
        }
    }

    /// Returns true if the span calls another process.
    pub(super) const fn asks(self) -> bool {
        matches!(self, Self::Client | Self::Producer)
    }
}

/// Flags of a span: whether it is known if the parent is remote, and whether it is.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// A span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: u64,
    /// 0: none.
    pub(super) parent: u64,
    pub(super) kind: Kind,
    pub(super) flags: u32,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_error: bool,
    pub(super) facts: Facts,
}

impl Span {
    /// Returns true if the span declares that nothing of its own process is above it.
    pub(super) const fn is_root(&self) -> bool {
        self.parent == 0
            || self.flags & (PARENT_KNOWN | PARENT_REMOTE) == PARENT_KNOWN | PARENT_REMOTE
    }

    /// Returns true if the span is a root when its parent is missing: it serves a call and does not
    /// say where its parent is.
    pub(super) const fn may_be_root(&self) -> bool {
        let answers = matches!(self.kind, Kind::Server | Kind::Consumer);
        answers && self.flags & PARENT_KNOWN == 0
    }
}

/// The entity that sent the spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// Hash of what was sent of it.
    pub(super) hash: u64,
    pub(super) facts: Facts,
}

impl Resource {
    /// Returns true if every request is sent completely before the next one begins.
    pub(super) fn is_php(&self) -> bool {
        self.facts.get(Key::Language) == Some(b"php")
    }
}

/// A span being decoded.
#[derive(Debug, Default)]
pub(super) struct RawSpan<'a> {
    pub(super) trace: &'a [u8],
    pub(super) id: &'a [u8],
    pub(super) parent: &'a [u8],
    pub(super) state: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) kind: u64,
    pub(super) flags: u32,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_error: bool,
    /// Type of the last exception.
    pub(super) exception: &'a [u8],
}

/// A decoded body.
#[derive(Debug)]
pub(super) struct Batch<'k> {
    pub(super) keys: &'k Keys,
    pub(super) hasher: &'k Hasher,
    /// Resources with their spans, at least one each.
    pub(super) resources: Vec<(Resource, Vec<Span>)>,
    pub(super) facts: FactsWriter,
    /// Events beyond the limit, which were ignored.
    pub(super) events_over_limit: u64,
    pub(super) received: u64,
    pub(super) refused: [u64; SpanRefusal::COUNT],
    /// Spans whose sender samples and declares that others were dropped.
    pub(super) sampled: u64,
    now_ns: u64,
}

/// Status code of an error.
pub(super) const ERROR: u64 = 2;

const HOUR_NS: u64 = 3_600_000_000_000;

impl<'k> Batch<'k> {
    /// Creates an empty batch; `now_ns` is the present time, nanoseconds since 1970.
    pub(super) fn new(keys: &'k Keys, hasher: &'k Hasher, now_ns: u64) -> Self {
        Self {
            keys,
            hasher,
            resources: Vec::new(),
            facts: FactsWriter::default(),
            events_over_limit: 0,
            received: 0,
            refused: [0; SpanRefusal::COUNT],
            sampled: 0,
            now_ns,
        }
    }

    /// Adds a resource with its spans, unless there are none.
    pub(super) fn add_resource(&mut self, resource: Resource, spans: Vec<Span>) {
        if !spans.is_empty() {
            self.resources.push((resource, spans));
        }
    }

    /// Adds a span with the collected attributes, or counts the reason for its refusal.
    pub(super) fn add(&mut self, raw: &RawSpan<'_>, spans: &mut Vec<Span>) {
        self.received = self.received.saturating_add(1);
        self.facts.text(Key::EventException, raw.exception);
        self.facts.text(Key::Name, raw.name);
        let facts = self.facts.take();
        match self.checked(raw, facts) {
            Ok(span) => {
                let is_sampled = |state: &[u8]| state.windows(6).any(|it| it == b"ot=th:");
                self.sampled = self.sampled.saturating_add(is_sampled(raw.state).into());
                spans.push(span);
            }
            Err(refusal) => {
                if let Some(count) = self.refused.get_mut(refusal as usize) {
                    *count = count.saturating_add(1);
                }
            }
        }
    }

    fn checked(&self, raw: &RawSpan<'_>, facts: Facts) -> Result<Span, SpanRefusal> {
        if self.received > BODY_SPANS_MAX as u64 {
            return Err(SpanRefusal::TooMany);
        }
        let parent = match raw.parent {
            [] => 0,
            parent => id(parent).ok_or(SpanRefusal::ParentId)?,
        };
        let trace: TraceId = raw.trace.try_into().map_err(|_| SpanRefusal::TraceId)?;
        if trace == TraceId::default() {
            return Err(SpanRefusal::TraceId);
        }
        let id = id(raw.id).ok_or(SpanRefusal::SpanId)?;
        let is_time = |ns: u64| ns > 0 && ns <= i64::MAX as u64;
        let latest = self.now_ns.saturating_add(HOUR_NS.saturating_mul(24));
        if !is_time(raw.start) || !is_time(raw.end) || raw.end > latest {
            return Err(SpanRefusal::Time);
        }
        if raw.end < self.now_ns.saturating_sub(HOUR_NS) {
            return Err(SpanRefusal::TooOld);
        }
        Ok(Span {
            trace,
            id,
            parent,
            kind: Kind::of(raw.kind),
            flags: raw.flags,
            start: raw.start,
            end: raw.end,
            is_error: raw.is_error,
            facts,
        })
    }

    /// Returns the number of refused spans and an explanation for the sender.
    pub(super) fn refusals(&self) -> (u64, String) {
        let reasons = SpanRefusal::ALL.iter().zip(&self.refused);
        let reasons = reasons.filter(|(_, count)| **count > 0);
        let shown = reasons.map(|(reason, count)| format!("{} {count}", reason.name()));
        let shown: Vec<_> = shown.collect();
        let refused = self.refused.iter().sum();
        (refused, format!("spans refused, by reason: {}", shown.join(", ")))
    }
}

/// Returns a span id as a number, or `None` if it is invalid.
fn id(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(bytes.try_into().ok()?);
    (number != 0).then_some(number)
}
