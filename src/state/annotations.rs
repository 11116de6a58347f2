//! Annotations: events such as deployments, recorded by people and scripts.
//!
//! ```text
//!   annotations.json   {"version": 1, "next_id": 8, "annotations": [{"id": 7, "time": 1700000000, "text": "1.2", ..}, ..]}
//! ```
//!
//! At most [`ANNOTATIONS_MAX`] of [`ANNOTATION_BYTES_MAX`] each; the first one created goes first.
//! They are kept in `state.dir`, without one in `history.dir`, without either in memory. Front ends
//! call this from threads that may block: changes happen one at a time, each written before it
//! counts; reads wait for none of them.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::document::{Document, VERSION};
use super::folder::{KeptFolder, StateError};
use crate::instruments::Instrument;

/// Changes to annotations, including their file.
pub(crate) static ANNOTATIONS: Instrument =
    Instrument::wait("wait/synch/mutex/state/annotations", "lock");

/// Most annotations.
pub const ANNOTATIONS_MAX: usize = 10_000;
/// Bytes of the text and tags of one.
pub const ANNOTATION_BYTES_MAX: usize = 4_096;
/// Most bytes of all of them, with the names of their authors.
pub const BYTES_MAX: usize =
    ANNOTATIONS_MAX * (ANNOTATION_BYTES_MAX + size_of::<Annotation>() + 128);

/// One annotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annotation {
    /// Its number. Numbers grow and are not reused.
    #[serde(deserialize_with = "id_of")]
    pub id: u64,
    /// The time of the event, in unix seconds.
    pub time: u64,
    /// A description of the event.
    pub text: String,
    /// Tags separated by commas; none contains a comma.
    pub tags: String,
    /// The user who created it; `None` if nobody had to log in.
    pub author: Option<String>,
}

impl Annotation {
    /// Its tags, individually.
    pub(crate) fn tags(&self) -> impl Iterator<Item = &str> {
        self.tags.split(',').filter(|tag| !tag.is_empty())
    }
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Contents<T> {
    version: u64,
    #[serde(deserialize_with = "id_of")]
    next_id: u64,
    annotations: Vec<T>,
}

/// Refuses a number, which somebody edited, after which the next ones would not fit.
fn id_of<'a, D: Deserializer<'a>>(file: D) -> Result<u64, D::Error> {
    let id = u64::deserialize(file)?;
    match i64::try_from(id) {
        Ok(_) => Ok(id),
        Err(_) => Err(D::Error::custom(format!("id {id} is too large"))),
    }
}

/// All annotations, in order of creation.
type List = Vec<Arc<Annotation>>;

/// The annotations of a daemon.
#[derive(Debug)]
pub struct Annotations {
    list: RwLock<List>,
    /// The next number; locked during a change.
    changes: Mutex<u64>,
    /// The file, if there is one.
    document: Option<Document>,
}

impl Default for Annotations {
    fn default() -> Self {
        Self { list: RwLock::default(), changes: Mutex::new(1), document: None }
    }
}

impl Annotations {
    /// Opens the annotations in a folder that exists and belongs to this daemon. A corrupt file is
    /// set aside and logged. `unix_secs` is the wall clock's time.
    ///
    /// # Errors
    /// Fails if the file exists but cannot be read.
    pub(crate) fn open(folder: &KeptFolder, unix_secs: u32) -> Result<Self, StateError> {
        let (document, read) = Document::open::<Contents<Annotation>>(
            folder,
            "annotations",
            "the annotations",
            unix_secs,
        )?;
        let (next_id, mut list) = read.map_or((1, Vec::new()), |it| (it.next_id, it.annotations));
        list.drain(..list.len().saturating_sub(ANNOTATIONS_MAX));
        // Somebody may have edited the file.
        let used = list.iter().map(|it| it.id).max().unwrap_or_default();
        Ok(Self {
            list: RwLock::new(list.into_iter().map(Arc::new).collect()),
            changes: Mutex::new(next_id.max(used.saturating_add(1))),
            document: Some(document),
        })
    }

    /// Whether they survive a restart.
    pub(crate) const fn persistent(&self) -> bool {
        self.document.is_some()
    }

    /// All annotations, in order of creation.
    pub(crate) fn all(&self) -> Vec<Arc<Annotation>> {
        self.list.read().clone()
    }

    /// Annotations in a span of unix seconds, ordered by time.
    pub(crate) fn within(&self, span: &RangeInclusive<u64>) -> Vec<Arc<Annotation>> {
        let list = self.list.read();
        let found = list.iter().filter(|it| span.contains(&it.time));
        let mut found: List = found.cloned().collect();
        drop(list);
        found.sort_by_key(|it| (it.time, it.id));
        found
    }

    /// Adds an annotation under a new number; the oldest goes if there is no room.
    ///
    /// # Errors
    /// Fails if it cannot be written; then nothing has changed.
    pub(crate) fn add(&self, mut made: Annotation) -> Result<Arc<Annotation>, StateError> {
        let mut next_id = ANNOTATIONS.lock(&self.changes);
        made.id = *next_id;
        let made = Arc::new(made);
        let mut list = self.all();
        list.push(Arc::clone(&made));
        list.drain(..list.len().saturating_sub(ANNOTATIONS_MAX));
        self.replace(*next_id + 1, list)?;
        *next_id += 1;
        Ok(made)
    }

    /// Removes an annotation; returns false if there is none of that number.
    ///
    /// # Errors
    /// As [`Annotations::add`].
    pub(crate) fn remove(&self, id: u64) -> Result<bool, StateError> {
        let next_id = ANNOTATIONS.lock(&self.changes);
        let mut list = self.all();
        let before = list.len();
        list.retain(|it| it.id != id);
        if list.len() == before {
            return Ok(false);
        }
        self.replace(*next_id, list)?;
        Ok(true)
    }

    fn replace(&self, next_id: u64, list: List) -> Result<(), StateError> {
        if let Some(document) = &self.document {
            document.write(&Contents {
                version: VERSION,
                next_id,
                annotations: list.iter().map(|it| &**it).collect(),
            })?;
        }
        *self.list.write() = list;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::folder::STATE;
    use super::*;

    fn about(time: u64, text: &str) -> Annotation {
        Annotation {
            id: 0,
            time,
            text: text.to_owned(),
            tags: "deploy,shop".to_owned(),
            author: Some("kim".to_owned()),
        }
    }

    fn texts(annotations: &[Arc<Annotation>]) -> Vec<&str> {
        annotations.iter().map(|it| it.text.as_str()).collect()
    }

    #[test]
    fn they_are_there_after_opening_again_and_numbers_are_not_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Annotations::open(&KeptFolder::new(STATE, dir.path()), 7).unwrap();
        let kept = open();
        assert!(kept.persistent() && kept.all().is_empty());
        for (time, text) in [(30, "c"), (10, "a\n\"ä\""), (20, "b"), (10, "a2")] {
            kept.add(about(time, text)).unwrap();
        }
        assert!(!kept.remove(9).unwrap());
        assert!(kept.remove(4).unwrap());
        let before = kept.all();
        let kept = open();
        assert_eq!(kept.all(), before);
        assert_eq!(texts(&kept.within(&(0..=u64::MAX))), ["a\n\"ä\"", "b", "c"]);
        assert_eq!(texts(&kept.within(&(10..=20))), ["a\n\"ä\"", "b"]);
        let made = kept.add(about(40, "d")).unwrap();
        assert_eq!((made.id, kept.all().len()), (5, 4));
        assert_eq!(made.tags().collect::<Vec<_>>(), ["deploy", "shop"]);
    }

    #[test]
    fn the_first_goes_first() {
        let kept = Annotations::default();
        for at in 0..ANNOTATIONS_MAX as u64 + 2 {
            kept.add(about(99_999 - at, "x")).unwrap();
        }
        let all = kept.all();
        assert_eq!((all.len(), all[0].id), (ANNOTATIONS_MAX, 3));
        assert!(!kept.persistent());
    }

    #[test]
    fn what_cannot_be_written_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Annotations::open(&KeptFolder::new(STATE, dir.path()), 7).unwrap();
        kept.add(about(1, "a")).unwrap();
        // Not a matter of permissions, so that it holds for root too.
        let new = dir.path().join("annotations.json.new");
        fs::create_dir(&new).unwrap();
        for error in [kept.add(about(2, "b")).unwrap_err(), kept.remove(1).unwrap_err()] {
            assert!(error.to_string().starts_with("state.dir: cannot write "), "{error}");
        }
        assert_eq!(texts(&kept.all()), ["a"]);
        fs::remove_dir(&new).unwrap();
        assert_eq!(kept.add(about(2, "b")).unwrap().id, 2);
    }

    #[test]
    fn a_corrupt_file_is_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("annotations.json");
        let last = format!("{{\"version\": 1, \"next_id\": {}, \"annotations\": []}}", u64::MAX);
        for (text, at) in [
            ("{\"version\": 1, \"annotations\": [{}]}", 7),
            ("{\"version\": 9}", 8),
            // After it no number is left.
            (&last, 9),
        ] {
            fs::write(&file, text).unwrap();
            let kept = Annotations::open(&KeptFolder::new(STATE, dir.path()), at).unwrap();
            assert!(kept.all().is_empty());
            let aside = file.with_added_extension(format!("corrupt-{at}"));
            assert_eq!(fs::read_to_string(aside).unwrap(), text);
            kept.add(about(1, "a")).unwrap();
        }
    }
}
