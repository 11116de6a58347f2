//! Decoded spans as they wait to be joined, and the checks that refuse invalid ones.
//!
//! The decoder fills a [`Batch`]. Its size is bounded by the bytes of the body and
//! [`BODY_SPANS_MAX`], although a message can take very few bytes on the wire.

use std::net::IpAddr;

use prost::Enumeration;

use super::attributes::{FactsAt, Texts};
use super::messages::PartialSuccess;
use crate::input::record::{bump, counted};
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
        /// The daemon pushed the span itself: a request made of it would be pushed again.
        OwnSpan = "own_span",
    }
}

/// Kind of a span; one that is not given, or not known here, counts as internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub(crate) enum Kind {
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

impl Kind {
    /// Returns true if the span calls another process.
    pub(super) const fn asks(self) -> bool {
        matches!(self, Self::Client | Self::Producer)
    }
}

/// Flags of a span: whether it is known if the parent is remote, and whether it is.
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// A span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Span {
    /// Keyed hash of its trace and resource: spans are joined among those with the same. 0: no
    /// trace, which is refused.
    pub(super) group: u64,
    /// Number of its resource in the body.
    pub(super) resource: u32,
    /// 0: none, which is refused.
    pub(super) id: u64,
    /// 0: none.
    pub(super) parent: u64,
    pub(super) kind: Kind,
    pub(super) flags: u32,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) is_error: bool,
    pub(super) facts: FactsAt,
    /// When it leaves, with its root; `u64::MAX` if that is not known.
    pub(super) leaves_ms: u64,
    /// While it is joined: the id of its root, which may be itself; 0: something above it is
    /// missing.
    pub(super) root: u64,
    /// Likewise the classes of the calls between the span and its root; `None` until that is found.
    pub(super) asked: Option<u8>,
}

impl Span {
    /// Returns true if the span declares that nothing of its own process is above it.
    pub(super) const fn is_root(&self) -> bool {
        self.parent == 0
            || self.flags & (PARENT_KNOWN | PARENT_REMOTE) == PARENT_KNOWN | PARENT_REMOTE
    }

    /// Returns true if the span turned out to be a root.
    pub(super) const fn is_found_root(&self) -> bool {
        self.root == self.id
    }

    /// Returns true if the span is a root, or one when its parent is missing: it serves a call and
    /// does not say where its parent is.
    pub(super) const fn leads(&self) -> bool {
        let answers = matches!(self.kind, Kind::Server | Kind::Consumer);
        self.is_root() || answers && self.flags & PARENT_KNOWN == 0
    }
}

/// A decoded body.
#[derive(Debug, Default)]
pub(super) struct Batch<'b> {
    /// Resources with spans, and the spans.
    pub(super) resources: Vec<FactsAt>,
    pub(super) spans: Vec<Span>,
    /// Those of their attributes.
    pub(super) texts: Texts<'b>,
    /// Events beyond the limit, which were ignored.
    pub(super) events_over_limit: u64,
    pub(super) received: u64,
    pub(super) refused: [u64; SpanRefusal::COUNT],
    /// Spans whose sender samples and declares that others were dropped.
    pub(super) sampled: u64,
    /// Whether the daemon itself pushed the spans being decoded.
    pub(super) is_own: bool,
    /// Its host, for resources that do not name theirs.
    pub(super) sender: Option<IpAddr>,
    /// Present time, nanoseconds since 1970.
    pub(super) now_ns: u64,
}

const HOUR_NS: u64 = 3_600_000_000_000;

impl Batch<'_> {
    /// Counts a span, and adds it unless it is refused.
    pub(super) fn add(&mut self, span: Span, has_parent: bool, is_sampled: bool) {
        self.received = self.received.saturating_add(1);
        let is_time = |ns: u64, latest: u64| ns > 0 && ns <= latest.min(i64::MAX as u64);
        let tomorrow = self.now_ns.saturating_add(HOUR_NS.saturating_mul(24));
        let refusal = match () {
            _ if self.received > BODY_SPANS_MAX as u64 => SpanRefusal::TooMany,
            _ if self.is_own => SpanRefusal::OwnSpan,
            _ if has_parent && span.parent == 0 => SpanRefusal::ParentId,
            _ if span.group == 0 => SpanRefusal::TraceId,
            _ if span.id == 0 => SpanRefusal::SpanId,
            _ if !is_time(span.start, u64::MAX) || !is_time(span.end, tomorrow) => {
                SpanRefusal::Time
            }
            _ if span.end < self.now_ns.saturating_sub(HOUR_NS) => SpanRefusal::TooOld,
            _ => {
                self.sampled = self.sampled.saturating_add(is_sampled.into());
                return self.spans.push(span);
            }
        };
        bump(&mut self.refused, refusal as usize);
        self.texts.drop_last(span.facts);
    }

    /// Returns the number of refused spans and why, for the sender; `None` if all were accepted.
    pub(super) fn partial_success(&self) -> Option<PartialSuccess> {
        let rejected = self.refused.iter().sum::<u64>().cast_signed();
        (rejected > 0).then(|| {
            let reasons = SpanRefusal::ALL.iter().zip(&self.refused).filter(|it| *it.1 > 0);
            let shown = reasons.map(|(reason, count)| format!("{} {count}", reason.name()));
            let shown = shown.collect::<Vec<_>>().join(", ");
            let error_message = format!("spans refused, by reason: {shown}");
            PartialSuccess { rejected, error_message }
        })
    }
}
