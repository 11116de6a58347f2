//! Operator tools: the supervisor hears when the daemon is ready, reloading, alive and stopping;
//! `doctor` says what to change on this machine; man pages and completions know every command;
//! systemd accepts the units.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use pinbad::cli::args::Args;
use pinbad::daemon::memory_plan::TYPICAL_PACKET_CHARGE;

use crate::harness::{Program, Said, await_condition, clean, pinbad, program, run};

/// The words that the supervisor was told, one datagram each, until one contains `last`.
fn told(supervisor: &UnixDatagram, last: &str) -> Vec<String> {
    let mut told = Vec::new();
    let mut buffer = [0; 4096];
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let bytes = supervisor
            .recv(&mut buffer)
            .unwrap_or_else(|error| panic!("{last}: {error}; so far {told:?}"));
        let text = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
        let done = text.lines().any(|line| line == last);
        told.push(text);
        if done {
            return told;
        }
        assert!(Instant::now() < deadline, "{last}: {told:?}");
    }
}

#[test]
fn the_supervisor_hears_when_it_is_ready_alive_reloading_and_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    supervisor.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = pinbad();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let mut program = Program::start_as(command, &["serve"], &[]);
    let first = told(&supervisor, "READY=1");
    assert!(
        first.iter().all(|it| it.starts_with("WATCHDOG=1") || it.starts_with("READY=1")),
        "{first:?}"
    );
    // Ready means that it answers and receives.
    assert_eq!(program.site.get("/readyz").status, 200);
    for _ in 0..3 {
        told(&supervisor, "WATCHDOG=1");
    }
    program.signal("HUP");
    let reload = told(&supervisor, "RELOADING=1");
    assert_has!(reload.last().unwrap() =>
        "MONOTONIC_USEC="; "Type=notify-reload wants to know when");
    told(&supervisor, "READY=1");
    // One that stands still is not alive.
    program.signal("STOP");
    await_condition("every thread of it stands still", || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", program.id())).unwrap();
        let states = tasks.map(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            let (_, rest) = stat.rsplit_once(") ").unwrap();
            rest.starts_with('T')
        });
        let states: Vec<bool> = states.collect();
        match states.iter().all(|still| *still) {
            true => Ok(()),
            false => Err(states),
        }
    });
    supervisor.set_nonblocking(true).unwrap();
    while supervisor.recv(&mut [0; 4096]).is_ok() {}
    std::thread::sleep(Duration::from_millis(400));
    assert!(supervisor.recv(&mut [0; 4096]).is_err(), "a sign of life of one that stands still");
    supervisor.set_nonblocking(false).unwrap();
    program.signal("CONT");
    told(&supervisor, "WATCHDOG=1");
    program.signal("TERM");
    told(&supervisor, "STOPPING=1");
    assert_eq!(program.wait().0.code(), Some(0));

    // A start that fails never says that it is ready.
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = taken.local_addr().unwrap().to_string();
    let mut command = pinbad();
    command.env("NOTIFY_SOCKET", &path);
    let said = run(command.args(["serve", "--udp", &udp, "--http", "127.0.0.1:0", "--mysql", ""]));
    assert_eq!(said.code, Some(1), "{said:?}");
    supervisor.set_nonblocking(true).unwrap();
    let mut rest = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(bytes) = supervisor.recv(&mut buffer) {
        rest.push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
    }
    assert!(!rest.iter().any(|it| it.contains("READY=1")), "{rest:?}");
}

#[test]
fn the_supervisor_may_have_an_abstract_socket_or_none() {
    let name = format!("pinbad-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let supervisor = UnixDatagram::bind_addr(&address).unwrap();
    supervisor.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = pinbad();
    command.env("NOTIFY_SOCKET", format!("@{name}"));
    let mut program = Program::start_as(command, &["serve"], &[]);
    told(&supervisor, "READY=1");
    program.signal("TERM");
    told(&supervisor, "STOPPING=1");
    assert_eq!(program.wait().0.code(), Some(0));

    let mut command = pinbad();
    command.env("NOTIFY_SOCKET", "");
    let mut program = Program::start_as(command, &["serve"], &[]);
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let said = program.log();
    assert!(!said.iter().any(|it| it.to_string().contains("supervisor")), "{said:?}");
}

fn doctor(mut command: Command, settings: &[&str]) -> Said {
    command.arg("doctor");
    for setting in settings {
        command.args(["--set", setting]);
    }
    run(&mut command)
}

const FREE: [&str; 3] = ["ingest.listen=127.0.0.1:0", "http.listen=127.0.0.1:0", "mysql.listen="];

#[test]
fn the_doctor_finds_what_would_not_start_and_says_what_to_change() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().display());
    let said = doctor(pinbad(), &[FREE[0], FREE[1], FREE[2], &state, "ingest.recv_buffer=64KiB"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for what in "UDP HTTP buffers descriptors memory cores state.dir".split(' ') {
        let line = said.out.lines().find(|line| line[6..].trim_start().starts_with(what));
        assert!(line.is_some(), "{what}: {said:?}");
    }
    assert!(!said.out.contains("wrong "), "{said:?}");

    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("http.listen={}", http.local_addr().unwrap());
    let gone = format!("state.dir={}", dir.path().join("gone").display());
    let said = doctor(pinbad(), &[FREE[0], &taken, FREE[2], &gone]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for part in ["wrong   HTTP", "http.listen", "gone will be created"] {
        assert!(said.out.contains(part), "{part}: {said:?}");
    }
    assert!(!dir.path().join("gone").exists());

    let said = doctor(pinbad(), &["pool.stats_history=soon"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

/// `doctor` and `check` find everything that a configuration names and a start cannot use, and
/// report it in the words of `serve`.
#[test]
fn doctor_check_and_serve_are_of_one_mind() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(at("file"), "").unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap();
    std::fs::write(at("cert"), certificate.self_signed(&key).unwrap().pem()).unwrap();
    let tls = [format!("http.tls_cert={}", at("cert")), format!("http.tls_key={}", at("key"))];
    let user = r#"user=[{name = "ops", password_env = "PINBAD_NOBODY_SETS_THIS"}]"#;
    let state = format!("state.dir={}", at("file"));
    let with = |command: &str, settings: &[&str]| {
        let mut program = pinbad();
        program.arg(command);
        for setting in FREE.iter().chain(settings) {
            program.args(["--set", setting]);
        }
        run(&mut program)
    };
    let history = format!("history.dir={}", at("history"));
    let pipe = at("pipe");
    assert!(run(Command::new("mkfifo").arg(&pipe)).code == Some(0));
    let of_pipe = |key: &str| format!("{key}={pipe}");
    let no_file = "it is a named pipe, not a regular file";
    let piped = format!(r#"user=[{{name = "ops", password_file = "{pipe}"}}]"#);
    let rule = r#"alert=[{name = "a", report = "nobody_made_it", absent = true}]"#;
    let settings: [(&str, &[&str], &str); 13] = [
        ("TLS", &[&tls[0], &tls[1]], "http.tls_key = "),
        ("users", &[user], "PINBAD_NOBODY_SETS_THIS"),
        ("state.dir", &[&state], "file is not a folder; accepted: "),
        ("reports", &["metrics.reports=nope"], "metrics.reports: "),
        ("alerts", &[rule], "nobody_made_it"),
        (
            "alerts",
            &["alerting.webhook=https://127.0.0.1:1", "alerting.ca_file=/nope"],
            "alerting.ca_file: ",
        ),
        (
            "OTLP",
            &["otlp.url=http://127.0.0.1:1", "otlp.headers_file=/nope"],
            "otlp.headers_file: ",
        ),
        ("OTLP", &["otlp.url=https://127.0.0.1:1", "otlp.ca_file=/nope"], "otlp.ca_file: "),
        (
            "ClickHouse",
            &[&history, "clickhouse.url=http://127.0.0.1:1", "clickhouse.password_file=/nope"],
            "clickhouse.password_file: ",
        ),
        // Nobody waits for the other end.
        ("users", &[&piped], no_file),
        ("TLS", &[&tls[0], &of_pipe("http.tls_key")], no_file),
        ("OTLP", &["otlp.url=http://127.0.0.1:1", &of_pipe("otlp.headers_file")], no_file),
        (
            "alerts",
            &["alerting.webhook=https://127.0.0.1:1", &of_pipe("alerting.ca_file")],
            no_file,
        ),
    ];
    for (what, settings, part) in settings {
        let doctor = with("doctor", settings);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        let wrong = format!("wrong   {what} ");
        let line = doctor.out.lines().find(|line| line.starts_with(&wrong));
        assert!(line.unwrap_or_default().contains(part), "{doctor:?}");
        assert!(!doctor.out.contains(&format!("ok      {what} ")), "{doctor:?}");
        for command in ["check", "serve"] {
            let said = with(command, settings);
            assert_eq!(said.code, Some(2), "{command}: {said:?}");
            assert!(said.err.contains(part), "{command}: {said:?}");
        }
    }
    // All at once: all are named.
    let all = [tls[0].as_str(), tls[1].as_str(), user, state.as_str()];
    for said in [with("check", &all).err, with("doctor", &all).out] {
        for (_, _, part) in &settings[..3] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    // And what none of them minds: a folder that is not there yet.
    let new = format!("state.dir={}", at("a/b"));
    let doctor = with("doctor", &[&new]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.out.contains("a/b will be created"), "{doctor:?}");
    assert_eq!(with("check", &[&new]).code, Some(0));
    assert!(!dir.path().join("a").exists());
    let program = Program::serve(&[&new]);
    assert!(dir.path().join("a/b").is_dir());
    let doctor = with("doctor", &[&new]);
    assert_has!(doctor.out => "a/b is in use by another pinbad");
    drop(program);
}

/// Seconds of traffic: twice the buffers last twice as long.
#[test]
fn the_doctor_says_how_many_seconds_of_traffic_the_buffers_hold() {
    let seconds = |pool: &str| {
        let said = doctor(pinbad(), &[FREE[0], FREE[1], FREE[2], "ingest.recv_buffer=64KiB", pool]);
        let line = said.out.lines().find(|line| line.contains("buffers")).unwrap();
        let spans: Vec<(f64, u64)> = line
            .split_once("hold ")
            .unwrap()
            .1
            .split(", ")
            .map(|span| {
                let (seconds, rate) = span.split_once(" s at ").unwrap();
                let rate = rate.trim_end_matches("/s");
                (seconds.parse().unwrap(), rate.parse().unwrap())
            })
            .collect();
        assert!(spans.len() > 1, "{line}");
        spans
    };
    let (once, twice) =
        (seconds("ingest.temp_pool_size=200000"), seconds("ingest.temp_pool_size=400000"));
    for ((once, rate), (twice, _)) in once.iter().zip(&twice) {
        assert!((once * *rate as f64 - 200_000.0).abs() < 0.1 * *rate as f64, "{once} at {rate}");
        assert!((twice / once - 2.0).abs() < 0.2, "{once} {twice}");
    }
}

/// The program without what only root may (more than `net.core.rmem_max`), and what to ask for so
/// that less is granted.
fn granted_less() -> (Command, u64) {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let asked = limit.trim().parse::<u64>().unwrap() * 2;
    let mut command = clean(Command::new("setpriv"));
    if Command::new("setpriv").arg("--version").output().is_err() {
        command = pinbad();
    } else {
        // What only root may: it does not have it here.
        command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin", &program()]);
    }
    (command, asked)
}

/// Seconds that the buffers of all sockets last at 10,000 packets a second, each of twice so many
/// bytes.
fn kernel_seconds(sockets: u64, bytes: u64) -> f64 {
    (sockets * bytes * 2 / TYPICAL_PACKET_CHARGE) as f64 / 10_000.0
}

/// Without the right to more, a buffer beyond the kernel's limit is not granted: the sysctl that
/// helps is printed, and how long the buffers last is reckoned with what there is.
#[test]
fn the_doctor_prints_the_sysctl_for_a_buffer_that_is_not_granted() {
    let (command, asked) = granted_less();
    let buffer = format!("ingest.recv_buffer={asked}");
    let settings = [
        FREE[0],
        FREE[1],
        FREE[2],
        &buffer,
        "ingest.receivers=3",
        // 1 s.
        "ingest.temp_pool_size=10000",
    ];
    let said = doctor(command, &settings);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("better  UDP"), "{said:?}");
    assert_has!(said.out => format!("sysctl -w net.core.rmem_max={asked}"));
    let expected = 1.0 + kernel_seconds(3, asked / 2);
    let span = format!("they hold {expected:.1} s at 10000/s");
    assert!(said.out.contains(&span), "{span}: {said:?}");
}

#[test]
fn a_start_says_where_it_listens_and_what_it_keeps() {
    let dir = tempfile::tempdir().unwrap();
    // One that is there: that it makes a folder is a line of its own.
    let state = format!("state.dir={}", dir.path().display());
    for (settings, kept) in [
        (&["mysql.listen=127.0.0.1:0"][..], "Keeping all data in memory"),
        (&["mysql.listen=127.0.0.1:0", &state], "and no past. --data DIR (data.dir) keeps both."),
    ] {
        let mut program = Program::serve(settings);
        let (udp, http) = (program.site.udp[0], program.site.http);
        let mysql = program.site.mysql.unwrap();
        program.signal("TERM");
        program.wait();
        let log = program.log();
        let before_stop = log.iter().take_while(|line| line["message"] != "Stopping.");
        let start: Vec<_> = before_stop.filter(|line| line["level"] == "INFO").collect();
        assert_eq!(start.len(), 2, "{start:?}");
        assert_eq!(start[0]["message"], "Ready.");
        for (name, address) in [("udp", udp), ("http", http), ("mysql", mysql)] {
            assert_eq!(start[0][name], address.to_string(), "{start:?}");
        }
        let said = start[1]["message"].as_str().unwrap();
        assert!(said.contains(kept), "{said}");
        let more = ["Planned memory.", "Receiving."];
        assert!(!log.iter().any(|line| more.iter().any(|it| line["message"] == **it)));
    }
    // The plan is still to be had.
    let said = run(pinbad().arg("check"));
    assert!(said.out.contains("temporary pool"), "{said:?}");
}

#[test]
fn without_a_daemon_one_is_asked_whether_it_runs() {
    let (nobody, _taken) = crate::harness::nobody_listens();
    let said = run(pinbad().args(["query", "SELECT 1", "--url", &nobody.to_string()]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("is pinbad running? --url"), "{said:?}");
}

#[test]
fn where_tls_is_spoken_one_is_told_how_to_ask() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _some = stream.read(&mut [0; 1024]).unwrap();
        // An alert, as every server has for what is no handshake: fatal, decode_error.
        stream.write_all(&[21, 3, 3, 0, 2, 2, 50]).unwrap();
    });
    let said = run(pinbad().args(["query", "SELECT 1", "--url", &address]));
    served.join().unwrap();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "the answer is not HTTP; does it use TLS? then --url https://");
}

#[test]
fn the_log_reckons_with_the_buffers_that_were_granted() {
    let (command, asked) = granted_less();
    let buffer = format!("ingest.recv_buffer={asked}");
    let settings = [&buffer, "ingest.receivers=3", "log.level=debug"];
    let mut program = Program::start_as(command, &["serve"], &settings);
    program.signal("TERM");
    program.wait();
    let log = program.log();
    let line = |message: &str| {
        let mut lines = log.iter();
        lines.find(|line| line["message"] == message).unwrap()
    };
    assert_eq!(line("Receiving.")["granted_bytes"], asked / 2);
    let buffers = line("Buffers last this long.");
    assert_eq!(buffers["packets_per_second"], 10_000);
    assert_eq!(buffers["kernel_secs"], kernel_seconds(3, asked / 2), "{log:?}");
}

#[test]
fn man_pages_and_completions_know_every_command_and_flag() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(pinbad().args(["man", "--dir"]).arg(dir.path()));
    assert_eq!(said.code, Some(0), "{said:?}");
    let page = |name: &str| {
        let page = std::fs::read_to_string(dir.path().join(format!("{name}.1")));
        page.unwrap_or_else(|error| panic!("{name}: {error}")).replace("\\-", "-")
    };
    let completions = ["bash", "zsh", "fish"].map(|shell| {
        let said = run(pinbad().args(["completions", shell]));
        assert_eq!(said.code, Some(0), "{shell}: {said:?}");
        (shell, said.out)
    });
    let mut all = Args::command();
    all.build();
    let (mut commands, mut flags) = (0, 0);
    for command in all.get_subcommands().filter(|it| it.get_name() != "help") {
        let name = command.get_name();
        if command.is_hide_set() {
            assert!(!dir.path().join(format!("pinbad-{name}.1")).exists(), "{name}");
            for (shell, text) in &completions {
                assert!(!text.contains(name), "{name} in {shell}");
            }
            continue;
        }
        commands += 1;
        assert_has!(page("pinbad") => format!("pinbad-{name}(1)"); "{name}");
        let own = page(&format!("pinbad-{name}"));
        for (shell, text) in &completions {
            assert!(text.contains(name), "{name} in {shell}");
        }
        for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
            flags += 1;
            assert!(own.contains(&format!("--{flag}")), "{name} --{flag}");
            for (shell, text) in &completions {
                // fish writes `-l flag`.
                assert!(text.contains(flag), "{name} --{flag} in {shell}");
            }
        }
    }
    assert!(commands >= 12 && flags > 60, "{commands} {flags}");
    // What the shell itself makes of it, where there is one.
    let file = dir.path().join("pinbad.bash");
    std::fs::write(&file, &completions[0].1).unwrap();
    let script = format!(
        "source {}; COMP_WORDS=(pinbad do); COMP_CWORD=1; _pinbad pinbad do pinbad; echo \"${{COMPREPLY[*]}}\"",
        file.display()
    );
    let said = run(clean(Command::new("bash")).args(["-c", &script]));
    assert_eq!(said.out.trim(), "doctor", "{said:?}");
}

/// systemd's own opinion of the units, where it is installed: they are right, and little is left
/// exposed.
#[test]
fn the_units_are_right_and_closed() {
    let analyze = |arguments: &[&str]| {
        let tool = clean(Command::new("systemd-analyze")).args(arguments).output();
        tool.ok().map(|done| {
            let both = [done.stdout, done.stderr].concat();
            (done.status.success(), String::from_utf8_lossy(&both).into_owned())
        })
    };
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/systemd");
    // It looks for the program that is to be started.
    let dir = tempfile::tempdir().unwrap();
    for unit in ["pinbad.service", "pinbad.socket"] {
        let text = std::fs::read_to_string(shipped.join(unit)).unwrap();
        let text = text.replace("/usr/bin/pinbad", &program());
        std::fs::write(dir.path().join(unit), text).unwrap();
    }
    let service = dir.path().join("pinbad.service");
    let service = service.to_str().unwrap();
    let socket = dir.path().join("pinbad.socket");
    let socket = socket.to_str().unwrap();
    if analyze(&["--version"]).is_none() {
        let text = std::fs::read_to_string(shipped.join("pinbad.service")).unwrap();
        assert!(text.contains("NoNewPrivileges=yes"));
        return;
    }
    let (right, said) = analyze(&["verify", "--man=no", service, socket]).unwrap();
    assert!(right && !said.contains("pinbad"), "{said}");
    let (closed, said) =
        analyze(&["security", "--offline=true", "--threshold=25", service]).unwrap();
    assert!(closed, "exposure over 2.5: {said}");
}

/// Memory does not climb as one thread after the other sees its first large answer: they share it.
/// Who wants it otherwise says so.
#[cfg(target_env = "gnu")]
#[test]
fn threads_share_their_heap() {
    let program = Program::serve(&[]);
    assert_eq!(program.site.get("/api/v1/reports").status, 200);
    assert_eq!(program.heaps(), 1);

    let mut command = pinbad();
    command.env("MALLOC_ARENA_MAX", "16");
    let program = Program::start_as(command, &["serve"], &[]);
    assert_eq!(program.site.get("/api/v1/reports").status, 200);
    assert!(program.heaps() > 1, "{} heaps", program.heaps());
}
