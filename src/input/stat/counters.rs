//! Every line is counted as what became of it.

use super::line::{BadLine, Defect};
use crate::telemetry::counter::{Cell, Counter, CounterBy, Gauge, counters};
use crate::telemetry::reading::Reading;

counters! {
    /// Counters of one `[[stat]]` source. Its thread counts bytes and connections, the profile
    /// thread lines.
    StatCounters;

    /// Lines of the stat extension that were received whole. Each is a sample or invalid.
    lines_received: Counter,
    /// Lines that were not taken, by reason.
    lines_invalid: CounterBy<BadLine, { BadLine::COUNT }>,
    /// Samples that were taken.
    samples: Counter,
    /// Samples that were taken although something was wrong with them, by what it was.
    samples_mended: CounterBy<Defect, { Defect::COUNT }>,
    /// Bytes received.
    bytes_received: Counter,
    /// Bytes that gave way to newer ones because they were not taken fast enough.
    bytes_dropped: Counter,
    /// Line ends in them.
    lines_dropped: Counter,
    /// Lines that were begun and not ended, because the connection broke or bytes gave way.
    lines_cut: Counter,
    /// Connections that were made.
    connections: Counter,
    /// Attempts to connect that failed.
    connections_failed: Counter,
    /// Whether there is a connection: 1 or 0.
    connected: Gauge,
    /// Runs of the stat extension that were seen: its clock starts again with each.
    runs: Counter,
}
