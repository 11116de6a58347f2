//! The units to read of a dataset at one moment: row groups of files, shares of pending ones, and
//! rows in memory.
//!
//! A reader holds references to all of them, and a copy of the rows in memory, so its data does not
//! change however long it takes. Units are read on as many threads as there are processors, each as
//! batches of [stored](super::stored) columns.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use datafusion::arrow::array::RecordBatch;

use super::histogram::HistogramRef;
use super::parquet::{Opened, ReadAs};
use super::part::Part;
use super::pending::PendingFile;
use super::plan::Plan;
use super::stored::{Columns, Content, HISTOGRAM, StoredRows, Want, columns, equal_to};
use super::{Dataset, History, Resolution, Row};

/// The rows at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowsAt {
    /// On disk.
    pub(crate) parts: Arc<[Arc<Part>]>,
    /// Rows of the requested dataset in memory: a copy of its minutes.
    pub(crate) memory: Arc<[RecordBatch]>,
}

impl RowsAt {
    /// Those of a dataset.
    pub(crate) fn of(history: &History, dataset: &Dataset) -> Self {
        let [rows] = Self::of_each(history, [dataset]);
        rows
    }

    /// Those of some datasets at the same moment.
    pub(crate) fn of_each<const N: usize>(history: &History, datasets: [&Dataset; N]) -> [Self; N] {
        let mut running = Vec::new();
        let view = history.view(|batch| running.extend(datasets.map(|of| batch.batches(of))));
        let mut running = running.into_iter();
        datasets.map(|dataset| {
            let mut memory = running.next().unwrap_or_default();
            let flushing = view.flushing.iter();
            memory.extend(flushing.flat_map(|batch| batch.batches(dataset)));
            Self {
                parts: Arc::clone(&view.parts),
                memory: memory.into(),
            }
        })
    }

    /// The first time with rows of the dataset, in unix seconds. Rows of hours and days may start
    /// before their data: if finer rows start within the first of them, these decide.
    pub(crate) fn kept_from(&self, dataset: &Dataset) -> Option<u64> {
        let columns = columns(dataset);
        let in_memory = self.memory.iter().flat_map(|batch| {
            let rows = StoredRows::new(&columns, None, batch);
            (0..rows.len).map(move |row| rows.time(row)).min()
        });
        let unstored = in_memory.min();
        Resolution::ALL
            .into_iter()
            .fold(unstored, |finer, resolution| {
                let parts = self
                    .parts
                    .iter()
                    .filter(|part| part.resolution == resolution && part.has(dataset));
                let coarser = parts.map(|part| part.span.start).min();
                match (finer, coarser) {
                    (Some(finer), Some(coarser)) if coarser + resolution.secs() <= finer => {
                        Some(coarser)
                    }
                    (finer, coarser) => finer.or(coarser),
                }
            })
    }
}

/// Batches of rows.
pub(crate) type Batches = Box<dyn Iterator<Item = io::Result<RecordBatch>> + Send>;

/// A unit of work for one thread.
#[derive(Debug)]
pub(super) enum Unit {
    /// Rows of a row group of a file.
    Group(Arc<Part>, Arc<Opened>, usize, Vec<Range<usize>>, Range<u64>),
    /// A share of a pending file.
    Pending(Arc<Part>, Arc<PendingFile>, Range<u64>, Range<u64>),
    /// Rows in memory.
    Memory(Arc<[RecordBatch]>, Range<u64>),
}

impl Unit {
    /// The units of a plan's rows, and of those not on disk yet: of all keys, or of one. Also
    /// returns errors.
    pub(super) fn all(
        from: RowsAt,
        dataset: &Dataset,
        plan: &Plan,
        key: Option<&[u8]>,
    ) -> (Vec<Self>, Vec<String>) {
        let equal = key.map(|key| equal_to(&columns(dataset), key));
        let read_as = ReadAs::coded(equal.unwrap_or_default());
        let mut lacking = Vec::new();
        let mut units = vec![Self::Memory(from.memory, plan.span.clone())];
        for (part, times) in &plan.reads {
            match Self::of_part(part, times, dataset, &read_as) {
                Ok(of_part) => units.extend(of_part),
                Err(error) => lacking.push(unread(part, &error)),
            }
        }
        (units, lacking)
    }

    /// The units of a part.
    pub(super) fn of_part(
        part: &Arc<Part>,
        times: &Range<u64>,
        dataset: &Dataset,
        read_as: &ReadAs,
    ) -> io::Result<Vec<Self>> {
        let file = File::open(&part.path)?;
        if !part.is_published() {
            let pending = Arc::new(PendingFile::open(file)?);
            let shares = pending.shares(dataset).into_iter();
            let unit = |share| {
                let (part, pending) = (Arc::clone(part), Arc::clone(&pending));
                Self::Pending(part, pending, share, times.clone())
            };
            return Ok(shares.map(unit).collect());
        }
        let opened = Arc::new(Opened::new(&file, read_as)?);
        let unit = |(group, places)| {
            let (part, opened) = (Arc::clone(part), Arc::clone(&opened));
            Self::Group(part, opened, group, places, times.clone())
        };
        Ok(opened
            .groups(&read_as.equal)
            .into_iter()
            .map(unit)
            .collect())
    }

    /// Batches with at least these columns, as far as they are stored: of all its rows, or of a
    /// file's rows at ascending positions.
    pub(super) fn batches(
        &self,
        dataset: &Dataset,
        columns: &[(String, Content)],
        at: Option<&[Range<usize>]>,
        read_as: &ReadAs,
    ) -> io::Result<Batches> {
        Ok(match self {
            Self::Group(part, opened, group, places, _) => {
                let file = File::open(&part.path)?;
                Box::new(opened.batches(file, *group, at.unwrap_or(places), columns, read_as)?)
            }
            Self::Pending(_, pending, share, _) => Box::new(pending.blocks(dataset, share.clone())),
            Self::Memory(batches, _) => {
                let batches = Arc::clone(batches);
                Box::new((0..batches.len()).map(move |at| Ok(batches[at].clone())))
            }
        })
    }

    /// The times of its rows that count.
    pub(super) fn times(&self) -> &Range<u64> {
        match self {
            Self::Group(.., times) | Self::Pending(.., times) | Self::Memory(_, times) => times,
        }
    }

    pub(super) fn resolution(&self) -> Resolution {
        match self {
            Self::Group(part, ..) | Self::Pending(part, ..) => part.resolution,
            Self::Memory(..) => Resolution::Minute,
        }
    }

    /// The numbers of the rows read: for files those at these positions.
    fn numbers(&self, at: Option<&[Range<usize>]>) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Self::Group(.., places, _) => {
                let places = at.unwrap_or(places).to_vec();
                Box::new(places.into_iter().flatten())
            }
            Self::Pending(..) | Self::Memory(..) => Box::new(0..),
        }
    }

    /// Its rows with their numbers. Unwanted values are 0 or unknown.
    pub(super) fn rows(
        &self,
        dataset: &Dataset,
        want: Want,
        each: &mut dyn FnMut(usize, &Row),
    ) -> io::Result<()> {
        let mut columns: Columns = columns(dataset);
        columns.retain(|(_, content)| want.has(*content));
        let buckets = want.histograms.then_some(dataset.buckets);
        let (mut numbers, mut row) = (self.numbers(None), Row::default());
        for batch in self.batches(dataset, &columns, None, &ReadAs::coded(Vec::new()))? {
            let rows = StoredRows::new(&columns, buckets, &batch?);
            for (at, number) in (0..rows.len).zip(&mut numbers) {
                if rows.read(at, self.times(), &mut row) {
                    each(number, &row);
                }
            }
        }
        Ok(())
    }

    /// The histograms of rows with ascending numbers.
    pub(super) fn histograms(
        &self,
        dataset: &Dataset,
        wanted: &[Range<usize>],
        each: &mut dyn FnMut(usize, HistogramRef<'_>),
    ) -> io::Result<()> {
        let columns = vec![(HISTOGRAM.to_owned(), Content::Histogram)];
        let mut numbers = self.numbers(Some(wanted));
        let batches = self.batches(dataset, &columns, Some(wanted), &ReadAs::coded(Vec::new()))?;
        let mut wanted = wanted.iter().cloned().flatten().peekable();
        for batch in batches {
            let rows = StoredRows::new(&columns, None, &batch?);
            for (row, number) in (0..rows.len).zip(&mut numbers) {
                if wanted.next_if_eq(&number).is_some() {
                    let blob = rows.blob(row);
                    each(
                        number,
                        blob.map_or(HistogramRef::Unknown, HistogramRef::Encoded),
                    );
                }
            }
        }
        Ok(())
    }

    pub(super) fn unread(&self, error: &io::Error) -> String {
        match self {
            Self::Group(part, ..) | Self::Pending(part, ..) => unread(part, error),
            Self::Memory(..) => error.to_string(),
        }
    }
}

impl Part {
    /// Calls `each` for the rows of a report's dataset whose minute, hour or day begins in a span.
    ///
    /// # Errors
    /// Any I/O error, and damage; the error names the file.
    pub fn read(
        self: &Arc<Self>,
        dataset: &Dataset,
        span: Range<u64>,
        want: Want,
        each: &mut dyn FnMut(&Row),
    ) -> io::Result<()> {
        let mut read = || {
            let units = match dataset.is_raw() {
                true => Vec::new(),
                false => Unit::of_part(self, &span, dataset, &ReadAs::coded(Vec::new()))?,
            };
            let mut units = units.iter();
            units.try_for_each(|unit| unit.rows(dataset, want, &mut |_, row| each(row)))
        };
        read().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })
    }
}

fn unread(part: &Part, error: &io::Error) -> String {
    let name = part.path.file_name().unwrap_or_default();
    format!("{} could not be read: {error}", name.display())
}

/// Runs this many pieces of work on all processors, and returns the result of each thread.
pub(super) fn on_all_processors<T: Send>(
    count: usize,
    empty: impl Fn() -> T + Sync,
    work: impl Fn(usize, &mut T) + Sync,
) -> Vec<T> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = empty();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            work(at, &mut done);
        }
    };
    thread::scope(|scope| {
        let others = (1..processors.min(count)).map(|_| scope.spawn(share));
        let others: Vec<_> = others.collect();
        let own = share();
        let done = others.into_iter().map(|other| match other.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(done).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Section;

    #[test]
    fn coarse_rows_begin_before_what_they_hold() {
        let dataset = Arc::new(Dataset::coverage());
        let kept_from = |parts: &[(Resolution, u64)]| {
            let part = |&(resolution, start): &(Resolution, u64)| {
                let dataset = Arc::clone(&dataset);
                Arc::new(Part {
                    path: "pending/part".into(),
                    resolution,
                    span: start..start + resolution.secs(),
                    sections: vec![Section { dataset, rows: 1 }],
                    bytes: 1,
                    rolled: false,
                    written: 0,
                    crc: 0,
                })
            };
            let parts = parts.iter().map(part).collect();
            let rows = RowsAt {
                parts,
                ..RowsAt::default()
            };
            rows.kept_from(&dataset)
        };
        let day = (Resolution::Day, 86_400);
        let hour = (Resolution::Hour, 86_400 + 7_200);
        assert_eq!(kept_from(&[]), None);
        assert_eq!(kept_from(&[day]), Some(86_400));
        assert_eq!(kept_from(&[day, hour]), Some(93_600));
        let minute = (Resolution::Minute, 86_400 + 7_260);
        assert_eq!(kept_from(&[minute, day, hour]), Some(93_660));
        // Finer rows that are kept for a shorter time.
        let later = (Resolution::Minute, 86_400 + 10_860);
        assert_eq!(kept_from(&[later, day, hour]), Some(93_600));
        let much_later = (Resolution::Hour, 10 * 86_400);
        assert_eq!(kept_from(&[much_later, day]), Some(86_400));
    }
}
