//! What a restart keeps: raw rows, reports, counters and ids, whatever ended the process before; and with sockets that
//! are handed over also what arrives while there is no process. What cannot be read is set aside, what cannot be
//! written is said, and neither keeps the daemon from working.
#![expect(
    clippy::print_stdout,
    reason = "figures of the full size, and what could not be tried, are for whoever runs the tests"
)]

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pinbad::clock::{Clock, ManualClock};
use pinbad::input::pinba::model;
use prost::Message as _;
use serde_json::Value as Json;

use crate::harness::{
    Here, Program, START_SECS, Sender, Site, await_condition, clean, pinbad, program, run,
};

/// Settings of a daemon with a small state.
fn settings(dir: &Path) -> Vec<String> {
    [
        "pool.stats_history=60s",
        "pool.request_pool_size=2000",
        "pool.timer_pool_size=6000",
        "reports.rows_max=30",
        "state.snapshot_period=0",
        r#"report=[{name = "groups", comment = "tag2_info:group,op"}, {name = "slow", level = "request", keys = ["script_name", "+env"], filters = ["min_time=0.2"], percentiles = [50, 99.9], window = "5m"}]"#,
    ]
    .into_iter()
    .map(str::to_owned)
    .chain([format!("state.dir={}", dir.display())])
    .collect()
}

pub(crate) fn refs(settings: &[String]) -> Vec<&str> {
    settings.iter().map(String::as_str).collect()
}

fn packet(n: u64) -> Vec<u8> {
    let mut sent = model::Request::named(format!("web-{}", n % 3), "shop", format!("/{}", n % 41));
    sent.request_time = Some((n % 500) as f32 / 1000.0);
    sent.status = Some(if n.is_multiple_of(7) { 503 } else { 200 });
    sent.memory_peak = Some((n * 777 % 100_000) as u32);
    if !n.is_multiple_of(3) {
        sent.add_tag("env", if n.is_multiple_of(2) { "prod" } else { "test" });
    }
    for timer in 0..n % 4 {
        let op = format!("op{}", (n + timer) % 20);
        sent.add_timer(
            timer as u32 + 1,
            0.125,
            &[("group", "db"), ("op", op.as_str())],
        );
    }
    sent.encode_to_vec()
}

/// Everything that can be read of reports and raw rows.
fn all(site: &Site) -> Vec<(String, Json)> {
    let listed = site.json("/api/v1/reports");
    let names = listed["reports"].as_array().unwrap().iter();
    let names = names.filter(|report| report["kind"] != "status");
    let names = names.map(|report| report["name"].as_str().unwrap().to_owned());
    let mut all: Vec<_> = names
        .map(|name| format!("/api/v1/reports/{name}?limit=0"))
        .map(|path| (path.clone(), site.json(&path)))
        .collect();
    let requests = site.json("/api/v1/requests?limit=0");
    for row in requests["rows"].as_array().unwrap().iter().step_by(97) {
        let path = format!("/api/v1/requests/{}", row["id"]);
        all.push((path.clone(), site.json(&path)));
    }
    all.push(("/api/v1/requests".to_owned(), requests));
    all.push(("/api/v1/reports".to_owned(), listed));
    all
}

#[track_caller]
fn assert_same(before: &[(String, Json)], after: &[(String, Json)]) {
    assert_eq!(before.len(), after.len());
    for ((path, before), (other, after)) in before.iter().zip(after) {
        assert_eq!(path, other);
        assert_eq!(before, after, "{path}");
    }
}

/// A daemon that has seen some minutes: pools have wrapped, ticks have closed, keys lie under `(other)`.
fn busy(dir: &Path) -> (Here, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START_SECS * 1000));
    let here = start(dir, &clock);
    for step in 0..40 {
        let mut sender = Sender::new(&here.site);
        for n in 0..90 {
            sender.send(&packet(step * 90 + n));
        }
        sender.at_rest();
        clock.advance_ms(1_700);
    }
    let mut sender = Sender::new(&here.site);
    sender.send(&packet(1));
    sender.at_rest();
    (here, clock)
}

fn start(dir: &Path, clock: &Arc<ManualClock>) -> Here {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    Here::with_clock(&refs(&settings(dir)), clock)
}

#[test]
fn after_a_restart_every_answer_is_the_same_and_ids_and_counters_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (here, clock) = busy(dir.path());
    let made = r#"{"name": "mine", "level": "timer", "keys": ["@op"], "window": "2m"}"#;
    assert_eq!(here.site.post("/api/v1/reports", made).status, 201);
    let before = all(&here.site);
    let status = here.site.status();
    here.stop();
    for _ in 0..2 {
        let here = start(dir.path(), &clock);
        assert_same(&before, &all(&here.site));
        let now = here.site.status();
        now.assert_accounted();
        for name in [
            "datagrams_received",
            "requests_merged",
            "timers_merged",
            "rows_evicted",
            "request_rows",
            "timer_rows",
            "received_bytes",
        ] {
            assert_eq!(now.count(name), status.count(name), "{name}");
        }
        let restored = &now.0["snapshot"]["restored"];
        assert_eq!(restored["requests"], status.count("request_rows"));
        assert_eq!(restored["left_out"], serde_json::json!([]));
        here.stop();
    }
    let here = start(dir.path(), &clock);
    let newest = |here: &Here| here.site.json("/api/v1/requests?limit=1")["rows"][0].clone();
    let last = newest(&here)["id"].as_u64().unwrap();
    assert_eq!(last, 3_601);
    let mut sender = Sender::new(&here.site);
    sender.send(&packet(5));
    sender.at_rest();
    assert_eq!(newest(&here)["id"], last + 1);
    here.stop();
}

/// What a daemon that ran on would have dropped is dropped, no more and no less.
#[test]
fn what_expired_while_there_was_no_process_is_gone() {
    let ran_on = |away_ms: u64| {
        let dir = tempfile::tempdir().unwrap();
        let (here, clock) = busy(dir.path());
        clock.advance_ms(away_ms);
        let mut sender = Sender::new(&here.site);
        sender.send(&packet(1));
        sender.at_rest();
        all(&here.site)
    };
    let restarted = |away_ms: u64| {
        let dir = tempfile::tempdir().unwrap();
        let (here, clock) = busy(dir.path());
        here.stop();
        clock.advance_ms(away_ms);
        let here = start(dir.path(), &clock);
        let mut sender = Sender::new(&here.site);
        sender.send(&packet(1));
        sender.at_rest();
        all(&here.site)
    };
    for away_ms in [25_000, 130_000, 86_400_000] {
        assert_same(&ran_on(away_ms), &restarted(away_ms));
    }
}

#[test]
fn a_wall_clock_that_was_set_back_meanwhile_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (here, clock) = busy(dir.path());
    let rows = here.site.status().count("request_rows");
    let info = here.site.json("/api/v1/info");
    here.stop();
    clock.set_unix_ms((START_SECS - 86_400) * 1000);
    let here = start(dir.path(), &clock);
    assert_eq!(here.site.status().count("request_rows"), rows);
    assert_eq!(here.site.json("/api/v1/info"), info);
    here.stop();
}

/// With SIGKILL what came since the last snapshot is lost, and nothing else.
#[test]
fn killed_it_comes_back_as_of_the_last_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = settings(dir.path());
    settings.retain(|setting| !setting.starts_with("pool.stats_history"));
    settings.push("state.snapshot_period=1s".to_owned());
    let mut merged = 0;
    for round in 0..3_u64 {
        let mut program = Program::serve(&refs(&settings));
        assert_eq!(program.site.status().count("requests_merged"), merged);
        let mut sender = Sender::new(&program.site);
        for n in 0..500 {
            sender.send(&packet(round * 500 + n));
        }
        let status = sender.at_rest();
        merged = status.count("requests_merged");
        let written = status.0["snapshot"]["written"].as_u64().unwrap();
        await_condition("a snapshot of that", || {
            let status = program.site.status();
            // One may have been under way.
            if status.0["snapshot"]["written"].as_u64().unwrap() > written + 1 {
                Ok(())
            } else {
                Err(status)
            }
        });
        program.signal("KILL");
        program.wait();
    }
    let program = Program::serve(&refs(&settings));
    let status = program.site.status();
    status.assert_accounted();
    assert_eq!(merged, 1_500);
    assert_eq!(status.count("requests_merged"), merged);
    assert_eq!(program.site.json("/api/v1/info")["req_count"], merged);
}

/// Whatever became of the file: it is set aside and named, and the daemon starts without it.
#[test]
fn a_damaged_snapshot_is_set_aside_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (here, _) = busy(dir.path());
    here.stop();
    let file = dir.path().join("snapshot");
    let good = std::fs::read(&file).unwrap();
    let cut = &good[..good.len() / 2];
    let mut flipped = good.clone();
    flipped[good.len() / 3] ^= 4;
    let settings = settings(dir.path());
    for (round, (bad, reason)) in [
        (cut, "it ends in the middle"),
        (&flipped[..], "checksum"),
        (b"", "it ends in the middle"),
        (b"{\"version\": 1, \"reports\": []}", "not a snapshot"),
    ]
    .into_iter()
    .enumerate()
    {
        std::fs::write(&file, bad).unwrap();
        let mut program = Program::serve(&refs(&settings));
        let status = program.site.status();
        assert_eq!(status.count("requests_merged"), 0);
        let damaged = status.0["snapshot"]["damaged"].as_array().unwrap().clone();
        assert_eq!(damaged.len(), round + 1, "{status:?}");
        let log = program.log();
        let named = log.iter().find(|line| {
            line["level"] == "ERROR"
                && line["reason"]
                    .as_str()
                    .is_some_and(|it| it.contains(reason))
        });
        let aside = named.unwrap_or_else(|| panic!("{reason}: {log:?}"))["set_aside"].clone();
        assert_eq!(std::fs::read(aside.as_str().unwrap()).unwrap(), bad);
        let mut sender = Sender::new(&program.site);
        sender.send(&packet(1));
        assert_eq!(sender.at_rest().count("requests_merged"), 1);
        program.signal("TERM");
        assert_eq!(program.wait().0.code(), Some(0));
        assert!(file.exists(), "the next one is there");
    }
}

/// Cut anywhere, or with any byte changed: an empty daemon, never a panic.
#[test]
fn wherever_a_snapshot_is_damaged_that_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1000));
    let here = start(dir.path(), &clock);
    let mut sender = Sender::new(&here.site);
    for n in 0..40 {
        sender.send(&packet(n));
    }
    sender.at_rest();
    here.stop();
    let good = std::fs::read(dir.path().join("snapshot")).unwrap();
    let inspect = |bytes: &[u8]| pinbad::state::snapshot::inspect(bytes).is_ok();
    assert!(inspect(&good));
    for at in 0..good.len() {
        assert!(!inspect(&good[..at]), "cut at {at}");
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(!inspect(&bad), "byte {at}");
    }
}

/// A state.dir on which nothing can be written: the daemon works, says so, and ends with a failure because it could not
/// keep what it had.
#[test]
fn a_full_or_read_only_disk_is_said_and_the_old_snapshot_stays() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().to_str().unwrap();
    if !mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs", at]) {
        println!("left out: only root may mount a small file system, and not everywhere");
        return;
    }
    let _unmounted = Unmount(at);
    let settings = settings(place.path());
    let mut program = Program::serve(&refs(&settings));
    let mut sender = Sender::new(&program.site);
    for n in 0..50 {
        sender.send(&packet(n));
    }
    sender.at_rest();
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let kept = std::fs::read(place.path().join("snapshot")).unwrap();

    let filler = place.path().join("filler");
    for (how, undo) in [("full", ""), ("ro", "rw")] {
        if how == "full" {
            let filled = std::fs::write(&filler, vec![1; 1 << 20]);
            assert!(filled.is_err(), "the disk was to be full");
        } else {
            assert!(mount(&["-o", "remount,ro", at]));
        }
        let mut settings = settings.clone();
        settings.push("state.snapshot_period=1s".to_owned());
        let mut program = Program::serve(&refs(&settings));
        let status = await_condition("a snapshot fails", || {
            let status = program.site.status();
            let failed = status.0["snapshot"]["failed"].as_u64().unwrap();
            if failed > 0 { Ok(status) } else { Err(status) }
        });
        assert!(status.0["snapshot"]["error"].is_string(), "{status:?}");
        assert_eq!(
            status.count("requests_merged"),
            50,
            "it took up the old one"
        );
        let mut sender = Sender::new(&program.site);
        sender.send(&packet(1));
        sender.at_rest();
        program.signal("TERM");
        assert_eq!(
            program.wait().0.code(),
            Some(1),
            "{how}: {:?}",
            program.log()
        );
        let log = program.log();
        assert!(
            log.iter().any(|line| line["level"] == "ERROR"
                && line["message"] == "Cannot write a snapshot: the one before it stays."),
            "{log:?}"
        );
        assert_eq!(std::fs::read(place.path().join("snapshot")).unwrap(), kept);
        assert!(!place.path().join("snapshot.new").exists());
        if undo.is_empty() {
            std::fs::remove_file(&filler).unwrap();
        } else {
            assert!(mount(&["-o", "remount,rw", at]));
        }
    }
}

/// Without room nothing is kept, which the log, the status and the metrics say; packets and questions go on; and when there
/// is room again snapshots and reports are kept again, without anybody's help.
#[test]
fn when_there_is_room_again_it_keeps_again() {
    let place = tempfile::tempdir().unwrap();
    let at = place.path().to_str().unwrap();
    if !mount(&["-t", "tmpfs", "-o", "size=512k", "tmpfs", at]) {
        println!("left out: only root may mount a small file system, and not everywhere");
        return;
    }
    let _unmounted = Unmount(at);
    let filler = place.path().join("filler");
    let mut settings = settings(place.path());
    settings.retain(|setting| !setting.starts_with("pool.stats_history"));
    settings.push("state.snapshot_period=1s".to_owned());
    let mut program = Program::serve(&refs(&settings));
    let mut sender = Sender::new(&program.site);
    let mut send = |count: u64| {
        for n in 0..count {
            sender.send(&packet(n));
        }
        sender.at_rest().count("requests_merged")
    };
    let snapshot = |program: &Program, what: &str, is: &dyn Fn(&Json) -> bool| {
        await_condition(what, || {
            let snapshot = program.site.status().0["snapshot"].clone();
            if is(&snapshot) {
                Ok(snapshot)
            } else {
                Err(snapshot)
            }
        })
    };
    let metric = |program: &Program, name: &str| -> f64 {
        let text = program.site.get("/metrics").body;
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let report = |name: &str| format!(r#"{{"name": "{name}", "comment": "tag_info:group"}}"#);
    assert_eq!(send(50), 50);
    snapshot(&program, "one is written", &|it| it["written"] != 0);

    for (round, how) in (1..).zip(["full", "read-only", "full"]) {
        if how == "full" {
            assert!(
                std::fs::write(&filler, vec![1; 1 << 20]).is_err(),
                "it was to be full"
            );
        } else {
            assert!(mount(&["-o", "remount,ro", at]));
        }
        let failed = |it: &Json| it["failed"].as_u64().unwrap();
        let before = failed(&program.site.status().0["snapshot"]);
        let said = snapshot(&program, "it fails", &|it| failed(it) > before + 1);
        assert!(said["error"].is_string(), "{how}: {said}");
        assert!(metric(&program, "pinbad_snapshots_failed_total ") >= failed(&said) as f64);
        // A report that could not be kept is not made either, and that is said.
        let refused = program.site.post("/api/v1/reports", &report("kept"));
        assert!(refused.status >= 500, "{how}: {refused:?}");
        assert!(
            refused.problem(refused.status).contains("state"),
            "{refused:?}"
        );
        assert_eq!(program.site.get("/api/v1/reports/kept").status, 404);
        assert_eq!(send(50), 50 + round * 50, "packets go on");

        if how == "full" {
            std::fs::remove_file(&filler).unwrap();
        } else {
            assert!(mount(&["-o", "remount,rw", at]));
        }
        let written = |it: &Json| it["written"].as_u64().unwrap();
        let before = written(&program.site.status().0["snapshot"]);
        let said = snapshot(&program, "it is written again", &|it| {
            written(it) > before + 1
        });
        assert_eq!(said["error"], Json::Null, "{how}");
        assert!(metric(&program, "pinbad_snapshot_timestamp_seconds ") > 1.7e9);
        assert_eq!(
            program.site.post("/api/v1/reports", &report("kept")).status,
            201
        );
        assert_eq!(program.site.delete("/api/v1/reports/kept").status, 200);
    }
    assert_eq!(
        program.site.post("/api/v1/reports", &report("kept")).status,
        201
    );
    let errors = program.log();
    let errors = errors.iter().filter(|line| line["level"] == "ERROR");
    let all = errors
        .filter(|line| line["message"] == "Cannot write a snapshot: the one before it stays.");
    assert!(all.count() >= 3);
    // The last one that was written is whole: it comes back even after a kill.
    program.signal("KILL");
    program.wait();
    let program = Program::serve(&refs(&settings));
    assert_eq!(program.site.status().count("requests_merged"), 200);
    assert_eq!(program.site.get("/api/v1/reports/kept").status, 200);
}

pub(crate) fn mount(arguments: &[&str]) -> bool {
    let done = Command::new("mount").args(arguments).status();
    done.is_ok_and(|status| status.success())
}

pub(crate) struct Unmount<'a>(pub(crate) &'a str);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        // A leftover is a tmpfs of 256 KiB, and the test has failed already.
        let _done = Command::new("umount").args(["-l", self.0]).status();
    }
}

/// What waits in the socket's buffer when the stop comes goes with the socket, so it is taken first: for half a second, which
/// may pass on a busy machine. Of ten tries one has to be in time.
#[test]
fn what_waits_in_its_own_sockets_at_the_stop_is_counted() {
    let came: Vec<u64> = (0..10).map(|_| taken_at_the_stop(3_000)).collect();
    assert!(came.contains(&3_000), "{came:?}");
}

/// Sends so many packets to a program that stands still, ends it, and gives how many the next one knows of.
fn taken_at_the_stop(packets: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let mut program = Program::serve(&refs(&settings));
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    program.signal("STOP");
    for n in 0..packets {
        sender.send_to(&packet(n), program.site.udp[0]).unwrap();
    }
    program.signal("TERM");
    program.signal("CONT");
    assert_eq!(program.wait().0.code(), Some(0));
    let program = Program::serve(&refs(&settings));
    let status = program.site.status();
    status.assert_accounted();
    assert_eq!(
        status.count("kernel_drops"),
        0,
        "the buffer was to hold them all"
    );
    let came = status.count("datagrams_received");
    assert_eq!(status.count("requests_merged"), came);
    came
}

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

/// A number from the environment, for tests at full size.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

/// Packets at a steady rate, ten restarts in between, sockets handed over: every packet is accounted for, none is lost,
/// and reports equal a recount. At full size with `PINBAD_RESTART_PACKETS=1000000 PINBAD_RESTART_RATE=50000` and a release
/// build in `PINBAD_TEST_PROGRAM`.
#[test]
fn ten_restarts_under_load_lose_nothing() {
    const RESTARTS: u64 = 10;
    let packets = number("PINBAD_RESTART_PACKETS", 20_000);
    let rate = number("PINBAD_RESTART_RATE", 2_000);
    let dir = tempfile::tempdir().unwrap();
    let holder = Holder::new(1);
    let settings = [
        "state.snapshot_period=0".to_owned(),
        // At full size on a busy machine a stop takes some seconds, and all that comes meanwhile must find room.
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
            await_condition("so many packets are sent", || {
                let sent = sent.load(Ordering::Relaxed);
                if sent >= until { Ok(()) } else { Err(sent) }
            });
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
    assert!(
        status
            .sockets()
            .iter()
            .all(|it| it.0["handed_over"] == true)
    );
    recount(&program.site, packets, kinds.len() as u64);
    #[cfg(feature = "sql")]
    {
        await_condition("the last second is over", || {
            let info = program.site.json("/api/v1/info?from=0&to=4000000000");
            if info["req_count"] == packets {
                Ok(())
            } else {
                Err(info)
            }
        });
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
        assert!(
            (time - time_us as f64 / 1e6).abs() < 1e-6,
            "{row}: {time_us}"
        );
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
    assert!(
        said.err.contains("LISTEN_FDS") && said.err.contains("FileDescriptorName"),
        "{said:?}"
    );
    // Not for us: nothing is taken.
    let said = run(pinbad()
        .args(["check"])
        .envs([("LISTEN_FDS", "3"), ("LISTEN_PID", "1")]));
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// systemd's own tool: it holds the socket, and starts the program when the first packet comes.
#[test]
fn systemd_hands_over_the_socket_with_the_packets_that_woke_it() {
    if Command::new("systemd-socket-activate")
        .arg("--version")
        .output()
        .is_err()
    {
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
            // Seen and not tried: who tries has it for a moment, in which systemd's tool would not get it.
            let line = format!(" 0200{:02X}7F:{:04X} ", 77, address.port());
            await_condition("the port is taken", || {
                let all = std::fs::read_to_string("/proc/net/udp").unwrap();
                if all.contains(&line) {
                    Ok(())
                } else {
                    Err(all)
                }
            });
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

/// What waits in the kernel while there is no process, and what overflowed meanwhile, is counted by the next one.
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
            // The first process finds drops of a time when nobody was there to count them: not its own.
            await_condition("what waits is taken", || {
                let status = program.site.status();
                let quiet = status.0["sockets"][0]["kernel_queue_bytes"] == 0;
                let came = status.count("datagrams_received");
                if quiet && came > 0 {
                    Ok(())
                } else {
                    Err(status)
                }
            });
            // What is taken is counted when this one, which comes behind it, is there.
            let last = model::Request::named("web", "shop", "/last").encode_to_vec();
            sender.send_to(&last, holder.address(0)).unwrap();
            await_condition("the last one is counted", || {
                let rows = program.site.rows("report_by_script_name");
                match rows.iter().any(|row| row["script_name"] == "/last") {
                    true => Ok(()),
                    false => Err(rows),
                }
            });
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

/// SIGHUP: what can change does, what cannot is named, and a bad file changes nothing.
#[test]
fn sighup_reloads_what_can_change_and_names_what_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pinbad.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(
        "[[report]]\nname = \"stays\"\ncomment = \"tag_info:group\"\n\
         [[report]]\nname = \"goes\"\ncomment = \"tag_info:op\"\n\
         [[report]]\nname = \"differs\"\nlevel = \"request\"\nkeys = [\"script_name\"]\n",
    );
    let arguments = ["serve", "--config", file.to_str().unwrap()];
    let program = Program::start(&arguments, &[]);
    let mut sender = Sender::new(&program.site);
    for n in 0..100 {
        sender.send(&packet(n));
    }
    sender.at_rest();
    let stays = program.site.rows("stays");
    let reloads = |what: &str, count: usize| {
        program.signal("HUP");
        await_condition(what, || {
            let log = program.log();
            let lines = log.iter().filter(|line| {
                let message = line["message"].as_str().unwrap_or_default();
                message == "Reloaded the configuration."
                    || message.starts_with("Cannot reload the configuration")
            });
            if lines.count() == count {
                Ok(log)
            } else {
                Err(log.clone())
            }
        })
    };

    write("[pool]\nstats_history = \"soon\"\n");
    let log = reloads("a bad file is refused", 1);
    let text = format!("{:?}", log.last().unwrap());
    assert!(
        text.contains("pool.stats_history") && text.contains("pinbad.toml:2"),
        "{text}"
    );
    assert_eq!(program.site.rows("stays"), stays);

    write(
        "# moved down\n[[report]]\nname = \"stays\"\ncomment = \"tag_info:group\"\n\
         [[report]]\nname = \"differs\"\nlevel = \"request\"\nkeys = [\"hostname\"]\n\
         [[report]]\nname = \"new\"\nlevel = \"timer\"\nkeys = [\"@op\"]\n\
         [pool]\nstats_history = \"60s\"\n[log]\nlevel = \"debug\"\n\
         [ingest]\nstats_gathering_period = \"20ms\"\n",
    );
    let log = reloads("a good one is taken", 2);
    let named: Vec<_> = log
        .iter()
        .filter(|line| line["level"] == "WARN" && line["key"].is_string())
        .map(|line| line["key"].clone())
        .collect();
    assert_eq!(named, ["pool.stats_history"]);
    let last = log.last().unwrap().to_string();
    for part in [
        "stats_gathering_period",
        "log.level",
        "new",
        "differs",
        "goes",
    ] {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert_eq!(program.site.get("/api/v1/reports/goes").status, 404);
    assert_eq!(program.site.rows("stays"), stays);
    assert_eq!(program.site.rows("differs").len(), 3, "by host now");
    assert_eq!(
        program.site.rows("new").len(),
        20,
        "filled from what was there"
    );
    let window = program.site.json("/api/v1/reports/info?limit=0")["window_seconds"].clone();
    assert_eq!(window, 900, "the old value stays");
    let detail = program.site.delete("/api/v1/reports/stays").problem(409);
    assert!(
        detail.contains("pinbad.toml:2"),
        "where it stands now: {detail}"
    );
}
