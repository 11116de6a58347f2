//! Whole runs, over real sockets on loopback.

use super::*;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// Receives on a port of its own until nothing comes any more, and recounts what came with prost.
fn sink() -> (SocketAddr, thread::JoinHandle<totals::Totals>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let receive = move || {
        let mut tally = totals::Tally::default();
        let mut buffer = vec![0; 65_536];
        socket
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        while let Ok(bytes) = socket.recv(&mut buffer) {
            let packet = prost::Message::decode(&buffer[..bytes]).unwrap();
            tally.add_packet(&packet, bytes, 1);
            socket
                .set_read_timeout(Some(Duration::from_millis(300)))
                .unwrap();
        }
        tally.totals()
    };
    (address, thread::spawn(receive))
}

fn options(target: SocketAddr) -> LoadOptions {
    LoadOptions {
        target,
        corpus: 500,
        ..LoadOptions::default()
    }
}

fn run_quietly(options: &LoadOptions) -> Result<Summary, LoadError> {
    run(options, &Shutdown::new(), &mut std::io::sink())
}

#[test]
fn what_arrives_is_what_was_said_to_be_sent() {
    for (senders, count, gso) in [(1, 1, 1), (1, 1234, 1), (3, 1001, 1), (2, 1001, 16)] {
        let (target, sink) = sink();
        let mut options = options(target);
        options.senders = senders;
        options.gso = gso;
        options.count = Some(count);
        options.rate = 5000.0;
        options.traffic.timers = 2;
        options.traffic.request_tags = 2;
        let summary = run_quietly(&options).unwrap();
        assert!(summary.ended_by.is_none());
        assert_eq!((summary.totals.packets, summary.missed()), (count, 0));
        assert_eq!(summary.totals.timers, 2 * count);
        assert_eq!(sink.join().unwrap(), summary.totals);
    }
}

#[test]
fn senders_together_send_each_packet_once() {
    let totals = [1, 4].map(|senders| {
        let (target, sink) = sink();
        let options = LoadOptions {
            senders,
            count: Some(401),
            rate: 5000.0,
            ..options(target)
        };
        run_quietly(&options).unwrap();
        sink.join().unwrap()
    });
    assert_eq!(totals[0], totals[1]);
}

#[test]
fn the_rate_is_kept() {
    let (target, sink) = sink();
    let options = LoadOptions {
        rate: 4000.0,
        duration: Some(Duration::from_millis(500)),
        ..options(target)
    };
    let summary = run_quietly(&options).unwrap();
    // The plan is exact; time may be short on a busy machine, and then it says so.
    assert_eq!(summary.planned, Some(2000));
    assert_eq!(summary.totals.packets + summary.missed(), 2000);
    assert!(summary.totals.packets > 1000, "{summary}");
    assert!((0.45..0.9).contains(&summary.seconds), "{summary}");
    assert_eq!(sink.join().unwrap().packets, summary.totals.packets);
}

#[test]
fn a_slow_rate_costs_no_cpu() {
    let (target, sink) = sink();
    let options = LoadOptions {
        rate: 20.0,
        duration: Some(Duration::from_millis(400)),
        ..options(target)
    };
    let summary = run_quietly(&options).unwrap();
    assert_eq!(summary.totals.packets, 8);
    assert!(
        summary.sender_cpu < Duration::from_millis(100),
        "{:?}",
        summary.sender_cpu
    );
    sink.join().unwrap();
}

#[test]
fn nobody_listening_is_said_even_of_a_single_packet() {
    // A port that was free a moment ago.
    let target = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for count in [1, 100_000] {
        let mut out = Vec::new();
        let options = LoadOptions {
            count: Some(count),
            rate: 0.0,
            ..options(target)
        };
        let error = execute(&options, &Shutdown::new(), &mut out, &mut std::io::sink());
        assert!(
            matches!(error, Err(LoadError::NobodyListens { .. })),
            "{error:?}"
        );
        assert!(String::from_utf8(out).unwrap().starts_with("sent "));
    }
}

#[test]
fn only_loopback_is_sent_to_unasked() {
    for target in [
        "192.0.2.1:30002",
        "[2001:db8::1]:30002",
        "0.0.0.0:30002",
        "[::ffff:192.0.2.1]:1",
    ] {
        let error = run_quietly(&options(target.parse().unwrap())).unwrap_err();
        assert!(
            matches!(error, LoadError::NotLoopback { .. }),
            "{target}: {error}"
        );
    }
    let mapped = options("[::ffff:127.0.0.1]:9".parse().unwrap());
    let mapped = run_quietly(&LoadOptions {
        count: Some(1),
        ..mapped
    });
    assert!(
        !matches!(mapped, Err(LoadError::NotLoopback { .. })),
        "{mapped:?}"
    );
}

#[test]
fn shutdown_ends_a_run_and_the_totals_still_hold() {
    let (target, sink) = sink();
    let options = LoadOptions {
        rate: 1000.0,
        duration: Some(Duration::from_secs(60)),
        ..options(target)
    };
    let shutdown = Shutdown::new();
    let asked = shutdown.clone();
    let start = Instant::now();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        asked.request();
    });
    let summary = run(&options, &shutdown, &mut std::io::sink()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(summary.totals.packets > 0 && summary.missed() > 0);
    assert_eq!(sink.join().unwrap(), summary.totals);
    stopper.join().unwrap();
}

#[test]
fn output_is_one_object_and_progress_a_line_a_second() {
    let (target, sink) = sink();
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
    let totals = sink.join().unwrap();
    assert_eq!(summary["totals"]["packets"], totals.packets);
    assert_eq!(summary["totals"]["request_time_us"], totals.request_time_us);
    assert_eq!(summary["ended_by"], serde_json::Value::Null);
    let progress = String::from_utf8(progress).unwrap();
    assert_eq!(progress.lines().count(), 1, "{progress}");
    assert!(progress.contains("packets"));
}
