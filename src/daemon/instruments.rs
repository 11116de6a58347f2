//! The instruments of all rooms, registered when a daemon starts.

use std::sync::Arc;

use crate::config::InstrumentsConfig;
use crate::input::udp::receive;
use crate::instruments::memory::Gauge;
use crate::instruments::{IDLE, Instrument, Settings};
use crate::merger::{Live, SharedLive};
use crate::pool::requests::REQUEST_ROW_BYTES;
use crate::pool::timers::TIMER_ROW_BYTES;
use crate::query::catalog::changes;
use crate::report::registry::time;
use crate::state::{files, snapshot_writer};
#[cfg(feature = "sql")]
use crate::{history, sql};
use crate::{http, instruments, merger};

/// All but the threads, the routes of HTTP and the pools of memory, which are named where they are made.
fn all() -> Vec<&'static Instrument> {
    let all = vec![
        &IDLE,
        &receive::RECEIVE,
        &receive::DECODE_BATCH,
        &merger::LIVE_READ,
        &merger::LIVE_WRITE,
        &merger::MERGE_BLOCK,
        &merger::EXPIRE_ROWS,
        &time::CLOSE_TICK,
        &time::EXPIRE_GROUPS,
        &changes::BACK_FILL,
        &snapshot_writer::WRITE_SNAPSHOT,
        &files::STATE_WRITE,
        &files::STATE_SYNC,
        &http::PERMIT,
    ];
    #[cfg(feature = "sql")]
    let all = [
        all,
        history::INSTRUMENTS.into(),
        sql::VERBS.iter().collect(),
    ]
    .concat();
    all
}

/// The pools of memory whose contents are shown.
pub(super) fn set_pools(live: &SharedLive, #[cfg(feature = "sql")] engine: &sql::Engine) {
    let of_live = |read: fn(&Live) -> usize| -> Gauge {
        let live = Arc::downgrade(live);
        Box::new(move || Some(read(&*live.upgrade()?.try_read()?) as u64))
    };
    let requests = |live: &Live| live.pool.requests.len() * REQUEST_ROW_BYTES;
    let timers = |live: &Live| live.pool.timers.len() * TIMER_ROW_BYTES;
    instruments::memory::set_pools(vec![
        ("pool/requests", of_live(requests)),
        ("pool/timers", of_live(timers)),
        (
            "pool/strings",
            of_live(|live| live.pool.strings.arena_bytes()),
        ),
        ("reports", of_live(|live| live.reports.memory().0)),
        #[cfg(feature = "sql")]
        ("sql/queries", Box::new(engine.memory_gauge())),
    ]);
}

/// Registers them, as `[instruments]` says.
pub(super) fn start(config: &InstrumentsConfig) {
    let settings = Settings {
        enabled: config.enabled.clone(),
        classes_max: config.classes_max(),
    };
    instruments::start(&settings, &all());
}
