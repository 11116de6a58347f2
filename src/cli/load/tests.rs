//! Whole runs, over real sockets on loopback.

use super::*;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

/// Packets of a run with a known end. An ordinary receive buffer (212,992 bytes) holds them all, so
/// none is lost however long the sink waits for a processor.
const FITS: u64 = 120;

/// A socket that is read after everything has been sent, so the speed of this machine does not
/// matter.
struct Sink(UdpSocket);

impl Sink {
    fn open() -> (SocketAddr, Self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (socket.local_addr().unwrap(), Self(socket))
    }

    /// Recounts that many packets with prost, and asserts that no more came.
    fn take(self, packets: u64) -> totals::Totals {
        let mut tally = totals::Tally::default();
        let mut buffer = vec![0; 65_536];
        for taken in 0..packets {
            let bytes = self.0.recv(&mut buffer);
            let bytes = bytes.unwrap_or_else(|error| panic!("{taken} of {packets}: {error}"));
            let packet = prost::Message::decode(&buffer[..bytes]).unwrap();
            tally.add_packet(&packet, bytes, 1);
        }
        self.0.set_nonblocking(true).unwrap();
        assert!(self.0.recv(&mut buffer).is_err(), "more than {packets}");
        tally.totals()
    }
}

/// Returns an address of this machine on which nobody listens as long as the socket is kept: it is
/// connected to itself, so the kernel has no receiver for packets from others and gives the port to
/// nobody else.
fn nobody() -> (SocketAddr, UdpSocket) {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    taken.connect(address).unwrap();
    (address, taken)
}

fn options(target: SocketAddr) -> LoadOptions {
    LoadOptions { target, corpus: 50, ..LoadOptions::default() }
}

fn run_quietly(options: &LoadOptions) -> io::Result<Summary> {
    run(options, &Shutdown::new(), &mut std::io::sink())
}

#[test]
fn what_arrives_is_what_was_said_to_be_sent() {
    for (senders, count, gso) in [(1, 1, 1), (1, FITS, 1), (3, 101, 1), (2, 101, 16)] {
        let (target, sink) = Sink::open();
        let mut options = options(target);
        options.senders = senders;
        options.gso = gso;
        options.count = Some(count);
        options.rate = 5000.0;
        options.traffic.timers = 2;
        options.traffic.request_tags = 2;
        let summary = run_quietly(&options).unwrap();
        assert!(summary.sent.ended_by.is_none());
        assert_eq!((summary.totals.packets, summary.missed()), (count, 0));
        assert_eq!(summary.totals.timers, 2 * count);
        assert_eq!(sink.take(count), summary.totals);
    }
}

#[test]
fn senders_together_send_each_packet_once() {
    let totals = [1, 4].map(|senders| {
        let (target, sink) = Sink::open();
        let options =
            LoadOptions { senders, count: Some(101), corpus: 101, rate: 5000.0, ..options(target) };
        run_quietly(&options).unwrap();
        sink.take(101)
    });
    assert_eq!(totals[0], totals[1]);
}

#[test]
fn the_rate_is_kept() {
    // A busy machine may miss the rate, and then says so. At least one of many runs keeps it.
    let kept = (0..50).any(|_| {
        let (target, sink) = Sink::open();
        let options = LoadOptions {
            rate: 4.0 * FITS as f64,
            duration: Some(Duration::from_millis(250)),
            ..options(target)
        };
        let summary = run_quietly(&options).unwrap();
        // The plan is exact, and nothing leaves early.
        assert_eq!(summary.sent.planned, Some(FITS));
        assert_eq!(summary.totals.packets + summary.missed(), FITS);
        assert!(summary.sent.seconds > 0.24, "{summary}");
        let packets = summary.totals.packets;
        assert_eq!(sink.take(packets).packets, packets);
        summary.missed() == 0 && summary.sent.seconds < 0.4
    });
    assert!(kept, "not once in 50 runs");
}

#[test]
fn a_slow_rate_costs_no_cpu() {
    let (target, sink) = Sink::open();
    let options =
        LoadOptions { rate: 20.0, duration: Some(Duration::from_millis(400)), ..options(target) };
    let summary = run_quietly(&options).unwrap();
    assert_eq!(summary.totals.packets + summary.missed(), 8);
    // Processor time, which does not grow on a busy machine: some 1 ms, against 400 ms of a busy
    // loop.
    assert!(summary.sent.sender_cpu < Duration::from_millis(100), "{:?}", summary.sent.sender_cpu);
    sink.take(summary.totals.packets);
}

#[test]
fn nobody_listening_is_said_even_of_a_single_packet() {
    let (target, _taken) = nobody();
    // Without a count the time ends it, behind a whole batch.
    for count in [Some(1), Some(100_000), None] {
        let mut out = Vec::new();
        let options = LoadOptions { count, rate: 0.0, ..options(target) };
        let error = execute(&options, &Shutdown::new(), &mut out, &mut std::io::sink());
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("nobody listens on 127.0.0.1:"), "{error}");
        assert!(String::from_utf8(out).unwrap().starts_with("sent "));
    }
}

#[test]
fn only_loopback_is_sent_to_unasked() {
    for target in "192.0.2.1:30002 [2001:db8::1]:30002 0.0.0.0:30002 \
         [::ffff:192.0.2.1]:1"
        .split(' ')
    {
        let error = run_quietly(&options(target.parse().unwrap())).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("is not a loopback address"), "{error}");
    }
    let mapped = options("[::ffff:127.0.0.1]:9".parse().unwrap());
    let mapped = run_quietly(&LoadOptions { count: Some(1), ..mapped });
    if let Err(error) = mapped {
        let error = error.to_string();
        assert!(!error.contains("loopback"), "{error}");
    }
}

#[test]
fn shutdown_ends_a_run_and_the_totals_still_hold() {
    let (target, sink) = Sink::open();
    let options =
        LoadOptions { rate: 1.0, duration: Some(Duration::from_secs(FITS)), ..options(target) };
    let shutdown = Shutdown::new();
    let asked = shutdown.clone();
    let seen = sink.0.try_clone().unwrap();
    let stopper = thread::spawn(move || {
        let came = seen.peek(&mut [0; 1]);
        asked.request();
        came.unwrap();
    });
    let summary = run(&options, &shutdown, &mut std::io::sink()).unwrap();
    stopper.join().unwrap();
    // Two minutes later all of them would have been sent.
    assert!(summary.totals.packets > 0 && summary.missed() > 0);
    assert_eq!(sink.take(summary.totals.packets), summary.totals);
}

#[test]
fn output_is_one_object_and_progress_a_line_a_second() {
    let (target, sink) = Sink::open();
    let options = LoadOptions {
        rate: 50.0,
        duration: Some(Duration::from_millis(1300)),
        progress: true,
        format: SummaryFormat::Json,
        ..options(target)
    };
    let (mut out, mut progress) = (Vec::new(), Vec::new());
    execute(&options, &Shutdown::new(), &mut out, &mut progress).unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let totals = sink.take(summary["totals"]["packets"].as_u64().unwrap());
    assert_eq!(summary["totals"]["request_time_us"], totals.request_time_us);
    assert_eq!(summary["ended_by"], serde_json::Value::Null);
    let progress = String::from_utf8(progress).unwrap();
    // One line, and one more for each second by which a busy machine prolonged the run.
    let seconds = summary["seconds"].as_f64().unwrap();
    let lines = progress.lines().count();
    assert!(lines > 0 && lines as f64 <= seconds, "{seconds} s:\n{progress}");
    assert!(progress.contains("packets"));
}
