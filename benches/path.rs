//! The whole path in process, one core: datagram -> decode -> ring -> merge -> pool and reports,
//! and back out again as ticks leave the window. And the merger alone, which is the part that
//! cannot be spread over cores.
//!
//! `path` and `merge`: a simulated 100,000 packets/s with a window of ten seconds and the 18 base
//! reports: a million requests are held, and as much expires as arrives. `path 15 min` is the same
//! at 10,000 packets/s over fifteen minutes, of which the reports hold all nine million. Goals of
//! both: 2,000,000 packets/s without timers, 1,000,000 with five, 400,000 with five tag reports as
//! well; the merger alone 1,500,000. The other groups show how the cost of a packet grows: with
//! reports, distinct keys, timers and the window, always full. What the reports of a case take is
//! told on stderr.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group};
use pinbad::cli::format::bytes;
use pinbad::cli::load::{Distribution, TrafficOptions};
use pinbad::grammar::native::ReportForm;

use crate::stage::{Plan, Stage};

criterion_group!(benches, path, path_15_min, merge, reports, keys, timers, windows);

type Cases = Vec<(String, Plan)>;

/// Returns the cases of `path` and `merge`: `rate` packets/s over a window of `secs` seconds.
fn traffic(rate: u64, secs: u64) -> Cases {
    let cases = [
        ("no timers", 0, Distribution::Zipf, 0),
        ("no timers, 100,000 keys evenly", 0, Distribution::Uniform, 0),
        ("5 timers", 5, Distribution::Zipf, 0),
        ("5 timers, 100,000 keys evenly", 5, Distribution::Uniform, 0),
        ("5 timers, 5 tag reports", 5, Distribution::Zipf, 5),
    ];
    let plan = |(name, timers, distribution, tag_reports): (&str, _, _, _)| {
        let traffic = TrafficOptions { timers, distribution, ..TrafficOptions::default() };
        let plan = Plan {
            packets: 200_000,
            rate,
            window: Duration::from_secs(secs),
            ..Plan::new(traffic, tag_reports)
        };
        (name.to_owned(), plan)
    };
    cases.map(plan).into()
}

fn path(c: &mut Criterion) {
    let cases = traffic(100_000, 10);
    measure(c, "path", cases, Stage::receive_and_merge);
}

fn path_15_min(c: &mut Criterion) {
    let cases = traffic(10_000, 900);
    measure(c, "path 15 min", cases, Stage::receive_and_merge);
}

fn merge(c: &mut Criterion) {
    measure(c, "merge", traffic(100_000, 10), Stage::merge);
}

/// Measures each case with its window full. A case that is filtered out is not made.
fn measure(c: &mut Criterion, name: &str, cases: Cases, run: impl Fn(&mut Stage)) {
    let mut group = c.benchmark_group(name);
    group.sample_size(20).warm_up_time(Duration::from_millis(500));
    for (case, plan) in cases {
        let packets = plan.packets_per_merge() as u64;
        group.throughput(Throughput::Elements(packets));
        let mut ready = None;
        group.bench_function(&case, |b| {
            let stage = ready.get_or_insert_with(|| {
                let stage = Stage::full(&plan);
                let live = stage.merger.live.read();
                let (used, _, folded) = live.reports.memory();
                let folded = if folded > 0 { ", keys folded" } else { "" };
                let aggregates = live.reports.aggregates();
                drop(live);
                let used = bytes(used as f64);
                eprintln!("{name}/{case}: {used} in {aggregates} aggregates{folded}");
                stage
            });
            b.iter(|| run(stage));
        });
    }
    group.finish();
}

fn with_timers(timers: u32) -> TrafficOptions {
    TrafficOptions { timers, ..TrafficOptions::default() }
}

/// 1 to 200 reports: over the same records, which share groups; each with a filter of its own; and
/// over timers.
fn reports(c: &mut Criterion) {
    const FIELDS: [&str; 5] = ["script_name", "server_name", "hostname", "status", "schema"];
    let all = [&["@group", "@server", "@operation"][..], &FIELDS].concat();
    let some = |names: &[&'static str], chosen: usize| -> Vec<&'static str> {
        let names = names.iter().enumerate();
        let chosen = names.filter(|(bit, _)| chosen & (1 << bit) != 0);
        chosen.map(|(_, name)| *name).collect()
    };
    let form = |kind: &str, n: usize| -> ReportForm {
        let (level, keys, filters) = match kind {
            "same records" => ("request", some(&FIELDS, n % 31 + 1), vec![]),
            "own filter each" => {
                let filter = format!("min_time=0.{:06}", 1000 + n * 100);
                ("request", vec![FIELDS[0]], vec![filter])
            }
            _ => ("timer", some(&all, n + 1), vec![]),
        };
        let form = serde_json::json!({
            "name": format!("r{n}"), "level": level, "keys": keys, "filters": filters, "percentiles": [95],
        });
        serde_json::from_value(form).expect("a form as it is documented")
    };
    let mut cases = Cases::new();
    for (kind, timers) in [("same records", 0), ("own filter each", 0), ("timers", 5)] {
        for count in [1, 2, 5, 10, 20, 50, 100, 200] {
            let plan = Plan {
                rate: 20_000,
                window: Duration::from_secs(5),
                reports: (0..count).map(|n| form(kind, n)).collect(),
                ..Plan::new(with_timers(timers), 0)
            };
            cases.push((format!("{kind}/{count}"), plan));
        }
    }
    measure(c, "reports", cases, Stage::receive_and_merge);
}

/// 10 to a million distinct keys, all equally frequent: with the default limits, past which keys
/// fold into `(other)`, and with room for all. From a million on each is seen once in the window.
fn keys(c: &mut Criterion) {
    let mut cases = Cases::new();
    for keys in [10, 100, 1_000, 10_000, 100_000, 1_000_000_u32] {
        for kind in ["default limits", "room for all"] {
            let traffic = TrafficOptions {
                hosts: 10,
                servers: (keys / 10).clamp(1, 10),
                scripts: (keys / 100).max(1),
                statuses: 1,
                schemas: 1,
                distribution: Distribution::Each,
                ..TrafficOptions::default()
            };
            let mut plan = Plan::new(traffic, 0);
            plan.packets = keys.max(10_000) as usize;
            if kind == "room for all" {
                plan.config.reports.rows_max = 4_000_000;
                plan.config.reports.memory = 8 << 30;
                plan.config.pool.words_memory = 1 << 30;
            }
            cases.push((format!("{kind}/{keys}"), plan));
        }
    }
    measure(c, "keys", cases, Stage::receive_and_merge);
}

/// 0 to 100 timers of three tags in a packet, without and with five tag reports.
fn timers(c: &mut Criterion) {
    let mut cases = Cases::new();
    for tag_reports in [0, 5] {
        for timers in [0, 1, 2, 5, 10, 20, 50, 100_u32] {
            let plan = Plan {
                rate: 100_000 / (1 + u64::from(timers) / 2),
                packets: 20_000,
                ..Plan::new(with_timers(timers), tag_reports)
            };
            cases.push((format!("{tag_reports} tag reports/{timers}"), plan));
        }
    }
    measure(c, "timers", cases, Stage::receive_and_merge);
}

/// Windows of 10 s to 24 h, unless they would take too long to fill.
fn windows(c: &mut Criterion) {
    const FILL_MAX: u64 = 30_000_000;
    let mut cases = Cases::new();
    for rate in [300, 10_000, 100_000] {
        for secs in [10, 60, 900, 3_600, 86_400] {
            let plan = Plan {
                rate,
                period_ms: if rate < 1000 { 100 } else { 10 },
                window: Duration::from_secs(secs),
                ..Plan::new(TrafficOptions::default(), 0)
            };
            if rate * secs <= FILL_MAX {
                cases.push((format!("{rate} a second/{secs} s"), plan));
            }
        }
    }
    measure(c, "window", cases, Stage::receive_and_merge);
}
