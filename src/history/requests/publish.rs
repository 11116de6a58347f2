//! Publishing: the pieces of an hour become files, with the requests of all pieces merged by time,
//! one row at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use super::packed::{REQUEST, REQUEST_TAG, TABLES, TIMER, decoded};
use crate::history::disk::{Done, StoreError};
use crate::history::parquet::FileWriter;
use crate::history::part::Part;
use crate::history::pending::PackedRows;
use crate::history::publish::Meanwhile;
use crate::history::resolution::hull;
use crate::history::store::Store;
use crate::history::{Dataset, Resolution};
use crate::instruments::Instrument;

/// Raw requests become files: in rows.
pub(in crate::history) static PUBLISH_REQUESTS: Instrument =
    Instrument::new("stage/history/publish requests");

impl Store {
    /// Publishes pieces of one hour: the requests of all, the longest first, with their tags.
    pub(in crate::history) fn publish_requests(
        &mut self,
        pieces: Vec<Arc<Part>>,
        now: u64,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Done {
        let mut stage = PUBLISH_REQUESTS.begin();
        stage.work(0, pieces.iter().map(|part| part.rows()).sum());
        let span = pieces.iter().map(|part| part.span.clone()).reduce(hull).unwrap_or_default();
        let mut create = |table| {
            let dataset = Arc::new(Dataset::raw(table));
            Ok::<_, StoreError>(FileWriter::new(self.create()?, &dataset, Resolution::Minute))
        };
        let (mut requests, mut tags, mut timers) =
            (create(REQUEST)?, create(REQUEST_TAG)?, create(TIMER)?);
        let mut after_row = || {
            stage.advance(1);
            self.pause(meanwhile)
        };
        let mut sources = Vec::with_capacity(pieces.len());
        // The time of the next request of each piece; among equals, the first piece.
        let mut longest: BinaryHeap<(u64, _)> = BinaryHeap::with_capacity(pieces.len());
        for (at, part) in pieces.iter().enumerate() {
            let mut source = PackedRows::open(part, REQUEST)?;
            longest.extend(decoded(source.peek(), part)?.map(|time_us| (time_us, Reverse(at))));
            sources.push(source);
        }
        while let Some((_, Reverse(at))) = longest.pop() {
            let (source, part) = (&mut sources[at], &pieces[at]);
            if let Some(request) = decoded(source.next(), part)? {
                requests.add(|rows| rows.push_request(&request))?;
                tags.add(|rows| rows.push_tags(&request))?;
            }
            after_row()?;
            longest.extend(decoded(source.peek(), part)?.map(|time_us| (time_us, Reverse(at))));
        }
        drop(sources);
        // Piece by piece: each has those of later requests than the one before it.
        for part in &pieces {
            let mut source = PackedRows::open(part, TIMER)?;
            while let Some(of_request) = decoded(source.next(), part)? {
                timers.add(|rows| rows.push_timers(&of_request))?;
                after_row()?;
            }
        }
        let mut staged = Vec::with_capacity(TABLES.len());
        for written in [requests, timers, tags] {
            staged.extend(self.stage_file(written, Resolution::Minute, span.clone(), now)?);
        }
        self.commit(staged, pieces, None, || ())
    }
}
