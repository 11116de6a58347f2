//! Writes the snapshot in `state.dir` every `state.snapshot_period` and at the stop, and opens it
//! at start.
//!
//! ```text
//!   snapshot                 the last one that was finished
//!   snapshot.new             the next one, while it is written
//!   snapshot.damaged-NNN     one that could not be read, set aside at that unix time
//! ```
//!
//! `SnapshotFile::open` is called by `daemon` at start; `SnapshotWriter::run` runs on the
//! thread `snapshot`; `SnapshotWriter::save` runs there and, after all other threads have ended,
//! once more. There is always either the old or the new file; errors are logged, counted and shown
//! in the status, and the daemon continues: if it is killed then, it loses the data since the last
//! snapshot. Reads of live data never wait for the disk.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Seek as _};
use std::path::Path;
use std::sync::{Arc, Weak, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use tracing::{error, info};

use super::counters::SocketName;
use super::folder::{self, KeptFolder, LockedFolder, STATE};
use super::snapshot::{self, Contents, Cut, HistoryFrom, Subject, WriteError, Written};
use super::{State, StateError, files};
use crate::clock::Clock;
use crate::merger::{SharedLive, Turn, reading};
use crate::profile::Profile;
use crate::report::NotRestored;
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

const FILE: &str = "snapshot";
const DAMAGED: &str = "snapshot.damaged-";

/// Most attempts at one snapshot while reports are being dropped.
const ATTEMPTS: u32 = 5;

/// Longest single sleep, so that a stop is noticed soon.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Milliseconds between two checks whether the folder can be written, and while it cannot.
const LOOK_MS: u64 = 60_000;
const LOOK_AGAIN_MS: u64 = 5_000;

/// Shortest period with which snapshots are made at the turn of a minute.
const MINUTE: Duration = Duration::from_secs(60);

/// Longest wait for the turn of a minute, which the wall clock may delay.
const TURN_MAX: Duration = Duration::from_secs(65);

/// Longest wait for a second to end, which a wall clock that stands still delays.
const SECOND_MAX: Duration = Duration::from_secs(3);

/// Longest wait for history, and interval of checks.
const HISTORY_MAX: Duration = Duration::from_secs(30);
const HISTORY_NAP: Duration = Duration::from_millis(5);

/// Bytes written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The snapshot of the previous process.
#[derive(Debug)]
pub struct SnapshotFile {
    file: File,
    /// Data about it.
    pub contents: Contents,
}

impl SnapshotFile {
    /// The snapshot of a folder, read through once. A damaged one is set aside and logged.
    pub(crate) fn open(dir: &Path, unix_secs: u32) -> Option<Self> {
        let opened = match files::open(&dir.join(FILE)) {
            Ok(files::Opened::Nothing) => return None,
            Ok(files::Opened::File(file)) => Ok(file),
            Ok(files::Opened::Other(reason)) => Err(reason),
            Err(error) => Err(error.to_string()),
        };
        let inspected = opened.and_then(|file| {
            let reader = BufReader::with_capacity(BUFFER_BYTES, &file);
            let contents = snapshot::inspect(reader).map_err(|error| error.to_string())?;
            Ok(Self { file, contents })
        });
        inspected.inspect_err(|reason| set_aside(dir, reason, unix_secs)).ok()
    }

    /// Opens the file for reading from the start.
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn reader(&self) -> io::Result<impl io::Read> {
        let mut file = &self.file;
        file.rewind()?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    }
}

/// Renames an unreadable snapshot, and logs it.
pub(crate) fn set_aside(dir: &Path, reason: &str, unix_secs: u32) {
    let file = dir.join(FILE);
    match files::set_aside(&file, "damaged", unix_secs) {
        Ok(aside) => error!(
            file = %file.display(), reason, set_aside = %aside.display(),
            "Could not read the snapshot; set the file aside and started empty."
        ),
        Err(error) => error!(
            file = %file.display(), reason, %error,
            "Could neither read the snapshot nor set it aside; started empty. The next snapshot will replace it."
        ),
    }
}

/// The state of snapshots, as the status shows it. Times are seconds since 1970.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SnapshotStatus {
    /// Seconds between two snapshots; 0: only at the stop.
    pub period_seconds: f64,
    /// Number of snapshots completed.
    pub written: u64,
    /// Number of failures.
    pub failed: u64,
    /// The error of the last attempt, if it failed.
    pub error: Option<String>,
    /// The last snapshot that this process completed, if any.
    pub last: Option<LastSnapshot>,
    /// Data restored at start.
    pub restored: Option<RestoredSnapshot>,
    /// Names of damaged ones in the folder, oldest first; somebody may want to inspect or remove
    /// them.
    pub damaged: Vec<String>,
    /// Free bytes there, at the last check.
    pub disk_free_bytes: u64,
    /// Bytes that the next snapshot needs in addition to the last, if it is as large.
    pub disk_needed_bytes: u64,
}

/// Disk space for the next snapshot, going by the last one.
pub(super) fn bytes_needed(dir: &Path) -> u64 {
    fs::metadata(dir.join(FILE)).map_or(0, |found| found.len())
}

/// The last snapshot.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LastSnapshot {
    /// When it was completed, wall clock.
    pub time: f64,
    /// Its size.
    pub bytes: u64,
    /// Raw requests in it.
    pub requests: u64,
    /// How long it took, including the disk.
    pub seconds: f64,
    /// The longest that it may have kept the merger waiting.
    pub held_seconds: f64,
}

/// Data restored at start.
#[derive(Debug, Clone, Serialize)]
pub struct RestoredSnapshot {
    /// When the snapshot was completed, wall clock.
    pub time: f64,
    /// Raw requests restored.
    pub requests: u64,
    /// How long it took.
    pub seconds: f64,
    /// Reports that were not restored unchanged.
    pub left_out: Vec<NotRestored>,
    /// Where history goes on, if that is known.
    #[serde(skip)]
    pub history_from: Option<HistoryFrom>,
}

/// The place, interval and state of snapshots.
#[derive(Debug)]
pub struct Snapshots {
    status: Mutex<SnapshotStatus>,
    pub(crate) folder: KeptFolder,
    /// The folder of [`State`], as long as that is open.
    locked: Weak<Mutex<Option<LockedFolder>>>,
}

impl Snapshots {
    /// For snapshots in the folder of `state`, none written yet.
    pub(crate) fn new(state: &State, period: Duration) -> Arc<Self> {
        let (folder, locked) = (state.folder.clone(), Arc::downgrade(&state.locked));
        let snapshots = Self { status: Mutex::default(), folder, locked };
        snapshots.set_period(period);
        Arc::new(snapshots)
    }

    /// The current state.
    pub(crate) fn status(&self) -> SnapshotStatus {
        let names = fs::read_dir(&self.folder.dir).into_iter().flatten();
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut damaged: Vec<_> = names.filter(|name| name.starts_with(DAMAGED)).collect();
        damaged.sort_unstable();
        SnapshotStatus { damaged, ..self.status.lock().clone() }
    }

    /// Makes the folder, and locks it, if the disk did not take it before.
    fn make_folder(&self) -> Result<(), StateError> {
        let Some(locked) = self.locked.upgrade() else { return Ok(()) };
        let mut locked = locked.lock();
        if locked.is_none() {
            *locked = Some(self.folder.lock()?);
        }
        Ok(())
    }

    /// Checks whether a snapshot can be written, and logs it if not; returns the result.
    pub(crate) fn check(&self) -> bool {
        let needed = self.needed();
        let made = self.make_folder();
        let found = made.and_then(|()| folder::try_writing(STATE, &self.folder.dir, needed));
        let free = files::free(&self.folder.dir).unwrap_or_default();
        let mut status = self.status.lock();
        (status.disk_free_bytes, status.disk_needed_bytes) = (free, needed);
        let error = found.err().map(|error| error.advised(&self.folder.dir));
        let before = std::mem::replace(&mut status.error, error.clone());
        drop(status);
        match &error {
            None => log_recovery(before),
            Some(error) if before.is_none() => {
                error!(
                    error,
                    "No snapshot can be written: what comes now does not survive a restart."
                );
            }
            Some(_) => {}
        }
        error.is_none()
    }

    /// Bytes that the next one needs: the size of the last one, and after a failure at least what
    /// that one needed. The size with full pools is estimated by `daemon::disk_plan`.
    fn needed(&self) -> u64 {
        let status = self.status.lock();
        let failed = status.error.as_ref().map_or(0, |_| status.disk_needed_bytes);
        bytes_needed(&self.folder.dir).max(failed)
    }

    /// Why none can be written, as of the last attempt.
    pub(crate) fn why_failing(&self) -> Option<String> {
        self.status.lock().error.clone()
    }

    /// Records the data restored at start.
    pub(crate) fn set_restored(&self, restored: RestoredSnapshot) {
        self.status.lock().restored = Some(restored);
    }

    /// Sets the interval; 0: only at the stop.
    pub(crate) fn set_period(&self, period: Duration) {
        self.status.lock().period_seconds = period.as_secs_f64();
    }
}

/// Logs that an error of snapshots is over, if there was one.
fn log_recovery(before: Option<String>) {
    if before.is_some() {
        info!("Snapshots can be written again.");
    }
}

/// Writes snapshots.
#[derive(Debug)]
pub struct SnapshotWriter {
    /// Their place and state.
    pub snapshots: Arc<Snapshots>,
    /// Rows and reports.
    pub live: SharedLive,
    /// Counters.
    pub counters: Counters,
    /// The sockets of these counters.
    pub sockets: Arc<[SocketName]>,
    /// Samples, if there are any.
    pub profile: Option<Arc<Profile>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Whether files are followed: their positions are taken from history, so requests that only a
    /// snapshot has would be read twice.
    pub follows_files: bool,
    /// History, if there is one.
    pub history: Option<Arc<dyn CutHistory>>,
}

/// History, whose files tell what a snapshot has and what came later.
pub trait CutHistory: std::fmt::Debug + Send + Sync {
    /// The number of the next file, if earlier ones have everything that was counted.
    fn next_file(&self) -> Option<u64>;

    /// A number for the folder with these files.
    fn store(&self) -> u64;

    /// Writes what was counted up to the end of this second of the stream to files of its own. The
    /// caller may hold the lock of live data.
    fn seal(&self, second: u64);

    /// How that ended; `None` while it is under way.
    fn sealed(&self) -> Option<Sealed>;

    /// Whether all requests before this id are on disk, or cannot be written. Until then they are
    /// to be written as soon as possible.
    fn has_flushed(&self, to: u64) -> bool;

    /// Does not mix what is on either side of this cut, of which a snapshot is being written, and
    /// of the one before it.
    fn keep_apart(&self, cut: PiecesCut);

    /// The snapshot of the last cut is written: the ones before it do not matter any more.
    fn has_snapshot(&self);
}

/// The end of what [`CutHistory::seal`] began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealed {
    /// It is in files before this number, and nothing else is.
    Before(u64),
    /// Other rows were being written.
    Busy,
    /// History cannot be written.
    Never,
}

/// The place in history where a snapshot ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PiecesCut {
    /// The number of the first file behind it.
    pub file: u64,
    /// Its unix second, by the clock of then.
    pub secs: u64,
    /// The unix second from which on it does not matter.
    pub until: u64,
}

/// When a snapshot is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    /// The next turn of a minute, so that history goes on where it ends.
    Minute,
    /// Now.
    Now,
    /// Now, after everything has stopped.
    Stop,
}

impl SnapshotWriter {
    /// Writes a snapshot every period until a stop is requested. Runs on its own thread. Calls
    /// `mark` before that, and once the folder can be written again: it may not have been there.
    pub(crate) fn run(&self, shutdown: &Shutdown, mark: impl Fn()) {
        // Until the first one history goes on in the middle of a minute, which only its latest
        // files tell apart: not for long.
        let is_restored = self.snapshots.status.lock().restored.is_some();
        let mut is_first = is_restored && self.history.is_some();
        let (mut last, mut looked_ms) = (Instant::now(), self.clock.mono_ms());
        while !shutdown.requested() {
            std::thread::sleep(NAP_MAX);
            let period = Duration::from_secs_f64(self.snapshots.status.lock().period_seconds);
            let is_failing = self.snapshots.why_failing().is_some();
            // The turn of a minute is at most one away; until then nobody looks.
            let by_turn = period >= MINUTE && !is_failing;
            let mut is_due = match by_turn {
                true => is_first || last.elapsed() + MINUTE > period,
                false => last.elapsed() >= period,
            };
            let look_ms = if is_failing { LOOK_AGAIN_MS } else { LOOK_MS };
            let now_ms = self.clock.mono_ms();
            let mut is_fine = !is_failing;
            if now_ms >= looked_ms + look_ms || (is_due && by_turn) {
                looked_ms = now_ms;
                is_fine = self.snapshots.check();
                is_due &= is_fine || !by_turn;
            }
            // After a failure, the next attempt need not wait for its time once there is room
            // again.
            let is_mended = is_failing && is_fine;
            let at = if period >= MINUTE && is_fine { CutAt::Minute } else { CutAt::Now };
            if is_due || is_mended {
                mark();
            }
            if !period.is_zero() && (is_due || is_mended) && !shutdown.requested() {
                is_first = false;
                // A failure is logged and counted there; the next period tries again.
                let _tried = self.save(at, shutdown);
                (last, looked_ms) = (Instant::now(), self.clock.mono_ms());
            }
        }
    }

    /// Writes a snapshot that is cut then; gives up, which is no failure, once `stop` is requested.
    ///
    /// # Errors
    /// Fails if it cannot be written; that is logged and counted already, and the previous one
    /// still exists.
    pub(crate) fn save(&self, at: CutAt, stop: &Shutdown) -> Result<(), WriteError> {
        let mut start = Instant::now();
        let result = self.write(at, stop, &mut start);
        if result.is_err() && stop.requested() {
            return Ok(());
        }
        let took = start.elapsed();
        let dir = &self.snapshots.folder.dir;
        let (free, mut needed) = (files::free(dir).unwrap_or_default(), bytes_needed(dir));
        let advice = match &result {
            Err(WriteError::Io(error)) => {
                if folder::is_full(error.kind()) {
                    needed = needed.max(free + 1);
                }
                folder::advice_on(error, dir, dir)
            }
            _ => String::new(),
        };
        let mut status = self.snapshots.status.lock();
        (status.disk_free_bytes, status.disk_needed_bytes) = (free, needed);
        match result {
            Ok((written, bytes)) => {
                status.last = Some(LastSnapshot {
                    time: self.clock.unix_ms() as f64 / 1e3,
                    bytes,
                    requests: written.requests,
                    seconds: took.as_secs_f64(),
                    held_seconds: written.held.as_secs_f64(),
                });
                status.written += 1;
                let before = status.error.take();
                drop(status);
                log_recovery(before);
                info!(
                    bytes,
                    requests = written.requests,
                    secs = took.as_secs_f64(),
                    held_us = written.held.as_micros() as u64,
                    cut_us = written.cut.as_micros() as u64,
                    "Wrote a snapshot."
                );
                Ok(())
            }
            Err(error) => {
                status.failed += 1;
                let (key, file) = (STATE.key, dir.join(FILE));
                let problem = format_args!("{key}: cannot write {}: {error}", file.display());
                let why = folder::advised(problem, &advice);
                status.error = Some(why.clone());
                drop(status);
                error!(error = why, "Cannot write a snapshot; any older one stays.");
                Err(error)
            }
        }
    }

    /// Also returns the size of the file. It begins at `start`.
    fn write(
        &self,
        at: CutAt,
        stop: &Shutdown,
        start: &mut Instant,
    ) -> Result<(Written, u64), WriteError> {
        self.snapshots.make_folder().map_err(io::Error::from)?;
        let subject = Subject {
            live: &self.live,
            profile: self.profile.as_deref(),
            clock: &*self.clock,
            stop,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let cut = self.cut(at, stop)?;
            let kept_apart = self.history.as_deref().zip(cut.history_from);
            if let Some((history, HistoryFrom::Cut { secs, file, .. })) = kept_apart {
                let reports = reading(&self.live);
                let windows = reports.reports.iter().map(|it| it.definition.window.as_secs());
                let until = self.clock.unix_ms() / 1000 + windows.max().unwrap_or_default();
                drop(reports);
                history.keep_apart(PiecesCut { file, secs, until });
            }
            *start = Instant::now();
            let written = files::replace(&self.snapshots.folder.dir.join(FILE), |file| {
                let buffer = BufWriter::with_capacity(BUFFER_BYTES, &mut *file);
                let (_, written) = snapshot::write(subject, cut, buffer)?;
                if let Some(history) = self.history.as_deref().filter(|_| self.follows_files) {
                    await_history(stop, || history.has_flushed(written.next_id).then_some(()));
                }
                Ok((written, file.to.metadata()?.len()))
            });
            match written {
                Err(WriteError::Overtaken) if attempts < ATTEMPTS => {}
                written => {
                    if written.is_ok() {
                        self.history.iter().for_each(|it| it.has_snapshot());
                    }
                    return written;
                }
            }
        }
    }

    /// Takes the cut: at the turn of a minute, or of a second, with what is counted later in later
    /// files of history, if it can be written.
    fn cut(&self, at: CutAt, stop: &Shutdown) -> Result<Cut, WriteError> {
        let history = self.history.as_deref();
        let mut turn = match at {
            CutAt::Stop => {
                let secs = self.clock.unix_ms() / 1000;
                let from = history.and_then(|it| {
                    let (file, store) = (it.next_file()?, it.store());
                    Some(HistoryFrom::Cut { secs, file, store })
                });
                return Ok(self.cut_now(from));
            }
            CutAt::Now if history.is_none() => return Ok(self.cut_now(None)),
            CutAt::Now => Turn::Second,
            CutAt::Minute => Turn::Minute,
        };
        let begun = Instant::now();
        while begun.elapsed() < TURN_MAX * 2 {
            match (self.cut_at(turn, stop)?, history) {
                (Some((mut cut, secs)), Some(history)) => {
                    match await_history(stop, || history.sealed()) {
                        Some(Sealed::Before(file)) => {
                            let store = history.store();
                            cut.history_from = Some(HistoryFrom::Cut { secs, file, store });
                            return Ok(cut);
                        }
                        // As long as history cannot be written, times alone have to do.
                        Some(Sealed::Never) | None => return Ok(cut),
                        Some(Sealed::Busy) => turn = Turn::Second,
                    }
                }
                (Some((cut, _)), None) => return Ok(cut),
                (None, Some(_)) if turn == Turn::Minute => turn = Turn::Second,
                (None, _) => break,
            }
        }
        Ok(self.cut_now(None))
    }

    /// Takes the cut; by default history goes on in the next second.
    fn cut_now(&self, from: Option<HistoryFrom>) -> Cut {
        let live = reading(&self.live);
        let next = HistoryFrom::Time(self.clock.unix_ms().div_ceil(1000));
        let from = from.or_else(|| self.history.as_ref().map(|_| next));
        Cut::of(&live, (&self.counters, &self.sockets), from)
    }

    /// Waits for the turn, and seals history there. Also returns its unix second; `None` if it does
    /// not come.
    fn cut_at(&self, turn: Turn, stop: &Shutdown) -> Result<Option<(Cut, u64)>, WriteError> {
        let (sender, cuts) = mpsc::sync_channel(1);
        let (counters, sockets) = (self.counters.clone(), Arc::clone(&self.sockets));
        let history = self.history.clone();
        reading(&self.live).on_turn(turn, move |live, secs| {
            history.iter().for_each(|it| it.seal(live.deltas.ended()));
            let from = history.map(|_| HistoryFrom::Time(secs));
            // Too late, if nobody waits any more.
            let _gone = sender.send((Cut::of(live, (&counters, &sockets), from), secs));
        });
        let begun = Instant::now();
        let longest = if turn == Turn::Minute { TURN_MAX } else { SECOND_MAX };
        while begun.elapsed() < longest {
            if stop.requested() {
                return Err(WriteError::Stopped);
            }
            if let Ok(cut) = cuts.recv_timeout(NAP_MAX) {
                return Ok(Some(cut));
            }
        }
        Ok(None)
    }
}

/// Waits until history has written what was asked for; gives up on a stop, or after some time.
fn await_history<T>(stop: &Shutdown, done: impl Fn() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let ended = done();
        if ended.is_some() || stop.requested() || begun.elapsed() >= HISTORY_MAX {
            return ended;
        }
        std::thread::sleep(HISTORY_NAP);
    }
}
