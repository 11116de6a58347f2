//! Classifies the files in a folder of history by name: which are ours, and which of them the
//! manifest does not count.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use flate2::CrcReader;

use super::disk::{Done, failed};
use super::manifest::Manifest;
use super::requests::packed::TABLES;

/// The folder of pieces and unfinished files.
pub(super) const PENDING: &str = "pending";
/// Extension of pieces that were set aside.
pub(super) const DAMAGED: &str = "damaged";
/// The folder for files unknown to the manifest.
pub(super) const ORPHANS: &str = "orphans";
/// The folder of what ClickHouse lacks.
pub(super) const UNSHIPPED: &str = "unshipped";
/// The folder of published files.
pub(super) const ROLLUP: &str = "rollup";
const COVERAGE: &str = "coverage";

/// All files in a folder of history with names like ours.
pub(super) fn files_of(dir: &Path) -> Done<Vec<PathBuf>> {
    let folders = [PENDING, ROLLUP, COVERAGE].into_iter().chain(TABLES);
    files_in(folders.map(|name| dir.join(name)).collect(), is_ours)
}

/// Those in one of its folders.
pub(super) fn ours_in(dir: &Path, folder: &str) -> Done<Vec<PathBuf>> {
    files_in(vec![dir.join(folder)], is_ours)
}

/// All files in and below these folders that have such names, in order.
pub(super) fn files_in(
    mut folders: Vec<PathBuf>,
    is_wanted: impl Fn(&Path) -> bool,
) -> Done<Vec<PathBuf>> {
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed("read", &folder))?,
        };
        for entry in entries {
            let entry = entry.map_err(failed("read", &folder))?;
            let kind = entry.file_type().map_err(failed("read", &folder))?;
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if (kind.is_file() || kind.is_symlink()) && is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The files that a manifest does not count: those that may be deleted, and those it does not know.
pub(super) fn uncounted(dir: &Path, manifest: &Manifest) -> Done<(Vec<PathBuf>, Vec<PathBuf>)> {
    let known: HashSet<&Path> = manifest.parts().map(|part| &*part.path).collect();
    let mut files = files_of(dir)?;
    files.retain(|file| !known.contains(&**file) && !manifest.is_log(file));
    let is_deletable = |file: &PathBuf| {
        manifest.is_left(file) || is_temporary(file) && is_unfinished(file).unwrap_or(false)
    };
    Ok(files.into_iter().partition(is_deletable))
}

/// Unreadable pieces that were set aside in a folder: their rows are lost, unless somebody restores
/// them.
pub(crate) fn set_aside(dir: &Path) -> Vec<PathBuf> {
    let is_aside = |path: &Path| path.extension().is_some_and(|it| it == DAMAGED);
    files_in(vec![dir.join(PENDING)], is_aside).unwrap_or_default()
}

/// Whether it is an unfinished file, which never counted.
pub(super) fn is_temporary(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "new")
}

/// Whether a file begins like one of ours, as far as that was written.
fn is_unfinished(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(false);
    }
    File::open(path)?.take(4).read_to_end(&mut begin)?;
    // After a power cut there may be zeros.
    Ok([b"pinb", b"PAR1", &[0; 4]].iter().any(|ours| ours.starts_with(&begin)))
}

/// `12.piece`, `12.new`, `12.log`, `13-0123abcd-12.parquet`.
fn is_ours(path: &Path) -> bool {
    let ending = path.extension().and_then(|it| it.to_str());
    let stem = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let number = stem.rsplit('-').next().unwrap_or_default();
    matches!(ending, Some("piece" | "new" | "log" | "parquet"))
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && stem.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Size and checksum of a file.
pub(super) fn checksum(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = CrcReader::new(BufReader::with_capacity(256 << 10, File::open(path)?));
    let bytes = io::copy(&mut file, &mut io::sink())?;
    Ok((bytes, file.crc().sum()))
}
