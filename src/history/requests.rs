//! Raw requests on disk: the slowest, errors and a sample of the rest, or all (`history.requests`).
//!
//! ```text
//!   raw pool --(copier: short holds)--> tail, or all of them --(flush)--> pieces --(hour over)--> request/date=../..parquet
//!                                                                                                   timer/.. request_tag/..
//! ```
//!
//! The copier has a thread of its own, which is idle while pieces are written: the pool keeps
//! new requests meanwhile. The history thread does the rest. Pieces, manifest and retention are
//! those of the [`Store`], with tables instead of reports ([`Dataset::raw`]); their [`files`] are
//! published once, and nothing is rolled up. Readers ([`snapshot`]) get a consistent view: flushed
//! requests leave the memory at the moment their pieces appear, and while pieces are written
//! nothing is added.
//!
//! **Ids.** On disk (run, id) identifies one request forever. The run is that of the manifest,
//! which is raised at each start before anything is written. Within a run ids only grow, starting
//! at the pool's next id; the copier starts there too. So rows restored from a snapshot are
//! never written: a clean stop has flushed all of them, under their own run, and unflushed ones may
//! be lost in a kill. After a kill the snapshot may be older than the disk, and ids are reused:
//! under another run. Nothing is on disk twice, whatever the snapshot has, and no watermark is
//! needed for that.
//!
//! **Bounds.** `memory` of [`Requests::new`] for copies; for publishing, a block of each piece,
//! 64 KiB unless a single request is longer, and a row group of each file.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use self::copier::Copier;
pub(super) use self::packed::Kept;
pub(crate) use self::packed::{REQUEST, REQUEST_TAG, TABLES, TIMER, Tags, Timers};
pub(super) use self::publish::PUBLISH_REQUESTS;
pub(crate) use self::snapshot::RequestsSnapshot;
use self::tail_sampling::Tail;
pub(crate) use self::unflushed::UnflushedRequests;
use super::columns::{BatchBuilder, Cell};
use super::disk::Done;
use super::pending::PendingWriter;
use super::store::Store;
use super::{Dataset, Part, Resolution};
use crate::config::{Config, KeptRequests};
use crate::instruments::Instrument;
use crate::merger::{SharedLive, answering};
use crate::shutdown::Shutdown;
use crate::telemetry::reading::{Reading, readings};

mod copier;
pub(super) mod files;
pub(super) mod packed;
mod publish;
mod snapshot;
mod tail_sampling;
pub(super) mod unflushed;

/// Interval at which the copier checks for work.
const NAP: Duration = Duration::from_millis(50);
/// Naps between two looks at merged requests. Data on scripts and origins has left the processor's
/// caches by then, so it pays to process many requests at once.
const NAPS: u32 = 10;
/// It looks sooner when one part in this many of the pool is new.
const POOL_SHARE: u64 = 16;

/// Raw requests that are not on disk yet.
pub(super) static COPIER: Instrument =
    Instrument::wait("wait/synch/mutex/history/requests", "lock");
/// Looks at merged requests to select those that history keeps.
pub(super) static COLLECT: Instrument = Instrument::new("stage/history/collect requests");

/// Raw requests in transit to disk.
#[derive(Debug, Clone)]
pub struct Requests(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    live: SharedLive,
    /// The first id of this run.
    begin: u64,
    copier: Mutex<Copier>,
    /// Asks the copier's thread to copy all selected requests, because a flush begins.
    copy_now: AtomicBool,
    /// First id not to be looked at yet, if requests are written with file positions.
    limit: AtomicU64,
}

impl Requests {
    /// They get one part in this many of `history.memory`.
    pub const SHARE: usize = 4;

    /// Keeps requests merged from now on, in `run`, or once that has begun, in at most this many
    /// bytes. `None` if nothing is to be kept.
    pub(crate) fn new(config: &Config, memory: usize, run: u64, live: &SharedLive) -> Option<Self> {
        let seed = ahash::RandomState::new().hash_one(run);
        let tail = match config.history.requests {
            KeptRequests::Tail => Some(Tail::new(memory, config.reports.error_status, seed)),
            KeptRequests::All => None,
            KeptRequests::None => return None,
        };
        let (size, next) = {
            let requests = &live.read().pool.requests;
            (requests.size(), requests.next_id())
        };
        if size == 0 {
            return None;
        }
        Some(Self(Arc::new(Shared {
            live: Arc::clone(live),
            begin: next,
            copier: Mutex::new(Copier::new(tail, memory, run, next)),
            copy_now: AtomicBool::new(false),
            limit: AtomicU64::new(u64::MAX),
        })))
    }

    /// The requests in transit; selected ones are added to them.
    pub(super) fn copier(&self) -> MutexGuard<'_, Copier> {
        COPIER.lock(&self.0.copier)
    }

    /// Selects and copies until a stop is requested; on a thread of its own.
    pub fn run(&self, stop: &Shutdown) {
        let mut naps = 0;
        while !stop.requested() {
            let copy_now = self.0.copy_now.swap(false, Ordering::Relaxed);
            naps += 1;
            if copy_now || naps >= NAPS || self.has_much_to_look_at() {
                let _stage = COLLECT.begin();
                let mut copier = self.copier();
                let is_all = copier.select(&self.0.live, self.limit());
                if copy_now {
                    copier.copy_out(&self.0.live, u64::MAX);
                }
                naps = if is_all { 0 } else { NAPS };
            }
            std::thread::sleep(NAP);
        }
    }

    /// Prepares a flush: the copier's thread copies selected requests. The history thread has a
    /// low priority; if it held the pool's lock while waiting for a processor, the merger would
    /// wait too.
    pub(super) fn prepare_flush(&self) {
        self.0.copy_now.store(true, Ordering::Relaxed);
    }

    fn has_much_to_look_at(&self) -> bool {
        let next = self.copier().next;
        let requests = &answering(&self.0.live).pool.requests;
        requests.next_id().saturating_sub(next) > requests.size() / POOL_SHARE
    }

    /// Selects from all that was merged meanwhile; false when a flush has to make room for more of
    /// it.
    pub fn select(&self) -> bool {
        self.copier().select(&self.0.live, self.limit())
    }

    /// Selects and copies now: the pool is about to be cleared.
    pub(super) fn copy_all(&self) {
        let mut copier = self.copier();
        // Those without room, or behind the limit, are missed.
        let _is_all = copier.select(&self.0.live, self.limit());
        copier.copy_out(&self.0.live, u64::MAX);
    }

    /// Sets the first id that may not be looked at yet.
    pub(super) fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Ordering::Release);
    }

    fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Acquire)
    }

    /// Whether they are written together with the rows, up to the same position.
    pub(super) fn has_limit(&self) -> bool {
        self.limit() < u64::MAX
    }

    /// The requests before `limit` to write, while nothing is added.
    pub(super) fn begin_flush(&self, limit: u64) -> Vec<(f64, Kept)> {
        let mut copier = self.copier();
        if self.has_limit() {
            copier.is_flushing = false;
            // Requests without room are still in the pool, and may be missed there.
            let _is_all = copier.select(&self.0.live, limit);
        }
        let rows = copier.rows(&self.0.live);
        copier.is_flushing = true;
        rows
    }

    /// Records that this many were written; `None` if that failed.
    pub(super) fn end_flush(&self, written: Option<usize>) {
        let mut copier = self.copier();
        copier.written += written.unwrap_or_default() as u64;
        // After a failure it is tried again, with the same rows if they come with a position.
        copier.is_flushing = written.is_none() && self.has_limit();
    }

    /// Takes all selected requests, for another writer.
    pub(super) fn take(&self) -> Vec<(f64, Kept)> {
        let mut copier = self.copier();
        let mut taken = Vec::new();
        loop {
            let is_all = copier.select(&self.0.live, u64::MAX);
            taken.extend(copier.rows(&self.0.live));
            copier.clear();
            if is_all {
                return taken;
            }
        }
    }

    /// Requests in transit at this moment: selected ones, and after them those only in the pool.
    pub(super) fn unflushed(&self) -> UnflushedRequests {
        let mut copier = self.copier();
        // Those without room are among the latter.
        let _is_all = copier.select(&self.0.live, self.limit());
        UnflushedRequests {
            kept: copier.rows(&self.0.live).into(),
            live: Arc::clone(&self.0.live),
            ids: copier.next..answering(&self.0.live).pool.requests.next_id(),
            run: copier.run,
            begin: self.0.begin,
            is_sample: copier.tail.is_some(),
        }
    }

    /// The number of requests in transit, with those that nobody has looked at yet.
    pub(super) fn waiting(&self) -> usize {
        let waiting = self.unflushed();
        waiting.kept.len() + waiting.ids.count()
    }

    /// Counters since the start, for the daemon's status.
    pub(super) fn readings(&self) -> Vec<Reading> {
        let copier = self.copier();
        let tail = copier.tail.as_ref();
        let (given_up, bytes) = tail.map_or((0, copier.bytes), |it| (it.given_up, it.bytes));
        readings! {
            Counter raw_requests_kept = copier.written, "Raw requests written to history.dir (history.requests).";
            Counter raw_requests_missed = copier.missed, "Raw requests that had left the pool before history could look at them.";
            Counter raw_requests_given_up = given_up, "Raw requests that were to be kept and found no room in their share of history.memory; the weights of others stand for them.";
            Gauge raw_memory_bytes = bytes, "Memory of raw requests that are not on disk yet.";
        }
    }
}

/// The hour in which a request was received.
fn hour((_, kept): &(f64, Kept)) -> u64 {
    Resolution::Hour.begin(kept.received.into())
}

impl Store {
    /// Writes rows as pieces, one for each hour, which do not count yet.
    pub(super) fn stage_requests(&mut self, rows: &mut [(f64, Kept)], now: u64) -> Done<Vec<Part>> {
        rows.sort_unstable_by_key(|row| (hour(row), Reverse(row.1.time_us), row.1.id));
        let (mut staged, mut packed) = (Vec::new(), Vec::new());
        for rows in rows.chunk_by_mut(|a, b| hour(a) == hour(b)) {
            let mut piece = PendingWriter::new(self.create()?, Resolution::Minute)?;
            for table in [REQUEST, TIMER] {
                piece.begin(&Dataset::raw(table))?;
                for (weight, kept) in &*rows {
                    packed.clear();
                    let count = kept.push(table, *weight, &mut packed);
                    let received = u64::from(kept.received);
                    let push = |to: &mut BatchBuilder| to.push_cells([Cell::Bytes(Some(&packed))]);
                    if count > 0 {
                        piece.push(count, received..received + 1, push)?;
                    }
                }
                // Requests are sorted by time, timers in the order of requests.
                rows.sort_unstable_by_key(|(_, kept)| kept.id);
            }
            staged.push(self.stage_piece(piece, now)?);
        }
        Ok(staged)
    }
}

#[cfg(test)]
pub(super) mod tests;
