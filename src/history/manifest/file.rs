//! The manifest as a file: rewritten as a whole, or appended to, with space reserved behind it so
//! that old files can be deleted on a full disk.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use super::{Commit, Manifest, line};
use crate::history::disk::{Disk, Done, damaged, failed};
use crate::history::file_names::files_of;
use crate::history::part::Part;

/// Bytes of commits after which the manifest is rewritten.
pub(in crate::history) const COMMITS_BYTES_MAX: u64 = 256 << 10;

impl Manifest {
    /// Reads the manifest of a folder; `None` if the folder is new.
    pub(in crate::history) fn open(dir: &Path) -> Done<Option<Self>> {
        let manifest = Self::read(dir)?;
        if manifest.is_none()
            && let Some(file) = files_of(dir)?.first()
        {
            let file = file.display();
            let reason = format!("it is missing, and without it {file} cannot be read");
            return Err(damaged(&Self::path(dir), reason));
        }
        Ok(manifest)
    }

    /// Rewrites it; returns it open for appending. Its name is not synced yet.
    pub(in crate::history) fn rewrite(&mut self, disk: &Disk) -> Done<File> {
        let path = Self::path(&self.dir);
        let (text, datasets) = self.compact();
        let file = disk.replace(&path, &text)?;
        (self.datasets, self.bytes) = (datasets, text.len() as u64);
        self.reserve(&file);
        Ok(file)
    }

    /// Appends the beginning of a run, with the parts that are missing or back since the last one;
    /// returns it open for appending.
    pub(in crate::history) fn append_run(
        &mut self,
        disk: &Disk,
        [missing, returned]: &[Vec<Arc<Part>>; 2],
    ) -> Done<File> {
        let path = Self::path(&self.dir);
        let mut file = File::options().append(true).open(&path).map_err(failed("open", &path))?;
        // All of them are known.
        let mut datasets = self.datasets.clone();
        let mut entries = |parts: &[Arc<Part>]| {
            parts.iter().map(|part| self.entry(part, &mut datasets)).collect()
        };
        let run = Commit {
            next: self.next,
            run: Some(self.head.run),
            add: entries(returned),
            missing: entries(missing),
            ..Commit::default()
        };
        let line = line(&run);
        self.cut(disk, &mut file)?;
        disk.append(&mut file, &path, &line)?;
        self.bytes += line.len() as u64;
        Ok(file)
    }

    /// Cuts off appended bytes that may be incomplete.
    pub(in crate::history) fn cut(&self, disk: &Disk, file: &mut File) -> Done {
        disk.cut(file, &Self::path(&self.dir), self.bytes)?;
        self.reserve(file);
        Ok(())
    }

    /// Reserves space for appending, so that files can be deleted on a full disk. Not every file
    /// system supports this.
    fn reserve(&self, file: &File) {
        let bytes = self.bytes + COMMITS_BYTES_MAX;
        let _reserved = rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes);
    }
}
