//! SQL over full pools: a million requests and five million timers, as users ask of them.
//!
//! `cargo bench --bench bench -- sql`. Filling the pools takes some ten seconds first.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group};
use parking_lot::RwLock;
use pinbad::clock::SystemClock;
use pinbad::config::Config;
use pinbad::ingest::{RingPlan, TempRing};
use pinbad::load::TrafficOptions;
use pinbad::load::traffic::Traffic;
use pinbad::merger::{Live, Pulse};
use pinbad::pool::Pool;
use pinbad::query::catalog::Catalog;
use pinbad::query::status::Status;
use pinbad::report::definition::Defaults;
use pinbad::report::{DefinedBy, Reports, Ticks, builtin};
use pinbad::sql::{Engine, Reply, Session, SqlSettings};
use pinbad::telemetry::Counters;
use pinbad::wire::{Decoder, Hasher, TextLimits};

const REQUESTS: usize = 1_000_000;

/// A catalog over pools that are full.
fn catalog() -> Arc<Catalog> {
    let config = Config::default();
    let hasher = Hasher::new();
    let history = Ticks::of(config.pool.stats_history);
    let pool = Pool::new(&config.pool, hasher.clone());
    let mut reports = Reports::new(&config.reports, history);
    let defaults = Defaults::default();
    let built_in = builtin::reports(&defaults).into_iter();
    let built_in = built_in.map(|report| (report, DefinedBy::BuiltIn));
    reports.define_at_start(built_in.collect(), &pool, 0);
    let mut live = Live::new(pool, reports, history);
    let options = TrafficOptions {
        timers: 5,
        request_tags: 1,
        hosts: 20,
        servers: 10,
        scripts: 500,
        ..TrafficOptions::default()
    };
    let mut traffic = Traffic::new(&options);
    let packets: Vec<Vec<u8>> = (0..50_000).map(|_| traffic.packet().to_vec()).collect();
    let mut decoder = Decoder::new(TextLimits::default(), hasher);
    let mut records = Vec::new();
    for first in (0..REQUESTS).step_by(1_000) {
        records.clear();
        for at in first..first + 1_000 {
            let packet = &packets[at % packets.len()];
            // What the generator makes is valid.
            let _taken = decoder.decode(packet, 1_700_000_000 + first as u32 / 2_000, &mut records);
        }
        let now_ms = first as u64 / 2;
        live.advance(now_ms);
        live.merge(&records, now_ms);
    }
    let counters = Counters::new(1);
    let (ring, ..) = TempRing::new(RingPlan::new(1024, 1 << 20, 1), &counters.sockets);
    let status = Status::bare(counters, ring, Arc::new(SystemClock::new()));
    Arc::new(Catalog::new(
        Arc::new(RwLock::new(live)),
        Arc::new(SystemClock::new()),
        defaults,
        true,
        status,
        Arc::new(Pulse::default()),
    ))
}

fn sql(c: &mut Criterion) {
    let settings = SqlSettings::default();
    let engine = Engine::new(catalog(), settings).expect("threads");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a thread");
    let ask = |text: &str| {
        runtime.block_on(async {
            let mut session = Session::new(1, "bench@localhost", false);
            let Reply::Rows(mut rows) = engine
                .run(&mut session, text, &[])
                .await
                .expect("a right statement")
            else {
                return 0;
            };
            let mut count = 0;
            while let Some(batch) = rows.next().await {
                count += batch.expect("no error").num_rows();
            }
            count
        })
    };
    let tags = "JOIN timertag tt ON tt.timer_id = t.id JOIN tag ON tt.tag_id = tag.id";
    let mut group = c.benchmark_group("sql");
    group.sample_size(20);
    for (name, text) in [
        ("one", "SELECT 1".to_owned()),
        (
            "by script",
            "SELECT script_name, count(*), avg(req_time) FROM request GROUP BY 1 ORDER BY 3 DESC LIMIT 10"
                .to_owned(),
        ),
        ("by id", "SELECT * FROM request WHERE id = 700000".to_owned()),
        (
            "timers of one",
            format!(
                "SELECT t.id, t.hit_count, t.value, tag.name, tt.value FROM timer t {tags} WHERE t.request_id = 700000"
            ),
        ),
        (
            "four tables",
            format!(
                "SELECT r.script_name, t.value, tag.name, tt.value FROM timer t JOIN request r ON t.request_id = r.id {tags} \
                 WHERE t.request_id IN (700000)"
            ),
        ),
        ("newest", "SELECT * FROM request ORDER BY id DESC LIMIT 50".to_owned()),
        ("slowest", "SELECT * FROM request ORDER BY req_time DESC LIMIT 10".to_owned()),
        ("count", "SELECT count(*) FROM request WHERE status >= 500".to_owned()),
        (
            "timers by tag",
            "SELECT value, count(*) FROM timertag GROUP BY value ORDER BY 2 DESC LIMIT 10".to_owned(),
        ),
        ("all requests", "SELECT * FROM request".to_owned()),
        ("all timers", "SELECT * FROM timer".to_owned()),
        ("a report", "SELECT * FROM report_by_hostname_server_and_script".to_owned()),
    ] {
        group.bench_function(name, |b| b.iter(|| black_box(ask(&text))));
    }
    group.finish();
}

criterion_group!(benches, sql);
