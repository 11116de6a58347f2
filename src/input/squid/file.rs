//! Follows a log of Squid in a growing file.
//!
//! One thread reads to the end and looks again ten times a second. A file that was moved away is
//! read until the one that replaced it has had something for two seconds, then that; one that
//! became shorter is read from its start. The position survives a restart (with `history.dir` or
//! `state.dir`); the next process also finds a renamed file in its folder, or in that of the file
//! to which a symbolic link leads. A copy has another inode, and after a restore or a mount the
//! same file may have another device: its start then says that it is the same log, and it is read
//! on. With `history.dir` the position is written in the same commit as the data, so that each line
//! counts once; until history is open nothing is read.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::{CHUNK_BYTES, Intake, Lines};
use crate::shutdown::Shutdown;
use crate::telemetry::log::Limit;

/// Time between two looks at the end of the file.
const NAP: Duration = Duration::from_millis(100);

/// How long a file that was moved away is still read once its replacement has something: Squid's
/// workers reopen their log one after the other.
const SETTLED: Duration = Duration::from_secs(2);

/// Bytes at the start of a file that identify it.
const HEAD_BYTES: usize = 256;

/// At most one log line per this time about a missing file.
const ERROR_LOG_MS: u64 = 60_000;

/// The position in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    device: u64,
    inode: u64,
    /// Start of the first unread line.
    offset: u64,
    /// Checksum of its start, as far as it was read: inode numbers are reused.
    head: u32,
}

/// An open log.
struct Log {
    file: File,
    is: (u64, u64),
    /// Bytes read of it.
    read_bytes: u64,
    lines: Lines,
    /// The one, with something in it, that was in its place after it, and since when.
    next: Option<(Instant, Box<Self>)>,
}

impl Position {
    /// Its numbers, for a snapshot.
    pub(crate) fn numbers(self) -> [u64; 4] {
        [self.device, self.inode, self.offset, self.head.into()]
    }

    /// Whether both are in the same file.
    pub(super) fn is_in_file_of(self, other: Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Whether a line of the file was read: then its start is known.
    pub fn is_past_line(self) -> bool {
        self.offset > 0
    }

    /// The position with these numbers.
    pub(crate) fn of([device, inode, offset, head]: [u64; 4]) -> Option<Self> {
        Some(Self { device, inode, offset, head: u32::try_from(head).ok()? })
    }
}

impl Log {
    fn open(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let file = File::open(path)?;
        Ok(Self {
            is: identity(&file.metadata()?),
            file,
            read_bytes: 0,
            lines: Lines::default(),
            next: None,
        })
    }

    fn go_to(&mut self, offset: u64) -> io::Result<()> {
        self.read_bytes = self.file.seek(SeekFrom::Start(offset))?;
        self.lines = Lines::default();
        Ok(())
    }

    fn head(&self, offset: u64) -> io::Result<u32> {
        let mut head = vec![0; usize::try_from(offset).unwrap_or(HEAD_BYTES).min(HEAD_BYTES)];
        self.file.read_exact_at(&mut head, 0)?;
        Ok(crc32fast::hash(&head))
    }

    /// Start of the first unread line.
    fn offset(&self) -> u64 {
        self.read_bytes.saturating_sub(self.lines.held_bytes() as u64)
    }

    /// Takes the next bytes of it.
    fn feed(&mut self, bytes: &[u8], intake: &mut Intake) {
        self.read_bytes = self.read_bytes.saturating_add(bytes.len() as u64);
        intake.feed(&mut self.lines, bytes);
    }

    fn position(&self) -> io::Result<Position> {
        let offset = self.offset();
        Ok(Position { device: self.is.0, inode: self.is.1, offset, head: self.head(offset)? })
    }

    fn bytes(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    /// Whether it has what was read up to `known`, as far as its length and its start tell.
    fn has(&self, known: Position) -> bool {
        self.bytes() >= known.offset && self.head(known.offset).is_ok_and(|head| head == known.head)
    }

    /// Whether it is the file that was read up to `known`.
    fn is_of(&self, known: Position) -> bool {
        self.is == (known.device, known.inode) && self.has(known)
    }

    /// Whether it is a copy of that: its start, which is a line or at least the time of one, is the
    /// same, and a line ends where reading did.
    fn is_copy_of(&self, known: Position) -> bool {
        let mut end = [0];
        let read_end = |at| self.file.read_exact_at(&mut end, at).is_ok();
        known.offset.checked_sub(1).is_some_and(read_end)
            && matches!(end, [b'\n' | 0])
            && self.has(known)
    }

    /// Finds the log that was read up to `known`, in its place or beside it: the file, else a copy.
    fn find(path: &Path, known: Position) -> Option<Self> {
        let paths = paths_of(path);
        let is_it = |path: &&PathBuf| {
            let is = fs::metadata(path).as_ref().map(identity).ok();
            is == Some((known.device, known.inode))
        };
        let mut files = paths.iter().filter(is_it).filter_map(|path| Self::open(path).ok());
        let found = files.find(|log| log.is_of(known)).or_else(|| {
            let logs = paths.iter().filter_map(|path| Some((path, Self::open(path).ok()?)));
            let copies = logs.filter(|(_, log)| log.is_copy_of(known));
            copies.max_by_key(|(at, log)| (*at == path, log.bytes())).map(|(_, log)| log)
        });
        let mut log = found?;
        log.go_to(known.offset).ok()?;
        Some(log)
    }

    /// Decides what to do at its end.
    fn look(&mut self, path: &Path) -> io::Result<Next> {
        if self.file.metadata()?.len() < self.read_bytes {
            self.go_to(0)?;
            return Ok(Next::Anew);
        }
        match fs::metadata(path) {
            Ok(in_place) if identity(&in_place) == self.is => self.next = None,
            // The writer of an empty one may not know of it yet.
            Ok(in_place) if in_place.len() > 0 && self.next.is_none() => {
                let next = Self::open(path)?;
                self.next = (next.is != self.is).then(|| (Instant::now(), Box::new(next)));
            }
            // That one may be moved away too.
            _ => {}
        }
        if self.next.as_ref().is_none_or(|(since, _)| since.elapsed() <= SETTLED) {
            return Ok(Next::Wait);
        }
        let known = self.position()?;
        let Some((_, mut copy)) = self.next.take_if(|(_, next)| next.is_copy_of(known)) else {
            return Ok(Next::Other);
        };
        copy.go_to(known.offset)?;
        *self = *copy;
        Ok(Next::Copy)
    }
}

/// The next step at the end of a file.
#[derive(PartialEq, Eq)]
enum Next {
    /// Wait.
    Wait,
    /// Read again from the start.
    Anew,
    /// Continue with the file that replaced it.
    Other,
    /// Continue: a copy has replaced it.
    Copy,
}

/// The log's place, and those of the files beside it, also where a symbolic link leads: a file is
/// moved within its own folder.
fn paths_of(path: &Path) -> Vec<PathBuf> {
    let target = fs::canonicalize(path).ok();
    let folders = [Some(path), target.as_deref()].into_iter().flatten().filter_map(Path::parent);
    let beside = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    std::iter::once(path.to_owned()).chain(beside.map(|it| it.path())).collect()
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Checks that a log can be opened.
///
/// # Errors
/// It is not a file, or any I/O error.
pub fn check(path: &Path) -> io::Result<()> {
    Log::open(path).map(drop)
}

/// Follows the log at `path` until `shutdown` is requested: from the source's position, else from
/// its start, or its end if it exists now and `from_end` is set.
pub fn run(path: &Path, from_end: bool, mut intake: Intake, shutdown: &Shutdown) {
    while !intake.decoder.source.has_begun() && !shutdown.requested() {
        thread::sleep(NAP);
    }
    intake.decoder.go_on();
    let mut known = intake.decoder.source.progress.lock().file;
    let mut log = find(path, known, &mut intake);
    if from_end && known.is_none() {
        log = Log::open(path).ok().and_then(|mut log| {
            let end = log.file.metadata().ok()?.len();
            log.go_to(end).ok()?;
            intake.decoder.begin_file(log.position().ok(), |_| false);
            Some(log)
        });
    }
    if let Some(log) = &log {
        known = None;
        intake.publish(log.position().ok(), shutdown);
        info!(path = %path.display(), offset = log.read_bytes, "Following a log of Squid's.");
    }
    let errors = Limit::new(ERROR_LOG_MS);
    let mut chunk = vec![0; CHUNK_BYTES];
    while !shutdown.requested() {
        let went_on = match &mut log {
            Some(open) => match read(open, path, &mut chunk, &mut intake, shutdown) {
                Ok(Next::Wait) => Ok(false),
                Ok(Next::Anew | Next::Copy) => Ok(true),
                Ok(Next::Other) => {
                    log = open.next.take().map(|(_, next)| *next);
                    log.iter().for_each(|next| {
                        begin(next, &mut intake);
                        follow(next, path, &mut intake, shutdown);
                    });
                    Ok(true)
                }
                Err(error) => Err(error),
            },
            None => open(path, known, &mut intake).map(|opened| {
                known = None;
                follow(&opened, path, &mut intake, shutdown);
                log = Some(opened);
                true
            }),
        };
        let is_busy = went_on.unwrap_or_else(|error| {
            if let Some(repeated) = errors.pass(intake.lane.clock.mono_ms()) {
                warn!(%error, repeated, path = %path.display(), "Cannot read a log of Squid's; it is tried again.");
            }
            false
        });
        if !is_busy {
            thread::sleep(NAP);
        }
    }
}

/// Finds the log that was read up to `known`. One of which no line was read may have others by now:
/// it is begun.
fn find(path: &Path, known: Option<Position>, intake: &mut Intake) -> Option<Log> {
    let log = Log::find(path, known?)?;
    if log.offset() == 0 {
        begin(&log, intake);
    }
    Some(log)
}

/// Opens the log in its place, to be read from its start, or continues with the one read up to
/// `known` if that is found.
fn open(path: &Path, known: Option<Position>, intake: &mut Intake) -> io::Result<Log> {
    let mut log = Log::open(path)?;
    match find(path, known, intake) {
        Some(found) => log = found,
        None => {
            if let Some(Position { offset, .. }) = known {
                warn!(
                    path = %path.display(), offset,
                    "The log of Squid's that was read up to this byte is not there any more: of what it had later only what history has from its log of seconds is counted."
                );
            }
            begin(&log, intake);
        }
    }
    Ok(log)
}

/// Begins a log at its start.
fn begin(log: &Log, intake: &mut Intake) {
    let is_it = |known| log.is_of(known) || log.is_copy_of(known);
    intake.decoder.begin_file(log.position().ok(), is_it);
}

/// Follows an opened log from its position.
fn follow(log: &Log, path: &Path, intake: &mut Intake, shutdown: &Shutdown) {
    // The position until something is merged.
    intake.publish(log.position().ok(), shutdown);
    info!(path = %path.display(), offset = log.read_bytes, "Following a log of Squid's.");
    intake.decoder.source.counters.files_opened.add(1);
}

/// Reads a chunk, or finds out how to go on at the end.
fn read(
    log: &mut Log,
    path: &Path,
    chunk: &mut [u8],
    intake: &mut Intake,
    shutdown: &Shutdown,
) -> io::Result<Next> {
    let next = match log.file.read(chunk)? {
        0 => match log.look(path)? {
            Next::Wait => return Ok(Next::Wait),
            Next::Other => {
                intake.end(&mut log.lines);
                Next::Other
            }
            Next::Copy => {
                info!(
                    path = %path.display(), offset = log.read_bytes,
                    "Following a copy of a log of Squid's, which has replaced it."
                );
                Next::Copy
            }
            Next::Anew => {
                // Of what it has now nothing was read.
                intake.decoder.begin_file(log.position().ok(), |_| false);
                Next::Anew
            }
        },
        bytes => {
            let mut bytes = chunk.get(..bytes).unwrap_or_default();
            // Its first line alone: at the start of a file nothing of it is merged or in history.
            if log.offset() == 0
                && let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | 0))
                && let Some((first, others)) = bytes.split_at_checked(end.saturating_add(1))
            {
                log.feed(first, intake);
                intake.publish(log.position().ok(), shutdown);
                bytes = others;
            }
            log.feed(bytes, intake);
            Next::Anew
        }
    };
    intake.publish(log.position().ok(), shutdown);
    Ok(next)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{decoder, source};
    use super::super::{LineNumbers, Reading, Source};
    use super::*;
    use crate::clock::ManualClock;
    use crate::input::Lane;
    use crate::ring::{RingPlan, TempRing};
    use crate::telemetry::counters::SocketCounters;

    /// The intake of a source that goes on where it is known to have been.
    fn intake(known: Option<Reading>) -> (Intake, Arc<Source>) {
        let source = source("path = '/nowhere'");
        source.begin(known);
        let counters: Vec<Arc<SocketCounters>> = vec![Arc::default()];
        let plan = RingPlan::new(16, 1 << 20, 1);
        let (_ring, mut producers, _consumer) = TempRing::new(plan, &counters);
        let mut decoder = decoder(&source);
        decoder.go_on();
        let intake = Intake {
            decoder,
            lane: Lane {
                producer: producers.remove(0),
                counters: Arc::clone(&counters[0]),
                clock: Arc::new(ManualClock::new(1_700_000_000_000)),
            },
        };
        (intake, source)
    }

    /// Nothing tells a file of which no line was read from what it may have next: at its start
    /// nothing of it has been merged.
    #[test]
    fn a_position_behind_a_merged_line_is_behind_the_first() {
        let lines = "sq1 start=1.000 tr=1 ss=TCP_HIT\n".repeat(5);
        let line_bytes = lines.len() as u64 / 5;
        for pieces in [vec![lines.len()], vec![9, 9, lines.len()], vec![lines.len() / 5; 5]] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("access.log");
            fs::write(&path, &lines).unwrap();
            let (mut intake, source) = intake(None);
            let stop = Shutdown::new();
            let mut log = Log::open(&path).unwrap();
            begin(&log, &mut intake);
            follow(&log, &path, &mut intake, &stop);
            for piece in &pieces {
                let mut chunk = vec![0; *piece];
                assert!(read(&mut log, &path, &mut chunk, &mut intake, &stop).is_ok());
            }
            assert_eq!(intake.lane.counters.requests_pushed.get(), 5);
            for left in 0..=5 {
                let progress = source.at(left).0;
                let at = progress.file.unwrap().offset;
                assert_eq!(at / line_bytes + progress.merged, left, "{pieces:?}");
                assert_eq!(at > 0, left > 0, "{pieces:?}: {left}");
            }
        }
    }

    /// Emptied since, and written anew.
    #[expect(clippy::single_range_in_vec_init, reason = "a list of one range")]
    #[test]
    fn a_file_of_which_no_line_was_read_is_begun() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let (_log, known) = read_to_its_end(&path, "");
        let mut reading = Reading::default();
        (reading.progress.file, reading.progress.merged) = (Some(known), 7);
        (reading.requests.lines, reading.requests.ahead) = (7, Vec::from([7..20]));
        let (mut intake, source) = intake(Some(reading));
        fs::write(&path, LINES).unwrap();
        let log = find(&path, Some(known), &mut intake).unwrap();
        assert_eq!(log.read_bytes, 0);
        let progress = source.progress.lock().clone();
        assert_eq!((progress.file, progress.merged, progress.files_begun), (Some(known), 0, 1));
        assert_eq!(progress.next, LineNumbers { requests: 20, swaps: 0 });
    }

    /// Squid is told of a rotation later than the file is moved, and its workers reopen one by one.
    #[test]
    fn a_file_that_was_moved_away_is_read_while_it_may_grow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        fs::write(&path, "").unwrap();
        let mut log = Log::open(&path).unwrap();
        let mut look = |is_long_ago: bool| {
            if let Some((since, _)) = log.next.as_mut().filter(|_| is_long_ago) {
                *since = since.checked_sub(Duration::from_secs(11)).unwrap();
            }
            let next = log.look(&path).unwrap();
            let bytes = log.next.as_ref().map(|(_, next)| next.file.metadata().unwrap().len());
            (next == Next::Wait, next == Next::Other, bytes)
        };
        assert_eq!(look(false), (true, false, None));
        fs::rename(&path, dir.path().join("access.log.1")).unwrap();
        assert_eq!(look(true), (true, false, None), "nothing replaces it");
        fs::write(&path, "").unwrap();
        assert_eq!(look(true), (true, false, None), "its replacement is empty");
        fs::write(&path, "line").unwrap();
        assert_eq!(look(false), (true, false, Some(4)), "others may still write to the first");
        fs::rename(&path, dir.path().join("access.log.2")).unwrap();
        fs::write(&path, "third file").unwrap();
        assert_eq!(look(false), (true, false, Some(4)), "the second may be moved away too");
        assert_eq!(look(true), (false, true, Some(4)));
    }

    const LINES: &str = "sq1 start=1.000 sn=1\nsq1 start=2.000 sn=2\n";

    /// A log with these lines that was read up to the end of the last whole one.
    fn read_to_its_end(path: &Path, lines: &str) -> (Log, Position) {
        fs::write(path, lines).unwrap();
        let mut log = Log::open(path).unwrap();
        log.go_to(lines.rfind('\n').map_or(0, |at| at as u64 + 1)).unwrap();
        let known = log.position().unwrap();
        (log, known)
    }

    /// Restored, moved to another disk, or copied and emptied by a rotation: it is the same log.
    #[test]
    fn a_copy_is_read_on() {
        let long = format!("{LINES}{}\n", "x".repeat(2 * HEAD_BYTES)).repeat(9);
        for lines in [LINES, &LINES[..LINES.len() / 2], &*long] {
            let dir = tempfile::tempdir().unwrap();
            let [path, beside] = ["access.log", "access.log.1"].map(|name| dir.path().join(name));
            let (log, known) = read_to_its_end(&path, lines);
            fs::copy(&path, &beside).unwrap();
            let found = || Log::find(&path, known).map(|log| (log.is, log.read_bytes));
            assert_eq!(found(), Some((log.is, known.offset)), "the file itself");
            let copy = Log::open(&beside).unwrap();
            assert_ne!(copy.is, log.is);
            // Emptied, and as long as before.
            for content in [String::new(), lines.replacen('1', "2", 1)] {
                fs::write(&path, content).unwrap();
                assert_eq!(found(), Some((copy.is, known.offset)), "beside it");
            }
            fs::rename(&beside, &path).unwrap();
            assert_eq!(found(), Some((copy.is, known.offset)), "in its place");
            let longer = fs::copy(&path, &beside).unwrap();
            File::options().append(true).open(&beside).unwrap().set_len(longer + 9).unwrap();
            assert_eq!(found(), Some((copy.is, known.offset)), "that one counts first");
            fs::remove_file(&beside).unwrap();
            for other in [&lines[..lines.len() - 1], &lines.replacen('1', "2", 1)] {
                fs::write(&path, other).unwrap();
                assert_eq!(found(), None, "{other}");
            }
        }
    }

    /// It is moved within the folder of the file, not within that of the link.
    #[test]
    fn a_log_behind_a_symbolic_link_is_found_after_its_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let [links, files] = ["links", "files"].map(|name| dir.path().join(name));
        fs::create_dir(&links).unwrap();
        fs::create_dir(&files).unwrap();
        let [path, file] = [links.join("access.log"), files.join("access.log")];
        std::os::unix::fs::symlink("../files/access.log", &path).unwrap();
        let (log, known) = read_to_its_end(&path, LINES);
        fs::rename(&file, files.join("access.log.1")).unwrap();
        fs::write(&file, "sq1 start=3.000 sn=3\n").unwrap();
        let found = Log::find(&path, known).unwrap();
        assert_eq!((found.is, found.read_bytes), (log.is, known.offset));
    }

    /// An empty one has nothing to be known by, and one that goes on inside a line is not a log.
    #[test]
    fn what_begins_like_anything_is_no_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let (log, known) = read_to_its_end(&path, LINES);
        assert!(log.is_copy_of(known) && log.is_of(known));
        let empty = Position { offset: 0, head: log.head(0).unwrap(), ..known };
        assert!(!log.is_copy_of(empty) && log.is_of(empty));
        let offset = known.offset - 1;
        let inside = Position { offset, head: log.head(offset).unwrap(), ..known };
        assert!(!log.is_copy_of(inside) && log.is_of(inside));
    }

    /// As `sed -i` and a restore do it.
    #[test]
    fn a_copy_that_replaces_a_followed_file_is_no_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        let (mut log, known) = read_to_its_end(&path, LINES);
        let mut replaced_by = |content: &str| {
            let new = dir.path().join("new");
            fs::write(&new, content).unwrap();
            fs::rename(&new, &path).unwrap();
            assert!(log.look(&path).unwrap() == Next::Wait);
            let (since, _) = log.next.as_mut().unwrap();
            *since = since.checked_sub(Duration::from_secs(11)).unwrap();
            let next = log.look(&path).unwrap();
            (next == Next::Copy, next == Next::Other, log.read_bytes)
        };
        let more = format!("{LINES}{LINES}");
        assert_eq!(replaced_by(&more), (true, false, known.offset));
        assert_eq!(replaced_by(LINES), (true, false, known.offset));
        assert_eq!(replaced_by(&more[1..]), (false, true, known.offset));
    }
}
