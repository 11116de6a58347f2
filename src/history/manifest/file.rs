//! The manifest as a file: rewritten as a whole, or appended to, with space reserved behind it so
//! that old files can be deleted on a full disk.

use std::fs::File;
use std::path::Path;

use rustix::fs::FallocateFlags;

use super::Manifest;
use crate::history::disk::{Disk, StoreError, damaged, failed};
use crate::history::tree::files_of;

/// Bytes of commits after which the manifest is rewritten.
pub(in crate::history) const COMMITS_BYTES_MAX: u64 = 256 << 10;

/// Reads the manifest of a folder; `None` if the folder is new.
pub(in crate::history) fn read_manifest(dir: &Path) -> Result<Option<Manifest>, StoreError> {
    let manifest = Manifest::read(dir)?;
    if manifest.is_none()
        && let Some(file) = files_of(dir)?.first()
    {
        let file = file.display();
        let reason = format!("it is missing, and without it {file} cannot be read");
        return Err(damaged(&Manifest::path(dir), reason));
    }
    Ok(manifest)
}

/// Rewrites the manifest; returns it open for appending, and its length. Its name is not synced
/// yet.
pub(in crate::history) fn write_manifest(
    disk: &Disk,
    dir: &Path,
    manifest: &mut Manifest,
) -> Result<(File, u64), StoreError> {
    let path = Manifest::path(dir);
    let (text, datasets) = manifest.compact().map_err(failed("write", &path))?;
    let file = disk.replace(&path, &text)?;
    manifest.datasets = datasets;
    let bytes = text.len() as u64;
    reserve(&file, bytes);
    Ok((file, bytes))
}

/// Reserves space for appending after so many bytes, so that files can be deleted on a full disk.
/// Not every file system supports this.
pub(in crate::history) fn reserve(file: &File, bytes: u64) {
    let _reserved =
        rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes + COMMITS_BYTES_MAX);
}

/// Appends the beginning of a run to the manifest; returns it open for appending, and its length.
pub(in crate::history) fn append_run(
    disk: &Disk,
    dir: &Path,
    manifest: &Manifest,
) -> Result<(File, u64), StoreError> {
    let path = Manifest::path(dir);
    let file = File::options().append(true).open(&path);
    let mut file = file.map_err(failed("open", &path))?;
    let bytes = file.metadata().map_err(failed("read", &path))?.len();
    // An unfinished entry is cut off.
    let bytes = bytes - manifest.torn as u64;
    let line = manifest.run_line().map_err(failed("write", &path))?;
    if manifest.torn > 0 {
        disk.cut(&mut file, &path, bytes)?;
        reserve(&file, bytes);
    }
    disk.append(&mut file, &path, &line)?;
    Ok((file, bytes + line.len() as u64))
}
