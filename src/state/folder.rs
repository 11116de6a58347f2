//! Folders that belong to one daemon: found, created when missing, and locked while open.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use thiserror::Error;
use tracing::warn;

use super::files;
use crate::config::units::{exact_bytes, rounded_bytes};

/// The setting that names a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// The meaning of "" in errors.
    pub without: &'static str,
    /// The purpose of free space in errors.
    pub room: &'static str,
}

/// `data.dir`.
pub const DATA: Setting = Setting { key: "data.dir", without: "for none", room: "" };

/// `state.dir`.
pub const STATE: Setting = Setting {
    key: "state.dir",
    without: "for the one in data.dir, if there is one",
    room: "the next snapshot is written beside the last one",
};

/// `history.dir`.
pub const HISTORY: Setting = Setting {
    key: "history.dir",
    without: "for the one in data.dir, if there is one",
    room: "history.free_min",
};

/// The reason why a folder, or a file in it, cannot be used. Each names the setting.
#[derive(Debug, Error)]
pub enum StateError {
    /// Something else has that name.
    #[error(
        "{}: {} is not a folder; accepted: a folder, which is made when it is missing, or \"\" {}",
        .setting.key, .path.display(), .setting.without
    )]
    NotAFolder {
        /// The setting that names it.
        setting: Setting,
        /// The setting's value, or a parent of it.
        path: PathBuf,
    },
    /// Another daemon uses it.
    #[error("{}: {} is in use by another pinbad; give each a folder of its own", .setting.key, .path.display())]
    InUse {
        /// The setting that names it.
        setting: Setting,
        /// The folder.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be created, opened, read or written. Starting without an
    /// unreadable file would end in overwriting it.
    #[error("{}: cannot {what} {}: {source}", .setting.key, .path.display())]
    Io {
        /// The setting that names the folder.
        setting: Setting,
        /// The failed action: "make the folder".
        what: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It can be written, but space is short.
    #[error(
        "{}: {} free for {}, where {} are needed ({})",
        .setting.key, rounded_bytes(*.free), .path.display(), .setting.shown(*.needed), .setting.room
    )]
    NoRoom {
        /// The setting that names the folder.
        setting: Setting,
        /// The folder.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
}

/// The cause, for who says the rest.
impl From<StateError> for io::Error {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Io { source, .. } => source,
            error => Self::other(error),
        }
    }
}

impl StateError {
    /// Whether a disk has no room.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_full(source.kind()))
    }

    /// Whether a disk takes nothing now: it is full or read-only. Does not end a start.
    pub(super) fn is_of_disk(&self) -> bool {
        let is_read_only = |it: &io::Error| it.kind() == io::ErrorKind::ReadOnlyFilesystem;
        self.is_full() || matches!(self, Self::Io { source, .. } if is_read_only(source))
    }

    /// A hint for the operator, as commands or settings, for a folder; empty if the error says it
    /// all.
    pub(crate) fn advice(&self, dir: &Path) -> String {
        match self {
            Self::NoRoom { setting: HISTORY, .. } => {
                MAKE_ROOM.replace(", or", ", lower history.free_min, or")
            }
            Self::NoRoom { .. } => MAKE_ROOM.to_owned(),
            Self::Io { source, path, .. } => advice_on(source, path, dir),
            Self::NotAFolder { .. } | Self::InUse { .. } => String::new(),
        }
    }

    /// The error and its [`advice`](Self::advice): for the log, `/readyz` and pages.
    pub(crate) fn advised(&self, dir: &Path) -> String {
        advised(self, &self.advice(dir))
    }

    /// Likewise for a file in the folder.
    pub(crate) fn file_advised(&self) -> String {
        match self {
            Self::Io { path, .. } => self.advised(path.parent().unwrap_or(path)),
            _ => self.to_string(),
        }
    }
}

/// A problem and what to do about it, if that is known.
pub(crate) fn advised(problem: impl fmt::Display, advice: &str) -> String {
    match advice {
        "" => problem.to_string(),
        advice => format!("{problem}; {advice}"),
    }
}

/// Whether this error means that a disk has no room.
pub(crate) const fn is_full(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What to do about a disk without room.
pub(crate) const MAKE_ROOM: &str =
    "make room on that disk, or name another folder: --data DIR (data.dir)";

/// What to do about an I/O error of a file or folder in `dir`; empty if nobody knows.
pub(crate) fn advice_on(error: &io::Error, path: &Path, dir: &Path) -> String {
    let absolute = std::path::absolute(dir);
    let shown = dir.display();
    match error.kind() {
        kind if is_full(kind) => MAKE_ROOM.to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => {
            let dir = absolute.as_deref().unwrap_or(dir).display();
            format!("mount it read-write; in a unit of systemd: ReadWritePaths={dir}")
        }
        _ if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
            format!(
                "look whether it is immutable (lsattr -d {shown}), or its file system or a container forbids it"
            )
        }
        // This does not help with errors of a file in it.
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound if !path.is_file() => {
            format!("mkdir -p {shown} && chown USER {shown}")
        }
        _ => String::new(),
    }
}

impl Setting {
    /// Formats the bytes needed: what a setting says as it is written there, as the log does.
    fn shown(self, needed: u64) -> String {
        match self {
            HISTORY => exact_bytes(needed),
            _ => rounded_bytes(needed),
        }
    }

    /// Wraps an I/O error of an action on a folder or file.
    pub(crate) fn failed(
        self,
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> StateError {
        let path = path.into();
        move |source| StateError::Io { setting: self, what, path, source }
    }
}

/// The folder that a daemon would open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder {
    /// It exists.
    Present,
    /// It would be created.
    Missing {
        /// The existing parent in which it would be created.
        above: PathBuf,
    },
}

/// Checks whether the folder exists or could be created; creates nothing.
///
/// # Errors
/// Fails if something else has that name or a parent's name, or cannot be read.
pub(crate) fn find(setting: Setting, path: &Path) -> Result<Folder, StateError> {
    for at in path.ancestors() {
        // The start of a relative path.
        let named = if at.as_os_str().is_empty() { Path::new(".") } else { at };
        match fs::metadata(named) {
            Ok(found) if found.is_dir() && at == path => return Ok(Folder::Present),
            Ok(found) if found.is_dir() => {
                return Ok(Folder::Missing { above: named.into() });
            }
            Ok(_) => {
                return Err(StateError::NotAFolder { setting, path: at.into() });
            }
            Err(error) => match error.kind() {
                // A dangling link is in the way too.
                io::ErrorKind::NotFound if fs::symlink_metadata(named).is_ok() => {
                    return Err(StateError::NotAFolder { setting, path: at.into() });
                }
                // One of its parents is in the way.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                _ => return Err(setting.failed("read", named)(error)),
            },
        }
    }
    Err(setting.failed("read", path)(io::ErrorKind::NotFound.into()))
}

/// Checks what [`LockedFolder::open`] would return, and whether this user may write there and has
/// `needed` bytes; for commands that check before the start. Creates and removes a small file, and
/// changes nothing else. Also returns the free bytes. A folder that another daemon uses is tried
/// too: a full disk is the worse news.
///
/// # Errors
/// As for [`LockedFolder::open`], and if writing fails, or space is short.
pub(crate) fn check(
    setting: Setting,
    path: &Path,
    needed: u64,
) -> Result<(Folder, u64), StateError> {
    let found = find(setting, path)?;
    let free = match &found {
        Folder::Present => {
            // Locks it for a moment; a lock that cannot be released ends with this process.
            let opened = LockedFolder::open(setting, path).map(drop);
            match opened {
                Ok(()) | Err(StateError::InUse { .. }) => {
                    let free = try_writing(setting, path, needed)?;
                    opened.map(|()| free)?
                }
                Err(error) => return Err(error),
            }
        }
        Folder::Missing { above } => {
            // A full disk may have room for a folder, as the start would find.
            probe(above).map_err(|error| {
                let what = if is_full(error.kind()) { "write to" } else { MAKE };
                setting.failed(what, path)(error)
            })?;
            has_room(setting, above, needed)?
        }
    };
    Ok((found, free))
}

/// The action in [`StateError::Io`] when a folder is missing.
pub const MAKE: &str = "make the folder";

/// Enough bytes to tell a full disk from one with room for names alone.
const PROBE: [u8; 4096] = [0x5a; 4096];

/// Writes, syncs, renames and removes a small file in a folder, and checks the free space; returns
/// the free bytes.
///
/// # Errors
/// Fails if any of these fails, or space is short.
pub(crate) fn try_writing(setting: Setting, dir: &Path, needed: u64) -> Result<u64, StateError> {
    probe(dir).map_err(setting.failed("write to", dir))?;
    has_room(setting, dir, needed)
}

fn probe(dir: &Path) -> io::Result<()> {
    let file = dir.join(format!(".probe-{}", std::process::id()));
    files::replace(&file, |file| io::Write::write_all(file, &PROBE))?;
    fs::remove_file(&file)
}

/// Less free space than this counts as none.
pub(crate) const LEAST_ROOM: u64 = 64 << 10;

/// Whether it seems that a folder can be written, without writing anything.
pub(crate) fn seems_writable(dir: &Path) -> bool {
    let is_permitted = rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok();
    is_permitted && files::free(dir).is_ok_and(|free| free >= LEAST_ROOM)
}

fn has_room(setting: Setting, path: &Path, needed: u64) -> Result<u64, StateError> {
    let free = files::free(path).map_err(setting.failed("read", path))?;
    match free < needed {
        false => Ok(free),
        true => Err(StateError::NoRoom { setting, path: path.into(), free, needed }),
    }
}

/// The folder in which a daemon rewrites files: `state.dir`, or without that `history.dir`.
#[derive(Debug, Clone)]
pub struct KeptFolder {
    pub(crate) setting: Setting,
    pub(crate) dir: PathBuf,
    is_made: Arc<AtomicBool>,
}

impl KeptFolder {
    /// One that is there, as far as known.
    pub(crate) fn new(setting: Setting, dir: &Path) -> Self {
        Self { setting, dir: dir.into(), is_made: Arc::new(true.into()) }
    }

    /// Opens and locks it, as [`LockedFolder::open`].
    pub(super) fn lock(&self) -> Result<LockedFolder, StateError> {
        let opened = LockedFolder::open(self.setting, &self.dir);
        self.was_opened(opened.as_ref().err());
        opened
    }

    /// Records how an attempt to open it ended.
    pub(crate) fn was_opened(&self, error: Option<&StateError>) {
        let is_missing = matches!(error, Some(StateError::Io { what: MAKE, .. }));
        if is_missing || error.is_none() {
            self.is_made.store(!is_missing, Ordering::Relaxed);
        }
    }

    /// Whether it was there when it was opened, or has been made. Until then, one that is there is
    /// another daemon's.
    pub(crate) fn is_made(&self) -> bool {
        self.is_made.load(Ordering::Relaxed)
    }
}

/// A folder, locked until drop.
#[derive(Debug)]
pub struct LockedFolder {
    setting: Setting,
    /// Its path.
    pub path: PathBuf,
    /// Open for the lock, and to sync renames.
    file: File,
}

impl LockedFolder {
    /// Opens a folder, creates it if missing, and locks it.
    ///
    /// # Errors
    /// Fails if it is not a folder, belongs to another daemon, or cannot be created or opened.
    pub(crate) fn open(setting: Setting, path: &Path) -> Result<Self, StateError> {
        if find(setting, path)? != Folder::Present {
            files::create_folder(path, files::FOLDER_MODE).map_err(setting.failed(MAKE, path))?;
        }
        let file = File::open(path).map_err(setting.failed("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::InUse { setting, path: path.into() });
            }
            // Some network file systems cannot lock folders; that is no reason to lose their data.
            Err(TryLockError::Error(error)) => warn!(
                %error, dir = %path.display(), "Cannot lock {}: make sure that no other daemon uses it.", setting.key
            ),
        }
        Ok(Self { setting, path: path.into(), file })
    }

    /// Checks that the path still leads to this folder, and not to what was mounted over it or is
    /// left where it was mounted.
    ///
    /// # Errors
    /// Fails if it does not.
    pub(crate) fn check_in_place(&self) -> Result<(), StateError> {
        let found = self.file.metadata().and_then(|it| Ok([it, fs::metadata(&self.path)?]));
        let failed = self.setting.failed("write to", &self.path);
        match found.map(|both| both.map(|it| (it.dev(), it.ino()))) {
            Ok([opened, here]) if opened == here => Ok(()),
            Ok(_) => Err(failed(io::Error::other(
                "another folder has been mounted or put there since the start",
            ))),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child process that was just forked, until it runs
        // its program.
        if let Err(error) = self.file.unlock() {
            warn!(%error, dir = %self.path.display(), "Cannot unlock {}.", self.setting.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_although_it_is_permitted_looks_for_a_reason() {
        let dir = Path::new("data");
        let advice = advice_on(&Errno::PERM.into(), dir, dir);
        assert!(advice.contains("immutable (lsattr -d data)"), "{advice}");
        assert!(advice_on(&Errno::ACCESS.into(), dir, dir).contains("chown USER data"));
    }

    /// A unit of systemd accepts no other.
    #[test]
    fn a_folder_for_systemd_is_absolute() {
        let [dir, path] = ["data", "data/snapshot"].map(Path::new);
        let advice = advice_on(&Errno::ROFS.into(), path, dir);
        let expected = std::env::current_dir().unwrap().join(dir);
        assert!(advice.ends_with(&format!("ReadWritePaths={}", expected.display())), "{advice}");
        let refused = STATE.failed("write", path)(Errno::ROFS.into()).file_advised();
        assert!(refused.contains("cannot write data/snapshot: "), "{refused}");
        assert!(refused.ends_with(&format!("; {advice}")), "{refused}");
    }
}
