//! Every span is counted as what became of it.

use super::span::SpanRefusal;
use crate::input::record::counted;
use crate::telemetry::counter::{Cell, Counter, CounterBy, Gauge, counters};
use crate::telemetry::reading::Reading;

counted! {
    /// Why a request over HTTP was refused, and nothing of it taken.
    BodyRefusal {
        /// No credentials, or none that are right.
        Unauthorized = "unauthorized",
        /// Metrics or logs, or another path.
        NotTraces = "not_traces",
        /// Not sent with POST.
        Method = "method",
        /// Neither protobuf nor JSON, or packed otherwise than with gzip.
        MediaType = "media_type",
        /// More bytes than are taken, as it was sent or unpacked.
        TooLarge = "too_large",
        /// It broke off, or took too long.
        BrokenOff = "broken_off",
        /// It is not gzip, though it says so.
        BadGzip = "bad_gzip",
        /// It is not protobuf.
        BadProtobuf = "bad_protobuf",
        /// It is not JSON, or not that of spans.
        BadJson = "bad_json",
        /// The daemon ends.
        Stopping = "stopping",
    }
}

counted! {
    /// Why a span that was accepted is in no record.
    LeftOut {
        /// It was received before.
        Duplicate = "duplicate",
        /// It is below a span that asks for the same: a database, HTTP, messaging or RPC.
        Nested = "nested",
        /// It asks nobody, and the configuration does not want such timers.
        Internal = "internal",
        /// It asks for messages, or is below such a span.
        Receive = "receive",
        /// It asks somebody outside of any request, or is below such a span.
        ClientRoot = "client_root",
        /// It sends a message outside of any request, or is below such a span.
        ProducerRoot = "producer_root",
        /// What is above it did not come, and there are several requests that it may belong to.
        Orphan = "orphan",
        /// Its request did not come.
        NoRequest = "no_request",
        /// Its request had left already.
        LateChild = "late_child",
        /// It gave way to newer ones because too many waited.
        PushedOut = "pushed_out",
        /// Its request has too many or too long texts for a record.
        TooLarge = "too_large",
    }
}

counters! {
    /// What came of one `[[otlp_input]]`. Whoever takes a body writes them, and the thread that
    /// lets wait.
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
    /// Timers of these, each from a span at least.
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
