//! `pinbad bench`: its parts end with it, also when it is interrupted, and the bare loop counts what it gets.

use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn pinbad() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pinbad"))
}

/// Processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc").unwrap().flatten();
    tasks
        .filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // After the name in parentheses: state, then the parent.
            let (_, rest) = stat.rsplit_once(')')?;
            let of = rest.split_whitespace().nth(1)?.parse::<u32>().ok()?;
            (of == parent).then(|| entry.file_name().to_string_lossy().into_owned())
        })
        .collect()
}

fn await_until(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_bare_loop_counts_every_packet_and_ends_with_its_stdin() {
    let mut sink = pinbad()
        .args([
            "bench-part",
            "sink",
            "--receivers",
            "2",
            "--recv-buffer",
            "1000000",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = sink.stdin.take().unwrap();
    let mut lines = BufReader::new(sink.stdout.take().unwrap()).lines();
    let said = lines.next().unwrap().unwrap();
    let address = said.split(' ').next().unwrap().to_owned();
    let sockets: Vec<_> = (0..8)
        .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
        .collect();
    for round in 0..20_u8 {
        for socket in &sockets {
            socket.send_to(&[round; 100], &address).unwrap();
        }
    }
    let mut counts = String::new();
    await_until("all packets are counted", || {
        to.write_all(b"\n").unwrap();
        counts = lines.next().unwrap().unwrap();
        counts == "160 0"
    });
    drop(to);
    await_until("it ends", || sink.try_wait().unwrap().is_some());
}

#[test]
fn an_interrupted_bench_leaves_no_process_behind() {
    let mut bench = pinbad()
        .args(["bench", "--quick"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut children = Vec::new();
    await_until("a part runs", || {
        children = children_of(bench.id());
        !children.is_empty()
    });
    let interrupted = Command::new("kill")
        .args(["-INT", &bench.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let mut status = None;
    await_until("it ends", || {
        // Those that it started in the meantime.
        children.extend(children_of(bench.id()));
        status = bench.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(1));
    let mut said = String::new();
    let mut stderr = bench.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    assert!(said.contains("interrupted"), "{said}");
    for child in children {
        let name = std::fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        assert!(!name.starts_with("pinbad"), "process {child} is left");
    }
}
