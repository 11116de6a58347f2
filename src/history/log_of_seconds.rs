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
//! Gains are bytes as [`report::encoded_gain`](crate::report::encoded_gain) has them. A file
//! contains the key of a row of a minute once: later seconds only have its id, so nothing is
//! compressed, and the history thread only adds a checksum. Records are encoded as rows are added.
//!
//! [`Fresh`] is filled under the lock of the rows, the [`Log`] belongs to the history thread:
//! nobody else waits for its disk. Bounded in memory by `bytes_max` of [`Fresh`], twice while one
//! is written, on disk by an eighth of `history.size_max`; beyond either, and when something cannot
//! be written, there is no log until the next flush.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Dataset;
use super::disk::{Disk, Done, StoreError, failed, unreadable};
use super::file_names::files_in;
use super::part::number_of;
use super::pending::{LEAD_BYTES, damaged, framed, read_leading};
use crate::delta::RowDelta;
use crate::input::squid::Positions;
use crate::report::OTHER_ID;
use crate::report::encoded_gain::EncodedGain;
use crate::report::totals::Extremes;

/// Extension of log files.
pub(super) const LOG: &str = "log";
/// Start of a record.
const MAGIC: [u8; 8] = *b"pinbadS1";

/// Bytes of a row at most, beside its gain and its key.
const ROW_BYTES_MAX: usize = 64;

/// An element of a record.
#[derive(Debug, Serialize, Deserialize)]
enum Entry<'r> {
    /// Dataset, as JSON, and time of the rows that follow.
    Section(&'r str, u64),
    /// The gain of a row. Without a key it has the one that the file has for its id.
    Row {
        id: u64,
        is_other: bool,
        key: Option<&'r [u8]>,
        gain: &'r [u8],
        extremes: Option<Extremes>,
    },
    /// These rows have requests and swaps of a followed file: the source, and the numbers of the
    /// first of each and of the one behind the last.
    Lines(&'r str, [u64; 2], [u64; 2]),
}

/// Added rows that are not in the log yet.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The file for additions.
    pub(super) file: u64,
    /// A record that grows for each file: there are one or two.
    records: BTreeMap<u64, Vec<u8>>,
    /// Whose rows were added last, in which file.
    section: Option<(u64, Arc<Dataset>, u64)>,
    /// Number of rows.
    pub(super) rows: u64,
    bytes_max: usize,
}

impl Fresh {
    pub(super) fn new(file: u64, bytes_max: usize) -> Self {
        Self { file, records: BTreeMap::new(), section: None, rows: 0, bytes_max }
    }

    /// Adds what a row of a dataset gained; `is_known`: its key was added for this file before.
    pub(super) fn add(&mut self, of: &Arc<Dataset>, time: u64, row: &RowDelta<'_>, is_known: bool) {
        if self.is_full() {
            return;
        }
        let file = self.file;
        let record = self.records.entry(file).or_insert_with(|| MAGIC.to_vec());
        let is_it = |(in_file, dataset, at): &(u64, Arc<Dataset>, u64)| {
            *in_file == file && Arc::ptr_eq(dataset, of) && *at == time
        };
        if !self.section.as_ref().is_some_and(is_it) {
            let json = serde_json::to_string(&**of).unwrap_or_default();
            push(record, &Entry::Section(&json, time), json.len());
            self.section = Some((file, Arc::clone(of), time));
        }
        let is_other = row.id == OTHER_ID;
        let key = match is_other {
            // Its key is known to everybody.
            true => Some(Cow::default()),
            false => (!is_known).then(|| row.key.bytes()),
        };
        let gain = row.encoded.0;
        let len = gain.len() + key.as_ref().map_or(0, |key| key.len());
        let extremes = (row.extremes != Extremes::NOTHING).then_some(row.extremes);
        let entry = Entry::Row { id: row.id, is_other, key: key.as_deref(), gain, extremes };
        push(record, &entry, len);
        self.rows += 1;
    }

    /// Records which lines of followed files the rows added last have: of those in which the
    /// positions on disk are.
    pub(super) fn reached(&mut self, before: &Positions, now: &Positions) {
        let mut record = self.records.get_mut(&self.file);
        for (from, reading) in now {
            let before = before.get(from).cloned().unwrap_or_default();
            let requests = [before.requests.lines, reading.requests.lines];
            let swaps = [before.swaps.lines, reading.swaps.lines];
            let has_any = [requests, swaps].iter().any(|[begin, end]| begin < end);
            if let Some(record) = record.as_mut().filter(|_| has_any) {
                push(record, &Entry::Lines(from, requests, swaps), from.len());
            }
        }
    }

    /// Whether more came than there is memory for, so that some are missing.
    pub(super) fn is_full(&self) -> bool {
        self.records.values().map(Vec::len).sum::<usize>() > self.bytes_max
    }

    /// Takes the additions, if any; later ones go to the same file.
    pub(super) fn take(&mut self) -> Option<Self> {
        let rest = Self::new(self.file, self.bytes_max);
        (!self.records.is_empty()).then(|| std::mem::replace(self, rest))
    }
}

/// Appends an entry that has texts of so many bytes.
fn push(record: &mut Vec<u8>, entry: &Entry<'_>, len: usize) {
    if record.capacity() - record.len() < ROW_BYTES_MAX + len {
        // No more than a quarter of the memory stays empty.
        record.reserve_exact(record.len() / 4 + ROW_BYTES_MAX + len);
    }
    // Numbers and texts, into memory: this cannot fail.
    let _written = postcard::to_io(entry, record);
}

/// The keys of a file's rows, by id.
type Keys = HashMap<u64, Box<[u8]>>;

/// Takes the dataset, time, key and gain of a row.
type TakeRow<'t> = dyn FnMut(&Arc<Dataset>, u64, (&[u8], bool), (EncodedGain<'_>, Extremes)) + 't;

/// Gives the rows of a record to `each`; returns how many there are.
fn replay_record(
    record: &[u8],
    keys: &mut Keys,
    files: &mut Positions,
    each: &mut TakeRow<'_>,
) -> io::Result<u64> {
    let not_one = || damaged("a record is malformed");
    let mut rest = record.strip_prefix(&MAGIC).ok_or_else(not_one)?;
    let (mut section, mut rows) = (None, 0);
    while !rest.is_empty() {
        let (entry, behind) = postcard::take_from_bytes(rest).map_err(damaged)?;
        rest = behind;
        match entry {
            Entry::Section(dataset, time) => {
                section = Some((Arc::new(serde_json::from_str(dataset)?), time));
            }
            Entry::Row { id, is_other, key, gain, extremes } => {
                if let Some(key) = key {
                    keys.insert(id, key.into());
                }
                let found = section.as_ref().zip(keys.get(&id));
                let ((dataset, time), key) = found.ok_or_else(not_one)?;
                let gained = (EncodedGain(gain), extremes.unwrap_or(Extremes::NOTHING));
                each(dataset, *time, (key, is_other), gained);
                rows += 1;
            }
            Entry::Lines(from, requests, swaps) => {
                let reading = files.entry(from.to_owned()).or_default();
                let tallies = [(&mut reading.requests, requests), (&mut reading.swaps, swaps)];
                for (tally, [begin, end]) in tallies.into_iter().filter(|it| it.1[0] < it.1[1]) {
                    tally.add(begin..end);
                }
            }
        }
    }
    Ok(rows)
}

/// Gives the rows of a file's whole records to `each`; returns where these end, how many rows they
/// have, and what is wrong behind them.
fn read_records(
    file: &File,
    bytes: u64,
    files: &mut Positions,
    each: &mut TakeRow<'_>,
) -> (u64, u64, io::Result<()>) {
    let (mut whole, mut rows, mut keys) = (0, 0, Keys::new());
    let mut read = || {
        while whole < bytes {
            let record = read_leading(file, whole)?;
            rows += replay_record(&record, &mut keys, files, each)?;
            whole += LEAD_BYTES + record.len() as u64;
        }
        io::Result::Ok(())
    };
    let read = read();
    (whole, rows, read)
}

/// Reads a file as the next start would. That its last record is not finished is no problem: a
/// daemon is writing it, or was when it was killed.
pub(super) fn verify(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    let (bytes, mut files) = (file.metadata()?.len(), Positions::new());
    let (whole, _, read) = read_records(&file, bytes, &mut files, &mut |_, _, _, _| ());
    let is_damage = |error: &io::Error| error.kind() != io::ErrorKind::UnexpectedEof;
    read.err().filter(is_damage).map_or(Ok(()), |error| {
        let rest = bytes - whole;
        Err(damaged(format!("{error}: the next start leaves out its last {rest} bytes")))
    })
}

/// The files of the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    disk: Disk,
    folder: PathBuf,
    /// Existing files by number: the size, and the file while it is to be
    /// [replayed](Self::replay), or may be appended to.
    files: BTreeMap<u64, (u64, Option<File>)>,
    pub(super) bytes_max: u64,
    /// Files up to this one are on disk in another form.
    flushed_to: u64,
}

impl Log {
    /// Finds the files in a folder behind `flushed_to`.
    ///
    /// # Errors
    /// When one of them cannot be opened: nothing was changed, and it can be tried again.
    pub(super) fn find(disk: &Disk, folder: PathBuf, flushed_to: u64) -> Done<Self> {
        let ours = |it: &Path| number_of(it) > flushed_to && path_of(&folder, number_of(it)) == it;
        let found = files_in(vec![folder.clone()], ours)?;
        let (disk, bytes_max) = (disk.clone(), u64::MAX);
        let mut log = Self { disk, folder, bytes_max, flushed_to, ..Self::default() };
        for path in found {
            // The previous process may have ended between writing and syncing. Restored rows must
            // be durable.
            let file = log.disk.open(&path).map_err(failed("read", &path))?;
            log.disk.sync(&file, &path)?;
            let bytes = file.metadata().map_err(failed("read", &path))?.len();
            log.files.insert(number_of(&path), (bytes, Some(file)));
        }
        Ok(log)
    }

    /// The number before that of the first file of this run: the last file, if it continues others,
    /// which has the run of their first one in its upper half; otherwise this run's. So no two runs
    /// have files of one name, and it is seen which ones were away when others were begun.
    pub(super) fn before_first(&self, run: u64) -> u64 {
        self.files.keys().next_back().copied().unwrap_or(run << 32).max(self.flushed_to)
    }

    /// Takes out the files that were away when the last ones were begun, and returns their paths:
    /// `all`, or those with lines of followed files, which were read again for the last ones.
    pub(super) fn take_unknown(&mut self, all: bool) -> Vec<PathBuf> {
        let last = self.files.keys().next_back().map_or(0, |last| last >> 32);
        let has_lines = |file: &File, bytes| {
            let mut files = Positions::new();
            let _as_far = read_records(file, bytes, &mut files, &mut |_, _, _, _| ());
            !files.is_empty()
        };
        let unknown = self.files.extract_if(.., |number, (bytes, file)| {
            number >> 32 < last && (all || file.as_ref().is_some_and(|it| has_lines(it, *bytes)))
        });
        unknown.map(|(number, _)| path_of(&self.folder, number)).collect()
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().map(|(bytes, _)| bytes).sum()
    }

    /// Whether a flush is needed so that files can be removed.
    pub(super) fn is_large(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Gives all rows that were found to `each`, with their keys, and cuts off what is not whole.
    /// What cannot be read for another reason stays: the next start may read it. Adds to `files`
    /// which lines of theirs the rows have; `is_read_anew`: these files are followed again. Returns
    /// the number of rows, and of bytes that were not whole or not readable.
    pub(super) fn replay(
        &mut self,
        is_read_anew: bool,
        files: &mut Positions,
        each: &mut TakeRow<'_>,
    ) -> (u64, u64) {
        let (mut rows, mut all_torn) = (0, 0);
        for (&number, (bytes, file)) in &mut self.files {
            let Some(file) = file.take() else { continue };
            let (whole, found, read) = read_records(&file, *bytes, files, each);
            rows += found;
            let Err(error) = read else { continue };
            let (path, torn) = (path_of(&self.folder, number), *bytes - whole);
            warn!(file = %path.display(), %error, bytes = torn, "Left out the end of the log of seconds, which cannot be read.");
            all_torn += torn;
            // Lines of followed files are read and counted again: they must not be replayed later
            // too.
            if !is_read_anew && !matches!(unreadable(&path)(error), StoreError::Damaged { .. }) {
                continue;
            }
            // If it is read again, the result is the same.
            let file = File::options().write(true).open(&path);
            let cut = file.map_err(failed("cut", &path));
            if cut.and_then(|mut file| self.disk.cut(&mut file, &path, whole)).is_ok() {
                *bytes = whole;
            }
        }
        (rows, all_torn)
    }

    /// Appends additions, and syncs.
    ///
    /// # Errors
    /// When that cannot be done: nothing may be appended to that file any more.
    pub(super) fn append(&mut self, fresh: Fresh) -> Done {
        for (number, bytes) in fresh.records {
            if number <= self.flushed_to {
                continue;
            }
            let path = path_of(&self.folder, number);
            let record = framed(&bytes).map_err(failed("write", &path))?;
            if self.bytes() + record.len() as u64 > self.bytes_max {
                let full = io::Error::other("all of them take an eighth of history.size_max");
                return Err(failed("write", &path)(full));
            }
            let (bytes, file) = self.files.entry(number).or_default();
            let file = match file {
                Some(file) => file,
                None => {
                    let new = self.disk.create(&path)?;
                    self.disk.sync_folder(&self.folder)?;
                    file.insert(new)
                }
            };
            self.disk.append(file, &path, &record)?;
            *bytes += record.len() as u64;
        }
        Ok(())
    }

    /// The files up to this one.
    pub(super) fn up_to(&self, number: u64) -> Vec<PathBuf> {
        self.files.range(..=number).map(|(&it, _)| path_of(&self.folder, it)).collect()
    }

    /// Removes files up to this one, which are on disk in another form, and returns them. One that
    /// cannot be removed now is removed next time.
    pub(super) fn forget(&mut self, number: u64) -> Vec<PathBuf> {
        self.flushed_to = self.flushed_to.max(number);
        let mut removed = self.up_to(number);
        removed.retain(|path| self.disk.remove(path).is_ok());
        removed.iter().for_each(|path| drop(self.files.remove(&number_of(path))));
        removed
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number}.{LOG}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_a_torn_end_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("1.log");
        fs::write(&path, [7; 100]).unwrap();
        let find = || Log::find(&Disk::default(), dir.path().to_owned(), 0).unwrap();
        let replay = |mut log: Log, is_read_anew| {
            let replayed = log.replay(is_read_anew, &mut Positions::new(), &mut |_, _, _, _| ());
            assert_eq!(replayed, (0, 100));
            fs::metadata(&path).unwrap().len()
        };
        // It cannot be read now: opened for writing only.
        let unreadable = File::options().write(true).open(&path).unwrap();
        let mut log = find();
        log.files.insert(1, (100, Some(unreadable)));
        assert_eq!(replay(log, false), 100);
        // Its lines would be there twice once it can be.
        let unreadable = File::options().write(true).open(&path).unwrap();
        let mut log = find();
        log.files.insert(1, (100, Some(unreadable)));
        assert_eq!(replay(log, true), 0);
        fs::write(&path, [7; 100]).unwrap();
        // It can be read, and has no record.
        assert_eq!(replay(find(), false), 0);
    }
}
