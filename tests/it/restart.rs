//! Restarts: raw rows, reports, counters and ids survive, however the previous process ended. With
//! inherited sockets, so does traffic that arrives while no process runs. The daemon sets
//! unreadable state aside, reports failed writes, and keeps working in either case.
#![expect(
    clippy::print_stdout,
    reason = "figures of the full size, and what could not be tried, are for whoever runs the tests"
)]

mod disk;
mod socket_activation;

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

#[cfg(feature = "sql")]
use crate::harness::pass;
use crate::harness::{
    Here, Program, START_SECS, Sender, Site, await_condition, await_until, clean, number, pinbad,
    program, run,
};

pub(crate) use self::disk::SmallDisk;
pub(crate) use self::socket_activation::Holder;

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
        sent.add_timer(timer as u32 + 1, 0.125, &[("group", "db"), ("op", op.as_str())]);
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

/// A daemon that has seen some minutes: pools have wrapped, ticks have closed, keys lie under
/// `(other)`.
fn busy(dir: &Path) -> (Here, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START_SECS * 1000));
    let here = start(dir, &clock);
    for step in 0..40 {
        here.site.send((0..90).map(|n| packet(step * 90 + n)));
        clock.advance_ms(1_700);
    }
    here.site.send([packet(1)]);
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
        for name in "datagrams_received requests_merged timers_merged rows_evicted request_rows \
             timer_rows received_bytes"
            .split(' ')
        {
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
    here.site.send([packet(5)]);
    assert_eq!(newest(&here)["id"], last + 1);
    here.stop();
}

/// Rows that a running daemon would have dropped meanwhile are dropped: no more, no fewer.
#[test]
fn what_expired_while_there_was_no_process_is_gone() {
    let ran_on = |away_ms: u64| {
        let dir = tempfile::tempdir().unwrap();
        let (here, clock) = busy(dir.path());
        clock.advance_ms(away_ms);
        here.site.send([packet(1)]);
        all(&here.site)
    };
    let restarted = |away_ms: u64| {
        let dir = tempfile::tempdir().unwrap();
        let (here, clock) = busy(dir.path());
        here.stop();
        clock.advance_ms(away_ms);
        let here = start(dir.path(), &clock);
        here.site.send([packet(1)]);
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
        // Counters of Prometheus never come back smaller, except as 0.
        assert_eq!(scraped(&program.site), [0; 4], "{round}");
        let status = program.site.send((0..500).map(|n| packet(round * 500 + n)));
        assert_eq!(scraped(&program.site), [500; 4], "{round}");
        merged = status.count("requests_merged");
        let written = status.0["snapshot"]["written"].as_u64().unwrap();
        await_until(
            "a snapshot of that",
            || program.site.status(),
            // One may have been under way.
            |status| status.0["snapshot"]["written"].as_u64().unwrap() > written + 1,
        );
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

/// Counters of `/metrics` that are alike where packets have one request each.
fn scraped(site: &Site) -> [u64; 4] {
    let text = site.get("/metrics").body;
    let names = "datagrams_received requests_decoded requests_merged socket_requests_popped";
    let counts = names.split(' ').map(|name| {
        let name = format!("pinbad_{name}_total");
        let lines = text.lines().filter_map(|line| {
            let (labels, count) = line.strip_prefix(&name)?.rsplit_once(' ')?;
            assert!(labels.is_empty() || labels.starts_with('{'), "{line}");
            count.parse::<u64>().ok()
        });
        lines.sum()
    });
    counts.collect::<Vec<_>>().try_into().unwrap()
}

/// After a kill they start at 0; what is left out then stays left out, so that they go on after a
/// stop.
#[test]
fn scraped_counters_start_again_after_a_kill_and_go_on_after_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let settings = settings(dir.path());
    let totals = |site: &Site| site.status().count("requests_merged");
    let seen = |end: &str, sent: u64| {
        let mut program = Program::serve(&refs(&settings));
        let found = (totals(&program.site), scraped(&program.site)[2]);
        program.site.send((0..sent).map(packet));
        program.signal(end);
        program.wait();
        found
    };
    assert_eq!(seen("TERM", 30), (0, 0));
    assert_eq!(seen("TERM", 20), (30, 30), "a stop");
    assert_eq!(seen("KILL", 5), (50, 50), "a stop");
    assert_eq!(seen("TERM", 7), (50, 0), "a kill");
    assert_eq!(seen("TERM", 2), (57, 7), "a stop");
    assert_eq!(seen("KILL", 0), (59, 9), "a stop");
    assert_eq!(seen("TERM", 0), (59, 0), "a kill");
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
                && line["reason"].as_str().is_some_and(|it| it.contains(reason))
        });
        let aside = named.unwrap_or_else(|| panic!("{reason}: {log:?}"))["set_aside"].clone();
        assert_eq!(std::fs::read(aside.as_str().unwrap()).unwrap(), bad);
        assert_eq!(program.site.send([packet(1)]).count("requests_merged"), 1);
        program.signal("TERM");
        assert_eq!(program.wait().0.code(), Some(0));
        assert!(file.exists(), "the next one is there");
    }
}

/// Folders that were not there are named with those in which data is; what a damaged snapshot had of reports
/// comes from history, as after a kill.
#[test]
fn new_folders_are_named_and_a_damaged_snapshot_is_replaced_by_history() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("new");
    let mut settings = settings(&folder);
    settings[0] = "pool.stats_history=15m".to_owned();
    let history = folder.join("history");
    settings.push(format!("history.dir={}", history.display()));
    settings.push("history.free_min=0".to_owned());
    let mut program = Program::serve(&refs(&settings));
    let made = format!("{}, {}", folder.display(), history.display());
    let says_so =
        |line: &Json| line["message"] == "Keeping data on disk." && line["made"] == made.as_str();
    await_until("it says so", || program.log(), |log| log.iter().any(says_so));
    assert_eq!(program.site.send((0..300).map(packet)).count("requests_merged"), 300);
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    std::fs::write(folder.join("snapshot"), "damaged").unwrap();
    let program = Program::serve(&refs(&settings));
    assert_eq!(program.site.json("/api/v1/info")["req_count"], 300);
    let log = program.log();
    let said = "No snapshot came back: reports are filled from history, by the minute.";
    assert!(log.iter().any(|line| line["message"] == said), "{log:?}");
}

/// What came back from history is there after a clean restart too, also when the hour in which it
/// was counted is over: its minutes are published only once no window reaches them.
#[cfg(feature = "sql")]
#[test]
fn what_came_from_history_survives_the_end_of_its_hour_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let hour = START_SECS.next_multiple_of(3_600);
    let clock = Arc::new(ManualClock::new((hour - 100) * 1_000));
    let state = format!("state.dir={}", dir.path().display());
    let others =
        [&*state, "state.snapshot_period=0", "history.requests=none", "pool.stats_history=1h"];
    let start = || Here::with_history(&dir.path().join("history"), &clock, &others);
    let count = |here: &Here| here.site.json("/api/v1/info")["req_count"].as_u64();
    let here = start();
    here.site.send((0..300).map(packet));
    clock.advance_ms(1_000);
    here.stop();
    std::fs::write(dir.path().join("snapshot"), "damaged").unwrap();
    let here = start();
    assert_eq!(count(&here), Some(300));
    let history = |here: &Here, name: &str| here.site.status().0["history"][name].as_u64();
    for _ in 0..5 {
        pass(&here.site, &clock, 60_000);
    }
    // Between two flushes files are published that are due, two minutes after the hour.
    let before = history(&here, "flushes");
    let flushes = || {
        clock.advance_ms(1_000);
        history(&here, "flushes")
    };
    await_until("two flushes", flushes, |it| *it > before.map(|it| it + 1));
    assert_eq!(count(&here), Some(300));
    here.stop();
    let here = start();
    assert_eq!(count(&here), Some(300));
    pass(&here.site, &clock, 3_600_000);
    assert_eq!(count(&here), Some(0));
    await_until("it is published", || history(&here, "files_published"), |it| *it >= Some(1));
    here.stop();
}

/// A snapshot of a clock that was ahead has a time that is still to come: what history got after it
/// is told by the files, not by their times.
#[cfg(feature = "sql")]
#[test]
fn what_followed_a_snapshot_from_the_future_comes_back_from_history() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new((START_SECS + 600) * 1_000));
    let state = format!("state.dir={}", dir.path().display());
    let others = [&*state, "state.snapshot_period=0", "pool.stats_history=1h"];
    let start = || Here::with_history(&dir.path().join("history"), &clock, &others);
    let count = |here: &Here| here.site.json("/api/v1/info")["req_count"].as_u64();
    let [snapshot, running] = ["snapshot", "running"].map(|name| dir.path().join(name));
    let here = start();
    here.site.send((0..100).map(packet));
    here.stop();
    let from_the_future = std::fs::read(&snapshot).unwrap();
    clock.set_unix_ms(START_SECS * 1_000);
    let here = start();
    assert_eq!(count(&here), Some(100));
    here.site.send((0..300).map(packet));
    clock.advance_ms(1_000);
    here.stop();
    // As after a kill.
    std::fs::write(&snapshot, from_the_future).unwrap();
    std::fs::write(&running, "").unwrap();
    let here = start();
    assert_eq!(count(&here), Some(400));
    here.stop();
}

/// A daemon that keeps everything, and its killed predecessors.
#[cfg(feature = "sql")]
struct Lives {
    dir: tempfile::TempDir,
    clock: Arc<ManualClock>,
    here: Option<Here>,
    /// Settings that win.
    more: Vec<String>,
    killed: u64,
    sent: u64,
}

#[cfg(feature = "sql")]
impl Lives {
    fn new(more: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
        let dir = tempfile::tempdir().unwrap();
        let more = more.iter().map(ToString::to_string).collect();
        let mut lives = Self { dir, clock, here: None, more, killed: 0, sent: 0 };
        lives.start();
        lives
    }

    fn folder(&self) -> std::path::PathBuf {
        self.dir.path().join(self.killed.to_string())
    }

    fn start(&mut self) {
        let state = format!("state.dir={}", self.folder().join("state").display());
        let mut others = vec![&*state, "pool.stats_history=24h", "history.requests=none"];
        others.extend(["state.snapshot_period=60s", "history.flush_period=1s"]);
        others.extend(refs(&self.more));
        let history = self.folder().join("history");
        std::fs::create_dir_all(self.folder().join("state")).unwrap();
        self.here = Some(Here::with_history(&history, &self.clock, &others));
    }

    fn site(&self) -> &Site {
        &self.here.as_ref().unwrap().site
    }

    fn send(&mut self, packets: u64) {
        self.site().send((0..packets).map(packet));
        self.sent += packets;
    }

    fn snapshots(&self) -> u64 {
        self.site().status().0["snapshot"]["written"].as_u64().unwrap()
    }

    /// Sets the wall clock.
    fn set_ahead(&self, secs: i64) {
        let now_ms = self.clock.unix_ms();
        self.clock.set_unix_ms(now_ms.saturating_add_signed(secs * 1_000));
    }

    /// What is counted, live and in the past, as of the next second, once all of it is on disk.
    fn counted(&self) -> [u64; 2] {
        let sum = |query: &str| {
            let found = self.site().json(&format!("/api/v1/reports/report_by_script_name?{query}"));
            let rows = found["rows"].as_array().unwrap();
            rows.iter().map(|row| row["req_count"].as_u64().unwrap()).sum()
        };
        let all = format!("limit=0&from={}&to={}", START_SECS - 86_400, START_SECS + 864_000);
        let on_disk = || {
            pass(self.site(), &self.clock, 1_000);
            let past = sum(&all);
            (past, self.site().status().0["history"]["memory_bytes"].as_u64())
        };
        let (past, _) = await_until("it is on disk", on_disk, |(past, waits)| {
            *past >= self.sent && *waits == Some(0)
        });
        [sum("limit=0"), past]
    }

    fn report(&self, name: &str) -> Json {
        self.site().json(&format!("/api/v1/reports/{name}"))
    }

    /// What a kill leaves behind is what the next process begins with.
    fn kill(&mut self) {
        let before = self.folder();
        self.killed += 1;
        let copied = run(std::process::Command::new("cp").arg("-r").arg(before).arg(self.folder()));
        assert_eq!(copied.code, Some(0), "{copied:?}");
        self.here.take().unwrap().stop();
        self.start();
    }
}

/// The clock was ahead while a periodic snapshot was written, and is right again: what came since
/// has earlier times.
#[cfg(feature = "sql")]
#[test]
fn what_followed_a_periodic_snapshot_of_a_clock_that_was_ahead_comes_back() {
    let mut lives = Lives::new(&[]);
    lives.set_ahead(600);
    lives.send(100);
    lives.counted();
    pass(lives.site(), &lives.clock, 60_000);
    await_until("a snapshot", || lives.snapshots(), |it| *it > 0);
    lives.set_ahead(-600);
    lives.send(300);
    assert_eq!(lives.counted(), [400; 2]);
    lives.kill();
    assert_eq!(lives.counted(), [400; 2]);
    // Again, before there is another snapshot.
    lives.send(50);
    assert_eq!(lives.counted(), [450; 2]);
    lives.kill();
    assert_eq!(lives.counted(), [450; 2]);
    lives.here.take().unwrap().stop();
    lives.start();
    assert_eq!(lives.counted(), [450; 2]);
    // Rates of live reports are over the time from the first request, as in Pinba's tables.
    assert_has!(lives.site().get("/").body => ", with the time that pinbad was down, which rates are over too");
}

/// Raw requests wait in memory until they are written; rows of reports are in the log of seconds.
#[cfg(feature = "sql")]
#[test]
fn answers_of_the_past_say_which_raw_requests_a_kill_lost() {
    let mut lives = Lives::new(&["history.requests=all", "history.flush_period=60s"]);
    lives.send(20);
    let of_history = |name: &str, ms: u64| {
        pass(lives.site(), &lives.clock, ms);
        lives.site().status().0["history"][name].as_u64().unwrap()
    };
    let before = of_history("flushes", 1_000);
    let flushes = || of_history("flushes", 60_000);
    await_until("they are written", flushes, |flushes| *flushes > before + 1);
    let written = lives.clock.unix_ms() / 1_000;
    lives.site().send((0..30).map(packet));
    let path = format!("/api/v1/info?from={written}&to={}", written + 600);
    let kept = || lives.site().json(&path)["req_count"].as_u64();
    let kept = || (of_history("flushes", 1_000), kept()).1;
    await_until("history has them", kept, |kept| *kept == Some(30));
    let logged = || of_history("log_disk_bytes", 1_000);
    let before = logged();
    await_until("they are logged", logged, |bytes| *bytes > before);
    lives.kill();
    for end in ["kill", "stop"] {
        let asked = |path: &str, from: u64, to: u64| {
            lives.site().get(&format!("{path}?from={from}&to={to}")).body
        };
        let partial = asked("/api/v1/requests", written, written + 60);
        assert_has!(partial => "lost by a kill: raw requests from ", ", 30 at most");
        for page in ["/", "/timers", "/calls", "/requests"] {
            let page = asked(page, START_SECS, written + 60);
            assert_has!(page => "lost by a kill: raw requests from ");
        }
        assert_lacks!(asked("/api/v1/requests", 0, START_SECS) => "lost by a kill"; "{end}");
        assert_lacks!(asked("/api/v1/info", START_SECS, written + 60) => "lost by a kill");
        lives.here.take().unwrap().stop();
        lives.start();
    }
}

/// However often it is stopped and started since.
#[cfg(feature = "sql")]
#[test]
fn pages_say_before_which_start_a_kill_was() {
    let mut lives = Lives::new(&["state.snapshot_period=0"]);
    lives.send(100);
    lives.counted();
    lives.kill();
    let start = lives.clock.unix_ms() / 1_000;
    for _ in 0..2 {
        let page = lives.site().get("/").body;
        let (_, said) = page.split_once("Before the start at <time datetime=\"").unwrap();
        let (moment, said) = said.split_once('"').unwrap();
        let moment = chrono::DateTime::parse_from_rfc3339(moment).unwrap();
        assert_eq!(moment.timestamp() as u64, start);
        assert_has!(said => "</time> pinbad could not save what it had in memory");
        pass(lives.site(), &lives.clock, 100_000);
        lives.here.take().unwrap().stop();
        lives.start();
    }
}

/// A report has what history kept since it was made, and says what it lacks.
#[cfg(feature = "sql")]
#[test]
fn a_report_that_was_made_at_run_time_says_what_it_lacks_after_a_kill() {
    let mut lives = Lives::new(&["state.snapshot_period=0"]);
    lives.send(100);
    lives.counted();
    pass(lives.site(), &lives.clock, 180_000);
    let late = r#"{"name": "late", "level": "request", "keys": ["server_name"]}"#;
    assert_eq!(lives.site().post("/api/v1/reports", late).status, 201);
    let made = lives.clock.unix_ms() / 60_000 * 60;
    lives.send(10);
    lives.counted();
    lives.kill();
    let [first, late] = ["report_by_script_name", "late"].map(|name| lives.report(name));
    assert_eq!(first.get("partial"), None, "{first}");
    assert_eq!(late["rows"][0]["req_count"], 10, "{late}");
    assert_eq!(late["refilled"]["from"], made, "{late}");
    assert!(first["refilled"]["from"].as_u64() < Some(made), "{first}");
    assert_has!(late["partial"].to_string() => "what was counted from ", " is lost to late: ");
}

/// A report that history does not have: its rates are over the time for which it has data.
#[cfg(feature = "sql")]
#[test]
fn rates_of_a_report_are_not_over_what_it_lost_by_a_kill() {
    let mut lives = Lives::new(&["state.snapshot_period=0"]);
    lives.send(100);
    lives.counted();
    pass(lives.site(), &lives.clock, 100_000);
    let saved = lives.clock.unix_ms() / 1_000;
    lives.here.take().unwrap().stop();
    lives.start();
    lives.send(10);
    lives.counted();
    pass(lives.site(), &lives.clock, 200_000);
    let killed = lives.clock.unix_ms() / 1_000;
    lives.kill();
    pass(lives.site(), &lives.clock, 100_000);
    let name = "report_by_hostname_and_script";
    let [all, found] = ["report_by_script_name", name].map(|name| lives.report(name));
    let [whole, secs] = [&all, &found].map(|it| it["covered_seconds"].as_u64().unwrap());
    assert_eq!(whole - secs, killed - saved, "{}", found["partial"]);
    let row = &found["rows"][0];
    let rate = row["req_count"].as_f64().unwrap() / secs as f64;
    assert!((row["req_per_sec"].as_f64().unwrap() - rate).abs() < 1e-6, "{secs} s: {row}");
    let page = lives.site().get("/reports/report_by_script_name/row?script_name=/0").body;
    let heading = " s of the 24 h window, by total time";
    assert_has!(page => "<small>counted for 3 min ", heading, format!(" is lost to {name}: "));
}

/// As without a kill, where time begins with the first request.
#[cfg(feature = "sql")]
#[test]
fn after_a_kill_time_begins_with_the_first_minute_that_has_requests() {
    let mut lives = Lives::new(&["state.snapshot_period=0"]);
    pass(lives.site(), &lives.clock, 180_000);
    let begin = lives.clock.unix_ms() / 60_000 * 60;
    lives.send(10);
    pass(lives.site(), &lives.clock, 60_000);
    lives.counted();
    lives.kill();
    for name in ["info", "report_by_script_name"] {
        let covered = lives.clock.unix_ms() / 1_000 - begin;
        assert_eq!(lives.report(name)["covered_seconds"], covered, "{name}");
    }
}

/// What counts as an error is part of each report: history has none of them as they are now.
#[cfg(feature = "sql")]
#[test]
fn after_a_kill_reports_say_that_history_has_them_as_they_were_only() {
    let mut lives = Lives::new(&["state.snapshot_period=0"]);
    lives.send(100);
    lives.counted();
    lives.more.push("reports.error_status=404".to_owned());
    lives.kill();
    let report = lives.report("report_by_script_name");
    assert_eq!(report["rows"], serde_json::json!([]));
    let why = "history has other reports of that time, and none of these";
    assert_has!(report["partial"].to_string() => "live reports lack what was counted from ", why);
    assert_has!(lives.site().get("/readyz").body => why);
}

/// Killed and stopped at any moment, also with a clock that is set forward and back: nothing is
/// lost, and nothing counts twice.
#[cfg(feature = "sql")]
#[test]
fn nothing_is_lost_or_twice_whenever_it_is_killed_and_the_clock_set() {
    for seed in 0..number("PINBAD_CLOCK_SEEDS", 4) {
        let mut dice = crate::dice::Dice(seed);
        let mut lives = Lives::new(&[]);
        let mut steps = Vec::new();
        for _ in 0..25 {
            let step = dice.below(8);
            let (n, ahead) = (dice.within(1, 40), dice.within(0, 1_200) as i64 - 600);
            steps.push((step, n, ahead));
            match step {
                0..=2 => lives.send(n),
                3 | 4 => pass(lives.site(), &lives.clock, n * 2_000),
                5 => {
                    lives.set_ahead(ahead);
                    pass(lives.site(), &lives.clock, 1_000);
                }
                6 => {
                    assert_eq!(lives.counted(), [lives.sent; 2], "seed {seed}: {steps:?}");
                    lives.kill();
                }
                _ => {
                    lives.here.take().unwrap().stop();
                    lives.start();
                }
            }
            assert_eq!(lives.counted(), [lives.sent; 2], "seed {seed}: {steps:?}");
        }
    }
}

/// Charts of the last hour are in memory only; tables go on.
#[cfg(feature = "sql")]
#[test]
fn a_page_says_that_its_charts_begin_with_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1_000));
    let start = || Here::with_history(dir.path(), &clock, &[]);
    let minutes = |here: &Here| {
        for _ in 0..3 {
            here.site.send((0..10).map(packet));
            pass(&here.site, &clock, 60_000);
        }
    };
    let note = "begin with this run of the daemon, at ";
    let here = start();
    minutes(&here);
    assert_lacks!(here.site.get("/").body => note);
    here.site.send((0..10).map(packet));
    pass(&here.site, &clock, 10_000);
    here.stop();
    let here = start();
    pass(&here.site, &clock, 5_000);
    // History has the minute in which it began, with a request from before.
    let row = "/reports/report_by_script_name/row?script_name=/1";
    let is_new = |page: &String| page.contains("No charts: no such row");
    let page = await_until("a second is complete", || here.site.get(row).body, is_new);
    assert_lacks!(page => "of the last ", "Heat map");
    minutes(&here);
    for page in ["/", "/?span=15m", "/reports/info/row"] {
        await_until(page, || here.site.get(page).body, |page| page.contains(note));
    }
    here.site.send((0..10).map(packet));
    pass(&here.site, &clock, 22_000);
    let told = |page: &String| page.contains(" of the last 3 min 2");
    await_until("to the second", || here.site.get("/reports/info/row").body, told);
    assert_lacks!(here.site.get("/?span=1m").body => note);
    assert_lacks!(here.site.get("/?from=-15m").body => note);
    here.stop();
}

/// Cut anywhere, or with any byte changed: an empty daemon, never a panic.
#[test]
fn wherever_a_snapshot_is_damaged_that_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(START_SECS * 1000));
    let here = start(dir.path(), &clock);
    here.site.send((0..40).map(packet));
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

/// Closing a socket discards its receive buffer, so the daemon drains it before it stops. It spends
/// at most half a second on that, which may pass on a busy machine: one of ten attempts must be in
/// time.
#[test]
fn what_waits_in_its_own_sockets_at_the_stop_is_counted() {
    let came: Vec<u64> = (0..10).map(|_| taken_at_the_stop(3_000)).collect();
    assert!(came.contains(&3_000), "{came:?}");
}

/// Sends so many packets to a program that stands still, ends it, and gives how many the next one
/// knows of.
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
    assert_eq!(status.count("kernel_drops"), 0, "the buffer was to hold them all");
    let came = status.count("datagrams_received");
    assert_eq!(status.count("requests_merged"), came);
    came
}

/// As by a service manager that reloads while the daemon starts: here it waits for its
/// configuration.
#[test]
fn sighup_during_a_start_does_not_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (pipe, id) = (at("pipe"), at("id"));
    assert!(run(Command::new("mkfifo").arg(&pipe)).code == Some(0));
    let mut command = clean(Command::new("sh"));
    let text = format!("echo $$ > {id}; exec {} \"$@\"", program());
    command.args(["-c", &text, "sh"]);
    let of_start = pipe.clone();
    let configures = std::thread::spawn(move || {
        // Until it opens the other end.
        let mut pipe = std::fs::OpenOptions::new().write(true).open(of_start).unwrap();
        let kill = format!("kill -HUP $(cat {id})");
        assert!(run(Command::new("sh").args(["-c", &kill])).code == Some(0));
        std::io::Write::write_all(&mut pipe, b"[log]\nlevel = \"info\"\n").unwrap();
    });
    let program = Program::start_as(command, &["serve", "--config", &pipe], &[]);
    configures.join().unwrap();
    await_condition("the signal is looked at after the start", || {
        let log = program.log();
        let is_refused = log.iter().any(|line| {
            let message = line["message"].as_str().unwrap_or_default();
            message.starts_with("Cannot reload the configuration")
        });
        if is_refused { Ok(()) } else { Err(log) }
    });
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
    program.site.send((0..100).map(packet));
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
            if lines.count() == count { Ok(log) } else { Err(log.clone()) }
        })
    };

    write("[pool]\nstats_history = \"soon\"\n");
    let log = reloads("a bad file is refused", 1);
    let text = format!("{:?}", log.last().unwrap());
    assert_has!(text => "pool.stats_history", "pinbad.toml:2");
    assert_eq!(program.site.rows("stays"), stays);
    let detail = || program.site.json("/readyz")["detail"].to_string();
    assert_has!(detail() => "the configuration was not reloaded at ", "pool.stats_history");

    write(
        "# moved down\n[[report]]\nname = \"stays\"\ncomment = \"tag_info:group\"\n\
         [[report]]\nname = \"differs\"\nlevel = \"request\"\nkeys = [\"hostname\"]\n\
         [[report]]\nname = \"new\"\nlevel = \"timer\"\nkeys = [\"@op\"]\n\
         [pool]\nstats_history = \"60s\"\n[log]\nlevel = \"debug\"\n\
         [ingest]\nstats_gathering_period = \"20ms\"\n",
    );
    let log = reloads("a good one is taken", 2);
    await_condition("it is said no more", || match detail() {
        said if said.contains("not reloaded") => Err(said),
        _ => Ok(()),
    });
    let named: Vec<_> = log
        .iter()
        .filter(|line| line["level"] == "WARN" && line["key"].is_string())
        .map(|line| line["key"].clone())
        .collect();
    assert_eq!(named, ["pool.stats_history"]);
    let last = log.last().unwrap().to_string();
    for part in "stats_gathering_period log.level new differs goes".split(' ') {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert_eq!(program.site.get("/api/v1/reports/goes").status, 404);
    assert_eq!(program.site.rows("stays"), stays);
    assert_eq!(program.site.rows("differs").len(), 3, "by host now");
    assert_eq!(program.site.rows("new").len(), 20, "filled from what was there");
    let window = program.site.json("/api/v1/reports/info?limit=0")["window_seconds"].clone();
    assert_eq!(window, 900, "the old value stays");
    let detail = program.site.delete("/api/v1/reports/stays").problem(409);
    assert_has!(detail => "pinbad.toml:2"; "where it stands now");

    // What only the next start would read is checked all the same.
    for (at, (text, named)) in cases![
        "[metrics]\nreports = [\"nope\"]\n" => "pinbad.toml:2: metrics.reports: ";
        "[history]\nreports = [\"report_by_scrip\"]\n" =>
            "there is no report called \\\"report_by_scrip\\\"; did you mean \\\"report_by_script_name\\\"? accepted: ";
        "[http]\ntls_cert = \"/nope\"\ntls_key = \"/nope\"\n" => "pinbad.toml:2: http.tls_cert = /nope";
        "[state]\ndir = \"/dev/null\"\n" => "pinbad.toml:2: state.dir: /dev/null is not a folder";
        "[[alert]]\nname = \"a\"\nreport = \"nope\"\nabsent = true\n" => "pinbad.toml:3: alert.report: ";
    ]
    .into_iter()
    .enumerate()
    {
        write(text);
        let log = reloads("what the next start refuses is refused", 3 + at);
        assert_has!(log.last().unwrap().to_string() => named);
    }
    assert_eq!(program.site.rows("stays"), stays);
}

/// A setting that all reports follow has changed: one line names them.
#[test]
fn reports_that_do_not_come_back_are_named_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let state = format!("state.dir={}", dir.path().display());
    let serve = |history: &str| Program::serve(&[&state, &format!("pool.stats_history={history}")]);
    let mut program = serve("15m");
    program.site.send((0..100).map(packet)).assert_accounted();
    program.signal("TERM");
    assert_eq!(program.wait().0.code(), Some(0));
    let program = serve("10m");
    let log = program.log();
    let said: Vec<_> = log.iter().filter(|line| line.to_string().contains("come back")).collect();
    let [line] = &said[..] else { panic!("{said:#?}") };
    assert!(line["count"].as_u64() > Some(17), "{line}");
    let age = log.iter().find_map(|line| line["snapshot_age_secs"].as_u64());
    assert!(age.is_some(), "{log:?}");
    assert_has!(line.to_string() => "report_by_script_name, ", "it is defined otherwise now");
}
