//! The log of seconds (`history.log`): what was added to the rows in memory, on disk as soon as it is there, so that a kill takes no more
//! than a second or two.
//!
//! ```text
//!   series thread: rows in memory, and the same once more as Fresh --(history thread, as they come)--> pending/N.log
//!   a flush has what N.log has; its commit says so, and N.log goes; what no commit has the next start adds to the rows in memory
//!
//!   file:     | record .. |                     behind what a kill left unfinished nothing is read
//!   record:   | length | crc | block .. |       blocks as in pending files; the schema of each says whose rows it has
//! ```
//!
//! [`Fresh`] is filled under the lock of the rows, the [`Log`] belongs to the history thread: nobody else waits for its disk. Bounded
//! in memory by `bytes_max` of [`Fresh`], twice while one is written, on disk by an eighth of `history.size_max`; beyond either,
//! and when something cannot be written, there is no log until the next flush.

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

/// How files of the log end.
const LOG: &str = "log";
/// Where a schema says whose rows they are.
const DATASET: &str = "dataset";

/// Rows that were added and are not in the log yet.
#[derive(Debug)]
pub(super) struct Fresh {
    /// The file that gets what is added.
    file: u64,
    rows: Vec<FreshRows>,
    bytes: usize,
    bytes_max: usize,
}

/// Some of a dataset and time, for one file.
#[derive(Debug)]
struct FreshRows {
    file: u64,
    dataset: Arc<Dataset>,
    time: u64,
    rows: Vec<FreshRow>,
    /// Their keys and what they gained.
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
        // No more than a quarter of the memory stays empty.
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

    /// How many rows.
    pub(super) fn len(&self) -> u64 {
        self.rows.iter().map(|it| it.rows.len() as u64).sum()
    }

    /// Whether more came than there is memory for: some of it is missing.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// What was added, if there is something; what comes is added to the same file.
    pub(super) fn take(&mut self) -> Option<Self> {
        let rest = Self::new(self.file, self.bytes_max);
        (!self.rows.is_empty()).then(|| std::mem::replace(self, rest))
    }

    /// What comes belongs to another file.
    pub(super) fn turn_to(mut self, file: u64) -> Self {
        self.file = file;
        self
    }
}

impl FreshRows {
    /// Adds them to a record, as they are stored.
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
    /// Those that are there, with their bytes, by number.
    files: BTreeMap<u64, u64>,
    /// The one that is appended to.
    open: Option<(u64, File)>,
    pub(super) bytes_max: u64,
    /// What files up to this one have is on disk otherwise.
    flushed_to: u64,
}

/// What a start found in the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    pub(super) rows: u64,
    /// Bytes of records that were not finished.
    pub(super) torn: u64,
}

impl Log {
    /// Finds the files in a folder; those up to one number are on disk otherwise, and go.
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
        // The process before may have ended between writing and syncing. What comes back now is to stay.
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

    /// The number of the newest file that there is or was.
    pub(super) fn last(&self) -> u64 {
        let newest = self.files.keys().next_back();
        newest.map_or(self.flushed_to, |&newest| newest.max(self.flushed_to))
    }

    /// What all files take.
    pub(super) fn bytes(&self) -> u64 {
        self.files.values().sum()
    }

    /// Whether there should be a flush so that files go.
    pub(super) fn is_large(&self) -> bool {
        self.bytes() > self.bytes_max / 2
    }

    /// Gives all rows that are there to `each`, and cuts off what is not whole.
    pub(super) fn replay(&mut self, mut each: impl FnMut(&Arc<Dataset>, &RecordBatch)) -> Replayed {
        let mut replayed = Replayed::default();
        // One that is on disk otherwise is there still where it could not be removed.
        let numbers = self.files.range(self.flushed_to + 1..);
        for number in numbers.map(|(&number, _)| number).collect::<Vec<_>>() {
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
            // Should it be read once more, it is as it was now.
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

    /// Appends what came, and syncs it.
    ///
    /// # Errors
    /// When that cannot be done: nothing may be appended to that file any more.
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

    /// What is in files up to this one is on disk otherwise.
    pub(super) fn forget(&mut self, number: u64) {
        self.flushed_to = self.flushed_to.max(number);
        self.open.take_if(|(open, _)| *open <= number);
        let (disk, folder) = (&self.disk, &self.folder);
        // What cannot be removed now is the next time.
        self.files.retain(|&it, _| {
            it > number || disk.remove(&folder.join(format!("{it}.{LOG}"))).is_err()
        });
    }
}

/// Whose rows they are.
fn dataset_of(batch: &RecordBatch) -> io::Result<Arc<Dataset>> {
    let schema = batch.schema();
    let dataset = schema.metadata().get(DATASET);
    Ok(Arc::new(serde_json::from_str(
        dataset.map_or("", String::as_str),
    )?))
}
