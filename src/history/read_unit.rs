//! The units to read of a dataset at one moment: row groups of files, shares of pending ones, and
//! rows in memory.
//!
//! A reader holds references to all of them, and a copy of the rows in memory, so its data does not
//! change however long it takes. Units are read on as many threads as there are processors, each as
//! batches of [stored](super::columns) columns.

use std::fs::File;
use std::io;
use std::iter;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use datafusion::arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{ArrowPredicate, RowSelection};
use tracing::warn;

use super::columns::{
    Batches, Columns, Content, HISTOGRAM, RowReader, StoredRows, Want, columns, equal_to,
};
use super::parquet::{Bounds, Opened, ReadAs};
use super::part::Part;
use super::pending::{PackedRows, PendingFile};
use super::read_plan::ReadPlan;
use super::requests::unflushed::{UnflushedRequests, packed_in, unpacked};
use super::row::StoredRow;
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
        let mut memory = datasets.map(|_| Vec::new());
        let parts = history.view(|rows| {
            let each = memory.iter_mut().zip(datasets);
            each.for_each(|(memory, dataset)| memory.extend(rows.batches(dataset)));
        });
        memory.map(|memory| Self { parts: Arc::clone(&parts), memory: memory.into() })
    }

    /// The first minute that rows of the dataset tell apart, in unix seconds.
    pub(crate) fn minutes_from(&self, dataset: &Dataset) -> Option<u64> {
        let parts = self.parts.iter().filter(|part| part.resolution == Resolution::Minute);
        Self { parts: parts.cloned().collect(), ..self.clone() }.kept_from(dataset)
    }

    /// The first time with rows of the dataset, in unix seconds. Rows of hours and days may start
    /// before their data: if finer rows start within the first of them, these decide.
    pub(crate) fn kept_from(&self, dataset: &Dataset) -> Option<u64> {
        let columns = columns(dataset);
        let in_memory = self.memory.iter().flat_map(|batch| {
            let rows = StoredRows::new(&columns, batch);
            (0..rows.len).map(move |row| rows.time(row)).min()
        });
        Resolution::ALL.into_iter().fold(in_memory.min(), |finer, resolution| {
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

/// A unit of work for one thread.
#[derive(Debug, Clone)]
pub(crate) struct ReadUnit {
    /// The part that it is from, unless it is in memory.
    part: Option<Arc<Part>>,
    rows: UnitRows,
    /// The times of its rows that count.
    times: Range<u64>,
}

#[derive(Debug, Clone)]
enum UnitRows {
    /// Rows of a row group of a file.
    Group(Arc<Opened>, usize, RowSelection),
    /// A share of a pending file.
    Pending(Arc<PendingFile>, Range<u64>),
    Memory(Arc<[RecordBatch]>),
    Requests(UnflushedRequests),
}

/// Consecutive rows of a unit that are added to the same sum.
#[derive(Debug)]
pub(super) struct Run {
    /// The number of the sum.
    pub(super) to: u32,
    /// The numbers of the rows.
    rows: Range<u32>,
}

impl Run {
    /// Records to which sum a row is added: rows come in order.
    pub(super) fn note(runs: &mut Vec<Self>, to: u32, row: usize) {
        let row = row as u32;
        match runs.last_mut() {
            Some(last) if last.to == to && last.rows.end == row => last.rows.end += 1,
            _ => runs.push(Self { to, rows: row..row + 1 }),
        }
    }
}

impl ReadUnit {
    /// The units of a plan's rows, and of those not on disk yet: of all keys, or of one, as far as
    /// others are easily left out. Also returns errors.
    pub(super) fn all(
        from: RowsSnapshot,
        dataset: &Dataset,
        plan: &ReadPlan,
        key: Option<&[u8]>,
    ) -> (Vec<Self>, Vec<String>) {
        let equal = key.map(|key| equal_to(&columns(dataset), key)).unwrap_or_default();
        let read_as = ReadAs { equal, ..ReadAs::default() };
        let mut lacking = Vec::new();
        let mut units = vec![Self::of_memory(from.memory, plan.span.clone())];
        for (part, times) in &plan.reads {
            match Self::of_part(part, times, dataset, &read_as) {
                Ok(of_part) => units.extend(of_part),
                Err(error) => lacking.push(unread_error(part, &error).to_string()),
            }
        }
        (units, lacking)
    }

    /// Rows in memory.
    pub(crate) fn of_memory(rows: Arc<[RecordBatch]>, times: Range<u64>) -> Self {
        Self { part: None, rows: UnitRows::Memory(rows), times }
    }

    /// Raw requests that are in no part yet.
    pub(super) fn of_requests(requests: UnflushedRequests) -> Self {
        Self { part: None, rows: UnitRows::Requests(requests), times: 0..u64::MAX }
    }

    /// The units of a part, in order. Raw requests of a piece are in one.
    pub(super) fn of_part(
        part: &Arc<Part>,
        times: &Range<u64>,
        dataset: &Dataset,
        read_as: &ReadAs,
    ) -> io::Result<Vec<Self>> {
        let unit = |rows| Self { part: Some(Arc::clone(part)), rows, times: times.clone() };
        if part.is_published() {
            let opened = Arc::new(Opened::new(&part.path, read_as)?);
            let groups = opened.groups()?.into_iter();
            let rows = |(group, rows)| UnitRows::Group(Arc::clone(&opened), group, rows);
            return Ok(groups.map(rows).map(unit).collect());
        }
        let pending = Arc::new(PendingFile::open(File::open(&part.path)?)?);
        let shares = match dataset.is_raw() {
            true => vec![pending.all(&packed_in(dataset))],
            false => pending.shares(dataset),
        };
        let rows = |share| UnitRows::Pending(Arc::clone(&pending), share);
        Ok(shares.into_iter().map(rows).map(unit).collect())
    }

    /// Batches with at least these columns, as far as they are stored: of all its rows, or of those
    /// of a file that have these numbers. Rows of a file that do not pass these tests are left out.
    pub(super) fn batches(
        &self,
        dataset: &Dataset,
        columns: &[&str],
        numbers: Option<Vec<Range<usize>>>,
        tests: impl FnOnce(&Opened) -> Vec<Box<dyn ArrowPredicate>>,
    ) -> io::Result<Batches> {
        Ok(match &self.rows {
            UnitRows::Group(opened, group, rows) => {
                let all = rows.row_count();
                let some = numbers
                    .map(|it| RowSelection::from_consecutive_ranges(it.into_iter(), all))
                    .map(|some| rows.and_then(&some));
                let rows = some.unwrap_or_else(|| rows.clone());
                opened.batches(*group, rows, columns.iter().copied(), tests(opened))?
            }
            UnitRows::Pending(pending, share) if dataset.is_raw() => {
                let rows = pending.blocks(&packed_in(dataset), share.clone());
                let mut rows = PackedRows::new(rows);
                unpacked(dataset, columns, move |to| {
                    let row = rows.next()?;
                    to.extend_from_slice(row.unwrap_or_default());
                    Ok(row.is_some())
                })
            }
            UnitRows::Pending(pending, share) => pending.blocks(dataset, share.clone()),
            UnitRows::Memory(batches) => Box::new(Vec::from(&batches[..]).into_iter().map(Ok)),
            UnitRows::Requests(requests) => requests.clone().batches(dataset, columns),
        })
    }

    /// The smallest and the largest value of a stored column, if known.
    pub(super) fn bounds(&self, column: &str) -> Bounds {
        let UnitRows::Group(opened, group, _) = &self.rows else { return [None, None] };
        opened.bounds(*group, column)
    }

    /// The number of its rows, if it is of a file.
    pub(super) fn rows_of_file(&self) -> Option<u64> {
        let UnitRows::Group(_, _, rows) = &self.rows else { return None };
        Some(rows.row_count() as u64)
    }

    pub(super) fn resolution(&self) -> Resolution {
        self.part.as_ref().map_or(Resolution::Minute, |part| part.resolution)
    }

    /// Batches of all its rows with these columns.
    fn all_batches(&self, dataset: &Dataset, columns: &Columns) -> io::Result<Batches> {
        let names: Vec<&str> = columns.iter().map(|(name, _)| &**name).collect();
        self.batches(dataset, &names, None, |_| Vec::new())
    }

    /// Passes its rows with their numbers to `each`; the error is a remark.
    pub(super) fn rows(
        &self,
        dataset: &Dataset,
        want: Want,
        each: &mut dyn FnMut(usize, &StoredRow<'_>),
    ) -> Result<(), String> {
        let mut read = || {
            let columns = want.columns(dataset);
            let batches = self.all_batches(dataset, &columns)?;
            let mut rows = RowReader::new(batches, columns, self.times.clone());
            while rows.advance()? {
                each(rows.number(), &rows.row());
            }
            Ok(())
        };
        read().map_err(|error: io::Error| match &self.part {
            Some(part) => unread_error(part, &error).to_string(),
            None => error.to_string(),
        })
    }

    /// Passes the encoded histograms of rows to `each`, each with the number of its sum.
    pub(super) fn histograms<'r>(
        &self,
        dataset: &Dataset,
        runs: impl Iterator<Item = &'r Run> + Clone,
        each: &mut dyn FnMut(u32, Option<&[u8]>),
    ) -> io::Result<()> {
        let numbers = runs.clone().map(|Run { rows, .. }| rows.start as usize..rows.end as usize);
        let numbers: Vec<_> = numbers.collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let columns = vec![(HISTOGRAM.to_owned(), Content::Histogram)];
        let batches = self.batches(dataset, &[HISTOGRAM], Some(numbers), |_| Vec::new())?;
        let are_all_wanted = self.rows_of_file().is_some();
        let wanted = runs.flat_map(|run| run.rows.clone().map(|number| (number as usize, run.to)));
        let mut wanted = wanted.peekable();
        let mut rows = RowReader::new(batches, columns, 0..u64::MAX);
        while rows.advance()? {
            if let Some((_, to)) = wanted.next_if(|it| are_all_wanted || it.0 == rows.number()) {
                each(to, rows.row().histogram);
            }
        }
        Ok(())
    }
}

impl Part {
    /// Reads its rows of a dataset whose minute, hour or day begins in a span, in order.
    pub(super) fn reader(
        self: &Arc<Self>,
        dataset: &Dataset,
        span: Range<u64>,
        want: Want,
    ) -> io::Result<RowReader> {
        let units = ReadUnit::of_part(self, &span, dataset, &ReadAs::default())?;
        let (columns, dataset) = (want.columns(dataset), dataset.clone());
        let wanted = columns.clone();
        let batches = units.into_iter().flat_map(move |unit| {
            let batches = unit.all_batches(&dataset, &wanted);
            batches.unwrap_or_else(|error| Box::new(iter::once(Err(error))))
        });
        Ok(RowReader::new(Box::new(batches), columns, span))
    }

    /// Calls `each` for the rows of a dataset whose minute, hour or day begins in a span.
    ///
    /// # Errors
    /// Any I/O error, and damage.
    pub fn read(
        self: &Arc<Self>,
        dataset: &Dataset,
        span: Range<u64>,
        want: Want,
        each: &mut dyn FnMut(&Row),
    ) -> io::Result<()> {
        let mut rows = self.reader(dataset, span, want)?;
        while rows.advance()? {
            each(&rows.row().decoded(&dataset.buckets));
        }
        Ok(())
    }
}

/// The remark, as an error, on a part that could not be read; logs that, and has the history thread
/// look at it.
pub(super) fn unread_error(part: &Part, error: &io::Error) -> io::Error {
    let name = part.path.file_name().unwrap_or_default();
    // A folder that is not there for a while is not damage.
    if error.kind() != io::ErrorKind::NotFound && !part.suspect.swap(true, Ordering::Relaxed) {
        warn!(file = %part.path.display(), %error, "A file of history cannot be read: answers lack its rows.");
    }
    io::Error::new(error.kind(), format!("{} could not be read: {error}", name.display()))
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
        let numbers = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|at| *at < count).for_each(|at| work(at, &mut done));
        done
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..processors.min(count)).map(|_| scope.spawn(share)).collect();
        let own = share();
        let done = others.into_iter().map(|it| it.join().unwrap_or_else(|why| resume_unwind(why)));
        iter::once(own).chain(done).collect()
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
                let path = "pending/part".into();
                Arc::new(Part { path, resolution, span, sections, ..Part::default() })
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
