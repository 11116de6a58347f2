//! The rows on disk: opened at start, written by the history thread alone, read by everybody.
//!
//! ```text
//!   history.dir/
//!     manifest                  which files count
//!     unshipped/                what ClickHouse has not got yet: see `history::shipping`
//!     pending/N.piece           what is not published yet: minutes of an hour, hours of a day, days of a month
//!     pending/N.new             what is being written
//!     pending/N.log             what is in memory: see `history::log_of_seconds`
//!     rollup/report=NAME/resolution=minute/date=2026-11-22/13-HASH-N.parquet
//!     rollup/report=NAME/resolution=hour/date=2026-11-22/HASH-N.parquet
//!     rollup/report=NAME/resolution=day/date=2026-11-01/HASH-N.parquet
//!     coverage/resolution=../date=../..       for how long there were which
//!     orphans/..                              files that the manifest cannot account for
//!     request/date=2026-11-22/13-N.parquet    raw requests; `timer` and `request_tag` alike
//! ```
//!
//! Each change is one commit to the manifest: new files are written under temporary names, synced,
//! renamed, their folders synced, then the commit is appended and synced. Before it the old parts
//! count, after it the new ones. A failed change has no effect and can be tried again. Files are
//! deleted, at once or at the next start, if they have a temporary name or the manifest says that
//! they do not count; other unknown files are moved to `orphans`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::{error, info, warn};

use super::dataset::Coverage;
use super::disk::{Disk, Done, StoreError, Tries, failed};
use super::file_names::{
    DAMAGED, ORPHANS, PENDING, UNSHIPPED, checksum, is_temporary, ours_in, uncounted,
};
use super::log_of_seconds::Log;
use super::manifest::file::COMMITS_BYTES_MAX;
use super::manifest::{Manifest, UpTo};
use super::part::{Part, Parts, Section, number_of};
use super::pending::PendingWriter;
use super::retention::{AgeClock, Retention};
use super::shipping::Shipping;
use crate::config::ShippedRows;
use crate::input::squid::Positions;
use crate::state::files;
use crate::state::folder::{HISTORY, LockedFolder};
use crate::state::snapshot_writer::PiecesCut;
use crate::telemetry::counters::StoreCounters;

/// The part of `history.size_max` that the log of seconds may take.
const LOG_SHARE: u64 = 8;

/// The folder of history, open for writing.
#[derive(Debug)]
pub struct Store {
    pub(super) folder: LockedFolder,
    pub(super) disk: Disk,
    pub(super) manifest: Manifest,
    /// The manifest, open for appending.
    commits: File,
    /// The length at which it is rewritten.
    compact_at: u64,
    /// Whether the file may differ from memory: it is rewritten before anything else is done.
    pub(super) is_unsure: bool,
    /// Files that no commit names; removed before anything else is done.
    pub(super) leftover: Vec<PathBuf>,
    /// Parts that no longer count, but may still be read.
    pub(super) removed: Vec<Arc<Part>>,
    parts: Parts,
    /// The limits of retention.
    pub retention: Retention,
    pub(super) age: AgeClock,
    /// The piece that could not be read for publishing.
    pub(super) unread: Tries,
    /// Missing data that is not in coverage yet.
    pub(super) lost: Vec<Lost>,
    /// Data kept for ClickHouse, if there is one.
    pub(super) shipping: Option<Shipping>,
    /// Additions to the rows in memory that no commit has.
    pub(super) seconds: Log,
    /// Spans whose minutes live reports are refilled from, and until when, in unix seconds.
    pub(super) refilled: Vec<(Range<u64>, u64)>,
    /// Where snapshots end.
    pub(super) cuts: Vec<PiecesCut>,
    /// Counters.
    pub counters: StoreCounters,
}

/// What is missing of a dataset with this [key](super::Dataset::coverage_key), since a unix second.
pub(super) type Lost = (Vec<u8>, u64, Coverage);

impl Store {
    /// Opens a folder, creates it if missing, locks it, counts the run, and removes leftovers of a
    /// crash.
    ///
    /// # Errors
    /// Fails if the folder is not one or in use, the manifest is damaged, missing or of a newer
    /// program, or nothing can be written. Nothing is changed then.
    pub fn open(dir: &Path, retention: Retention) -> Done<Self> {
        Self::open_on(Disk::default(), dir, retention)
    }

    pub(super) fn open_on(disk: Disk, dir: &Path, retention: Retention) -> Done<Self> {
        let folder = LockedFolder::open(HISTORY, dir)?;
        let path = Manifest::path(dir);
        let found = Manifest::open(dir)?;
        if found.is_some() {
            // The process before may have ended between writing and syncing. Files are removed by
            // what it says, so it is to stay: a power cut could bring back one that counts them.
            let file = File::open(&path).map_err(failed("read", &path))?;
            disk.sync(&file, &path)?;
            disk.sync_folder(dir)?;
        }
        let mut manifest = found.unwrap_or_else(|| Manifest::new(dir));
        if manifest.torn > 0 {
            warn!(file = %path.display(), bytes = manifest.torn, "Left out a commit that was not finished.");
        }
        let aged = manifest.aged.unwrap_or_default();
        let expired = |part: &Part| retention.is_too_old(part, aged);
        let changed = manifest.begin_run(expired);
        let [missing, returned] = &changed;
        missing.iter().for_each(|part| say_missing(part));
        for part in returned {
            warn!(file = %part.path.display(), rows = part.rows(), "A file of history that was missing is back; its rows, of all reports, count again.");
        }
        // Uncounted files are removed first, to make room.
        let (deletable, orphans) = uncounted(dir, &manifest)?;
        // New files must not get the name of an existing one.
        let lying = [ours_in(dir, ORPHANS)?, ours_in(dir, UNSHIPPED)?].concat();
        let lying = [&deletable, &orphans, &lying].into_iter().flatten();
        lying.for_each(|file| manifest.pass(number_of(file)));
        for file in &deletable {
            disk.remove(file)?;
            manifest.forget(file);
        }
        // The first change: anything written later has this run's number. On a full disk it may
        // still find room after the manifest, so that old files can be removed.
        let written = manifest.rewrite(&disk);
        let commits =
            written.or_else(|why| manifest.append_run(&disk, &changed).map_err(|_| why))?;
        // In either case: if its name were not durable, a power cut would restore an older one.
        disk.sync_folder(dir)?;
        let pending = dir.join(PENDING);
        disk.make_folder(&pending, files::FOLDER_MODE)?;
        let mut seconds = Log::find(&disk, pending, manifest.log.unwrap_or_default())?;
        seconds.bytes_max = retention.size_max / LOG_SHARE;
        let counters = StoreCounters::default();
        counters.files_missing.add(missing.len() as u64);
        counters.files_returned.add(returned.len() as u64);
        let mut store = Self {
            folder,
            disk,
            age: AgeClock::of(manifest.aged),
            compact_at: manifest.bytes + COMMITS_BYTES_MAX,
            manifest,
            commits,
            is_unsure: false,
            leftover: Vec::new(),
            removed: Vec::new(),
            parts: Parts::default(),
            retention,
            unread: Tries::default(),
            lost: Vec::new(),
            refilled: Vec::new(),
            cuts: Vec::new(),
            shipping: None,
            seconds,
            counters,
        };
        orphans.iter().for_each(|file| store.orphan(file));
        store.show(|| ());
        Ok(store)
    }

    /// Moves a file that cannot be accounted for to the orphans.
    pub(super) fn orphan(&mut self, file: &Path) {
        let dir = self.dir();
        let to = dir.join(ORPHANS).join(file.strip_prefix(dir).unwrap_or(file));
        let folder = to.parent().unwrap_or(dir);
        let made = files::create_folder(folder, files::FOLDER_MODE).map_err(failed("make", &to));
        match made.and_then(|()| self.disk.rename(file, &to)) {
            Ok(()) => {
                let _may_be_undone = self.disk.sync_folder(folder);
                self.counters.files_orphaned.add(1);
                warn!(file = %file.display(), to = %to.display(), "A file of history cannot be accounted for: it is moved away and does not count.");
            }
            Err(error) => {
                warn!(file = %file.display(), %error, "A file of history cannot be accounted for, and stays; it does not count.");
            }
        }
    }

    /// Keeps data to be shipped from now on, until it is; called after [`share`](Self::share).
    /// `None`: what was shipped last, if a ClickHouse was configured before, but none is now: it
    /// may come back.
    ///
    /// # Errors
    /// Fails if its folder cannot be used, or the state in it cannot be read.
    pub fn ship(&mut self, what: Option<&[ShippedRows]>) -> Done<Option<Shipping>> {
        if what.is_some() || Shipping::has_begun(self.dir()) {
            self.shipping = Some(Shipping::open(self, what)?);
        }
        if what.is_none() && self.shipping.is_some() {
            info!("Keeping rows for ClickHouse, within retention, until unshipped is removed.");
        }
        Ok(self.shipping.clone())
    }

    /// The parts that count, shared with readers.
    pub fn parts(&self) -> Parts {
        Arc::clone(&self.parts)
    }

    /// Publishes the parts that count to `parts`, and from now on only there.
    pub fn share(&mut self, parts: Parts) {
        self.parts = parts;
        self.show(|| ());
    }

    pub(super) fn dir(&self) -> &Path {
        &self.folder.path
    }

    /// The identity of the store: 32 hexadecimal digits, as a number.
    pub(crate) fn id(&self) -> u128 {
        u128::from_str_radix(&self.manifest.head.store, 16).unwrap_or_default()
    }

    /// How often it was opened, including this time.
    pub(crate) fn run(&self) -> u64 {
        self.manifest.head.run
    }

    /// The positions of followed files on disk, in the log of seconds too.
    pub(crate) fn files(&self) -> &Positions {
        &self.manifest.files
    }

    /// Runs an action that changes the disk, after clearing up earlier failures.
    pub(super) fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Done<T>) -> Done<T> {
        self.repair_manifest()?;
        let done = work(self);
        if done.is_err() {
            // Files of the failed attempt take room; if they cannot be removed now, they are before
            // the next attempt.
            let _later = self.repair_manifest();
        }
        self.delete_removed();
        done
    }

    /// Makes manifest and files agree with memory. Needs no room: on a full disk, the manifest is
    /// truncated to its former length.
    fn repair_manifest(&mut self) -> Done {
        self.folder.check_in_place()?;
        // Temporary files never counted, whatever the manifest says, and may be all the room there
        // is.
        self.clear_up(is_temporary)?;
        if self.is_unsure || self.manifest.bytes > self.compact_at {
            match self.manifest.rewrite(&self.disk) {
                Ok(commits) => {
                    self.commits = commits;
                    // Until its name is durable.
                    self.is_unsure = true;
                }
                Err(error) if self.is_unsure => {
                    self.manifest.cut(&self.disk, &mut self.commits).map_err(|_| error)?;
                }
                // It may grow until there is room.
                Err(_) => {}
            }
            if self.is_unsure {
                self.disk.sync_folder(&self.folder.path)?;
            }
            self.compact_at = self.manifest.bytes + COMMITS_BYTES_MAX;
            self.is_unsure = false;
        }
        self.clear_up(|_| true)
    }

    /// Deletes files that do not count.
    fn clear_up(&mut self, which: impl Fn(&Path) -> bool) -> Done {
        while let Some(at) = self.leftover.iter().position(|file| which(file)) {
            self.disk.remove(&self.leftover[at])?;
            self.manifest.forget(&self.leftover.remove(at));
        }
        Ok(())
    }

    /// The temporary name of the file with this number.
    fn unfinished(&self, number: u64) -> PathBuf {
        self.dir().join(PENDING).join(format!("{number}.new"))
    }

    /// A new file with a temporary name.
    pub(super) fn create(&mut self) -> Done<(PathBuf, File)> {
        let path = self.unfinished(self.manifest.next);
        self.manifest.next += 1;
        self.leftover.push(path.clone());
        let file = self.disk.create(&path)?;
        Ok((path, file))
    }

    /// Syncs the file of a part, which still has its temporary name.
    pub(super) fn stage(&self, file: &File, part: Part, now: u64) -> Done<Part> {
        let path = self.unfinished(part.number());
        self.disk.sync(file, &path)?;
        let (bytes, crc) = checksum(&path).map_err(failed("read", &path))?;
        Ok(Part { bytes, crc, written: now, ..part })
    }

    /// Finishes and syncs a piece.
    pub(super) fn stage_piece(&self, piece: PendingWriter, now: u64) -> Done<Part> {
        let (file, part) = piece.finish()?;
        self.stage(&file, part, now)
    }

    /// Names the files of new parts, and commits them in place of others;
    /// [`StoreError::Stopped`] if one of those no longer exists. They include all data up to
    /// `up_to`, if that is given. For `then`, see [`flush`](Self::flush).
    pub(super) fn commit(
        &mut self,
        add: Vec<Part>,
        remove: Vec<Arc<Part>>,
        up_to: Option<UpTo<'_>>,
        then: impl FnOnce(),
    ) -> Done {
        if !remove.iter().all(|part| self.manifest.has(&part.path)) {
            return Err(StoreError::Stopped);
        }
        let path = Manifest::path(&self.folder.path);
        if !add.is_empty() {
            // Unsynced: after a kill between the names and the commit these may be deleted; after a
            // power cut they may be orphans.
            let line = self.manifest.announce(&add);
            self.is_unsure = true;
            self.disk.write(&mut self.commits, &path, &line)?;
            self.manifest.bytes += line.len() as u64;
        }
        let mut folders = BTreeSet::new();
        for part in &add {
            self.leftover.push(part.path.clone());
            let file = self.unfinished(part.number());
            match part.is_published() {
                true => self.disk.publish(&file, &part.path)?,
                false => self.disk.rename(&file, &part.path)?,
            }
            folders.extend(part.path.parent());
        }
        for folder in folders {
            self.disk.sync_folder(folder)?;
        }
        if let Some(shipping) = self.shipping.as_ref().filter(|_| !add.is_empty()) {
            shipping.keep(&self.disk, &remove)?;
        }
        let logs = up_to.map(|up_to| self.seconds.up_to(up_to.log)).unwrap_or_default();
        let (commit, line) = self.manifest.commit(&add, &remove, up_to, &logs);
        self.is_unsure = true;
        self.disk.append(&mut self.commits, &path, &line)?;
        self.manifest.apply(commit).map_err(io::Error::other).map_err(failed("write", &path))?;
        self.is_unsure = false;
        self.manifest.bytes += line.len() as u64;
        self.leftover.clear();
        self.removed.extend(remove);
        let published = add.iter().filter(|part| part.is_published()).count();
        self.counters.bytes_written.add(add.iter().map(|part| part.bytes).sum());
        self.counters.files_published.add(published as u64);
        self.show(then);
        Ok(())
    }

    /// Publishes the parts that count to readers, who take them before or after `then`.
    fn show(&self, then: impl FnOnce()) {
        let list: Arc<[_]> = self.manifest.parts().cloned().collect();
        let mut parts = self.parts.write();
        let _freed_unlocked = std::mem::replace(&mut *parts, list);
        then();
        drop(parts);
    }

    /// Deletes removed parts that nobody reads any more.
    pub(super) fn delete_removed(&mut self) {
        self.removed.retain(|part| {
            // Nobody can take another reference: it is in no list.
            if Arc::strong_count(part) > 1 || self.disk.remove(&part.path).is_err() {
                return true;
            }
            self.manifest.forget(&part.path);
            if part.is_published() {
                // A date without files; others are not empty.
                let _not_empty = part.path.parent().map(fs::remove_dir);
            }
            false
        });
    }

    /// Sets a damaged or unreadable piece aside: its rows are lost, all others are not. One that is
    /// gone counts again when a start finds it.
    pub(super) fn set_aside(&mut self, path: &Path, reason: &str) -> Done {
        self.repair_manifest()?;
        let Some(part) = self.manifest.parts().find(|part| part.path == path).cloned() else {
            return Ok(());
        };
        // A second name before the commit, after which the first is deleted: whatever happens in
        // between, people, readers and ClickHouse can still access it.
        let aside = path.with_extension(DAMAGED);
        let kept = self.disk.link(path, &aside);
        let kept = kept.and_then(|()| self.disk.sync_folder(&self.dir().join(PENDING)));
        let removed = vec![Arc::clone(&part)];
        let shipping = self.shipping.clone();
        if !path.try_exists().map_err(failed("read", path))? {
            // A commit would have it deleted: the next start looks for it.
            self.manifest.miss(&part);
            shipping.iter().for_each(|it| it.miss(&part));
            self.show(|| ());
            self.counters.files_missing.add(1);
            say_missing(&part);
            return Ok(());
        }
        kept?;
        shipping.iter().try_for_each(|it| it.keep(&self.disk, &removed))?;
        self.commit(Vec::new(), removed, None, || ())?;
        self.counters.pieces_damaged.add(1);
        for Section { dataset, rows } in &part.sections {
            let lost = Coverage { rows_lost: *rows, ..Coverage::default() };
            self.lost.push((dataset.coverage_key(), part.span.start, lost));
        }
        error!(file = %path.display(), reason, set_aside = %aside.display(), "Set aside a piece of history that cannot be read; its rows are lost.");
        Ok(())
    }
}

fn say_missing(part: &Part) {
    error!(file = %part.path.display(), rows = part.rows(), "A file of history is missing; its rows, of all reports, do not count until a start finds it.");
}

#[cfg(test)]
mod tests;
