//! A report made while packets pour in over a full pool: once everything that the pool had lost by
//! then has left the window, it shows what a report shows that was there from the start.
//!
//! Both count timers by group and server. One has a filter that every request passes, so they share
//! nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use pinbad::cli::load::TrafficOptions;
use pinbad::cli::load::traffic::Traffic;
use serde_json::Value as Json;

use crate::harness::{Here, Sender};

const FROM_THE_START: &str =
    r#"report=[{name="first", level="timer", keys=["@group", "@server"], percentiles=[90]}]"#;
const MADE_LATER: &str = r#"{"name": "later", "level": "timer", "keys": ["@group", "@server"], "percentiles": [90],
    "filters": ["server_name!=nobody"]}"#;

/// Packets before, during and after the report is made.
const PACKETS: usize = 9_000;

#[test]
fn a_report_made_under_load_shows_what_one_from_the_start_shows() {
    let traffic = TrafficOptions { timers: 4, tag_values: 6, ..TrafficOptions::default() };
    let mut traffic = Traffic::new(&traffic);
    // Room for a few thousand of the requests: the rest has left the raw pool when the report is
    // made.
    let (here, clock) = Here::with_manual_clock(&[
        FROM_THE_START,
        "pool.stats_history=60s",
        "pool.request_pool_size=4000",
        "pool.timer_pool_size=20000",
    ]);
    let mut sender = Sender::new(&here.site);
    for _ in 0..PACKETS {
        sender.send(&traffic.packet());
    }
    assert!(sender.at_rest().count("rows_evicted") > 0, "the pool was full");

    let made = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let making = threads.spawn(|| {
            let reply = here.site.post("/api/v1/reports", MADE_LATER);
            made.store(true, Ordering::SeqCst);
            reply
        });
        let mut sent = 0;
        while sent < PACKETS || !made.load(Ordering::SeqCst) {
            sender.send(&traffic.packet());
            sent += 1;
        }
        let reply = making.join().unwrap();
        assert_eq!(reply.status, 201, "{reply:?}");
        assert_eq!(reply.json()["complete"], true);
    });
    sender.at_rest();
    let [first, later] = ["first", "later"].map(|report| here.site.rows(report));
    let requests = |rows: &[Json]| rows.iter().filter_map(|r| r["req_count"].as_u64()).sum::<u64>();
    assert!(requests(&later) > 0 && requests(&later) < requests(&first), "it lacks what was lost");

    // What the pool had lost leaves the window; what came since stays.
    clock.advance_ms(59_000);
    for _ in 0..PACKETS {
        sender.send(&traffic.packet());
    }
    sender.at_rest();
    clock.advance_ms(2_000);
    sender.send(&traffic.packet());
    sender.at_rest();
    let [first, later] = ["first", "later"].map(|report| by_key(here.site.rows(report)));
    assert!(first.len() > 10, "{first:?}");
    assert_eq!(first, later);
    here.stop();
}

/// Rows by their key, whatever order they came in.
fn by_key(mut rows: Vec<Json>) -> Vec<Json> {
    rows.sort_by_key(|row| {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        (text("timer_group"), text("timer_server"))
    });
    rows
}
