//! Killed at random moments under load, again and again: while it starts, while it writes a
//! snapshot, at rest. Whatever the moment, the next one starts, its counters add up, and what is
//! gone is what came since the last snapshot.
#![expect(clippy::print_stdout, reason = "figures of the full size are for whoever runs the tests")]

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::harness::{Kills, Program, Site, await_condition, number};
use crate::restart::{Holder, refs};

/// Seconds between two snapshots.
const PERIOD_SECS: u64 = 1;
/// Seconds that writing one may take, and a bit.
const WRITING_SECS: u64 = 2;

/// With `PINBAD_KILLS=100 PINBAD_KILL_RATE=5000` and a release build in `PINBAD_TEST_PROGRAM` at
/// full size.
#[test]
fn killed_at_any_moment_it_loses_what_came_since_the_last_snapshot_and_nothing_else() {
    let lives = number("PINBAD_KILLS", 8);
    let dir = tempfile::tempdir().unwrap();
    let holder = Holder::new(1);
    let settings = vec![
        format!("state.snapshot_period={PERIOD_SECS}s"),
        format!("state.dir={}", dir.path().display()),
        format!("ingest.listen={}", holder.address(0)),
        "pool.stats_history=1h".to_owned(),
        // However long it takes to start, what comes meanwhile finds room.
        "ingest.recv_buffer=64MB".to_owned(),
    ];
    let starting = || {
        let (mut command, _sockets) = holder.command("");
        let http = format!("http.listen={}", holder.http.local_addr().unwrap());
        command.arg("serve").stderr(Stdio::null());
        for setting in refs(&settings).into_iter().chain([&*http, "mysql.listen="]) {
            command.args(["--set", setting]);
        }
        command.spawn().unwrap()
    };
    let (mut lost, mut lost_most, mut while_writing, mut while_starting) = (0, 0, 0, 0);
    // It starts while packets pour in.
    Kills::run(20_090_901, 1_000, Some(holder.address(0)), |kills| {
        // The most that one kill may cost.
        let bound = kills.rate * (PERIOD_SECS + WRITING_SECS);
        for kill in 0..lives {
            // Before it answers, perhaps before it has read anything.
            while_starting += u64::from(kills.one_that_starts(starting));
            let (program, sent) = kills.start(|| holder.start(&settings));
            let now_lost = look(&program, sent);
            assert!(now_lost >= lost, "what was lost came back: {now_lost} < {lost}");
            let since = now_lost - lost;
            assert!(since <= 2 * bound, "kill {kill}: {since} packets lost, of {bound}");
            lost = now_lost;
            lost_most = lost_most.max(since);
            kills.end(program, 1_000 * PERIOD_SECS + 1_500, std::thread::sleep);
            while_writing += u64::from(dir.path().join("snapshot.new").exists());
        }
        let program = holder.start(&settings);
        let (sent, rate) = (kills.sent(), kills.rate);
        lost = look(&program, sent);
        let restored = program.site.status().0["snapshot"]["restored"]["requests"].as_u64();
        assert!(restored > Some(0), "nothing came back of {lives} lives");
        let gaps = gaps(&program.site, sent);
        let (count, longest) = (gaps.len() as u64, gaps.iter().max().copied().unwrap_or(0));
        println!(
            "{lives} kills, {while_starting} more while it started, {while_writing} found a snapshot half written; {sent} packets at \
             {rate}/s, {lost} lost, at most {lost_most} by one kill ({:.2} s)",
            lost_most as f64 / rate as f64
        );
        assert_eq!(gaps.iter().sum::<u64>(), lost, "rows and counters agree");
        assert!(count <= lives + while_starting, "{count} runs of packets are gone");
        assert!(longest <= 2 * bound);
    });
}

/// Looks at a daemon that has just started and to which nothing is sent: its sums hold, raw rows
/// and reports agree with its counters, nothing was damaged. Gives how many of what was `sent` it
/// does not know of.
fn look(program: &Program, sent: u64) -> u64 {
    let site = &program.site;
    let start = Instant::now();
    let mut before = None;
    let status = await_condition("all that waited is taken", || {
        let status = site.status();
        let quiet = status.count("ring_depth") == 0
            && status.sockets().iter().all(|it| it.count("kernel_queue_bytes") == 0);
        let came = status.count("datagrams_received");
        // What is out of the socket but not counted yet is counted soon, and merged soon after.
        let merged = status.count("requests_merged") == status.count("request_rows");
        if quiet
            && merged
            && before.replace(came) == Some(came)
            && start.elapsed() > Duration::from_millis(50)
        {
            Ok(status)
        } else {
            std::thread::sleep(Duration::from_millis(20));
            Err(status)
        }
    });
    status.assert_accounted();
    assert_eq!(status.count("kernel_drops"), 0, "{status:?}");
    assert_eq!(status.0["snapshot"]["damaged"], serde_json::json!([]));
    let merged = status.count("requests_merged");
    // What was between socket and pool at the moment of the snapshot was received and is gone with
    // the process.
    assert!(merged <= status.count("datagrams_received"), "{status:?}");
    assert_eq!(merged, status.count("request_rows"));
    assert_eq!(merged, status.count("timer_rows"));
    let info = site.json("/api/v1/info");
    assert_eq!(info["req_count"], merged);
    let rows = site.rows("report_by_script_name");
    let counts = rows.iter().map(|row| row["req_count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), merged);
    let errors = program.log();
    let errors: Vec<_> = errors.iter().filter(|it| it["level"] == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:?}");
    sent - merged
}

/// The lengths of the runs of numbers below `sent` that no raw row has. No row is there twice.
fn gaps(site: &Site, sent: u64) -> Vec<u64> {
    let mut there = Vec::new();
    let mut before = String::new();
    loop {
        let page = site.json(&format!("/api/v1/requests?limit=20000{before}"));
        let rows = page["rows"].as_array().unwrap();
        there.extend(rows.iter().map(|row| {
            let kib = row["doc_size"].as_f64().unwrap();
            (kib * 1024.0).round() as u64
        }));
        match page["next_before_id"].as_u64() {
            Some(id) => before = format!("&before_id={id}"),
            None => break,
        }
    }
    there.sort_unstable();
    let twice = there.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "counted twice");
    let starts = std::iter::once(0).chain(there.iter().map(|n| n + 1));
    let ends = there.iter().copied().chain([sent]);
    starts.zip(ends).map(|(start, end)| end - start).filter(|missing| *missing > 0).collect()
}
