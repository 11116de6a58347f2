//! [`History`], the handle to the past: the rows that are not on disk yet, and a consistent view of
//! all rows.
//!
//! The series thread adds to the running rows; the history thread takes them every
//! `history.flush_period` and writes them. Until they are on disk they stay in memory, as those
//! being flushed, and so do rows restored from the log of seconds, which are written first and
//! alone. A reader gets all three as of one moment: no row is missing or repeated.

mod losses;
mod seal;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tracing::info;

use self::seal::Seal;
use super::log_of_seconds::Fresh;
use super::part::{Part, Parts};
use super::requests::{Requests, RequestsSnapshot};
use super::store::Store;
use super::{Dataset, UnflushedRows};
use crate::clock::Clock;
use crate::delta::Reached;
use crate::input::squid::Positions;
use crate::instruments::Instrument;
use crate::state::last_end::LostAtStop;
use crate::state::snapshot_writer::PiecesCut;
use crate::telemetry::counters::HistoryCounters;
use crate::telemetry::reading::{Group, Place, Reading, readings};
use crate::value::text::{counted, joined};

/// Division of the memory that raw requests do not get, in eighths: for the running rows, for the
/// ones being flushed, for the store and for seconds in transit.
const RUNNING: usize = 3;

/// Rows restored between two looks at their memory.
const ROWS_PER_LOOK: u32 = 1_024;

/// Positions before there are any.
static NOWHERE: Positions = Positions::new();

/// Rows that are not on disk yet.
pub(super) static MEMORY: Instrument = Instrument::wait("wait/synch/mutex/history/rows", "lock");

/// The past of reports: the rows in memory, and the parts on disk.
#[derive(Debug, Clone)]
pub struct History(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Locked before `memory`, which is locked before `status`.
    parts: Parts,
    memory: Mutex<Memory>,
    bytes_max: usize,
    clock: Arc<dyn Clock>,
    counters: HistoryCounters,
    status: Mutex<Status>,
    /// Raw requests, if they are kept.
    requests: OnceLock<Requests>,
    /// Bytes that may wait for the log of seconds, 0 for none, and the followed files.
    log: OnceLock<(usize, Vec<String>)>,
}

#[derive(Debug, Default)]
struct Memory {
    running: UnflushedRows,
    /// Progress up to which rows are, or were, in memory.
    reached: Reached,
    flushing: Option<Flushing>,
    /// The file of the log for current additions.
    log: u64,
    /// All requests before this id are on disk, as far as they are kept.
    flushed_to: u64,
    /// Requests before this id are to be flushed as soon as possible.
    wanted_to: u64,
    seal: Seal,
    /// Whether another file is followed than the one whose position was taken for the last flush,
    /// or that position is before its first line.
    has_begun_file: bool,
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

/// The history thread's view of the disk, which it alone changes, and what it has to keep.
#[derive(Debug, Default)]
pub(super) struct Status {
    /// Monotonic milliseconds of the last successful flush, also of nothing, or of the start.
    pub(super) flushed_ms: u64,
    /// Why the store is not open, if so.
    pub(super) off: Option<String>,
    /// The error of the last attempt, if it failed.
    pub(super) error: Option<String>,
    /// Why there is no log of seconds, if there should be one.
    log: Option<String>,
    /// Bytes of that log.
    pub(super) log_bytes: u64,
    /// Unreadable pieces.
    pub(super) set_aside: Vec<PathBuf>,
    /// Parts whose files are missing.
    pub(super) missing: Vec<Arc<Part>>,
    /// A number for the store; 0 before it was open.
    store: u64,
    /// Its run; 0 before it was open.
    run: u64,
    /// Its counters.
    pub(super) readings: Vec<Reading>,
    /// Spans whose minutes live reports are refilled from, and until when.
    pub(super) refilled: Vec<(Range<u64>, u64)>,
    /// Where the last snapshots end; the first of two is on disk.
    pub(super) cuts: Vec<PiecesCut>,
    /// The rows and raw requests that the stop could not write, if any.
    pub(super) lost_at_stop: Option<LostAtStop>,
    /// Those of earlier stops.
    lost_at_stops: Vec<LostAtStop>,
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

impl Status {
    fn is_failing(&self) -> bool {
        self.off.is_some() || self.error.is_some()
    }
}

impl History {
    /// Without rows in memory, with `memory` bytes (`history.memory`), and these parts on disk.
    pub(crate) fn new(parts: Parts, memory: usize, clock: Arc<dyn Clock>) -> Self {
        let status = Status { flushed_ms: clock.mono_ms(), ..Status::default() };
        Self(Arc::new(Shared {
            parts,
            memory: Mutex::default(),
            bytes_max: memory / 8 * RUNNING,
            clock,
            counters: HistoryCounters::default(),
            status: Mutex::new(status),
            requests: OnceLock::new(),
            log: OnceLock::new(),
        }))
    }

    /// Enables the log of seconds, for which this many bytes may wait, once the store is open; with
    /// the sources that are followed files.
    pub fn keep_log(&self, bytes_max: usize, followed: Vec<String>) {
        let _set_once = self.0.log.set((bytes_max, followed));
    }

    /// Whether any source is a followed file.
    pub(super) fn follows_files(&self) -> bool {
        self.0.log.get().is_some_and(|(_, followed)| !followed.is_empty())
    }

    /// Restores the previous process's log, to be flushed, and continues with a new file. Positions
    /// in followed files get what it has of these.
    pub fn replay(&self, store: &mut Store) {
        let follows = self.follows_files();
        store.seconds.take_unknown(follows).iter().for_each(|file| store.orphan(file));
        let (log, files) = (&mut store.seconds, &mut store.manifest.files);
        let (mut rows, mut added) = (UnflushedRows::default(), 0_u32);
        let (restored, torn) = log.replay(follows, files, &mut |dataset, time, key, gained| {
            rows.add_encoded(dataset, time, key, gained);
            added = added.wrapping_add(1);
            if added.is_multiple_of(ROWS_PER_LOOK) {
                self.shrink(&mut rows);
            }
        });
        self.shrink(&mut rows);
        let counters = &self.0.counters;
        counters.log_rows_restored.add(restored);
        counters.log_bytes_torn.add(torn);
        if restored > 0 {
            info!(rows = restored, "Restored counts that were in no file from the log of seconds.");
        }
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.log = log.before_first(store.manifest.head.run);
        if follows {
            memory.reached.files = Some(Arc::new(files.clone()));
        }
        if !rows.is_empty() {
            let reached = Reached { files: memory.reached.files.clone(), ..Reached::default() };
            let (rows, log) = (Arc::new(rows), memory.log);
            memory.flushing = Some(Flushing { rows, reached, log, is_restored: true });
        }
        drop(memory);
        self.begin_log(store);
    }

    /// Starts to log additions to a new file, if a log is wanted and there is none, and the
    /// positions on disk are in the files that are followed now: it has no lines of others. Returns
    /// whether one is back that [`Self::end_log`] ended.
    pub(super) fn begin_log(&self, store: &Store) -> bool {
        let mut memory = MEMORY.lock(&self.0.memory);
        let mut status = self.status_mut();
        status.log_bytes = store.seconds.bytes();
        let is_known = |from: &String| store.files().contains_key(from);
        if let Some((bytes_max @ 1.., followed)) = self.0.log.get()
            && followed.iter().all(is_known)
            && !memory.has_begun_file
            && memory.running.fresh.is_none()
        {
            memory.log += 1;
            memory.running.fresh = Some(Fresh::new(memory.log, *bytes_max));
            return status.log.take().is_some();
        }
        false
    }

    /// Additions to append to the log.
    pub(super) fn take_fresh(&self) -> Option<Fresh> {
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.running.fresh.as_mut()?.take()
    }

    /// Disables the log until the next flush, for this reason.
    pub(super) fn end_log(&self, reason: String) {
        MEMORY.lock(&self.0.memory).running.fresh = None;
        self.count_failure();
        self.status_mut().log = Some(reason);
    }

    /// Keeps the minutes of these spans as they were written, each until a unix second: live
    /// reports are refilled from them, and so are those of the next process.
    pub(crate) fn keep_minutes_of(&self, refilled: Vec<(Range<u64>, u64)>) {
        self.status_mut().refilled = refilled;
    }

    /// The clock of everything that is kept.
    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// The status, to be changed by the history thread.
    pub(super) fn status_mut(&self) -> MutexGuard<'_, Status> {
        self.0.status.lock()
    }

    /// Counts a failed attempt.
    pub(super) fn count_failure(&self) {
        self.0.counters.failures.add(1);
    }

    /// Why nothing is written or read, if the store is not open. Rows wait in memory meanwhile.
    pub(crate) fn why_off(&self) -> Option<String> {
        self.0.status.lock().off.clone()
    }

    /// Why nothing is written, whether or not the store is open.
    pub(crate) fn why_failing(&self) -> Option<String> {
        let status = self.0.status.lock();
        let failures = [
            ("history is off", &status.off),
            ("history is not written", &status.error),
            ("history has no log of seconds", &status.log),
        ];
        failures.into_iter().find_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)))
    }

    /// The pieces that were set aside, if there are any.
    pub(crate) fn why_lacking(&self) -> Option<String> {
        let status = self.0.status.lock();
        let aside = joined(status.set_aside.iter().map(|it| it.display()), ", ");
        let why = "history goes without what cannot be read and was set aside";
        (!aside.is_empty()).then(|| format!("{why}: {aside}"))
    }

    /// Records that the store is open; returns whether history was off before.
    pub(super) fn set_on(&self, store: &Store) -> bool {
        if let Some(requests) = self.0.requests.get() {
            // Requests merged since the start belong to this run.
            requests.copier().run = store.run();
        }
        let mut status = self.status_mut();
        (status.store, status.run) = ((store.id() >> 64) as u64, store.run());
        status.off.take().is_some()
    }

    /// A remark on the rows of a dataset in a span whose files are missing, if there are any.
    pub(crate) fn lacks(&self, dataset: &Dataset, span: &Range<u64>) -> Option<String> {
        let status = self.0.status.lock();
        let is_within = |it: &&Arc<Part>| it.span.start < span.end && span.start < it.span.end;
        let missing = status.missing.iter().filter(is_within).flat_map(|part| &part.sections);
        let missing = missing.filter(|section| *section.dataset == *dataset);
        let (files, rows) = missing.fold((0, 0), |(files, rows), it| (files + 1, rows + it.rows));
        let (in_files, rows) = (counted(files, "file"), counted(rows, "row"));
        (files > 0).then(|| {
            format!(
                "files that are missing are left out until a start finds them: {rows} in {in_files}; pinbad history verify names them"
            )
        })
    }

    /// The run of the store; 0 while it is not open.
    pub(super) fn run(&self) -> u64 {
        self.0.status.lock().run
    }

    /// A consistent view of all rows: calls `each` with those that are not on disk, and returns the
    /// parts on disk. `each` has to be quick: a lock is held for the running rows.
    pub fn view(&self, mut each: impl FnMut(&UnflushedRows)) -> Arc<[Arc<Part>]> {
        let parts = self.0.parts.read();
        let memory = MEMORY.lock(&self.0.memory);
        each(&memory.running);
        let view = (Arc::clone(&parts), memory.flushing.clone());
        drop((memory, parts));
        view.1.iter().for_each(|flushing| each(&flushing.rows));
        view.0
    }

    /// Everything counted by earlier processes, if the store is open; nothing may have been written
    /// but their rows.
    pub(crate) fn earlier(&self) -> Option<Earlier> {
        let parts = self.0.parts.read();
        let flushing = MEMORY.lock(&self.0.memory).flushing.clone();
        let unflushed = flushing.filter(|it| it.is_restored).map(|it| it.rows);
        let (next, status) = (next_number(&parts), self.0.status.lock());
        let (store, parts) = (status.store, Arc::clone(&parts));
        status.off.is_none().then_some(Earlier { store, parts, unflushed, next })
    }

    /// A consistent view of raw requests.
    pub(crate) fn requests(&self) -> RequestsSnapshot {
        let parts = self.0.parts.read();
        RequestsSnapshot::new(&parts, self.0.requests.get().map(Requests::unflushed))
    }

    /// Starts to keep raw requests.
    pub(super) fn keep_requests(&self, requests: &Requests) {
        let _begun_once = self.0.requests.set(requests.clone());
    }

    /// Copies the raw requests to keep, which are about to leave the pool.
    pub(crate) fn copy_requests(&self) {
        self.0.requests.get().into_iter().for_each(Requests::copy_all);
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
        let second = reached.second;
        self.update(|memory| {
            // If that one never came.
            memory.seal_rows(|behind| behind < second);
            add(&mut memory.running);
            if let Some(now) = &reached.files {
                let before = memory.reached.files.as_deref().unwrap_or(&NOWHERE);
                let begun = |positions: &Positions, from: &String| {
                    positions.get(from).map(|it| it.progress.begun())
                };
                let fresh = &mut memory.running.fresh;
                // One that is not known on disk yet is begun too.
                match now.keys().all(|from| begun(before, from) == begun(now, from)) {
                    true => fresh.iter_mut().for_each(|fresh| fresh.reached(before, now)),
                    // A flush has the position in the new file, as soon as possible.
                    false => (*fresh, memory.has_begun_file) = (None, true),
                }
            }
            memory.reached = reached;
            memory.seal_rows(|behind| behind <= second);
            self.0.counters.requests_missed.add(missed);
            self.0.counters.keys_folded.add(folded);
        });
        // Requests that come with a position of a file may not pass it.
        if let (Some(limit), Some(requests)) = (limit, self.0.requests.get())
            && !self.has_sealed()
        {
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
            let shrunk = rows.shrink(*bytes_max);
            counters.histograms_dropped.add(shrunk.histograms_dropped);
            counters.keys_folded.add(shrunk.keys_folded);
            counters.rows_lost.add(shrunk.rows_lost);
        }
    }

    /// Whether there are rows of an earlier process to write.
    pub(super) fn has_restored(&self) -> bool {
        MEMORY.lock(&self.0.memory).flushing.as_ref().is_some_and(|it| it.is_restored)
    }

    /// Whether there are sealed rows to write.
    pub(super) fn has_sealed(&self) -> bool {
        let memory = MEMORY.lock(&self.0.memory);
        matches!(memory.seal, Seal::Begun) && memory.flushing.is_some()
    }

    /// Takes the rows to write, if there are some.
    pub(super) fn begin_flush(&self) -> Option<Flushing> {
        let parts = self.0.parts.read();
        let mut memory = MEMORY.lock(&self.0.memory);
        memory.end_seal(&parts);
        memory.begin_flush();
        memory.flushing.clone()
    }

    /// Records that these rows are among the parts on disk, which nobody can see before this has
    /// returned.
    pub(super) fn end_flush(&self) {
        let mut memory = MEMORY.lock(&self.0.memory);
        if let Some(Flushing { reached, .. }) = memory.flushing.take() {
            memory.flushed_to = reached.next_id;
            self.0.counters.flushes.add(1);
        }
    }

    /// The number of rows in memory, and by report that of those of them that the log of seconds
    /// may not have.
    pub(super) fn waiting(&self) -> (usize, BTreeMap<String, usize>) {
        let memory = MEMORY.lock(&self.0.memory);
        let all = memory.rows(true).flat_map(UnflushedRows::lens).map(|(_, rows)| rows).sum();
        let mut unlogged = BTreeMap::new();
        if memory.running.fresh.is_none() {
            for (report, rows) in memory.rows(false).flat_map(UnflushedRows::lens) {
                *unlogged.entry(report.to_owned()).or_default() += rows;
            }
        }
        (all, unlogged)
    }

    /// Whether a flush is requested.
    pub(super) fn is_wanted(&self) -> bool {
        let memory = MEMORY.lock(&self.0.memory);
        let wanted = memory.wanted_to;
        memory.has_begun_file || wanted > memory.flushed_to && memory.reached.next_id >= wanted
    }

    /// Contents, writes and losses, for the daemon's status.
    pub(crate) fn status(&self) -> Group {
        let bytes: usize = MEMORY.lock(&self.0.memory).rows(true).map(UnflushedRows::bytes).sum();
        let status = self.0.status.lock();
        let age_ms = self.0.clock.mono_ms().saturating_sub(status.flushed_ms);
        let mut readings = readings! {
            Gauge memory_bytes = bytes, "Memory of rows that are not on disk yet.";
            Gauge memory_bytes_max = self.0.bytes_max * 2, "Limit of that memory: three quarters of history.memory.";
            Gauge failing = u8::from(status.is_failing()), "1 while history cannot be written.";
            Gauge log_disk_bytes = status.log_bytes, "Bytes of the log of seconds on disk.";
            Gauge flush_age_seconds = age_ms as f64 / 1e3, "Time since everything was in history.dir: what a kill would lose of raw requests, and of everything if there is no log. Flushes with nothing to write count too.";
        };
        readings.extend(self.0.counters.counts().readings());
        readings.extend(status.readings.iter().cloned());
        Group::new(Place::Object("history"), readings).with_texts(
            json!({"off": status.off, "error": status.error, "log": status.log, "set_aside": status.set_aside}),
        )
    }
}

impl Memory {
    /// All rows, with or without those of an earlier process.
    fn rows(&self, has_restored: bool) -> impl Iterator<Item = &UnflushedRows> {
        let flushing = self.flushing.iter().filter(move |it| has_restored || !it.is_restored);
        flushing.map(|it| &*it.rows).chain([&self.running])
    }

    /// Takes the rows to write next, if there are some and no others are being written.
    fn begin_flush(&mut self) {
        // Lines that rows have already come with a position alone.
        let Reached { next_id, files, .. } = &self.reached;
        let has_position = files.is_some() && (self.has_begun_file || *next_id > self.flushed_to);
        if self.flushing.is_none() && (has_position || !self.running.is_empty()) {
            let mut rows = std::mem::take(&mut self.running);
            let log = self.log;
            if let Some(mut fresh) = rows.fresh.take() {
                self.log += 1;
                fresh.file = self.log;
                self.running.fresh = Some(fresh);
            }
            let (rows, reached) = (Arc::new(rows), self.reached.clone());
            self.has_begun_file = false;
            self.flushing = Some(Flushing { rows, reached, log, is_restored: false });
        }
    }
}

/// The number of the next part, after these.
fn next_number(parts: &[Arc<Part>]) -> u64 {
    parts.iter().map(|part| part.number() + 1).max().unwrap_or_default()
}
