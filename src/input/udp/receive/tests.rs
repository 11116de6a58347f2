//! Receivers on the loopback: every datagram ends in one counter, and the sums hold.
//!
//! The senders wait when too much is in flight, so that even a machine that grants a small receive
//! buffer drops nothing; time stands still on a clock moved by hand.

use std::net::{SocketAddr, UdpSocket};

use prost::Message as _;

use super::*;
use crate::clock::ManualClock;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, Record, RejectReason, TextLimits};
use crate::input::udp::socket;
use crate::ring::{Consumer, RingPlan, TempRing};
use crate::telemetry::{Counters, SocketCounters};

const SECOND: u32 = 1_700_000_000;

const HOSTS: [&str; 2] = ["web-1", "web-2"];

/// Most datagrams in flight, and bytes: even if the kernel gives all of them to one socket, with a
/// page of overhead each, they fit the buffer that every user is granted (twice 212,992 bytes).
const UNDER_WAY_MAX: u64 = 60;
const UNDER_WAY_BYTES_MAX: u64 = 100_000;

fn request(host: &str) -> model::Request {
    let mut request = model::Request::named(host, "example.org", "/index.php");
    request.request_time = Some(0.25);
    request.add_timer(1, 0.125, &[("group", "db")]);
    request
}

fn nested(host: &str, good: bool) -> model::NestedRequest {
    let mut nested = model::NestedRequest::named(host, "example.org", "/nested.php");
    if !good {
        // V2: a name without a value.
        let word = nested.word("env");
        nested.tag_name.push(word);
    }
    nested
}

/// The expected result of one datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Expected {
    datagrams: u64,
    bytes: u64,
    accepted: u64,
    decoded: u64,
    requests_invalid: u64,
}

/// The kinds of datagram in the mix, with their expected results.
fn mix(host: &str) -> Vec<(Vec<u8>, Expected)> {
    let taken = |decoded, requests_invalid| Expected {
        accepted: 1,
        decoded,
        requests_invalid,
        ..Expected::default()
    };
    let invalid = Expected::default();
    let plain = request(host).encode_to_vec();

    let mut with_nested = request(host);
    with_nested.requests = vec![nested(host, true), nested(host, false), nested(host, true)];

    let mut unequal = request(host);
    unequal.timer_value.clear();

    // As long as IPv4 carries, to the byte: padded with words that no tag uses.
    let mut largest = request(host);
    while largest.encoded_len() + 203 <= 65_507 {
        largest.dictionary.push(vec![b'w'; 200]);
    }
    let rest = 65_507 - largest.encoded_len();
    largest.dictionary.push(vec![b'w'; rest.saturating_sub(if rest > 129 { 3 } else { 2 })]);
    let largest = largest.encode_to_vec();
    assert_eq!(largest.len(), 65_507);

    vec![
        (plain.clone(), taken(1, 0)),
        (plain.clone(), taken(1, 0)),
        (with_nested.encode_to_vec(), taken(4, 1)),
        (plain[..plain.len() / 2].to_vec(), invalid),
        (plain[..plain.len() - 1].to_vec(), invalid),
        (vec![0xff; 300], invalid),
        (Vec::new(), invalid),
        (unequal.encode_to_vec(), invalid),
        ([&[0x10, 0, 0, 0], &plain[..]].concat(), invalid),
        // The last two are the large ones.
        (largest, taken(1, 0)),
        (vec![0xff; 65_507], invalid),
    ]
}

/// Stops the receivers even if the test fails, so that it fails and does not hang.
struct StopAtEnd<'a>(&'a Shutdown);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.request();
    }
}

/// Waits until the receivers have reached a point.
fn wait(counters: &Counters, mut reached: impl FnMut(&SocketCounters) -> bool) {
    let start = std::time::Instant::now();
    while !reached(&counters.total()) {
        assert!(start.elapsed() < Duration::from_secs(60), "lost: {:?}", counters.total());
        thread::yield_now();
    }
}

/// Sends `count` datagrams of the mix in turn from one socket for each of `HOSTS`, and waits until
/// all are received. Two in 50 have 65,507 bytes. Returns their expected results.
fn send(to: SocketAddr, count: u64, counters: &Counters) -> Expected {
    let sources = HOSTS.map(|host| (UdpSocket::bind("127.0.0.1:0").unwrap(), mix(host)));
    let mut sent = Expected::default();
    for index in 0..count as usize {
        let (source, mix) = &sources[index % HOSTS.len()];
        let (small, large) = mix.split_at(mix.len() - 2);
        let (datagram, expected) = match index % 50 {
            0 | 1 => &large[index / 50 % large.len()],
            _ => &small[index / HOSTS.len() % small.len()],
        };
        wait(counters, |now| {
            sent.datagrams - now.datagrams_received.get() < UNDER_WAY_MAX
                && sent.bytes - now.received_bytes.get() < UNDER_WAY_BYTES_MAX
        });
        assert_eq!(source.send_to(datagram, to).unwrap(), datagram.len());
        sent.datagrams += 1;
        sent.bytes += datagram.len() as u64;
        sent.accepted += expected.accepted;
        sent.decoded += expected.decoded;
        sent.requests_invalid += expected.requests_invalid;
    }
    wait(counters, |now| now.datagrams_received.get() == count);
    sent
}

/// Drains the ring and counts by host.
fn drain(consumer: &mut Consumer, by_host: &mut [u64; 2]) {
    while let Some(block) = consumer.pop() {
        let mut rest = &block.bytes[..];
        let mut requests = 0;
        while let Some(record) = Record::next(&mut rest) {
            assert_eq!(record.received_secs(), SECOND);
            assert_eq!(record.server_name(), b"example.org");
            let host = HOSTS.iter().position(|host| host.as_bytes() == record.hostname());
            by_host[host.unwrap()] += 1;
            requests += 1;
        }
        assert_eq!((rest.len(), requests), (0, block.requests));
        consumer.give_back(block);
    }
}

/// Two receivers take `count` datagrams; the ring is drained at the end, and before if
/// `drain_meanwhile`.
fn run_mix(
    temp_pool_size: usize,
    count: u64,
    drain_meanwhile: bool,
) -> (Counters, Expected, [u64; 2]) {
    let sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 2, 4 << 20).unwrap();
    let counters = Counters::new(sockets.len());
    let plan = RingPlan::new(temp_pool_size, temp_pool_size * 512, sockets.len());
    let (ring, producers, mut consumer) = TempRing::new(plan, &counters.sockets);
    let clock = ManualClock::new(u64::from(SECOND) * 1000);
    let shutdown = Shutdown::new();
    let hasher = Hasher::new();
    let mut by_host = [0; 2];
    let sent = thread::scope(|scope| {
        let _stop = StopAtEnd(&shutdown);
        for ((socket, producer), counters) in sockets.iter().zip(producers).zip(&counters.sockets) {
            let decoder = Decoder::new(TextLimits::default(), hasher.clone());
            let (clock, shutdown) = (&clock, &shutdown);
            scope.spawn(move || {
                run(socket, None, decoder, producer, counters, clock, shutdown);
            });
        }
        let sender = scope.spawn(|| send(sockets[0].address, count, &counters));
        while drain_meanwhile && !sender.is_finished() {
            drain(&mut consumer, &mut by_host);
            thread::yield_now();
        }
        let sent = sender.join().unwrap();
        // Everything comes out while the receivers still run.
        wait(&counters, |_| {
            if !drain_meanwhile {
                return true;
            }
            drain(&mut consumer, &mut by_host);
            by_host.iter().sum::<u64>() == sent.decoded - sent.requests_invalid
        });
        sent
    });
    drain(&mut consumer, &mut by_host);
    assert_eq!(ring.depth(), 0);
    (counters, sent, by_host)
}

/// The sums that hold at rest, for one socket as for all.
fn assert_sums(counts: &SocketCounters) {
    assert_eq!(
        counts.datagrams_received.get(),
        counts.datagrams_accepted.get() + counts.datagrams_invalid.total()
    );
    assert_eq!(
        counts.requests_decoded.get(),
        counts.requests_popped.get()
            + counts.requests_overwritten.get()
            + counts.requests_invalid.total()
    );
    assert_eq!(
        counts.requests_decoded.get(),
        counts.requests_pushed.get() + counts.requests_invalid.total()
    );
    assert_eq!(counts.kernel_drops.get(), 0);
    assert_eq!(counts.receive_errors.get(), 0);
}

fn assert_all_counted(counters: &Counters, sent: Expected) -> SocketCounters {
    for socket in &counters.sockets {
        assert_sums(&socket.counts());
    }
    let total = counters.total();
    assert_sums(&total);
    let seen = Expected {
        datagrams: total.datagrams_received.get(),
        bytes: total.received_bytes.get(),
        accepted: total.datagrams_accepted.get(),
        decoded: total.requests_decoded.get(),
        requests_invalid: total.requests_invalid.total(),
    };
    assert_eq!(seen, sent);
    assert!(
        total.batches_received.get() > 0
            && total.batches_received.get() <= total.datagrams_received.get()
    );
    total
}

#[test]
fn twenty_thousand_mixed_datagrams_are_all_accounted_for() {
    let (counters, sent, by_host) = run_mix(100_000, 20_000, true);
    let total = assert_all_counted(&counters, sent);
    assert_eq!(total.requests_overwritten.get(), 0);
    assert_eq!(by_host.iter().sum::<u64>(), sent.decoded - sent.requests_invalid);
    assert_eq!(by_host[0], by_host[1], "every kind was sent from both as often");
    let by = |reason: RejectReason| total.datagrams_invalid.get()[reason as usize];
    assert_eq!(by(RejectReason::Empty), sent_of_kind(6));
    assert_eq!(by(RejectReason::TimerCounts), sent_of_kind(7));
    assert_eq!(by(RejectReason::Lz4Header), sent_of_kind(8));
    assert_eq!(
        total.requests_invalid.get()[RejectReason::RequestTagCounts as usize],
        sent_of_kind(2)
    );
}

/// How many of 20,000 datagrams are of small kind `kind`.
fn sent_of_kind(kind: usize) -> u64 {
    let small = (0..20_000_usize).filter(|index| index % 50 > 1);
    small.filter(|index| index / 2 % 9 == kind).count() as u64
}

#[test]
fn a_ring_that_overflows_loses_requests_but_no_count() {
    let (counters, sent, by_host) = run_mix(100, 5_000, false);
    let total = assert_all_counted(&counters, sent);
    assert!(total.requests_overwritten.get() > 0);
    let kept: u64 = by_host.iter().sum();
    assert_eq!(kept, total.requests_popped.get());
    assert_eq!(kept + total.requests_overwritten.get(), sent.decoded - sent.requests_invalid);
}

#[test]
fn what_the_kernel_dropped_stands_beside_what_was_received() {
    let sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 1, 1).unwrap();
    let counters = Counters::new(1);
    let (_, mut producers, _outlet) = TempRing::new(RingPlan::new(1000, 0, 1), &counters.sockets);
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    let packet = request("web-1").encode_to_vec();
    for _ in 0..100 {
        source.send_to(&packet, sockets[0].address).unwrap();
    }
    let clock = ManualClock::new(0);
    let shutdown = Shutdown::new();
    thread::scope(|scope| {
        let _stop = StopAtEnd(&shutdown);
        let producer = producers.remove(0);
        let decoder = Decoder::new(TextLimits::default(), Hasher::new());
        let to = &sockets[0];
        scope.spawn(|| {
            run(to, None, decoder, producer, &counters.sockets[0], &clock, &shutdown);
        });
        wait(&counters, |now| {
            now.kernel_drops.get() > 0
                && now.kernel_drops.get() + now.datagrams_received.get() == 100
        });
    });
    let counts = counters.total();
    assert_eq!(counts.recv_buffer_asked_bytes.get(), 1);
    assert!(counts.recv_buffer_granted_bytes.get() > 1, "the kernel has a least size");
}

#[test]
fn a_stop_is_heeded_without_traffic() {
    let sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 1, 1 << 16).unwrap();
    let counters = Counters::new(1);
    let (_, mut producers, _outlet) = TempRing::new(RingPlan::new(1000, 0, 1), &counters.sockets);
    let decoder = Decoder::new(TextLimits::default(), Hasher::new());
    let (clock, shutdown) = (ManualClock::new(0), Shutdown::new());
    let producer = producers.remove(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            run(&sockets[0], None, decoder, producer, &counters.sockets[0], &clock, &shutdown);
        });
        // It may be waiting already, or not yet.
        thread::sleep(Duration::from_millis(20));
        shutdown.request();
        let start = Instant::now();
        while !receiver.is_finished() && start.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        let heeded = receiver.is_finished();
        // Wakes it whatever it waits for: the test fails and does not hang.
        let waker = UdpSocket::bind("127.0.0.1:0").unwrap();
        waker.send_to(b"", sockets[0].address).unwrap();
        assert!(heeded, "it waits for a datagram");
    });
}

/// Those who read the counters live on until everything is written; the socket does not, so that no
/// packet waits there for a receiver that has ended.
#[test]
fn a_socket_closes_with_its_receiver() {
    let mut sockets = socket::open(&["127.0.0.1:0".parse().unwrap()], 1, 1 << 16).unwrap();
    let socket = sockets.remove(0);
    let address = socket.address;
    let counters = Counters::new(1);
    let (_, mut producers, _outlet) = TempRing::new(RingPlan::new(1000, 0, 1), &counters.sockets);
    let producer = producers.remove(0);
    let decoder = Decoder::new(TextLimits::default(), Hasher::new());
    let (clock, shutdown) = (ManualClock::new(0), Shutdown::new());
    let gauge = KernelGauge::new(&socket.socket, Arc::clone(&counters.sockets[0]));
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(address).unwrap();
    let packet = request("web-1").encode_to_vec();
    for _ in 0..50 {
        source.send(&packet).unwrap();
    }
    thread::scope(|scope| {
        let _stop = StopAtEnd(&shutdown);
        let (of_socket, clock, stop) = (&counters.sockets[0], &clock, &shutdown);
        scope.spawn(move || run(&socket, None, decoder, producer, of_socket, clock, stop));
        wait(&counters, |now| now.datagrams_received.get() == 50);
    });
    gauge.refresh().unwrap();
    // The kernel answers one, and the sender learns of that with another.
    let start = Instant::now();
    let error = loop {
        match source.send(&packet) {
            Err(error) => break error,
            Ok(_) => assert!(start.elapsed() < Duration::from_secs(60), "it is open"),
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}

/// A pause never lasts longer than a part of the buffer, and only occurs while packets arrive fast.
#[test]
fn pauses_are_for_packets_that_come_fast() {
    let long = Pauses::new(64_000_000);
    assert_eq!(long.length, PAUSE_MAX);
    // Linux' default: a quarter of it, at half a kilobyte a microsecond.
    assert_eq!(Pauses::new(212_992).length, Duration::from_micros(104));
    assert_eq!(Pauses::new(0).length, Duration::ZERO);
    let mut pauses = Pauses { length: Duration::from_millis(40), last: None };
    let mut now = Instant::now();
    assert!(!pauses.due(1, now), "the first for a long time");
    assert!(!pauses.due(BATCH_DATAGRAMS_MAX, now), "more is waiting");
    now += Duration::from_millis(9);
    assert!(pauses.due(1, now), "right after another");
    now += Duration::from_millis(10);
    assert!(!pauses.due(1, now), "long after another");
    pauses.last = None;
    assert!(pauses.due(2, now), "two at once");
    let start = Instant::now();
    pauses.after(2);
    assert!(start.elapsed() >= pauses.length);
}
