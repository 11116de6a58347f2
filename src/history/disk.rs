//! All changes to files and folders of history happen here, each durable before the next, so that
//! tests can stop a store after any of them.

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use crate::instruments::{Instrument, MeasuredWrite};
use crate::shutdown::Shutdown;
use crate::state::files::{self, Opened};
use crate::state::folder::{HISTORY, StateError};

/// The reason why history cannot be opened or written.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The folder, or something in it, cannot be used.
    #[error(transparent)]
    Folder(#[from] StateError),
    /// Written by a newer program.
    #[error(
        "history.dir: {} has format {found}, and this program knows formats up to {known}; use the program that wrote it, or \
         another folder", .path.display()
    )]
    Newer {
        /// The manifest.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// The content of a file is not as written.
    #[error("history.dir: {} is damaged: {reason}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// A piece to be published cannot be read, temporarily or permanently.
    #[error("history.dir: cannot read {}: {source}", .path.display())]
    Unreadable {
        /// The piece.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A stop was requested meanwhile, or the input has changed; nothing was changed, and it can be
    /// tried again.
    #[error("stopped")]
    Stopped,
}

impl StoreError {
    /// The error, and what to do about it where that is known.
    pub(super) fn advised(&self, dir: &Path) -> String {
        match self {
            Self::Folder(error) => error.advised(dir),
            other => other.to_string(),
        }
    }

    /// The error with advice, and its cause, which errors of several files may share.
    pub(super) fn with_cause(&self, dir: &Path) -> (String, String) {
        let cause = match self {
            Self::Folder(StateError::Io { source, .. }) => source.to_string(),
            // Numbers in it are those of a file or of free bytes: they differ each time.
            other => other.to_string().replace(|it: char| it.is_ascii_digit(), ""),
        };
        (self.advised(dir), cause)
    }

    /// The error, if it is one of the folder or a file in it.
    pub(crate) const fn of_folder(&self) -> Option<&StateError> {
        match self {
            Self::Folder(error) => Some(error),
            _ => None,
        }
    }

    /// Whether a disk has no room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Folder(error) if error.is_full())
    }

    /// Returns [`Stopped`](Self::Stopped) if a stop is requested.
    pub(super) fn unless_stopped(stop: &Shutdown) -> Result<(), Self> {
        if stop.requested() { Err(Self::Stopped) } else { Ok(()) }
    }
}

/// The error for a file whose content is not as written.
pub(super) fn damaged(path: &Path, reason: String) -> StoreError {
    let path = path.to_owned();
    StoreError::Damaged { path, reason }
}

/// Reads a file, if there is one.
pub(super) fn read_existing(path: &Path) -> Done<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match files::open(path).map_err(failed("read", path))? {
        Opened::Nothing => return Ok(None),
        Opened::File(mut file) => file.read_to_end(&mut bytes).map_err(failed("read", path))?,
        Opened::Other(reason) => return Err(damaged(path, reason)),
    };
    Ok(Some(bytes))
}

/// Wraps the error of an action on a file.
pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let failed = HISTORY.failed(what, path);
    move |error| failed(error).into()
}

/// Attempts to read a piece before it is given up: over a minute or two.
pub(crate) const READ_TRIES: u32 = 8;

/// The file that could not be read, and how often in a row.
#[derive(Debug, Default)]
pub(super) struct Tries(Option<(PathBuf, u32)>);

impl Tries {
    /// Counts a failed attempt to read a file; returns how many there were.
    pub(super) fn count(&mut self, path: &Path) -> u32 {
        let before = self.0.take().filter(|(before, _)| before == path);
        let tries = before.map_or(0, |(_, tries)| tries) + 1;
        self.0 = Some((path.to_owned(), tries));
        tries
    }

    /// The file that is to be given up, and why: it is damaged, or was tried often enough.
    ///
    /// # Errors
    /// The error, if it is to be tried again.
    pub(super) fn given_up(&mut self, error: StoreError) -> Done<(PathBuf, String)> {
        match error {
            StoreError::Damaged { path, reason } => Ok((path, reason)),
            StoreError::Unreadable { path, source } if self.count(&path) >= READ_TRIES => {
                Ok((path, source.to_string()))
            }
            error => Err(error),
        }
    }
}

/// The error for a failed read, temporary or permanent.
pub(super) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    // A folder may be away for a while.
    let lasting = [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NOENT].map(Errno::raw_os_error);
    move |error| match error.kind() {
        InvalidData | UnexpectedEof => damaged(path, error.to_string()),
        _ if error.raw_os_error().is_some_and(|it| lasting.contains(&it)) => {
            StoreError::Unreadable { path: path.into(), source: error }
        }
        // System limits: descriptors, memory, permissions.
        _ => failed("read", path)(error),
    }
}

/// Mode of published files. Pieces, the manifest and unfinished files are private: rows contain
/// names from requests. Published files are readable by everybody who may enter `history.dir`: that
/// folder's mode alone decides.
pub(super) const PUBLIC_FILE: u32 = 0o644;
/// Folders of published files.
pub(super) const PUBLIC_FOLDER: u32 = 0o755;

/// Writing a file of `history.dir`.
pub(super) static HISTORY_WRITE: Instrument =
    Instrument::wait("wait/io/file/history/write", "write");
/// Syncing a file of `history.dir`.
pub(super) static HISTORY_SYNC: Instrument = Instrument::wait("wait/io/file/history/sync", "sync");

/// Whether the file at `path` is this one.
fn is_at(file: &File, path: &Path) -> bool {
    let found = file.metadata().and_then(|it| Ok((it, fs::metadata(path)?)));
    found.is_ok_and(|(a, b)| (a.dev(), a.ino()) == (b.dev(), b.ino()))
}

/// The disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    /// Simulated failures in tests.
    #[cfg(test)]
    pub(super) faults: crate::state::faults::Faults,
}

/// The result of an action on the store.
pub(super) type Done<T = ()> = Result<T, StoreError>;

impl Disk {
    /// Called before each change.
    fn step(&self, what: &'static str, path: &Path) -> Done {
        #[cfg(test)]
        self.faults.change(what, path).map_err(failed(what, path))?;
        let _ = (what, path);
        Ok(())
    }

    /// Called after a change that may fail although it was made.
    fn made(&self, what: &'static str, path: &Path) -> Done {
        #[cfg(test)]
        self.faults.late().map_err(failed(what, path))?;
        let _ = (what, path);
        Ok(())
    }

    /// Opens a piece to be published.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        #[cfg(test)]
        self.faults.read(path)?;
        File::open(path)
    }

    /// Creates a file readable by its owner.
    pub(super) fn create(&self, path: &Path) -> Done<File> {
        self.step("make", path)?;
        let file = files::create(path).map_err(failed("make", path))?;
        // Creating a name still works on a full disk.
        #[cfg(test)]
        let file = self.faults.full().unwrap_or(file);
        Ok(file)
    }

    /// Syncs a file.
    pub(super) fn sync(&self, file: &File, path: &Path) -> Done {
        self.step("sync", path)?;
        // In tests the simulated failures decide what survives a power cut.
        if cfg!(test) {
            return self.made("sync", path);
        }
        let _waiting = HISTORY_SYNC.begin();
        file.sync_all().map_err(failed("sync", path))
    }

    /// Syncs a folder.
    pub(super) fn sync_folder(&self, path: &Path) -> Done {
        let folder = File::open(path).map_err(failed("sync", path))?;
        self.sync(&folder, path)
    }

    /// Appends to a file, and syncs it.
    pub(super) fn append(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Done {
        self.write(file, path, bytes)?;
        self.sync(file, path)
    }

    /// Appends to a file.
    pub(super) fn write(&self, file: &mut File, path: &Path, bytes: &[u8]) -> Done {
        if let Err(error) = self.step("write", path) {
            // A power cut may leave any part of it.
            let _torn = file.write_all(bytes.get(..bytes.len() / 2).unwrap_or_default());
            return Err(error);
        }
        let mut to = MeasuredWrite::new(&mut *file, &HISTORY_WRITE);
        to.write_all(bytes).map_err(failed("write", path))?;
        self.made("write", path)
    }

    /// Replaces a file as a whole: there is always either the old or the new version. Returns the
    /// new one, open for appending; its name is not synced yet.
    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> Done<File> {
        let new = path.with_added_extension("new");
        let written = self.create(&new).and_then(|mut file| {
            self.append(&mut file, &new, bytes)?;
            match self.rename(&new, path) {
                // Some file systems report an error for a rename that was done.
                Err(error) if !is_at(&file, path) => Err(error),
                _ => Ok(file),
            }
        });
        written.inspect_err(|_| {
            // It takes room; the next attempt replaces it anyway.
            let _leftover = fs::remove_file(&new);
        })
    }

    /// Truncates a file to an earlier length, and continues writing there.
    pub(super) fn cut(&self, file: &mut File, path: &Path, bytes: u64) -> Done {
        self.step("cut", path)?;
        let cut = file.set_len(bytes).and_then(|()| file.seek(SeekFrom::Start(bytes)));
        cut.map_err(failed("cut", path))?;
        self.sync(file, path)
    }

    /// Renames a file to its final name, readable by everybody who may enter the folder.
    pub(super) fn publish(&self, from: &Path, to: &Path) -> Done {
        self.make_folder(to.parent().unwrap_or(Path::new("")), PUBLIC_FOLDER)?;
        let mode = Permissions::from_mode(PUBLIC_FILE);
        fs::set_permissions(from, mode).map_err(failed("publish", from))?;
        self.rename(from, to)
    }

    /// Renames a file.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Done {
        self.step("rename", to)?;
        #[cfg(test)]
        self.faults.renamed(from, to);
        fs::rename(from, to).map_err(failed("rename", to))?;
        self.made("rename", to)
    }

    /// Hard-links a file, unless that exists already; copies it if that is impossible.
    pub(super) fn link(&self, from: &Path, to: &Path) -> Done {
        self.step("link", to)?;
        let error = match fs::hard_link(from, to) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => error,
            _ => return self.made("link", to),
        };
        let unable = [Errno::PERM, Errno::OPNOTSUPP, Errno::NOSYS, Errno::MLINK, Errno::XDEV];
        if !unable.iter().any(|it| error.raw_os_error() == Some(it.raw_os_error())) {
            return Err(failed("link", to)(error));
        }
        let new = to.with_added_extension("new");
        let copy = || {
            io::copy(&mut File::open(from)?, &mut files::create(&new)?)?;
            File::open(&new)?.sync_all()
        };
        copy().map_err(failed("copy", to))?;
        self.rename(&new, to)
    }

    /// Creates a folder and missing parents.
    pub(super) fn make_folder(&self, path: &Path, mode: u32) -> Done {
        if path.is_dir() {
            return Ok(());
        }
        let above = path.parent().unwrap_or(Path::new(""));
        self.make_folder(above, mode)?;
        self.step("make", path)?;
        files::create_folder(path, mode).map_err(failed("make", path))?;
        self.sync_folder(above)
    }

    /// Removes a file, if it exists.
    pub(super) fn remove(&self, path: &Path) -> Done {
        self.step("remove", path)?;
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", path)(error))
            }
            _ => Ok(()),
        }
    }

    /// Bytes that this user may still write.
    pub(super) fn free(&self, path: &Path) -> Done<u64> {
        let free = files::free(path).map_err(failed("read", path))?;
        #[cfg(test)]
        let free = self.faults.free().unwrap_or(free);
        Ok(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Like `unshipped` on a file system of its own.
    #[test]
    fn what_is_to_be_linked_on_another_file_system_is_copied() {
        let folders = ["/dev/shm", "/var/tmp"].map(|it| tempfile::tempdir_in(it).unwrap());
        let [from, to] = folders.each_ref().map(|it| it.path().join("file"));
        fs::write(&from, "rows").unwrap();
        let linked = fs::hard_link(&from, &to).map_err(|it| it.kind());
        if linked != Err(io::ErrorKind::CrossesDevices) {
            return; // One file system has both.
        }
        Disk::default().link(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"rows");
    }
}
