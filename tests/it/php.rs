//! Real PHP with the stock Pinba extension: what a script measured of itself is what the daemon
//! shows.
//!
//! Needs `php` with the extension (Debian: `php-cli php-pinba`), which `tests/run.sh` installs
//! where it may. Where it may not, it skips these tests and says so at its end; whoever runs them
//! without PHP sees them fail.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use crate::harness::{Program, Running, Site, await_condition, await_until, free_address, run};

/// A script that measures itself and prints what it measured, as the extension tells it.
const SCRIPT: &str = r#"<?php
pinba_hostname_set("php-host");
pinba_server_name_set("php.example");
pinba_script_name_set("/measured.php");
pinba_schema_set("https");
pinba_tag_set("env", "test");
pinba_tag_set("release", "42");
$running = pinba_timer_start(["group" => "db", "op" => "read", "table" => "users"]);
usleep(3000);
pinba_timer_stop($running);
$again = pinba_timer_start(["group" => "db", "op" => "write"], [], 3);
usleep(1000);
pinba_timer_stop($again);
pinba_timer_add(["group" => "cache"], 0.0125);
pinba_timer_add(["group" => "cache"], 0.25);
pinba_request_time_set(1.5);
http_response_code(503);
$info = pinba_get_info();
$info["timers"] = [pinba_timer_get_info($running), pinba_timer_get_info($again)];
echo json_encode($info);
"#;

/// The page of the web server, and the one that fails.
const PAGE: &str = r#"<?php
pinba_tag_set("page", "home");
$timer = pinba_timer_start(["group" => "mysql", "operation" => "select"]);
usleep(2000);
pinba_timer_stop($timer);
header("Content-Type: application/json");
echo json_encode(["timer" => pinba_timer_get_info($timer), "padding" => str_repeat("y", 2000)]);
"#;
const MISSING: &str = "<?php http_response_code(404); echo 'no';";

/// PHP that sends to this daemon.
#[track_caller]
fn php(site: &Site) -> Command {
    let modules = Command::new("php").arg("-m").output();
    let there = modules.is_ok_and(|said| {
        let text = String::from_utf8_lossy(&said.stdout).to_lowercase();
        text.lines().any(|line| line == "pinba")
    });
    assert!(
        there,
        "there is no php with the pinba extension: `apt-get install php-cli php-pinba`, or leave these tests out \
         with `cargo test -- --skip php::`"
    );
    let mut command = Command::new("php");
    command.args(["-d", "pinba.enabled=1", "-d"]).arg(format!("pinba.server={}", site.udp[0]));
    command
}

/// The only request with this script name, with tags and timers.
#[track_caller]
fn request(site: &Site, script: &str) -> Json {
    let page = await_condition("the request arrives", || {
        let page = site.json(&format!("/api/v1/requests?script_name={script}"));
        if page["rows"].as_array().unwrap().is_empty() { Err(page) } else { Ok(page) }
    });
    assert_eq!(page["rows"].as_array().unwrap().len(), 1, "{page:#}");
    site.json(&format!("/api/v1/requests/{}", page["rows"][0]["id"]))
}

/// Seconds as the wire carries them (single precision) and the daemon shows them (whole
/// microseconds).
fn on_the_wire(seconds: &Json) -> f64 {
    let single = seconds.as_f64().unwrap() as f32;
    (f64::from(single) * 1e6).round_ties_even() / 1e6
}

/// The timer with this value of a tag.
#[track_caller]
fn timer<'a>(request: &'a Json, tag: &str, value: &str) -> &'a Json {
    let timers = request["timers"].as_array().unwrap();
    let found = timers.iter().find(|timer| timer["tags"][tag] == value);
    found.unwrap_or_else(|| panic!("{tag}={value} in {request:#}"))
}

#[test]
fn a_script_is_shown_with_what_it_measured_itself() {
    let program = Program::serve(&[r#"report=[{name = "groups", comment = "tag_info:group"}]"#]);
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("measured.php");
    std::fs::write(&script, SCRIPT).unwrap();
    let said = run(php(&program.site).arg(&script));
    assert_eq!(said.code, Some(0), "{said:?}");
    let info: Json = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let site = &program.site;
    let request = request(site, "/measured.php");

    for (name, value) in [
        ("hostname", "php-host"),
        ("server_name", "php.example"),
        ("script_name", "/measured.php"),
        ("schema", "https"),
    ] {
        assert_eq!(request[name], value, "{request:#}");
    }
    for name in ["hostname", "server_name", "script_name", "schema"] {
        assert_eq!(request[name], info[name], "{info:#}");
    }
    assert_eq!(request["req_count"], info["req_count"]);
    assert_members!(request => {"req_time": 1.5, "status": 503});
    assert_eq!(request["tags"], info["tags"]);
    assert_eq!(request["doc_size"].as_f64().unwrap() * 1024.0, said.out.len() as f64);
    let peak = info["mem_peak_usage"].as_f64().unwrap() / 1024.0;
    assert_eq!(request["mem_peak_usage"].as_f64(), Some(peak), "{request:#}");
    // The processor went on for a moment after it was asked.
    for name in ["ru_utime", "ru_stime"] {
        let (shown, asked) = (request[name].as_f64().unwrap(), info[name].as_f64().unwrap());
        assert!(shown >= asked - 2e-6 && shown < asked + 1.0, "{name}: {shown}, {asked}");
    }

    // Timers: two that ran, and two of equal tags that the extension sends as one.
    assert_eq!(request["timers_cnt"], 3, "{request:#}");
    for (measured, op, hits) in [(&info["timers"][0], "read", 1), (&info["timers"][1], "write", 3)]
    {
        let timer = timer(&request, "op", op);
        assert_eq!(timer["tags"], measured["tags"], "{timer}");
        assert_eq!(timer["hit_count"], hits, "{timer}");
        assert!(timer["value"].as_f64().unwrap() >= 0.001, "{timer}");
        for (shown, told) in
            [("value", "value"), ("ru_utime", "ru_utime"), ("ru_stime", "ru_stime")]
        {
            assert_eq!(
                timer[shown].as_f64(),
                Some(on_the_wire(&measured[told])),
                "{shown}: {timer} {measured}"
            );
        }
    }
    let cache = timer(&request, "group", "cache");
    assert_eq!((&cache["hit_count"], &cache["value"]), (&Json::from(2), &Json::from(0.2625)));

    // And the reports have it under its names.
    let row = &site
        .json("/api/v1/reports/report_by_hostname_server_and_script?script_name=/measured.php")["rows"]
        [0];
    assert_eq!(row["index_value"], "php-host:php.example//measured.php");
    assert_eq!((&row["req_count"], &row["req_time_total"]), (&Json::from(1), &Json::from(1.5)));
    let groups = site.json("/api/v1/reports/groups?sort=tag_value");
    let groups = groups["rows"].as_array().unwrap();
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert_eq!(groups[0]["timer_value"], 0.2625);
    assert_eq!((&groups[1]["tag_value"], &groups[1]["hit_count"]), (&"db".into(), &Json::from(4)));
}

/// `php -S`, stopped by its own process when dropped.
struct WebServer {
    _server: Running,
    address: SocketAddr,
}

impl WebServer {
    fn start(site: &Site, directory: &Path) -> Self {
        let address = free_address("127.77.0.5");
        let mut command = php(site);
        command.args(["-S", &address.to_string(), "-t"]).arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = Running(command.spawn().unwrap());
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let started = lines.find(|line| line.as_ref().unwrap().contains(" started"));
        assert!(started.is_some(), "php -S {address} did not start");
        // Read on, so that it never waits for somebody to do so.
        std::thread::spawn(move || lines.for_each(drop));
        Self { _server: server, address }
    }

    fn get(&self, path: &str) -> (u16, String) {
        let reply = Site::new(Vec::new(), self.address).get(path);
        (reply.status, reply.body)
    }
}

#[test]
fn a_page_of_a_web_server_is_in_the_report_within_a_second() {
    let program = Program::serve(&[]);
    let site = &program.site;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("index.php"), PAGE).unwrap();
    std::fs::write(directory.path().join("missing.php"), MISSING).unwrap();
    let server = WebServer::start(site, directory.path());

    let mut bodies = Vec::new();
    let mut quickest = Duration::MAX;
    for loads in 1..=5_u64 {
        let (status, body) = server.get("/index.php");
        assert_eq!(status, 200, "{body}");
        bodies.push(body);
        let loaded = Instant::now();
        await_until(
            "the page is in the report",
            || site.json("/api/v1/reports/report_by_script_name?script_name=/index.php"),
            |report| report["rows"][0]["req_count"] == loads,
        );
        quickest = quickest.min(loaded.elapsed());
    }
    // Of five: other tests may have both processors.
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
    assert_eq!(server.get("/missing.php").0, 404);
    let missing = request(site, "/missing.php");
    assert_eq!((&missing["status"], &missing["timers_cnt"]), (&Json::from(404), &Json::from(0)));
    assert_eq!(missing["doc_size"].as_f64().unwrap() * 1024.0, 2.0);

    // Oldest first: the order in which they were loaded.
    let page = site.json("/api/v1/requests?script_name=/index.php&tag.page=home");
    let rows: Vec<_> = page["rows"].as_array().unwrap().iter().rev().collect();
    assert_eq!(rows.len(), 5);
    let mut sizes = 0;
    for (row, body) in rows.iter().zip(&bodies) {
        let request = site.json(&format!("/api/v1/requests/{}", row["id"]));
        let told: Json = serde_json::from_str(body).unwrap();
        let timer = timer(&request, "group", "mysql");
        assert_eq!(timer["tags"], told["timer"]["tags"]);
        assert_eq!(timer["value"].as_f64(), Some(on_the_wire(&told["timer"]["value"])), "{told}");
        assert_eq!(request["doc_size"].as_f64().unwrap() * 1024.0, body.len() as f64);
        // The request took longer than its timer, and less than the test.
        let time = request["req_time"].as_f64().unwrap();
        assert!(time >= timer["value"].as_f64().unwrap() && time < 60.0, "{request}");
        assert_eq!(
            (&request["status"], &request["tags"]["page"]),
            (&Json::from(200), &"home".into())
        );
        sizes += body.len();
    }
    let report = site.json("/api/v1/reports/report_by_script_and_status?script_name=/index.php");
    assert_eq!(report["rows"][0]["traffic_total"].as_f64().unwrap() * 1024.0, sizes as f64);
    assert_eq!(report["rows"][0]["index_value"], "200:/index.php");
}
