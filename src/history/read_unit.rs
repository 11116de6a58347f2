//! The units to read of a dataset at one moment: row groups of files, shares of pending ones, and
//! rows in memory.
//!
//! A reader holds references to all of them, and a copy of the rows in memory, so its data does not
//! change however long it takes. Units are read on as many threads as there are processors, each as
//! batches of [stored](super::columns) columns.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use datafusion::arrow::array::RecordBatch;
use tracing::warn;

use super::columns::{Columns, Content, HISTOGRAM, StoredRows, Want, columns, equal_to};
use super::histogram::HistogramRef;
use super::parquet::{Opened, ReadAs};
use super::part::Part;
use super::pending::PendingFile;
use super::read_plan::ReadPlan;
use super::{Dataset, History, Resolution, Row};

/// The rows at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowsSnapshot {
    /// On disk.
    pub(crate) parts: Arc<[Arc<Part>]>,
    /// Rows of the requested dataset in memory: a copy of its minutes.
    pub(crate) memory: Arc<[RecordBatch]>,
}

impl RowsSnapshot {
    /// Those of a dataset.
    pub(crate) fn of(history: &History, dataset: &Dataset) -> Self {
        let [rows] = Self::of_each(history, [dataset]);
        rows
    }

    /// Those of some datasets at the same moment.
    pub(crate) fn of_each<const N: usize>(history: &History, datasets: [&Dataset; N]) -> [Self; N] {
        let mut running = Vec::new();
        let view = history.view(|rows| running.extend(datasets.map(|of| rows.batches(of))));
        let mut running = running.into_iter();
        datasets.map(|dataset| {
            let mut memory = running.next().unwrap_or_default();
            let flushing = view.flushing.iter();
            memory.extend(flushing.flat_map(|rows| rows.batches(dataset)));
            Self { parts: Arc::clone(&view.parts), memory: memory.into() }
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
        Resolution::ALL.into_iter().fold(unstored, |finer, resolution| {
            let parts =
                self.parts.iter().filter(|part| part.resolution == resolution && part.has(dataset));
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
pub(super) struct ReadUnit {
    /// The part that it is from, unless it is in memory.
    part: Option<Arc<Part>>,
    source: Source,
    /// The times of its rows that count.
    pub(super) times: Range<u64>,
}

#[derive(Debug)]
enum Source {
    /// Rows of a row group of a file.
    Group(Arc<Opened>, usize, Vec<Range<usize>>),
    /// A share of a pending file.
    Pending(Arc<PendingFile>, Range<u64>),
    Memory(Arc<[RecordBatch]>),
}

/// Consecutive rows of a unit that are added to the same sum.
#[derive(Debug)]
pub(super) struct Run {
    /// The number of the sum.
    pub(super) to: u32,
    places: Range<u32>,
}

impl Run {
    /// Records to which sum a row is added: rows come in order.
    pub(super) fn note(runs: &mut Vec<Self>, to: u32, place: usize) {
        let place = place as u32;
        match runs.last_mut() {
            Some(last) if last.to == to && last.places.end == place => last.places.end += 1,
            _ => runs.push(Self { to, places: place..place + 1 }),
        }
    }
}

impl ReadUnit {
    /// The units of a plan's rows, and of those not on disk yet: of all keys, or of one. Also
    /// returns errors.
    pub(super) fn all(
        from: RowsSnapshot,
        dataset: &Dataset,
        plan: &ReadPlan,
        key: Option<&[u8]>,
    ) -> (Vec<Self>, Vec<String>) {
        let equal = key.map(|key| equal_to(&columns(dataset), key));
        let read_as = ReadAs::coded(equal.unwrap_or_default());
        let mut lacking = Vec::new();
        let mut units = vec![Self::of_memory(from.memory, plan.span.clone())];
        for (part, times) in &plan.reads {
            match Self::of_part(part, times, dataset, &read_as) {
                Ok(of_part) => units.extend(of_part),
                Err(error) => lacking.push(unread(part, &error)),
            }
        }
        (units, lacking)
    }

    /// Rows in memory.
    pub(super) fn of_memory(rows: Arc<[RecordBatch]>, times: Range<u64>) -> Self {
        Self { part: None, source: Source::Memory(rows), times }
    }

    /// The units of a part.
    pub(super) fn of_part(
        part: &Arc<Part>,
        times: &Range<u64>,
        dataset: &Dataset,
        read_as: &ReadAs,
    ) -> io::Result<Vec<Self>> {
        let unit = |source| Self { part: Some(Arc::clone(part)), source, times: times.clone() };
        let file = File::open(&part.path)?;
        if !part.is_published() {
            let pending = Arc::new(PendingFile::open(file)?);
            let shares = pending.shares(dataset).into_iter();
            let source = |share| Source::Pending(Arc::clone(&pending), share);
            return Ok(shares.map(source).map(unit).collect());
        }
        let opened = Arc::new(Opened::new(&file, read_as)?);
        let groups = opened.groups(&read_as.equal).into_iter();
        let source = |(group, places)| Source::Group(Arc::clone(&opened), group, places);
        Ok(groups.map(source).map(unit).collect())
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
        Ok(match &self.source {
            Source::Group(opened, group, places) => {
                let places = at.unwrap_or(places);
                let path = self.part.as_ref().map_or(Path::new(""), |part| &part.path);
                Box::new(opened.batches(File::open(path)?, *group, places, columns, read_as)?)
            }
            Source::Pending(pending, share) => Box::new(pending.blocks(dataset, share.clone())),
            Source::Memory(batches) => {
                let batches = Arc::clone(batches);
                Box::new((0..batches.len()).map(move |at| Ok(batches[at].clone())))
            }
        })
    }

    pub(super) fn resolution(&self) -> Resolution {
        let part = self.part.as_ref();
        part.map_or(Resolution::Minute, |part| part.resolution)
    }

    /// The numbers of the rows read: for files those at these positions.
    fn numbers(&self, at: Option<&[Range<usize>]>) -> Box<dyn Iterator<Item = usize>> {
        match &self.source {
            Source::Group(_, _, places) => {
                let places = at.unwrap_or(places).to_vec();
                Box::new(places.into_iter().flatten())
            }
            Source::Pending(..) | Source::Memory(_) => Box::new(0..),
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
                if rows.read(at, &self.times, &mut row) {
                    each(number, &row);
                }
            }
        }
        Ok(())
    }

    /// The histograms of rows, each with the number of its sum.
    pub(super) fn histograms<'r>(
        &self,
        dataset: &Dataset,
        runs: impl Iterator<Item = &'r Run> + Clone,
        each: &mut dyn FnMut(u32, HistogramRef<'_>),
    ) -> io::Result<()> {
        let mut places: Vec<Range<usize>> = Vec::new();
        for Run { places: more, .. } in runs.clone() {
            let more = more.start as usize..more.end as usize;
            match places.last_mut().filter(|last| last.end == more.start) {
                Some(last) => last.end = more.end,
                None => places.push(more),
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        let columns = vec![(HISTOGRAM.to_owned(), Content::Histogram)];
        let mut numbers = self.numbers(Some(&places));
        let batches = self.batches(dataset, &columns, Some(&places), &ReadAs::coded(Vec::new()))?;
        let wanted = runs.flat_map(|run| run.places.clone().map(|place| (place, run.to)));
        let mut wanted = wanted.peekable();
        for batch in batches {
            let rows = StoredRows::new(&columns, None, &batch?);
            for (row, number) in (0..rows.len).zip(&mut numbers) {
                if let Some((_, to)) = wanted.next_if(|it| it.0 as usize == number) {
                    let blob = rows.blob(row);
                    each(to, blob.map_or(HistogramRef::Unknown, HistogramRef::Encoded));
                }
            }
        }
        Ok(())
    }

    pub(super) fn unread(&self, error: &io::Error) -> String {
        let part = self.part.as_ref();
        part.map_or_else(|| error.to_string(), |part| unread(part, error))
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
                false => ReadUnit::of_part(self, &span, dataset, &ReadAs::coded(Vec::new()))?,
            };
            let mut units = units.iter();
            units.try_for_each(|unit| unit.rows(dataset, want, &mut |_, row| each(row)))
        };
        read().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        })
    }
}

/// A remark on a part that could not be read; logs that, and has the history thread look at it.
pub(super) fn unread(part: &Part, error: &io::Error) -> String {
    let name = part.path.file_name().unwrap_or_default();
    // A folder that is not there for a while is not damage.
    if error.kind() != io::ErrorKind::NotFound && !part.suspect.swap(true, Ordering::Relaxed) {
        warn!(file = %part.path.display(), %error, "A file of history cannot be read: answers lack its rows.");
    }
    format!("{} could not be read: {error}", name.display())
}

/// Likewise as an error.
pub(super) fn unread_error(part: &Part, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), unread(part, error))
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
                let span = start..start + resolution.secs();
                let sections = vec![Section { dataset, rows: 1 }];
                Arc::new(Part::new("pending/part".into(), resolution, span, sections))
            };
            let parts = parts.iter().map(part).collect();
            let rows = RowsSnapshot { parts, ..RowsSnapshot::default() };
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
