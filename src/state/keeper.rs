//! Keeps the snapshot in `state.dir`: found at start, written every `state.snapshot_period` and at the stop.
//!
//! ```text
//!   snapshot                 the last one that was finished
//!   snapshot.new             the next one, while it is written
//!   snapshot.damaged-NNN     one that could not be read, set aside at that unix time
//! ```
//!
//! [`find`] is called by `daemon` at start, [`Keeper::run`] on the thread `snapshot`, [`Keeper::save`] there and, after all
//! other threads have ended, once more. A file is written whole, synced, renamed and the folder synced, so there is always
//! the old one or the new one; what goes wrong is logged, counted and shown in the status, and the daemon goes on: it
//! loses what came since the last snapshot, should it be killed then. Reads of the live data wait for no disk.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::{error, info, warn};

use super::counters::SocketName;
use super::files;
use super::snapshot::{self, Contents, Subject, WriteError, Written};
use crate::clock::Clock;
use crate::merger::SharedLive;
use crate::shutdown::Shutdown;
use crate::telemetry::Counters;

const FILE: &str = "snapshot";
const NEW_FILE: &str = "snapshot.new";
const DAMAGED: &str = "snapshot.damaged-";

/// How often one snapshot is begun anew because reports were dropped meanwhile.
const ATTEMPTS: u32 = 5;

/// Longest sleep in one piece, so that a stop is noticed soon.
const NAP_MAX: Duration = Duration::from_millis(50);

/// Bytes that are handed to the system at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A snapshot that was there at start.
#[derive(Debug)]
pub struct Found {
    file: File,
    /// What it says of itself.
    pub contents: Contents,
}

impl Found {
    /// The file from its beginning.
    ///
    /// # Errors
    /// Those of the system.
    pub fn reader(&self) -> io::Result<impl io::Read> {
        use std::io::Seek as _;
        let mut file = &self.file;
        file.rewind()?;
        Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    }
}

/// The snapshot of a folder, read through once. One that is damaged is set aside and named in the log.
#[must_use]
pub fn find(dir: &Path, unix_secs: u32) -> Option<Found> {
    let path = dir.join(FILE);
    let file = match files::open(&path) {
        Ok(files::Found::Nothing) => return None,
        Ok(files::Found::File(file)) => file,
        Ok(files::Found::Other(reason)) => {
            set_aside(dir, &reason, unix_secs);
            return None;
        }
        Err(error) => {
            set_aside(dir, &error.to_string(), unix_secs);
            return None;
        }
    };
    match snapshot::inspect(BufReader::with_capacity(BUFFER_BYTES, &file)) {
        Ok(contents) => Some(Found { file, contents }),
        Err(error) => {
            set_aside(dir, &error.to_string(), unix_secs);
            None
        }
    }
}

/// Moves a snapshot that cannot be read out of the way, and says so.
pub fn set_aside(dir: &Path, reason: &str, unix_secs: u32) {
    let file = dir.join(FILE);
    let aside = (unix_secs..u32::MAX)
        .map(|secs| dir.join(format!("{DAMAGED}{secs}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| dir.join(DAMAGED));
    match fs::rename(&file, &aside) {
        Ok(()) => error!(
            file = %file.display(), reason, set_aside = %aside.display(),
            "Cannot read the snapshot: set the file aside and start empty."
        ),
        Err(error) => error!(
            file = %file.display(), reason, %error,
            "Cannot read the snapshot, nor set the file aside: start empty. The next snapshot will take its place."
        ),
    }
}

/// What became of snapshots, for the status.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The last one that was finished, if this process finished one.
    pub last: Option<LastSnapshot>,
    /// How many were finished.
    pub written: u64,
    /// How many could not be.
    pub failed: u64,
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
    /// What came back at start.
    pub restored: Option<RestoredFigures>,
    /// The longest that any held the lock.
    pub held_max: Duration,
}

/// The last snapshot.
#[derive(Debug, Clone, Copy)]
pub struct LastSnapshot {
    /// When it was finished, wall clock, milliseconds.
    pub unix_ms: u64,
    /// Its size.
    pub bytes: u64,
    /// Raw requests in it.
    pub requests: u64,
    /// How long it took, the disk included.
    pub took: Duration,
    /// The longest that the merger may have waited for it.
    pub held: Duration,
}

/// What came back at start.
#[derive(Debug, Clone)]
pub struct RestoredFigures {
    /// When the snapshot was finished, wall clock, milliseconds.
    pub unix_ms: u64,
    /// Raw requests that came back.
    pub requests: u64,
    /// Reports that did not come back as they were, with the reasons.
    pub left_out: Vec<(String, &'static str)>,
    /// How long it took.
    pub took: Duration,
}

/// What [`Figures`] are written to and read from.
#[derive(Debug, Default)]
pub struct Snapshots {
    figures: Mutex<Figures>,
    dir: PathBuf,
    /// Milliseconds between two of them; 0: only at the stop.
    period_ms: AtomicU64,
}

impl Snapshots {
    /// Nothing written yet to `dir`.
    #[must_use]
    pub fn new(dir: &Path, period: Duration) -> Arc<Self> {
        let snapshots = Self {
            dir: dir.to_owned(),
            ..Self::default()
        };
        snapshots.set_period(period);
        Arc::new(snapshots)
    }

    /// The figures so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures.lock().clone()
    }

    /// What came back at start.
    pub fn set_restored(&self, restored: RestoredFigures) {
        self.figures.lock().restored = Some(restored);
    }

    /// Sets how often one is written; 0: only at the stop.
    pub fn set_period(&self, period: Duration) {
        let ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        self.period_ms.store(ms, Ordering::Relaxed);
    }

    /// How often one is written.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms.load(Ordering::Relaxed))
    }

    /// Names of damaged ones that lie in the folder, oldest first; somebody may want to look at them, or remove them.
    #[must_use]
    pub fn damaged(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(DAMAGED)).collect();
        names.sort_unstable();
        names
    }
}

/// Writes snapshots.
#[derive(Debug)]
pub struct Keeper {
    /// Where to, and what became of it.
    pub snapshots: Arc<Snapshots>,
    /// Rows and reports.
    pub live: SharedLive,
    /// Counters.
    pub counters: Counters,
    /// The sockets that they are of.
    pub sockets: Vec<SocketName>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

impl Keeper {
    /// Writes a snapshot every period until a stop is asked for. Runs on its own thread.
    pub fn run(&self, shutdown: &Shutdown) {
        let mut last = Instant::now();
        while !shutdown.requested() {
            std::thread::sleep(NAP_MAX);
            let period = self.snapshots.period();
            if !period.is_zero() && last.elapsed() >= period && !shutdown.requested() {
                // A failure is logged and counted there; the next period tries again.
                let _tried = self.save(shutdown);
                last = Instant::now();
            }
        }
    }

    /// Writes a snapshot now; gives up, which is no failure, once `stop` is requested.
    ///
    /// # Errors
    /// When it cannot be written; that is logged and counted already, and the one before it is still there.
    pub fn save(&self, stop: &Shutdown) -> io::Result<()> {
        let start = Instant::now();
        let result = self.write(stop);
        if result.is_err() && stop.requested() {
            return Ok(());
        }
        let took = start.elapsed();
        let mut figures = self.snapshots.figures.lock();
        match result {
            Ok(written) => {
                figures.last = Some(LastSnapshot {
                    unix_ms: self.clock.unix_ms(),
                    bytes: written.bytes,
                    requests: written.requests,
                    took,
                    held: written.held,
                });
                figures.written += 1;
                figures.error = None;
                figures.held_max = figures.held_max.max(written.held);
                drop(figures);
                info!(
                    bytes = written.bytes,
                    requests = written.requests,
                    secs = took.as_secs_f64(),
                    held_us = written.held.as_micros() as u64,
                    cut_us = written.cut.as_micros() as u64,
                    "Wrote a snapshot."
                );
                Ok(())
            }
            Err(error) => {
                figures.failed += 1;
                figures.error = Some(error.to_string());
                drop(figures);
                error!(
                    %error, dir = %self.snapshots.dir.display(),
                    "Cannot write a snapshot: the one before it stays."
                );
                Err(error)
            }
        }
    }

    fn write(&self, stop: &Shutdown) -> io::Result<Written> {
        let new = self.snapshots.dir.join(NEW_FILE);
        let written = self.write_new(&new, stop).and_then(|written| {
            fs::rename(&new, self.snapshots.dir.join(FILE))?;
            Ok(written)
        });
        if written.is_err() {
            // It may not even be there; the next one makes it anew anyway.
            let _leftover = fs::remove_file(&new);
        }
        let written = written?;
        // It is there. What may still fail is its outliving a power cut.
        if let Err(error) = File::open(&self.snapshots.dir).and_then(|folder| folder.sync_all()) {
            warn!(%error, dir = %self.snapshots.dir.display(), "Cannot sync state.dir: a power cut now may undo the last snapshot.");
        }
        Ok(written)
    }

    fn write_new(&self, path: &Path, stop: &Shutdown) -> io::Result<Written> {
        let subject = Subject {
            live: &self.live,
            counters: &self.counters,
            sockets: &self.sockets,
            clock: &*self.clock,
            stop,
        };
        for _ in 0..ATTEMPTS {
            let file = BufWriter::with_capacity(BUFFER_BYTES, files::create(path)?);
            match snapshot::write(subject, file) {
                Ok((file, written)) => {
                    file.into_inner()
                        .map_err(io::IntoInnerError::into_error)?
                        .sync_all()?;
                    return Ok(written);
                }
                Err(WriteError::Io(error)) => return Err(error),
                Err(error @ WriteError::Stopped) => return Err(io::Error::other(error)),
                Err(WriteError::Overtaken) => {}
            }
        }
        Err(io::Error::other(format!(
            "reports were dropped or emptied while it was written, {ATTEMPTS} times in a row"
        )))
    }
}
