//! Rows of several parts, read side by side in order: rows of one key and time are merged into one.

use std::path::{Path, PathBuf};

use super::columns::RowReader;
use super::disk::{Done, StoreError, unreadable};
use super::parquet::order;
use super::{Dataset, Row};
use crate::report::histogram::BucketLayout;

/// The rows of one dataset in a part, one after the other.
struct Cursor<'p> {
    path: &'p Path,
    rows: RowReader,
    /// The reason why the rows end, if that is damage.
    damage: Option<String>,
}

/// The rows of a dataset in several parts, in order, with those of one key and time added up.
pub(super) struct Merged<'p> {
    cursors: Vec<Cursor<'p>>,
    buckets: BucketLayout,
    /// The parts that have rows left: the one with the first row last.
    order: Vec<usize>,
    /// If damage ends the rows of a part, instead of being an error, so that every read returns the
    /// same rows: the parts where any error does.
    ends: Option<&'p [PathBuf]>,
}

impl<'p> Merged<'p> {
    pub(super) fn new(
        parts: impl Iterator<Item = (&'p Path, RowReader)>,
        dataset: &Dataset,
        ends: Option<&'p [PathBuf]>,
    ) -> Done<Self> {
        let cursors = parts.map(|(path, rows)| Cursor { path, rows, damage: None });
        let mut merged =
            Self { cursors: cursors.collect(), buckets: dataset.buckets, order: Vec::new(), ends };
        (0..merged.cursors.len()).try_for_each(|at| merged.advance(at))?;
        Ok(merged)
    }

    /// Goes to the next row of a part, and puts the part where that belongs.
    fn advance(&mut self, at: usize) -> Done {
        let Cursor { path, rows, damage } = &mut self.cursors[at];
        match rows.advance().map_err(unreadable(path)) {
            Ok(true) => {
                let row = |at: usize| self.cursors[at].rows.key_and_time();
                let is_behind = |other: &usize| order(row(*other), row(at)).is_gt();
                self.order.insert(self.order.partition_point(is_behind), at);
            }
            Ok(false) => {}
            Err(StoreError::Damaged { reason, .. }) if self.ends.is_some() => {
                *damage = Some(reason);
            }
            Err(error) if self.ends.is_some_and(|ends| ends.iter().any(|it| it == path)) => {
                *damage = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The next row, if there is one.
    pub(super) fn next(&mut self) -> Done<Option<Row>> {
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
        Ok(merged)
    }

    /// The damage in each part, if any, and the number of rows before it.
    pub(super) fn damages(self) -> impl Iterator<Item = Option<(String, u64)>> + use<'p> {
        let cursors = self.cursors.into_iter();
        cursors.map(|Cursor { rows, damage, .. }| Some((damage?, rows.read() as u64)))
    }
}
