//! Logs that are imported into the past: every span of a report is a recount of the lines, whatever
//! came twice, grew, was broken off or is older than what is kept by the minute.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pinbad::clock::{Clock, ManualClock};
use serde_json::Value as Json;

use crate::harness::{Here, Program, Said, Site, await_condition, await_until, pass, pinbad, run};

/// 2024-02-28 22:00:00 UTC: a leap day is near.
const START_SECS: u64 = 1_709_157_600;
const CODES: [&str; 3] = ["TCP_MISS", "TCP_MEM_HIT", "TCP_REFRESH_UNMODIFIED"];

/// A line of an access.log.
#[derive(Debug, Clone, Copy)]
struct Logged {
    ended_ms: u64,
    elapsed_ms: u64,
    code: usize,
}

impl Logged {
    fn line(&self) -> String {
        format!(
            "{}.{:03} {:6} 10.1.1.1 {}/200 4711 GET http://s{}.example/p/{}?q - HIER_DIRECT/10.0.0.1 text/html\n",
            self.ended_ms / 1000,
            self.ended_ms % 1000,
            self.elapsed_ms,
            CODES[self.code],
            self.elapsed_ms % 5,
            self.elapsed_ms % 17
        )
    }

    /// As a request has it: seconds in single precision.
    fn us(&self) -> u64 {
        let secs = self.elapsed_ms as f64 / 1e3;
        (f64::from(secs as f32) * 1e6).round_ties_even() as u64
    }
}

/// Lines from a second on, about so many milliseconds apart; some come a little late.
fn lines(from_secs: u64, count: u64, apart_ms: u64) -> Vec<Logged> {
    let number = |at: u64| at.wrapping_mul(6_364_136_223_846_793_005) >> 33;
    let line = |at| Logged {
        ended_ms: from_secs * 1000 + at * apart_ms + if at % 7 == 1 { 0 } else { 1_500 },
        elapsed_ms: 1 + number(at) % 9_000,
        code: number(at + 3) as usize % CODES.len(),
    };
    (0..count).map(line).collect()
}

fn text(lines: &[Logged]) -> String {
    lines.iter().map(Logged::line).collect()
}

fn settings(dir: &Path) -> Vec<String> {
    vec![
        format!("history.dir={}", dir.display()),
        "history.free_min=0".to_owned(),
        "squid=[{listen='udp://127.0.0.1:0',name='proxy'}]".to_owned(),
    ]
}

fn start(dir: &Path, clock: &Arc<ManualClock>) -> Here {
    let settings = settings(dir);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    Here::with_clock(&settings, clock)
}

fn import(site: &Site, arguments: &[&str]) -> Said {
    let url = format!("http://{}", site.http);
    run(pinbad().args(["import-log", "--url", &url]).args(arguments))
}

#[track_caller]
fn imported(site: &Site, arguments: &[&str], told: &str) {
    let said = import(site, arguments);
    assert!(said.code == Some(0) && said.out.trim_end().ends_with(told), "{said:?}");
}

/// By code: requests and microseconds.
type Sums = BTreeMap<String, (u64, u64)>;

fn sums(answer: &Json) -> Sums {
    let rows = answer["rows"].as_array().unwrap().iter();
    let sums = rows.map(|row| {
        let secs = row["req_time_total"].as_f64().unwrap();
        let requests = row["req_count"].as_u64().unwrap();
        let code = row["tag_code"].as_str().unwrap().to_owned();
        (code, (requests, (secs * 1e6).round() as u64))
    });
    sums.collect()
}

fn report(site: &Site, from: u64, to: u64) -> Json {
    site.json(&format!("/api/v1/reports/squid_codes?limit=0&from={from}&to={to}"))
}

/// Spans of all sizes are recounts.
#[track_caller]
fn check(site: &Site, logged: &[Logged]) {
    let first = logged.iter().map(|it| it.ended_ms / 1000).min().unwrap();
    let last = logged.iter().map(|it| it.ended_ms / 1000).max().unwrap();
    let mut spans = vec![(first, last + 1), (first - 86_400, last + 86_400)];
    for at in 0..10 {
        let from = first + at * (last - first) / 11;
        spans.push((from, from + 1 + at * at * 777));
    }
    for (from, to) in spans {
        let answer = report(site, from, to);
        let [from, to] = ["from", "to"].map(|name| answer[name].as_u64().unwrap());
        let mut expected = Sums::new();
        for line in logged {
            if (from..to).contains(&(line.ended_ms / 1000)) {
                let sum = expected.entry(CODES[line.code].to_owned()).or_default();
                *sum = (sum.0 + 1, sum.1 + line.us());
            }
        }
        assert_eq!(sums(&answer), expected, "{from} {to} {answer}");
        let covered = answer["covered_seconds"].as_u64().unwrap();
        for row in answer["rows"].as_array().unwrap() {
            let rate = row["req_per_sec"].as_f64().unwrap() * covered.max(1) as f64;
            assert!((rate - row["req_count"].as_f64().unwrap()).abs() < 1e-6);
        }
    }
}

fn covered(site: &Site, from: u64, to: u64) -> u64 {
    report(site, from, to)["covered_seconds"].as_u64().unwrap()
}

/// Lines that are older than all that is kept are told, and so is that `--live` takes no URL.
#[test]
fn what_will_not_stay_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new((START_SECS + 6 * 365 * 86_400) * 1000));
    let here = start(&dir.path().join("history"), &clock);
    let path = dir.path().join("access.log");
    fs::write(&path, text(&lines(START_SECS, 50, 1_000))).unwrap();
    let log = path.to_str().unwrap();
    let told = " s: 50 requests, 50 older than history.retention_day, which are soon removed";
    imported(&here.site, &[log], told);
    let said = import(&here.site, &["--live", log]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("give --to ADDRESS"), "{said:?}");
    here.stop();
}

#[test]
fn what_is_imported_is_counted_when_it_was_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let history = dir.path().join("history");
    let clock = Arc::new(ManualClock::new((START_SECS + 9 * 86_400) * 1000));
    let here = start(&history, &clock);
    // Over midnight of a leap day, with a gap of three hours.
    let mut logged = lines(START_SECS, 700, 17_000);
    let gap_from = logged.iter().map(|it| it.ended_ms).max().unwrap() / 1000 + 1;
    let gap_to = gap_from + 3 * 3_600;
    logged.extend(lines(gap_to, 20_000, 120));
    let log = dir.path().join("access.log");
    let log = log.to_str().unwrap();
    fs::write(log, text(&logged)).unwrap();
    imported(&here.site, &[log], " s: 20700 requests");
    check(&here.site, &logged);
    // The gap is not covered but for the 17 s after the last line before it, all the rest is, also
    // the second before the first line. The first line after it is 1.5 s before the one that is 0 s
    // late.
    let last = logged.iter().map(|it| it.ended_ms).max().unwrap() / 1000 + 1;
    let seconds = (gap_from + 16 - START_SECS) + (last - gap_to - 1);
    let ran = covered(&here.site, START_SECS - 3_600, last + 3_600);
    assert!(ran.abs_diff(seconds) <= 2, "{ran} {seconds}");
    let raw = here
        .site
        .json(&format!("/api/v1/requests?limit=5000&from={}&to={gap_to}", START_SECS - 60));
    let raw = raw["rows"].as_array().unwrap();
    assert_eq!(raw.len(), 700, "all of quiet minutes are kept");
    assert!(raw.iter().all(|row| row["hostname"] == "proxy"));

    // Again, and when it has grown.
    imported(&here.site, &[log], " s: 0 requests, 20700 imported before");
    let grown = lines(last, 300, 1_000);
    logged.extend(&grown);
    fs::write(log, text(&logged)).unwrap();
    imported(&here.site, &[log], " s: 300 requests, 20700 imported before");
    check(&here.site, &logged);

    // Another proxy at the same time.
    let ran = covered(&here.site, START_SECS - 3_600, last + 3_600);
    let other: Vec<Logged> = lines(START_SECS + 60, 600, 18_000);
    let path = dir.path().join("other.log");
    fs::write(&path, text(&other)).unwrap();
    let path = path.to_str().unwrap();
    imported(&here.site, &["--name", "proxy 2", path], " s: 600 requests");
    logged.extend(&other);
    check(&here.site, &logged);
    let gap = covered(&here.site, START_SECS - 3_600, last + 3_600);
    assert_eq!(gap, ran, "the same time is not covered twice");

    // Published and rolled up, and after a restart.
    let files = || here.site.status().0["history"]["files"].as_u64().unwrap();
    pass(&here.site, &clock, 2 * 3_600_000);
    await_until("it is published", files, |files| *files > 20);
    check(&here.site, &logged);
    here.stop();
    let here = start(&history, &clock);
    check(&here.site, &logged);
    imported(&here.site, &["--name", "proxy 2", path], " s: 0 requests, 600 imported before");
    check(&here.site, &logged);
    here.stop();
}

/// Pieces whose first line does not count, so that their mark is at another minute than that.
#[test]
fn what_begins_with_lines_that_are_left_out_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new((START_SECS + 3_600) * 1000));
    let here = start(&dir.path().join("history"), &clock);
    let log = dir.path().join("access.log");
    let log = log.to_str().unwrap();
    let ahead = text(&lines(START_SECS + 3 * 3_600, 1, 0));
    let long = text(&lines(START_SECS - 600, 1, 0)).replace("?q", &"q".repeat(70_000));
    let mut logged = Vec::new();
    for (at, first, told) in [(0, ahead, "1 later than now"), (600, long, "1 not taken: too_long")]
    {
        let counted = lines(START_SECS + at, 30, 1_000);
        fs::write(log, first + &text(&counted)).unwrap();
        logged.extend(counted);
        imported(&here.site, &[log], &format!(" s: 30 requests, {told}"));
        imported(&here.site, &[log], " s: 0 requests, 31 imported before");
        check(&here.site, &logged);
        // Also when the first line is not later than now any more.
        pass(&here.site, &clock, 3 * 3_600_000);
        imported(&here.site, &[log], " s: 0 requests, 31 imported before");
    }
    // One that Squid cut counts, with what it has.
    let cut = lines(START_SECS - 1_200, 1, 0);
    let line = text(&cut).replace("?q", &"q".repeat(9_000));
    let whole = lines(START_SECS + 1_200, 30, 1_000);
    fs::write(log, format!("{}\n{}", &line[..8_191], text(&whole))).unwrap();
    logged.extend(cut.into_iter().chain(whole));
    imported(&here.site, &[log], " s: 31 requests");
    imported(&here.site, &[log], " s: 0 requests, 31 imported before");
    check(&here.site, &logged);
    here.stop();
}

#[test]
fn what_is_older_than_minutes_are_kept_is_counted_by_the_hour_and_once() {
    let dir = tempfile::tempdir().unwrap();
    let now = START_SECS + 60 * 86_400;
    let clock = Arc::new(ManualClock::new(now * 1000));
    let here = start(&dir.path().join("history"), &clock);
    let log = dir.path().join("old.log");
    let log = log.to_str().unwrap();
    let logged = lines(START_SECS, 720, 10_000);
    fs::write(log, text(&logged)).unwrap();
    imported(&here.site, &[log], " s: 720 requests");
    let expired = || here.site.status().0["history"]["files_expired"].as_u64();
    await_condition("the minutes are gone", || {
        pass(&here.site, &clock, 120_000);
        expired().filter(|files| *files > 10).ok_or(expired())
    });
    let answer = report(&here.site, START_SECS, START_SECS + 1);
    assert_eq!(answer["resolution_seconds"], 3_600, "{answer}");
    check(&here.site, &logged);
    let ran = covered(&here.site, START_SECS - 3_600, START_SECS + 86_400);
    imported(&here.site, &[log], " s: 0 requests, 720 imported before");
    // Another log of the same time covers nothing more.
    let other = dir.path().join("other.log");
    fs::write(&other, text(&logged[1..])).unwrap();
    imported(&here.site, &[other.to_str().unwrap()], " s: 719 requests");
    let both: Vec<Logged> = logged.iter().chain(&logged[1..]).copied().collect();
    check(&here.site, &both);
    // Of whole hours at least: which seconds of the last one were covered is not known any more.
    let now = covered(&here.site, START_SECS - 3_600, START_SECS + 86_400);
    assert!(ran <= now && now <= 7_200, "{ran} {now}");
    here.stop();
}

/// Like a file system that is not mounted at one start: lines that it may have are not counted
/// again.
#[test]
fn while_files_are_missing_nothing_is_imported_that_they_may_have() {
    let dir = tempfile::tempdir().unwrap();
    let history = dir.path().join("history");
    let (pending, away) = (history.join("pending"), dir.path().join("away"));
    let clock = Arc::new(ManualClock::new((START_SECS + 600) * 1000));
    let log = dir.path().join("access.log");
    let logged = lines(START_SECS, 50, 1_000);
    fs::write(&log, text(&logged)).unwrap();
    let log = log.to_str().unwrap();
    let here = start(&history, &clock);
    imported(&here.site, &[log], " s: 50 requests");
    here.stop();
    fs::rename(&pending, &away).unwrap();
    let here = start(&history, &clock);
    let said = import(&here.site, &[log]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert_has!(said.err => "whether these lines were imported before", "missing");
    // Others are, although the year of a line is wrong.
    let mut of_before = text(&lines(START_SECS - 10 * 86_400, 50, 1_000));
    of_before += &text(&lines(START_SECS + 3_000 * 86_400, 1, 1_000));
    let other = dir.path().join("access.log.1");
    fs::write(&other, of_before).unwrap();
    let said = import(&here.site, &[other.to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    here.stop();
    for file in fs::read_dir(&away).unwrap() {
        let file = file.unwrap();
        fs::rename(file.path(), pending.join(file.file_name())).unwrap();
    }
    let here = start(&history, &clock);
    imported(&here.site, &[log], " s: 0 requests, 50 imported before");
    check(&here.site, &logged);
    here.stop();
}

#[test]
fn what_cannot_be_counted_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new((START_SECS + 100) * 1000));
    let here = start(&dir.path().join("history"), &clock);
    let log = dir.path().join("mixed.log");
    let mut bytes = text(&lines(START_SECS, 3, 1_000)).into_bytes();
    bytes.extend(text(&lines(START_SECS + 86_400, 2, 1_000)).into_bytes());
    bytes.extend(b"no line of Squid's\n");
    bytes.extend(vec![b'x'; 200_000]);
    bytes.extend(b"\n");
    let last = text(&lines(START_SECS + 20, 1, 0));
    bytes.extend(last.trim_end().as_bytes());
    fs::write(&log, &bytes).unwrap();
    imported(
        &here.site,
        &[log.to_str().unwrap()],
        " s: 4 requests, 2 later than now, 1 not taken: too_long, 1 not taken: unknown_format",
    );
    let said = import(&here.site, &["/nowhere.log"]);
    assert!(said.err.contains("cannot read /nowhere.log"), "{said:?}");
    // Where that is all, nothing was done; nothing was to be done with an empty log.
    let text = "no line of Squid's\nanother\n";
    for (text, code, told) in [(text, 1, "none of 2 lines was taken"), ("", 0, "")] {
        fs::write(&log, text).unwrap();
        let said = import(&here.site, &[log.to_str().unwrap()]);
        assert!(said.code == Some(code) && said.err.contains(told), "{said:?}");
    }
    fs::write(&log, b"\x1f\x8b\x08 packed\n").unwrap();
    let said = import(&here.site, &[log.to_str().unwrap()]);
    assert!(said.code == Some(1) && said.err.contains("packed with gzip"), "{said:?}");
    fs::write(&log, &bytes).unwrap();
    let refused = here.site.post("/api/v1/import", "{}");
    assert_has!(refused.problem(415) => "application/octet-stream");
    here.stop();
    let nothing = Here::start(&[]);
    let said = import(&nothing.site, &[log.to_str().unwrap()]);
    assert!(said.code == Some(1) && said.err.contains("history"), "{said:?}");
    nothing.stop();
}

#[test]
fn an_import_that_was_killed_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let history = dir.path().join("history");
    let settings = settings(&history);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let logged = lines(now - 20_000, 60_000, 300);
    let log = dir.path().join("access.log");
    fs::write(&log, text(&logged)).unwrap();
    let log = log.to_str().unwrap();
    for kill in 0..4_u64 {
        let mut daemon = Program::serve(&settings);
        let url = format!("http://{}", daemon.site.http);
        let importing = std::thread::spawn({
            let log = log.to_owned();
            move || run(pinbad().args(["import-log", "--url", &url, &log]))
        });
        std::thread::sleep(Duration::from_millis(20 + kill * 230));
        daemon.signal("KILL");
        daemon.wait();
        let said = importing.join().unwrap();
        // A fast machine may have been done with it, and a slow one may have taken nothing yet.
        let broken_off = format!("pinbad: {log}: ");
        assert!(said.code == Some(0) || said.err.contains(&broken_off), "{said:?}");
    }
    let daemon = Program::serve(&settings);
    let said = import(&daemon.site, &[log]);
    assert_eq!(said.code, Some(0), "{said:?}");
    check(&daemon.site, &logged);
    let from = now - 20_000 - 60;
    let weights = daemon.site.json(&format!("/api/v1/requests?limit=100000&from={from}&to={now}"));
    let rows = weights["rows"].as_array().unwrap().iter();
    let weight: f64 = rows.map(|row| row["weight"].as_f64().unwrap()).sum();
    assert!((weight - 60_000.0).abs() < 0.5, "{weight}");
}
