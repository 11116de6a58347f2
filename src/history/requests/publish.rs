//! Publishing: the pieces of an hour become files, with the requests of all pieces merged by time,
//! one row at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::files::{FileWriter, Layout};
use super::packed::{REQUEST, REQUEST_TAG, TABLES, TIMER, unpack};
use crate::history::disk::{StoreError, failed, unreadable};
use crate::history::part::{Part, Section};
use crate::history::pending::PackedRows;
use crate::history::publish::Meanwhile;
use crate::history::store::Store;
use crate::history::{Dataset, Resolution};
use crate::instruments::Instrument;

/// Raw requests become files: in rows.
pub(in crate::history) static PUBLISH_REQUESTS: Instrument =
    Instrument::new("stage/history/publish requests");

impl Store {
    /// Publishes pieces of one hour.
    pub(in crate::history) fn publish_requests(
        &mut self,
        pieces: Vec<Arc<Part>>,
        now: u64,
        meanwhile: &mut Meanwhile<'_>,
    ) -> Result<(), StoreError> {
        let mut stage = PUBLISH_REQUESTS.begin();
        stage.work(0, pieces.iter().map(|part| part.rows()).sum());
        let begin = pieces.iter().map(|part| part.span.start).min();
        let end = pieces.iter().map(|part| part.span.end).max();
        let span = begin.unwrap_or_default()..end.unwrap_or_default();
        let (mut requests, mut tags, mut timers) = (self.create()?, self.create()?, self.create()?);
        let files = [&mut requests, &mut tags].map(|(path, file)| (&**path, file));
        let mut after_row = || {
            stage.advance(1);
            self.pause(meanwhile)
        };
        let [of_requests, of_tags] = write_requests(files, &pieces, &mut after_row)?;
        let of_timers = write_timers(&timers.0, &mut timers.1, &pieces, &mut after_row)?;
        let mut staged = Vec::with_capacity(TABLES.len());
        let written = [
            (REQUEST, requests, of_requests),
            (TIMER, timers, of_timers),
            (REQUEST_TAG, tags, of_tags),
        ];
        for (table, file, rows) in written {
            let dataset = Arc::new(Dataset::raw(table));
            let section = Section { dataset, rows };
            staged.extend(self.stage_file(file, Resolution::Minute, section, span.clone(), now)?);
        }
        self.commit(staged, pieces, None, || ())
    }
}

/// Writes the requests of all pieces, the longest first, with their tags; returns how many of each.
fn write_requests(
    files: [(&Path, &mut File); 2],
    pieces: &[Arc<Part>],
    after_row: &mut dyn FnMut() -> Result<(), StoreError>,
) -> Result<[u64; 2], StoreError> {
    let [(path, requests), (_, tags)] = files;
    let failed = || failed("write", path);
    let new = |file, table| FileWriter::new(file, Layout::of(table)).map_err(failed());
    let (mut requests, mut tags) = (new(requests, REQUEST)?, new(tags, REQUEST_TAG)?);
    let mut sources = Vec::with_capacity(pieces.len());
    // The time of the next request of each piece; among equals, the first piece.
    let mut longest = BinaryHeap::with_capacity(pieces.len());
    for part in pieces {
        let mut source = PackedRows::open(part, REQUEST)?;
        if let Some(row) = source.peek().map_err(unreadable(&part.path))? {
            longest.push((time_us(row, &part.path)?, Reverse(sources.len())));
        }
        sources.push((&part.path, source));
    }
    while let Some((_, Reverse(at))) = longest.pop() {
        let (of, source) = &mut sources[at];
        if let Some(row) = source.next().map_err(unreadable(of))? {
            let (request, weight) = unpack(row).map_err(unreadable(of))?;
            let written = requests.add(|rows| rows.push_request(&request, weight));
            written.map_err(failed())?;
            let written = tags.add(|rows| rows.push_tags(&request, weight));
            written.map_err(failed())?;
        }
        after_row()?;
        if let Some(row) = source.peek().map_err(unreadable(of))? {
            longest.push((time_us(row, of)?, Reverse(at)));
        }
    }
    let requests = requests.finish().map_err(failed())?;
    Ok([requests, tags.finish().map_err(failed())?])
}

/// Returns the duration of a request in a piece.
fn time_us(packed: &[u8], of: &Path) -> Result<u64, StoreError> {
    unpack(packed).map_err(unreadable(of))
}

/// Writes the timers of all pieces, piece by piece: each piece has those of later requests than the
/// one before it.
fn write_timers(
    path: &Path,
    file: &mut File,
    pieces: &[Arc<Part>],
    after_row: &mut dyn FnMut() -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let failed = || failed("write", path);
    let mut to = FileWriter::new(file, Layout::of(TIMER)).map_err(failed())?;
    for part in pieces {
        let mut source = PackedRows::open(part, TIMER)?;
        while let Some(row) = source.next().map_err(unreadable(&part.path))? {
            let timers = unpack(row).map_err(unreadable(&part.path))?;
            let written = to.add(|rows| rows.push_timers(&timers));
            written.map_err(failed())?;
            after_row()?;
        }
    }
    to.finish().map_err(failed())
}
