//! What survives a restart: the folder `state.dir`, and in it the reports that were made at run time, and the snapshot.
//!
//! | file | holds | written |
//! |---|---|---|
//! | `reports.json` | definitions made at run time | with every change, here |
//! | `snapshot` | rows, reports, counters, ids | every `state.snapshot_period` and at the stop, by [`snapshot_writer`] |
//!
//! ```text
//!   reports.json               {"version": 1, "reports": [{"name": "by_group", "comment": "tag_info:group"}, ..]}
//!   reports.json.new           the next one, while it is written
//!   reports.json.corrupt-NNN   one that could not be read, set aside at that unix time
//! ```
//!
//! Opened once at start, before anything is received; afterwards the catalog alone writes, one change at a time, on a
//! front end's thread. The file is replaced as a whole (written, synced, renamed, folder synced), so that it is always
//! either the old one or the new one; it is its owner's alone (`files.rs`). Entries are kept as they were sent: what cannot be a report today may be one
//! tomorrow. A change that cannot be written is refused and leaves file and memory as they were. The folder is locked,
//! so that two daemons do not undo each other's changes.

pub mod counters;
pub(crate) mod files;
pub mod folder;
pub mod records;
pub mod snapshot;
pub mod snapshot_writer;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};
use tracing::error;

pub use self::folder::{Folder, StateError};
use self::folder::{LockedFolder, STATE};

/// The layout of the file; a daemon reads this one and the older ones that it names (there are none yet).
const VERSION: u64 = 1;

/// Longest file that is read or written, bytes: a thousand reports of the largest form take far less.
const FILE_BYTES_MAX: u64 = 256 << 20;

const FILE: &str = "reports.json";

/// The folder of one daemon, locked for as long as this lives, and what is in its file.
#[derive(Debug)]
pub struct State {
    folder: LockedFolder,
    /// As in the file.
    reports: Vec<Json>,
    /// A file that could be neither read nor set aside: it must not be overwritten.
    in_the_way: bool,
}

impl State {
    /// Opens a folder, makes it when it is missing, locks it and reads its file. A corrupt file is set aside and
    /// named in the log. `unix_secs` is the wall clock's time.
    ///
    /// # Errors
    /// When it is no folder, is another daemon's, or something in it cannot be read.
    pub fn open(path: &Path, unix_secs: u32) -> Result<Self, StateError> {
        let mut state = Self {
            folder: LockedFolder::open(STATE, path)?,
            reports: Vec::new(),
            in_the_way: false,
        };
        match read(&state.file())? {
            Ok(reports) => state.reports = reports,
            Err(reason) => state.set_aside(&reason, unix_secs),
        }
        Ok(state)
    }

    /// The definitions, oldest first, as they were sent. An entry may be anything that JSON can be: somebody may have
    /// edited the file.
    #[must_use]
    pub fn reports(&self) -> &[Json] {
        &self.reports
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
        self.reports.iter().any(|entry| is_named(entry, name))
    }

    /// Removes what is kept under that name.
    ///
    /// # Errors
    /// When it cannot be written; then nothing has changed.
    pub fn remove(&mut self, name: &str) -> Result<(), StateError> {
        if !self.has(name) {
            return Ok(());
        }
        self.replace(self.without(name))
    }

    fn without(&self, name: &str) -> Vec<Json> {
        let others = self.reports.iter().filter(|other| !is_named(other, name));
        others.cloned().collect()
    }

    fn file(&self) -> PathBuf {
        self.folder.path.join(FILE)
    }

    fn replace(&mut self, reports: Vec<Json>) -> Result<(), StateError> {
        let written = self.write(&reports);
        written.map_err(STATE.failed("write", &self.file()))?;
        // What is in the file now is ours.
        self.reports = reports;
        Ok(())
    }

    fn write(&self, reports: &[Json]) -> io::Result<()> {
        if self.in_the_way {
            return Err(io::Error::other(
                "a corrupt file of that name could not be set aside when the daemon started; move it away and restart",
            ));
        }
        let mut text = serde_json::to_vec_pretty(&json!({"version": VERSION, "reports": reports}))?;
        text.push(b'\n');
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!(
                "it would be longer than {FILE_BYTES_MAX} bytes"
            )));
        }
        files::replace(&self.file(), |file| file.write_all(&text))
    }

    fn set_aside(&mut self, reason: &str, unix_secs: u32) {
        let file = self.file();
        match files::set_aside(&file, "corrupt", unix_secs) {
            Ok(aside) => error!(
                file = %file.display(), reason, set_aside = %aside.display(),
                "Cannot read the reports that were made at run time: set the file aside and go on without them."
            ),
            Err(error) => {
                self.in_the_way = true;
                error!(
                    file = %file.display(), reason, %error,
                    "Cannot read the reports that were made at run time, nor set the file aside: go on without them, \
                     and refuse to make or drop reports."
                );
            }
        }
    }
}

/// What is kept in a folder, without locking it or changing anything: for commands beside a running daemon.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn saved_reports(path: &Path) -> Result<Vec<Json>, String> {
    match read(&path.join(FILE)) {
        Ok(Ok(reports)) => Ok(reports),
        Ok(Err(reason)) => Err(format!(
            "state.dir: {} is corrupt: {reason}",
            path.join(FILE).display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// What [`State::open`] would say, and whether this user may write there; for commands that check before the start. Makes
/// and removes an empty file, and changes nothing.
///
/// # Errors
/// As [`State::open`], and when nothing can be written.
pub fn check(path: &Path) -> Result<Folder, StateError> {
    let found = folder::check(STATE, path)?;
    if found == Folder::Present {
        // The start is told of a file that is corrupt, and goes on.
        let _corrupt_or_not = read(&path.join(FILE))?;
    }
    Ok(found)
}

/// What a file holds, or why it is corrupt; nothing when it is not there.
fn read(file: &Path) -> Result<Result<Vec<Json>, String>, StateError> {
    let opened = match files::open(file).map_err(STATE.failed("read", file))? {
        files::Opened::Nothing => return Ok(Ok(Vec::new())),
        files::Opened::File(opened) => opened,
        files::Opened::Other(reason) => return Ok(Err(reason)),
    };
    let mut text = Vec::new();
    opened
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(STATE.failed("read", file))?;
    Ok(parse(&text))
}

fn parse(text: &[u8]) -> Result<Vec<Json>, String> {
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("it is longer than {FILE_BYTES_MAX} bytes"));
    }
    let mut file: Json =
        serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    match file.get("version").and_then(Json::as_u64) {
        Some(VERSION) => {}
        Some(version) => {
            return Err(format!(
                "it has version {version}, and this daemon reads {VERSION}"
            ));
        }
        None => return Err("it has no version".to_owned()),
    }
    match file.get_mut("reports").map(Json::take) {
        Some(Json::Array(reports)) => Ok(reports),
        Some(_) | None => Err("it has no list of reports".to_owned()),
    }
}

fn is_named(entry: &Json, name: &str) -> bool {
    entry.get("name").and_then(Json::as_str) == Some(name)
}

#[cfg(test)]
mod tests;
