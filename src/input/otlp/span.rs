//! Spans as they wait: what a body holds once it is decoded, and which of its spans are refused.
//!
//! Both decoders fill a [`Batch`]; what is in it is bounded by the bytes of the body and
//! [`BODY_SPANS_MAX`], and not by how little a message can take on the wire.

use super::facts::{Facts, FactsWriter, Key, Keys, ResourceHash};
use crate::input::record::{Hasher, counted};
use crate::limits::BODY_SPANS_MAX;

counted! {
    /// Why a span was refused: the sender is told so.
    SpanRefusal {
        /// Its trace id is zero or has not 16 bytes.
        TraceId = "trace_id",
        /// Its own id is zero or has not eight bytes.
        SpanId = "span_id",
        /// The id of its parent is zero or has not eight bytes.
        ParentId = "parent_id",
        /// It has no begin or no end, or one past 2262, or ended a day ahead of this machine's
        /// clock.
        Time = "time",
        /// It ended more than an hour ago.
        TooOld = "too_old",
        /// There were more spans in its body than are taken at once.
        TooMany = "too_many_spans",
    }
}

/// Identifies a trace.
pub(super) type TraceId = [u8; 16];

/// The kind of a span: those above 5 are none.
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

    /// Whether it asks somebody else.
    pub(super) const fn asks(self) -> bool {
        matches!(self, Self::Client | Self::Producer)
    }
}

/// Flags of a span: whether it is known if its parent is elsewhere, and whether it is.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// One span.
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
    /// Whether nothing of its own process is above it, as far as it says itself.
    pub(super) const fn is_root(&self) -> bool {
        self.parent == 0
            || self.flags & (PARENT_KNOWN | PARENT_REMOTE) == PARENT_KNOWN | PARENT_REMOTE
    }

    /// Whether it is a root if its parent is not there: it answers somebody, and does not say where
    /// its parent is.
    pub(super) const fn may_be_root(&self) -> bool {
        let answers = matches!(self.kind, Kind::Server | Kind::Consumer);
        answers && self.flags & PARENT_KNOWN == 0
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>().saturating_add(self.facts.bytes())
    }
}

/// What sent spans.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resource {
    /// Over all of its attributes.
    pub(super) hash: u64,
    pub(super) facts: Facts,
}

impl Resource {
    /// Whether all of a request is sent before the next request begins.
    pub(super) fn is_php(&self) -> bool {
        self.facts.get(Key::Language) == Some(b"php")
    }
}

/// A span while it is decoded.
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
    /// That of the last exception.
    pub(super) exception: &'a [u8],
}

/// A body, decoded.
#[derive(Debug)]
pub(super) struct Batch<'k> {
    pub(super) keys: &'k Keys,
    pub(super) hasher: &'k Hasher,
    /// Each with its spans, of which there is at least one.
    pub(super) resources: Vec<(Resource, Vec<Span>)>,
    pub(super) facts: FactsWriter,
    /// Events past the limit, which were not looked at.
    pub(super) events_over_limit: u64,
    pub(super) received: u64,
    pub(super) refused: [u64; SpanRefusal::COUNT],
    /// Spans whose sender samples, and says that there were more.
    pub(super) sampled: u64,
    now_ns: u64,
}

const HOUR_NS: u64 = 3_600_000_000_000;

impl<'k> Batch<'k> {
    /// An empty one; it is `now_ns` since 1970.
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

    pub(super) fn resource_hash(&self) -> ResourceHash {
        ResourceHash::new(self.hasher)
    }

    /// Adds the spans of a resource, if there are any.
    pub(super) fn add_resource(&mut self, resource: Resource, spans: Vec<Span>) {
        if !spans.is_empty() {
            self.resources.push((resource, spans));
        }
    }

    /// Adds a span with the attributes that were collected, or counts why not.
    pub(super) fn add(&mut self, raw: &RawSpan<'_>, spans: &mut Vec<Span>) {
        self.received = self.received.saturating_add(1);
        self.facts.text(Key::EventException as u8, raw.exception);
        self.facts.text(Key::Name as u8, raw.name);
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

    /// How many spans were refused, and for the sender why.
    pub(super) fn refusals(&self) -> (u64, String) {
        let reasons = SpanRefusal::ALL.iter().zip(&self.refused);
        let reasons = reasons.filter(|(_, count)| **count > 0);
        let shown = reasons.map(|(reason, count)| format!("{} {count}", reason.name()));
        let shown: Vec<_> = shown.collect();
        let refused = self.refused.iter().sum();
        (
            refused,
            format!("spans refused, by reason: {}", shown.join(", ")),
        )
    }
}

/// The number of a span; 0 is none.
fn id(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(bytes.try_into().ok()?);
    (number != 0).then_some(number)
}
