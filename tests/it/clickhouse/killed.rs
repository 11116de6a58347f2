//! Killed again and again while it ships to a server that is killed, slow, full and away, and that
//! loses answers and connections: in the end every row is there once, and what ClickHouse says is
//! what pinbad says at home.
//!
//! Data that a kill took before they were written (`history.flush_period`) are in neither. With
//! `PINBAD_TEST_FULL` a million requests arrive, over twenty kills.
#![expect(
    clippy::print_stdout,
    reason = "figures are for whoever runs the tests, and a child says where it listens"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinbad::clock::ManualClock;
use pinbad::input::pinba::model;
use prost::Message as _;
use serde_json::Value as Json;

use super::{ClickHouse, assert_same, faults, print_tables, serve, settle, start};
use crate::harness::{Child, Here, Over, PacedClock, Traffic, await_condition, be_child};
use crate::past::START_SECS;

fn is_full() -> bool {
    std::env::var_os("PINBAD_TEST_FULL").is_some()
}

/// Seconds of the daemon's clocks in one: with many requests fewer, so that what waits to be
/// written is little.
fn pace() -> u64 {
    if is_full() { 60 } else { 300 }
}

/// Request number `n`.
fn packet(n: u64) -> Vec<u8> {
    let mut sent = model::Request::named(format!("web-{}", n % 3), "shop", format!("/{}", n % 11));
    sent.document_size = Some((n % 1_000_000) as u32);
    sent.request_time = Some((n * 7_919 % 2_000_003) as f32 / 1e6);
    sent.ru_utime = Some((n % 997) as f32 / 1e4);
    sent.memory_peak = Some((n * 31 % 1_000_003) as u32);
    sent.status = Some(if n.is_multiple_of(50) { 503 } else { 200 });
    sent.add_tag("env", if n.is_multiple_of(7) { "test" } else { "prod" });
    for timer in 0..5 {
        let op = format!("op{}", (n + timer) % 3);
        let value = ((n + timer) % 1_009) as f32 / 1e5;
        sent.add_timer(
            1 + (n % 3) as u32,
            value,
            &[("group", ["db", "http"][timer as usize % 2]), ("op", &op)],
        );
    }
    sent.encode_to_vec()
}

/// How long it is waited for faults to happen: while nothing is sent none does.
const FAULTS_MAX: Duration = Duration::from_secs(5);

fn is_faultless(dir: &Path) -> bool {
    std::fs::read_to_string(dir.join("fault")).is_ok_and(|words| words.is_empty())
}

/// Goes wrong at the other end, in one way after the other, until it is over; the server that is
/// left.
fn trouble(dir: &Path, first: ClickHouse, over: &AtomicBool) -> (ClickHouse, u64) {
    let (port, mut clickhouse, mut rounds) = (first.port, Some(first), 0);
    let words = ["slow lose cut refuse", "torn full full readonly lose", "cut lose torn slow"];
    while !over.load(Ordering::SeqCst) {
        faults(dir, words[rounds % words.len()]);
        rounds += 1;
        // All of that happens, and then nothing for a while.
        let begun = Instant::now();
        while !is_faultless(dir) && begun.elapsed() < FAULTS_MAX && !over.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(1_000));
        // Killed in the middle of whatever it does; and every other time away for more than an
        // hour.
        if rounds % 3 == 0 {
            drop(clickhouse.take());
            if rounds % 2 == 0 {
                std::thread::sleep(Duration::from_millis(3_700_000 / pace()));
            }
            clickhouse = ClickHouse::start(dir, port);
        }
    }
    faults(dir, "");
    (clickhouse.unwrap(), rounds as u64)
}

/// The test that is the daemon with such clocks.
const PACED: &str = "clickhouse::killed::the_daemon_with_a_clock_that_runs";

const SETTINGS: [&str; 4] =
    ["ingest.recv_buffer=8MB", "reports.memory=32MiB", "series.memory=8MiB", "clickhouse.dc=ams"];

#[test]
#[ignore = "a child of a test"]
fn the_daemon_with_a_clock_that_runs() {
    be_child(|home, numbers| {
        let clock = PacedClock::new(numbers[1], pace(), pace());
        let port = u16::try_from(numbers[0]).unwrap();
        serve(home, port, Arc::new(clock), &SETTINGS)
    });
}

#[test]
fn killed_again_and_again_every_row_is_there_once() {
    let (requests, kills, rate) = match is_full() {
        true => (1_100_000, 20, 5_000),
        false => (20_000, 4, 2_000),
    };
    let (folder, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let Some(clickhouse) = ClickHouse::start(far.path(), 0) else {
        return;
    };
    let port = clickhouse.port;
    // Each repetition comes too late for a token.
    for statement in print_tables(&[]) {
        let window = "non_replicated_deduplication_window = ";
        clickhouse.query(&statement.replace(&format!("{window}1000"), &format!("{window}1")));
    }
    let begun = Instant::now();
    let now_ms = || START_SECS * 1_000 + begun.elapsed().as_millis() as u64 * pace();
    let traffic = Traffic::default();
    let (clickhouse, rounds) = std::thread::scope(|scope| {
        let over = Over(&traffic);
        scope.spawn(|| traffic.run(rate, packet));
        let far = scope.spawn(|| trouble(far.path(), clickhouse, &traffic.over));
        let mut merged = 0;
        for kill in 0..=kills {
            let daemon = Child::start(PACED, &home, &[port.into(), now_ms()]);
            traffic.turn(Some(daemon.site.udp[0]));
            let goal = requests * (kill + 1) / (kills + 1);
            let of_it = || daemon.site.status().count("requests_merged");
            await_condition("requests are merged", || {
                std::thread::sleep(Duration::from_millis(50));
                match merged + of_it() {
                    all if all >= goal => Ok(()),
                    some => Err((some, goal)),
                }
            });
            // At another moment of what it does each time.
            std::thread::sleep(Duration::from_millis(kill * 37 % 200));
            merged += of_it();
            traffic.turn(None);
            drop(daemon);
        }
        drop(over);
        far.join().unwrap()
    });
    // From here on the test has the clock in hand.
    let clock = Arc::new(ManualClock::new(now_ms()));
    let here = start(&home, port, &clock, &SETTINGS);
    let before = settle(here, &home, port, &clock, &SETTINGS);
    assert_same(&clickhouse, &[&home], before);
    let here = start(&home, port, &clock, &SETTINGS);
    let count = compare_answers(&here, &clickhouse, before);
    await_condition("all requests are published", || {
        clock.advance_ms(60_000);
        let history = here.site.json("/api/v1/status")["history"].clone();
        match history["raw_pieces_pending"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(history),
        }
    });
    here.stop();
    let raw = compare_requests(&home, &clickhouse);
    println!(
        "{} requests sent at {rate}/s, {kills} kills, {rounds} troubles of the server in {:.0} s; {count} counted and {raw} kept at \
         home, and in ClickHouse",
        traffic.turn(None),
        begun.elapsed().as_secs_f64(),
    );
}

/// Compares the answers of reports with the sums in ClickHouse; returns the number of requests.
fn compare_answers(here: &Here, clickhouse: &ClickHouse, before: u64) -> u64 {
    let mut count = 0;
    for (report, key) in [
        ("report_by_script_name", "script_name"),
        ("report_by_hostname", "hostname"),
        ("report_by_status", "status"),
    ] {
        let path = format!("/api/v1/reports/{report}?limit=0&from={START_SECS}&to={before}");
        let mut home = BTreeMap::new();
        for row in here.site.json(&path)["rows"].as_array().unwrap() {
            let name = row[key].as_str().map(str::to_owned);
            let us = (row["req_time_total"].as_f64().unwrap() * 1e6).round();
            let sums = (row["req_count"].as_u64().unwrap(), us as u64);
            home.insert(name.unwrap_or_else(|| row[key].to_string()), sums);
        }
        let rows = clickhouse.query(&format!(
            "SELECT key[1] AS name, sum(req_count) AS requests, toUInt64(sum(time_total_us)) AS us FROM pinba.rollup FINAL \
             WHERE report = '{report}' AND t < {before} GROUP BY name SETTINGS output_format_json_quote_64bit_integers = 0"
        ));
        let number = |row: &Json, name: &str| row[name].as_u64().unwrap();
        let there: BTreeMap<_, _> = rows
            .iter()
            .map(|row| {
                let name = row["name"].as_str().unwrap().to_owned();
                (name, (number(row, "requests"), number(row, "us")))
            })
            .collect();
        assert_eq!(home, there, "{report}");
        count = home.values().map(|it| it.0).sum();
    }
    count
}

/// The files of raw requests at home, read by ClickHouse's engine, have the same rows as the table
/// there, with all timers; how many.
fn compare_requests(home: &Path, clickhouse: &ClickHouse) -> u64 {
    let files = |table: &str| format!("file('{}/{table}/*/*.parquet', Parquet)", home.display());
    // No type has all values of Int64, as files have it, and UInt64.
    let counts = |names: &str| {
        let names = names.split_whitespace();
        let names: Vec<_> = names.map(|name| format!("toUInt64({name})")).collect();
        names.join(", ")
    };
    let of_requests = [
        format!(
            "SELECT toUnixTimestamp(received) AS ts, {}, hostname, server_name, script_name, weight, tags FROM {}",
            counts("run id status req_count req_time_us ru_utime_us ru_stime_us doc_size_bytes mem_peak_usage_bytes \
                    memory_footprint_bytes timers_cnt"),
            files("request")
        ),
        "SELECT toUnixTimestamp(ts), run, id, status, req_count, req_time_us, ru_utime_us, ru_stime_us, doc_size, mem_peak, \
         memory_footprint, length(timers.hits), hostname, server_name, script_name, weight, \
         arrayStringConcat(arrayMap((name, value) -> concat(name, '=', value), mapKeys(tags), mapValues(tags)), ',') \
         FROM pinba.request FINAL"
            .to_owned(),
    ];
    let of_timers = [
        format!(
            "SELECT {}, mapSort(JSONExtract(tags, 'Map(String, String)')) FROM {}",
            counts("run request_id hit_count value_us ru_utime_us ru_stime_us"),
            files("timer")
        ),
        "SELECT run, id, hits, us, utime, stime, mapSort(CAST(tags, 'Map(String, String)')) FROM pinba.request FINAL ARRAY JOIN \
         timers.hits AS hits, timers.value_us AS us, timers.ru_utime_us AS utime, timers.ru_stime_us AS stime, timers.tags AS tags"
            .to_owned(),
    ];
    let count = |from: &str| {
        let rows = clickhouse.query(&format!("SELECT toUInt32(count()) AS rows FROM ({from})"));
        rows[0]["rows"].as_u64().unwrap()
    };
    for [home, there] in [&of_requests, &of_timers] {
        assert_eq!(count(home), count(there));
        assert_eq!(count(&format!("{home} EXCEPT {there}")), 0);
        assert_eq!(count(&format!("{there} EXCEPT {home}")), 0);
    }
    count(&of_requests[0])
}
