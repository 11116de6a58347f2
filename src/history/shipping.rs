//! Tracks what ClickHouse has of this store, and keeps data until it has it.
//!
//! ```text
//!   pieces, by number    7  8  9 | 10 11          a position: of pieces below `below` the rows of minutes before `minute`;
//!              10:01     x  x  . |  .  .          of those below `whole` all rows
//!              10:02     .  x  x |  .  .
//!   ---- minute: 10:03 ----------+
//!              10:03     .  .  . |  .  .
//! ```
//!
//! The rows up to a position that are not up to the previous one are a shipment: the rows of each
//! minute so far, summed by key. Later ones are in a later shipment, under another number. Pieces
//! never change and each has a unique number, so both positions define forever what a shipment
//! contains, and it can be sent again after any failure. They are written to `cursor` before the
//! first byte is sent, and again when everything is accepted.
//!
//! A piece published before it is shipped is hard-linked in the folder `unshipped`, so publishing
//! never waits for ClickHouse. Retention removes those pieces like files, and counts what ClickHouse
//! loses. Files that existed when it was first configured are shipped one by one; later ones
//! were shipped as pieces.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::{error, warn};

use super::Resolution;
use super::disk::{Disk, READ_TRIES, StoreError, damaged, open_existing, unreadable};
use super::part::{Part, Parts};
use super::pending::PendingFile;
use super::store::Store;
use super::tree::{UNSHIPPED, unshipped_in};
use crate::config::ShippedRows;
use crate::instruments::Instrument;
use crate::state::files;

use self::shipment::ShipPosition;
pub use self::shipment::{Shipment, ShipmentRows, Unread};

mod shipment;

/// The file in it with the progress of shipping.
const CURSOR: &str = "cursor";
/// The newest format of that file.
const FORMAT: u32 = 1;

/// Seconds after the end of a minute before it is shipped.
const FINAL_SECS: u64 = 120;
/// Age in seconds at which all of a piece is shipped, whatever its minutes: a clock may have been
/// ahead.
const WHOLE_SECS: u64 = 3_600;
/// Limits of a shipment: pieces, and their bytes unless one has more.
const PIECES_MAX: usize = 64;
const BYTES_MAX: u64 = 16 << 20;

/// The names under which rows are shipped. They are part of the keys in ClickHouse, so a shipment keeps
/// the names it began with, even if the host is renamed meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The shipping daemon.
    pub collector: String,
    /// Its data centre.
    pub dc: String,
}

/// Rows that ClickHouse refused, set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The rows.
    pub units: ShipmentRows,
    /// The destination table.
    pub table: String,
    /// Their number.
    pub rows: u64,
    /// The error.
    pub error: String,
    /// The names under which they were sent; absent in older entries.
    pub identity: Option<Identity>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Cursor {
    format: u32,
    /// The next part's number when this began: files below it are shipped.
    begin: u64,
    /// Files below this one are shipped.
    files: u64,
    /// The position up to which rows are shipped.
    done: ShipPosition,
    /// The position up to which rows are being shipped.
    sending: Option<ShipPosition>,
    /// The names it is shipped under.
    sending_as: Option<Identity>,
    /// The number of the file being shipped, and its names.
    file_as: Option<(u64, Identity)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<Refused>,
    /// Rows lost before they were shipped.
    #[serde(default)]
    dropped: u64,
    /// The numbers from which parts of rollups, and of raw requests, are not shipped; none of a kind
    /// that is.
    #[serde(default)]
    off: [Option<u64>; 2],
}

impl Cursor {
    /// Sets what to ship from now on. Unwanted rows that can no longer be shipped are lost to
    /// ClickHouse: returns their number.
    fn set_kinds<'p>(
        &mut self,
        what: &[ShippedRows],
        next_number: u64,
        parts: impl Iterator<Item = &'p Arc<Part>>,
    ) -> u64 {
        let parts: Vec<_> = parts.filter(|part| part.resolution == Resolution::Minute).collect();
        let mut lost = 0;
        let kinds = [(false, ShippedRows::Rollups), (true, ShippedRows::Requests)];
        for (off, (is_raw, kind)) in self.off.iter_mut().zip(kinds) {
            if !what.contains(&kind) {
                off.get_or_insert(next_number);
            } else if let Some(since) = off.take() {
                let parts = parts.iter().filter(|part| {
                    let is_over = part.is_published() || part.number() < self.done.below;
                    part.is_raw() == is_raw && part.number() >= since && is_over
                });
                lost += parts.map(|part| part.rows()).sum::<u64>();
            }
        }
        self.dropped += lost;
        lost
    }

    /// Whether a part has rows of a kind that is shipped.
    fn ships(&self, part: &Part) -> bool {
        self.off[usize::from(part.is_raw())].is_none() && part.resolution == Resolution::Minute
    }

    /// Whether rows of a part are still to be shipped, apart from refused ones.
    fn lacks(&self, part: &Part) -> bool {
        let number = part.number();
        let lacks = match part.is_published() {
            true => !part.is_raw() && number < self.begin && number >= self.files,
            false => !self.done.covers(part),
        };
        lacks && self.ships(part)
    }

    fn needs(&self, part: &Part) -> bool {
        let mut refused = self.refused.iter();
        self.lacks(part) || self.ships(part) && refused.any(|it| it.units.has(part))
    }
}

/// The state of shipping.
pub(super) static LOCK: Instrument = Instrument::wait("wait/synch/mutex/history/shipping", "lock");

/// The state of shipping, shared by the store and the shipper.
#[derive(Debug, Clone)]
pub struct Shipping {
    inner: Arc<Mutex<Inner>>,
    /// The parts that count.
    pub(crate) parts: Parts,
    /// The identity of the store: 32 hexadecimal digits.
    pub(crate) store: Arc<str>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    disk: Disk,
    /// As written, but for rows dropped since then.
    cursor: Cursor,
    /// Published pieces that were not shipped before.
    kept: Vec<Arc<Part>>,
    /// Those that could not be opened yet, and how often in a row reading failed.
    unopened: Vec<(PathBuf, u32)>,
}

/// Rows waiting to be shipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Rows of the parts that are not shipped, or only in part.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest was written, in unix seconds.
    pub since: Option<u64>,
    /// Rows removed by retention before they were shipped.
    pub dropped: u64,
    /// Rows set aside.
    pub refused: Vec<Refused>,
}

impl Shipping {
    /// Whether ClickHouse was ever configured: rows that it lacks are kept, even while there is none,
    /// or it cannot be found out.
    pub(super) fn has_begun(dir: &Path) -> bool {
        dir.join(UNSHIPPED).join(CURSOR).try_exists().unwrap_or(true)
    }

    /// Opens the state of a store; `None`: what was shipped last.
    pub(super) fn open(store: &Store, what: Option<&[ShippedRows]>) -> Result<Self, StoreError> {
        let (folder, disk) = (store.dir().join(UNSHIPPED), store.disk.clone());
        let next_number = store.manifest.next;
        disk.make_folder(&folder, files::FOLDER_MODE)?;
        let found = read(&folder.join(CURSOR))?;
        if found.is_some() {
            // An earlier process may have been killed before it did that: what is sent again because
            // of it must not change after a power cut.
            disk.sync_folder(&folder)?;
        }
        let before = found.as_ref().map(|cursor| cursor.off);
        let mut cursor =
            found.unwrap_or(Cursor { format: FORMAT, begin: next_number, ..Cursor::default() });
        let lost =
            what.map_or(0, |what| cursor.set_kinds(what, next_number, store.manifest.parts()));
        if lost > 0 {
            warn!(
                rows = lost,
                "clickhouse.what has more than before: what was published meanwhile is not shipped."
            );
        }
        let is_changed = before != Some(cursor.off);
        let unopened = unshipped_in(store.dir())?.into_iter().map(|path| (path, 0)).collect();
        let mut inner = Inner { folder, disk, cursor, kept: Vec::new(), unopened };
        if let Err(error) = inner.open_kept() {
            error!(%error, "A piece that is to be shipped cannot be opened: nothing is shipped until it can.");
        }
        if is_changed {
            inner.write(|_| ())?;
        }
        Ok(Self {
            inner: Arc::new(Mutex::new(inner)),
            parts: store.parts(),
            store: store.id().into(),
        })
    }

    /// Links pieces that are about to be removed and not shipped yet.
    pub(super) fn keep(&self, disk: &Disk, removed: &[Arc<Part>]) -> Result<(), StoreError> {
        let mut inner = LOCK.lock(&self.inner);
        let pieces = removed.iter().filter(|part| !part.is_published());
        let needed: Vec<_> = pieces.filter(|part| inner.cursor.needs(part)).collect();
        for part in &needed {
            let Range { start, end } = part.span;
            let name = format!("{}-{start}-{end}-{}.piece", part.number(), part.rows());
            let path = inner.folder.join(name);
            disk.link(&part.path, &path)?;
            if !inner.kept.iter().any(|it| it.path == path) {
                let second = Part { path, ..Part::clone(part) };
                inner.kept.push(Arc::new(second));
            }
        }
        match needed.is_empty() {
            true => Ok(()),
            false => disk.sync_folder(&inner.folder),
        }
    }

    /// The kept pieces, for retention.
    pub(super) fn kept(&self) -> Vec<Arc<Part>> {
        LOCK.lock(&self.inner).kept.clone()
    }

    /// Records parts removed by retention: counts rows that ClickHouse will never have, and removes
    /// pieces kept for it alone.
    pub(super) fn record_lost(&self, gone: &[Arc<Part>]) {
        let mut inner = LOCK.lock(&self.inner);
        let lost = gone.iter().filter(|part| inner.cursor.needs(part));
        inner.cursor.dropped += lost.map(|part| part.rows()).sum::<u64>();
        // If it cannot be written, the next change includes it.
        let _later = inner.write(|_| ());
        inner.release(|_, part| gone.iter().any(|it| it.path == part.path));
    }

    /// The next shipment, if there is one.
    ///
    /// # Errors
    /// Fails if a kept piece cannot be opened: later ones wait.
    pub fn next(&self, now: u64) -> Result<Option<Shipment>, StoreError> {
        let parts = Arc::clone(&self.parts.read());
        let mut inner = LOCK.lock(&self.inner);
        inner.open_kept()?;
        let pieces = inner.pieces(&parts);
        let cursor = &inner.cursor;
        if let Some(to) = cursor.sending.or_else(|| next_position(&cursor.done, &pieces, now)) {
            let units = ShipmentRows::Pieces(cursor.done, to);
            return Ok(Some(Shipment::of(units, pieces.values())));
        }
        let files = parts.iter().filter(|part| part.is_published() && cursor.lacks(part));
        let file = files.min_by_key(|part| part.number());
        Ok(file.map(|file| Shipment::of(ShipmentRows::File(file.number()), [file].into_iter())))
    }

    /// Refused rows, to be tried again.
    pub(crate) fn refused(&self) -> Vec<(Refused, Shipment)> {
        let parts = Arc::clone(&self.parts.read());
        let inner = LOCK.lock(&self.inner);
        let pieces = inner.pieces(&parts);
        let files = parts.iter().filter(|part| part.is_published());
        let all: Vec<_> = pieces.values().chain(files).collect();
        let again = |it: &Refused| Shipment::of(it.units, all.iter().copied());
        let refused = inner.cursor.refused.iter();
        refused.map(|it| (it.clone(), again(it))).collect()
    }

    /// Records that a shipment starts under these names; returns those it originally started under.
    ///
    /// # Errors
    /// Fails if it cannot be written; then it does not start.
    pub fn begin(&self, shipment: &Shipment, names: &Identity) -> Result<Identity, StoreError> {
        let mut inner = LOCK.lock(&self.inner);
        let cursor = &inner.cursor;
        let begun = match (shipment.units, &cursor.file_as) {
            (ShipmentRows::Pieces(..), _) => cursor.sending_as.as_ref(),
            (ShipmentRows::File(number), Some((begun, names))) if number == *begun => Some(names),
            (ShipmentRows::File(_), _) => None,
        };
        if let Some(begun) = begun {
            return Ok(begun.clone());
        }
        inner.write(|cursor| match shipment.units {
            ShipmentRows::Pieces(_, to) => {
                cursor.sending = Some(to);
                cursor.sending_as = Some(names.clone());
            }
            ShipmentRows::File(number) => cursor.file_as = Some((number, names.clone())),
        })?;
        Ok(names.clone())
    }

    /// Records that all of a shipment was accepted, or set aside.
    ///
    /// # Errors
    /// Fails if it cannot be written; then it is shipped again.
    pub fn end(&self, shipment: &Shipment, refused: Vec<Refused>) -> Result<(), StoreError> {
        LOCK.lock(&self.inner).write(|cursor| {
            match shipment.units {
                ShipmentRows::Pieces(_, to) => {
                    cursor.done = to;
                    cursor.sending = None;
                    cursor.sending_as = None;
                }
                ShipmentRows::File(number) => {
                    cursor.files = number + 1;
                    cursor.file_as = None;
                }
            }
            cursor.refused.extend(refused);
        })
    }

    /// Records that refused rows were accepted after all, or are gone.
    ///
    /// # Errors
    /// Fails if it cannot be written; then it is tried again.
    pub fn end_refused(&self, taken: &Refused) -> Result<(), StoreError> {
        LOCK.lock(&self.inner).write(|cursor| cursor.refused.retain(|it| it != taken))
    }

    /// Rows that wait.
    pub(crate) fn waiting(&self) -> Waiting {
        let parts = Arc::clone(&self.parts.read());
        let inner = LOCK.lock(&self.inner);
        let pieces = inner.pieces(&parts);
        let files = parts.iter().filter(|part| part.is_published());
        let Cursor { dropped, refused, .. } = inner.cursor.clone();
        let mut waiting = Waiting { dropped, refused, ..Waiting::default() };
        for part in pieces.values().chain(files).filter(|part| inner.cursor.lacks(part)) {
            waiting.rows += part.rows();
            waiting.bytes += part.bytes;
            waiting.since = Some(part.written.min(waiting.since.unwrap_or(u64::MAX)));
        }
        waiting
    }
}

impl Inner {
    /// Opens the pieces kept by earlier processes. Persistently unreadable or damaged ones are set
    /// aside.
    fn open_kept(&mut self) -> Result<(), StoreError> {
        let mut opened = Ok(());
        for (path, tries) in std::mem::take(&mut self.unopened) {
            let error = match kept_piece(&path).map_err(unreadable(&path)) {
                Ok(part) => {
                    self.kept.push(Arc::new(part));
                    continue;
                }
                Err(error) => error,
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
            let rows = numbers(&path)[2].unwrap_or_default();
            self.cursor.dropped += rows;
            let aside = path.with_extension("damaged");
            // If it cannot be moved, the next start finds it again.
            let _moved = self.disk.rename(&path, &aside);
            error!(file = %path.display(), %error, rows, set_aside = %aside.display(), "A piece that was to be shipped cannot be read: its rows are not shipped.");
        }
        opened
    }

    /// The pieces of minutes, by number. Those in `parts` are older than the kept ones: pieces in
    /// neither are shipped.
    fn pieces(&self, parts: &[Arc<Part>]) -> BTreeMap<u64, Arc<Part>> {
        let pieces = parts.iter().filter(|part| !part.is_published());
        let all = self.kept.iter().chain(pieces);
        let all = all.filter(|part| self.cursor.ships(part));
        all.map(|part| (part.number(), Arc::clone(part))).collect()
    }

    /// Changes the cursor, on disk first.
    fn write(&mut self, change: impl FnOnce(&mut Cursor)) -> Result<(), StoreError> {
        let mut cursor = self.cursor.clone();
        change(&mut cursor);
        let path = self.folder.join(CURSOR);
        let text = serde_json::to_vec(&cursor).expect("it consists of texts and numbers");
        self.disk.replace(&path, &text)?;
        self.disk.sync_folder(&self.folder)?;
        self.cursor = cursor;
        self.release(|cursor, part| !cursor.needs(part));
        Ok(())
    }

    /// Removes kept pieces that are not needed any more.
    fn release(&mut self, is_over: impl Fn(&Cursor, &Part) -> bool) {
        for part in self.kept.extract_if(.., |part| is_over(&self.cursor, part)) {
            // The next start removes leftovers.
            let _later = self.disk.remove(&part.path);
        }
    }
}

/// The next position beyond `done`, if there is anything to ship.
fn next_position(
    done: &ShipPosition,
    pieces: &BTreeMap<u64, Arc<Part>>,
    now: u64,
) -> Option<ShipPosition> {
    let over = Resolution::Minute.begin(now.saturating_sub(FINAL_SECS));
    let mut to = ShipPosition { number: done.number + 1, minute: over.max(done.minute), ..*done };
    let (mut bytes, mut more) = (0, false);
    for (place, (number, part)) in pieces.range(done.below..).enumerate() {
        bytes += part.bytes;
        more = place > 0 && (place >= PIECES_MAX || bytes > BYTES_MAX);
        if more {
            break;
        }
        to.below = number + 1;
    }
    // Written in the future, by a clock that was set back since.
    let is_old = |part: &Part| part.written + WHOLE_SECS <= now || part.written > now + FINAL_SECS;
    let begun = pieces.range(done.whole..to.below);
    let old = begun.take_while(|(_, part)| is_old(part)).last();
    to.whole = old.map_or(done.whole, |(number, _)| number + 1);
    let is_due = to.minute > done.minute || to.whole > done.whole || more;
    let units = ShipmentRows::Pieces(*done, to);
    (is_due && pieces.values().any(|part| units.has(part))).then_some(to)
}

fn read(path: &Path) -> Result<Option<Cursor>, StoreError> {
    let Some(file) = open_existing(path)? else {
        return Ok(None);
    };
    let cursor = serde_json::from_reader(std::io::BufReader::new(file));
    let cursor: Cursor = cursor.map_err(|error| damaged(path, error.to_string()))?;
    match cursor.format {
        ..=FORMAT => Ok(Some(cursor)),
        found => Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT }),
    }
}

/// The numbers in a kept piece's name after its own: start and end of its span and, unless it is
/// old, its rows.
fn numbers(path: &Path) -> [Option<u64>; 3] {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut numbers = stem.split('-').skip(1);
    [(); 3].map(|()| numbers.next()?.parse().ok())
}

fn kept_piece(path: &Path) -> std::io::Result<Part> {
    let [Some(start), Some(end), _] = numbers(path) else {
        return Err(std::io::ErrorKind::InvalidData.into());
    };
    let file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    let sections = PendingFile::open(file)?.footer.sections();
    // Its hour is over.
    let written = start;
    let part = Part::new(path.to_owned(), Resolution::Minute, start..end, sections);
    Ok(Part { bytes, written, ..part })
}

#[cfg(test)]
mod tests;
