//! Rolls rows up: minutes to hours, hours to days.
//!
//! Publishing passes the rows of a completed span here, by key and time; the sum of each key and
//! coarser time goes to a piece.

use std::sync::Arc;

use super::disk::StoreError;
use super::pending::PendingWriter;
use super::{Dataset, Gain, Resolution, Row};

/// A piece with the sums of rows in a coarser resolution.
pub(super) struct CoarserRollup {
    to: PendingWriter,
    resolution: Resolution,
    /// The sum of the current key and time.
    row: Option<Row>,
    written: Result<(), StoreError>,
}

impl CoarserRollup {
    /// Writes rows of `resolution` to a piece.
    pub(super) fn new(to: PendingWriter, resolution: Resolution) -> Self {
        Self { to, resolution, row: None, written: Ok(()) }
    }

    /// Starts the rows of a dataset.
    pub(super) fn begin(&mut self, dataset: &Arc<Dataset>) -> Result<(), StoreError> {
        self.end_row();
        let written = std::mem::replace(&mut self.written, Ok(()));
        written.and_then(|()| self.to.begin(dataset))
    }

    /// Adds the next row in order.
    pub(super) fn add(&mut self, row: &Row) {
        let time = self.resolution.begin(row.time);
        if !self.row.as_ref().is_some_and(|sum| {
            sum.time == time && sum.is_other == row.is_other && sum.key == row.key
        }) {
            self.end_row();
        }
        let sum = self.row.get_or_insert_with(|| Row {
            time,
            key: row.key.clone(),
            is_other: row.is_other,
            gain: Gain::default(),
        });
        sum.gain.add(&row.gain);
    }

    fn end_row(&mut self) {
        if let Some(row) = self.row.take()
            && self.written.is_ok()
        {
            let span = row.time..row.time + self.resolution.secs();
            self.written = self.to.push(1, span, |to| to.push(&row));
        }
    }

    /// The piece, unless writing to it failed.
    pub(super) fn finish(mut self) -> Result<PendingWriter, StoreError> {
        self.end_row();
        self.written.map(|()| self.to)
    }
}
