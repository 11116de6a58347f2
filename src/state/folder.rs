//! Folders that are one daemon's: found, made when missing, and locked for as long as they are open.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tracing::warn;

use super::files;

/// The setting that names a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// What it is "" for.
    pub without: &'static str,
}

/// `state.dir`.
pub const STATE: Setting = Setting {
    key: "state.dir",
    without: "to keep nothing over a restart",
};

/// `history.dir`.
pub const HISTORY: Setting = Setting {
    key: "history.dir",
    without: "for no history",
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

/// What [`LockedFolder::open`] would say, and whether this user may write there; for commands that check before the start.
/// Makes and removes an empty file, and changes nothing.
///
/// # Errors
/// As [`LockedFolder::open`], and when nothing can be written.
pub fn check(setting: Setting, path: &Path) -> Result<Folder, StateError> {
    let found = find(setting, path)?;
    match &found {
        Folder::Present => {
            // Locked for this moment; a lock that cannot be let go ends with this process.
            drop(LockedFolder::open(setting, path)?);
            probe(path).map_err(setting.failed("write", path))?;
        }
        Folder::Missing { above } => probe(above).map_err(setting.failed(MAKE, path))?,
    }
    Ok(found)
}

const MAKE: &str = "make the folder";

fn probe(dir: &Path) -> io::Result<()> {
    let file = dir.join(format!(".doctor-{}", std::process::id()));
    files::replace(&file, |_| io::Result::Ok(()))?;
    fs::remove_file(&file)
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
