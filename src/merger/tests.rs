//! Names that all have the same hash, through pool and reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use prost::Message as _;

use super::test_harness::{self, Limits};
use super::*;
use crate::clock::ManualClock;
use crate::input::Decode as _;
use crate::input::pinba::{Decoder, model};
use crate::input::record::{Hasher, TextLimits};
use crate::report::DefinedBy;
use crate::report::read::reading::Want;
use crate::ring::{RingPlan, TempRing};
use crate::telemetry::Counters;

mod churn;
mod memory;
mod reading;
mod repeated_tags;

/// The counts of a report, by key.
fn counted(live: &Live, name: &str) -> BTreeMap<String, u64> {
    let entry = live.reports.find(name).unwrap();
    let reading = live.reports.read(entry, Want::default(), &live.pool, 0);
    let keys = entry.definition.keys.len();
    let text = |row, key| reading.key(row, key).unwrap_or("(other)").to_owned();
    (0..reading.len())
        .map(|row| {
            let keys: Vec<String> = (0..keys).map(|key| text(row, key)).collect();
            (keys.join(" "), reading.totals[row].requests)
        })
        .collect()
}

/// The keyed hash cannot be chosen from outside; even with equal hashes, names stay distinct.
#[test]
fn texts_that_all_hash_alike_are_told_apart() {
    let hasher = Hasher::constant();
    assert_eq!(hasher.hash_bytes(b"a"), hasher.hash_bytes(b"other"));
    let own = [
        ("by_group", r#"{"level": "timer", "keys": ["@group"]}"#),
        ("by_both", r#"{"level": "timer", "keys": ["+env", "@group"]}"#),
    ];
    let reports = test_harness::with_own(&test_harness::defaults(Limits::SMALL.window), &own);
    let mut live = Limits::SMALL.live(&hasher, reports);

    let mut decoder = Decoder::new(TextLimits::default(), hasher);
    let mut scripts = BTreeMap::new();
    let mut groups = BTreeMap::new();
    let mut both = BTreeMap::new();
    for number in 0..600_u64 {
        let script = format!("/s{}", number % 37);
        let (env, group) = (format!("e{}", number % 5), format!("g{}", number % 23));
        let mut sent = model::Request::named(format!("h{}", number % 7), "s", &*script);
        sent.status = Some(200 + number as u32 % 3);
        sent.add_tag("env", &env);
        sent.add_timer(1, 0.5, &[("group", &*group)]);
        *scripts.entry(script).or_insert(0) += 1;
        *both.entry(format!("{env} {group}")).or_insert(0) += 1;
        *groups.entry(group).or_insert(0) += 1;
        let mut record = Vec::new();
        test_harness::decode(&mut decoder, &sent, &mut record);
        forge_identity(&mut record);
        live.merge(&record, 0);
    }
    live.advance(2_000);
    assert_eq!(counted(&live, "report_by_script_name"), scripts);
    assert_eq!(counted(&live, "by_group"), groups);
    assert_eq!(counted(&live, "by_both"), both);
    // They are also evicted under their own names.
    live.advance(200_000);
    assert!(counted(&live, "report_by_script_name").is_empty());
    assert_eq!(live.pool.requests.len(), 0);
}

/// Words for which there is no room are all `(other)`, and so is what is made of them: it is there
/// once, however often it comes.
#[test]
fn words_without_room_take_no_room() {
    let hasher = Hasher::new();
    let reports = test_harness::with_own(&test_harness::defaults(Limits::SMALL.window), &[]);
    let limits = Limits {
        requests: 20_000,
        timers: 20_000,
        words: 1 << 18,
        rows_max: 20_000,
        memory: 64 << 20,
        ..Limits::SMALL
    };
    let mut live = limits.live(&hasher, reports);
    let mut decoder = test_harness::decoder(hasher, &mut live);
    let mut send = |live: &mut Live, script: &str, group: &str| {
        let mut sent = model::Request::named("h", "s", script);
        sent.add_timer(1, 0.5, &[("group", group)]);
        let mut record = Vec::new();
        test_harness::decode(&mut decoder, &sent, &mut record);
        live.merge(&record, 0);
    };
    for number in 0.. {
        send(&mut live, &format!("/known{number}"), "known");
        if live.pool.overflowed() > 0 {
            break;
        }
    }
    let counts = |live: &Live| (live.pool.origins.len(), live.pool.tag_sets.len());
    let (origins, tag_sets) = counts(&live);
    for number in 0..200 {
        send(&mut live, "/new", "new");
        send(&mut live, &format!("/new{number}"), "new");
    }
    assert_eq!(counts(&live), (origins, tag_sets + 1));
    let scripts = counted(&live, "report_by_script_name");
    assert_eq!(scripts["(other)"], 401);
}

/// A reader that holds the lock, such as a snapshot, finds exactly the merged requests in the
/// counters.
#[test]
fn what_is_merged_is_counted_while_the_lock_is_held() {
    let hasher = Hasher::new();
    let counters = Counters::new(1);
    let plan = RingPlan::new(4_000, 1 << 20, 1);
    let (_, mut producers, consumer) = TempRing::new(plan, &counters.sockets);
    let live = Arc::new(RwLock::new(memory::empty_live(&hasher)));
    let clock = Arc::new(ManualClock::new(1_700_000_000_000));
    let mut merger = Merger {
        consumer,
        live: Arc::clone(&live),
        counters: Arc::clone(&counters.merge),
        pulse: Arc::new(Pulse::new(0)),
        clock,
        period: Arc::new(GatheringPeriod::new(Duration::from_millis(1))),
    };
    let mut decoder = Decoder::new(TextLimits::default(), hasher);
    let packet = model::Request::named("h", "s", "/x").encode_to_vec();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..30_000 {
                assert_eq!(decoder.decode(&packet, 1, &mut producers[0]), Ok(1));
                if number % 3 == 0 {
                    producers[0].publish();
                    merger.merge();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            let live = live.read();
            // Long enough for the merger to try to continue.
            std::thread::yield_now();
            let rows = live.pool.requests.next_id() - 1;
            let socket = counters.sockets[0].counts();
            assert_eq!(counters.merge.counts().requests_merged.get(), rows);
            assert_eq!(socket.requests_popped.get() + socket.requests_overwritten.get(), rows);
            drop(live);
            std::thread::yield_now();
        }
    });
}

/// Reports that are dropped and created within a second, with nothing merged meanwhile: each gets
/// its rows, since a dropped one gives its memory back.
#[test]
fn what_a_dropped_report_had_is_free_at_once() {
    let limits = Limits { requests: 20_000, memory: 4 << 20, ..Limits::SMALL };
    let defaults = test_harness::defaults(Limits::SMALL.window);
    let hasher = Hasher::new();
    let mut live = limits.live(&hasher, test_harness::with_own(&defaults, &[]));
    let mut decoder = Decoder::new(TextLimits::default(), hasher);
    let form = r#"{"level": "request", "keys": ["script_name"], "filters": ["min_time=0.0001"]}"#;
    let definition = Arc::new(test_harness::definition("often", form, &defaults));
    for second in 0..5 {
        let mut records = Vec::new();
        for number in 0..4_000_u64 {
            let mut sent = model::Request::named("h", "s", &*format!("/{}", number % 200));
            sent.request_time = Some(0.001 * (1 + number % 977) as f32);
            test_harness::decode(&mut decoder, &sent, &mut records);
        }
        live.advance(second * 1_000);
        live.merge(&records, second * 1_000);
    }
    let (taken, ..) = live.reports.memory();
    let scripts = counted(&live, "report_by_script_name");
    assert_eq!(scripts.len(), 200);
    for round in 0..20 {
        let mut filling =
            live.reports.define(Arc::clone(&definition), DefinedBy::RunTime, &live.pool);
        while let Some(rest) = filling {
            filling = live.reports.fill(rest, &mut live.pool, 2_048);
        }
        let entry = live.reports.find("often").unwrap();
        assert!(live.reports.usage(entry).has_histograms, "round {round}");
        assert_eq!(counted(&live, "often"), scripts, "round {round}");
        assert!(live.reports.remove("often", &mut live.pool));
        let (all, _, overflowed) = live.reports.memory();
        assert_eq!((all, overflowed), (taken, 0), "round {round}");
    }
}

/// Counts of a report that is filled stay, although the merger cuts a second meanwhile.
#[test]
fn a_report_is_filled_while_a_second_is_cut() {
    let limits = Limits { requests: 20_000, memory: 32 << 20, ..Limits::SMALL };
    let defaults = test_harness::defaults(Limits::SMALL.window);
    let form = r#"{"level": "request", "keys": ["script_name"], "filters": ["min_time=0.0001"]}"#;
    let definition = Arc::new(test_harness::definition("often", form, &defaults));
    let filled = |is_cut: bool| {
        let hasher = Hasher::new();
        let mut live = limits.live(&hasher, test_harness::with_own(&defaults, &[]));
        let mut decoder = Decoder::new(TextLimits::default(), hasher);
        // In two ticks.
        for now_ms in [0, 5_000] {
            let mut records = Vec::new();
            for number in 0..10_000_u64 {
                let script = if number % 2 == 0 { 0 } else { number % 2_000 };
                let mut sent = model::Request::named("h", "s", &*format!("/{script}"));
                sent.request_time = Some(0.001 * (1 + number % 977) as f32);
                test_harness::decode(&mut decoder, &sent, &mut records);
            }
            live.advance(now_ms);
            live.merge(&records, now_ms);
        }
        let mut filling =
            live.reports.define(Arc::clone(&definition), DefinedBy::RunTime, &live.pool);
        while let Some(rest) = filling {
            filling = live.reports.fill(rest, &mut live.pool, 100);
            if is_cut {
                live.reports.cut_some(&live.pool);
            }
        }
        live.end_second(5_000, 5_000);
        let entry = live.reports.find("often").unwrap();
        reading::rows(entry, &live.reports.read(entry, reading::ALL, &live.pool, 0))
    };
    assert!(filled(true) == filled(false));
}

/// While the groups of a tick that left are forgotten in pieces, those of another may leave;
/// nothing is counted in one of them after that.
#[test]
fn more_groups_leave_while_others_are_forgotten() {
    let own = [("by_both", r#"{"level": "timer", "keys": ["+env", "@group"]}"#)];
    let hasher = Hasher::new();
    for pieces in 0.. {
        let reports = test_harness::with_own(&test_harness::defaults(Limits::SMALL.window), &own);
        let mut live = Limits::SMALL.live(&hasher, reports);
        let mut decoder = Decoder::new(TextLimits::default(), hasher.clone());
        let mut send = |live: &mut Live, number: u64, now_ms| {
            let (env, group) = (format!("e{}", number % 20), format!("g{}", number / 20));
            let mut sent = model::Request::named("h", "s", format!("/s{number}"));
            sent.add_tag("env", &env);
            sent.add_timer(1, 0.5, &[("group", &*group)]);
            let mut record = Vec::new();
            test_harness::decode(&mut decoder, &sent, &mut record);
            live.merge(&record, now_ms);
            format!("{env} {group}")
        };
        for begin in [0, 1] {
            live.advance(begin * 30_000);
            for number in (begin..300).step_by(2) {
                send(&mut live, number, begin * 30_000);
            }
        }
        live.advance(32_000);
        let is_over = (0..pieces).any(|_| !live.advance_reports(70_000));
        live.advance(200_000);
        let sent = (0..300).rev().map(|number| (send(&mut live, number, 200_000), 1));
        let sent: BTreeMap<String, u64> = sent.collect();
        assert_eq!(counted(&live, "by_both"), sent, "after {pieces} pieces");
        if is_over {
            assert!(pieces > 10, "{pieces} pieces");
            break;
        }
    }
}

/// A merger that is behind reports the lag, and is on time again once it has caught up.
#[test]
fn the_lag_is_counted_from_when_a_run_was_due() {
    let period = Duration::from_secs(1);
    let secs = |secs| Duration::from_secs(secs);
    let start = Instant::now();
    let mut schedule = Schedule::new(start);
    // On time: the run takes less than the period.
    schedule.next(start + period / 2, period);
    assert_eq!(schedule.begins, start + secs(1));
    assert_eq!(schedule.lag(start + secs(1)), Duration::ZERO);
    // Each of these takes four periods.
    for run in 1..=3 {
        let end = start + secs(1 + 4 * run);
        schedule.next(end, period);
        assert_eq!(schedule.begins, end, "at once");
        assert_eq!(schedule.lag(end), secs(3));
    }
    // A short run again: missed ones are not made up for.
    schedule.next(start + secs(13), period);
    assert_eq!(schedule.begins, start + secs(14));
    assert_eq!(schedule.lag(start + secs(14)), Duration::ZERO);
    // The wait may end late, too.
    assert_eq!(schedule.lag(start + secs(16)), secs(2));
}

/// Gives the one record in `bytes` the same hash as all others.
fn forge_identity(bytes: &mut [u8]) {
    let record = Record::next(&mut &*bytes).unwrap();
    let hash = record.identity_hash().to_le_bytes();
    let at = bytes.windows(8).position(|eight| eight == hash).unwrap();
    bytes[at..at + 8].fill(0);
    let record = Record::next(&mut &*bytes).unwrap();
    assert_eq!(record.identity_hash(), 0);
}
