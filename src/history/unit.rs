//! What there is to read of a dataset at one moment: row groups of files, pieces, and what is in memory.
//!
//! A reader holds references to all of it, and a copy of the rows that are still being added to, so what it reads does not
//! change however long it takes. Units of it are read on as many threads as there are processors.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::batch::Stored;
use super::histogram::Kept;
use super::parquet::{Opened, Want};
use super::part::Part;
use super::piece::Piece;
use super::plan::Plan;
use super::{Batch, Dataset, History, Resolution, Row, RowRef};

/// What there was at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowsAt {
    /// On disk.
    pub(crate) parts: Arc<[Arc<Part>]>,
    /// On the way there.
    pub(crate) flushing: Option<Arc<Batch>>,
    /// Of the dataset that is asked for, in memory: a copy.
    pub(crate) running: Arc<[Row]>,
}

impl RowsAt {
    /// Those of a dataset.
    pub(crate) fn of(history: &History, dataset: &Dataset) -> Self {
        let mut running = Vec::new();
        let view = history.view(|batch| {
            running.extend(batch.stored(dataset, batch.span()).map(Stored::to_row));
        });
        Self {
            parts: view.parts,
            flushing: view.flushing,
            running: running.into(),
        }
    }

    /// Those of two datasets at the same moment.
    pub(crate) fn of_both(history: &History, datasets: [&Dataset; 2]) -> [Self; 2] {
        let mut running = [Vec::new(), Vec::new()];
        let view = history.view(|batch| {
            for (dataset, rows) in datasets.into_iter().zip(&mut running) {
                rows.extend(batch.stored(dataset, batch.span()).map(Stored::to_row));
            }
        });
        running.map(|running| Self {
            parts: Arc::clone(&view.parts),
            flushing: view.flushing.clone(),
            running: running.into(),
        })
    }

    /// From when on there are rows of the dataset, unix seconds. Rows of hours and days begin before what they hold: where finer
    /// rows begin within the first of them, these tell.
    pub(crate) fn kept_from(&self, dataset: &Dataset) -> Option<u64> {
        let batch = self.flushing.iter().map(|batch| batch.span());
        let batch = batch.filter(|span| !span.is_empty());
        let running = self.running.iter().map(|row| row.time);
        let unstored = batch.map(|span| span.start).chain(running).min();
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

/// Something to read on one thread.
#[derive(Debug)]
pub(super) enum Unit {
    /// Rows of a row group of a file.
    Group(Arc<Part>, Arc<Opened>, usize, Vec<Range<usize>>, Range<u64>),
    /// A share of a piece.
    Piece(Arc<Part>, Arc<Piece>, Range<u64>, Range<u64>),
    /// What is on the way to the disk.
    Flushing(Arc<Batch>, Range<u64>),
    /// What is in memory.
    Running(Arc<[Row]>, Range<u64>),
}

impl Unit {
    /// What is to be read of the rows of a plan, and of those that are not on disk yet: of all keys, or of one. And what cannot
    /// be read.
    pub(super) fn all(
        from: RowsAt,
        dataset: &Dataset,
        plan: &Plan,
        key: Option<&[u8]>,
    ) -> (Vec<Self>, Vec<String>) {
        let mut lacking = Vec::new();
        let mut units = Vec::new();
        for (part, times) in &plan.reads {
            match Self::of_part(part, times, dataset, key) {
                Ok(of_part) => units.extend(of_part),
                Err(error) => lacking.push(unread(part, &error)),
            }
        }
        let span = &plan.span;
        units.extend(
            from.flushing
                .map(|batch| Self::Flushing(batch, span.clone())),
        );
        units.push(Self::Running(from.running, span.clone()));
        (units, lacking)
    }

    fn of_part(
        part: &Arc<Part>,
        times: &Range<u64>,
        dataset: &Dataset,
        key: Option<&[u8]>,
    ) -> io::Result<Vec<Self>> {
        let file = File::open(&part.path)?;
        if !part.is_published() {
            let piece = Arc::new(Piece::open(file)?);
            let shares = piece.shares(dataset).into_iter();
            let unit = |share| {
                let (part, piece) = (Arc::clone(part), Arc::clone(&piece));
                Self::Piece(part, piece, share, times.clone())
            };
            return Ok(shares.map(unit).collect());
        }
        let opened = Arc::new(Opened::new(&file, dataset)?);
        let unit = |(group, places)| {
            let (part, opened) = (Arc::clone(part), Arc::clone(&opened));
            Self::Group(part, opened, group, places, times.clone())
        };
        Ok(opened.groups(key).into_iter().map(unit).collect())
    }

    /// Its rows, each with its place; of files what is wanted, of pieces no histograms, of memory all.
    pub(super) fn rows(
        &self,
        dataset: &Dataset,
        want: Want,
        each: &mut dyn FnMut(usize, RowRef<'_>),
    ) -> io::Result<()> {
        match self {
            Self::Group(part, opened, group, places, times) => {
                let file = File::open(&part.path)?;
                opened.rows(file, *group, places, times, want, each)
            }
            Self::Piece(_, piece, share, times) => {
                let mut rows = piece.rows_of(dataset, share.clone());
                rows.each(&mut |place, row| {
                    if times.contains(&row.time) {
                        each(place, row);
                    }
                })
            }
            Self::Flushing(batch, times) => {
                let mut places = 0..;
                batch.rows(dataset, times.clone(), |row| {
                    each(places.next().unwrap_or_default(), row);
                });
                Ok(())
            }
            Self::Running(rows, times) => {
                let inside = rows.iter().enumerate();
                let inside = inside.filter(|(_, row)| times.contains(&row.time));
                inside.for_each(|(place, row)| each(place, row.as_ref()));
                Ok(())
            }
        }
    }

    /// The histograms of rows at places that ascend.
    pub(super) fn histograms(
        &self,
        dataset: &Dataset,
        places: &[Range<usize>],
        each: &mut dyn FnMut(usize, Kept<'_>),
    ) -> io::Result<()> {
        let mut encoded = |place, bytes: Option<&[u8]>| each(place, Kept::encoded(bytes));
        match self {
            Self::Group(part, opened, group, ..) => {
                let file = File::open(&part.path)?;
                opened.histograms(file, *group, places, &mut encoded)
            }
            Self::Piece(_, piece, share, _) => {
                let mut rows = piece.rows_of(dataset, share.clone());
                rows.histograms(places.iter().cloned().flatten(), &mut encoded)
            }
            Self::Flushing(..) | Self::Running(..) => {
                let mut wanted = places.iter().cloned().flatten().peekable();
                self.rows(dataset, Want::ALL, &mut |place, row| {
                    if wanted.next_if_eq(&place).is_some() {
                        let histogram = row.gain.sum.histogram();
                        each(place, histogram.map_or(Kept::Unknown, Kept::Counted));
                    }
                })
            }
        }
    }

    pub(super) fn unread(&self, error: &io::Error) -> String {
        match self {
            Self::Group(part, ..) | Self::Piece(part, ..) => unread(part, error),
            Self::Flushing(..) | Self::Running(..) => error.to_string(),
        }
    }
}

fn unread(part: &Part, error: &io::Error) -> String {
    let name = part.path.file_name().unwrap_or_default();
    format!("{} could not be read: {error}", name.display())
}

/// Does so many pieces of work on all processors, and gives what each thread made of its share.
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
        // Finer rows that are kept for less long.
        let later = (Resolution::Minute, 86_400 + 10_860);
        assert_eq!(kept_from(&[later, day, hour]), Some(93_600));
        let much_later = (Resolution::Hour, 10 * 86_400);
        assert_eq!(kept_from(&[much_later, day]), Some(86_400));
    }
}
