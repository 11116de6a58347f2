//! Opens and creates files of `state.dir` and `history.dir`, and opens those that the configuration
//! names: only regular files are read, and new files are accessible to their owner only.
//!
//! Called by [`State`](super::State) and [`snapshot_writer`](super::snapshot_writer), at start and
//! with every change, and by `access` at start and reload. Requests may contain confidential data,
//! so files have mode 0600 and folders 0700, whatever the umask; existing folders keep theirs.
//! Anything else with a file's name (a pipe, a socket, a device) is not opened: that could block
//! forever, or have an effect.

use std::fs::{self, DirBuilder, File, FileType, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::instruments::{Instrument, MeasuredWrite};

/// Mode of files.
const FILE_MODE: u32 = 0o600;
/// Mode of folders.
pub(crate) const FOLDER_MODE: u32 = 0o700;

/// The thing behind a path.
pub(crate) enum Opened {
    /// Nothing.
    Nothing,
    /// A file, open for reading; or a folder, which cannot be read.
    File(File),
    /// Something else, described, that is not read.
    Other(String),
}

/// Opens a file for reading, following links; never blocks on a peer.
///
/// # Errors
/// Fails if it exists but cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<Opened> {
    // Checks before opening, since a socket cannot be opened and a device may react; and after,
    // since it may have been exchanged.
    let open = || -> io::Result<Opened> {
        if let Some(what) = unreadable(fs::metadata(path)?.file_type()) {
            return Ok(Opened::Other(what));
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let what = unreadable(file.metadata()?.file_type());
        Ok(what.map_or(Opened::File(file), Opened::Other))
    };
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Opened::Nothing),
        opened => opened,
    }
}

/// Opens a file that should be there, as [`open`].
///
/// # Errors
/// The reason why it cannot be read.
pub(crate) fn open_named(path: &Path) -> Result<File, String> {
    match open(path) {
        Ok(Opened::File(file)) => Ok(file),
        Ok(Opened::Nothing) => Err(io::Error::from_raw_os_error(libc::ENOENT).to_string()),
        Ok(Opened::Other(reason)) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

/// Why this kind of file is not read. Folders are not included: reading them is a system error.
fn unreadable(kind: FileType) -> Option<String> {
    let what = if kind.is_file() || kind.is_dir() {
        return None;
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Some(format!("it is {what}, not a regular file"))
}

/// Writing a file of `state.dir`.
pub(crate) static STATE_WRITE: Instrument = Instrument::wait("wait/io/file/state/write", "write");
/// Syncing a file of `state.dir`.
pub(crate) static STATE_SYNC: Instrument = Instrument::wait("wait/io/file/state/sync", "sync");

/// Replaces a file as a whole: writes a new one next to it, syncs, renames, and syncs the folder,
/// so that there is always either the old or the new version. On failure the old one stays.
///
/// # Errors
/// Errors of the system and of `write`.
pub(crate) fn replace<T, E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut MeasuredWrite<File>) -> Result<T, E>,
) -> Result<T, E> {
    let new = path.with_added_extension("new");
    let write = || {
        #[cfg(test)]
        step(|faults| faults.written(&new, 0))?;
        let mut file = MeasuredWrite::new(create(&new)?, &STATE_WRITE);
        let written = write(&mut file)?;
        #[cfg(test)]
        step(|faults| faults.synced(&new))?;
        sync(&file.to)?;
        #[cfg(test)]
        step(|faults| faults.renamed(&new, path))?;
        fs::rename(&new, path)?;
        Ok(written)
    };
    let replaced = write();
    if replaced.is_err() {
        // It may not even exist; the next attempt replaces it anyway.
        let _leftover = fs::remove_file(&new);
        return replaced;
    }
    // The new file is in place. If the sync fails there is nothing to undo, and no error: who gets
    // one goes on with the old version, and the next start would have the new one.
    let folder = path.parent().unwrap_or(Path::new("."));
    let sync_folder = || {
        #[cfg(test)]
        step(|faults| faults.synced(folder))?;
        sync(&File::open(folder)?)
    };
    if let Err(error) = sync_folder() {
        warn!(%error, file = %path.display(), "Cannot sync the folder: a power cut now may undo the last change.");
    }
    replaced
}

#[cfg(test)]
thread_local! {
    /// Simulated failures of files replaced by this thread.
    pub(crate) static FAULTS: std::cell::RefCell<super::faults::Faults> = std::cell::RefCell::default();
}

/// Called before each change; in tests it may fail or record the change.
#[cfg(test)]
fn step(tell: impl FnOnce(&super::faults::Faults)) -> io::Result<()> {
    FAULTS.with_borrow(|faults| faults.step().map(|()| tell(faults)))
}

/// Bytes that this user may still write to the file system of a folder.
///
/// # Errors
/// Any I/O error.
pub(crate) fn free(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

fn sync(file: &File) -> io::Result<()> {
    let _waiting = STATE_SYNC.begin();
    file.sync_all()
}

/// Renames an unreadable file to a free name that contains the present time; returns that name.
///
/// # Errors
/// Any I/O error.
pub(super) fn set_aside(path: &Path, what: &str, unix_secs: u32) -> io::Result<PathBuf> {
    let aside = (unix_secs..u32::MAX)
        .map(|secs| path.with_added_extension(format!("{what}-{secs}")))
        .find(|aside| !aside.exists())
        .unwrap_or_else(|| path.with_added_extension(what));
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Creates a file that only this user can read, replacing a leftover.
///
/// # Errors
/// Any I/O error; also if the name is that of a folder.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    // Not truncated: the existing file may be a pipe that nobody reads, a link to elsewhere, or
    // readable by others.
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = File::options();
    let file = options.write(true).create_new(true).mode(FILE_MODE).open(path)?;
    // The umask may have removed permissions, even those of the owner.
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Creates a folder and its missing parents with a mode. An existing one is unchanged.
///
/// # Errors
/// Any I/O error; also if something else has the name.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(mode);
    let made = match (builder.create(path), path.parent()) {
        (Err(error), Some(above)) if error.kind() == io::ErrorKind::NotFound => {
            create_folder(above, mode)?;
            builder.create(path)
        }
        (made, _) => made,
    };
    match made {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::time::Duration;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::super::{State, snapshot_writer};
    use super::*;

    /// Whatever fails, and whenever the power is cut, there is a whole version: the last one, or
    /// the next.
    #[test]
    fn what_is_replaced_is_always_one_version_as_a_whole() {
        let mut known = 0_u64;
        for seed in 0..500_u64 {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("file");
            let faults = super::super::faults::Faults::default();
            FAULTS.set(faults.clone());
            let mut safe = 0;
            for version in 1..12_u64 {
                faults.set_weather(seed * 100 + version, 6, false);
                let text = version.to_string().repeat(50);
                let replaced = replace(&path, |file| io::Write::write_all(file, text.as_bytes()));
                faults.set_weather(0, 0, false);
                if replaced.is_ok() {
                    safe = version;
                }
                let is_cut = (seed + version).is_multiple_of(4);
                if is_cut {
                    faults.cut_power();
                }
                let found = fs::read_to_string(&path).unwrap_or_default();
                let of = |version: u64| match version {
                    0 => String::new(),
                    version => version.to_string().repeat(50),
                };
                let is_one = (0..=version).any(|version| found == of(version));
                assert!(is_one, "{seed} {version}: {found:?}");
                // A folder that could not be synced may have its old state.
                assert!(is_cut || found == of(safe), "{seed} {version}");
                known += u64::from(found == of(version));
                if is_cut {
                    break;
                }
            }
            FAULTS.take();
        }
        assert!(known > 500, "{known}");
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn pipe(path: &Path) {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
    }

    /// Runs work on a thread; fails, and abandons the thread, if it blocks on the other end of a
    /// pipe.
    fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || done.send(work()));
        let result = waiting.recv_timeout(Duration::from_secs(20));
        result.expect("it waits for the other end")
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        // A leftover, readable by everybody.
        let left = path("left");
        fs::write(&left, "old and long").unwrap();
        fs::set_permissions(&left, Permissions::from_mode(0o666)).unwrap();
        io::Write::write_all(&mut create(&left).unwrap(), b"new").unwrap();
        assert_eq!(fs::read(&left).unwrap(), b"new");
        // A link is replaced, not followed; and nothing blocks.
        let elsewhere = path("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, path("link")).unwrap();
        pipe(&path("pipe"));
        let names = [left, path("link"), path("pipe"), path("missing")];
        let made = names.clone();
        in_time(move || made.iter().for_each(|path| drop(create(path).unwrap())));
        for name in &names {
            assert_eq!(mode(name), 0o600, "{name:?}");
            assert!(fs::symlink_metadata(name).unwrap().is_file(), "{name:?}");
        }
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
        fs::create_dir(path("folder")).unwrap();
        create(&path("folder")).unwrap_err();
    }

    #[test]
    fn folders_that_are_made_are_their_owners_alone_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("there");
        fs::create_dir(&there).unwrap();
        fs::set_permissions(&there, Permissions::from_mode(0o755)).unwrap();
        let below = there.join("made/too");
        for _ in 0..2 {
            create_folder(&below, FOLDER_MODE).unwrap();
            assert_eq!(mode(&there), 0o755);
            assert_eq!(mode(&there.join("made")), 0o700);
            assert_eq!(mode(&below), 0o700);
        }
        create_folder(&there, FOLDER_MODE).unwrap();
        assert_eq!(mode(&there), 0o755);
        fs::write(there.join("file"), "").unwrap();
        create_folder(&there.join("file"), FOLDER_MODE).unwrap_err();
        create_folder(Path::new(""), FOLDER_MODE).unwrap_err();
    }

    /// A pipe without a writer, a link to one, a socket and a device: the start continues, and they
    /// are logged.
    #[test]
    fn what_is_no_file_is_set_aside_unread() {
        for what in ["a named pipe", "a socket", "a device", "through a link"] {
            let dir = tempfile::tempdir().unwrap();
            let other = dir.path().join("other");
            let _listener = match what {
                "a socket" => Some(UnixListener::bind(&other).unwrap()),
                _ => None,
            };
            for name in ["reports.json", "snapshot"] {
                let path = dir.path().join(name);
                match what {
                    "a named pipe" => pipe(&path),
                    "a device" => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
                    "a socket" => fs::hard_link(&other, &path).unwrap(),
                    _ => {
                        let pipe_at = dir.path().join(format!("pipe of {name}"));
                        pipe(&pipe_at);
                        std::os::unix::fs::symlink(pipe_at, &path).unwrap();
                    }
                }
            }
            let (at, reports) = (dir.path().to_owned(), dir.path().join("reports.json"));
            let Opened::Other(reason) = in_time(move || open(&reports)).unwrap() else {
                panic!("{what} was opened");
            };
            let named = what.replace("through a link", "a named pipe");
            assert_eq!(reason, format!("it is {named}, not a regular file"), "{what}");
            in_time(move || {
                let state = State::open(&at, 7).unwrap();
                assert!(state.reports().is_empty());
                assert!(snapshot_writer::SnapshotFile::open(&at, 7).is_none());
            });
            for (name, aside) in
                [("reports.json", "reports.json.corrupt-7"), ("snapshot", "snapshot.damaged-7")]
            {
                let is_there = |name| fs::symlink_metadata(dir.path().join(name)).is_ok();
                assert!(!is_there(name) && is_there(aside), "{what}: {name}");
            }
        }
    }

    /// A link to a file is that file, until a change puts a file in its place.
    #[test]
    fn links_to_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, "text").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        let Opened::File(mut file) = open(&link).unwrap() else {
            panic!("it is a file");
        };
        let mut text = String::new();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        assert_eq!(text, "text");
        fs::remove_file(&elsewhere).unwrap();
        assert!(matches!(open(&link).unwrap(), Opened::Nothing));
    }
}
