//! Counters of a push. Every point and every span is counted under exactly one outcome.

use super::body::Signal;
use crate::input::record::counted;
use crate::telemetry::counter::{Cell, Counter, CounterBy, Gauge, counters};
use crate::telemetry::reading::Reading;

counted! {
    /// Reason for giving up a point or a span.
    GivenUp {
        /// The server refused its body.
        Refused = "refused",
        /// The server refused it within a body that it took.
        Partial = "partial",
        /// It waited when the daemon stopped.
        Stopped = "stopped",
    }
}

/// Points or spans given up, by reason.
pub(super) type ByReason = CounterBy<GivenUp, { GivenUp::COUNT }>;

counters! {
    /// Counters of a push, written by its thread.
    PushCounters;

    /// Points that the server has taken.
    points_sent: Counter,
    /// Points that the server refused, as a body or within one, and those that waited at a stop, by
    /// reason.
    points_given_up: ByReason,
    /// Points that wait to be sent.
    points_waiting: Gauge,
    /// Spans that the server has taken.
    spans_sent: Counter,
    /// Spans that the server refused, as a body or within one, and those that waited at a stop, by
    /// reason.
    spans_given_up: ByReason,
    /// Spans that wait to be sent.
    spans_waiting: Gauge,
    /// Chosen requests for which there was no room, or that were gone.
    traces_left_out: Counter,
    /// Bytes of bodies that wait to be sent.
    waiting_bytes: Gauge,
    /// Bodies that the server has taken.
    bodies_sent: Counter,
    /// Attempts to send a body that failed and are repeated.
    attempts_failed: Counter,
}

impl PushCounters {
    /// Returns those of points or of spans: sent, given up, waiting.
    pub(super) const fn of(&self, signal: Signal) -> (&Counter, &ByReason, &Gauge) {
        match signal {
            Signal::Metrics => (&self.points_sent, &self.points_given_up, &self.points_waiting),
            Signal::Traces => (&self.spans_sent, &self.spans_given_up, &self.spans_waiting),
        }
    }
}
