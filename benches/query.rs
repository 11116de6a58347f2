//! Reading reports: under the lock, and every value of every row after it.
//!
//! A million requests over 20 hosts, 10 servers and 500 scripts are held. Goals: 500 rows of `report_by_script_name` in
//! 0.5 ms, 100,000 rows of `report_by_hostname_server_and_script` in 60 ms, the JSON of the answer included, which is not
//! measured here (`pinbad bench` asks over HTTP).

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group};
use pinbad::load::{Distribution, TrafficOptions};
use pinbad::report::reading::Want;

use crate::stage::Stage;

criterion_group!(benches, query);

const REPORTS: [&str; 3] = [
    "info",
    "report_by_script_name",
    "report_by_hostname_server_and_script",
];

fn query(c: &mut Criterion) {
    let mut group = c.benchmark_group("query");
    group.sample_size(20);
    let mut ready = None;
    for name in REPORTS {
        for (what, want) in [
            ("sums", Want::default()),
            (
                "quantiles",
                Want {
                    quantiles: true,
                    histograms: false,
                },
            ),
        ] {
            group.bench_function(BenchmarkId::new(name, what), |b| {
                let stage = ready.get_or_insert_with(evenly);
                let live = &stage.live;
                let entry = live.reports.find(name).expect("a built-in report").clone();
                b.iter(|| live.reports.read(&entry, want, &live.pool, 0));
            });
        }
        group.bench_function(BenchmarkId::new(name, "values"), |b| {
            let stage = ready.get_or_insert_with(evenly);
            let live = &stage.live;
            let entry = live.reports.find(name).expect("a built-in report").clone();
            let want = Want {
                quantiles: true,
                histograms: false,
            };
            let reading = live.reports.read(&entry, want, &live.pool, 0);
            let shape = &entry.definition.shape;
            b.iter(|| {
                for row in 0..reading.len() {
                    for column in 0..shape.columns().len() {
                        black_box(shape.value(&reading, row, column));
                    }
                }
            });
        });
    }
    group.finish();
}

/// Every combination equally often.
fn evenly() -> Stage {
    let distribution = Distribution::Each;
    Stage::full(
        &TrafficOptions {
            distribution,
            ..TrafficOptions::default()
        },
        0,
    )
}
