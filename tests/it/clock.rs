//! The passage of time, end to end: records leave reports and raw rows tick by tick, and only
//! because time passed. The wall clock only labels them: when it jumps, nothing expires, nothing
//! comes back and no timestamp runs backwards.

use std::sync::Arc;

use pinbad::clock::ManualClock;
use pinbad::config::Config;
use pinbad::daemon::Daemon;
use prost::Message as _;

use crate::harness::{Here, START_SECS, Sender, await_condition, await_until};
use crate::packets::request;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

fn packet(script: &str) -> Vec<u8> {
    request("h", "s", script).encode_to_vec()
}

/// Scripts in `report_by_script_name` with their counts, sorted.
fn scripts(here: &Here) -> Vec<(String, u64)> {
    let rows = here.site.rows("report_by_script_name");
    let mut scripts: Vec<_> = rows
        .iter()
        .map(|row| {
            let name = row["script_name"].as_str().unwrap().to_owned();
            (name, row["req_count"].as_u64().unwrap())
        })
        .collect();
    scripts.sort();
    scripts
}

/// Scripts of the raw rows, oldest first, with their timestamps.
fn raw(here: &Here) -> Vec<(String, u64)> {
    let page = here.site.json("/api/v1/requests?limit=0");
    let rows = page["rows"].as_array().unwrap().iter().rev();
    rows.map(|row| {
        let script = row["script_name"].as_str().unwrap().to_owned();
        (script, row["timestamp"].as_u64().unwrap())
    })
    .collect()
}

fn names(scripts: &[(String, u64)]) -> Vec<&str> {
    scripts.iter().map(|(name, _)| name.as_str()).collect()
}

/// A window of 60 ticks of a second: in it from its own tick on, out of it when the sixtieth after
/// that begins.
#[test]
fn records_leave_reports_and_raw_rows_when_their_tick_leaves_the_window() {
    let (here, clock) = Here::with_manual_clock(&["pool.stats_history=60s"]);
    let mut sender = Sender::new(&here.site);
    // Second by second one script of its own.
    for second in 0..5 {
        sender.send(&packet(&format!("/at-{second}")));
        sender.send(&packet("/always"));
        sender.at_rest();
        clock.advance_ms(1000);
    }
    // Now it is second 5. The last moment of second 59 still has all of them: a packet that is
    // merged then proves that the merger has seen that moment.
    clock.advance_ms(54_999);
    sender.send(&packet("/at-59"));
    sender.at_rest();
    let all = ["/always", "/at-0", "/at-1", "/at-2", "/at-3", "/at-4", "/at-59"];
    assert_eq!(names(&scripts(&here)), all);
    assert_eq!(raw(&here).len(), 11);
    for gone in 1..=5_u64 {
        clock.advance_ms(if gone == 1 { 1 } else { 1000 });
        await_condition("the oldest second is gone", || {
            let (scripts, raw) = (scripts(&here), raw(&here));
            let left = 5 - gone;
            let always = scripts.iter().find(|(name, _)| name == "/always");
            let done = always.map_or(0, |(_, count)| *count) == left
                && scripts.len() as u64 == left + u64::from(left > 0) + 1
                && raw.len() as u64 == 2 * left + gone;
            if done { Ok(()) } else { Err((scripts, raw)) }
        });
        // Not one second early: what is left has been there through a merge of this very second.
        sender.send(&packet("/at-59"));
        sender.at_rest();
        let left = 5 - gone;
        assert_eq!(scripts(&here).len() as u64, left + u64::from(left > 0) + 1);
    }
    // All of them are gone a minute later, sums and raw rows alike; counters stay.
    clock.advance_ms(120_000);
    await_condition("all is gone", || {
        let status = here.site.status();
        let left = status.count("request_rows") + status.count("timer_rows");
        if left == 0 && scripts(&here).is_empty() { Ok(()) } else { Err(status) }
    });
    let info = here.site.json("/api/v1/info");
    assert_eq!(info["req_count"], 0);
    assert_eq!(info["time_total"].as_f64(), Some(0.0));
    assert_eq!(here.site.status().count("requests_merged"), 16);
    here.stop();
}

/// `covered_seconds` grows with time up to the window and divides the `*_per_sec` columns.
#[test]
fn covered_seconds_is_what_the_data_really_spans() {
    let (here, clock) = Here::with_manual_clock(&["pool.stats_history=60s"]);
    let mut sender = Sender::new(&here.site);
    // Without data it is the time since the start.
    clock.advance_ms(7_000);
    for name in ["info", "report_by_script_name"] {
        let report = here.site.json(&format!("/api/v1/reports/{name}"));
        assert_eq!(report["covered_seconds"], 7, "{report:#}");
    }
    assert_eq!(here.site.json("/api/v1/info")["time_interval"], 1, "as in Pinba");
    let mut covered = Vec::new();
    for _ in 0..10 {
        for _ in 0..6 {
            sender.send(&packet("/x"));
        }
        sender.at_rest();
        let report = here.site.json("/api/v1/reports/report_by_script_name");
        let row = &report["rows"][0];
        let seconds = report["covered_seconds"].as_u64().unwrap();
        let per_second = row["req_count"].as_f64().unwrap() / seconds as f64;
        assert!((row["req_per_sec"].as_f64().unwrap() - per_second).abs() < 1e-9, "{report:#}");
        assert_eq!(report["window_seconds"], 60);
        covered.push(seconds);
        clock.advance_ms(10_000);
    }
    assert!(covered.is_sorted(), "{covered:?}");
    assert_eq!(covered[0], 1);
    assert!((30..=31).contains(&covered[3]), "{covered:?}");
    // From the oldest that is in the window to the newest: with one every ten seconds never the
    // whole window.
    assert_eq!(covered[6..], [50, 50, 50, 50]);
    // Without traffic the last data is ever longer ago, and rates fall.
    clock.advance_ms(5_000);
    await_condition("rates fall", || {
        let report = here.site.json("/api/v1/reports/report_by_script_name");
        let rate = report["rows"][0]["req_per_sec"].as_f64().unwrap();
        let falls = report["covered_seconds"] == 55 && (rate - 30.0 / 55.0).abs() < 1e-9;
        if falls { Ok(()) } else { Err(report) }
    });
    here.stop();
}

#[test]
fn a_wall_clock_that_jumps_neither_expires_nor_brings_back() {
    let (here, clock) = Here::with_manual_clock(&["pool.stats_history=60s"]);
    let mut sender = Sender::new(&here.site);
    let mut send = |script: &str| {
        sender.send(&packet(script));
        sender.at_rest();
    };
    send("/expired");
    clock.advance_ms(70_000);
    send("/before");
    await_until("the first is gone", || raw(&here).len(), |left| *left == 1);
    let now_ms = (START_SECS + 70) * 1000;

    clock.set_unix_ms(now_ms + DAY_MS);
    send("/a-day-ahead");
    assert_eq!(names(&scripts(&here)), ["/a-day-ahead", "/before"]);
    assert_eq!(names(&raw(&here)), ["/before", "/a-day-ahead"]);

    clock.set_unix_ms(now_ms - DAY_MS);
    send("/a-day-back");
    assert_eq!(names(&scripts(&here)), ["/a-day-ahead", "/a-day-back", "/before"]);
    assert_eq!(names(&raw(&here)), ["/before", "/a-day-ahead", "/a-day-back"]);

    clock.set_unix_ms(now_ms);
    send("/right-again");
    let rows = raw(&here);
    assert_eq!(rows.len(), 4);
    assert!(rows.is_sorted_by_key(|(_, timestamp)| *timestamp), "{rows:?}");
    assert_eq!(rows[0].1, START_SECS + 70);
    assert_eq!(rows[1].1, START_SECS + 70 + 86_400);

    // And they expire when their time has passed, not when the calendar says so.
    clock.advance_ms(59_000);
    send("/last");
    assert_eq!(raw(&here).len(), 5);
    clock.set_unix_ms(now_ms + 2 * DAY_MS);
    clock.advance_ms(1000);
    await_until(
        "a minute after",
        || (names(&scripts(&here)).join(" "), names(&raw(&here)).join(" ")),
        |left| *left == ("/last".to_owned(), "/last".to_owned()),
    );
    here.stop();
}

/// A report with a window of its own keeps what raw rows have lost already, and lets go in time.
#[test]
fn windows_differ_and_each_report_keeps_its_own() {
    let (here, clock) = Here::with_manual_clock(&[
        "pool.stats_history=10s",
        "pool.request_pool_size=100",
        r#"report=[{name = "long", level = "request", keys = ["script_name"], window = "120s"}]"#,
    ]);
    let mut sender = Sender::new(&here.site);
    sender.send(&packet("/x"));
    sender.at_rest();
    clock.advance_ms(30_000);
    await_condition("the short window has lost it", || {
        let (raw, short) = (raw(&here), scripts(&here));
        if raw.is_empty() && short.is_empty() { Ok(()) } else { Err((raw, short)) }
    });
    assert_eq!(here.site.rows("long").len(), 1);
    clock.advance_ms(89_000);
    sender.send(&packet("/y"));
    sender.at_rest();
    assert_eq!(here.site.rows("long").len(), 2);
    clock.advance_ms(1000);
    await_until("the long window has lost it", || here.site.rows("long"), |rows| rows.len() == 1);
    here.stop();
}

/// HTTP has no way to write such a date.
#[test]
fn a_clock_before_1970_has_to_be_set_first() {
    let error = Daemon::start(&Config::default(), Arc::new(ManualClock::new(0))).err().unwrap();
    assert_eq!(error.to_string(), "the clock of this machine shows a time before 1970; set it");
}
