//! Counts a piece of a log with a pool and reports of its own, defined like the daemon's.
//!
//! Time stands still in them: nothing leaves a window. When they are too full they are cleared,
//! after their gains have become rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use super::Importer;
use super::piece::LINES_MAX;
use crate::config::{PoolConfig, ReportsConfig};
use crate::delta::Reader;
use crate::history::dataset::Coverage;
use crate::history::part::Parts;
use crate::history::requests::Kept;
use crate::history::{History, MinuteRollup, Requests, UnflushedRows};
use crate::input::record::{Hasher, Record};
use crate::merger::{Live, SharedLive};
use crate::pool::Pool;
use crate::pool::snapshot::PoolIds;
use crate::report::definition::Definition;
use crate::report::{DefinedBy, Reports, Ticks, WatchSettings};

/// Requests merged between two conversions to rows.
const BLOCK: usize = 512;
/// Memory of the reports.
const REPORTS_BYTES: usize = 48 << 20;
/// Names and tag sets.
const WORDS_BYTES: usize = 32 << 20;
/// Memory for gains of the reports in a block.
const GAINED_BYTES: usize = 32 << 20;
/// Memory for rows, and again for those being written: as much as `history.memory` has for the
/// running ones.
const ROWS_BYTES: usize = 256 << 20;
/// Most memory in all, including raw requests.
pub(super) const BYTES: usize =
    REPORTS_BYTES + WORDS_BYTES + GAINED_BYTES + ROWS_BYTES / 8 * 3 + (32 << 20);

/// First id of imported requests: ids of live requests never get there.
const IDS_BEGIN: u64 = 1 << 52;
/// Ids of timers per request: more than it has timers.
const TIMER_IDS: u64 = 64;

/// Counts a piece.
pub(super) struct Counting {
    /// The hasher of texts in its records.
    pub(super) hasher: Hasher,
    live: SharedLive,
    deltas: Reader,
    minutes: MinuteRollup,
    rows: History,
    /// Raw requests, if they are kept.
    requests: Option<Requests>,
    kept: Vec<(f64, Kept)>,
}

impl Counting {
    /// An empty counter; this many requests were imported before in this run.
    pub(super) fn new(importer: &Importer, reports: &[Arc<Definition>], taken: u64) -> Self {
        let Importer { config, history, .. } = importer;
        let ticks = Ticks::of(config.pool.stats_history);
        let pool = PoolConfig {
            request_pool_size: 2 * BLOCK,
            timer_pool_size: 2 * BLOCK * TIMER_IDS as usize,
            words_memory: WORDS_BYTES,
            ..config.pool.clone()
        };
        let of_reports =
            ReportsConfig { memory: REPORTS_BYTES, rows_max: LINES_MAX, ..config.reports.clone() };
        let hasher = Hasher::new();
        let pool = Pool::new(&pool, hasher.clone());
        let mut live = Live::new(pool, Reports::new(&of_reports, ticks), ticks);
        let definitions = reports.iter().map(|it| (Definition::clone(it), DefinedBy::BuiltIn));
        let Live { pool, reports: to, .. } = &mut live;
        to.define_at_start(definitions.collect(), pool, 0);
        // Now: reports over a pool that has had rows would be filled first.
        pool.restore_ids(PoolIds {
            next_request: IDS_BEGIN + taken,
            next_timer: IDS_BEGIN + taken * TIMER_IDS,
            last_timestamp: 0,
        });
        let names = reports.iter().map(|report| report.name.clone());
        let choice = WatchSettings {
            kept: Some(names.collect()),
            reports_max: usize::MAX,
            bytes_max: GAINED_BYTES,
            ..WatchSettings::default()
        };
        let (_, deltas) = live.watch(choice, 0, 0);
        let live = Arc::new(RwLock::new(live));
        let rows = History::new(Parts::default(), ROWS_BYTES, Arc::clone(history.clock()));
        Self {
            hasher,
            requests: Requests::new(config, ROWS_BYTES / 8, history.run(), &live),
            live,
            deltas,
            minutes: MinuteRollup::new(rows.clone(), config.reports.error_status, None),
            rows,
            kept: Vec::new(),
        }
    }

    /// Counts the requests of a minute.
    pub(super) fn merge(&mut self, minute: u64, mut records: &[u8]) {
        let unix_ms = minute * 1000;
        self.live.write().advance_second(0, unix_ms);
        while !records.is_empty() {
            let mut rest = records;
            let requests = std::iter::from_fn(|| Record::next(&mut rest)).take(BLOCK).count();
            let block = &records[..records.len() - rest.len()];
            records = rest;
            if requests == 0 {
                break;
            }
            self.live.write().merge(block, 0);
            if let Some(requests) = &self.requests {
                requests.select();
            }
            let mut live = self.live.write();
            live.end_second(0, unix_ms);
            let (taken, limit, _) = live.reports.memory();
            if taken > limit / 2 {
                live.clear();
            }
            drop(live);
            let Self { deltas, minutes, .. } = self;
            deltas.poll(|second, missed| {
                if second.requests > 0 {
                    minutes.take_rows(second, missed, |rows| second.read(&mut [rows]));
                }
            });
        }
        self.kept.extend(self.requests.as_ref().map(Requests::take).into_iter().flatten());
    }

    /// Adds coverage under a key, in seconds by minute.
    pub(super) fn cover(&self, key: &[u8], minutes: &BTreeMap<u64, u64>) {
        self.rows.add(|rows| {
            for (&minute, &secs) in minutes {
                rows.cover(key, minute, Coverage { secs, ..Coverage::default() });
            }
        });
    }

    /// The rows, and the raw requests to keep.
    pub(super) fn end(self) -> (Arc<UnflushedRows>, Vec<(f64, Kept)>) {
        (self.rows.begin_flush().map(|it| it.rows).unwrap_or_default(), self.kept)
    }
}
