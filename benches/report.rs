//! Keeping reports: what a request costs the merger against the number of reports, and what a tick costs that closes.
//!
//! A request is counted once per family, not once per report: `shared` reports ask for the same fields and cost next to
//! nothing each; `apart` ones have a filter of their own each, so nothing can be shared. No goal but the slope.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::cli::load::TrafficOptions;
use pinbad::report::form::ReportForm;

use crate::stage::{Plan, Stage};

criterion_group!(benches, reports);

/// Report number `n`: over shared groups, or with a filter that no other has.
fn form(n: usize, shared: bool) -> ReportForm {
    const KEYS: [&str; 6] = ["script", "host", "server", "status", "schema", "status"];
    let comment = if shared {
        format!("report{}:::{}", n % 18 + 1, n % 99 + 1)
    } else {
        let (key, time) = (KEYS[n % KEYS.len()], 100 + n);
        format!("v2/request/10/~{key}/no_percentiles/max_time={time}")
    };
    ReportForm::of_comment(&format!("bench_{n}"), &comment)
}

fn reports(c: &mut Criterion) {
    let mut group = c.benchmark_group("reports");
    group
        .throughput(Throughput::Elements(1_000))
        .sample_size(20);
    for (name, shared) in [("shared", true), ("apart", false)] {
        for count in [1, 18, 50, 200] {
            let mut ready = None;
            group.bench_function(BenchmarkId::new(name, count), |b| {
                let (stage, records) = ready.get_or_insert_with(|| {
                    let stage = Stage::full(&Plan {
                        packets: 200_000,
                        reports: (0..count).map(|n| form(n, shared)).collect(),
                        ..Plan::new(TrafficOptions::default(), 0)
                    });
                    let records = stage.decoded();
                    (stage, records)
                });
                b.iter(|| stage.merge(records));
            });
        }
    }
    group.finish();
}
