//! Persistent state: the folder `state.dir` with the reports created at run time, and the snapshot.
//!
//! | file | holds | written |
//! |---|---|---|
//! | `reports.json` | definitions created at run time | with every change, here |
//! | `annotations.json` | events, as recorded by people and scripts | with every change, by [`annotations`] |
//! | `releases.json` | releases, their scripts and verdicts | after a block of time or a change, by `release` |
//! | `alerts.json` | alerts, notifications, silences | within a second of a change, by `alert::thread` |
//! | `running` | the fact that a process runs | at start and stop, by [`last_end`] |
//! | `snapshot` | rows, reports, counters, ids | every `state.snapshot_period` and at the stop, by [`snapshot_writer`] |
//!
//! ```text
//!   reports.json               {"version": 1, "reports": [{"name": "by_group", "comment": "tag_info:group"}, ..]}
//!   reports.json.new           the next one, while it is written
//!   reports.json.corrupt-NNN   one that could not be read, set aside at that unix time
//! ```
//!
//! Opened once at start, before anything is received; afterwards only the catalog writes, one
//! change at a time, on a front end's thread. The file is replaced as a whole (`document.rs`).
//! Entries are kept as they were sent: an invalid report today may be valid tomorrow. A change that
//! cannot be written is refused and leaves file and memory unchanged. The folder is locked, so that
//! two daemons do not undo each other's changes.

pub mod annotations;
pub mod counters;
pub(crate) mod document;
#[cfg(test)]
#[path = "tests/faults.rs"]
pub(crate) mod faults;
pub(crate) mod files;
pub mod folder;
pub mod last_end;
pub mod records;
pub mod snapshot;
pub mod snapshot_writer;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use self::document::{Document, VERSION};
pub use self::folder::{Folder, StateError};
use self::folder::{KeptFolder, LockedFolder, STATE};

const FILE: &str = "reports.json";

/// The name of the list in the file.
const LIST: &str = "reports";

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    version: u64,
    reports: Vec<Json>,
    /// Names of built-in reports that were dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
}

/// The folder of one daemon, locked, and the content of its file.
#[derive(Debug)]
pub struct State {
    /// Its path.
    pub(crate) folder: KeptFolder,
    /// `None` until the disk takes it; [`snapshot_writer`] tries.
    locked: Arc<Mutex<Option<LockedFolder>>>,
    file: Document,
    contents: Contents,
}

impl State {
    /// Opens a folder, creates it if missing, locks it and reads its file. A corrupt file is set
    /// aside and logged. `unix_secs` is the wall clock's time. A full or read-only disk without
    /// the folder is no error: what is received must not wait for that.
    ///
    /// # Errors
    /// Fails if it is not a folder, belongs to another daemon, or something in it cannot be read.
    pub(crate) fn open(path: &Path, unix_secs: u32) -> Result<Self, StateError> {
        let folder = KeptFolder::new(STATE, path);
        let locked = match folder.lock() {
            Err(error) if error.is_of_disk() => None,
            locked => Some(locked?),
        };
        let what = "the reports that were made at run time";
        let (file, contents) = Document::open(&folder, LIST, what, unix_secs)?;
        let locked = Arc::new(Mutex::new(locked));
        Ok(Self { folder, locked, file, contents: contents.unwrap_or_default() })
    }

    /// The definitions, oldest first, as they were sent. An entry may be any JSON: somebody may
    /// have edited the file.
    pub(crate) fn reports(&self) -> &[Json] {
        &self.contents.reports
    }

    /// Stores a definition, replacing the one under that name.
    ///
    /// # Errors
    /// Fails if it cannot be written; then nothing has changed.
    pub(crate) fn put(
        &mut self,
        name: &str,
        members: &Map<String, Json>,
    ) -> Result<(), StateError> {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        entry.extend(members.iter().map(|(k, v)| (k.clone(), v.clone())));
        let mut reports = self.without(name);
        reports.push(entry.into());
        self.write(reports, self.contents.dropped.clone())
    }

    /// Whether a definition is stored under that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.reports().iter().any(|entry| is_named(entry, name))
    }

    /// The names of built-in reports that were dropped.
    pub(crate) fn dropped(&self) -> &[String] {
        &self.contents.dropped
    }

    /// Removes the definition of that name; if there is none, records the built-in report as
    /// dropped.
    ///
    /// # Errors
    /// Fails if it cannot be written; then nothing has changed.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), StateError> {
        let mut dropped = self.contents.dropped.clone();
        if !self.has(name) && !dropped.iter().any(|it| it == name) {
            dropped.push(name.to_owned());
        }
        self.write(self.without(name), dropped)
    }

    fn without(&self, name: &str) -> Vec<Json> {
        self.reports().iter().filter(|other| !is_named(other, name)).cloned().collect()
    }

    fn write(&mut self, reports: Vec<Json>, dropped: Vec<String>) -> Result<(), StateError> {
        let contents = Contents { version: VERSION, reports, dropped };
        self.file.write(&contents)?;
        // The file now has our content.
        self.contents = contents;
        Ok(())
    }
}

/// Reads the definitions of a folder, and the names of dropped built-in reports, without locking or
/// changing it, for commands that run beside a daemon.
///
/// # Errors
/// A description of the problem.
pub(crate) fn saved(path: &Path) -> Result<(Vec<Json>, Vec<String>), String> {
    match read(path) {
        Ok(Ok(contents)) => Ok(contents.map(|it| (it.reports, it.dropped)).unwrap_or_default()),
        Ok(Err(reason)) => {
            Err(format!("state.dir: {} is corrupt: {reason}", path.join(FILE).display()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a folder may lack definitions that were saved: its file cannot be read, or one was set
/// aside and is still there.
pub(crate) fn lacks_reports(path: &Path) -> bool {
    let aside = format!("{FILE}.corrupt-");
    let mut names = fs::read_dir(path).into_iter().flatten().flatten().map(|it| it.file_name());
    saved(path).is_err() || names.any(|name| name.to_string_lossy().starts_with(&aside))
}

/// Checks what [`State::open`] would return, and whether this user may write there and has room for
/// a snapshot; for commands that check before the start. Creates and removes a small file, and
/// changes nothing else. Also returns the free bytes.
///
/// # Errors
/// As for [`State::open`], and if writing fails or there is no room for a snapshot.
pub(crate) fn check(path: &Path) -> Result<(Folder, u64), StateError> {
    let found = folder::check(STATE, path, snapshot_writer::bytes_needed(path))?;
    if found.0 == Folder::Present {
        // A corrupt file is reported at start, which continues.
        let _corrupt_or_not = read(path)?;
    }
    Ok(found)
}

/// The content of a folder's file, or why it is corrupt; `None` if it does not exist.
fn read(dir: &Path) -> Result<Result<Option<Contents>, String>, StateError> {
    document::read(STATE, &dir.join(FILE), LIST)
}

fn is_named(entry: &Json, name: &str) -> bool {
    entry.get("name").and_then(Json::as_str) == Some(name)
}

#[cfg(test)]
mod tests;
