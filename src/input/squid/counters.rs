//! Every line is counted as what became of it.

use super::line::BadLine;
use crate::telemetry::counter::{Cell, Counter, CounterBy, counters};
use crate::telemetry::reading::Reading;

counters! {
    /// Counters of one `[[squid]]` source. Its thread alone writes them.
    SquidCounters;

    /// Lines received. Each is a request, a swap, repeated or invalid.
    lines_received: Counter,
    /// Lines that were not taken, by reason.
    lines_invalid: CounterBy<BadLine, { BadLine::COUNT }>,
    /// Lines that had been received before (the same number and begin) and were not counted again.
    lines_repeated: Counter,
    /// Lines that Squid numbered (%sn) and that did not come.
    lines_lost: Counter,
    /// Lines among those lost that came after all.
    lines_late: Counter,
    /// Requests that were taken.
    requests: Counter,
    /// Lines of a store.log with the times of a swap.
    swaps: Counter,
    /// Bytes received.
    bytes_received: Counter,
    /// Connections that were accepted.
    connections: Counter,
    /// Connections that were turned away because there were too many.
    connections_refused: Counter,
    /// Connections that were closed to make room for others.
    connections_closed: Counter,
    /// Times that a file was opened, or started again.
    files_opened: Counter,
}
