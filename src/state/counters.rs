//! Saves counters in a snapshot and restores them, so that they continue to grow after a restart.
//!
//! They are saved by name, so that a daemon with other counters takes those it knows. A snapshot is
//! also written while packets come in; requests between socket and pool at that time are not in it
//! and are subtracted, so that the sums hold again after a restart (received = accepted + invalid;
//! decoded = merged + overwritten + invalid).
//!
//! The kernel counts its drops since a socket was opened. A socket passed by a supervisor and known
//! by its cookie continues from the last reading, so that drops between two processes are counted;
//! any other passed socket starts from its reading at start.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::input::squid::file::Position;
use crate::input::squid::sums::SavedSums;
use crate::input::squid::{LineNumbers, Progress, Source};
use crate::input::udp::kernel;
use crate::input::udp::socket::ReceiveSocket;
use crate::telemetry::counter::Counter;
use crate::telemetry::reading::{Kind, Reading, SeriesCounts};
use crate::telemetry::{Counters, SocketCounters};

/// Largest value that a counter is restored to, so that sums over all sockets do not overflow.
const COUNT_MAX: u64 = 1 << 53;

/// The identity of a socket in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketName {
    /// The address it is bound to, or the source of Squid log lines.
    pub address: String,
    /// The kernel's id for it until reboot; 0 if unknown.
    pub cookie: u64,
}

impl SocketName {
    /// The name of a socket.
    pub(crate) fn of(socket: &ReceiveSocket) -> Self {
        Self { address: socket.address.to_string(), cookie: kernel::cookie(&socket.socket) }
    }
}

/// The name in a snapshot of the counts that `/metrics` leaves out; instead of a reason they have
/// their series, as JSON.
const UNSCRAPED: &str = "unscraped";

/// The counts without requests in flight.
fn settled(counts: SocketCounters) -> SocketCounters {
    let received = counts.datagrams_accepted.get() + counts.datagrams_invalid.total();
    let pushed = counts.requests_popped.get() + counts.requests_overwritten.get();
    let decoded = pushed + counts.requests_invalid.total();
    SocketCounters {
        datagrams_received: Counter::new(received),
        requests_pushed: Counter::new(pushed),
        requests_decoded: Counter::new(decoded),
        ..counts
    }
}

/// The counters in a snapshot.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SavedCounters {
    sockets: Vec<SavedSocket>,
    /// Counters of the merger, the MySQL wire and logins.
    others: Vec<SavedReading>,
    squids: Vec<SavedSquid>,
}

/// The counters of a Squid log source.
#[derive(Debug, Serialize, Deserialize)]
struct SavedSquid {
    from: String,
    progress: Progress,
    readings: Vec<SavedReading>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedSocket {
    address: String,
    cookie: u64,
    /// The kernel's drops at the last reading.
    reading: u32,
    readings: Vec<SavedReading>,
}

/// Name, reason if counted by reason, and count.
type SavedReading = (String, Option<String>, u64);

fn save(readings: &[Reading]) -> Vec<SavedReading> {
    let mut saved = Vec::new();
    for reading in readings.iter().filter(|it| it.kind == Kind::Counter) {
        let name = || reading.name.to_owned();
        let Some(reasons) = reading.value.as_object() else {
            saved.push((name(), None, reading.total()));
            continue;
        };
        let count = |count: &serde_json::Value| count.as_u64().unwrap_or(0);
        let reasons = reasons.iter();
        saved.extend(reasons.map(|(reason, value)| (name(), Some(reason.clone()), count(value))));
    }
    saved
}

/// Calls `to` for each saved counter.
fn restore(saved: &[SavedReading], to: impl Fn(&str, Option<&str>, u64)) {
    for (name, reason, value) in saved {
        to(name, reason.as_deref(), (*value).min(COUNT_MAX));
    }
}

/// The numbers of a followed source's lines, by their names in snapshots: the next ones behind its
/// position, and the first ones that are not in its sums.
fn numbers<'a>(
    next: &'a mut LineNumbers,
    not_in_sums: &'a mut LineNumbers,
) -> [(&'static str, &'a mut u64); 4] {
    [
        ("next_request", &mut next.requests),
        ("next_swap", &mut next.swaps),
        ("next_request_of_sums", &mut not_in_sums.requests),
        ("next_swap_of_sums", &mut not_in_sums.swaps),
    ]
}

/// Names in snapshots of the file that a source had begun last when its sums were taken: numbers of
/// the position in it, and its first lines.
const LAST_FILE: [&str; 6] = [
    "last_file_device",
    "last_file_inode",
    "last_file_offset",
    "last_file_head",
    "last_file_first_request",
    "last_file_first_swap",
];

/// That file, if the snapshot has it.
fn last_file(saved: &[SavedReading]) -> Option<(Position, LineNumbers)> {
    let mut numbers = [0; LAST_FILE.len()];
    for (number, name) in numbers.iter_mut().zip(LAST_FILE) {
        *number = saved.iter().find(|it| it.0 == name)?.2;
    }
    let [device, inode, offset, head, requests, swaps] = numbers;
    let position = Position::of([device, inode, offset, head])?;
    Some((position, LineNumbers { requests, swaps }))
}

impl SavedCounters {
    /// Reads all counters. Call it while nothing can be merged.
    pub(crate) fn of(counters: &Counters, names: &[SocketName]) -> Self {
        // Requests that arrive meanwhile are subtracted again.
        let mut merge = counters.merge.counts();
        let counts: Vec<_> = counters.sockets.iter().map(|it| it.counts()).collect();
        let settled: Vec<_> = counts.into_iter().map(settled).collect();
        let popped = settled.iter().map(|it| it.requests_popped.get());
        merge.requests_merged = Counter::new(popped.sum());
        let mut others = merge.readings();
        others.extend(counters.mysql.counts().readings());
        others.extend(counters.logins.counts().readings());
        let mut others = save(&others);
        others.extend(counters.unscraped.lock().iter().map(|(series, count)| {
            (UNSCRAPED.to_owned(), serde_json::to_string(series).ok(), *count)
        }));
        let sockets = names.iter().zip(&counters.sockets).zip(&settled);
        // Their sockets come last.
        let first = settled.len().saturating_sub(counters.squids.len());
        let of_squids = counters.squids.iter().zip(&settled[first..]);
        let squids = of_squids.map(|(source, settled)| {
            let (progress, counts) = source.at(settled.requests_pushed.get());
            SavedSquid {
                from: source.config.from.to_string(),
                progress,
                readings: save(&counts.readings()),
            }
        });
        Self {
            squids: squids.collect(),
            sockets: sockets
                .map(|((name, live), settled)| SavedSocket {
                    address: name.address.clone(),
                    cookie: name.cookie,
                    reading: live.kernel_drops.reading(),
                    readings: save(&settled.readings()),
                })
                .collect(),
            others,
        }
    }

    /// Takes the sums of the same sources, and notes up to which lines: those behind a position are
    /// read again by the next process. The positions are earlier ones.
    pub(crate) fn take_sums(&mut self, squids: &[Arc<Source>]) -> Vec<SavedSums> {
        let mut all = Vec::new();
        for (source, saved) in squids.iter().zip(&mut self.squids) {
            let sums = source.sums.lock();
            all.extend(sums.save(&saved.from));
            if source.is_followed() {
                let (mut next, mut not_in_sums) = (saved.progress.next, sums.next);
                let numbers = numbers(&mut next, &mut not_in_sums).into_iter();
                let numbers = numbers.map(|(name, number)| (name.to_owned(), None, *number));
                saved.readings.extend(numbers);
                if let Some((position, first)) = sums.file {
                    let [device, inode, offset, head] = position.numbers();
                    let numbers = [device, inode, offset, head, first.requests, first.swaps];
                    let named = LAST_FILE.iter().zip(numbers);
                    saved.readings.extend(named.map(|(name, it)| ((*name).to_owned(), None, it)));
                }
            }
        }
        all
    }

    fn unscraped(&self) -> SeriesCounts {
        let saved = self.others.iter().filter(|(name, ..)| name == UNSCRAPED);
        let saved = saved.filter_map(|(_, series, count)| {
            Some((serde_json::from_str(series.as_deref()?).ok()?, *count))
        });
        saved.collect()
    }

    /// Restores the counters in a new process. Call it before anything counts, with its sockets in
    /// the order of their counters; the other `names` are not sockets. Counts of sources that no
    /// longer exist go to the first.
    pub(crate) fn restore(
        &self,
        counters: &Counters,
        names: &[SocketName],
        sockets: &[ReceiveSocket],
    ) {
        for source in &counters.squids {
            let from = source.config.from.to_string();
            let Some(saved) = self.squids.iter().find(|it| it.from == from) else {
                continue;
            };
            *source.progress.lock() = saved.progress.clone();
            source.sums.lock().file = last_file(&saved.readings);
            restore(&saved.readings, |name, reason, value| {
                source.counters.restore(name, reason, value);
                let (mut progress, mut sums) = (source.progress.lock(), source.sums.lock());
                let numbers = numbers(&mut progress.next, &mut sums.next).into_iter();
                numbers.filter(|it| it.0 == name).for_each(|(_, number)| *number = value);
            });
        }
        let mut taken = vec![false; names.len()];
        for saved in &self.sockets {
            let same = |name: &SocketName| name.cookie != 0 && name.cookie == saved.cookie;
            let alike = |name: &SocketName| name.address == saved.address;
            let free = |at: &usize| !taken[*at];
            let known = (0..names.len()).filter(free).find(|at| same(&names[*at]));
            let found =
                known.or_else(|| (0..names.len()).filter(free).find(|at| alike(&names[*at])));
            if let Some(at) = found {
                taken[at] = true;
            }
            let Some(live) = counters.sockets.get(found.unwrap_or(0)) else { continue };
            // After a reboot another socket may have the cookie; it has dropped less.
            let since = live.kernel_drops.reading().wrapping_sub(saved.reading);
            let socket = known.and_then(|at| sockets.get(at));
            if socket.is_some_and(|it| it.handed_over) && since <= u32::MAX / 2 {
                live.kernel_drops.begin(saved.reading);
            }
            restore(&saved.readings, |name, reason, value| {
                live.restore(name, reason, value);
            });
        }
        restore(&self.others, |name, reason, value| {
            counters.merge.restore(name, reason, value);
            counters.mysql.restore(name, reason, value);
            counters.logins.restore(name, reason, value);
        });
        *counters.unscraped.lock() = self.unscraped();
    }
}

/// Excludes the kernel's drops before the socket was passed to us. Call it first.
pub(crate) fn begin_drops(socket: &ReceiveSocket, counters: &SocketCounters) {
    use std::os::fd::AsFd;
    // A failure leaves 0, and the receiver logs that the kernel cannot be read.
    if let Ok(memory) = kernel::read(socket.socket.as_fd()) {
        counters.kernel_drops.begin(memory.drops);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::input::udp::socket;

    fn named(sockets: &[ReceiveSocket]) -> Vec<SocketName> {
        sockets.iter().map(SocketName::of).collect()
    }

    #[test]
    fn counters_go_on_and_what_was_under_way_is_taken_out() {
        let sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 2, 1 << 16).unwrap();
        let names: Vec<_> = sockets.iter().map(SocketName::of).collect();
        assert!(names[0].cookie != 0 && names[0].cookie != names[1].cookie);
        let before = Counters::new(2);
        let first = &before.sockets[0];
        first.datagrams_received.add(100);
        first.datagrams_accepted.add(90);
        let mut refused = [0; crate::input::record::RejectReason::COUNT];
        refused[0] = 7;
        first.datagrams_invalid.add(&refused);
        first.requests_decoded.add(95);
        first.requests_invalid.add(&refused);
        first.requests_pushed.add(88);
        first.requests_popped.add(80);
        first.requests_overwritten.add(3);
        first.kernel_drops.raise_to(11);
        before.sockets[1].requests_popped.add(5);
        before.merge.requests_merged.add(84);
        before.merge.rows_evicted.add(9);
        before.mysql.mysql_statements.add(21);
        before.mysql.mysql_connections_open.set(3);
        before.logins.logins_failed.add(22);
        let label = ("socket".to_owned(), "0".to_owned());
        let series = ("socket_requests_popped".to_owned(), vec![label]);
        before.unscraped.lock().insert(series, 60);
        let saved = SavedCounters::of(&before, &names);
        // The same sockets in another order.
        let mut swapped = sockets;
        swapped.swap(0, 1);
        swapped.iter_mut().for_each(|it| it.handed_over = true);
        let after = Counters::new(2);
        // One more was dropped meanwhile.
        after.sockets[1].kernel_drops.begin(12);
        saved.restore(&after, &named(&swapped), &swapped);
        let counts = after.sockets[1].counts();
        assert_eq!((counts.datagrams_received.get(), counts.datagrams_accepted.get()), (97, 90));
        assert_eq!(counts.requests_decoded.get(), 80 + 3 + 7);
        assert_eq!(counts.requests_pushed.get(), 83);
        assert_eq!(counts.kernel_drops.get(), 11);
        assert_eq!(after.merge.counts().requests_merged.get(), 85);
        assert_eq!(after.merge.counts().rows_evicted.get(), 9);
        assert_eq!(after.mysql.counts().mysql_statements.get(), 21);
        assert_eq!(after.mysql.counts().mysql_connections_open.get(), 0);
        assert_eq!(after.logins.counts().logins_failed.get(), 22);
        assert_eq!(*after.unscraped.lock(), *before.unscraped.lock());
        // The kernel continues from its last reading, not from zero.
        after.sockets[1].kernel_drops.raise_to(14);
        assert_eq!(after.sockets[1].kernel_drops.get(), 14);
    }

    #[test]
    fn a_socket_that_was_handed_over_begins_with_what_it_says() {
        let socket = socket::open(&["127.0.0.1:0".parse().unwrap()], 1, 1).unwrap();
        let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..50 {
            sender.send_to(&[0; 1000], socket[0].address).unwrap();
        }
        // A busy machine may be late with some.
        let dropped = || crate::input::udp::kernel::read(socket[0].socket.as_fd()).unwrap().drops;
        let start = std::time::Instant::now();
        while dropped() == 0 && start.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        let counters = SocketCounters::default();
        begin_drops(&socket[0], &counters);
        let reading = counters.kernel_drops.reading();
        assert!(reading > 0 && counters.kernel_drops.get() == 0);
        counters.kernel_drops.raise_to(reading + 2);
        assert_eq!(counters.kernel_drops.get(), 2);
    }

    /// After a reboot another socket may have the same cookie: all its drops are counted.
    #[test]
    fn a_cookie_that_came_again_hides_no_drops() {
        let mut sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 1, 1 << 20).unwrap();
        let name = SocketName::of(&sockets[0]);
        let saved = SavedCounters {
            sockets: vec![SavedSocket {
                address: name.address.clone(),
                cookie: name.cookie,
                reading: 1_000,
                readings: Vec::new(),
            }],
            ..SavedCounters::default()
        };
        for handed_over in [false, true] {
            sockets[0].handed_over = handed_over;
            let counters = Counters::new(1);
            begin_drops(&sockets[0], &counters.sockets[0]);
            saved.restore(&counters, &named(&sockets), &sockets);
            counters.sockets[0].kernel_drops.raise_to(3);
            assert_eq!(counters.sockets[0].kernel_drops.get(), 3);
        }
    }
}
