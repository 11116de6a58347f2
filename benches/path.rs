//! The whole path in process, one core: datagram -> decode -> ring -> merge -> pool and the 18 base reports, and back out
//! again as ticks leave the window. And the merger alone, which is the part that cannot be spread over cores.
//!
//! A simulated 100,000 packets/s with a window of ten seconds: a million requests are held, and as much expires as
//! arrives. Goals: 1,000,000 packets/s without timers and 500,000 with five (twice that is what we are after); the merger
//! alone 1,500,000.

use criterion::{Criterion, Throughput, criterion_group};
use pinbad::cli::load::{Distribution, TrafficOptions};

use crate::stage::{Plan, Stage};

criterion_group!(benches, path, merge);

/// What is sent: name, timers, distribution, tag reports.
const TRAFFIC: [(&str, u32, Distribution, usize); 5] = [
    ("no timers", 0, Distribution::Zipf, 0),
    (
        "no timers, 100,000 keys evenly",
        0,
        Distribution::Uniform,
        0,
    ),
    ("5 timers", 5, Distribution::Zipf, 0),
    ("5 timers, 100,000 keys evenly", 5, Distribution::Uniform, 0),
    ("5 timers, 5 tag reports", 5, Distribution::Zipf, 5),
];

/// The stages for one line of [`TRAFFIC`], full.
fn stage(timers: u32, distribution: Distribution, tag_reports: usize) -> Stage {
    let traffic = TrafficOptions {
        timers,
        distribution,
        ..TrafficOptions::default()
    };
    Stage::full(&Plan {
        packets: 200_000,
        ..Plan::new(traffic, tag_reports)
    })
}

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    group
        .throughput(Throughput::Elements(1_000))
        .sample_size(20);
    for (name, timers, distribution, reports) in TRAFFIC {
        let mut ready = None;
        group.bench_function(name, |b| {
            let stage = ready.get_or_insert_with(|| stage(timers, distribution, reports));
            b.iter(|| stage.receive_and_merge());
        });
    }
    group.finish();
}

fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    group
        .throughput(Throughput::Elements(1_000))
        .sample_size(20);
    for (name, timers, distribution, reports) in TRAFFIC {
        let mut ready = None;
        group.bench_function(name, |b| {
            let (stage, records) = ready.get_or_insert_with(|| {
                let stage = stage(timers, distribution, reports);
                let records = stage.decoded();
                (stage, records)
            });
            b.iter(|| stage.merge(records));
        });
    }
    group.finish();
}
