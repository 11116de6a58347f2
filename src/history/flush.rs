//! Flushing: rows in memory become pieces, in one commit that also records how far every input was
//! read for them.

use std::collections::BTreeSet;

use super::disk::Done;
use super::manifest::UpTo;
use super::parquet::order;
use super::pending::PendingWriter;
use super::requests::packed::Kept;
use super::store::Store;
use super::unflushed::{Scratch, UnflushedRows};
use super::{Part, Resolution};

impl Store {
    /// Writes unflushed rows as pieces, one per hour, in one commit. `then` is called when
    /// they count, while nobody can take the list of parts: a reader sees either the old list and
    /// the state before `then`, or both new.
    ///
    /// # Errors
    /// When they cannot be written, or less than `history.free_min` is free; then none of them
    /// counts.
    pub fn flush(&mut self, rows: &UnflushedRows, now: u64, then: impl FnOnce()) -> Done {
        self.write((Some(rows), &mut []), None, now, then)
    }

    /// Writes rows and raw requests in one commit, which records how far every input was read for
    /// them. For `then`, see [`flush`](Self::flush).
    pub(super) fn write(
        &mut self,
        (rows, requests): (Option<&UnflushedRows>, &mut [(f64, Kept)]),
        up_to: Option<UpTo<'_>>,
        now: u64,
        then: impl FnOnce(),
    ) -> Done {
        self.attempt(|store| {
            store.make_room(now)?;
            let staged = rows.map(|rows| store.stage_rows(rows, now));
            let mut staged = staged.transpose()?.unwrap_or_default();
            staged.iter_mut().for_each(|part| part.is_imported = up_to.is_none());
            let rows: u64 = staged.iter().map(Part::rows).sum();
            staged.extend(store.stage_requests(requests, now)?);
            store.commit(staged, Vec::new(), up_to, then)?;
            for log in store.seconds.forget(up_to.map_or(0, |up_to| up_to.log)) {
                store.manifest.forget(&log);
            }
            store.counters.rows_written.add(rows);
            Ok(())
        })
    }

    /// Writes unflushed rows as pieces, one per hour, which do not count yet.
    fn stage_rows(&mut self, rows: &UnflushedRows, now: u64) -> Done<Vec<Part>> {
        let hours: BTreeSet<u64> = rows.times().map(|time| Resolution::Hour.begin(time)).collect();
        let (mut staged, mut scratch) = (Vec::with_capacity(hours.len()), Scratch::default());
        for hour in hours {
            let hour = Resolution::Minute.file_span(hour);
            let mut piece = PendingWriter::new(self.create()?, Resolution::Minute)?;
            for dataset in rows.datasets() {
                let mut of_hour: Vec<_> = rows.stored(dataset, hour.clone()).collect();
                of_hour.sort_unstable_by(|((a, _), one), ((b, _), other)| {
                    order((one.key(), *a), (other.key(), *b))
                });
                piece.begin(dataset)?;
                for (of @ (time, _), row) in of_hour {
                    let span = time..time + Resolution::Minute.secs();
                    let row = row.encoded(of, &dataset.buckets, &mut scratch);
                    piece.push(1, span, |to| to.push_stored(&row))?;
                }
            }
            staged.push(self.stage_piece(piece, now)?);
        }
        Ok(staged)
    }
}
