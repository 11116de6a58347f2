//! Registers all instruments, wherever they are declared, when a daemon starts.

use std::sync::Arc;

use super::frontends::Served;
use crate::config::InstrumentsConfig;
use crate::input::udp::{receive, senders};
use crate::input::{otlp, squid, stat};
use crate::instruments::memory::Gauge;
use crate::instruments::{IDLE, Instrument, Settings};
use crate::merger::{Live, SharedLive};
use crate::metrics::SERIES_BYTES;
use crate::pool::activities::ACTIVITY_ROW_BYTES;
use crate::pool::dimensions::Origins;
use crate::pool::requests::REQUEST_ROW_BYTES;
use crate::pool::timers::TIMER_ROW_BYTES;
use crate::query::catalog::report_set;
use crate::query::status::Status;
use crate::report::registry::time;
use crate::state::{annotations, files, snapshot};
use crate::{clickhouse, delta, history, http, instruments, merger, profile, series, sql};

/// All instruments except threads, routes of HTTP and memory pools, which are named where they are
/// created.
pub fn all() -> Vec<&'static Instrument> {
    let all = vec![
        &IDLE,
        &receive::RECEIVE,
        &receive::DECODE_BATCH,
        &senders::TABLE,
        &merger::LIVE_READ,
        &merger::LIVE_WRITE,
        &merger::MERGE_BLOCK,
        &merger::EXPIRE_ROWS,
        &time::CLOSE_TICK,
        &time::EXPIRE_GROUPS,
        &report_set::BACK_FILL,
        &report_set::CHANGES,
        &delta::QUEUE,
        &delta::TAKE_SECOND,
        &series::READ,
        &series::WRITE,
        &otlp::TAKE_SPANS,
        &squid::TAKE_LINES,
        &stat::client::READ,
        &profile::TAKE_SAMPLES,
        &profile::POOL,
        &snapshot::WRITE_SNAPSHOT,
        &annotations::ANNOTATIONS,
        &files::STATE_WRITE,
        &files::STATE_SYNC,
        &http::PERMIT,
    ];
    [
        all,
        history::INSTRUMENTS.into(),
        clickhouse::INSTRUMENTS.into(),
        sql::INSTRUMENTS.into(),
        sql::VERBS.iter().collect(),
    ]
    .concat()
}

/// A memory pool and a gauge of its size.
type Pool = (&'static str, Gauge);

/// Pools that exist before anything is served.
pub(super) fn pools(live: &SharedLive, status: &Status) -> Vec<Pool> {
    let of_live = |read: fn(&Live) -> usize| -> Gauge {
        let live = Arc::downgrade(live);
        Box::new(move || Some(read(&*live.upgrade()?.try_read()?) as u64))
    };
    let requests = |live: &Live| live.pool.requests.len() * REQUEST_ROW_BYTES;
    let timers = |live: &Live| live.pool.timers.len() * TIMER_ROW_BYTES;
    let activities = |live: &Live| live.pool.activities.len() * ACTIVITY_ROW_BYTES;
    let texts = |live: &Live| live.pool.strings.arena_bytes() + live.pool.tag_sets.arena_bytes();
    let dimensions = |live: &Live| Origins::bytes(live.pool.origins.len());
    let ring = Arc::downgrade(&status.ring);
    let mut pools: Vec<Pool> = vec![
        ("temporary pool", Box::new(move || Some(ring.upgrade()?.waiting_bytes()))),
        ("requests", of_live(requests)),
        ("timers", of_live(timers)),
        ("strings and tag sets", of_live(texts)),
        ("request dimensions", of_live(dimensions)),
        ("reports", of_live(|live| live.reports.memory().0)),
        ("instruments", Box::new(|| Some(instruments::bytes()))),
    ];
    if !status.counters.squids.is_empty() {
        pools.push(("activities of Squid", of_live(activities)));
    }
    if let Some(profile) = status.profile.as_ref().map(Arc::downgrade) {
        let bytes = move || Some(profile.upgrade()?.bytes() as u64);
        pools.push(("samples", Box::new(bytes)));
    }
    if let Some(history) = status.history.clone() {
        let bytes = move || {
            let group = history.status();
            Some(group.count("memory_bytes") + group.count("raw_memory_bytes"))
        };
        pools.push(("history", Box::new(bytes)));
    }
    pools
}

/// Registers the gauges of pools, including those of front ends.
pub(super) fn set_pools(mut pools: Vec<Pool>, served: &Served<'_>) {
    if let Some(series) = served.series.clone() {
        let bytes = move || Some(series.status().count("memory_bytes"));
        pools.push(("last hour", Box::new(bytes)));
    }
    let metrics = served.metrics.clone();
    let bytes = move || Some(metrics.status()[0].count("series") * SERIES_BYTES as u64);
    pools.push(("metrics", Box::new(bytes)));
    if let Some(engine) = &served.engine {
        pools.push(("SQL", Box::new(engine.memory_gauge())));
    }
    instruments::memory::set_pools(pools);
}

/// Registers them as `[instruments]` says.
pub(super) fn start(config: &InstrumentsConfig) {
    let settings = Settings { enabled: config.enabled.clone(), classes_max: config.classes_max() };
    instruments::start(&settings, &all());
}
