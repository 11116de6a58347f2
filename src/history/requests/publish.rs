//! Publishing: the pieces of an hour become files, the requests of all of them merged by time. A row of each passes at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{RequestWriter, TimerWriter};
use super::packed::{Request, Tags, Timer};
use super::{REQUEST, REQUEST_TAG, TABLES, TIMER};
use crate::history::disk::{StoreError, failed};
use crate::history::parquet::Written;
use crate::history::part::{Part, Section};
use crate::history::piece::{Contents, Piece, PieceRows};
use crate::history::publish::unreadable;
use crate::history::resolution::date;
use crate::history::store::Store;
use crate::history::{Dataset, Resolution};
use crate::shutdown::Shutdown;

impl Store {
    /// Publishes pieces of one hour.
    pub(in crate::history) fn publish_requests(
        &mut self,
        pieces: Vec<Arc<Part>>,
        now: u64,
        stop: &Shutdown,
    ) -> Result<(), StoreError> {
        let begin = pieces.iter().map(|part| part.span.start).min();
        let end = pieces.iter().map(|part| part.span.end).max();
        let span = begin.unwrap_or_default()..end.unwrap_or_default();
        let (mut requests, mut tags, mut timers) = (self.create()?, self.create()?, self.create()?);
        let files = [&mut requests, &mut tags].map(|(path, file)| (&**path, file));
        let [of_requests, of_tags] = write_requests(files, &pieces, stop)?;
        let of_timers = write_timers(&timers.0, &mut timers.1, &pieces, stop)?;
        let mut staged = Vec::with_capacity(TABLES.len());
        let written = [
            (REQUEST, requests, of_requests),
            (TIMER, timers, of_timers),
            (REQUEST_TAG, tags, of_tags),
        ];
        for (table, (path, file), Written { rows, .. }) in written {
            if rows == 0 {
                self.disk.remove(&path)?;
                continue;
            }
            let dataset = Arc::new(Dataset::raw(table));
            let contents = Contents {
                sections: vec![Section { dataset, rows }],
                span: span.clone(),
            };
            let name = self.folder.path.join(file_name(table, span.start, &path));
            staged.push(self.stage(path, &file, name, Resolution::Minute, contents, now)?);
        }
        self.commit(staged, pieces, || ())
    }
}

/// Where the file of a table lies that was written as `N.new`: see [`store`](crate::history::store).
fn file_name(table: &str, begin: u64, new: &Path) -> PathBuf {
    let number = new.file_stem().unwrap_or_default().to_string_lossy();
    let hour = begin % 86_400 / 3_600;
    let mut path = PathBuf::from(table);
    path.push(format!("date={}", date(begin)));
    path.join(format!("{hour:02}-{number}.parquet"))
}

/// Writes the requests of all pieces, the longest first, with their tags.
fn write_requests(
    files: [(&Path, &mut File); 2],
    pieces: &[Arc<Part>],
    stop: &Shutdown,
) -> Result<[Written; 2], StoreError> {
    let [(path, requests), (_, tags)] = files;
    let failed = || failed("write", path);
    let mut to = RequestWriter::new(requests, tags).map_err(failed())?;
    let mut sources = Vec::with_capacity(pieces.len());
    // The time of the next request of each; of equals the first.
    let mut next = BinaryHeap::with_capacity(pieces.len());
    for part in pieces {
        let mut source = Source::open(part, REQUEST, stop)?;
        if let Some(time_us) = source.next(time_us)? {
            next.push((time_us, Reverse(sources.len())));
        }
        sources.push(source);
    }
    while let Some((_, Reverse(at))) = next.pop() {
        let source = &mut sources[at];
        let written = source.next(|bytes| {
            let (request, rest) = postcard::take_from_bytes::<Request<'_, Tags<'_>>>(bytes)?;
            let (weight, rest) = postcard::take_from_bytes(rest)?;
            Ok((to.push(&request, weight), rest))
        })?;
        written.unwrap_or(Ok(())).map_err(failed())?;
        if let Some(time_us) = source.next(time_us)? {
            next.push((time_us, Reverse(at)));
        }
    }
    to.finish().map_err(failed())
}

/// How long the next request took; it stays the next.
fn time_us(bytes: &[u8]) -> postcard::Result<(u64, &[u8])> {
    postcard::take_from_bytes(bytes).map(|(time_us, _)| (time_us, bytes))
}

/// Writes the timers of all pieces: piece by piece, for each has those of later requests than the one before.
fn write_timers(
    path: &Path,
    file: &mut File,
    pieces: &[Arc<Part>],
    stop: &Shutdown,
) -> Result<Written, StoreError> {
    let failed = || failed("write", path);
    let mut to = TimerWriter::new(file).map_err(failed())?;
    for part in pieces {
        let mut source = Source::open(part, TIMER, stop)?;
        while let Some(written) = source.next(|bytes| {
            let ((run, request, timers), mut rest): ((u64, u64, u64), _) =
                postcard::take_from_bytes(bytes)?;
            let mut written = Ok(());
            for _ in 0..timers {
                let (timer, behind) = postcard::take_from_bytes::<Timer<Tags<'_>>>(rest)?;
                rest = behind;
                written = written.and_then(|()| to.push(run, request, &timer));
            }
            Ok((written, rest))
        })? {
            written.map_err(failed())?;
        }
    }
    to.finish().map_err(failed())
}

/// The rows of a table in a piece.
struct Source<'s> {
    path: &'s Path,
    rows: PieceRows,
    stop: &'s Shutdown,
}

impl<'s> Source<'s> {
    fn open(part: &'s Part, table: &str, stop: &'s Shutdown) -> Result<Self, StoreError> {
        let piece = File::open(&part.path).and_then(Piece::open);
        let piece = piece.map_err(unreadable(&part.path))?;
        Ok(Self {
            path: &part.path,
            rows: piece.rows(&Dataset::raw(table)),
            stop,
        })
    }

    /// Does something with the next row, and goes on with the bytes that it returns.
    fn next<T>(
        &mut self,
        take: impl for<'b> FnOnce(&'b [u8]) -> postcard::Result<(T, &'b [u8])>,
    ) -> Result<Option<T>, StoreError> {
        if self.stop.requested() {
            return Err(StoreError::Stopped);
        }
        let Some(bytes) = self.rows.packed().map_err(unreadable(self.path))? else {
            return Ok(None);
        };
        let (taken, rest) = take(bytes).map_err(|error| StoreError::Damaged {
            path: self.path.into(),
            reason: error.to_string(),
        })?;
        let left = rest.len();
        self.rows.advance(left);
        Ok(Some(taken))
    }
}
