//! Sockets that are handed over: nothing is lost between two processes, and what the kernel dropped
//! is counted.

use socket2::{Domain, Socket, Type};

use super::*;

/// Sockets as systemd would hold them, for one program after the other.
pub(crate) struct Holder {
    pub(crate) udp: Vec<UdpSocket>,
    pub(crate) http: TcpListener,
}

impl Holder {
    pub(crate) fn new(udp: usize) -> Self {
        let first = UdpSocket::bind("127.0.0.1:0").unwrap();
        let more = (1..udp).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        Self {
            udp: std::iter::once(first).chain(more).collect(),
            http: TcpListener::bind("127.0.0.1:0").unwrap(),
        }
    }

    pub(crate) fn address(&self, at: usize) -> SocketAddr {
        self.udp[at].local_addr().unwrap()
    }

    /// A command that runs the program with these sockets from descriptor 3 on.
    pub(crate) fn command(&self, names: &str) -> (Command, Vec<OwnedFd>) {
        let udp = self.udp.iter().map(|it| it.try_clone().unwrap().into());
        let sockets: Vec<OwnedFd> = udp.chain([self.http.try_clone().unwrap().into()]).collect();
        let mut script = String::new();
        for (at, socket) in sockets.iter().enumerate() {
            rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).unwrap();
            script += &format!("exec {}<&{}; ", 200 + at, socket.as_raw_fd());
        }
        for (at, socket) in sockets.iter().enumerate() {
            script += &format!("exec {}<&{}; ", 3 + at, 200 + at);
            script += &format!("exec {}<&-; ", 200 + at);
            if socket.as_raw_fd() >= 3 + sockets.len() as i32 {
                script += &format!("exec {}<&-; ", socket.as_raw_fd());
            }
        }
        script += &format!(
            "export LISTEN_PID=$$ LISTEN_FDS={} LISTEN_FDNAMES={names}; exec {} \"$@\"",
            sockets.len(),
            program()
        );
        let mut command = clean(Command::new("bash"));
        command.args(["-c", &script, "bash"]);
        (command, sockets)
    }

    pub(crate) fn start(&self, settings: &[String]) -> Program {
        let (command, sockets) = self.command("");
        let mut settings = settings.to_vec();
        settings.push(format!("http.listen={}", self.http.local_addr().unwrap()));
        let program = Program::start_as(command, &["serve"], &refs(&settings));
        drop(sockets);
        program
    }
}

/// Packets at a steady rate, ten restarts in between, sockets handed over: every packet is
/// accounted for, none is lost, and reports equal a recount. At full size with
/// `PINBAD_RESTART_PACKETS=1000000 PINBAD_RESTART_RATE=50000` and a release build in
/// `PINBAD_TEST_PROGRAM`.
#[test]
fn ten_restarts_under_load_lose_nothing() {
    const RESTARTS: u64 = 10;
    let packets = number("PINBAD_RESTART_PACKETS", 20_000);
    let rate = number("PINBAD_RESTART_RATE", 2_000);
    let dir = tempfile::tempdir().unwrap();
    let holder = Holder::new(1);
    let settings = [
        "state.snapshot_period=0".to_owned(),
        // At full size on a busy machine a stop takes some seconds, and all that comes meanwhile
        // must find room.
        "ingest.recv_buffer=256MB".to_owned(),
        format!("state.dir={}", dir.path().join("state").display()),
        format!("ingest.listen={}", holder.address(0)),
        #[cfg(feature = "sql")]
        format!("history.dir={}", dir.path().join("history").display()),
        #[cfg(feature = "sql")]
        "history.requests=all".to_owned(),
    ];
    let kinds: Vec<Vec<u8>> = (0..492).map(packet).collect();
    let sent = AtomicU64::new(0);
    let mut program = holder.start(&settings);
    let started = Instant::now();
    let mut gaps = Vec::new();
    std::thread::scope(|scope| {
        let (kinds, sent, to) = (&kinds, &sent, holder.address(0));
        scope.spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let start = Instant::now();
            for n in 0..packets {
                let due = Duration::from_secs_f64(n as f64 / rate as f64);
                if let Some(early) = due.checked_sub(start.elapsed())
                    && early > Duration::from_micros(500)
                {
                    std::thread::sleep(early);
                }
                let packet = &kinds[n as usize % kinds.len()];
                socket.send_to(packet, to).unwrap();
                sent.store(n + 1, Ordering::Relaxed);
            }
        });
        for restart in 1..=RESTARTS {
            let until = packets * restart / (RESTARTS + 1);
            await_until(
                "so many packets are sent",
                || sent.load(Ordering::Relaxed),
                |sent| *sent >= until,
            );
            let start = Instant::now();
            program.signal("TERM");
            assert_eq!(program.wait().0.code(), Some(0), "{:?}", program.log());
            let stopped = start.elapsed();
            program = holder.start(&settings);
            gaps.push((stopped, start.elapsed()));
            let errors = program.log();
            let errors: Vec<_> = errors.iter().filter(|it| it["level"] == "ERROR").collect();
            assert!(errors.is_empty(), "{errors:?}");
        }
    });
    println!(
        "{packets} packets in {:?}; each restart (stopped after, answering after): {gaps:?}",
        started.elapsed()
    );
    let status = program.site.at_rest(packets);
    status.assert_accounted();
    println!("{}", status.0["snapshot"]);
    assert_eq!(status.count("kernel_drops"), 0, "{status:?}");
    assert_eq!(status.count("requests_overwritten"), 0);
    assert_eq!(status.count("requests_merged"), packets);
    assert!(status.sockets().iter().all(|it| it.0["handed_over"] == true));
    recount(&program.site, packets, kinds.len() as u64);
    #[cfg(feature = "sql")]
    {
        await_until(
            "the last second is over",
            || program.site.json("/api/v1/info?from=0&to=4000000000"),
            |info| info["req_count"] == packets,
        );
        program.signal("TERM");
        program.wait();
        let held = pinbad::history::inspect::list(&dir.path().join("history")).unwrap();
        let of = |table: &str| -> u64 {
            let rows = held.iter().filter(|it| it.report == table);
            rows.map(|it| it.rows).sum()
        };
        let timers: u64 = (0..packets).map(|n| n % kinds.len() as u64 % 4).sum();
        assert_eq!((of("request"), of("timer")), (packets, timers));
    }
}

/// Reports against what was sent: `packets` of `kinds` kinds in turn.
fn recount(site: &Site, packets: u64, kinds: u64) {
    let mut by_script = std::collections::BTreeMap::<String, (u64, u64)>::new();
    let mut by_op = std::collections::BTreeMap::<String, u64>::new();
    for n in 0..kinds {
        let times = packets / kinds + u64::from(n < packets % kinds);
        let row = by_script.entry(format!("/{}", n % 41)).or_default();
        row.0 += times;
        row.1 += times * (n % 500) * 1000;
        for timer in 0..n % 4 {
            *by_op.entry(format!("op{}", (n + timer) % 20)).or_default() += times;
        }
    }
    let rows = site.rows("report_by_script_name");
    assert_eq!(rows.len(), by_script.len());
    for row in rows {
        let (count, time_us) = by_script[row["script_name"].as_str().unwrap()];
        assert_eq!(row["req_count"], count, "{row}");
        let time = row["req_time_total"].as_f64().unwrap();
        assert!((time - time_us as f64 / 1e6).abs() < 1e-6, "{row}: {time_us}");
    }
    let info = site.json("/api/v1/info");
    assert_eq!(info["req_count"], packets);
    // Timers: a report made now is filled from the raw rows, which are all there.
    let made = r#"{"name": "ops", "level": "timer", "keys": ["@op"]}"#;
    assert_eq!(site.post("/api/v1/reports", made).status, 201);
    for row in site.rows("ops") {
        let op = row.as_object().unwrap().values().next().unwrap();
        let op = op.as_str().unwrap();
        assert_eq!(row["req_count"], by_op[op], "{row}");
    }
}

#[test]
fn sockets_that_were_handed_over_take_the_place_of_all_and_are_told_by_name_or_port() {
    let holder = Holder::new(2);
    let (command, _sockets) = holder.command("udp:packets:http");
    // Its own addresses are not bound: they could not be.
    let program = Program::start_as(
        command,
        &["serve"],
        &["ingest.listen=192.0.2.1:30002", "http.listen=127.0.0.1:1"],
    );
    assert_eq!(program.site.udp, [holder.address(0), holder.address(1)]);
    assert_eq!(program.site.http, holder.http.local_addr().unwrap());
    let addresses = [holder.address(0), holder.address(1)];
    let mut sender = Sender::with_sources(&program.site, &addresses, 1);
    sender.send_from(0, &packet(1));
    sender.send_from(1, &packet(2));
    let status = sender.at_rest();
    assert_eq!(status.count("requests_merged"), 2);
    assert_eq!(status.sockets().len(), 2);
    drop(program);

    // A listener for which there is no use ends the start, and the error says what to do.
    let (mut command, _sockets) = holder.command("");
    let said = run(command.args(["serve", "--set", "http.listen=", "--set", "mysql.listen="]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "LISTEN_FDS", "FileDescriptorName");
    // One that does not listen would never be asked anything.
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    bound.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let bound = Holder { http: bound.into(), ..Holder::new(1) };
    let (mut command, _sockets) = bound.command("");
    let listen = format!("http.listen={}", bound.http.local_addr().unwrap());
    let said = run(command.args(["serve", "--set", &listen, "--set", "mysql.listen="]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "LISTEN_FDS", "does not listen");
    // Not for us: nothing is taken.
    let said = run(pinbad().args(["check"]).envs([("LISTEN_FDS", "3"), ("LISTEN_PID", "1")]));
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// systemd's own tool: it holds the socket, and starts the program when the first packet comes.
#[test]
fn systemd_hands_over_the_socket_with_the_packets_that_woke_it() {
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        println!("left out: there is no systemd-socket-activate");
        return;
    }
    // An address at which nothing else in these tests takes a port meanwhile.
    let free = UdpSocket::bind("127.77.0.2:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut command = clean(Command::new("systemd-socket-activate"));
    command.args(["--datagram", "--fdname=udp", "--listen"]);
    command.args([&address.to_string(), &program()]);
    let program = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Seen and not tried: who tries has it for a moment, in which systemd's tool would not
            // get it.
            let line = format!(" 0200{:02X}7F:{:04X} ", 77, address.port());
            await_until(
                "the port is taken",
                || std::fs::read_to_string("/proc/net/udp").unwrap(),
                |all| all.contains(&line),
            );
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for n in 0..100 {
                socket.send_to(&packet(n), address).unwrap();
            }
        });
        Program::start_as(command, &["serve"], &[])
    });
    assert_eq!(program.site.udp, [address]);
    let status = program.site.at_rest(100);
    assert_eq!(status.count("requests_merged"), 100);
    assert_eq!(status.sockets()[0].0["handed_over"], true);
}

/// The next process counts the packets that waited in the kernel while no process ran, and those
/// that overflowed.
#[test]
fn drops_between_two_processes_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Holder::new(1);
    let settings = [
        "state.snapshot_period=0".to_owned(),
        "ingest.recv_buffer=64KiB".to_owned(),
        format!("state.dir={}", dir.path().display()),
    ];
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut total = 0;
    for _ in 0..3 {
        for n in 0..2_000 {
            sender.send_to(&packet(n), holder.address(0)).unwrap();
        }
        total += 2_000;
        let mut program = holder.start(&settings);
        if total == 2_000 {
            // The first process finds drops of a time when nobody was there to count them: not its
            // own.
            await_condition("what waits is taken", || {
                let status = program.site.status();
                let quiet = status.0["sockets"][0]["kernel_queue_bytes"] == 0;
                let came = status.count("datagrams_received");
                if quiet && came > 0 { Ok(()) } else { Err(status) }
            });
            // What is taken is counted when this one, which comes behind it, is there.
            let last = model::Request::named("web", "shop", "/last").encode_to_vec();
            sender.send_to(&last, holder.address(0)).unwrap();
            await_until(
                "the last one is counted",
                || program.site.rows("report_by_script_name"),
                |rows| rows.iter().any(|row| row["script_name"] == "/last"),
            );
            let status = program.site.status();
            assert_eq!(status.count("kernel_drops"), 0);
            total = status.count("datagrams_received");
        } else {
            let status = program.site.at_rest(total);
            status.assert_accounted();
            assert!(status.count("kernel_drops") > 0, "{status:?}");
        }
        program.signal("TERM");
        assert_eq!(program.wait().0.code(), Some(0));
    }
}
