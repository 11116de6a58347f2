//! What survives a restart: the folder `state.dir`, and in it the reports that were made at run time, and the snapshot.
//!
//! | file | holds | written |
//! |---|---|---|
//! | `reports.json` | definitions made at run time | with every change, here |
//! | `annotations.json` | what happened when, as people noted it | with every change, by [`annotations`] |
//! | `alerts.json` | alerts, who was told of them, silences | within a second of a change, by `alert::thread` |
//! | `running` | that a process runs | at start and stop, by [`end`] |
//! | `snapshot` | rows, reports, counters, ids | every `state.snapshot_period` and at the stop, by [`snapshot_writer`] |
//!
//! ```text
//!   reports.json               {"version": 1, "reports": [{"name": "by_group", "comment": "tag_info:group"}, ..]}
//!   reports.json.new           the next one, while it is written
//!   reports.json.corrupt-NNN   one that could not be read, set aside at that unix time
//! ```
//!
//! Opened once at start, before anything is received; afterwards the catalog alone writes, one change at a time, on a
//! front end's thread. The file is replaced as a whole (`document.rs`). Entries are kept as they were sent: what cannot be a
//! report today may be one tomorrow. A change that cannot be written is refused and leaves file and memory as they were. The folder is locked,
//! so that two daemons do not undo each other's changes.

pub mod annotations;
pub mod counters;
pub(crate) mod document;
pub mod end;
#[cfg(test)]
pub(crate) mod faults;
pub(crate) mod files;
pub mod folder;
pub mod records;
pub mod snapshot;
pub mod snapshot_writer;

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use self::document::{Document, VERSION};
pub use self::folder::{Folder, StateError};
use self::folder::{LockedFolder, STATE};

const FILE: &str = "reports.json";

/// The name of the list in it.
const LIST: &str = "reports";

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Contents {
    version: u64,
    reports: Vec<Json>,
    /// Names of ready-made reports that are not wanted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<String>,
}

/// The folder of one daemon, locked for as long as this lives, and what is in its file.
#[derive(Debug)]
pub struct State {
    _locked: LockedFolder,
    file: Document,
    contents: Contents,
}

impl State {
    /// Opens a folder, makes it when it is missing, locks it and reads its file. A corrupt file is set aside and
    /// named in the log. `unix_secs` is the wall clock's time.
    ///
    /// # Errors
    /// When it is no folder, is another daemon's, or something in it cannot be read.
    pub fn open(path: &Path, unix_secs: u32) -> Result<Self, StateError> {
        let _locked = LockedFolder::open(STATE, path)?;
        let what = "the reports that were made at run time";
        let (file, contents) = Document::open(STATE, path, LIST, what, unix_secs)?;
        Ok(Self {
            _locked,
            file,
            contents: contents.unwrap_or(Contents {
                version: VERSION,
                reports: Vec::new(),
                dropped: Vec::new(),
            }),
        })
    }

    /// The definitions, oldest first, as they were sent. An entry may be anything that JSON can be: somebody may have
    /// edited the file.
    #[must_use]
    pub fn reports(&self) -> &[Json] {
        &self.contents.reports
    }

    /// Keeps a definition, in the place of what was kept under that name.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn put(&mut self, name: &str, members: &Map<String, Json>) -> Result<(), StateError> {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), name.into());
        entry.extend(members.iter().map(|(k, v)| (k.clone(), v.clone())));
        let mut reports = self.without(name);
        reports.push(entry.into());
        self.replace(reports)
    }

    /// Whether anything is kept under that name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.reports().iter().any(|entry| is_named(entry, name))
    }

    /// The names of ready-made reports that were dropped.
    #[must_use]
    pub fn dropped(&self) -> &[String] {
        &self.contents.dropped
    }

    /// Removes what is kept under that name; where nothing is, the report is ready-made, and is not wanted any more.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn remove(&mut self, name: &str) -> Result<(), StateError> {
        let mut dropped = self.contents.dropped.clone();
        if !self.has(name) && !dropped.iter().any(|it| it == name) {
            dropped.push(name.to_owned());
        }
        self.write(self.without(name), dropped)
    }

    fn without(&self, name: &str) -> Vec<Json> {
        let others = self.reports().iter().filter(|other| !is_named(other, name));
        others.cloned().collect()
    }

    fn replace(&mut self, reports: Vec<Json>) -> Result<(), StateError> {
        self.write(reports, self.contents.dropped.clone())
    }

    fn write(&mut self, reports: Vec<Json>, dropped: Vec<String>) -> Result<(), StateError> {
        let contents = Contents {
            version: VERSION,
            reports,
            dropped,
        };
        self.file.write(&contents)?;
        // What is in the file now is ours.
        self.contents = contents;
        Ok(())
    }
}

/// What is kept in a folder, without locking it or changing anything: for commands beside a running daemon.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn saved_reports(path: &Path) -> Result<Vec<Json>, String> {
    Ok(saved(path)?.map_or(Vec::new(), |it| it.reports))
}

/// The names of ready-made reports that were dropped, alike.
///
/// # Errors
/// As [`saved_reports`].
pub fn saved_dropped(path: &Path) -> Result<Vec<String>, String> {
    Ok(saved(path)?.map_or(Vec::new(), |it| it.dropped))
}

fn saved(path: &Path) -> Result<Option<Contents>, String> {
    match read(path) {
        Ok(Ok(contents)) => Ok(contents),
        Ok(Err(reason)) => Err(format!(
            "state.dir: {} is corrupt: {reason}",
            path.join(FILE).display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// What [`State::open`] would say, and whether this user may write there and has room for a snapshot; for commands that check before
/// the start. Makes and removes a small file, and changes nothing. With the folder come the bytes that are free.
///
/// # Errors
/// As [`State::open`], and when nothing can be written, or no snapshot.
pub fn check(path: &Path) -> Result<(Folder, u64), StateError> {
    let found = folder::check(STATE, path, snapshot_writer::bytes_needed(path))?;
    if found.0 == Folder::Present {
        // The start is told of a file that is corrupt, and goes on.
        let _corrupt_or_not = read(path)?;
    }
    Ok(found)
}

/// What the file of a folder holds, or why it is corrupt; nothing when it is not there.
fn read(dir: &Path) -> Result<Result<Option<Contents>, String>, StateError> {
    document::read(STATE, &dir.join(FILE), LIST)
}

fn is_named(entry: &Json, name: &str) -> bool {
    entry.get("name").and_then(Json::as_str) == Some(name)
}

#[cfg(test)]
mod tests;
