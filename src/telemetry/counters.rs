//! The counters: one struct for each stage, one field for each counter. The field's name, type and
//! doc comment are its whole declaration: the status, `SHOW STATUS`, the metrics with their kind
//! and help, and the snapshot follow from them.
//!
//! A receiver writes the [`SocketCounters`] of its socket once a batch; the merger writes the only
//! [`MergeCounters`]. Readers take a copy, which can be summed up and listed as [`Reading`]s.
//! Counters only grow, and with a snapshot continue across restarts; gauges are not saved.
//!
//! The sums (received = accepted + invalid; decoded = invalid + overwritten + popped) are exact at
//! rest; in a running daemon a copy may be off by one batch.

use crossbeam::utils::CachePadded;

use super::counter::{Cell, Counter, CounterBy, Gauge, WrappedCounter, counters};
use super::reading::Reading;
use crate::input::record::{DecodeCounts, RejectReason, Repair};

counters! {
    /// Counters of history, written by the series thread and the history thread.
    HistoryCounters;

    /// Times that what was in memory was written to history.dir.
    flushes: Counter,
    /// Attempts to write to history.dir that failed; they are repeated.
    failures: Counter,
    /// Rows that went to (other) because history.memory was used up, and keys of a second because
    /// series.memory was.
    keys_folded: Counter,
    /// Rows that lost their percentiles because history.memory was used up.
    histograms_dropped: Counter,
    /// Rows that were lost because nothing could be written for long and history.memory was used
    /// up.
    rows_lost: Counter,
    /// Requests that history could not count, because the series thread fell behind.
    requests_missed: Counter,
    /// Rows that came back at the start from the log of seconds: the process before had not written
    /// them otherwise.
    log_rows_restored: Counter,
    /// Bytes at the end of that log that were not finished, and cut off.
    log_bytes_torn: Counter,
}

counters! {
    /// Counters of the files of history since the start, written by the history thread.
    StoreCounters;

    /// Rows written to history.dir.
    rows_written: Counter,
    /// Bytes written to history.dir, published files included.
    bytes_written as "written_bytes": Counter,
    /// Files that were published.
    files_published: Counter,
    /// Files removed because of their age (history.retention_*).
    files_expired: Counter,
    /// Files removed because all took too much (history.size_max).
    files_removed_by_size: Counter,
    /// Files removed because too little was free on that disk (history.free_min).
    files_removed_by_free_space: Counter,
    /// Files that are gone; their rows do not count until a start finds them.
    files_missing: Counter,
    /// Files that had been missing and were back at the start.
    files_returned: Counter,
    /// Files that the manifest does not know and that were moved to orphans.
    files_orphaned: Counter,
    /// Pieces that could not be read and were set aside; their rows are lost.
    pieces_damaged: Counter,
}

counters! {
    /// Counters of shipment to ClickHouse, written by its thread.
    ClickHouseCounters;

    /// Rows that ClickHouse took, those included that were sent again.
    rows_shipped: Counter,
    /// Bytes of them, as they were sent.
    shipped_bytes: Counter,
    /// Attempts to ship that failed; they are repeated.
    failures: Counter,
    /// Rows of files that could not be read, and so are not shipped.
    rows_unreadable: Counter,
}

counters! {
    /// Counters of one socket: its receiver's work, and the outcome of the requests it received.
    SocketCounters;

    /// Datagrams taken from the socket. Each is accepted or invalid.
    datagrams_received: Counter,
    /// Bytes of the datagrams taken from the socket.
    received_bytes: Counter,
    /// Calls to the kernel that brought at least one datagram.
    batches_received: Counter,
    /// Calls to the kernel that failed, time-outs apart.
    receive_errors: Counter,
    /// Datagrams of which at least one request was taken.
    datagrams_accepted: Counter,
    /// Datagrams of which nothing was taken, by the first reason that was found.
    datagrams_invalid: CounterBy<RejectReason, { RejectReason::COUNT }>,
    /// Requests of accepted datagrams, nested ones included. Each is invalid, overwritten, merged
    /// or still waiting.
    requests_decoded: Counter,
    /// Requests of accepted datagrams that were refused, by reason.
    requests_invalid: CounterBy<RejectReason, { RejectReason::COUNT }>,
    /// Elements left out of, or changed in, requests that were taken, by what was done to them.
    elements_mended: CounterBy<Repair, { Repair::COUNT }>,
    /// Requests put into the temporary pool.
    requests_pushed: Counter,
    /// Requests in the temporary pool that gave way to newer ones because it was full.
    requests_overwritten: CachePadded<Counter>,
    /// Requests that the merger took out of the temporary pool.
    requests_popped: CachePadded<Counter>,
    /// Datagrams that the kernel dropped because the socket's receive buffer was full.
    kernel_drops: WrappedCounter,
    /// Bytes that wait in the socket's receive buffer, with the kernel's own book-keeping.
    kernel_queue_bytes: Gauge,
    /// Receive buffer asked for.
    recv_buffer_asked_bytes: Gauge,
    /// Receive buffer granted, in the measure of what was asked for.
    recv_buffer_granted_bytes: Gauge,
}

impl SocketCounters {
    /// Requests that have left the temporary pool, one way or the other.
    pub(crate) fn requests_left(&self) -> u64 {
        let (popped, overwritten) = (&self.requests_popped, &self.requests_overwritten);
        popped.get().saturating_add(overwritten.get())
    }

    /// Adds the counts of a decoded batch; the ring counts what was pushed.
    pub(crate) fn add_decoded(&self, counts: &DecodeCounts) {
        self.datagrams_accepted.add(counts.datagrams_accepted);
        self.datagrams_invalid.add(&counts.datagrams_invalid);
        self.requests_decoded.add(counts.requests_decoded);
        self.requests_invalid.add(&counts.requests_invalid);
        self.elements_mended.add(&counts.repaired);
    }

    /// What was lost before it could be counted in a report: packets that the kernel dropped,
    /// requests that gave way to newer ones, and packets that could not be received.
    pub(super) fn losses(&self) -> [u64; 3] {
        [self.kernel_drops.get(), self.requests_overwritten.get(), self.receive_errors.get()]
    }

    /// All losses.
    pub(crate) fn lost(&self) -> u64 {
        self.losses().iter().sum()
    }
}

counters! {
    /// Counters of the merger, which alone writes them.
    MergeCounters;

    /// Runs of the merger.
    merges: Counter,
    /// Requests merged into the main pool and the reports.
    requests_merged: Counter,
    /// Timers merged into the main pool and the reports.
    timers_merged: Counter,
    /// Rows of requests that left the main pool before their time because it was full.
    rows_evicted: Counter,
    /// Texts that were not kept because the budget for words was used up.
    words_overflowed: Counter,
    /// How late the last run of the merger began, in microseconds.
    merge_lag_us: Gauge,
}

counters! {
    /// Longest holds of the lock over pools and reports since the daemon started.
    LockCounters;

    /// Longest hold of the lock by an answer, in microseconds.
    lock_hold_answers_us: Gauge,
    /// Longest hold of the lock to close ticks, in microseconds.
    lock_hold_closing_us: Gauge,
    /// Longest hold of the lock to take away what left its window, in microseconds.
    lock_hold_leaving_us: Gauge,
}

counters! {
    /// Counters of the MySQL listener.
    MySqlCounters;

    /// Connections that MySQL clients opened.
    mysql_connections: Counter,
    /// Connections of MySQL clients that are open.
    mysql_connections_open: Gauge,
    /// Connections of MySQL clients that were turned away because there were too many.
    mysql_connections_refused: Counter,
    /// MySQL clients that were not let in.
    mysql_logins_refused: Counter,
    /// Statements of MySQL clients, prepared ones when they are executed.
    mysql_statements: Counter,
    /// Errors that MySQL clients were told.
    mysql_errors: Counter,
}

counters! {
    /// Counters of logins, over all front ends.
    LoginCounters;

    /// Logins that were refused because the secret was wrong or the user unknown.
    logins_failed: Counter,
    /// Logins that were refused unseen because of too many failures before.
    logins_held_back: Counter,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::reading::Kind;

    #[test]
    fn the_table_has_every_field_with_its_help() {
        let counters = SocketCounters::default();
        counters.datagrams_received.add(7);
        let mut invalid = [0; RejectReason::COUNT];
        invalid[RejectReason::Lz4Header as usize] = 3;
        counters.datagrams_invalid.add(&invalid);
        let readings = counters.counts().readings();
        assert_eq!(readings.len(), 16);
        assert!(readings.iter().all(|reading| reading.help.ends_with('.')));
        assert_eq!(
            readings[0],
            Reading::new(
                Kind::Counter,
                "datagrams_received",
                "Datagrams taken from the socket. Each is accepted or invalid.",
                7_u64
            )
        );
        let invalid = readings.iter().find(|it| it.name == "datagrams_invalid");
        let reasons = &invalid.unwrap().value;
        assert_eq!(reasons.as_object().unwrap().len(), RejectReason::COUNT);
        assert_eq!(reasons["lz4_header"], 3);
        let gauges = readings.iter().filter(|it| it.kind == Kind::Gauge);
        assert_eq!(
            gauges.map(|it| it.name).collect::<Vec<_>>(),
            ["kernel_queue_bytes", "recv_buffer_asked_bytes", "recv_buffer_granted_bytes"]
        );
    }

    #[test]
    fn names_are_unique() {
        let mut readings = SocketCounters::default().readings();
        readings.extend(MergeCounters::default().readings());
        readings.extend(LockCounters::default().readings());
        readings.extend(MySqlCounters::default().readings());
        readings.extend(LoginCounters::default().readings());
        let mut names: Vec<_> = readings.iter().map(|reading| reading.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), readings.len());
    }

    #[test]
    fn decoded_counts_are_booked_one_to_one() {
        let mut counts =
            DecodeCounts { datagrams_accepted: 1, requests_decoded: 2, ..DecodeCounts::default() };
        counts.datagrams_invalid[RejectReason::Empty as usize] = 3;
        counts.requests_invalid[RejectReason::TooLarge as usize] = 4;
        counts.repaired[Repair::TextCut as usize] = 5;
        let counters = SocketCounters::default();
        counters.add_decoded(&counts);
        counters.add_decoded(&counts);
        let booked = counters.counts();
        assert_eq!((booked.datagrams_accepted.get(), booked.requests_decoded.get()), (2, 4));
        assert_eq!(booked.datagrams_invalid.get()[RejectReason::Empty as usize], 6);
        assert_eq!(booked.requests_invalid.get()[RejectReason::TooLarge as usize], 8);
        assert_eq!(booked.elements_mended.get()[Repair::TextCut as usize], 10);
        assert_eq!(booked.datagrams_invalid.total() + booked.requests_invalid.total(), 14);
    }

    #[test]
    fn what_others_write_has_cache_lines_of_its_own() {
        let counters = SocketCounters::default();
        let base = std::ptr::from_ref(&counters).addr();
        let line = |field: usize| (field - base) / 128;
        let popped = line(std::ptr::from_ref(&*counters.requests_popped).addr());
        let overwritten = line(std::ptr::from_ref(&*counters.requests_overwritten).addr());
        let received = line(std::ptr::from_ref(&counters.datagrams_received).addr());
        let pushed = line(std::ptr::from_ref(&counters.requests_pushed).addr());
        assert_ne!(popped, overwritten);
        for receivers in [received, pushed] {
            assert!(receivers != popped && receivers != overwritten);
        }
    }
}
