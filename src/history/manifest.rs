//! The manifest: the list of parts. A part that it does not name does not count.
//!
//! ```text
//!   manifest   crc of what follows, 8 hexadecimal digits | " " | JSON | newline
//!              {"format": 1, "store": "32 hexadecimal digits", "run": 7}
//!              {"next": 12, "aged": 1709125020, "datasets": [..], "add": [{"path": "pending/11.piece", ..}], "remove": [..]}
//!              ..
//! ```
//!
//! A line is a commit: it is appended and synced after the files that it adds are in place, and
//! before those that it removes are deleted. At start, and when it has grown long, it is rewritten
//! as a first line and one commit. A last line that was not finished is dropped; any other that has
//! a wrong checksum is damage.
//!
//! It also accounts for files that do not count: those about to be named and those removed
//! (`left`), which may be deleted, and parts whose files are missing (`missing`), which count again
//! when they are back. A file that it does not know is never deleted.
//!
//! With each flush it records the positions of followed files (`files`) in the same commit, so that
//! no line is counted twice and none is skipped. Likewise for the log of seconds (`log`), whose
//! files are `left` then. One below `log` that is not was away when others were flushed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::disk::{Done, StoreError, damaged, read_existing};
use super::log_of_seconds::LOG;
use super::part::{Part, Section, number_of};
use super::{Dataset, Resolution};
use crate::input::squid::Positions;

pub(super) mod file;

/// The format written here, and the newest that is read.
const FORMAT: u32 = 1;

const FILE: &str = "manifest";

/// The first line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Head {
    format: u32,
    /// The identity of the store, for those who find its rows elsewhere: 32 random hexadecimal
    /// digits.
    pub(super) store: String,
    /// Number of starts.
    pub(super) run: u64,
}

/// The part common to all formats.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// A commit. What is empty is not written: on a full disk each byte of the manifest counts.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Commit {
    /// Number of the next file.
    next: u64,
    /// The run that begins, if there was no room for it in the first line.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<u64>,
    /// The unix second that ages are relative to.
    #[serde(skip_serializing_if = "Option::is_none")]
    aged: Option<u64>,
    /// Datasets after those already known; parts refer to them by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    datasets: Vec<Dataset>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    add: Vec<Entry>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remove: Vec<String>,
    /// Files that do not count but may exist; those added later do count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
    /// Parts whose files were missing at the last start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Entry>,
    /// Positions in followed files up to which everything is included.
    #[serde(skip_serializing_if = "Positions::is_empty")]
    files: Positions,
    /// The last file of the log of seconds that is included.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<u64>,
}

/// Positions of everything that a commit includes.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpTo<'a> {
    /// Followed files.
    pub(super) files: Option<&'a Positions>,
    /// The log of seconds, up to this file.
    pub(super) log: u64,
}

/// A part, by its path in the folder.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    path: String,
    resolution: Resolution,
    from: u64,
    to: u64,
    bytes: u64,
    crc: u32,
    written: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    imported: bool,
    /// (number of the dataset, its rows).
    sections: Vec<(usize, u64)>,
}

/// The manifest in memory.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    dir: PathBuf,
    pub(super) head: Head,
    /// A number that no file has.
    pub(super) next: u64,
    /// The unix second that ages are relative to.
    pub(super) aged: Option<u64>,
    datasets: Vec<Arc<Dataset>>,
    /// Parts by path in the folder.
    parts: BTreeMap<String, Arc<Part>>,
    /// Missing parts, likewise.
    pub(super) missing: BTreeMap<String, Arc<Part>>,
    /// Paths of files that do not count but may still exist.
    left: BTreeSet<String>,
    /// Positions in followed files up to which everything is included, also of those not followed
    /// now.
    flushed_files: Positions,
    /// The same with lines that only the log of seconds has: those of the next flush. Until then a
    /// log that gets lost is made good by reading the files again.
    pub(super) files: Positions,
    /// The last file of the log of seconds that is included.
    pub(super) log: Option<u64>,
    /// Bytes of its file when that last agreed with this.
    pub(super) bytes: u64,
    /// Bytes of an incomplete last line behind them.
    pub(super) torn: u64,
}

impl Manifest {
    /// The manifest of a new store.
    pub(super) fn new(dir: &Path) -> Self {
        let store: [u8; 16] = ring::rand::generate(&ring::rand::SystemRandom::new())
            .map_or_else(|_| Default::default(), ring::rand::Random::expose);
        let store = format!("{:032x}", u128::from_be_bytes(store));
        let head = Head { format: FORMAT, store, run: 0 };
        Self { dir: dir.to_owned(), head, next: 1, ..Self::default() }
    }

    /// Reads the manifest of a folder, if it has one.
    pub(super) fn read(dir: &Path) -> Done<Option<Self>> {
        let path = Self::path(dir);
        let damaged = |reason| damaged(&path, reason);
        let Some(text) = read_existing(&path)? else { return Ok(None) };
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        let head = checked(first).ok_or_else(|| damaged("its first line".to_owned()))?;
        let bad = |error: serde_json::Error| damaged(error.to_string());
        let (head, bytes) = (of_format(FORMAT, head, &path)?, first.len() as u64);
        let mut manifest = Self { head, bytes, ..Self::new(dir) };
        while let Some(line) = lines.next() {
            if let Some(commit) = checked(line) {
                manifest.apply(serde_json::from_slice(commit).map_err(bad)?).map_err(damaged)?;
                manifest.bytes += line.len() as u64;
            } else if lines.any(|line| checked(line).is_some()) || !may_be_unfinished(line) {
                return Err(damaged("a line that was finished has a wrong checksum".to_owned()));
            }
        }
        // It was synced before the file got its name.
        if manifest.bytes == first.len() as u64 {
            return Err(damaged("its first commit is not whole".to_owned()));
        }
        manifest.torn = text.len() as u64 - manifest.bytes;
        Ok(Some(manifest))
    }

    /// Its path in a folder.
    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Applies a commit.
    pub(super) fn apply(&mut self, commit: Commit) -> Result<(), String> {
        self.next = commit.next;
        self.head.run = commit.run.unwrap_or(self.head.run);
        self.aged = commit.aged.or(self.aged);
        self.datasets.extend(commit.datasets.into_iter().map(Arc::new));
        for path in &commit.remove {
            let unknown = || format!("it removes {path}, which it does not have");
            self.parts.remove(path).ok_or_else(unknown)?;
        }
        self.left.extend(commit.remove);
        self.left.extend(commit.left);
        for entry in commit.add {
            self.left.remove(&entry.path);
            let (path, part) = self.part(entry)?;
            self.missing.remove(&path);
            self.parts.insert(path, part);
        }
        for entry in commit.missing {
            let (path, part) = self.part(entry)?;
            self.parts.remove(&path);
            self.missing.insert(path, part);
        }
        self.files.extend(commit.files.clone());
        self.flushed_files.extend(commit.files);
        self.log = self.log.max(commit.log);
        Ok(())
    }

    /// The part of an entry, and its path.
    fn part(&self, entry: Entry) -> Result<(String, Arc<Part>), String> {
        let Entry { path, resolution, from, to, bytes, crc, written, imported, sections } = entry;
        let lacks = "it refers to a dataset that it does not have";
        let sections = sections.into_iter().map(|(at, rows)| {
            let dataset = Arc::clone(self.datasets.get(at).ok_or(lacks)?);
            Ok(Section { dataset, rows })
        });
        let sections = sections.collect::<Result<_, &str>>()?;
        let (in_folder, span) = (self.dir.join(&path), from..to);
        let part = Part { path: in_folder, resolution, span, sections, ..Part::default() };
        Ok((path, Arc::new(Part { bytes, crc, written, is_imported: imported, ..part })))
    }

    /// The entry of a part; adds its datasets to `known` if they are not in it.
    fn entry(&self, part: &Part, known: &mut Vec<Arc<Dataset>>) -> Entry {
        let sections = part.sections.iter().map(|Section { dataset, rows }| {
            let number = known.iter().position(|it| it == dataset).unwrap_or(known.len());
            if number == known.len() {
                known.push(Arc::clone(dataset));
            }
            (number, *rows)
        });
        let Part { resolution, bytes, crc, written, is_imported: imported, .. } = *part;
        let Range { start: from, end: to } = part.span;
        let (path, sections) = (self.name(&part.path), sections.collect());
        Entry { path, resolution, from, to, bytes, crc, written, imported, sections }
    }

    /// The commit that adds and removes parts, and its line. It includes these files of the log.
    pub(super) fn commit(
        &self,
        add: &[Part],
        remove: &[Arc<Part>],
        up_to: Option<UpTo<'_>>,
        logs: &[PathBuf],
    ) -> (Commit, Vec<u8>) {
        let mut datasets = self.datasets.clone();
        let mut commit = Commit {
            next: self.next,
            aged: self.aged,
            add: add.iter().map(|part| self.entry(part, &mut datasets)).collect(),
            remove: remove.iter().map(|part| self.name(&part.path)).collect(),
            ..Commit::default()
        };
        let added = datasets[self.datasets.len()..].iter();
        commit.datasets = added.map(|it| Dataset::clone(it)).collect();
        if let Some(UpTo { files, log }) = up_to {
            // What the log had of others goes with it.
            commit.files.clone_from(&self.files);
            commit.files.extend(files.cloned().unwrap_or_default());
            commit.log = Some(log);
            commit.left = logs.iter().map(|path| self.name(path)).collect();
        }
        let line = line(&commit);
        (commit, line)
    }

    /// The line that announces files about to be named: until a commit adds them they do not count.
    pub(super) fn announce(&mut self, parts: &[Part]) -> Vec<u8> {
        let left: Vec<_> = parts.iter().map(|part| self.name(&part.path)).collect();
        self.left.extend(left.iter().cloned());
        line(&Commit { next: self.next, left, ..Commit::default() })
    }

    /// The whole manifest, without removed and deleted files, and the datasets by number in it:
    /// only commits that follow it use these numbers.
    fn compact(&self) -> (Vec<u8>, Vec<Arc<Dataset>>) {
        let mut datasets = Vec::new();
        let mut entries = |parts: &BTreeMap<String, Arc<Part>>| {
            parts.values().map(|part| self.entry(part, &mut datasets)).collect()
        };
        let (add, missing) = (entries(&self.parts), entries(&self.missing));
        let commit = Commit {
            next: self.next,
            aged: self.aged,
            datasets: datasets.iter().map(|it| Dataset::clone(it)).collect(),
            add,
            missing,
            left: self.left.iter().cloned().collect(),
            files: self.flushed_files.clone(),
            log: self.log,
            ..Commit::default()
        };
        let mut text = line(&self.head);
        text.extend(line(&commit));
        (text, datasets)
    }

    /// A file's path in the folder.
    fn name(&self, path: &Path) -> String {
        path.strip_prefix(&self.dir).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// All parts that count.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Arc<Part>> {
        self.parts.values()
    }

    /// Whether a file counts.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.parts.contains_key(&self.name(path))
    }

    /// Records that a file has this number, if it is one of ours; those
    /// of the log of seconds are larger.
    pub(super) fn pass(&mut self, number: u64) {
        if number < 1 << 32 {
            self.next = self.next.max(number + 1);
        }
    }

    /// Whether a file does not count and was one of the store's: it may be deleted.
    pub(super) fn is_left(&self, path: &Path) -> bool {
        self.left.contains(&self.name(path))
    }

    /// Whether a file of the log of seconds is to be read: none behind it was flushed.
    pub(super) fn is_log(&self, path: &Path) -> bool {
        path.extension().is_some_and(|it| it == LOG) && self.log < Some(number_of(path))
    }

    /// Forgets an uncounted file that is gone, or must no longer be deleted.
    pub(super) fn forget(&mut self, path: &Path) {
        self.left.remove(&self.name(path));
    }

    /// Takes a part whose file is gone for missing. That need not be on disk: a start finds it out.
    pub(super) fn miss(&mut self, part: &Part) {
        self.missing.extend(self.parts.remove_entry(&self.name(&part.path)));
    }

    /// Starts a new run. Parts whose files are gone do not count until they are back, unless they
    /// have `expired` by then; returns those lost since the last start, and those that are back.
    pub(super) fn begin_run(&mut self, expired: impl Fn(&Part) -> bool) -> [Vec<Arc<Part>>; 2] {
        self.head.run += 1;
        let is_gone = |_: &String, part: &mut Arc<Part>| {
            let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
            fs::metadata(&part.path).is_err_and(|error| gone.contains(&error.kind()))
        };
        let is_back = |_: &String, part: &mut Arc<Part>| {
            fs::metadata(&part.path).is_ok_and(|found| found.len() == part.bytes)
        };
        let gone: Vec<_> = self.parts.extract_if(.., is_gone).collect();
        let back: Vec<_> = self.missing.extract_if(.., is_back).collect();
        self.missing.retain(|_, part| !expired(part));
        self.missing.extend(gone.iter().cloned());
        self.parts.extend(back.iter().cloned());
        [gone, back].map(|parts| parts.into_iter().map(|(_, part)| part).collect())
    }
}

/// A line with its checksum.
pub(super) fn line(what: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_string(what).expect("it consists of texts and numbers");
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes()
}

/// Reads the JSON of a file whose newest format is `known`.
pub(super) fn of_format<T: DeserializeOwned>(known: u32, json: &[u8], path: &Path) -> Done<T> {
    let bad = |error: serde_json::Error| damaged(path, error.to_string());
    match serde_json::from_slice::<Format>(json).map_err(bad)?.format {
        found if found > known => Err(StoreError::Newer { path: path.to_owned(), found, known }),
        _ => serde_json::from_slice(json).map_err(bad),
    }
}

/// Whether an appended line may not have been finished: it lacks its end or, after a power cut, has
/// holes. One zero may be a space with a flipped bit.
fn may_be_unfinished(line: &[u8]) -> bool {
    !line.ends_with(b"\n") || line.starts_with(&[0]) || line.windows(2).any(|two| two == [0; 2])
}

/// The JSON of a line, if it is whole; a last newline with a flipped bit does not matter.
pub(super) fn checked(line: &[u8]) -> Option<&[u8]> {
    let (crc, json) = line.split_last()?.1.split_at_checked(9)?;
    let crc = std::str::from_utf8(crc).ok()?.strip_suffix(' ')?;
    let is_whole = u32::from_str_radix(crc, 16) == Ok(crc32fast::hash(json));
    is_whole.then_some(json)
}
