//! Reading reports: under the lock, and every value of every row after it.
//!
//! A million requests over 20 hosts, 10 servers and 500 scripts are held. Goals: 500 rows of `report_by_script_name` in
//! 0.5 ms, 100,000 rows of `report_by_hostname_server_and_script` in 60 ms, the JSON of the answer included, which is not
//! measured here (`daemon` asks over HTTP).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group};
use pinbad::cli::load::{Distribution, TrafficOptions};
use pinbad::report::reading::Want;

use crate::stage::{Plan, Stage};

criterion_group!(benches, query);

const REPORTS: [&str; 3] = [
    "info",
    "report_by_script_name",
    "report_by_hostname_server_and_script",
];

fn query(c: &mut Criterion) {
    let mut group = c.benchmark_group("query");
    group.sample_size(20);
    let quantiles = Want {
        quantiles: true,
        histograms: false,
    };
    let mut ready = None;
    for name in REPORTS {
        for (what, want) in [("sums", Want::default()), ("quantiles", quantiles)] {
            group.bench_function(BenchmarkId::new(name, what), |b| {
                let live = &ready.get_or_insert_with(evenly).live;
                let entry = live.reports.find(name).expect("a built-in report").clone();
                b.iter(|| live.reports.read(&entry, want, &live.pool, 0));
            });
        }
        group.bench_function(BenchmarkId::new(name, "values"), |b| {
            let live = &ready.get_or_insert_with(evenly).live;
            let entry = live.reports.find(name).expect("a built-in report").clone();
            let reading = live.reports.read(&entry, quantiles, &live.pool, 0);
            let layout = &entry.definition.layout;
            b.iter(|| {
                for row in 0..reading.len() {
                    for column in 0..layout.columns().len() {
                        black_box(layout.value(&reading, row, column));
                    }
                }
            });
        });
    }
    group.finish();
}

/// Every combination equally often.
fn evenly() -> Stage {
    let traffic = TrafficOptions {
        distribution: Distribution::Each,
        ..TrafficOptions::default()
    };
    Stage::full(&Plan {
        packets: 200_000,
        ..Plan::new(traffic, 0)
    })
}
