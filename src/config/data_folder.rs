//! The folder that `data.dir = "auto"` means, and the temporary folder of a demo.
//!
//! Called by the commands, before any thread starts. Reads the disk and changes nothing, except for
//! the demo's folder: it is created here and removed with the demo or, after a kill, by the next
//! one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// The folder that packages and images create for the daemon.
pub const USUAL: &str = "/var/lib/pinbad";

/// The variable in which systemd passes the folders of `StateDirectory=`.
const VARIABLE: &str = "STATE_DIRECTORY";

/// The folder that "auto" stands for, if there is one, or why that cannot be used.
pub(crate) type UsualFolder = Option<Result<PathBuf, String>>;

/// systemd's folder, else [`USUAL`] where it can be used.
pub(crate) fn usual() -> UsualFolder {
    found(std::env::var_os(VARIABLE).as_deref(), Path::new(USUAL))
}

fn found(variable: Option<&OsStr>, usual: &Path) -> UsualFolder {
    // systemd separates several by colons.
    let first = variable.and_then(|all| std::env::split_paths(all).next());
    if let Some(path) = first.filter(|path| path.is_absolute()) {
        return Some(Ok(path));
    }
    match checked(usual) {
        Ok(()) => Some(Ok(usual.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(format!("{} cannot be used: {error}", usual.display()))),
    }
}

/// Checks whether this user should write there. Root always could, but in another user's folder it
/// would leave files that user cannot read.
fn checked(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    if rustix::process::geteuid().is_root() && found.uid() != 0 {
        let uid = found.uid();
        let problem = format!("it belongs to user {uid}, who could not read files of root");
        return Err(io::Error::other(problem));
    }
    Ok(rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Prefix of the name of a demo's folder.
const DEMO: &str = "pinbad-demo-";
/// The same while it is made.
const NEW_DEMO: &str = "pinbad-new-demo-";

/// Returns whether a folder is that of a demo, which goes with it.
pub(crate) fn is_temporary(dir: &Path) -> bool {
    let name = dir.file_name().and_then(OsStr::to_str);
    let is_demos = name.is_some_and(|name| name.starts_with(DEMO));
    is_demos && dir.parent() == Some(&*std::env::temp_dir())
}

/// A folder that is removed with its content on drop or, after a kill, by the next one created.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// Folders of killed demos that were removed before.
    pub removed: Vec<PathBuf>,
    /// Locked as long as the folder is in use.
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder for this user alone in [`std::env::temp_dir`].
    ///
    /// # Errors
    /// Any I/O error.
    pub(crate) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(dir: &Path) -> io::Result<Self> {
        let removed = remove_abandoned(dir);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = nanos.map_or(0, |it| it.subsec_nanos());
        let name = format!("{}-{nanos}", std::process::id());
        // Another demo that starts now would remove it before it is locked, if it knew it by its
        // name.
        let new = dir.join(format!("{NEW_DEMO}{name}"));
        // Fails if the name exists, whoever created it.
        DirBuilder::new().mode(0o700).create(&new)?;
        let lock = File::open(&new)?;
        lock.lock()?;
        let path = dir.join(format!("{DEMO}{name}"));
        fs::rename(&new, &path)?;
        Ok(Self { path, removed, _lock: lock })
    }

    /// The path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Leftovers are a matter for whatever cleans the folder for temporary files.
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// Removes this user's folders of demos that were killed, which nobody has locked; returns them.
fn remove_abandoned(dir: &Path) -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_demos = entry.file_name().to_string_lossy().starts_with(DEMO);
        // Looks at the entry itself: a link is not ours.
        let is_ours = || {
            let found = entry.metadata();
            found.is_ok_and(|found| found.is_dir() && found.uid() == user)
        };
        if !is_demos || !is_ours() {
            continue;
        }
        let path = entry.path();
        let is_free = File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok());
        if is_free && fs::remove_dir_all(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemds_folder_comes_before_the_usual_one_which_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let found = |variable: Option<&str>, usual: &Path| found(variable.map(OsStr::new), usual);
        assert_eq!(found(None, &missing), None);
        assert_eq!(found(None, dir.path()), Some(Ok(dir.path().to_owned())));
        assert_eq!(found(Some(""), &missing), None);
        assert_eq!(found(Some("/srv/a:/srv/b"), dir.path()), Some(Ok("/srv/a".into())));
        fs::write(&missing, "").unwrap();
        let expected = format!("{} cannot be used: not a directory", missing.display());
        assert_eq!(found(None, &missing), Some(Err(expected)));
    }

    #[test]
    fn a_temporary_folder_is_private_and_goes() {
        let folder = TemporaryFolder::new().unwrap();
        let path = folder.path().to_owned();
        assert!(is_temporary(&path) && !is_temporary(&path.join("history")));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        fs::create_dir_all(path.join("history/pending")).unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn what_a_killed_demo_left_goes_with_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join("pinbad-demo-1-2");
        fs::create_dir_all(left.join("history")).unwrap();
        let anothers = dir.path().join("another-demo");
        fs::create_dir(&anothers).unwrap();
        let running = TemporaryFolder::within(dir.path()).unwrap();
        assert!(!left.exists());
        assert_eq!(running.removed, [left]);
        let second = TemporaryFolder::within(dir.path()).unwrap();
        assert!(running.path().exists() && second.path().exists() && anothers.exists());
    }

    #[test]
    fn none_removes_one_that_is_being_made() {
        let dir = tempfile::tempdir().unwrap();
        let make = || {
            for _ in 0..300 {
                let folder = TemporaryFolder::within(dir.path()).unwrap();
                assert!(folder.path().exists());
            }
        };
        std::thread::scope(|scope| [(); 4].map(|()| scope.spawn(make)).map(drop));
    }
}
