//! The receivers that the bench `daemon` starts: the bare loop counts the packets it gets, and a
//! daemon ends with the program that started it.

use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use receiver::{Counts, Daemon, Receiver as _, Sink};

#[expect(dead_code, reason = "the bench uses the rest of it")]
#[path = "../../benches/daemon/receiver.rs"]
mod receiver;

fn await_until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process of this number runs the daemon.
fn runs(process: &str) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    name.starts_with("pinbad") && !state.contains(") Z")
}

#[test]
fn the_bare_loop_counts_every_packet() {
    let sink = Sink::start(2, 1_000_000).unwrap();
    let sockets: Vec<_> = (0..8).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for round in 0..20_u8 {
        for socket in &sockets {
            socket.send_to(&[round; 100], sink.udp()).unwrap();
        }
    }
    await_until("all packets are counted", || {
        sink.counts().unwrap() == Counts { done: 160, lost: 0 }
    });
    assert!(sink.granted_bytes() > 0);
}

/// No test: what `an_interrupted_bench_leaves_no_daemon_behind` interrupts.
#[test]
#[ignore = "waits until it is killed"]
fn starts_a_daemon_and_waits() {
    let daemon = Daemon::start(None, &[]).unwrap();
    writeln!(std::io::stdout(), "daemon {}", daemon.id()).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn an_interrupted_bench_leaves_no_daemon_behind() {
    let mut bench = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("bench::starts_a_daemon_and_waits")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(bench.stdout.take().unwrap()).lines();
    let daemon = lines
        .map_while(Result::ok)
        .find_map(|line| Some(line.split_once("daemon ")?.1.trim().to_owned()));
    let Some(daemon) = daemon else {
        let mut said = String::new();
        let mut stderr = bench.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        panic!("no daemon: {said}");
    };
    assert!(runs(&daemon));
    bench.kill().unwrap();
    bench.wait().unwrap();
    await_until("the daemon ends too", || !runs(&daemon));
}

#[test]
fn a_daemon_ends_when_it_is_dropped() {
    let daemon = Daemon::start(None, &[]).unwrap();
    let process = daemon.id().to_string();
    assert!(runs(&process));
    assert_eq!(daemon.counts().unwrap(), Counts { done: 0, lost: 0 });
    assert!(daemon.resident_bytes().unwrap() > 0);
    drop(daemon);
    assert!(!runs(&process));
}
