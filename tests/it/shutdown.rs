//! How the program starts, refuses to start, and ends: signals, exit codes, ports that are taken,
//! bad configurations.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::harness::{Here, Program, Running, Said, await_until, connect, pinbad, run};
use crate::packets::request;

/// The longest that a clean stop may take when there is no state to write.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Stops a program that `prepare` has made busy: exit code 0 and a clean end of its log each time,
/// and within a second; or, where others have the processors, within twice the time that it took to
/// start. Of twenty tries one has to be that fast.
fn stops_cleanly<T>(signal: &str, prepare: impl Fn(&Program) -> T) {
    let mut took = Vec::new();
    for _ in 0..20 {
        let start = Instant::now();
        let mut program = Program::serve(&[]);
        let enough = STOP_MAX.max(start.elapsed() * 2);
        let busy = prepare(&program);
        program.signal(signal);
        let (status, time) = program.wait();
        assert_eq!(status.code(), Some(0), "SIG{signal}: {status:?}");
        let log = program.log();
        let messages: Vec<_> = log.iter().filter_map(|line| line["message"].as_str()).collect();
        assert_eq!(messages[messages.len() - 2..], ["Stopping.", "Stopped."], "{log:?}");
        let bad: Vec<_> = log.iter().filter(|line| line["level"] == "ERROR").collect();
        assert!(bad.is_empty(), "{bad:?}");
        drop(busy);
        took.push(time);
        if time < enough {
            return;
        }
    }
    panic!("SIG{signal}: took {took:?}");
}

#[test]
fn sigterm_and_sigint_end_it_with_exit_code_0_within_a_second() {
    stops_cleanly("TERM", |_| {});
    stops_cleanly("INT", |_| {});
}

#[test]
fn it_ends_as_cleanly_under_load_and_with_open_connections() {
    for signal in ["TERM", "INT"] {
        stops_cleanly(signal, |program| {
            let load = load(program.site.udp[0]);
            await_until(
                "packets come",
                || program.site.status().count("requests_merged"),
                |merged| *merged > 1000,
            );
            (load, open_connections(program.site.http))
        });
    }
}

/// `pinbad load` for half a minute; ended with the test.
fn load(target: SocketAddr) -> Running {
    let arguments = "load --rate 5000 --duration 30s --timers 3 --corpus 1000 --target";
    let mut command = pinbad();
    command.args(arguments.split(' ')).arg(target.to_string());
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Some that said nothing, some in the middle of a request, some kept alive after an answer.
fn open_connections(http: SocketAddr) -> Vec<TcpStream> {
    let beginnings = [
        "",
        "GET /api/v1/info HT",
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /api/v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{",
    ];
    (0..20)
        .map(|number| {
            let beginning = beginnings[number % beginnings.len()];
            let mut stream = connect(http);
            stream.write_all(beginning.as_bytes()).unwrap();
            if beginning.ends_with("\r\n\r\n") {
                assert_eq!(stream.read(&mut [0; 1]).unwrap(), 1);
            }
            stream
        })
        .collect()
}

/// A stop merges everything that the receivers have taken: nothing is lost on the way out.
#[test]
fn a_stopped_daemon_leaves_its_ports_to_the_next_one() {
    let mut ports: Option<(SocketAddr, SocketAddr)> = None;
    for _ in 0..3 {
        let here = match ports {
            // An address at which nothing else in these tests takes a port meanwhile.
            None => Here::start(&[
                "ingest.receivers=2",
                "ingest.listen=127.77.0.1:0",
                "http.listen=127.77.0.1:0",
            ]),
            Some((udp, http)) => Here::start(&[
                "ingest.receivers=2",
                &format!("ingest.listen={udp}"),
                &format!("http.listen={http}"),
            ]),
        };
        assert_eq!(here.site.send([request("h", "s", "/x")]).count("requests_merged"), 1);
        ports = Some((here.site.udp[0], here.site.http));
        here.stop();
    }
}

#[track_caller]
fn assert_refused(said: &Said, code: i32, parts: &[&str]) {
    assert_eq!(said.code, Some(code), "{said:?}");
    for part in parts {
        assert!(said.err.contains(part), "{part:?} is not in {said:?}");
    }
}

fn serve(settings: &[&str]) -> Said {
    let mut command = pinbad();
    for setting in settings {
        command.args(["--set", setting]);
    }
    run(&mut command)
}

#[test]
fn a_second_instance_is_refused_and_told_which_setting_to_change() {
    let first = Program::serve(&["ingest.receivers=2"]);
    let (udp, http) = (first.site.udp[0], first.site.http);
    for receivers in [1, 2] {
        let said = serve(&[
            &format!("ingest.listen={udp}"),
            &format!("ingest.receivers={receivers}"),
            "http.listen=",
            "mysql.listen=",
        ]);
        assert_refused(&said, 1, &["ingest.listen", "--udp", &udp.to_string(), "in use"]);
    }
    let said =
        serve(&["ingest.listen=127.0.0.1:0", &format!("http.listen={http}"), "mysql.listen="]);
    assert_refused(&said, 1, &["http.listen", "--http", &http.to_string()]);
    // The first one noticed nothing.
    assert_eq!(
        first.site.send((0..100).map(|_| request("h", "s", "/x"))).count("requests_merged"),
        100
    );
}

#[test]
fn usage_errors_end_with_2_and_help_with_0() {
    for arguments in [
        &["--nothing"][..],
        &["reticulate"],
        &["serve", "--set"],
        &["load", "--rate", "fast"],
        &["check", "--config"],
    ] {
        let said = run(pinbad().args(arguments));
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(!said.err.is_empty() && said.out.is_empty(), "{said:?}");
    }
    for command in ["serve", "check", "load", "demo"] {
        let said = run(pinbad().args([command, "--help"]));
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.contains("Usage: pinbad") && said.err.is_empty(), "{said:?}");
    }
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = pinbad().arg("help").stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(1), "help that could not be written");
    let said = run(pinbad().arg("--version"));
    assert_eq!(said.out.trim(), concat!("pinbad ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn load_with_nobody_listening_is_a_failure() {
    // Connected to itself: the kernel has no receiver for others, and gives the port to nobody
    // else.
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = taken.local_addr().unwrap();
    taken.connect(free).unwrap();
    let said = run(pinbad().args(["load", "--count", "1000", "--target", &free.to_string()]));
    assert_refused(&said, 1, &["nobody listens", &free.to_string()]);
}

#[test]
fn check_shows_where_it_listens_and_a_line_of_memory_a_pool() {
    let said = run(pinbad().args([
        "check",
        "--udp",
        "127.0.0.1:40001",
        "--http",
        "127.0.0.1:40002",
        "--set",
        "pool.request_pool_size=2345678",
        // So that it is more than a GiB.
        "--set",
        "reports.memory=1GiB",
    ]));
    assert_eq!(said.code, Some(0), "{said:?}");
    for part in [
        "127.0.0.1:40001",
        "127.0.0.1:40002",
        "temporary pool",
        "receive buffers",
        "requests",
        "2345678 rows",
        "timers",
        "strings and tag sets",
        "reports",
        "total",
    ] {
        assert!(said.out.contains(part), "{part:?} is not in {}", said.out);
    }
    // The lines add up to the total, in MiB with one decimal each, however much it is.
    let mib = |line: &str| -> Option<f64> {
        let number = line.split(" MiB").next()?.split_whitespace().last()?;
        number.replace(',', "").parse().ok()
    };
    let memory =
        said.out.split("Memory, at most").nth(1).unwrap().split("In addition").next().unwrap();
    let (total, lines): (Vec<_>, Vec<_>) = memory
        .lines()
        .filter(|line| line.contains(" MiB"))
        .partition(|line| line.contains("  total"));
    let sum: f64 = lines.iter().filter_map(|line| mib(line)).sum();
    let total = mib(total[0]).unwrap();
    assert!(
        lines.len() >= 7 && total > 1024.0 && (sum - total).abs() < 0.1 * lines.len() as f64,
        "{}",
        said.out
    );
}

#[test]
fn bad_configurations_are_refused_with_file_line_key_and_what_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pinbad.toml");
    let name = file.to_str().unwrap();
    for (text, line, parts) in cases![
        "[pool]\nstats_history = \"15x\"\n" => 2, &["pool.stats_history", "accepted"][..];
        "[http]\n\ncolour = \"red\"\n" => 3, &["http.colour", "unknown setting", "allow_anonymous"];
        "\n[htp]\n" => 2, &["htp", "http"];
        "[http]\nlisten = \"0.0.0.0:1\"\n" =>
            2, &["http.listen", "loopback", "allow_anonymous = true"];
        "[ingest]\nlisten = [\"localhost\"]\n" => 2, &["ingest.listen", "localhost", "accepted"];
        "[ingest]\nreceivers = \"two\"\n" => 2, &["ingest.receivers", "two", "accepted"];
        "[ingest]\ntemp_pool_size = 1\n" => 2, &["ingest.temp_pool_size", "16"];
        "[pool\n" => 1, &["TOML"];
        "# a report\n[[report]]\nname = \"a\"\ncomment = \"tag_info:\"\n" =>
            4, &["report.comment", "tag_info"];
        "[[report]]\nname = \"info\"\ncomment = \"report1\"\n" => 2, &["report.name", "info"];
    ] {
        std::fs::write(&file, text).unwrap();
        let place = format!("{name}:{line}");
        for command in ["check", "serve"] {
            let said = run(pinbad().args([command, "--config", name]));
            let code = said.code;
            assert!(code == Some(2) || (command == "serve" && code == Some(1)), "{text}: {said:?}");
            assert!(said.err.contains(&place), "{place} for {text}: {said:?}");
            for part in parts {
                assert!(said.err.contains(part), "{part:?} for {text}: {said:?}");
            }
        }
    }
    let said = run(pinbad().args(["check", "--config", "/nowhere/pinbad.toml"]));
    assert_refused(&said, 2, &["--config", "/nowhere/pinbad.toml"]);
    let said = run(pinbad().arg("check").env("PINBAD_POOL_STATS_HISTORY", "soon"));
    assert_refused(&said, 2, &["PINBAD_POOL_STATS_HISTORY", "soon", "accepted"]);
    let said = run(pinbad().args(["check", "--set", "pool.nothing=1"]));
    assert_refused(&said, 2, &["--set", "pool.nothing", "request_pool_size"]);
}

/// Whatever they are in: settings, reports, users, or what those name.
#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pinbad.toml");
    let text = "[http]\ncolour = 1\n\
        [[report]]\nname = \"a\"\nlevel = \"row\"\nwindw = \"1m\"\n\
        [[report]]\nname = \"b\"\ncomment = \"tag_inf:x\"\n\
        [[user]]\nname = \"kim\"\nrole = \"amdin\"\npassword_file = \"/x\"\n\
        [[user]]\nname = \"lee\"\npassword_file = \"/nowhere/password\"\n";
    std::fs::write(&file, text).unwrap();
    for command in ["check", "serve"] {
        let said = run(pinbad().args([command, "--config", file.to_str().unwrap()]));
        let lines = [
            "2: http.colour = 1: unknown setting",
            "12: user.role = \"amdin\": no such choice; did you mean \"admin\"? accepted: read",
            "5: report.level: ",
            "6: report.windw: ",
            "9: report.comment: ",
            "14: user.password_file = ",
        ];
        let lines = lines.map(|line| format!("pinbad.toml:{line}"));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_refused(&said, 2, &lines);
    }
}

/// Flags over environment over file over defaults, as the running daemon shows it.
#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pinbad.toml");
    std::fs::write(
        &file,
        "[pool]\nstats_history = \"100s\"\nrequest_pool_size = 111\ntimer_pool_size = 112\n",
    )
    .unwrap();
    let said = run(pinbad()
        .args(["check", "--set", "pool.request_pool_size=333"])
        .env("PINBAD_CONFIG", &file)
        .env("PINBAD_POOL_REQUEST_POOL_SIZE", "222")
        .env("PINBAD_POOL_TIMER_POOL_SIZE", "223"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains(" 333 rows"), "{said:?}");
    assert!(said.out.contains(" 223 rows"), "{said:?}");
    let program = Program::start(&["serve", "--config", file.to_str().unwrap()], &[]);
    let reports = program.site.json("/api/v1/reports");
    assert_eq!(reports["reports"][0]["window_seconds"], 100, "{reports:#}");
}

/// A machine reads the log: with `--log-format json` every line is an object.
#[test]
fn the_log_in_json_is_one_object_a_line() {
    let mut program = Program::serve(&[]);
    program.signal("TERM");
    program.wait();
    let log = program.log();
    assert!(log.len() > 3, "{log:?}");
    for line in log {
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
        assert!(matches!(line, Json::Object(_)), "{line}");
    }
}
