//! The log of seconds (`history.log`): additions to the rows in memory, written to disk at once, so
//! that a kill loses no more than a second or two.
//!
//! ```text
//!   series thread: rows in memory, and the same once more as Fresh --(history thread, as they come)--> pending/N.log
//!   a flush contains N.log; its commit says so, and N.log is deleted; the next start adds logs that no commit contains to the rows in memory
//!
//!   file:     | record .. |                     nothing is read after a record that a kill left unfinished
//!   record:   | length | crc | "pinbadS1" | section or row .. |   a section: whose rows follow
//! ```
//!
//! Gains are bytes as [`report::gain`](crate::report::gain) has them. A file contains the key of a
//! row of a minute once: later seconds only have its id, so nothing is compressed, and the history
//! thread only adds a checksum. Records are encoded as rows are added.
//!
//! [`Fresh`] is filled under the lock of the rows, the [`Log`] belongs to the history thread:
//! nobody else waits for its disk. Bounded in memory by `bytes_max` of [`Fresh`], twice while one
//! is written, on disk by an eighth of `history.size_max`; beyond either, and when something cannot
//! be written, there is no log until the next flush.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{
    self,
    ErrorKind::{InvalidData, UnexpectedEof},
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Dataset;
use super::disk::{Disk, StoreError, failed};
use super::pending::{LEAD_BYTES, damaged, lead, read_leading};
use crate::delta::RowDelta;
use crate::input::squid::Positions;
use crate::report::OTHER_ID;
use crate::report::reading::Extremes;

/// Extension of log files.
const LOG: &str = "log";
/// Start of a record.
const MAGIC: [u8; 8] = *b"pinbadS1";

/// Bytes of a row at most, beside its gain and its key.
const ROW_BYTES_MAX: usize = 64;

/// An element of a record.
#[derive(Debug, Serialize, Deserialize)]
enum Entry<'r> {
    /// Dataset, as JSON, and time of the rows that follow.
    Section(&'r str, u64),
    Row(#[serde(borrow)] LoggedRow<'r>),
    /// These rows have requests and swaps of a followed file: the source, and the numbers of the
    /// first of each and of the one behind the last.
    Lines(&'r str, [u64; 2], [u64; 2]),
}

/// The gain of a row.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LoggedRow<'r> {
    id: u64,
    pub(super) is_other: bool,
    /// `None`: what the file has for its id.
    key: Option<&'r [u8]>,
    pub(super) gain: &'r [u8],
    pub(super) extremes: Option<Extremes>,
}

/// Added rows that are not in the log yet.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The file for additions.
    file: u64,
    records: Vec<FreshRecord>,
    bytes: usize,
    bytes_max: usize,
}

/// A record that grows, for one file.
#[derive(Debug)]
struct FreshRecord {
    file: u64,
    rows: u64,
    /// Whose rows were added last.
    section: Option<(Arc<Dataset>, u64)>,
    bytes: Vec<u8>,
}

impl Fresh {
    pub(super) fn new(file: u64, bytes_max: usize) -> Self {
        Self { file, records: Vec::new(), bytes: 0, bytes_max }
    }

    /// Adds what a row gained; `is_known`: its key was added for this file before.
    pub(super) fn add(
        &mut self,
        dataset: &Arc<Dataset>,
        time: u64,
        row: &RowDelta<'_>,
        is_known: bool,
    ) {
        if self.is_full() {
            return;
        }
        let file = self.file;
        if self.records.last().is_none_or(|last| last.file != file) {
            self.records.push(FreshRecord { file, rows: 0, section: None, bytes: MAGIC.to_vec() });
        }
        if let Some(record) = self.records.last_mut() {
            let before = record.bytes.len();
            record.add(dataset, time, row, is_known);
            self.bytes += record.bytes.len() - before;
        }
    }

    /// Records which lines of followed files the rows added last have. Returns false if that
    /// cannot be said because another file was begun: the next process could not tell.
    #[must_use]
    pub(super) fn reached(&mut self, before: &Positions, now: &Positions) -> bool {
        let mut record = self.records.last_mut().filter(|it| it.file == self.file);
        for (from, reading) in now {
            let before = before.get(from).cloned().unwrap_or_default();
            if before.progress.file.is_none() && reading.progress.file.is_some() {
                return false;
            }
            let requests = [before.requests.lines, reading.requests.lines];
            let swaps = [before.swaps.lines, reading.swaps.lines];
            let has_any = [requests, swaps].iter().any(|[begin, end]| begin < end);
            if let Some(record) = record.as_mut().filter(|_| has_any) {
                let length = record.bytes.len();
                record.push(&Entry::Lines(from, requests, swaps), from.len());
                self.bytes += record.bytes.len() - length;
            }
        }
        true
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u64 {
        self.records.iter().map(|it| it.rows).sum()
    }

    /// Whether more came than there is memory for, so that some are missing.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Takes the additions, if any; later ones go to the same file.
    pub(super) fn take(&mut self) -> Option<Self> {
        let rest = Self::new(self.file, self.bytes_max);
        (!self.records.is_empty()).then(|| std::mem::replace(self, rest))
    }

    /// Directs later additions to another file.
    pub(super) fn turn_to(mut self, file: u64) -> Self {
        self.file = file;
        self
    }
}

impl FreshRecord {
    fn add(&mut self, dataset: &Arc<Dataset>, time: u64, row: &RowDelta<'_>, is_known: bool) {
        let is_it = |(of, at): &(Arc<Dataset>, u64)| Arc::ptr_eq(of, dataset) && *at == time;
        if !self.section.as_ref().is_some_and(is_it) {
            let json = serde_json::to_string(&**dataset).unwrap_or_default();
            self.push(&Entry::Section(&json, time), json.len());
            self.section = Some((Arc::clone(dataset), time));
        }
        let is_other = row.id == OTHER_ID;
        let key = match is_other {
            // Its key is known to everybody.
            true => Some(Cow::default()),
            false => (!is_known).then(|| row.key.bytes()),
        };
        let gain = row.encoded.0;
        let len = gain.len() + key.as_ref().map_or(0, |key| key.len());
        let row = LoggedRow {
            id: row.id,
            is_other,
            key: key.as_deref(),
            gain,
            extremes: (row.extremes != Extremes::NOTHING).then_some(row.extremes),
        };
        self.push(&Entry::Row(row), len);
        self.rows += 1;
    }

    /// Appends an entry that has texts of so many bytes.
    fn push(&mut self, entry: &Entry<'_>, len: usize) {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.capacity() - bytes.len() < ROW_BYTES_MAX + len {
            // No more than a quarter of the memory stays empty.
            bytes.reserve_exact(bytes.len() / 4 + ROW_BYTES_MAX + len);
        }
        // Numbers and texts, into memory: this cannot fail.
        self.bytes = postcard::to_extend(entry, bytes).unwrap_or_default();
    }
}

/// The keys of a file's rows, by id.
type Keys = HashMap<u64, Box<[u8]>>;

/// Gives the rows of a record to `each`, with dataset, time and key; returns how many there are.
fn replay_record(
    record: &[u8],
    keys: &mut Keys,
    files: &mut Positions,
    each: &mut impl FnMut(&Arc<Dataset>, u64, &[u8], &LoggedRow<'_>),
) -> io::Result<u64> {
    let not_one = || damaged("a record is malformed");
    let mut rest = record.strip_prefix(&MAGIC).ok_or_else(not_one)?;
    let (mut section, mut rows) = (None, 0);
    while !rest.is_empty() {
        let entry;
        let taken = postcard::take_from_bytes(rest);
        (entry, rest) = taken.map_err(|error| damaged(&error.to_string()))?;
        let row = match entry {
            Entry::Section(dataset, time) => {
                section = Some((Arc::new(serde_json::from_str(dataset)?), time));
                continue;
            }
            Entry::Row(row) => row,
            Entry::Lines(from, requests, swaps) => {
                let reading = files.entry(from.to_owned()).or_default();
                let tallies = [(&mut reading.requests, requests), (&mut reading.swaps, swaps)];
                for (tally, [begin, end]) in tallies.into_iter().filter(|it| it.1[0] < it.1[1]) {
                    tally.add(begin..end);
                }
                continue;
            }
        };
        if let Some(key) = row.key {
            keys.insert(row.id, key.into());
        }
        let found = section.as_ref().zip(keys.get(&row.id));
        let ((dataset, time), key) = found.ok_or_else(not_one)?;
        each(dataset, *time, key, &row);
        rows += 1;
    }
    Ok(rows)
}

/// The files of the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    disk: Disk,
    folder: PathBuf,
    /// Existing files with their sizes, by number.
    files: BTreeMap<u64, u64>,
    /// Those of the previous process, to be [replayed](Self::replay).
    found: Vec<(u64, File)>,
    /// The file being appended to.
    open: Option<(u64, File)>,
    pub(super) bytes_max: u64,
    /// Files up to this one are on disk in another form.
    flushed_to: u64,
    /// Whether lines that it may have are read again, from followed files.
    pub(super) is_read_anew: bool,
}

/// The result of reading the log at start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) rows: u64,
    /// Bytes of incomplete or unreadable records.
    pub(super) torn: u64,
}

impl Log {
    /// Finds the files in a folder; removes those up to `flushed_to`, which are on disk in another
    /// form.
    ///
    /// # Errors
    /// When one of them cannot be opened: nothing was changed, and it can be tried again.
    pub(super) fn find(disk: &Disk, folder: &Path, flushed_to: u64) -> Result<Self, StoreError> {
        let mut log = Self {
            disk: disk.clone(),
            folder: folder.to_owned(),
            bytes_max: u64::MAX,
            ..Self::default()
        };
        for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
            let entry = entry.map_err(failed("read", folder))?;
            let path = entry.path();
            let stem = path.file_stem().and_then(|it| it.to_str());
            let number = stem.and_then(|stem| stem.parse().ok());
            if let Some(number) = number.filter(|&number| log.path(number) == path) {
                let found = entry.metadata().map_err(failed("read", &path))?;
                log.files.insert(number, found.len());
            }
        }
        log.forget(flushed_to);
        // The previous process may have ended between writing and syncing. Restored rows must be
        // durable.
        // One that could not be removed is not read again.
        for (&number, _) in log.files.range(log.flushed_to + 1..) {
            let path = log.path(number);
            let file = disk.open(&path).map_err(failed("read", &path))?;
            disk.sync(&file, &path)?;
            log.found.push((number, file));
        }
        Ok(log)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number}.{LOG}"))
    }

    /// The largest file number so far.
    pub(super) fn last(&self) -> u64 {
        let newest = self.files.keys().next_back();
        newest.map_or(self.flushed_to, |&newest| newest.max(self.flushed_to))
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Whether a flush is needed so that files can be removed.
    pub(super) fn is_large(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Gives all rows that were found to `each`, with their keys, and cuts off what is not whole.
    /// What cannot be read for another reason stays: the next start may read it. Adds to `files`
    /// which lines of theirs the rows have.
    pub(super) fn replay(
        &mut self,
        files: &mut Positions,
        mut each: impl FnMut(&Arc<Dataset>, u64, &[u8], &LoggedRow<'_>),
    ) -> Replayed {
        let mut replayed = Replayed::default();
        for (number, file) in std::mem::take(&mut self.found) {
            let path = self.path(number);
            let mut whole = 0;
            let read = file.metadata().map(|it| it.len()).and_then(|bytes| {
                let mut keys = Keys::new();
                while whole < bytes {
                    let record = read_leading(&file, whole)?;
                    replayed.rows += replay_record(&record, &mut keys, files, &mut each)?;
                    whole += LEAD_BYTES + record.len() as u64;
                }
                Ok(())
            });
            let Err(error) = read else { continue };
            let torn = self.files.get(&number).map_or(0, |bytes| bytes - whole);
            warn!(file = %path.display(), %error, bytes = torn, "Left out the end of the log of seconds, which cannot be read.");
            replayed.torn += torn;
            // Lines of followed files are read and counted again: they must not be replayed later
            // too.
            if !self.is_read_anew && !matches!(error.kind(), InvalidData | UnexpectedEof) {
                continue;
            }
            // If it is read again, the result is the same.
            let file = File::options().write(true).open(&path);
            let cut = file.map_err(failed("cut", &path));
            if cut.and_then(|mut file| self.disk.cut(&mut file, &path, whole)).is_ok() {
                self.files.insert(number, whole);
            }
        }
        replayed
    }

    /// Appends additions, and syncs.
    ///
    /// # Errors
    /// When that cannot be done: nothing may be appended to that file any more.
    pub(super) fn append(&mut self, fresh: Fresh) -> Result<(), StoreError> {
        for FreshRecord { file: number, bytes, .. } in fresh.records {
            if number <= self.flushed_to {
                continue;
            }
            let path = self.path(number);
            let lead = lead(&bytes).map_err(failed("write", &path))?;
            let record = [&lead[..], &bytes].concat();
            if self.bytes() + record.len() as u64 > self.bytes_max {
                let full = io::Error::other("all of them take an eighth of history.size_max");
                return Err(failed("write", &path)(full));
            }
            if self.open.as_ref().is_none_or(|(open, _)| *open != number) {
                let file = self.disk.create(&path)?;
                self.files.insert(number, 0);
                self.disk.sync_folder(&self.folder)?;
                self.open = Some((number, file));
            }
            if let Some((_, file)) = &mut self.open {
                self.disk.append(file, &path, &record)?;
            }
            *self.files.entry(number).or_default() += record.len() as u64;
        }
        Ok(())
    }

    /// Removes files up to this one, which are on disk in another form.
    pub(super) fn forget(&mut self, number: u64) {
        self.flushed_to = self.flushed_to.max(number);
        self.open.take_if(|(open, _)| *open <= number);
        let (disk, folder) = (&self.disk, &self.folder);
        // A file that cannot be removed now is removed next time.
        self.files.retain(|&it, _| {
            it > number || disk.remove(&folder.join(format!("{it}.{LOG}"))).is_err()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_torn_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        fs::write(&path, [7; 100]).unwrap();
        let find = || Log::find(&Disk::default(), dir.path(), 0).unwrap();
        let replay = |mut log: Log| {
            let replayed = log.replay(&mut Positions::new(), |_, _, _, _| ());
            assert_eq!((replayed.rows, replayed.torn), (0, 100));
            fs::metadata(&path).unwrap().len()
        };
        // It cannot be read now: opened for writing only.
        let unreadable = File::options().write(true).open(&path).unwrap();
        let mut log = find();
        log.found = vec![(1, unreadable)];
        assert_eq!(replay(log), 100);
        // Its lines would be there twice once it can be.
        let unreadable = File::options().write(true).open(&path).unwrap();
        let mut log = find();
        log.found = vec![(1, unreadable)];
        log.is_read_anew = true;
        assert_eq!(replay(log), 0);
        fs::write(&path, [7; 100]).unwrap();
        // It can be read, and has no record.
        assert_eq!(replay(find()), 0);
    }
}
