//! Counters of OTLP input. Every span is counted under exactly one outcome.

use super::span::SpanRefusal;
use crate::input::record::counted;
use crate::telemetry::counter::{Cell, Counter, CounterBy, Gauge, counters};
use crate::telemetry::reading::Reading;

counted! {
    /// Reason for refusing an HTTP request as a whole.
    BodyRefusal {
        /// Missing or wrong credentials.
        Unauthorized = "unauthorized",
        /// Sent by a web page.
        CrossOrigin = "cross_origin",
        /// Metrics, logs or an unknown path.
        NotTraces = "not_traces",
        /// A method other than POST.
        Method = "method",
        /// A content type other than protobuf and JSON, or a content encoding other than gzip.
        MediaType = "media_type",
        /// Too large, as sent or decompressed.
        TooLarge = "too_large",
        /// Incomplete, or too slow.
        BrokenOff = "broken_off",
        /// Invalid gzip.
        BadGzip = "bad_gzip",
        /// Invalid protobuf.
        BadProtobuf = "bad_protobuf",
        /// Invalid JSON, or JSON that does not encode spans.
        BadJson = "bad_json",
        /// The daemon is shutting down.
        Stopping = "stopping",
    }
}

counted! {
    /// Reason why an accepted span is in no record.
    LeftOut {
        /// The span was received before.
        Duplicate = "duplicate",
        /// The span lies below another of the same class (database, HTTP, messaging or RPC).
        Nested = "nested",
        /// An internal span, and the configuration does not make timers of these.
        Internal = "internal",
        /// The span receives messages, or lies below one that does.
        Receive = "receive",
        /// A client span outside any request, or a span below one.
        ClientRoot = "client_root",
        /// A span that sends a message outside any request, or a span below one.
        ProducerRoot = "producer_root",
        /// Its parent did not arrive, and several requests could own the span.
        Orphan = "orphan",
        /// Its request did not arrive.
        NoRequest = "no_request",
        /// Its request had been completed already.
        LateChild = "late_child",
        /// Dropped in favor of newer spans because too many were waiting.
        PushedOut = "pushed_out",
        /// The texts of its request are too many or too long for a record.
        TooLarge = "too_large",
    }
}

counters! {
    /// Counters of one `[[otlp_input]]` entry, written by the threads that take bodies and by the
    /// thread that releases waiting spans.
    OtlpCounters;

    /// Requests over HTTP, whatever they wanted.
    bodies_received: Counter,
    /// Requests over HTTP that were refused, by reason.
    bodies_refused: CounterBy<BodyRefusal, { BodyRefusal::COUNT }>,
    /// Bytes of bodies, as they were sent.
    bytes_received: Counter,
    /// Spans in bodies that were taken. Each became a request or a timer, was merged, left out or
    /// refused, or waits.
    spans_received: Counter,
    /// Spans that became requests.
    requests: Counter,
    /// Their timers; each stands for one or more spans.
    timers: Counter,
    /// Spans that were added to a timer that there was, because their request had very many.
    spans_merged: Counter,
    /// Spans that are in no request although nothing is wrong with them, by reason.
    spans_left_out: CounterBy<LeftOut, { LeftOut::COUNT }>,
    /// Spans that were refused, by reason.
    spans_refused: CounterBy<SpanRefusal, { SpanRefusal::COUNT }>,
    /// Spans that wait for others of their traces.
    spans_waiting: Gauge,
    /// Traces that they are of.
    traces_waiting: Gauge,
    /// Bytes that they take.
    waiting_bytes: Gauge,
    /// Spans whose parents did not come, and that count with the only request there is.
    spans_parent_guessed: Counter,
    /// Spans that say of themselves that others like them were not sent.
    spans_sampled: Counter,
    /// Attributes of spans and resources past the limit, which were not looked at.
    attributes_over_limit: Counter,
    /// Events of spans past the limit, which were not looked at.
    events_over_limit: Counter,
}
