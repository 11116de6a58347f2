//! What a sink elsewhere has of this store, and what is kept for it until it has it.
//!
//! ```text
//!   pieces, by number    7  8  9 | 10 11          a cut: of pieces below `below` the rows of minutes before `minute`;
//!              10:01     x  x  . |  .  .          of those below `whole` all rows
//!              10:02     .  x  x |  .  .
//!   ---- minute: 10:03 ----------+
//!              10:03     .  .  . |  .  .
//! ```
//!
//! The rows of a cut that are not in the one before are a shipment: of each minute what had come of it, added up by key. What
//! comes later is in a later shipment, under another number. Pieces never change and each has a number of its own, so both cuts
//! say for ever what a shipment has, and it can be sent again after whatever happened. They are written down, in `cursor`,
//! before the first byte is sent, and again when all is taken.
//!
//! A piece that is published before it is shipped gets a second name in the same folder, `unshipped`, so publishing never waits for a
//! sink. Retention takes those pieces as it takes files, and counts what is lost to the sink. Files that were there when the sink
//! was first asked for are shipped one by one; what is published later was shipped as pieces.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::Resolution;
use super::disk::{Disk, READ_TRIES, StoreError, failed, unreadable};
use super::part::{Part, Parts};
use super::pending::PendingFile;
use crate::instruments::Instrument;
use crate::state::files::{self, Opened};

use self::shipment::Cut;
pub use self::shipment::{Shipment, Units, Unread};

mod shipment;

/// The folder.
const UNSHIPPED: &str = "unshipped";
/// In it: what is shipped.
const CURSOR: &str = "cursor";
/// The newest format of that.
const FORMAT: u32 = 1;

/// How long a minute is over before it is shipped, seconds.
const FINAL_SECS: u64 = 120;
/// How old a piece is of which all is shipped, whatever minutes it has: a clock may have been ahead.
const WHOLE_SECS: u64 = 3_600;
/// What is shipped at once: so many pieces, and so many bytes of them unless one has more.
const PIECES_MAX: usize = 64;
const BYTES_MAX: u64 = 16 << 20;

/// Under which names rows are shipped. They are a part of their keys there, so what was begun under some ends under these, also
/// when the host has another name meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Who ships.
    pub collector: String,
    /// Where it is.
    pub dc: String,
}

/// What the sink would not take, set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Which rows.
    pub units: Units,
    /// For which table.
    pub table: String,
    /// How many.
    pub rows: u64,
    /// Why.
    pub error: String,
    /// Under which names it was sent; older ones do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cursor {
    format: u32,
    /// The number that the next part had when this began: files below are shipped.
    begin: u64,
    /// Of those, the ones below this are.
    files: u64,
    /// What is shipped.
    done: Cut,
    /// What is being shipped.
    sending: Option<Cut>,
    /// Under which names that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sending_as: Option<Identity>,
    /// The number of the file that is being shipped, and under which names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file_as: Option<(u64, Identity)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    /// Rows that are gone and were not shipped.
    #[serde(default)]
    dropped: u64,
    /// Since which number parts of rollups, and of raw requests, are not shipped.
    #[serde(default)]
    off: [Option<u64>; 2],
}

impl Cursor {
    /// Follows what is to be shipped from now on. Rows that were not wanted, and that can no longer be shipped where they are now,
    /// are lost to the sink: returns how many of these parts are.
    fn follow<'p>(
        &mut self,
        what: Shipped,
        next_number: u64,
        parts: impl Iterator<Item = &'p Arc<Part>>,
    ) -> u64 {
        let everything = Shipped {
            rollups: true,
            requests: true,
        };
        let parts: Vec<_> = parts.filter(|part| everything.has(part)).collect();
        let mut lost = 0;
        for (off, (is_raw, is_wanted)) in self
            .off
            .iter_mut()
            .zip([(false, what.rollups), (true, what.requests)])
        {
            if !is_wanted {
                off.get_or_insert(next_number);
                continue;
            }
            let Some(since) = off.take() else { continue };
            let parts = parts.iter().filter(|part| {
                let number = part.number();
                part.is_raw() == is_raw
                    && number >= since
                    && (part.is_published() || number < self.done.below)
            });
            lost += parts.map(|part| part.rows()).sum::<u64>();
        }
        self.dropped += lost;
        lost
    }

    /// Whether rows of a part are still to be shipped, but for what was refused.
    fn lacks(&self, part: &Part) -> bool {
        let number = part.number();
        match part.is_published() {
            true => !part.is_raw() && number < self.begin && number >= self.files,
            false => !self.done.covers(part),
        }
    }

    fn needs(&self, part: &Part) -> bool {
        let mut refused = self.refused.iter();
        self.lacks(part) || refused.any(|it| it.units.has(part))
    }
}

/// What is shipped and what is not.
pub(super) static LOCK: Instrument = Instrument::wait("wait/synch/mutex/history/shipping", "lock");

/// What is shipped, shared by the store and by what ships.
#[derive(Debug, Clone)]
pub struct Shipping(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    disk: Disk,
    cursor: Cursor,
    what: Shipped,
    /// Rows that are gone since that was written.
    dropped: u64,
    /// Pieces that are published and were not shipped before.
    kept: Vec<Arc<Part>>,
    /// Those of them that could not be opened yet, and how often in a row the disk could not read them.
    unopened: Vec<(PathBuf, u32)>,
}

/// What is shipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    /// Rows of reports, and of coverage.
    pub rollups: bool,
    /// Raw requests.
    pub requests: bool,
}

impl Shipped {
    fn has(self, part: &Part) -> bool {
        let is_wanted = match part.is_raw() {
            true => self.requests,
            false => self.rollups,
        };
        is_wanted && part.resolution == Resolution::Minute
    }
}

/// What waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Rows of the parts that are not shipped, or not as a whole.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was written, unix seconds.
    pub since: Option<u64>,
    /// Rows that retention took before they were shipped.
    pub dropped: u64,
}

impl Shipping {
    /// Whether there ever was a sink: what it lacks is kept, also while there is none.
    pub(super) fn has_begun(dir: &Path) -> bool {
        dir.join(UNSHIPPED).join(CURSOR).exists()
    }

    /// That of the store in `dir`, which has these parts, and whose next one has this number.
    pub(super) fn open<'p>(
        dir: &Path,
        disk: &Disk,
        next_number: u64,
        what: Shipped,
        parts: impl Iterator<Item = &'p Arc<Part>>,
    ) -> Result<Self, StoreError> {
        let folder = dir.join(UNSHIPPED);
        disk.make_folder(&folder, files::FOLDER_MODE)?;
        let path = folder.join(CURSOR);
        let found = read(&path)?;
        let before = found.as_ref().map(|cursor| cursor.off);
        let mut cursor = found.unwrap_or(Cursor {
            format: FORMAT,
            begin: next_number,
            files: 0,
            done: Cut::default(),
            sending: None,
            sending_as: None,
            file_as: None,
            refused: Vec::new(),
            dropped: 0,
            off: [None; 2],
        });
        let lost = cursor.follow(what, next_number, parts);
        if lost > 0 {
            warn!(
                rows = lost,
                "clickhouse.what has more than before: what was published meanwhile is not shipped."
            );
        }
        let is_changed = before != Some(cursor.off);
        let mut inner = Inner {
            kept: Vec::new(),
            unopened: kept(&folder)?,
            folder,
            disk: disk.clone(),
            cursor,
            what,
            dropped: 0,
        };
        if let Err(error) = inner.open_kept() {
            error!(%error, "A piece that is to be shipped cannot be opened: nothing is shipped until it can.");
        }
        let shipping = Self(Arc::new(Mutex::new(inner)));
        if is_changed {
            LOCK.lock(&shipping.0).write(|_| ())?;
        }
        Ok(shipping)
    }

    /// Gives pieces a second name that are about to be removed and not shipped yet.
    pub(super) fn keep(&self, disk: &Disk, removed: &[Arc<Part>]) -> Result<(), StoreError> {
        let mut inner = LOCK.lock(&self.0);
        let pieces = removed.iter().filter(|part| !part.is_published());
        let needed: Vec<_> = pieces.filter(|part| inner.needs(part)).collect();
        for part in &needed {
            let Range { start, end } = part.span;
            let name = format!("{}-{start}-{end}-{}.piece", part.number(), part.rows());
            let path = inner.folder.join(name);
            disk.link(&part.path, &path)?;
            if !inner.kept.iter().any(|it| it.path == path) {
                let second = Part {
                    path,
                    ..Part::clone(part)
                };
                inner.kept.push(Arc::new(second));
            }
        }
        match needed.is_empty() {
            true => Ok(()),
            false => disk.sync_folder(&inner.folder),
        }
    }

    /// The pieces that are kept, for retention.
    pub(super) fn kept(&self) -> Vec<Arc<Part>> {
        LOCK.lock(&self.0).kept.clone()
    }

    /// Retention takes these parts: counts what the sink will never have, and removes the pieces that were kept for it alone.
    pub(super) fn lose(&self, gone: &[Arc<Part>]) {
        let mut inner = LOCK.lock(&self.0);
        let lost = gone.iter().filter(|part| inner.needs(part));
        inner.dropped += lost.map(|part| part.rows()).sum::<u64>();
        // Where it cannot be written it is with the next change.
        let _later = inner.write(|_| ());
        for part in gone {
            let before = inner.kept.len();
            inner.kept.retain(|it| it.path != part.path);
            if inner.kept.len() < before {
                // The next start removes what could not be removed now.
                let _later = inner.disk.remove(&part.path);
            }
        }
    }

    /// What is to be shipped next, if something is.
    ///
    /// # Errors
    /// When a piece that was kept cannot be opened: what comes after it waits.
    pub fn next(&self, parts: &Parts, now: u64) -> Result<Option<Shipment>, StoreError> {
        let parts = Arc::clone(&parts.read());
        let mut inner = LOCK.lock(&self.0);
        inner.open_kept()?;
        let pieces = inner.pieces(&parts);
        let cursor = &inner.cursor;
        if let Some(to) = cursor.sending.or_else(|| cut(&cursor.done, &pieces, now)) {
            let units = Units::Pieces(cursor.done, to);
            return Ok(Some(Shipment::of(units, pieces.values())));
        }
        let files = parts.iter().filter(|part| part.is_published());
        let file = files
            .filter(|part| inner.what.has(part) && cursor.lacks(part))
            .min_by_key(|part| part.number());
        Ok(file.map(|file| Shipment::of(Units::File(file.number()), [file].into_iter())))
    }

    /// What was refused, to be tried again.
    #[must_use]
    pub fn refused(&self, parts: &Parts) -> Vec<(Refused, Shipment)> {
        let parts = Arc::clone(&parts.read());
        let inner = LOCK.lock(&self.0);
        let pieces = inner.pieces(&parts);
        let files = parts.iter().filter(|part| part.is_published());
        let all: Vec<_> = pieces.values().chain(files).collect();
        let again = |it: &Refused| Shipment::of(it.units, all.iter().copied());
        let refused = inner.cursor.refused.iter();
        refused.map(|it| (it.clone(), again(it))).collect()
    }

    /// Writes down that a shipment begins under these names; those under which it began, if it did before.
    ///
    /// # Errors
    /// When it cannot be written; then it does not begin.
    pub fn begin(&self, shipment: &Shipment, names: &Identity) -> Result<Identity, StoreError> {
        let mut inner = LOCK.lock(&self.0);
        let cursor = &inner.cursor;
        let begun = match (shipment.units, &cursor.file_as) {
            (Units::Pieces(..), _) => cursor.sending_as.as_ref(),
            (Units::File(number), Some((begun, names))) if number == *begun => Some(names),
            (Units::File(_), _) => None,
        };
        if let Some(begun) = begun {
            return Ok(begun.clone());
        }
        inner.write(|cursor| match shipment.units {
            Units::Pieces(_, to) => {
                cursor.sending = Some(to);
                cursor.sending_as = Some(names.clone());
            }
            Units::File(number) => cursor.file_as = Some((number, names.clone())),
        })?;
        Ok(names.clone())
    }

    /// Writes down that all of a shipment was taken, or set aside.
    ///
    /// # Errors
    /// When it cannot be written; then it is shipped again.
    pub fn end(&self, shipment: &Shipment, refused: Vec<Refused>) -> Result<(), StoreError> {
        let mut inner = LOCK.lock(&self.0);
        inner.write(|cursor| {
            match shipment.units {
                Units::Pieces(_, to) => {
                    cursor.done = to;
                    cursor.sending = None;
                    cursor.sending_as = None;
                }
                Units::File(number) => {
                    cursor.files = number + 1;
                    cursor.file_as = None;
                }
            }
            cursor.refused.extend(refused);
        })
    }

    /// Writes down that something was taken after all that had been refused, or is gone.
    ///
    /// # Errors
    /// When it cannot be written; then it is tried again.
    pub fn end_refused(&self, taken: &Refused) -> Result<(), StoreError> {
        let mut inner = LOCK.lock(&self.0);
        inner.write(|cursor| cursor.refused.retain(|it| it != taken))
    }

    /// What waits, and what was set aside.
    #[must_use]
    pub fn waiting(&self, parts: &Parts) -> (Waiting, Vec<Refused>) {
        let parts = Arc::clone(&parts.read());
        let inner = LOCK.lock(&self.0);
        let pieces = inner.pieces(&parts);
        let files = parts.iter().filter(|part| part.is_published());
        let mut waiting = Waiting {
            dropped: inner.cursor.dropped + inner.dropped,
            ..Waiting::default()
        };
        for part in pieces.values().chain(files) {
            if inner.what.has(part) && inner.cursor.lacks(part) {
                waiting.rows += part.rows();
                waiting.bytes += part.bytes;
                waiting.since = Some(part.written.min(waiting.since.unwrap_or(u64::MAX)));
            }
        }
        (waiting, inner.cursor.refused.clone())
    }
}

impl Inner {
    /// Opens the pieces that were kept by those who ran before. What the disk cannot read for long, or is damaged, is set aside.
    fn open_kept(&mut self) -> Result<(), StoreError> {
        let mut opened = Ok(());
        for (path, tries) in std::mem::take(&mut self.unopened) {
            let error = match kept_piece(&path) {
                Ok(part) => {
                    self.kept.push(Arc::new(part));
                    continue;
                }
                Err(error) => unreadable(&path)(error),
            };
            let tries = match error {
                StoreError::Damaged { .. } => READ_TRIES,
                StoreError::Unreadable { .. } => tries + 1,
                _ => tries,
            };
            if tries < READ_TRIES {
                self.unopened.push((path, tries));
                opened = opened.and(Err(error));
                continue;
            }
            let rows = numbers(&path).nth(2).unwrap_or_default();
            self.dropped += rows;
            let aside = path.with_extension("damaged");
            // The next start finds it again where it cannot be moved.
            let _moved = self.disk.rename(&path, &aside);
            error!(file = %path.display(), %error, rows, set_aside = %aside.display(), "A piece that was to be shipped cannot be read: its rows are not shipped.");
        }
        opened
    }

    /// The pieces of minutes, by number. Those in `parts` were there before those that were kept: what is in neither is shipped.
    fn pieces(&self, parts: &[Arc<Part>]) -> BTreeMap<u64, Arc<Part>> {
        let pieces = parts.iter().filter(|part| !part.is_published());
        let all = self.kept.iter().chain(pieces);
        let all = all.filter(|part| self.what.has(part));
        all.map(|part| (part.number(), Arc::clone(part))).collect()
    }

    fn needs(&self, part: &Part) -> bool {
        self.what.has(part) && self.cursor.needs(part)
    }

    /// Changes the cursor, on disk first.
    fn write(&mut self, change: impl FnOnce(&mut Cursor)) -> Result<(), StoreError> {
        let mut cursor = self.cursor.clone();
        change(&mut cursor);
        cursor.dropped += self.dropped;
        let path = self.folder.join(CURSOR);
        let text = serde_json::to_vec(&cursor).map_err(std::io::Error::other);
        let text = text.map_err(failed("write", &path))?;
        self.disk.replace(&path, &text)?;
        self.cursor = cursor;
        self.dropped = 0;
        let (cursor, what, disk) = (&self.cursor, self.what, &self.disk);
        self.kept.retain(|part| {
            let is_needed = what.has(part) && cursor.needs(part);
            if !is_needed {
                // The next start removes what could not be removed now.
                let _later = disk.remove(&part.path);
            }
            is_needed
        });
        Ok(())
    }
}

/// What there is to ship beyond a cut.
fn cut(done: &Cut, pieces: &BTreeMap<u64, Arc<Part>>, now: u64) -> Option<Cut> {
    let over = Resolution::Minute.begin(now.saturating_sub(FINAL_SECS));
    let mut to = Cut {
        number: done.number + 1,
        minute: over.max(done.minute),
        ..*done
    };
    let (mut bytes, mut more) = (0, false);
    for (place, (number, part)) in pieces.range(done.below..).enumerate() {
        bytes += part.bytes;
        more = place > 0 && (place >= PIECES_MAX || bytes > BYTES_MAX);
        if more {
            break;
        }
        to.below = number + 1;
    }
    // Written in the future: by a clock that was set back since.
    let is_old = |part: &Part| part.written + WHOLE_SECS <= now || part.written > now + FINAL_SECS;
    let begun = pieces.range(done.whole..to.below);
    let old = begun.take_while(|(_, part)| is_old(part)).last();
    to.whole = old.map_or(done.whole, |(number, _)| number + 1);
    let is_due = to.minute > done.minute || to.whole > done.whole || more;
    let units = Units::Pieces(*done, to);
    (is_due && pieces.values().any(|part| units.has(part))).then_some(to)
}

fn read(path: &Path) -> Result<Option<Cursor>, StoreError> {
    let damaged = |reason: String| StoreError::Damaged {
        path: path.to_owned(),
        reason,
    };
    let file = match files::open(path).map_err(failed("read", path))? {
        Opened::Nothing => return Ok(None),
        Opened::File(file) => file,
        Opened::Other(reason) => return Err(damaged(reason)),
    };
    let cursor = serde_json::from_reader(std::io::BufReader::new(file));
    let cursor: Cursor = cursor.map_err(|error| damaged(error.to_string()))?;
    match cursor.format {
        ..=FORMAT => Ok(Some(cursor)),
        found => Err(StoreError::Newer {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
    }
}

/// The pieces that were kept by those who ran before.
fn kept(folder: &Path) -> Result<Vec<(PathBuf, u32)>, StoreError> {
    let mut kept = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
        let path = entry.map_err(failed("read", folder))?.path();
        if path.extension().is_some_and(|it| it == "piece") {
            kept.push((path, 0));
        }
    }
    kept.sort_unstable();
    Ok(kept)
}

/// What the name of a piece that is kept says behind its number: begin and end of its span and, unless it is old, its rows.
fn numbers(path: &Path) -> impl Iterator<Item = u64> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let numbers: Vec<_> = stem
        .split('-')
        .skip(1)
        .map_while(|it| it.parse().ok())
        .collect();
    numbers.into_iter()
}

fn kept_piece(path: &Path) -> std::io::Result<Part> {
    let mut numbers = numbers(path);
    let (Some(start), Some(end)) = (numbers.next(), numbers.next()) else {
        return Err(std::io::ErrorKind::InvalidData.into());
    };
    let file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Part {
        path: path.to_owned(),
        resolution: Resolution::Minute,
        span: start..end,
        sections: PendingFile::open(file)?.sections(),
        bytes,
        rolled: true,
        // Its hour is over.
        written: start,
        crc: 0,
    })
}

#[cfg(test)]
mod tests;
