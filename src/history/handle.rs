//! [`History`], the handle to the past: the rows that are not on disk yet, and a consistent view of
//! all rows.
//!
//! The series thread adds to the running rows; the history thread takes them every
//! `history.flush_period` and writes them. Until they are on disk they stay in memory, as those
//! being flushed, and so do rows restored from the log of seconds, which are written first and
//! alone. A reader gets all three as of one moment: no row is missing or repeated.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tracing::{info, warn};

use super::log_of_seconds::Fresh;
use super::part::{Part, Parts};
use super::requests::Requests;
use super::requests::read::RequestsSnapshot;
use super::store::{Lost, Store};
use super::{Dataset, Resolution, Shrunk, UnflushedRows};
use crate::clock::Clock;
use crate::delta::Reached;
use crate::input::squid::Positions;
use crate::instruments::Instrument;
use crate::report::gain::EncodedGain;
use crate::report::reading::Extremes;
use crate::shutdown::Shutdown;
use crate::telemetry::counters::HistoryCounters;
use crate::telemetry::reading::{Group, Place, Reading, readings};
use crate::value::text::counted;

/// Division of the memory that raw requests do not get, in eighths: for the running rows, for the
/// ones being flushed, for the store and for seconds in transit.
const RUNNING: usize = 3;

/// Longest wait for a flush, and interval of checks.
const FLUSHED_MAX: Duration = Duration::from_secs(30);
const FLUSHED_NAP: Duration = Duration::from_millis(20);

/// Positions before there are any.
static NOWHERE: Positions = Positions::new();

/// Rows that are not on disk yet.
pub(super) static MEMORY: Instrument = Instrument::wait("wait/synch/mutex/history/rows", "lock");

/// The past of reports: the rows in memory, and the parts on disk.
#[derive(Debug, Clone)]
pub struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Locked before `memory`.
    parts: Parts,
    memory: Mutex<Memory>,
    bytes_max: usize,
    clock: Arc<dyn Clock>,
    counters: HistoryCounters,
    status: Mutex<Status>,
    /// Raw requests, if they are kept.
    requests: OnceLock<Requests>,
    /// The run of the store; 0 while it is not open.
    run: AtomicU64,
    /// A number for the store; 0 before it was open.
    store: AtomicU64,
    /// Whether the stop could not write rows or raw requests of history.
    has_lost_at_stop: AtomicBool,
    /// All requests before this id are on disk, as far as they are kept.
    flushed_to: AtomicU64,
    /// Requests before this id are to be flushed as soon as possible.
    wanted_to: AtomicU64,
    /// Bytes that may wait for the log of seconds; 0 without a log.
    fresh_bytes_max: AtomicUsize,
    /// Followed files.
    followed: OnceLock<Vec<String>>,
    /// Bytes of that log on disk.
    log_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Memory {
    running: UnflushedRows,
    /// Progress up to which rows are, or were, in memory.
    reached: Reached,
    flushing: Option<Flushing>,
    /// The file of the log for current additions.
    log: u64,
}

/// Rows being written.
#[derive(Debug, Clone)]
pub(super) struct Flushing {
    pub(super) rows: Arc<UnflushedRows>,
    /// They, and earlier ones, include everything up to here.
    pub(super) reached: Reached,
    /// They include the log up to this file.
    pub(super) log: u64,
    /// Whether they are all of an earlier process.
    pub(super) is_restored: bool,
}

/// The history thread's view of the disk.
#[derive(Debug, Default)]
struct Status {
    /// Monotonic milliseconds of the last successful flush, or of the start.
    flushed_ms: u64,
    /// Why the store is not open, if so.
    off: Option<String>,
    /// The error of the last attempt, if it failed.
    error: Option<String>,
    /// Why there is no log of seconds, if there should be one.
    log: Option<String>,
    /// Unreadable pieces.
    set_aside: Vec<PathBuf>,
    /// Parts whose files were missing at the start.
    missing: Vec<Arc<Part>>,
    /// Counters of the store.
    store: Vec<Reading>,
}

/// Rows that a reader combines with the running ones.
#[derive(Debug)]
pub struct View {
    /// Parts on disk.
    pub parts: Arc<[Arc<Part>]>,
    /// Rows being written.
    pub flushing: Option<Arc<UnflushedRows>>,
}

/// Everything counted by earlier processes.
#[derive(Debug)]
pub(crate) struct Earlier {
    /// The number of the store.
    pub(crate) store: u64,
    pub(crate) parts: Arc<[Arc<Part>]>,
    /// Rows that no part has yet.
    pub(crate) unflushed: Option<Arc<UnflushedRows>>,
    /// The number of the next part.
    pub(crate) next: u64,
}

impl History {
    /// Without rows in memory, with `memory` bytes (`history.memory`), and these parts on disk.
    #[must_use]
    pub fn new(parts: Parts, memory: usize, clock: Arc<dyn Clock>) -> Self {
        let status = Status { flushed_ms: clock.mono_ms(), ..Status::default() };
        Self(Arc::new(Shared {
            parts,
            memory: Mutex::default(),
            bytes_max: memory / 8 * RUNNING,
            clock,
            counters: HistoryCounters::default(),
            status: Mutex::new(status),
            requests: OnceLock::new(),
            run: AtomicU64::new(0),
            store: AtomicU64::new(0),
            has_lost_at_stop: AtomicBool::new(false),
            flushed_to: AtomicU64::new(0),
            wanted_to: AtomicU64::new(0),
            fresh_bytes_max: AtomicUsize::new(0),
            followed: OnceLock::new(),
            log_bytes: AtomicU64::new(0),
        }))
    }

    /// Enables the log of seconds, for which this many bytes may wait, once the store is open; with
    /// the sources that are followed files.
    pub fn keep_log(&self, bytes_max: usize, followed: Vec<String>) {
        let _set_once = self.0.followed.set(followed);
        self.0.fresh_bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Restores the previous process's log, to be flushed, and continues with a new file. Positions
    /// in followed files get what it has of these.
    pub fn replay(&self, store: &mut Store) {
        let (log, files) = store.log_and_files();
        let follows = self.0.followed.get().is_some_and(|it| !it.is_empty());
        log.is_read_anew = follows;
        let mut rows = UnflushedRows::default();
        let replayed = log.replay(files, |dataset, time, key, row| {
            let extremes = row.extremes.unwrap_or(Extremes::NOTHING);
            let gained = (EncodedGain(row.gain), extremes);
            rows.add_encoded(dataset, time, (key, row.is_other), gained);
            self.shrink(&mut rows);
        });
        let counters = &self.0.counters;
        counters.log_rows_restored.add(replayed.rows);
        counters.log_bytes_torn.add(replayed.torn);
        if replayed.rows > 0 {
            info!(
                rows = replayed.rows,
                "Restored counts that were not in files yet from the log of seconds."
            );
        }
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.log = log.last();
        if follows {
            memory.reached.files = Some(Arc::new(files.clone()));
        }
        if !rows.is_empty() {
            let reached = Reached { next_id: 0, files: memory.reached.files.clone() };
            let (rows, log) = (Arc::new(rows), memory.log);
            memory.flushing = Some(Flushing { rows, reached, log, is_restored: true });
        }
        drop(memory);
        self.set_log_bytes(log.bytes());
        self.begin_log(files);
    }

    /// Starts to log additions to a new file, if a log is wanted and there is none, and it is known
    /// on disk which files are followed.
    pub(super) fn begin_log(&self, files: &Positions) {
        let bytes_max = self.0.fresh_bytes_max.load(Ordering::Relaxed);
        let mut followed = self.0.followed.get().into_iter().flatten();
        let is_known = followed.all(|from| files.contains_key(from));
        let mut memory = MEMORY.lock(&self.0.memory);
        if bytes_max > 0 && is_known && memory.running.fresh.is_none() {
            memory.log += 1;
            let fresh = Fresh::new(memory.log, bytes_max);
            memory.running.begin_log(fresh);
            self.0.status.lock().log = None;
        }
    }

    /// Additions to append to the log.
    pub(super) fn take_fresh(&self) -> Option<Fresh> {
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.running.fresh.as_mut()?.take()
    }

    /// Sets the size of the log files.
    pub(super) fn set_log_bytes(&self, bytes: u64) {
        self.0.log_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Disables the log until the next flush, for this reason.
    pub(super) fn end_log(&self, reason: String) {
        MEMORY.lock(&self.0.memory).running.fresh = None;
        self.0.counters.failures.add(1);
        warn!(reason, "There is no log of seconds until history is written the next time.");
        self.0.status.lock().log = Some(reason);
    }

    /// Why nothing is written or read, if the store is not open. Rows wait in memory meanwhile.
    #[must_use]
    pub fn why_off(&self) -> Option<String> {
        self.0.status.lock().off.clone()
    }

    /// Why nothing is written, whether or not the store is open.
    #[must_use]
    pub fn why_failing(&self) -> Option<String> {
        let status = self.0.status.lock();
        let failures = [
            ("history is off", &status.off),
            ("history is not written", &status.error),
            ("history has no log of seconds", &status.log),
        ];
        let mut failures = failures.into_iter();
        failures.find_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)))
    }

    /// The pieces that were set aside, if there are any.
    #[must_use]
    pub fn why_lacking(&self) -> Option<String> {
        let status = self.0.status.lock();
        let aside = status.set_aside.iter().map(|it| it.display().to_string());
        let aside: Vec<String> = aside.collect();
        (!aside.is_empty()).then(|| {
            format!(
                "history goes without what cannot be read and was set aside: {}",
                aside.join(", ")
            )
        })
    }

    /// Records that the store cannot be opened; returns the reason if it is a new one.
    pub(super) fn set_off(&self, reason: String) -> Option<String> {
        let off = &mut self.0.status.lock().off;
        let is_new = off.as_ref() != Some(&reason);
        *off = Some(reason);
        off.clone().filter(|_| is_new)
    }

    /// Records that the store is open; returns whether history was off before.
    pub(super) fn set_on(&self, store: &Store) -> bool {
        let number = store.id().get(..16).and_then(|id| u64::from_str_radix(id, 16).ok());
        self.0.store.store(number.unwrap_or_default(), Ordering::Relaxed);
        self.0.run.store(store.run(), Ordering::Relaxed);
        if let Some(requests) = self.0.requests.get() {
            requests.begin(store.run());
        }
        let mut status = self.0.status.lock();
        status.missing = store.missing();
        status.off.take().is_some()
    }

    /// A remark on the rows of a dataset in a span whose files are missing, if there are any.
    pub(crate) fn lacks(&self, dataset: &Dataset, span: &Range<u64>) -> Option<String> {
        let status = self.0.status.lock();
        let is_within = |part: &Part| part.span.start < span.end && span.start < part.span.end;
        let missing = status.missing.iter().filter(|part| is_within(part));
        let rows: Vec<u64> = missing
            .flat_map(|part| part.sections.iter())
            .filter(|section| *section.dataset == *dataset)
            .map(|section| section.rows)
            .collect();
        let (files, rows) = (rows.len() as u64, rows.iter().sum::<u64>());
        (files > 0).then(|| {
            format!(
                "files that were missing at the start are left out until they are back: {} in {}; pinbad history verify names them",
                counted(rows, "row"),
                counted(files, "file")
            )
        })
    }

    /// The run of the store; 0 while it is not open.
    pub(super) fn run(&self) -> u64 {
        self.0.run.load(Ordering::Relaxed)
    }

    /// A consistent view of all rows: `running` gets those not being written, under a lock; it
    /// should not take long.
    pub fn view(&self, running: impl FnOnce(&UnflushedRows)) -> View {
        let parts = self.0.parts.read();
        let memory = MEMORY.lock(&self.0.memory);
        running(&memory.running);
        View {
            parts: Arc::clone(&parts),
            flushing: memory.flushing.as_ref().map(|it| Arc::clone(&it.rows)),
        }
    }

    /// The number of the next file, if the store is open and no row waits in memory.
    #[must_use]
    pub fn next_file(&self) -> Option<u64> {
        let parts = self.0.parts.read();
        let memory = MEMORY.lock(&self.0.memory);
        let is_all_written = memory.running.is_empty() && memory.flushing.is_none();
        (is_all_written && self.run() > 0 && self.why_off().is_none()).then(|| next_number(&parts))
    }

    /// Everything counted by earlier processes, if the store is open; nothing may have been written
    /// but their rows.
    pub(crate) fn earlier(&self) -> Option<Earlier> {
        let View { parts, .. } = self.view(|_| ());
        let flushing = MEMORY.lock(&self.0.memory).flushing.clone();
        let unflushed = flushing.filter(|it| it.is_restored).map(|it| it.rows);
        let (store, next) = (self.0.store.load(Ordering::Relaxed), next_number(&parts));
        self.why_off().is_none().then_some(Earlier { store, parts, unflushed, next })
    }

    /// A consistent view of raw requests.
    pub(crate) fn requests(&self) -> RequestsSnapshot {
        let parts = self.0.parts.read();
        RequestsSnapshot::new(&parts, self.0.requests.get().map(Requests::unpublished))
    }

    /// Starts to keep raw requests.
    pub(super) fn keep_requests(&self, requests: &Requests) {
        let _begun_once = self.0.requests.set(requests.clone());
    }

    /// Adds gains up to `reached`. Before they came here, `missed` requests were lost and `folded`
    /// keys overflowed.
    pub(super) fn take(
        &self,
        missed: u64,
        folded: u64,
        reached: Reached,
        add: impl FnOnce(&mut UnflushedRows),
    ) {
        let limit = reached.files.is_some().then_some(reached.next_id);
        let Shared { counters, .. } = &*self.0;
        self.update(|memory| {
            add(&mut memory.running);
            if let Some(now) = &reached.files {
                let before = memory.reached.files.as_deref().unwrap_or(&NOWHERE);
                let fresh = &mut memory.running.fresh;
                fresh.take_if(|fresh| !fresh.reached(before, now));
            }
            memory.reached = reached;
            counters.requests_missed.add(missed);
            counters.keys_folded.add(folded);
        });
        if let (Some(limit), Some(requests)) = (limit, self.0.requests.get()) {
            requests.set_limit(limit);
        }
    }

    /// Adds to the running rows.
    pub(super) fn add(&self, add: impl FnOnce(&mut UnflushedRows)) {
        self.update(|memory| add(&mut memory.running));
    }

    fn update(&self, change: impl FnOnce(&mut Memory)) {
        let mut memory = MEMORY.lock(&self.0.memory);
        change(&mut memory);
        self.shrink(&mut memory.running);
    }

    /// Shrinks rows that take too much memory.
    fn shrink(&self, rows: &mut UnflushedRows) {
        let Shared { bytes_max, counters, .. } = &*self.0;
        if rows.bytes() > *bytes_max {
            let Shrunk { histograms, folded, lost } = rows.shrink(*bytes_max);
            counters.histograms_dropped.add(histograms);
            counters.keys_folded.add(folded);
            counters.rows_lost.add(lost);
        }
    }

    /// Whether there are rows of an earlier process to write.
    pub(super) fn has_restored(&self) -> bool {
        let memory = MEMORY.lock(&self.0.memory);
        memory.flushing.as_ref().is_some_and(|it| it.is_restored)
    }

    /// Takes the rows to write, if there are some.
    pub(super) fn begin_flush(&self) -> Option<Flushing> {
        let mut memory = MEMORY.lock(&self.0.memory);
        // Lines that rows have already come with a position alone.
        let flushed_to = self.0.flushed_to.load(Ordering::Acquire);
        let has_position = memory.reached.files.is_some() && memory.reached.next_id > flushed_to;
        if memory.flushing.is_none() && (has_position || !memory.running.is_empty()) {
            let mut rows = std::mem::take(&mut memory.running);
            let log = memory.log;
            if let Some(fresh) = rows.fresh.take() {
                memory.log += 1;
                memory.running.fresh = Some(fresh.turn_to(memory.log));
            }
            let (rows, reached) = (Arc::new(rows), memory.reached.clone());
            memory.flushing = Some(Flushing { rows, reached, log, is_restored: false });
        }
        memory.flushing.clone()
    }

    /// Records that these rows are among the parts on disk, which nobody can see before this has
    /// returned.
    pub(super) fn end_flush(&self) {
        let flushed = MEMORY.lock(&self.0.memory).flushing.take();
        if let Some(Flushing { reached, .. }) = flushed {
            self.0.flushed_to.store(reached.next_id, Ordering::Release);
        }
    }

    /// The number of rows in memory.
    pub(super) fn waiting(&self) -> usize {
        let memory = MEMORY.lock(&self.0.memory);
        let flushing = memory.flushing.as_ref().map_or(0, |it| it.rows.len());
        memory.running.len() + flushing
    }

    /// Those of them that the log of seconds may not have.
    pub(super) fn unlogged(&self) -> usize {
        let memory = MEMORY.lock(&self.0.memory);
        let flushing = memory.flushing.as_ref().filter(|it| !it.is_restored);
        let all = memory.running.len() + flushing.map_or(0, |it| it.rows.len());
        if memory.running.fresh.is_some() { 0 } else { all }
    }

    /// Records that the stop could not write rows or raw requests.
    pub(super) fn set_lost_at_stop(&self) {
        self.0.has_lost_at_stop.store(true, Ordering::Relaxed);
    }

    /// Whether the stop could not write rows or raw requests of history.
    pub(crate) fn has_lost_at_stop(&self) -> bool {
        self.0.has_lost_at_stop.load(Ordering::Relaxed)
    }

    /// Whether a flush is requested.
    pub(super) fn is_wanted(&self) -> bool {
        let wanted = self.0.wanted_to.load(Ordering::Acquire);
        wanted > self.0.flushed_to.load(Ordering::Acquire)
            && MEMORY.lock(&self.0.memory).reached.next_id >= wanted
    }

    /// Waits until all requests before this id are on disk, since something that counts them
    /// elsewhere is about to be saved. Gives up if that cannot be written, on a stop, or after some
    /// time; returns whether they are.
    pub fn await_flushed(&self, to: u64, stop: &Shutdown) -> bool {
        self.0.wanted_to.fetch_max(to, Ordering::AcqRel);
        let begun = Instant::now();
        loop {
            if self.0.flushed_to.load(Ordering::Acquire) >= to {
                return true;
            }
            let status = self.0.status.lock();
            let is_failing = status.off.is_some() || status.error.is_some();
            drop(status);
            if is_failing || stop.requested() || begun.elapsed() > FLUSHED_MAX {
                return false;
            }
            std::thread::sleep(FLUSHED_NAP);
        }
    }

    /// Records the result of an attempt, and the store's counters.
    pub(super) fn record_attempt(
        &self,
        is_failure: bool,
        error: Option<String>,
        set_aside: Vec<PathBuf>,
        store: Vec<Reading>,
    ) {
        self.0.counters.failures.add(is_failure.into());
        let mut status = self.0.status.lock();
        status.error = error;
        status.set_aside = set_aside;
        status.store = store;
    }

    /// Records missing data in coverage.
    pub(super) fn record_lost(&self, lost: &mut Vec<Lost>) {
        if lost.is_empty() {
            return;
        }
        self.add(|running| {
            for lost in lost.drain(..) {
                let minute = Resolution::Minute.begin(lost.time);
                running.cover(&lost.dataset.coverage_key(), minute, lost.what);
            }
        });
    }

    /// Counts a flush.
    pub(super) fn count_flush(&self) {
        self.0.counters.flushes.add(1);
    }

    /// Records that everything present when this flush began has been written.
    pub(super) fn has_flushed(&self) {
        self.0.status.lock().flushed_ms = self.0.clock.mono_ms();
    }

    /// Contents, writes and losses, for the daemon's status.
    #[must_use]
    pub fn status(&self) -> Group {
        let memory = MEMORY.lock(&self.0.memory);
        let flushing = memory.flushing.as_ref().map_or(0, |it| it.rows.bytes());
        let bytes = memory.running.bytes() + flushing;
        drop(memory);
        let status = self.0.status.lock();
        let age_ms = self.0.clock.mono_ms().saturating_sub(status.flushed_ms);
        let mut readings = readings! {
            Gauge memory_bytes = bytes, "Memory of rows that are not on disk yet.";
            Gauge memory_bytes_max = self.0.bytes_max * 2, "Limit of that memory: three quarters of history.memory.";
            Gauge failing = u8::from(status.off.is_some() || status.error.is_some()), "1 while history cannot be written.";
            Gauge log_disk_bytes = self.0.log_bytes.load(Ordering::Relaxed), "Bytes of the log of seconds on disk.";
            Gauge flush_age_seconds = age_ms as f64 / 1e3, "Time since the last write to history.dir: what a kill would lose of raw requests, and of everything if there is no log.";
        };
        readings.extend(self.0.counters.counts().readings());
        readings.extend(status.store.iter().cloned());
        Group::new(Place::Object("history"), readings).with_texts(
            json!({"off": status.off, "error": status.error, "log": status.log, "set_aside": status.set_aside}),
        )
    }
}

/// The number of the next part, after these.
fn next_number(parts: &[Arc<Part>]) -> u64 {
    parts.iter().map(|part| part.number() + 1).max().unwrap_or_default()
}
