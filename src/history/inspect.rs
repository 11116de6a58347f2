//! Inspects a folder of history, for commands beside a running daemon: nothing is locked or
//! changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::columns::Want;
use super::disk::{Done, failed};
pub(crate) use super::file_names::set_aside;
use super::file_names::{ORPHANS, checksum, files_of, ours_in};
use super::manifest::Manifest;
use super::part::{Part, Section};
use super::pending::damaged;
use super::{Dataset, Resolution, log_of_seconds, shipping};

/// The rows of a dataset at a resolution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HeldRows {
    /// The report.
    pub report: String,
    /// The hash of its definition; empty for coverage.
    pub definition: String,
    /// Of the rows.
    pub resolution: Resolution,
    /// Start of the first, in unix seconds.
    pub from: u64,
    /// End of the last.
    pub to: u64,
    /// Number of rows.
    pub rows: u64,
    /// Rows not published yet.
    pub pending_rows: u64,
    /// Published files.
    pub files: u64,
    /// Bytes; of pieces, the share of its rows.
    pub bytes: u64,
}

/// The content of a folder, by report, definition and resolution.
///
/// # Errors
/// Fails if there is no manifest, or it cannot be read.
pub fn list(dir: &Path) -> Done<Vec<HeldRows>> {
    let manifest = read(dir)?;
    let mut held: BTreeMap<(&str, &str, Resolution), HeldRows> = BTreeMap::new();
    for part in manifest.parts() {
        for Section { dataset, rows } in &part.sections {
            let Dataset { report, hash, .. } = &**dataset;
            let held = held.entry((report, hash, part.resolution));
            let held = held.or_insert_with(|| HeldRows {
                report: report.clone(),
                definition: hash.clone(),
                resolution: part.resolution,
                from: u64::MAX,
                ..HeldRows::default()
            });
            held.from = held.from.min(part.span.start);
            held.to = held.to.max(part.span.end);
            held.rows += rows;
            match part.is_published() {
                true => held.files += 1,
                false => held.pending_rows += rows,
            }
            let share = u128::from(part.bytes) * u128::from(*rows) / u128::from(part.rows().max(1));
            held.bytes += share as u64;
        }
    }
    Ok(held.into_values().collect())
}

/// The result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    /// Files and pieces that match the manifest.
    pub parts: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The problems, one per file.
    pub problems: Vec<String>,
    /// Our own files that do not count: a daemon is writing them, or was when it was killed. The
    /// next start removes them, or moves them to the orphans.
    pub uncounted: Vec<PathBuf>,
    /// Files that were gone at an earlier start.
    pub missing: Vec<PathBuf>,
    /// Files that the manifest did not know and that were moved away.
    pub orphans: Vec<PathBuf>,
    /// Whether the last commit is incomplete: the next start drops it.
    pub is_torn: bool,
}

/// Reads the whole folder, and compares it with the manifest. Files removed by a running daemon
/// meanwhile are no problem.
///
/// # Errors
/// Fails if there is no manifest, or it or the folder cannot be read.
pub fn verify(dir: &Path) -> Done<Verified> {
    let manifest = read(dir)?;
    let on_disk = files_of(dir)?;
    let mut verified = Verified::default();
    let mut problems = Vec::new();
    for part in manifest.parts() {
        match verify_part(part) {
            Ok(()) => {
                verified.parts += 1;
                verified.rows += part.rows();
                verified.bytes += part.bytes;
            }
            Err(problem) => problems.push((&part.path, problem)),
        }
    }
    let logs = on_disk.iter().filter(|path| manifest.is_log(path));
    problems.extend(logs.filter_map(|path| Some((path, log_of_seconds::verify(path).err()?))));
    // Again, for anything that came and went meanwhile.
    let now = read(dir)?;
    let problems = problems.iter().filter(|(path, _)| now.has(path) || now.is_log(path));
    let problems = problems.map(|(path, problem)| format!("{}: {problem}", path.display()));
    let is_uncounted = |path: &PathBuf| {
        !manifest.has(path) && !now.has(path) && !now.is_log(path) && path.exists()
    };
    Ok(Verified {
        problems: problems.chain(shipping::verify(dir, verify_rows)?).collect(),
        uncounted: on_disk.into_iter().filter(is_uncounted).collect(),
        missing: now.missing.values().map(|part| part.path.clone()).collect(),
        orphans: ours_in(dir, ORPHANS)?,
        is_torn: now.torn > 0,
        ..verified
    })
}

/// Whether a daemon could read the manifest of a folder, if that exists.
///
/// # Errors
/// The reason why history would be off.
pub fn check(dir: &Path) -> Done {
    Manifest::open(dir).map(drop)
}

fn read(dir: &Path) -> Done<Manifest> {
    Manifest::read(dir)?.ok_or_else(|| {
        let missing = "it is missing; is this the folder of history.dir?";
        failed("read", &Manifest::path(dir))(io::Error::new(io::ErrorKind::NotFound, missing))
    })
}

/// Checks size and checksum, and that all rows can be read.
fn verify_part(part: &Arc<Part>) -> io::Result<()> {
    let (bytes, crc) = checksum(&part.path)?;
    if bytes != part.bytes {
        return Err(damaged(format!("it has {bytes} bytes, and {} were written", part.bytes)));
    }
    if crc != part.crc {
        return Err(damaged("its checksum is not that of what was written"));
    }
    verify_rows(part)
}

fn verify_rows(part: &Arc<Part>) -> io::Result<()> {
    for Section { dataset, rows } in &part.sections {
        let mut read = 0;
        part.read(dataset, 0..u64::MAX, Want::All, &mut |_| read += 1)?;
        if read != *rows {
            let of = &dataset.report;
            return Err(damaged(format!("it has {read} rows of {of}, and {rows} were written")));
        }
    }
    Ok(())
}
