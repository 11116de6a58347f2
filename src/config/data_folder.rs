//! The folder that `data.dir = "auto"` means, and the one of a demo.
//!
//! Called by the commands, before any thread starts. It looks at the disk and changes nothing there; only the demo's folder is
//! made, and goes with it, or with the next demo after a kill.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// What a package or an image makes for the daemon.
pub const USUAL: &str = "/var/lib/pinbad";

/// The folders of a unit's `StateDirectory=`, by systemd.
const VARIABLE: &str = "STATE_DIRECTORY";

/// systemd's, else [`USUAL`] where it can be used.
#[must_use]
pub fn usual() -> Option<PathBuf> {
    found(std::env::var_os(VARIABLE).as_deref(), Path::new(USUAL))
}

fn found(variable: Option<&OsStr>, usual: &Path) -> Option<PathBuf> {
    // Several are apart by colons.
    let first = variable.and_then(|all| std::env::split_paths(all).next());
    first
        .filter(|path| path.is_absolute())
        .or_else(|| is_ours(usual).then(|| usual.to_owned()))
}

/// Whether this user may write there. Root may everywhere: in another user's folder it would leave what that user cannot read.
fn is_ours(path: &Path) -> bool {
    let (Ok(found), user) = (fs::metadata(path), rustix::process::geteuid()) else {
        return false;
    };
    found.is_dir()
        && (!user.is_root() || found.uid() == 0)
        && rustix::fs::access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// How the name of a demo's folder begins.
const DEMO: &str = "pinbad-demo-";

/// A folder that is removed, with all that is in it, when this goes; or by the next one, after a kill.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// Locked for as long as it is used.
    _lock: File,
}

impl TemporaryFolder {
    /// Makes one for this user alone, among the files of [`std::env::temp_dir`].
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(dir: &Path) -> io::Result<Self> {
        remove_abandoned(dir);
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = nanos.map_or(0, |it| it.subsec_nanos());
        let name = format!("{DEMO}{}-{nanos}", std::process::id());
        let path = dir.join(name);
        // Fails where there is something of that name, whoever made it.
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::open(&path)?;
        lock.lock()?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever tends the folder for temporary files.
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// Removes this user's folders of demos that were killed: nobody holds their lock.
fn remove_abandoned(dir: &Path) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_demos = entry.file_name().to_string_lossy().starts_with(DEMO);
        // The entry itself: a link is none of ours.
        let is_ours = || {
            let found = entry.metadata();
            found.is_ok_and(|found| found.is_dir() && found.uid() == user)
        };
        if !is_demos || !is_ours() {
            continue;
        }
        let path = entry.path();
        if File::open(&path).is_ok_and(|folder| folder.try_lock().is_ok()) {
            let _left = fs::remove_dir_all(&path);
        }
    }
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
        assert_eq!(found(None, dir.path()), Some(dir.path().to_owned()));
        assert_eq!(found(Some(""), &missing), None);
        assert_eq!(
            found(Some("/srv/a:/srv/b"), dir.path()),
            Some("/srv/a".into())
        );
        fs::write(&missing, "").unwrap();
        assert_eq!(found(None, &missing), None, "a file");
    }

    #[test]
    fn a_temporary_folder_is_private_and_goes() {
        let folder = TemporaryFolder::new().unwrap();
        let path = folder.path().to_owned();
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
        let second = TemporaryFolder::within(dir.path()).unwrap();
        assert!(running.path().exists() && second.path().exists() && anothers.exists());
    }
}
