//! The counters: one struct a stage, one field a counter. The field's name, type and comment are all there is to declare:
//! the status, `SHOW STATUS`, the metrics with their kind and help, and the snapshot follow from it.
//!
//! A receiver writes the [`SocketCounters`] of its socket, once a batch; the merger the one set of [`MergeCounters`].
//! Readers take a copy, a set of their own, that can be summed up and listed as [`Reading`]s.
//! Counters only grow, across restarts too when there is a snapshot; gauges are not in it.
//!
//! The sums (received = accepted + invalid; decoded = invalid + overwritten + popped) are exact at rest; in a running
//! daemon a copy may be one batch apart. Adds are Release and reads Acquire: who sees a request leave the ring also
//! sees that it came.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam::utils::CachePadded;
use serde_json::Value as Json;

use super::reading::{Kind, Reading};
use crate::input::record::{DecodeCounts, RejectReason, Repair};
use crate::input::squid::Source;
use crate::input::squid::line::BadLine;

/// What is to be known of a field: how it is summed up, shown, and restored.
pub trait Cell {
    /// How it moves.
    const KIND: Kind = Kind::Counter;
    /// Adds the value of another one.
    fn absorb(&self, more: &Self);
    /// Goes on from what another process had counted, for this reason if it counts by reason.
    fn restore(&self, reason: Option<&str>, value: u64);
    /// The value as it is shown.
    fn value(&self) -> Json;
}

/// A field that is one number.
macro_rules! number {
    ($cell:ident, $kind:ident, $to:tt, $restore:expr) => {
        impl Cell for $cell {
            const KIND: Kind = Kind::$kind;
            fn absorb(&self, more: &Self) {
                self.$to.fetch_add(more.get(), Ordering::AcqRel);
            }
            fn restore(&self, _reason: Option<&str>, value: u64) {
                let restore: fn(&Self, u64) = $restore;
                restore(self, value);
            }
            fn value(&self) -> Json {
                self.get().into()
            }
        }
    };
}

number!(Counter, Counter, 0, Self::add);
number!(Gauge, Gauge, 0, |_, _| {});
number!(WrappedCounter, Counter, offset, |cell, value| {
    cell.offset.fetch_add(value, Ordering::AcqRel);
});

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One that has counted so far.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    /// Adds `count`; nothing is written for 0.
    #[inline]
    pub fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Release);
        }
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A number that moves both ways.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }

    /// Replaces the value by the microseconds since then, if these are more.
    pub fn raise_to_us_since(&self, then: Instant) {
        let us = then.elapsed().as_micros() as u64;
        self.0.fetch_max(us, Ordering::Release);
    }

    /// The present value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A counter that somebody else keeps in 32 bits and lets wrap round: the kernel.
#[derive(Debug, Default)]
pub struct WrappedCounter {
    /// The kernel's count, in 64 bits.
    seen: AtomicU64,
    /// What is to be added to it, modulo 2^64: what was counted before the kernel's count that is known first, less that.
    offset: AtomicU64,
}

impl WrappedCounter {
    /// Counts from this reading of the kernel on: what it had counted up to then is not ours. To be called before the
    /// first [`raise_to`](Self::raise_to).
    pub fn begin(&self, reading: u32) {
        let before = self.get();
        self.seen.store(reading.into(), Ordering::Release);
        let offset = before.wrapping_sub(reading.into());
        self.offset.store(offset, Ordering::Release);
    }

    /// The last reading of the kernel.
    #[must_use]
    pub fn reading(&self) -> u32 {
        (self.seen.load(Ordering::Acquire) & u64::from(u32::MAX)) as u32
    }

    /// Takes over a reading. Several threads may do so at once and in any order: one that is older than what is known
    /// already (by less than 2^31) changes nothing.
    pub fn raise_to(&self, reading: u32) {
        let known = &self.seen;
        let mut before = known.load(Ordering::Relaxed);
        loop {
            // The low 32 bits are the last reading, so the difference is exact across a wrap.
            let grown = reading.wrapping_sub((before & u64::from(u32::MAX)) as u32);
            if grown == 0 || grown > u32::MAX / 2 {
                return;
            }
            let after = before + u64::from(grown);
            match known.compare_exchange_weak(before, after, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        let seen = self.seen.load(Ordering::Acquire);
        seen.wrapping_add(self.offset.load(Ordering::Acquire))
    }
}

/// The reasons that a counter can be split by.
pub trait Reason {
    /// What the reason with number `index` is called.
    fn name_of(index: usize) -> &'static str;
}

impl Reason for RejectReason {
    fn name_of(index: usize) -> &'static str {
        Self::ALL[index].name()
    }
}

impl Reason for BadLine {
    fn name_of(index: usize) -> &'static str {
        Self::ALL[index].name()
    }
}

impl Reason for Repair {
    fn name_of(index: usize) -> &'static str {
        Self::ALL[index].name()
    }
}

/// One counter for each of the `N` reasons `R`.
#[derive(Debug)]
pub struct CounterBy<R, const N: usize> {
    counts: [Counter; N],
    reasons: PhantomData<fn(R)>,
}

impl<R: Reason, const N: usize> CounterBy<R, N> {
    /// Adds to each reason's count.
    #[inline]
    pub fn add(&self, counts: &[u64; N]) {
        for (counter, count) in self.counts.iter().zip(counts) {
            counter.add(*count);
        }
    }

    /// Adds one to the count of the reason with this number.
    pub fn add_one(&self, reason: usize) {
        self.counts[reason].add(1);
    }

    /// The counts so far, in the order of the reasons' numbers.
    #[must_use]
    pub fn get(&self) -> [u64; N] {
        std::array::from_fn(|reason| self.counts[reason].get())
    }

    /// Over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.get().iter().sum()
    }
}

impl<R, const N: usize> Default for CounterBy<R, N> {
    fn default() -> Self {
        Self {
            counts: std::array::from_fn(|_| Counter::default()),
            reasons: PhantomData,
        }
    }
}

impl<R: Reason, const N: usize> Cell for CounterBy<R, N> {
    fn absorb(&self, more: &Self) {
        self.add(&more.get());
    }
    fn restore(&self, reason: Option<&str>, value: u64) {
        if let Some(at) = (0..N).find(|&at| reason == Some(R::name_of(at))) {
            self.counts[at].add(value);
        }
    }
    fn value(&self) -> Json {
        let counts = self.get().into_iter().enumerate();
        counts
            .map(|(at, count)| (R::name_of(at).to_owned(), count.into()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// A field on cache lines of its own, because another thread writes it than its neighbours.
impl<C: Cell> Cell for CachePadded<C> {
    const KIND: Kind = C::KIND;
    fn absorb(&self, more: &Self) {
        C::absorb(self, more);
    }
    fn restore(&self, reason: Option<&str>, value: u64) {
        C::restore(self, reason, value);
    }
    fn value(&self) -> Json {
        C::value(self)
    }
}

/// Declares a struct of counters.
macro_rules! counters {
    ( $(#[$about:meta])* $name:ident; $( $(#[doc = $help:literal])+ $field:ident: $cell:ty, )+ ) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: $cell, )+
        }

        impl $name {
            /// A copy of all values.
            #[must_use]
            pub fn counts(&self) -> Self {
                let counts = Self::default();
                counts.absorb(self);
                counts
            }

            /// Adds the values of `more`, field by field; those that are listed later are read first.
            pub fn absorb(&self, more: &Self) {
                counters!(@absorb self, more, [ $($field)+ ]);
            }

            /// Goes on from what another process had counted; nothing when there is no such counter any more.
            pub fn restore(&self, name: &str, reason: Option<&str>, value: u64) {
                match name {
                    $( stringify!($field) => Cell::restore(&self.$field, reason, value), )+
                    _ => {}
                }
            }

            /// All values, in the order of declaration.
            #[must_use]
            pub fn readings(&self) -> Vec<Reading> {
                vec![ $( Reading {
                    name: stringify!($field),
                    metric: None,
                    help: concat!($($help),+).trim_ascii(),
                    kind: <$cell as Cell>::KIND,
                    value: Cell::value(&self.$field),
                } ),+ ]
            }
        }
    };
    // Last field first.
    (@absorb $to:ident, $from:ident, [ $first:ident $($rest:ident)* ]) => {
        counters!(@absorb $to, $from, [ $($rest)* ]);
        Cell::absorb(&$to.$first, &$from.$first);
    };
    (@absorb $to:ident, $from:ident, []) => {};
}

counters! {
    /// What became of the rows of history; the series thread and the history thread count.
    HistoryCounters;

    /// Times that what was in memory was written to history.dir.
    flushes: Counter,
    /// Attempts to write to history.dir that failed; they are repeated.
    failures: Counter,
    /// Rows that went to (other) because history.memory was used up.
    keys_folded: Counter,
    /// Rows that lost their percentiles because history.memory was used up.
    histograms_dropped: Counter,
    /// Rows that were lost because nothing could be written for long and history.memory was used up.
    rows_lost: Counter,
    /// Requests that history could not count, because the series thread fell behind.
    requests_missed: Counter,
}

counters! {
    /// What happened at one socket: its receiver's work, and what became of the requests it brought.
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
    /// Requests of accepted datagrams, nested ones included. Each is invalid, overwritten, merged or still waiting.
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
    /// Books what a decoder saw in one batch; what it pushed is counted by the ring.
    pub fn add_decoded(&self, counts: &DecodeCounts) {
        self.datagrams_accepted.add(counts.datagrams_accepted);
        self.datagrams_invalid.add(&counts.datagrams_invalid);
        self.requests_decoded.add(counts.requests_decoded);
        self.requests_invalid.add(&counts.requests_invalid);
        self.elements_mended.add(&counts.repaired);
    }
}

counters! {
    /// What came of one `[[squid]]` source. Its thread alone writes them.
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
    /// Times that a file was opened, or began anew.
    files_opened: Counter,
}

counters! {
    /// What the merger did. It alone writes them.
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
    /// How long the lock over pools and reports was held at once since the daemon started.
    LockCounters;

    /// Longest hold of the lock by an answer, in microseconds.
    lock_hold_answers_us: Gauge,
    /// Longest hold of the lock to close ticks, in microseconds.
    lock_hold_closing_us: Gauge,
    /// Longest hold of the lock to take away what left its window, in microseconds.
    lock_hold_leaving_us: Gauge,
}

counters! {
    /// What the MySQL wire did.
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
    /// How logins went, over all front ends.
    LoginCounters;

    /// Logins that were refused because the secret was wrong or the user unknown.
    logins_failed: Counter,
    /// Logins that were refused unseen because of too many failures before.
    logins_held_back: Counter,
}

/// All counters of one daemon.
#[derive(Debug, Clone)]
pub struct Counters {
    /// One set a socket, in the order in which they were opened, and one a source of Squid's lines.
    pub sockets: Vec<Arc<SocketCounters>>,
    /// The merger's.
    pub merge: Arc<MergeCounters>,
    /// Of the MySQL wire.
    pub mysql: Arc<MySqlCounters>,
    /// Of logins.
    pub logins: Arc<LoginCounters>,
    /// The sources of Squid's lines, whose sockets come last.
    pub squids: Vec<Arc<Source>>,
}

impl Counters {
    /// Counters for `sockets` sockets, all zero.
    #[must_use]
    pub fn new(sockets: usize) -> Self {
        Self {
            sockets: (0..sockets).map(|_| Arc::default()).collect(),
            merge: Arc::default(),
            mysql: Arc::default(),
            logins: Arc::default(),
            squids: Vec::new(),
        }
    }

    /// The sum over all sockets.
    #[must_use]
    pub fn total(&self) -> SocketCounters {
        let total = SocketCounters::default();
        self.sockets.iter().for_each(|it| total.absorb(it));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            [
                "kernel_queue_bytes",
                "recv_buffer_asked_bytes",
                "recv_buffer_granted_bytes"
            ]
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
    fn sockets_add_up() {
        let counters = Counters::new(3);
        for (socket, count) in counters.sockets.iter().zip([1, 20, 300]) {
            socket.requests_decoded.add(count);
            let mut invalid = [0; RejectReason::COUNT];
            invalid[RejectReason::Empty as usize] = count;
            socket.requests_invalid.add(&invalid);
            socket.requests_popped.add(count);
        }
        let total = counters.total();
        assert_eq!(total.requests_decoded.get(), 321);
        assert_eq!(total.requests_invalid.total(), 321);
        assert_eq!(total.requests_popped.get(), 321);
    }

    #[test]
    fn decoded_counts_are_booked_one_to_one() {
        let mut counts = DecodeCounts {
            datagrams_accepted: 1,
            requests_decoded: 2,
            ..DecodeCounts::default()
        };
        counts.datagrams_invalid[RejectReason::Empty as usize] = 3;
        counts.requests_invalid[RejectReason::TooLarge as usize] = 4;
        counts.repaired[Repair::TextCut as usize] = 5;
        let counters = SocketCounters::default();
        counters.add_decoded(&counts);
        counters.add_decoded(&counts);
        let booked = counters.counts();
        assert_eq!(
            (
                booked.datagrams_accepted.get(),
                booked.requests_decoded.get()
            ),
            (2, 4)
        );
        assert_eq!(
            booked.datagrams_invalid.get()[RejectReason::Empty as usize],
            6
        );
        assert_eq!(
            booked.requests_invalid.get()[RejectReason::TooLarge as usize],
            8
        );
        assert_eq!(booked.elements_mended.get()[Repair::TextCut as usize], 10);
        assert_eq!(
            booked.datagrams_invalid.total() + booked.requests_invalid.total(),
            14
        );
    }

    #[test]
    fn the_kernels_counter_goes_on_past_32_bits() {
        let drops = WrappedCounter::default();
        drops.raise_to(10);
        drops.raise_to(10);
        drops.raise_to(2_000_000_000);
        drops.raise_to(4_000_000_000);
        drops.raise_to(5);
        assert_eq!(drops.get(), (1 << 32) + 5);
        // A thread that read before the others and comes late.
        drops.raise_to(u32::MAX);
        assert_eq!(drops.get(), (1 << 32) + 5);
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
