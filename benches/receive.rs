//! A receiver from the socket to the ring, in processor time of its thread per datagram, and what it costs to know where
//! each came from: nobody asks, counts of one source and of a thousand, and a rate for each of them.
//!
//! The datagrams wait in the socket's buffer when the receiver starts, so batches are full and nothing else is waited for.
//! Goal: when nobody asks it costs nothing. Counting is on by default if it costs less than 2 %; it does not
//! (1.01 us without, 1.08 us with one source, 1.14 us with a thousand in turn).

#![expect(clippy::unwrap_used, reason = "a bench has nobody to tell")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use pinbad::clock::{Clock, SystemClock};
use pinbad::input::pinba::Decoder;
use pinbad::input::record::{Hasher, TextLimits};
use pinbad::input::udp::receive;
use pinbad::input::udp::senders::Senders;
use pinbad::input::udp::socket::{self, ReceiveSocket};
use pinbad::ring::{Consumer, Producer, RingPlan, TempRing};
use pinbad::shutdown::Shutdown;
use pinbad::telemetry::{Counters, SocketCounters};
use rustix::time::{ClockId, clock_gettime};

criterion_group!(benches, receive);

/// Datagrams that wait: some 33 MB of the kernel's, less than the buffer.
const DATAGRAMS: usize = 40_000;

fn receive(c: &mut Criterion) {
    let mut group = c.benchmark_group("receive");
    group
        .throughput(Throughput::Elements(DATAGRAMS as u64))
        .sample_size(20);
    let filter = |rate_max| Some(Senders::new(&[], rate_max));
    let mut bench = |name: &str, sources: usize, run: &dyn Fn(&Site) -> Duration| {
        let site = Site::new(sources);
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter_custom(|times| (0..times).map(|_| run(&site)).sum());
        });
    };
    bench("no filter", 1, &|site| site.run(None));
    bench("counted, 1 source", 1, &|site| site.run(filter(0)));
    bench("counted, 1,000 sources", 1000, &|site| site.run(filter(0)));
    bench("no filter, 1,000 sources", 1000, &|site| site.run(None));
    bench("with a rate, 1 source", 1, &|site| {
        site.run(filter(10_000_000))
    });
    group.finish();
}

/// A receiving socket and those that send to it.
struct Site {
    socket: ReceiveSocket,
    senders: Vec<UdpSocket>,
    packets: Vec<Vec<u8>>,
}

impl Site {
    fn new(sources: usize) -> Self {
        let address = "127.0.0.1:0".parse().unwrap();
        let socket = socket::open(&[address], 1, 64_000_000).unwrap().remove(0);
        let sender = |number: usize| {
            let ip = format!("127.1.{}.{}", number / 250, number % 250 + 1);
            let sender = UdpSocket::bind((ip.as_str(), 0)).unwrap();
            sender.connect(socket.address).unwrap();
            sender
        };
        let mut traffic = Traffic::new(&TrafficOptions::default());
        Self {
            senders: (0..sources).map(sender).collect(),
            packets: (0..10_000).map(|_| traffic.packet().to_vec()).collect(),
            socket,
        }
    }

    /// Processor time of a receiver for [`DATAGRAMS`].
    fn run(&self, filter: Option<Arc<Senders>>) -> Duration {
        let packets = self.packets.iter().cycle();
        for (packet, sender) in packets.zip(self.senders.iter().cycle()).take(DATAGRAMS) {
            sender.send(packet).unwrap();
        }
        let counters = Counters::new(1);
        let plan = RingPlan::new(262_144, 128 << 20, 1);
        let (_ring, mut producers, consumer) = TempRing::new(plan, &counters.sockets);
        let producer = producers.remove(0);
        let shutdown = Shutdown::new();
        let counters = &counters.sockets[0];
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| self.take(filter, producer, consumer, counters, &shutdown));
            while counters.datagrams_received.get() < DATAGRAMS as u64 {
                std::thread::sleep(Duration::from_millis(1));
            }
            shutdown.request();
            taker.join().unwrap()
        })
    }

    fn take(
        &self,
        filter: Option<Arc<Senders>>,
        producer: Producer,
        _outlet: Consumer,
        counters: &Arc<SocketCounters>,
        shutdown: &Shutdown,
    ) -> Duration {
        let clock: &dyn Clock = &SystemClock::new();
        let decoder = Decoder::new(TextLimits::default(), Hasher::new());
        let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
        let start = now();
        receive::run(
            &self.socket,
            filter,
            decoder,
            producer,
            counters,
            clock,
            shutdown,
        );
        now() - start
    }
}
