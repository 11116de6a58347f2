//! Rows of several pending files, read side by side in order: rows of one key and time are merged
//! into one.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;

use super::columns::{Columns, StoredRows, columns};
use super::disk::{Disk, StoreError, unreadable};
use super::parquet::row_order;
use super::part::Part;
use super::pending::{Blocks, PendingFile};
use super::{Dataset, Row};
use crate::report::histogram::BucketLayout;

/// A pending file being read.
pub(super) struct Source {
    path: PathBuf,
    file: PendingFile,
    /// Only rows of these times count.
    times: Range<u64>,
    /// Present when damage ends the rows instead of being an error: the reason once it is found,
    /// and the number of rows read so far.
    damage: Option<RefCell<(Option<String>, u64)>>,
}

/// Its rows of one dataset, one after the other.
struct Cursor<'s> {
    source: &'s Source,
    blocks: Blocks,
    columns: Columns,
    buckets: BucketLayout,
    rows: StoredRows,
    /// The index of the next of these rows.
    at: usize,
    /// The row that was read last.
    row: Row,
}

impl Source {
    /// Opens a file for all its rows.
    pub(super) fn open(disk: &Disk, part: &Part) -> Result<Self, StoreError> {
        let file = disk.open(&part.path).and_then(PendingFile::open);
        Ok(Self {
            path: part.path.clone(),
            file: file.map_err(unreadable(&part.path))?,
            times: 0..u64::MAX,
            damage: None,
        })
    }

    /// Opens a file for the rows of some times, up to any damage: every read returns the same rows.
    pub(super) fn of(part: &Part, times: Range<u64>) -> Result<Self, StoreError> {
        let source = Self::open(&Disk::default(), part)?;
        let damage = Some(RefCell::default());
        Ok(Self { times, damage, ..source })
    }

    fn rows(&self, dataset: &Dataset) -> Cursor<'_> {
        Cursor {
            source: self,
            blocks: self.file.all_blocks(dataset),
            columns: columns(dataset),
            buckets: dataset.buckets,
            rows: StoredRows::default(),
            at: 0,
            row: Row::default(),
        }
    }

    /// Returns the damage, if any, and the number of rows read before it.
    pub(super) fn damage(&self) -> Option<(String, u64)> {
        let (reason, read) = &*self.damage.as_ref()?.borrow();
        Some((reason.clone()?, *read))
    }
}

impl Cursor<'_> {
    /// Reads the next row that counts; returns whether there is one.
    fn advance(&mut self) -> Result<bool, StoreError> {
        let Source { path, times, damage, .. } = self.source;
        loop {
            if self.at == self.rows.len {
                let block = self.blocks.next().transpose();
                let block = match (block.map_err(unreadable(path)), damage) {
                    (Err(StoreError::Damaged { reason, .. }), Some(damage)) => {
                        damage.borrow_mut().0 = Some(reason);
                        return Ok(false);
                    }
                    (block, _) => block?,
                };
                let Some(block) = block else {
                    return Ok(false);
                };
                self.rows = StoredRows::new(&self.columns, Some(self.buckets), &block);
                self.at = 0;
                if let Some(damage) = damage {
                    damage.borrow_mut().1 += self.rows.len as u64;
                }
                continue;
            }
            self.at += 1;
            if self.rows.read(self.at - 1, times, &mut self.row) {
                return Ok(true);
            }
        }
    }

    /// Takes the row that was read.
    fn take(&mut self) -> Row {
        Row { key: self.row.key.clone(), gain: std::mem::take(&mut self.row.gain), ..self.row }
    }
}

/// The rows of a dataset in several pending files, in order, with those of one key and time added
/// up.
pub(super) struct Merged<'s> {
    sources: Vec<Cursor<'s>>,
    /// The files that have rows left: the one with the first row last.
    order: Vec<usize>,
    /// Called before each row; an error ends the rows.
    before_row: &'s mut dyn FnMut() -> Result<(), StoreError>,
    /// The span of all rows so far.
    pub(super) span: Range<u64>,
    secs: u64,
    /// The error that ended the rows early, if any.
    pub(super) ended: Result<(), StoreError>,
}

impl<'s> Merged<'s> {
    pub(super) fn new(
        sources: &'s [Source],
        dataset: &Dataset,
        before_row: &'s mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let mut merged = Self {
            sources: Vec::with_capacity(sources.len()),
            order: Vec::with_capacity(sources.len()),
            before_row,
            span: Range { start: u64::MAX, end: 0 },
            secs: sources.first().map_or(0, |source| source.file.resolution().secs()),
            ended: Ok(()),
        };
        for (at, source) in sources.iter().enumerate() {
            merged.sources.push(source.rows(dataset));
            merged.advance(at)?;
        }
        Ok(merged)
    }

    /// Reads the next row of a file, and puts the file where that belongs.
    fn advance(&mut self, at: usize) -> Result<(), StoreError> {
        if self.sources[at].advance()? {
            let row = |at: usize| &self.sources[at].row;
            let is_behind = |other: &usize| row_order(row(*other), row(at)).is_gt();
            let place = self.order.partition_point(is_behind);
            self.order.insert(place, at);
        }
        Ok(())
    }

    /// Takes the next row of any file.
    fn take(&mut self) -> Option<Row> {
        let mut take = || -> Result<Option<Row>, StoreError> {
            (self.before_row)()?;
            let Some(at) = self.order.pop() else {
                return Ok(None);
            };
            let row = self.sources[at].take();
            self.advance(at).map(|()| Some(row))
        };
        take().unwrap_or_else(|error| {
            self.ended = Err(error);
            None
        })
    }
}

impl Iterator for Merged<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let mut row = self.take()?;
        while let Some(&at) = self.order.last()
            && is_same(&self.sources[at].row, &row)
        {
            row.gain.add(&self.take()?.gain);
        }
        self.span.start = self.span.start.min(row.time);
        self.span.end = self.span.end.max(row.time + self.secs);
        Some(row)
    }
}

/// Whether two rows have the same key and time.
fn is_same(a: &Row, b: &Row) -> bool {
    a.time == b.time && a.is_other == b.is_other && a.key == b.key
}
