//! Folders that are one daemon's: found, made when missing, and locked for as long as they are open.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::warn;

use super::files;
use crate::config::units::rounded_bytes;

/// The setting that names a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// What it is "" for.
    pub without: &'static str,
    /// What room is needed for.
    pub room: &'static str,
}

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

/// Why a folder, or a file in it, cannot be used. Each names the setting.
#[derive(Debug, Error)]
pub enum StateError {
    /// Something else has that name.
    #[error(
        "{}: {} is not a folder; accepted: a folder, which is made when it is missing, or \"\" {}",
        .setting.key, .path.display(), .setting.without
    )]
    NotAFolder {
        /// What names it.
        setting: Setting,
        /// The setting's value, or what stands above it.
        path: PathBuf,
    },
    /// Another daemon has it.
    #[error("{}: {} is in use by another pinbad; give each a folder of its own", .setting.key, .path.display())]
    InUse {
        /// What names it.
        setting: Setting,
        /// The folder.
        path: PathBuf,
    },
    /// The folder or a file in it cannot be made, opened, read or written. Starting without a file that cannot be read
    /// would end in overwriting it.
    #[error("{}: cannot {what} {}: {source}", .setting.key, .path.display())]
    Io {
        /// What names the folder.
        setting: Setting,
        /// What was tried: "make the folder".
        what: &'static str,
        /// The folder or the file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It can be written, but not for long.
    #[error(
        "{}: {} free for {}, where {} are needed ({})",
        .setting.key, rounded_bytes(*.free), .path.display(), rounded_bytes(*.needed), .setting.room
    )]
    NoRoom {
        /// What names the folder.
        setting: Setting,
        /// The folder.
        path: PathBuf,
        /// Bytes that are free.
        free: u64,
        /// Bytes that should be.
        needed: u64,
    },
}

impl StateError {
    /// What the operator can do about it, as commands or settings, for a folder; empty where the error says it all.
    #[must_use]
    pub fn advice(&self, dir: &Path) -> String {
        let dir = dir.display();
        let room = "make room on that disk, or name another folder: --data DIR (data.dir)";
        let Self::Io { source, path, .. } = self else {
            return match self {
                Self::NoRoom { .. } => room.to_owned(),
                _ => String::new(),
            };
        };
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => room.to_owned(),
            io::ErrorKind::ReadOnlyFilesystem => {
                format!("mount it read-write; in a unit of systemd: ReadWritePaths={dir}")
            }
            // What is wrong with a file in it is not mended so.
            _ if path.is_file() => String::new(),
            _ => format!("mkdir -p {dir} && chown USER {dir}"),
        }
    }
}

impl Setting {
    /// The error of what was tried with a folder or file.
    pub fn failed(self, what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StateError {
        let path = path.into();
        move |source| StateError::Io {
            setting: self,
            what,
            path,
            source,
        }
    }
}

/// The folder that a daemon would open, before it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Folder {
    /// It is there.
    Present,
    /// It would be made.
    Missing {
        /// The folder that is there already, in which that would begin.
        above: PathBuf,
    },
}

/// Whether there is a folder of that name, or could be one; makes nothing.
///
/// # Errors
/// When something else has that name or one above it, or cannot be read.
pub fn find(setting: Setting, path: &Path) -> Result<Folder, StateError> {
    for at in path.ancestors() {
        // What a relative path begins in.
        let named = if at.as_os_str().is_empty() {
            Path::new(".")
        } else {
            at
        };
        match fs::metadata(named) {
            Ok(found) if found.is_dir() && at == path => return Ok(Folder::Present),
            Ok(found) if found.is_dir() => {
                return Ok(Folder::Missing {
                    above: named.into(),
                });
            }
            Ok(_) => {
                return Err(StateError::NotAFolder {
                    setting,
                    path: at.into(),
                });
            }
            Err(error) => match error.kind() {
                // A link to nowhere is in the way too.
                io::ErrorKind::NotFound if fs::symlink_metadata(named).is_ok() => {
                    return Err(StateError::NotAFolder {
                        setting,
                        path: at.into(),
                    });
                }
                // One of those above is what is in the way.
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                _ => return Err(setting.failed("read", named)(error)),
            },
        }
    }
    Err(setting.failed("read", path)(io::ErrorKind::NotFound.into()))
}

/// What [`LockedFolder::open`] would say, and whether this user may write there and has so many bytes; for commands that check before
/// the start. Makes and removes a small file, and changes nothing. With the folder come the bytes that are free.
///
/// # Errors
/// As [`LockedFolder::open`], and when nothing can be written, or not enough.
pub fn check(setting: Setting, path: &Path, needed: u64) -> Result<(Folder, u64), StateError> {
    let found = find(setting, path)?;
    let free = match &found {
        Folder::Present => {
            // Locked for this moment; a lock that cannot be let go ends with this process.
            drop(LockedFolder::open(setting, path)?);
            try_writing(setting, path, needed)?
        }
        Folder::Missing { above } => {
            probe(above).map_err(setting.failed(MAKE, path))?;
            has_room(setting, above, needed)?
        }
    };
    Ok((found, free))
}

/// What was tried in [`StateError::Io`], where a folder is missing.
pub const MAKE: &str = "make the folder";

/// Bytes that tell a disk that is full from one that has room for names alone.
const PROBE: [u8; 4096] = [0x5a; 4096];

/// Writes, syncs, renames and removes a small file in a folder, and looks whether so many bytes are free; returns how many are.
///
/// # Errors
/// When one of that fails, or fewer are.
pub fn try_writing(setting: Setting, dir: &Path, needed: u64) -> Result<u64, StateError> {
    probe(dir).map_err(setting.failed("write to", dir))?;
    has_room(setting, dir, needed)
}

fn probe(dir: &Path) -> io::Result<()> {
    let file = dir.join(format!(".probe-{}", std::process::id()));
    files::replace(&file, |file| io::Write::write_all(file, &PROBE))?;
    fs::remove_file(&file)
}

fn has_room(setting: Setting, path: &Path, needed: u64) -> Result<u64, StateError> {
    let free = files::free(path).map_err(setting.failed("read", path))?;
    match free < needed {
        false => Ok(free),
        true => Err(StateError::NoRoom {
            setting,
            path: path.into(),
            free,
            needed,
        }),
    }
}

/// A folder, locked for as long as this lives.
#[derive(Debug)]
pub struct LockedFolder {
    setting: Setting,
    /// Where it is.
    pub path: PathBuf,
    /// Open for the lock, and to sync renames.
    file: File,
}

impl LockedFolder {
    /// Opens a folder, makes it when it is missing, and locks it.
    ///
    /// # Errors
    /// When it is no folder, is another daemon's, or cannot be made or opened.
    pub fn open(setting: Setting, path: &Path) -> Result<Self, StateError> {
        if find(setting, path)? != Folder::Present {
            files::create_folder(path, files::FOLDER_MODE).map_err(setting.failed(MAKE, path))?;
        }
        let file = File::open(path).map_err(setting.failed("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateError::InUse {
                    setting,
                    path: path.into(),
                });
            }
            // Some network file systems have no locks on folders; that is no reason to lose what lies there.
            Err(TryLockError::Error(error)) => warn!(
                %error, dir = %path.display(), "Cannot lock {}: make sure that no other daemon uses it.", setting.key
            ),
        }
        Ok(Self {
            setting,
            path: path.into(),
            file,
        })
    }
}

impl Drop for LockedFolder {
    fn drop(&mut self) {
        // Closing alone would leave the lock to a child process that was forked just now, until it runs its program.
        if let Err(error) = self.file.unlock() {
            warn!(%error, dir = %self.path.display(), "Cannot unlock {}.", self.setting.key);
        }
    }
}
