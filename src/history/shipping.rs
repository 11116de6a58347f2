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
//! first byte is sent, with the numbers of the pieces, and again when everything is accepted. After
//! a clock that was ahead, the next shipment has all rows of its pieces, and `minute` goes back. A
//! piece that cannot be opened or is missing is waited for, and in the end given up and counted:
//! it is left out of a shipment that has not begun, or ends one that has, which is never sent with
//! less.
//!
//! A piece published before it is shipped is hard-linked in the folder `unshipped`, so publishing
//! never waits for ClickHouse. Retention removes those pieces like files, and counts what
//! ClickHouse loses. Files that existed when it was first configured are shipped one by one; later
//! ones were shipped as pieces.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind::InvalidData};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tracing::{error, warn};

use super::Resolution;
use super::disk::{Disk, Done, StoreError, Tries, damaged, unreadable};
use super::file_names::{DAMAGED, UNSHIPPED, ours_in};
use super::manifest;
use super::parquet::{Opened, ReadAs};
use super::part::{Part, Parts};
use super::pending::PendingFile;
use super::store::Store;
use crate::config::ShippedRows;
use crate::instruments::Instrument;
use crate::state::files;

use self::cursor::{CURSOR, Cursor, FORMAT};
pub use self::cursor::{Identity, Refused};
use self::shipment::ShipPosition;
pub use self::shipment::{Shipment, ShipmentRows, Unread};

mod cursor;
mod shipment;

/// Seconds after the end of a minute before it is shipped.
const FINAL_SECS: u64 = 120;
/// Age in seconds at which all of a piece is shipped, whatever its minutes: a clock may have been
/// ahead.
const WHOLE_SECS: u64 = 3_600;
/// Limits of a shipment: pieces, and their bytes unless one has more.
const PIECES_MAX: usize = 64;
const BYTES_MAX: u64 = 16 << 20;

/// The way out of a damaged cursor.
const RESTORE: &str =
    ": nothing is shipped until pinbad starts with a whole one, or without history.dir/unshipped";

/// The state of shipping.
pub(super) static LOCK: Instrument = Instrument::wait("wait/synch/mutex/history/shipping", "lock");

/// The state of shipping, shared by the store and the shipper.
#[derive(Debug, Clone)]
pub struct Shipping {
    inner: Arc<Mutex<Inner>>,
    /// The parts that count.
    pub(crate) parts: Parts,
    /// The identity of the store.
    pub(crate) store: u128,
}

#[derive(Debug, Default)]
struct Inner {
    folder: PathBuf,
    disk: Disk,
    /// As written, but for rows dropped since then.
    cursor: Cursor,
    /// The damage of the one on disk, which stays: nothing is shipped, and all pieces are kept.
    damage: Option<String>,
    /// Published pieces that were not shipped before.
    kept: Vec<Arc<Part>>,
    /// Parts whose files are missing: shipping waits for them, but not for ever.
    missing: Vec<Arc<Part>>,
    tries: Tries,
    /// Kept pieces that could not be opened yet, and how often in a row reading failed.
    unopened: Vec<(PathBuf, Tries)>,
}

/// Parts by number.
type ByNumber = BTreeMap<u64, Arc<Part>>;

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
    /// Whether ClickHouse was ever configured: rows that it lacks are kept, even while there is
    /// none, or it cannot be found out.
    pub(super) fn has_begun(dir: &Path) -> bool {
        dir.join(UNSHIPPED).join(CURSOR).try_exists().unwrap_or(true)
    }

    /// Opens the state of a store; `None`: what was shipped last. Damage of the cursor stops
    /// shipping alone: history does not depend on it.
    pub(super) fn open(store: &mut Store, what: Option<&[ShippedRows]>) -> Done<Self> {
        let (folder, disk) = (store.dir().join(UNSHIPPED), store.disk.clone());
        disk.make_folder(&folder, files::FOLDER_MODE)?;
        let (found, damage) = match cursor::read(&folder.join(CURSOR)) {
            Err(StoreError::Damaged { reason, .. }) => (None, Some(reason + RESTORE)),
            found => (found?, None),
        };
        // An earlier process may have been killed before it did that: what is sent again because of
        // it must not change after a power cut.
        disk.sync_folder(&folder)?;
        let before = found.as_ref().map_or([Some(0); 2], |cursor| cursor.off);
        // Which files are shipped is not known then.
        let begin = if damage.is_none() { store.manifest.next } else { 0 };
        let mut cursor = found.unwrap_or(Cursor { format: FORMAT, begin, ..Cursor::default() });
        // The manifest may be new, or an older one: what was shipped had numbers of its own.
        let below = cursor.sending.unwrap_or(cursor.done).below;
        store.manifest.next = store.manifest.next.max(cursor.begin).max(below);
        let what = what.filter(|_| damage.is_none());
        let (next, parts) = (store.manifest.next, Arc::clone(&store.parts().read()));
        let lost = what.map_or(0, |what| cursor.set_kinds(what, next, &parts));
        if lost > 0 {
            warn!(rows = lost, "Rows published while clickhouse.what lacked them are lost to it.");
        }
        let unopened = ours_in(store.dir(), UNSHIPPED)?.into_iter();
        let unopened = unopened.map(|path| (path, Tries::default())).collect();
        let missing = store.manifest.missing.values().cloned().collect();
        let mut inner =
            Inner { folder, disk, cursor, damage, missing, unopened, ..Inner::default() };
        if let Err(error) = inner.open_kept() {
            error!(%error, "A piece that is to be shipped cannot be opened: nothing is shipped until it can.");
        }
        if before != inner.cursor.off {
            // What was kept of a kind goes when that is turned off.
            let goes = |part: &&Arc<Part>| before[usize::from(part.is_raw())].is_none();
            let kept: Vec<_> = inner.kept.iter().filter(goes).cloned().collect();
            inner.write(|cursor| cursor.pass(&[], &kept))?;
        }
        Ok(Self { inner: Arc::new(Mutex::new(inner)), parts: store.parts(), store: store.id() })
    }

    /// Links pieces that are about to be removed and not shipped yet.
    pub(super) fn keep(&self, disk: &Disk, removed: &[Arc<Part>]) -> Done {
        let (parts, mut inner) = self.locked();
        if inner.cursor.off != [None; 2] {
            inner.write(|cursor| cursor.pass(&parts, removed))?;
        }
        let pieces = removed.iter().filter(|part| !part.is_published());
        let needed: Vec<_> = pieces.filter(|part| inner.cursor.needs(part)).collect();
        for part in &needed {
            let Range { start, end } = part.span;
            let name = format!("{}-{start}-{end}-{}.piece", part.number(), part.rows());
            let path = inner.folder.join(name);
            disk.link(&part.path, &path)?;
            if !inner.kept.iter().any(|it| it.path == path) {
                inner.kept.push(Arc::new(Part { path, ..Part::clone(part) }));
            }
        }
        if needed.is_empty() { Ok(()) } else { disk.sync_folder(&inner.folder) }
    }

    /// Waits for a part whose file is missing from now on.
    pub(super) fn miss(&self, part: &Arc<Part>) {
        LOCK.lock(&self.inner).missing.push(Arc::clone(part));
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
        // What is being shipped goes on without them: nobody waits for what is too old.
        inner.cursor.of.retain(|number| gone.iter().all(|part| part.number() != *number));
        // If it cannot be written, the next change includes it.
        let _later = inner.write(|_| ());
        inner.release(|_, part| gone.iter().any(|it| it.path == part.path));
    }

    /// The parts that count, and the state.
    fn locked(&self) -> (Arc<[Arc<Part>]>, MutexGuard<'_, Inner>) {
        let parts = Arc::clone(&self.parts.read());
        (parts, LOCK.lock(&self.inner))
    }

    /// The next shipment, if there is one.
    ///
    /// # Errors
    /// Fails if a file that it needs cannot be opened: later ones wait. After some tries it is
    /// given up: a shipment that has begun as a whole, since ClickHouse may have more of it and
    /// would replace that.
    pub fn next(&self, now: u64) -> Done<Option<Shipment>> {
        let (parts, mut inner) = self.locked();
        if let Some(reason) = &inner.damage {
            return Err(damaged(&inner.folder.join(CURSOR), reason.clone()));
        }
        inner.open_kept()?;
        while let Some(shipment) = inner.planned(&parts, now) {
            let Err(error) = inner.check(&shipment) else {
                inner.tries = Tries::default();
                return Ok(Some(shipment));
            };
            let (path, reason) = inner.tries.given_up(error)?;
            inner.give_up(&shipment, &path, &reason)?;
        }
        Ok(None)
    }

    /// Refused rows, to be tried again.
    pub(crate) fn refused(&self) -> Vec<(Refused, Shipment)> {
        let (parts, inner) = self.locked();
        let pieces = inner.pieces(&parts);
        let all: Vec<_> = pieces.values().chain(inner.files(&parts)).collect();
        let again = |it: &Refused| Shipment::of(it.units, all.iter().copied());
        let refused = inner.cursor.refused.iter().map(|it| (it.clone(), again(it)));
        // What cannot be opened now may be later.
        refused
            .filter(|(_, shipment)| shipment.parts.iter().all(|part| inner.open(part).is_ok()))
            .collect()
    }

    /// Records that a shipment starts under these names; returns those it originally started under.
    ///
    /// # Errors
    /// Fails if it cannot be written; then it does not start.
    pub fn begin(&self, shipment: &Shipment, names: &Identity) -> Done<Identity> {
        let (parts, mut inner) = self.locked();
        let Cursor { sending_as, file_as, .. } = &inner.cursor;
        let begun = match shipment.units {
            ShipmentRows::Pieces(..) => sending_as.as_ref(),
            ShipmentRows::File(file) => file_as.iter().find(|it| it.0 == file).map(|it| &it.1),
        };
        if let Some(begun) = begun {
            return Ok(begun.clone());
        }
        // Retention may have taken some since it was planned.
        let known = inner.pieces(&parts);
        let numbers = shipment.parts.iter().map(|part| part.number());
        let of = numbers.filter(|number| known.contains_key(number)).collect();
        inner.write(|cursor| match shipment.units {
            ShipmentRows::Pieces(_, to) => {
                cursor.sending = Some(to);
                cursor.sending_as = Some(names.clone());
                cursor.of = of;
            }
            ShipmentRows::File(number) => cursor.file_as = Some((number, names.clone())),
        })?;
        Ok(names.clone())
    }

    /// Records that all of a shipment was accepted, or set aside.
    ///
    /// # Errors
    /// Fails if it cannot be written; then it is shipped again.
    pub fn end(&self, shipment: &Shipment, refused: Vec<Refused>) -> Done {
        LOCK.lock(&self.inner).write(|cursor| {
            match shipment.units {
                ShipmentRows::Pieces(_, to) => cursor.end(to),
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
    pub fn end_refused(&self, taken: &Refused) -> Done {
        LOCK.lock(&self.inner).write(|cursor| cursor.refused.retain(|it| it != taken))
    }

    /// Rows that wait.
    pub(crate) fn waiting(&self) -> Waiting {
        let (parts, inner) = self.locked();
        let pieces = inner.pieces(&parts);
        let files = inner.files(&parts);
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
    /// The next shipment, of the same files each time once it has begun.
    fn planned(&self, parts: &[Arc<Part>], now: u64) -> Option<Shipment> {
        let (cursor, pieces) = (&self.cursor, self.pieces(parts));
        if let Some(to) = cursor.sending.or_else(|| next_position(&cursor.done, &pieces, now)) {
            let has = |it: &&Arc<Part>| cursor.of.is_empty() || cursor.of.contains(&it.number());
            let units = ShipmentRows::Pieces(cursor.done, to);
            return Some(Shipment::of(units, pieces.values().filter(has)));
        }
        let file = self.files(parts).filter(|it| cursor.lacks(it)).min_by_key(|it| it.number())?;
        Some(Shipment::of(ShipmentRows::File(file.number()), [file].into_iter()))
    }

    /// Fails if a shipment cannot be read.
    fn check(&self, shipment: &Shipment) -> Done {
        let has = |number: &u64| shipment.parts.iter().any(|part| part.number() == *number);
        if !self.cursor.of.iter().all(has) {
            let reason = "pieces of what is being shipped are gone";
            return Err(damaged(&self.folder, reason.to_owned()));
        }
        shipment.parts.iter().try_for_each(|part| self.open(part))
    }

    fn open(&self, part: &Part) -> Done {
        let opened = self.disk.open(&part.path).and_then(|file| match part.is_published() {
            true => Opened::new(&part.path, &ReadAs::default()).map(drop),
            false => PendingFile::open(file).map(drop),
        });
        opened.map_err(unreadable(&part.path))
    }

    /// Counts a file that cannot be read as lost; if its shipment has begun, all of that.
    fn give_up(&mut self, shipment: &Shipment, path: &Path, reason: &str) -> Done {
        let begun = self.cursor.sending;
        // Minutes of a piece may be shipped one after the other: it is counted with the last of
        // them.
        let ends = |part: &Part| shipment.units.times(part).end >= part.span.end;
        let is_lost = |part: &&Arc<Part>| begun.map_or(part.path == path, |_| ends(part));
        let lost: Vec<_> = shipment.parts.iter().filter(is_lost).collect();
        let rows: u64 = lost.iter().map(|part| part.rows()).sum();
        self.set_aside(path);
        self.write(|cursor| {
            match begun {
                Some(to) => cursor.end(to),
                None => cursor.given_up.extend(lost.iter().map(|part| part.number())),
            }
            cursor.dropped += rows;
        })?;
        error!(file = %path.display(), reason, rows, is_begun = begun.is_some(), "A file that was to be shipped cannot be read: its rows, or all of a shipment that has begun, are not shipped.");
        Ok(())
    }

    /// Renames a kept piece, so that nobody takes it for one that is to be shipped.
    fn set_aside(&self, path: &Path) {
        if path.parent() == Some(&self.folder) {
            // If it cannot be moved, the next start finds it again.
            let _moved = self.disk.rename(path, &path.with_extension(DAMAGED));
        }
    }

    /// Published files, those that are missing included.
    fn files<'p>(&'p self, parts: &'p [Arc<Part>]) -> impl Iterator<Item = &'p Arc<Part>> {
        parts.iter().chain(&self.missing).filter(|part| part.is_published())
    }

    /// Opens the pieces kept by earlier processes. Persistently unreadable or damaged ones are set
    /// aside.
    fn open_kept(&mut self) -> Done {
        let mut opened = Ok(());
        for (path, mut tries) in std::mem::take(&mut self.unopened) {
            let found = kept_piece(&path).map_err(unreadable(&path));
            match found.map_err(|error| tries.given_up(error)) {
                Ok(part) => self.kept.push(Arc::new(part)),
                Err(Err(error)) => {
                    self.unopened.push((path, tries));
                    opened = opened.and(Err(error));
                }
                Err(Ok((_, reason))) => {
                    let rows = numbers(&path)[2].unwrap_or_default();
                    self.cursor.dropped += rows;
                    self.set_aside(&path);
                    error!(file = %path.display(), reason, rows, "A piece that was to be shipped cannot be read and is set aside: its rows are not shipped.");
                }
            }
        }
        opened
    }

    /// The pieces of minutes, by number. Those in `parts` are older than the kept ones: pieces in
    /// neither are shipped.
    fn pieces(&self, parts: &[Arc<Part>]) -> ByNumber {
        let pieces = parts.iter().chain(&self.missing).filter(|part| !part.is_published());
        let all = self.kept.iter().chain(pieces).filter(|part| self.cursor.ships(part));
        all.map(|part| (part.number(), Arc::clone(part))).collect()
    }

    /// Changes the cursor, on disk first.
    fn write(&mut self, change: impl FnOnce(&mut Cursor)) -> Done {
        let mut cursor = self.cursor.clone();
        change(&mut cursor);
        if self.damage.is_none() {
            self.disk.replace(&self.folder.join(CURSOR), &manifest::line(&cursor))?;
            self.disk.sync_folder(&self.folder)?;
        }
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
fn next_position(done: &ShipPosition, pieces: &ByNumber, now: u64) -> Option<ShipPosition> {
    let over = Resolution::Minute.begin(now.saturating_sub(FINAL_SECS));
    // The minute goes back only with all rows of all pieces before it: none is shipped twice.
    let was_ahead = done.minute > now;
    let minute = if was_ahead { over } else { over.max(done.minute) };
    let mut to = ShipPosition { number: done.number + 1, minute, ..*done };
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
    let old = pieces.range(done.whole..to.below).take_while(|(_, part)| is_old(part)).last();
    to.whole = old.map_or(done.whole, |(number, _)| number + 1);
    if was_ahead {
        to.whole = to.below;
    }
    let is_due = was_ahead || to.minute > done.minute || to.whole > done.whole || more;
    let units = ShipmentRows::Pieces(*done, to);
    (is_due && pieces.values().any(|part| units.has(part))).then_some(to)
}

/// The numbers in a kept piece's name after its own: start and end of its span and, unless it is
/// old, its rows.
fn numbers(path: &Path) -> [Option<u64>; 3] {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut numbers = stem.split('-').skip(1);
    [(); 3].map(|()| numbers.next()?.parse().ok())
}

/// Reads what a folder of history keeps for ClickHouse; returns the problems.
pub(super) fn verify(dir: &Path, read: impl Fn(&Arc<Part>) -> io::Result<()>) -> Done<Vec<String>> {
    let cursor = cursor::read(&dir.join(UNSHIPPED).join(CURSOR));
    let mut problems: Vec<_> = cursor.err().iter().map(StoreError::to_string).collect();
    for path in ours_in(dir, UNSHIPPED)? {
        let read = kept_piece(&path).and_then(|part| read(&Arc::new(part)));
        // A running daemon may have removed it.
        if let Some(problem) = read.err().filter(|_| path.exists()) {
            problems.push(format!("{}: {problem}", path.display()));
        }
    }
    Ok(problems)
}

fn kept_piece(path: &Path) -> io::Result<Part> {
    let [Some(start), Some(end), _] = numbers(path) else { return Err(InvalidData.into()) };
    let file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    let sections = PendingFile::open(file)?.footer.sections();
    let (path, span) = (path.to_owned(), start..end);
    // Its hour is over.
    Ok(Part { path, span, sections, bytes, written: start, ..Part::default() })
}

#[cfg(test)]
mod tests;
