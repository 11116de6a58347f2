//! Publishing: completed spans become public files, and rows of the next coarser resolution, in one
//! commit.
//!
//! ```text
//!   pieces of an hour's minutes --(merged by key)--> a file of minutes for each dataset
//!                                      \\--(a sum for each key)--> one piece, with the hour's rows; of a day's hours, one day
//! ```
//!
//! Rows are streamed: a block of each piece and a row group of one file are in memory. Files are
//! never rewritten: late rows of an hour are published as further files of it, or only by the hour
//! if its minutes are gone.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::disk::{Done, StoreError, damaged, unreadable};
use super::file_names::{ROLLUP, checksum};
use super::merged::Merged;
use super::parquet::FileWriter;
use super::part::{Part, datasets};
use super::pending::{PendingFile, PendingWriter};
use super::read_plan::is_gone;
use super::resolution::{date, hull};
use super::store::Store;
use super::{Dataset, Resolution};
use crate::instruments::Instrument;
use crate::state::StateError;
use crate::state::snapshot_writer::PiecesCut;

/// Seconds after the end of a span before it is published: its last rows are flushed by then.
const OVER_SECS: u64 = 120;
/// Seconds without further rows...
const QUIET_SECS: u64 = 60;
/// ...unless rows have been waiting for this long.
const WAIT_SECS_MAX: u64 = 3_600;
/// Most pieces published at once.
const PIECES_MAX: usize = 128;

/// Bytes of raw requests that are published before their hour is over: that takes a second or two.
const RAW_BYTES: u64 = 64 << 20;

/// Turns pieces into files, minutes into hours, hours into days; counts rows, of which those of one
/// key are merged.
pub(super) static PUBLISH: Instrument = Instrument::new("stage/history/publish");

/// Characters that Hive writes as `%2F` and the like in names of folders.
const NAME: AsciiSet = {
    let (escaped, mut set, mut at) = (b"\"#%'*/:=?\\{[]^", CONTROLS.add(b'"'), 0);
    while at < escaped.len() {
        set = set.add(escaped[at]);
        at += 1;
    }
    set
};

/// Called repeatedly while files are written, which may take long: it may flush to the store. An
/// error ends the work.
pub(super) type Meanwhile<'m> = dyn FnMut(&mut Store) -> Done + 'm;

impl Store {
    /// Publishes one completed hour, day or month, if there is one; returns whether there was.
    ///
    /// # Errors
    /// Fails if it cannot be written, or `meanwhile` fails; then nothing is published, and it can
    /// be tried again.
    pub fn publish_due(&mut self, now: u64, meanwhile: &mut Meanwhile<'_>) -> Done<bool> {
        let is_suspect = |it: &&Arc<Part>| !it.is_published() && it.suspect.load(Ordering::Relaxed);
        let suspect = self.manifest.parts().find(is_suspect).cloned();
        if let Some(suspect) = suspect {
            self.attempt(|store| {
                let read = check(&suspect);
                // Its file goes when nobody has it any more.
                drop(suspect);
                store.without_damaged(read)
            })?;
            return Ok(true);
        }
        let due = self.due(now, false).or_else(|| self.due(now, true));
        let Some(pieces) = due else { return Ok(false) };
        let is_raw = pieces.first().is_some_and(|part| part.is_raw());
        self.attempt(|store| {
            // Retention makes room for it; if it removes nothing there may still be some.
            match store.make_room(now) {
                Ok(()) | Err(StoreError::Folder(StateError::NoRoom { .. })) => {}
                Err(error) => return Err(error),
            }
            let published = match is_raw {
                true => store.publish_requests(pieces, now, meanwhile),
                false => store.publish(pieces, now, meanwhile),
            };
            store.without_damaged(published)
        })?;
        Ok(true)
    }

    /// Sets the piece aside for which reading has failed, if it is damaged or given up.
    fn without_damaged(&mut self, read: Done) -> Done {
        let Err(error) = read else { return Ok(()) };
        let (path, reason) = self.unread.given_up(error)?;
        self.set_aside(&path, &reason)
    }

    /// Lets `meanwhile` commit during an attempt that has files of its own.
    pub(super) fn pause(&mut self, meanwhile: &mut Meanwhile<'_>) -> Done {
        let written = std::mem::take(&mut self.leftover);
        let done = meanwhile(self);
        self.leftover.extend(written);
        // Any next step makes the manifest consistent first.
        if self.is_unsure { done.and(Err(StoreError::Stopped)) } else { done }
    }

    /// The finest and oldest pieces to publish: of an hour's minutes, a day's hours, a month's
    /// days.
    fn due(&self, now: u64, is_raw: bool) -> Option<Vec<Arc<Part>>> {
        let mut waiting: BTreeMap<(Resolution, u64), Vec<&Arc<Part>>> = BTreeMap::new();
        let waits = |part: &&Arc<Part>| !part.is_published() && part.is_raw() == is_raw;
        for part in self.manifest.parts().filter(waits) {
            waiting.entry((part.resolution, part.file_begin())).or_default().push(part);
        }
        // A published file does not tell by which process a minute was counted.
        let is_needed = |span: &Range<u64>| {
            let mut needed = self.refilled.iter().filter(|(_, until)| now < *until);
            needed.any(|(of, _)| of.start < span.end && span.start < of.end)
        };
        // Nor on which side of a snapshot, if times do not tell either.
        let is_apart = |part: &&Arc<Part>, cut: &PiecesCut| match part.number() < cut.file {
            true => part.span.end > cut.secs,
            false => part.span.start < cut.secs,
        };
        let is_cut = |pieces: &[&Arc<Part>]| {
            let mut cuts = self.cuts.iter().filter(|cut| now < cut.until);
            cuts.any(|cut| pieces.iter().any(|part| is_apart(part, cut)))
        };
        let is_due = |&(&(resolution, begin), pieces): &(&(Resolution, u64), &Vec<&Arc<Part>>)| {
            let span = resolution.file_span(begin);
            let written = || pieces.iter().map(|part| part.written);
            let (first, last) = (written().min().unwrap_or(0), written().max().unwrap_or(0));
            // A clock that was set back has written in the future.
            let is_quiet = now < last || last + QUIET_SECS <= now || first + WAIT_SECS_MAX <= now;
            let finer = waiting.keys().find(|(finer, at)| *finer < resolution && span.contains(at));
            let bytes: u64 = pieces.iter().map(|part| part.bytes).sum();
            let is_much = is_raw && bytes >= RAW_BYTES;
            is_much
                || span.end + OVER_SECS <= now
                    && (is_quiet || pieces.len() >= PIECES_MAX)
                    && finer.is_none()
                    && !(resolution == Resolution::Minute && (is_needed(&span) || is_cut(pieces)))
        };
        let (_, pieces) = waiting.iter().find(is_due)?;
        Some(pieces.iter().take(PIECES_MAX).map(|part| Arc::clone(part)).collect())
    }

    fn publish(&mut self, pieces: Vec<Arc<Part>>, now: u64, meanwhile: &mut Meanwhile<'_>) -> Done {
        let resolution = pieces.first().map_or(Resolution::Minute, |part| part.resolution);
        let mut stage = PUBLISH.begin();
        stage.work(0, pieces.iter().map(|part| part.rows()).sum());
        let opened = pieces.iter().map(|part| {
            let file = self.disk.open(&part.path).and_then(PendingFile::open);
            Ok((&*part.path, file.map_err(unreadable(&part.path))?))
        });
        let opened = opened.collect::<Done<Vec<_>>>()?;
        let datasets = datasets(pieces.iter());
        let begin = pieces.iter().map(|part| part.file_begin()).min();
        let span = begin.unwrap_or(now)..now;
        let sums = resolution.coarser().map(|coarser| PendingWriter::new(self.create()?, coarser));
        let mut sums = sums.transpose()?;
        let mut staged = Vec::with_capacity(datasets.len() + 1);
        for dataset in &datasets {
            if let Some(sums) = &mut sums {
                sums.begin(dataset)?;
            }
            // Late rows must not stand for all of an hour whose minutes are gone.
            let parts: Vec<_> = self.manifest.parts().filter(|part| part.has(dataset)).collect();
            let is_kept = !is_gone(&parts, resolution, &span);
            let file = is_kept.then(|| self.create()).transpose()?;
            let mut file = file.map(|file| FileWriter::new(file, dataset, resolution));
            let rows = opened.iter().map(|(path, file)| (*path, file.rows(dataset)));
            let mut rows = Merged::new(rows, dataset, None)?;
            let mut of_rows = Range { start: u64::MAX, end: 0 };
            self.pause(meanwhile)?;
            while let Some(row) = rows.next()? {
                stage.advance(1);
                of_rows = hull(of_rows, row.time..row.time + resolution.secs());
                if let Some(sums) = &mut sums {
                    sums.add(&row)?;
                }
                if let Some(file) = &mut file {
                    file.add(|rows| rows.push(&row))?;
                }
                self.pause(meanwhile)?;
            }
            if let Some(file) = file {
                staged.extend(self.stage_file(file, resolution, of_rows, now)?);
            }
        }
        if let Some(sums) = sums {
            staged.push(self.stage_piece(sums, now)?);
        }
        self.commit(staged, pieces, None, || ())
    }

    /// Syncs a file of one dataset, to be published; removes it if it has no rows.
    pub(super) fn stage_file(
        &mut self,
        file: FileWriter,
        resolution: Resolution,
        span: Range<u64>,
        now: u64,
    ) -> Done<Option<Part>> {
        let ((path, file), section) = file.finish()?;
        if section.rows == 0 {
            self.disk.remove(&path)?;
            return Ok(None);
        }
        let name = file_name(&section.dataset, resolution, span.start, &path);
        let (path, sections) = (self.folder.path.join(name), vec![section]);
        let part = Part { path, resolution, span, sections, ..Part::default() };
        self.stage(&file, part, now).map(Some)
    }
}

/// Compares a piece that a reader could not read with its checksum.
fn check(piece: &Part) -> Done {
    let found = checksum(&piece.path).map_err(unreadable(&piece.path))?;
    if found != (piece.bytes, piece.crc) {
        return Err(damaged(&piece.path, "a checksum is wrong".to_owned()));
    }
    piece.suspect.store(false, Ordering::Relaxed);
    Ok(())
}

/// The final path of a dataset's file that was written as `N.new`: see [`store`](super::store).
fn file_name(dataset: &Dataset, resolution: Resolution, begin: u64, new: &Path) -> PathBuf {
    let begin = resolution.file_span(begin).start;
    let mut path = match dataset.hash.is_empty() {
        // Coverage and raw requests.
        true => PathBuf::from(&dataset.report),
        false => {
            let name = utf8_percent_encode(&dataset.report, &NAME);
            Path::new(ROLLUP).join(format!("report={name}"))
        }
    };
    if !dataset.is_raw() {
        path.push(format!("resolution={}", resolution.name()));
    }
    path.push(format!("date={}", date(begin)));
    let mut name = String::new();
    if resolution == Resolution::Minute {
        name = format!("{:02}-", begin % 86_400 / 3_600);
    }
    if let Some(hash) = dataset.hash.get(..8) {
        name = name + hash + "-";
    }
    let number = new.file_stem().unwrap_or_default().to_string_lossy();
    path.join(format!("{name}{number}.parquet"))
}
