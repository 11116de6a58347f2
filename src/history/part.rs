//! Parts: the files, pending and published, in which rows lie on disk. A part never changes; which parts there are does.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;

use super::{Dataset, Resolution};

/// The parts that count at present: a reader takes the list and has all rows that are on disk, each once; what it holds is not
/// deleted meanwhile.
pub type Parts = Arc<RwLock<Arc<[Arc<Part>]>>>;

/// A piece or a file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Where it lies.
    pub path: PathBuf,
    /// Of its rows.
    pub resolution: Resolution,
    /// From the beginning of the first minute, hour or day to the end of the last, unix seconds.
    pub span: Range<u64>,
    /// Whose rows: one dataset's in a file.
    pub sections: Vec<Section>,
    /// Its size.
    pub bytes: u64,
    /// Whether its rows have been added to a part of the next coarser resolution too.
    pub rolled: bool,
    /// The unix second at which it was written.
    pub written: u64,
    /// Over the whole file.
    pub(super) crc: u32,
}

/// The rows of a dataset in a part.
#[derive(Debug, Clone)]
pub struct Section {
    /// Whose they are.
    pub dataset: Arc<Dataset>,
    /// How many.
    pub rows: u64,
}

impl Part {
    /// Whether it has rows of a dataset.
    #[must_use]
    pub fn has(&self, dataset: &Dataset) -> bool {
        self.sections
            .iter()
            .any(|section| *section.dataset == *dataset)
    }

    /// Whether it has raw requests.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.sections.iter().any(|section| section.dataset.is_raw())
    }

    /// Rows of all datasets.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.sections.iter().map(|section| section.rows).sum()
    }

    /// Its number: no other part of the store has it.
    #[must_use]
    pub fn number(&self) -> u64 {
        number_of(&self.path)
    }

    /// Whether it is a published file, which others read too, and not a piece.
    #[must_use]
    pub fn is_published(&self) -> bool {
        is_published(&self.path)
    }

    /// Whether a part with this path is [`rolled`](Self::rolled): what is published is, in the same commit, unless nothing is
    /// coarser.
    pub(super) fn is_rolled(path: &Path, resolution: Resolution) -> bool {
        is_published(path) && resolution.coarser().is_some()
    }
}

/// The number of a file that is named as ours.
pub(super) fn number_of(path: &Path) -> u64 {
    let stem = path.file_stem().and_then(|it| it.to_str());
    let stem = stem.unwrap_or_default();
    let number = match is_published(path) {
        true => stem.rsplit('-').next(),
        false => stem.split('-').next(),
    };
    number.and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn is_published(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == PUBLISHED)
}

/// How the names of published files end.
const PUBLISHED: &str = "parquet";

#[cfg(test)]
mod tests {
    use super::*;

    impl Part {
        /// That of a file which no manifest knows.
        pub(in crate::history) fn of_file(path: &Path) -> Arc<Self> {
            Arc::new(Self {
                path: path.to_owned(),
                resolution: Resolution::Minute,
                span: 0..u64::MAX,
                sections: Vec::new(),
                bytes: 0,
                rolled: false,
                written: 0,
                crc: 0,
            })
        }
    }
}
