//! The whole path in process, one core: datagram -> decode -> ring -> merge -> pool and the 18 base reports, and back out
//! again as ticks leave the window. And the merger alone, which is the part that cannot be spread over cores.
//!
//! A simulated 100,000 packets/s with a window of ten seconds: a million requests are held, and as much expires as
//! arrives. Goals: 1,000,000 packets/s without timers and 500,000 with five (twice that is what we are after); the merger
//! alone 1,500,000.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::load::Distribution;
use pinbad::load::TrafficOptions;

use crate::stage::{PACKETS_PER_MERGE, Stage};

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

fn options(timers: u32, distribution: Distribution) -> TrafficOptions {
    TrafficOptions {
        timers,
        distribution,
        ..TrafficOptions::default()
    }
}

fn path(c: &mut Criterion) {
    let mut group = c.benchmark_group("path");
    group
        .throughput(Throughput::Elements(PACKETS_PER_MERGE as u64))
        .sample_size(20);
    for (name, timers, distribution, reports) in TRAFFIC {
        let mut ready = None;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let stage =
                ready.get_or_insert_with(|| Stage::full(&options(timers, distribution), reports));
            b.iter(|| stage.receive_and_merge());
        });
    }
    group.finish();
}

fn merge(c: &mut Criterion) {
    let mut group = c.benchmark_group("merge");
    group
        .throughput(Throughput::Elements(PACKETS_PER_MERGE as u64))
        .sample_size(20);
    for (name, timers, distribution, reports) in TRAFFIC {
        let mut ready = None;
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            let (stage, records) = ready.get_or_insert_with(|| {
                let stage = Stage::full(&options(timers, distribution), reports);
                let records = stage.decoded();
                (stage, records)
            });
            b.iter(|| stage.merge(records.next_batch()));
        });
    }
    group.finish();
}
