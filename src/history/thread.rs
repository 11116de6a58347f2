//! The history thread: writes the rows in memory every `history.flush_period` and at the stop, and
//! maintains the files on disk.
//!
//! Opening a store is retried; until then history is off, and rows wait in memory as long as they
//! fit.
//!
//! The only thread that waits for this disk, at low priority. Publishing, which may take long, lets
//! flushes through. After a failure rows stay in memory and writing is retried ever less often, and
//! once the folder seems writable again; new rows get the rest of the memory.

mod attempts;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::Duration;

use tracing::{error, info, warn};

use self::attempts::{Attempts, PAUSE_MS_MAX};
use super::dataset::Coverage;
use super::disk::{Done, StoreError};
use super::file_names::set_aside;
use super::import::Import;
use super::manifest::UpTo;
use super::requests::{REQUEST, Requests};
use super::store::Store;
use super::{Dataset, History, Resolution};
use crate::config::Config;
use crate::instruments::Instrument;
use crate::merger::SharedLive;
use crate::shutdown::Shutdown;
use crate::state::folder::LEAST_ROOM;
use crate::telemetry::log::Limit;
use crate::telemetry::reading::{Reading, readings};

/// Longest single sleep, so that a stop is noticed soon.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Milliseconds after the end of a minute when its last second is certainly in memory.
const DELIVERED_MS: u64 = 900;

/// Rows published between two checks for a flush.
const ROWS_PER_LOOK: u32 = 256;

/// Milliseconds between two attempts to open the store.
const OPEN_MS: u64 = 5_000;

/// Milliseconds between two looks at a folder that could not be written.
const LOOK_MS: u64 = 1_000;

/// Milliseconds between two looks for something to maintain.
const MAINTAIN_MS: u64 = 1_000;

/// Seconds between two runs of retention.
const RETAIN_SECS: u64 = 60;

/// Writes the rows in memory to disk.
pub(super) static FLUSH: Instrument = Instrument::new("stage/history/flush");
/// Writes the additions of a second to the log of seconds; counts rows.
pub(super) static LOG: Instrument = Instrument::new("stage/history/log");
/// Writes raw requests alone, because their memory is full.
pub(super) static FLUSH_REQUESTS: Instrument = Instrument::new("stage/history/flush requests");
/// Writes a piece of an imported log; counts the requests kept raw.
pub(super) static IMPORT: Instrument = Instrument::new("stage/history/import");
/// Removes expired data.
pub(super) static RETAIN: Instrument = Instrument::new("stage/history/retain");

/// Opens the store, and restores what its log of seconds has.
pub(super) type OpenStore = Box<dyn FnMut() -> Done<Store> + Send>;

/// Called when data of earlier processes becomes readable only after the start, and once all of it
/// is in files, before later data is.
pub(super) type OnRestored = Box<dyn Fn() + Send>;

/// Writes history.
pub(crate) struct Writer {
    /// `None` while history is off.
    store: Option<Store>,
    dir: PathBuf,
    open: OpenStore,
    /// Monotonic milliseconds of the next attempt to open it.
    open_ms: u64,
    work: Work,
    /// Pieces of logs.
    imports: (SyncSender<Import>, Receiver<Import>),
}

/// The data to write, and when.
struct Work {
    history: History,
    /// Raw requests, if they are kept.
    requests: Option<Requests>,
    /// How many of them left the pool too early, as far as recorded.
    missed: u64,
    flush_period: Duration,
    /// Monotonic milliseconds of the next flush.
    flush_ms: u64,
    writing: Attempts,
    maintenance: Attempts,
    /// Limits the lines about failures of both.
    failures: Limit,
    /// Last run of retention, in unix seconds.
    retained: u64,
    on_restored: Option<OnRestored>,
    /// Whether history is on again and nothing of it was written yet.
    is_back: bool,
    /// Free bytes at which writing seems possible again, if the last failure can be detected
    /// without writing: no room, or no permission.
    room: Option<u64>,
    /// Monotonic milliseconds of the next look at that.
    look_ms: u64,
    /// What fails now is lost.
    is_stopping: bool,
}

impl Writer {
    /// Writes the rows of `history` every `flush_period`, to the store in `dir` that is opened now
    /// or, if that fails, later.
    pub(crate) fn new(
        history: History,
        (dir, open): (PathBuf, OpenStore),
        flush_period: Duration,
    ) -> Self {
        let mut work = Work {
            history,
            requests: None,
            missed: 0,
            flush_period,
            flush_ms: 0,
            writing: Attempts::default(),
            maintenance: Attempts::default(),
            failures: Limit::new(PAUSE_MS_MAX),
            retained: 0,
            on_restored: None,
            is_back: false,
            room: None,
            look_ms: 0,
            is_stopping: false,
        };
        work.flush_ms = work.next_flush();
        let imports = mpsc::sync_channel(0);
        let mut writer = Self { store: None, dir, open, open_ms: 0, work, imports };
        writer.open();
        writer
    }

    /// Opens the store, if it is not open.
    fn open(&mut self) {
        if self.store.is_some() {
            return;
        }
        self.open_ms = self.work.history.clock().mono_ms() + OPEN_MS;
        match (self.open)() {
            Ok(mut store) => {
                let is_back = self.work.history.set_on(&store);
                // The first flush would find that out too, a minute later.
                let writable = store.attempt(|store| store.make_room(self.work.now()));
                self.work.has_ended(&store, &writable, true);
                if is_back && writable.is_ok() {
                    self.work.is_back = true;
                    self.work.flush_ms = 0;
                }
                self.store = Some(store);
                self.work.on_restored.iter().for_each(|call| call());
            }
            Err(error) => {
                let mut reason = error.advised(&self.dir);
                if self.work.history.follows_files() {
                    reason += "; until it is on, followed logs of Squid are not read";
                }
                let before = self.work.history.status_mut().off.replace(reason.clone());
                if before.as_ref() != Some(&reason) && !self.work.is_stopping {
                    error!(reason, "History is off: rows wait in memory, and it is tried again.");
                }
            }
        }
    }

    /// Writes the rows that were restored from the log of seconds.
    pub(crate) fn write_restored(&mut self) {
        if let Some(store) = &mut self.store {
            // A failed flush is tried again by the thread.
            self.work.flush(store, true);
        }
    }

    /// Sets what is to be called.
    pub(crate) fn on_restored(&mut self, call: OnRestored) {
        self.work.on_restored = Some(call);
    }

    /// Also keeps raw requests from now on; returns them, if any are to be kept, for their thread.
    pub(crate) fn keep_requests(&mut self, config: &Config, live: &SharedLive) -> Option<Requests> {
        let memory = config.history.memory / Requests::SHARE;
        let requests = Requests::new(config, memory, self.work.history.run(), live)?;
        if config.follows_files() {
            requests.set_limit(requests.copier().next);
        }
        self.work.history.keep_requests(&requests);
        Some(self.work.requests.insert(requests).clone())
    }

    /// What it writes, and a channel whose content is written as soon as it arrives.
    pub(super) fn imports(&self) -> (History, SyncSender<Import>) {
        (self.work.history.clone(), self.imports.0.clone())
    }

    /// Writes a piece of a log if there is one, or waits a little.
    fn import_or_nap(&mut self) {
        let Ok(mut import) = self.imports.1.recv_timeout(NAP_MAX) else { return };
        let mut stage = IMPORT.begin();
        stage.worked(import.requests.len() as u64);
        let written = match &mut self.store {
            Some(store) => {
                let rows = (Some(&*import.rows), &mut import.requests[..]);
                let written = store.write(rows, None, self.work.now(), || ());
                self.work.record_attempt(store, &written);
                written.map_err(|error| error.to_string())
            }
            None => Err(self.work.history.why_off().unwrap_or_default()),
        };
        drop(stage);
        // The sender may be gone.
        let _gone = import.done.send(written);
    }

    /// Writes until a stop is requested, and then the rest: code that adds rows has to have ended
    /// before.
    pub(crate) fn run(mut self, stop: &Shutdown) {
        while !stop.requested() {
            self.import_or_nap();
            if self.work.history.clock().mono_ms() >= self.open_ms {
                self.open();
            }
            let Self { store: Some(store), work, .. } = &mut self else { continue };
            store.advance_age(&**work.history.clock());
            work.look(store);
            work.flush_due(store);
            if work.history.clock().mono_ms() >= work.maintenance.next_ms {
                work.maintain(store, stop);
            }
        }
        self.work.is_stopping = true;
        self.open();
        let Self { store, work, .. } = &mut self;
        let is_all_written = store.as_mut().is_some_and(|store| {
            work.note_lost(store);
            // First the rows of a failed flush, then later ones.
            work.flush(store, true) && work.flush(store, true) && work.end_requests(store)
        });
        if !is_all_written {
            if let Some(store) = store {
                work.write_log(store);
            }
            work.say_what_is_lost();
        }
    }
}

impl Work {
    /// Monotonic milliseconds of the next flush: at the end of a minute if there is one within the
    /// period, so that the rows of a minute are written once.
    fn next_flush(&self) -> u64 {
        let period_ms = self.flush_period.as_millis() as u64;
        self.history.clock().mono_ms() + until_flush(period_ms, self.history.clock().unix_ms())
    }

    /// After a failure the next attempt need not wait for its time once the folder seems writable
    /// again.
    fn look(&mut self, store: &Store) {
        let now_ms = self.history.clock().mono_ms();
        if let Some(room) = self.room.filter(|_| now_ms >= self.look_ms) {
            self.look_ms = now_ms + LOOK_MS;
            if store.seems_writable(room) {
                self.room = None;
                self.flush_ms = now_ms;
                (self.writing.next_ms, self.maintenance.next_ms) = (now_ms, now_ms);
            }
        }
    }

    /// Writes the rows in memory if it is time to, or the memory is full, or the last attempt
    /// failed. Rows and requests are one attempt: as long as one of them fails it is retried ever
    /// less often, and the age of waiting data grows.
    fn flush_due(&mut self, store: &mut Store) {
        self.write_log(store);
        let now_ms = self.history.clock().mono_ms();
        if now_ms >= self.writing.next_ms && self.history.has_sealed() {
            self.flush(store, true);
        }
        let is_due = now_ms >= self.flush_ms
            || self.history.is_wanted()
            || store.seconds.is_large()
            || self.writing.error.is_some();
        let is_full = || self.requests.as_ref().is_some_and(|it| it.copier().is_full());
        if now_ms >= self.writing.next_ms && (is_due || is_full()) {
            let next_ms = self.next_flush();
            self.requests.iter().for_each(Requests::prepare_flush);
            // First the rows of a failed flush, then later ones, which are in no log either.
            let has_failed = self.writing.error.is_some();
            let written = self.flush(store, is_due) && (!has_failed || self.flush(store, is_due));
            if std::mem::take(&mut self.is_back) && written {
                info!("History is on again: what waited in memory is written.");
            }
            if is_due && written {
                self.flush_ms = next_ms;
                self.history.status_mut().flushed_ms = self.history.clock().mono_ms();
            }
        }
    }

    /// Appends additions to the log of seconds; after a failure there is none until the next flush.
    fn write_log(&mut self, store: &mut Store) {
        let Some(fresh) = self.history.take_fresh() else { return };
        let mut stage = LOG.begin();
        stage.worked(fresh.rows);
        let too_much = "more came at once than there is room for: make history.memory larger";
        let written = match fresh.is_full() {
            true => Err(too_much.to_owned()),
            false => {
                store.check_room().and_then(|()| store.seconds.append(fresh)).map_err(|error| {
                    self.is_blocked_by(store, &error);
                    error.advised(store.dir())
                })
            }
        };
        if let Err(reason) = written {
            if !self.is_stopping {
                warn!(reason, "There is no log of seconds until history is written the next time.");
            }
            self.history.end_log(reason);
        }
        self.history.status_mut().log_bytes = store.seconds.bytes();
    }

    /// Writes the data in memory, in one commit: raw requests, and rows if these are due or both
    /// come with the position of a file; before that what was restored, whose positions have no
    /// requests of this process. Returns false if that is impossible now.
    fn flush(&mut self, store: &mut Store, is_due: bool) -> bool {
        let is_restored = self.history.has_restored();
        // A snapshot waits for rows that are sealed; the requests have time.
        let is_sealed = self.history.has_sealed();
        let requests = self.requests.as_ref();
        let requests = requests.filter(|it| !is_restored && (!is_sealed || it.has_limit()));
        let is_joint = requests.is_some_and(Requests::has_limit);
        let has_rows = is_due || is_joint || is_restored;
        let mut stage = if has_rows { FLUSH.begin() } else { FLUSH_REQUESTS.begin() };
        // First: none may be looked at that came after the rows.
        requests.filter(|_| is_joint).iter().for_each(|it| it.copier().is_flushing = true);
        let rows = has_rows.then(|| self.history.begin_flush()).flatten();
        let limit = rows.as_ref().map_or(0, |rows| rows.reached.next_id);
        let mut raw = requests.map_or_else(Vec::new, |it| it.begin_flush(limit));
        let before = store.counters.rows_written.get();
        let has_any = rows.is_some() || !raw.is_empty();
        let mut written = Ok(());
        if has_any {
            let unflushed = rows.as_ref().map(|it| &*it.rows);
            let up_to =
                rows.as_ref().map(|it| UpTo { files: it.reached.files.as_deref(), log: it.log });
            written = store.write((unflushed, &mut raw), up_to, self.now(), || {
                // At the moment in which readers see it on disk it leaves the memory.
                if rows.is_some() {
                    self.history.end_flush();
                }
                requests.iter().for_each(|it| it.copier().clear());
            });
        } else if self.writing.error.is_some() && !self.is_stopping {
            // Nothing to write is no sign that something could be.
            written = store.attempt(|store| store.make_room(self.now()));
        }
        requests.iter().for_each(|it| it.end_flush(written.is_ok().then_some(raw.len())));
        if written.is_ok() {
            stage.worked(store.counters.rows_written.get() - before + raw.len() as u64);
        }
        drop(stage);
        if has_any || self.writing.error.is_some() {
            self.has_ended(store, &written, true);
        }
        let is_written = written.is_ok();
        if rows.is_some() && is_written && self.history.begin_log(store) && !self.is_stopping {
            info!("There is a log of seconds again.");
        }
        if is_written && is_restored {
            self.on_restored.iter().for_each(|call| call());
            return self.flush(store, is_due);
        }
        is_written
    }

    /// Records how a flush has ended, or else maintenance.
    fn has_ended(&mut self, store: &Store, ended: &Done, is_flush: bool) {
        let error = ended.as_ref().err().map(|error| error.with_cause(store.dir()));
        let limit = (!self.is_stopping).then_some(&mut self.failures);
        let (attempts, others) = match is_flush {
            true => (&mut self.writing, &self.maintenance),
            false => (&mut self.maintenance, &self.writing),
        };
        attempts.has_ended(error, self.history.clock().mono_ms(), limit, others);
        self.record_attempt(store, ended);
    }

    /// Writes the requests merged last.
    fn end_requests(&mut self, store: &mut Store) -> bool {
        loop {
            let is_all = self.requests.as_ref().is_none_or(Requests::select);
            let is_written = self.flush(store, true);
            if is_all || !is_written {
                return is_written;
            }
        }
    }

    /// Publishes one file that is due, and periodically runs retention, whether or not anything can
    /// be published. Flushes do not wait for that.
    fn maintain(&mut self, store: &mut Store, stop: &Shutdown) {
        let now = self.now();
        self.maintenance.next_ms = self.history.clock().mono_ms() + MAINTAIN_MS;
        let status = self.history.status_mut();
        store.refilled.clone_from(&status.refilled);
        store.cuts.clone_from(&status.cuts);
        drop(status);
        let mut rows = 0_u32;
        let mut flush_due = |store: &mut Store| {
            StoreError::unless_stopped(stop)?;
            rows = rows.wrapping_add(1);
            if rows.is_multiple_of(ROWS_PER_LOOK) {
                self.flush_due(store);
            }
            Ok(())
        };
        let published = match store.publish_due(now, &mut flush_due) {
            Err(StoreError::Stopped) => return,
            published => published,
        };
        let is_published = matches!(published, Ok(true));
        if is_published {
            // There may be more.
            self.maintenance.next_ms = 0;
        }
        self.note_lost(store);
        let is_to_retain = now.abs_diff(self.retained) >= RETAIN_SECS;
        let mut ended = published.map(|_| ());
        if is_to_retain {
            self.retained = now;
            let _stage = RETAIN.begin();
            ended = ended.and(store.expire(now));
        }
        if is_published || is_to_retain || ended.is_err() || self.maintenance.error.is_some() {
            self.has_ended(store, &ended, false);
        }
    }

    /// Records lost data in coverage.
    fn note_lost(&mut self, store: &mut Store) {
        let missed = self.requests.as_ref().map_or(0, |it| it.copier().missed);
        self.note_missed(store, missed);
        if !store.lost.is_empty() {
            self.history.add(|running| running.cover_all(store.lost.drain(..)));
        }
    }

    /// Records missed requests since the start.
    fn note_missed(&mut self, store: &mut Store, missed: u64) {
        if missed > self.missed {
            let lost = Coverage { missed: missed - self.missed, ..Coverage::default() };
            store.lost.push((Dataset::raw(REQUEST).coverage_key(), self.now(), lost));
            self.missed = missed;
        }
    }

    /// Logs what waited and could not be written at the end, if anything.
    fn say_what_is_lost(&self) {
        let requests = self.requests.as_ref().map_or(0, Requests::waiting);
        let (all, lost) = self.history.waiting();
        let rows: usize = lost.values().sum();
        if all > rows {
            warn!(rows = all - rows, "The next start restores rows from the log of seconds.");
        }
        if rows + requests > 0 {
            let why = self.history.why_failing();
            self.history.lose_at_stop(rows > 0, requests as u64);
            let lost = lost.into_iter().map(|(report, rows)| format!("{report}: {rows}"));
            error!(
                why,
                rows,
                rows_by_report = lost.collect::<Vec<_>>().join(", "),
                requests,
                "Raw requests that history could not write, and rows that are not in the log of seconds either, are lost with the end of the process."
            );
        }
    }

    fn now(&self) -> u64 {
        self.history.clock().unix_ms() / 1000
    }

    /// Notes what is to change before writing seems possible again. A disk may have some room left,
    /// and yet too little.
    fn is_blocked_by(&mut self, store: &Store, error: &StoreError) {
        let free = store.disk.free(store.dir()).unwrap_or_default();
        let room = if error.is_full() { free + LEAST_ROOM } else { 0 };
        self.room = (!store.seems_writable(room)).then_some(room);
    }

    /// Publishes the result of an attempt, and the data on disk.
    fn record_attempt(&mut self, store: &Store, ended: &Done) {
        if let Err(error) = ended {
            self.history.count_failure();
            self.is_blocked_by(store, error);
        }
        let mut readings = readings(store);
        readings.extend(self.requests.iter().flat_map(Requests::readings));
        let set_aside = set_aside(store.dir());
        let error = self.writing.error.as_ref().or(self.maintenance.error.as_ref());
        let mut status = self.history.status_mut();
        (status.readings, status.set_aside) = (readings, set_aside);
        status.error = error.map(|it| it.0.clone());
        status.missing = store.manifest.missing.values().cloned().collect();
    }
}

/// Milliseconds until the next flush.
fn until_flush(period_ms: u64, unix_ms: u64) -> u64 {
    let minute_ms = Resolution::Minute.secs() * 1_000;
    let next = (unix_ms - unix_ms.min(DELIVERED_MS)) / minute_ms + 1;
    let first = next * minute_ms + DELIVERED_MS - unix_ms;
    period_ms.checked_sub(first).map_or(period_ms, |rest| first + rest / minute_ms * minute_ms)
}

/// Data on disk, and counters.
fn readings(store: &Store) -> Vec<Reading> {
    let parts = Arc::clone(&store.parts().read());
    let bytes: u64 = parts.iter().map(|part| part.bytes).sum();
    let files = parts.iter().filter(|part| part.is_published()).count();
    let raw = || parts.iter().filter(|part| part.is_raw());
    let raw_bytes: u64 = raw().map(|part| part.bytes).sum();
    let raw_pieces = raw().filter(|part| !part.is_published()).count();
    let mut readings = readings! {
        Gauge disk_free_bytes = store.disk.free(store.dir()).unwrap_or_default(), "Free space on the disk of history.dir.";
        Gauge disk_free_min_bytes = store.retention.free_min, "Space that must stay free there (history.free_min).";
        Gauge disk_bytes = bytes, "Bytes of all files of history.dir.";
        Gauge files = files, "Files that are published, for other programs too.";
        Gauge pieces_pending = parts.len() - files, "Pieces that are to be published when their hour, day or month is over.";
        Gauge raw_disk_bytes = raw_bytes, "Bytes of those with raw requests.";
        Gauge raw_pieces_pending = raw_pieces, "Pieces that have raw requests.";
    };
    readings.extend(store.counters.readings());
    readings
}

#[cfg(test)]
mod tests;
