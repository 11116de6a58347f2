//! Parts: the files on disk that hold rows, pending and published. A part never changes; the list
//! of parts does.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use indexmap::IndexSet;
use parking_lot::RwLock;

use super::{Dataset, Resolution};

/// The parts that count at present. A reader that takes the list has all rows on disk, each once;
/// the parts it holds are not deleted meanwhile.
pub type Parts = Arc<RwLock<Arc<[Arc<Part>]>>>;

/// A piece or a file.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Its path.
    pub path: PathBuf,
    /// The resolution of its rows.
    pub resolution: Resolution,
    /// From the beginning of the first minute, hour or day to the end of the last, in unix seconds.
    pub span: Range<u64>,
    /// The datasets whose rows it has; a published file has one.
    pub sections: Vec<Section>,
    /// Its size in bytes.
    pub bytes: u64,
    /// The unix second at which it was written.
    pub written: u64,
    /// Whether its rows came from logs: they were never in live reports.
    pub is_imported: bool,
    /// Checksum of the whole file.
    pub(super) crc: u32,
    /// Whether a reader could not read it: the history thread compares it with its checksum.
    pub(super) suspect: Arc<AtomicBool>,
}

/// The rows of a dataset in a part.
#[derive(Debug, Clone)]
pub struct Section {
    /// Their dataset.
    pub dataset: Arc<Dataset>,
    /// Their number.
    pub rows: u64,
}

impl Part {
    /// Whether it has rows of a dataset.
    pub(crate) fn has(&self, dataset: &Dataset) -> bool {
        self.sections.iter().any(|section| *section.dataset == *dataset)
    }

    /// Whether it has raw requests.
    pub fn is_raw(&self) -> bool {
        self.sections.iter().any(|section| section.dataset.is_raw())
    }

    /// Returns the number of rows of all datasets.
    pub fn rows(&self) -> u64 {
        self.sections.iter().map(|section| section.rows).sum()
    }

    /// Returns the number of rows of a dataset.
    pub(crate) fn rows_of(&self, dataset: &Dataset) -> u64 {
        let sections = self.sections.iter().filter(|section| *section.dataset == *dataset);
        sections.map(|section| section.rows).sum()
    }

    /// Returns its number, unique in the store.
    pub(crate) fn number(&self) -> u64 {
        number_of(&self.path)
    }

    /// The beginning of the span of the published file that its first rows are, or will be, in.
    pub(super) fn file_begin(&self) -> u64 {
        self.resolution.file_span(self.span.start).start
    }

    /// Whether it is a published file, which other programs read too, rather than a piece.
    pub(crate) fn is_published(&self) -> bool {
        is_published(&self.path)
    }

    /// Whether its rows have also been added to a part of the next coarser resolution: those of
    /// published files have, in the same commit, unless there is none.
    pub(crate) fn is_rolled(&self) -> bool {
        self.is_published() && self.resolution.coarser().is_some()
    }
}

/// The datasets whose rows some parts have.
pub(super) fn datasets<'p>(parts: impl Iterator<Item = &'p Arc<Part>>) -> Vec<Arc<Dataset>> {
    let all = parts.flat_map(|part| &part.sections).map(|section| Arc::clone(&section.dataset));
    all.collect::<IndexSet<_>>().into_iter().collect()
}

/// Returns the number in the name of one of our files.
pub(super) fn number_of(path: &Path) -> u64 {
    let stem = path.file_stem().and_then(|it| it.to_str()).unwrap_or_default();
    let number = if is_published(path) { stem.rsplit('-').next() } else { stem.split('-').next() };
    number.and_then(|it| it.parse().ok()).unwrap_or(0)
}

pub(super) fn is_published(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == PUBLISHED)
}

/// File name extension of published files.
const PUBLISHED: &str = "parquet";

#[cfg(test)]
mod tests {
    use super::*;

    impl Part {
        /// Makes the part of a file that no manifest lists.
        pub(in crate::history) fn of_file(path: &Path) -> Arc<Self> {
            Arc::new(Self { path: path.to_owned(), span: 0..u64::MAX, ..Self::default() })
        }
    }
}
