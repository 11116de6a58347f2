//! The log of seconds (`history.log`): additions to the rows in memory, written to disk at once, so
//! that a kill loses no more than a second or two.
//!
//! ```text
//!   series thread: rows in memory, and the same once more as Fresh --(history thread, as they come)--> pending/N.log
//!   a flush has what N.log has; its commit says so, and N.log goes; what no commit has the next start adds to the rows in memory
//!
//!   file:     | record .. |                     behind what a kill left unfinished nothing is read
//!   record:   | length | crc | block .. |       blocks as in pending files; the schema of each says whose rows it has
//! ```
//!
//! [`Fresh`] is filled under the lock of the rows, the [`Log`] belongs to the history thread:
//! nobody else waits for its disk. Bounded in memory by `bytes_max` of [`Fresh`], twice while one
//! is written, on disk by an eighth of `history.size_max`; beyond either, and after a failed write,
//! there is no log until the next flush.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use tracing::warn;

use super::disk::{Disk, StoreError, failed};
use super::histogram::{HistogramRef, lead};
use super::parquet::BATCH_ROWS;
use super::pending::{Record, read_record};
use super::stored::BatchBuilder;
use super::{Dataset, Resolution};
use crate::delta::RowDelta;
use crate::report::OTHER_ID;
use crate::report::gain::EncodedGain;
use crate::report::reading::Extremes;

/// Extension of log files.
const LOG: &str = "log";
/// The schema's metadata key for the dataset.
const DATASET: &str = "dataset";

/// Added rows that are not in the log yet.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The file for additions.
    file: u64,
    rows: Vec<FreshRows>,
    bytes: usize,
    bytes_max: usize,
}

/// Rows of a dataset and time, for one file.
#[derive(Debug)]
struct FreshRows {
    file: u64,
    dataset: Arc<Dataset>,
    time: u64,
    rows: Vec<FreshRow>,
    /// Their keys and gains.
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct FreshRow {
    extremes: Extremes,
    key_len: u32,
    gained_len: u32,
    is_other: bool,
}

impl Fresh {
    pub(super) fn new(file: u64, bytes_max: usize) -> Self {
        Self {
            file,
            rows: Vec::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(super) fn add(&mut self, dataset: &Arc<Dataset>, time: u64, row: &RowDelta<'_>) {
        let key = row.key.bytes();
        let len = key.len() + row.encoded.0.len();
        self.bytes += size_of::<FreshRow>() + len;
        if self.is_full() {
            return;
        }
        let file = self.file;
        let is_it = |last: &mut FreshRows| {
            (last.file, last.time) == (file, time) && Arc::ptr_eq(&last.dataset, dataset)
        };
        if self.rows.last_mut().is_none_or(|last| !is_it(last)) {
            self.rows.push(FreshRows {
                file,
                dataset: Arc::clone(dataset),
                time,
                rows: Vec::new(),
                bytes: Vec::new(),
            });
        }
        let Some(FreshRows { rows, bytes, .. }) = self.rows.last_mut() else {
            return;
        };
        // At most a quarter of the memory stays unused.
        if rows.len() == rows.capacity() {
            rows.reserve_exact(rows.len() / 4 + 1);
        }
        if bytes.capacity() - bytes.len() < len {
            bytes.reserve_exact(bytes.len() / 4 + len);
        }
        rows.push(FreshRow {
            extremes: row.extremes,
            key_len: key.len() as u32,
            gained_len: row.encoded.0.len() as u32,
            is_other: row.id == OTHER_ID,
        });
        bytes.extend_from_slice(&key);
        bytes.extend_from_slice(row.encoded.0);
    }

    /// Number of rows.
    pub(super) fn len(&self) -> u64 {
        self.rows.iter().map(|it| it.rows.len() as u64).sum()
    }

    /// Whether more came than there is memory for, so that some are missing.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Takes the additions, if any; later ones go to the same file.
    pub(super) fn take(&mut self) -> Option<Self> {
        let rest = Self::new(self.file, self.bytes_max);
        (!self.rows.is_empty()).then(|| std::mem::replace(self, rest))
    }

    /// Directs later additions to another file.
    pub(super) fn turn_to(mut self, file: u64) -> Self {
        self.file = file;
        self
    }
}

impl FreshRows {
    /// Adds them to a record, in stored form.
    fn push_to(&self, to: &mut Record) -> io::Result<()> {
        let mut block = BatchBuilder::new(&self.dataset, Resolution::Minute.bucket_bits(), false);
        let dataset = serde_json::to_string(&*self.dataset)?;
        let schema = (**block.schema()).clone();
        let schema = schema.with_metadata(HashMap::from([(DATASET.to_owned(), dataset)]));
        let schema = Arc::new(schema);
        let lead = lead(&self.dataset.buckets);
        let (mut rest, mut times) = (&*self.bytes, Vec::new());
        for (at, row) in self.rows.iter().enumerate() {
            let key;
            (key, rest) = rest.split_at(row.key_len as usize);
            let gained;
            (gained, rest) = rest.split_at(row.gained_len as usize);
            let (totals, pairs) = EncodedGain(gained).read();
            times.clear();
            let histogram = pairs.map_or(HistogramRef::Unknown, |pairs| {
                times.push(lead);
                times.extend_from_slice(pairs.bytes);
                HistogramRef::Encoded(&times)
            });
            let place = (self.time, key, row.is_other);
            block.push_parts(place, &totals, &row.extremes, histogram);
            if block.rows == BATCH_ROWS || at + 1 == self.rows.len() {
                let batch = block.finish().with_schema(Arc::clone(&schema));
                to.push(&batch.map_err(io::Error::other)?)?;
            }
        }
        Ok(())
    }
}

/// The files of the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    disk: Disk,
    folder: PathBuf,
    /// Existing files with their sizes, by number.
    files: BTreeMap<u64, u64>,
    /// The file being appended to.
    open: Option<(u64, File)>,
    pub(super) bytes_max: u64,
    /// Files up to this one are on disk in another form.
    flushed_to: u64,
}

/// The result of reading the log at start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) rows: u64,
    /// Bytes of incomplete records.
    pub(super) torn: u64,
}

impl Log {
    /// Finds the files in a folder; removes those up to `flushed_to`, which are on disk in another
    /// form.
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
        for &number in log.files.keys() {
            let path = log.path(number);
            let file = File::open(&path).map_err(failed("read", &path))?;
            disk.sync(&file, &path)?;
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

    /// Passes all rows to `each`, and cuts incomplete records off.
    pub(super) fn replay(&mut self, mut each: impl FnMut(&Arc<Dataset>, &RecordBatch)) -> Replayed {
        let mut replayed = Replayed::default();
        for number in self.files.keys().copied().collect::<Vec<_>>() {
            let path = self.path(number);
            let mut whole = 0;
            let read = File::open(&path).and_then(|file| {
                let file = Arc::new(file);
                while whole < file.metadata()?.len() {
                    let (blocks, end) = read_record(&file, whole)?;
                    // All of a record, or nothing.
                    let batches = blocks.map(|batch| {
                        let batch = batch?;
                        Ok((dataset_of(&batch)?, batch))
                    });
                    for (dataset, batch) in batches.collect::<io::Result<Vec<_>>>()? {
                        replayed.rows += batch.num_rows() as u64;
                        each(&dataset, &batch);
                    }
                    whole = end;
                }
                Ok(())
            });
            let Err(error) = read else { continue };
            let torn = self.files.get(&number).map_or(0, |bytes| bytes - whole);
            warn!(file = %path.display(), %error, bytes = torn, "Left out the end of the log of seconds, which was not finished.");
            replayed.torn += torn;
            // If it is read again, the result is the same.
            let file = File::options().write(true).open(&path);
            let cut = file.map_err(failed("cut", &path));
            if cut
                .and_then(|mut file| self.disk.cut(&mut file, &path, whole))
                .is_ok()
            {
                self.files.insert(number, whole);
            }
        }
        replayed
    }

    /// Appends additions, and syncs.
    ///
    /// # Errors
    /// Fails if that is impossible: nothing may be appended to that file any more.
    pub(super) fn append(&mut self, fresh: &Fresh) -> Result<(), StoreError> {
        for rows in fresh.rows.chunk_by(|a, b| a.file == b.file) {
            let number = rows[0].file;
            if number <= self.flushed_to {
                continue;
            }
            let path = self.path(number);
            let record = || {
                let mut record = Record::default();
                rows.iter().try_for_each(|it| it.push_to(&mut record))?;
                record.finish()
            };
            let record = record().map_err(failed("write", &path))?;
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

/// The dataset of a batch.
fn dataset_of(batch: &RecordBatch) -> io::Result<Arc<Dataset>> {
    let schema = batch.schema();
    let dataset = schema.metadata().get(DATASET);
    Ok(Arc::new(serde_json::from_str(
        dataset.map_or("", String::as_str),
    )?))
}
