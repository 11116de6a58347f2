//! Rows of several pending files, read side by side in order: rows of one key and time are merged
//! into one.

use std::ops::Range;
use std::path::PathBuf;

use super::columns::{RowReader, columns};
use super::disk::{Disk, StoreError, unreadable};
use super::parquet::order;
use super::part::Part;
use super::pending::PendingFile;
use super::{Dataset, Row};
use crate::report::histogram::BucketLayout;

/// A pending file to read.
pub(super) struct Source {
    path: PathBuf,
    file: PendingFile,
    /// Only rows of these times count.
    times: Range<u64>,
    /// Whether damage ends the rows, instead of being an error.
    ends_at_damage: bool,
}

impl Source {
    /// Opens a file for all its rows.
    pub(super) fn open(disk: &Disk, part: &Part) -> Result<Self, StoreError> {
        let file = disk.open(&part.path).and_then(PendingFile::open);
        let file = file.map_err(unreadable(&part.path))?;
        Ok(Self { path: part.path.clone(), file, times: 0..u64::MAX, ends_at_damage: false })
    }

    /// Opens a file for the rows of some times, up to any damage: every read returns the same rows.
    pub(super) fn of(part: &Part, times: Range<u64>) -> Result<Self, StoreError> {
        let source = Self::open(&Disk::default(), part)?;
        Ok(Self { times, ends_at_damage: true, ..source })
    }
}

/// The rows of one dataset in a file, one after the other.
struct Cursor<'s> {
    source: &'s Source,
    rows: RowReader,
    /// The reason why the rows end, if that is damage.
    damage: Option<String>,
}

/// The rows of a dataset in several pending files, in order, with those of one key and time added
/// up.
pub(super) struct Merged<'s> {
    cursors: Vec<Cursor<'s>>,
    buckets: BucketLayout,
    /// The files that have rows left: the one with the first row last.
    order: Vec<usize>,
    /// The span of all rows so far.
    pub(super) span: Range<u64>,
    secs: u64,
}

impl<'s> Merged<'s> {
    pub(super) fn new(sources: &'s [Source], dataset: &Dataset) -> Result<Self, StoreError> {
        let cursors = sources.iter().map(|source| {
            let blocks = source.file.all_blocks(dataset);
            let rows = RowReader::new(blocks, columns(dataset), source.times.clone());
            Cursor { source, rows, damage: None }
        });
        let mut merged = Self {
            cursors: cursors.collect(),
            buckets: dataset.buckets,
            order: Vec::with_capacity(sources.len()),
            span: Range { start: u64::MAX, end: 0 },
            secs: sources.first().map_or(0, |source| source.file.footer.resolution.secs()),
        };
        (0..sources.len()).try_for_each(|at| merged.advance(at))?;
        Ok(merged)
    }

    /// Goes to the next row of a file, and puts the file where that belongs.
    fn advance(&mut self, at: usize) -> Result<(), StoreError> {
        let Cursor { source, rows, damage } = &mut self.cursors[at];
        match rows.advance().map_err(unreadable(&source.path)) {
            Ok(true) => {
                let row = |at: usize| self.cursors[at].rows.key_and_time();
                let is_behind = |other: &usize| order(row(*other), row(at)).is_gt();
                let place = self.order.partition_point(is_behind);
                self.order.insert(place, at);
            }
            Ok(false) => {}
            Err(StoreError::Damaged { reason, .. }) if source.ends_at_damage => {
                *damage = Some(reason);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next row, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Row>, StoreError> {
        let mut merged: Option<Row> = None;
        while let Some(&at) = self.order.last() {
            let row = self.cursors[at].rows.row();
            match &mut merged {
                None => merged = Some(row.decoded(&self.buckets)),
                Some(merged) if row.is_same(merged) => merged.gain.add(&row.gain(&self.buckets)),
                Some(_) => break,
            }
            self.order.pop();
            self.advance(at)?;
        }
        if let Some(row) = &merged {
            self.span.start = self.span.start.min(row.time);
            self.span.end = self.span.end.max(row.time + self.secs);
        }
        Ok(merged)
    }

    /// The damage in each file, if any, and the number of rows before it.
    pub(super) fn damages(self) -> impl Iterator<Item = Option<(String, u64)>> + use<'s> {
        let cursors = self.cursors.into_iter();
        cursors.map(|Cursor { rows, damage, .. }| Some((damage?, rows.read() as u64)))
    }
}
