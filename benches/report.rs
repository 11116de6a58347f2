//! Keeping reports: what a request costs the merger against the number of reports, and what a tick costs that closes.
//!
//! A request is counted once per family, not once per report: `shared` reports ask for the same fields and cost next to
//! nothing each; `apart` ones have a filter of their own each, so nothing can be shared. No goal but the slope.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use pinbad::load::TrafficOptions;
use pinbad::report::form::ReportForm;

use crate::stage::{PACKETS_PER_MERGE, Stage};

criterion_group!(benches, reports);

/// Keys that the family of the base reports serves.
const KEYS: [&str; 6] = [
    "script_name",
    "hostname",
    "server_name",
    "status",
    "schema",
    "status",
];

/// Report number `n`: over shared groups, or with a filter that nobody else has.
fn form(n: usize, shared: bool) -> ReportForm {
    let comment = if shared {
        format!("report{}:::{}", n % 18 + 1, n % 99 + 1)
    } else {
        format!(
            "v2/request/10/~{}/no_percentiles/max_time={}",
            key(n),
            100 + n
        )
    };
    ReportForm::of_comment(&format!("bench_{n}"), &comment)
}

fn key(n: usize) -> &'static str {
    match KEYS[n % KEYS.len()] {
        "script_name" => "script",
        "hostname" => "host",
        "server_name" => "server",
        other => other,
    }
}

fn reports(c: &mut Criterion) {
    let mut group = c.benchmark_group("reports");
    group
        .throughput(Throughput::Elements(PACKETS_PER_MERGE as u64))
        .sample_size(20);
    for (name, shared) in [("shared", true), ("apart", false)] {
        for count in [1, 18, 50, 200] {
            let mut ready = None;
            group.bench_function(BenchmarkId::new(name, count), |b| {
                let (stage, records) = ready.get_or_insert_with(|| {
                    let forms = (0..count).map(|n| form(n, shared));
                    let mut stage = Stage::with_reports(&TrafficOptions::default(), forms);
                    stage.fill_window();
                    let records = stage.decoded();
                    (stage, records)
                });
                b.iter(|| stage.merge(records.next_batch()));
            });
        }
    }
    group.finish();
}
