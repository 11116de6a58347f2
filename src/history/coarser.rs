//! Rolls rows up: minutes to hours, hours to days.
//!
//! Publishing passes the rows of a completed span here, by key and time; the sum of each key and
//! coarser time goes to a piece.

use std::sync::Arc;

use super::disk::StoreError;
use super::pending::PendingWriter;
use super::{Dataset, Resolution, Row};

/// A piece with the sums of rows in a coarser resolution.
pub(super) struct CoarserRollup {
    to: PendingWriter,
    resolution: Resolution,
    /// The sum of the current key and time.
    row: Option<Row>,
}

impl CoarserRollup {
    /// Writes rows of `resolution` to a piece.
    pub(super) fn new(to: PendingWriter, resolution: Resolution) -> Self {
        Self { to, resolution, row: None }
    }

    /// Starts the rows of a dataset.
    pub(super) fn begin(&mut self, dataset: &Arc<Dataset>) -> Result<(), StoreError> {
        self.end_row()?;
        self.to.begin(dataset)
    }

    /// Adds the next row in order.
    pub(super) fn add(&mut self, row: &Row) -> Result<(), StoreError> {
        let time = self.resolution.begin(row.time);
        match &mut self.row {
            Some(sum) if (sum.time, &sum.key, sum.is_other) == (time, &row.key, row.is_other) => {
                sum.gain.add(&row.gain);
            }
            _ => {
                self.end_row()?;
                self.row = Some(Row { time, ..row.clone() });
            }
        }
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), StoreError> {
        let Some(row) = self.row.take() else {
            return Ok(());
        };
        let span = row.time..row.time + self.resolution.secs();
        self.to.push(1, span, |to| to.push(&row))
    }

    /// The piece.
    pub(super) fn finish(mut self) -> Result<PendingWriter, StoreError> {
        self.end_row()?;
        Ok(self.to)
    }
}
