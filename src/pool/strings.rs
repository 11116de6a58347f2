//! The string interner: every distinct string is kept once and goes by an id.
//!
//! Host, server and script names, schemas, tag names and tag values are interned. Whoever uses one holds it by a count
//! (origins, tag sets, report groups); with the last hold its bytes and its id are free again. The bytes live in an
//! `Arena` under a budget and the table is made at start, so ten million unique names cost what the plan says: past the
//! budget a new string becomes [`OTHER`] and is counted. Only the merger thread writes.

use hashbrown::HashTable;
use serde::{Deserialize, Serialize};

use super::arena::Arena;
use super::snapshot::Damage;
use super::table_bytes;
use crate::input::record::Hasher;
use crate::limits::TEXT_BYTES_MAX;

/// The empty text; always there.
pub const EMPTY: u32 = 0;

/// Stands for every text that found no room; shown as `(other)`. No text from outside ever gets this number.
pub const OTHER: u32 = 1;

/// How [`OTHER`] is shown.
pub const OTHER_TEXT: &str = "(other)";

/// No string at all: an absent schema, a tag that is not there.
pub const NONE: u32 = u32::MAX;

/// The store of strings.
#[derive(Debug)]
pub struct StringInterner {
    table: HashTable<u32>,
    strings: Vec<Entry>,
    unused: Vec<u32>,
    arena: Arena,
    strings_max: usize,
    hasher: Hasher,
    overflowed: u64,
    /// How many strings are names of timer tags.
    timer_tags: usize,
    forgotten: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Place in the arena.
    place: u32,
    len: u32,
    /// How many hold it.
    holds: u32,
    /// In how many tag sets of timers it is a name.
    names: u32,
}

/// A string as a snapshot has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum SavedString {
    /// [`EMPTY`].
    Empty,
    /// [`OTHER`].
    Other,
    /// [`NONE`].
    None,
    /// Any other.
    Text(String),
}

/// Strings that a budget is for.
const fn strings_max(budget_bytes: usize) -> usize {
    let strings = budget_bytes / 64;
    let most = u32::MAX as usize - 2;
    if strings < 1024 {
        1024
    } else if strings > most {
        most
    } else {
        strings
    }
}

impl StringInterner {
    /// Bytes that a store with this budget takes once it was full.
    pub(super) const fn bytes_max(budget_bytes: usize) -> usize {
        let strings_max = strings_max(budget_bytes);
        Arena::bytes_max(budget_bytes)
            + (strings_max + 2) * (size_of::<Entry>() + size_of::<u32>())
            + table_bytes(strings_max)
    }

    /// A store for `budget_bytes` of text and one string per 64 bytes of that.
    #[must_use]
    pub fn new(budget_bytes: usize, hasher: Hasher) -> Self {
        let strings_max = strings_max(budget_bytes);
        let mut strings = Vec::with_capacity(strings_max + 2);
        // EMPTY and OTHER are held for ever and never looked up.
        strings.push(Entry {
            place: 0,
            len: 0,
            holds: 1,
            names: 0,
        });
        strings.push(Entry {
            place: 0,
            len: 0,
            holds: 1,
            names: 0,
        });
        Self {
            table: HashTable::with_capacity(strings_max),
            strings,
            unused: Vec::with_capacity(strings_max),
            arena: Arena::new(budget_bytes),
            strings_max,
            hasher,
            overflowed: 0,
            timer_tags: 0,
            forgotten: 0,
        }
    }

    /// The number of `text`, held once more. [`OTHER`] when there is no room for a new text.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return EMPTY;
        }
        let hash = self.hasher.hash_bytes(text);
        let found = self.table.find(hash, |&id| {
            let string = self.strings[id as usize];
            string.len as usize == text.len() && self.arena.get(string.place, text.len()) == text
        });
        if let Some(&id) = found {
            self.strings[id as usize].holds += 1;
            return id;
        }
        if self.table.len() >= self.strings_max {
            self.overflowed += 1;
            return OTHER;
        }
        let Some(place) = self.arena.store(text) else {
            self.overflowed += 1;
            return OTHER;
        };
        let string = Entry {
            place,
            len: text.len() as u32,
            holds: 1,
            names: 0,
        };
        let id = match self.unused.pop() {
            Some(id) => {
                self.strings[id as usize] = string;
                id
            }
            None => {
                self.strings.push(string);
                (self.strings.len() - 1) as u32
            }
        };
        let Self {
            table,
            strings,
            arena,
            hasher,
            ..
        } = self;
        table.insert_unique(hash, id, |&id| {
            let string = strings[id as usize];
            hasher.hash_bytes(arena.get(string.place, string.len as usize))
        });
        id
    }

    /// The hash that receivers and this store agree on.
    pub(super) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// A string as a snapshot has it.
    #[must_use]
    pub fn save(&self, id: u32) -> SavedString {
        match id {
            EMPTY => SavedString::Empty,
            OTHER => SavedString::Other,
            NONE => SavedString::None,
            id => SavedString::Text(self.text(id).to_owned()),
        }
    }

    /// The id of a string that was [saved](Self::save), held once more.
    ///
    /// # Errors
    /// When it is longer than any string.
    pub fn restore(&mut self, saved: &SavedString) -> Result<u32, Damage> {
        Ok(match saved {
            SavedString::Empty => EMPTY,
            SavedString::Other => OTHER,
            SavedString::None => NONE,
            SavedString::Text(text) if text.len() > TEXT_BYTES_MAX => {
                return Err(Damage("a string is too long"));
            }
            SavedString::Text(text) => self.intern(text.as_bytes()),
        })
    }

    /// The number of `text` if it is kept now; nothing is held.
    #[must_use]
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return Some(EMPTY);
        }
        self.table
            .find(self.hasher.hash_bytes(text), |&id| self.bytes(id) == text)
            .copied()
    }

    /// Holds a string once more.
    pub fn hold(&mut self, id: u32) {
        if id > OTHER && id != NONE {
            self.strings[id as usize].holds += 1;
        }
    }

    /// Lets go of a string; with the last hold it is forgotten.
    pub fn release(&mut self, id: u32) {
        if id <= OTHER || id == NONE {
            return;
        }
        let string = &mut self.strings[id as usize];
        string.holds -= 1;
        if string.holds > 0 {
            return;
        }
        let string = *string;
        self.forgotten += 1;
        let hash = self
            .hasher
            .hash_bytes(self.arena.get(string.place, string.len as usize));
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.arena.free(string.place, string.len as usize);
        self.unused.push(id);
    }

    /// A tag set of timers has this name.
    pub(super) fn timer_tag(&mut self, id: u32) {
        let string = &mut self.strings[id as usize];
        self.timer_tags += usize::from(string.names == 0);
        string.names += 1;
    }

    /// A tag set of timers that had this name is forgotten.
    pub(super) fn no_timer_tag(&mut self, id: u32) {
        let string = &mut self.strings[id as usize];
        string.names -= 1;
        self.timer_tags -= usize::from(string.names == 0);
    }

    /// Whether it is the name of a tag that some timer has.
    #[must_use]
    pub fn is_timer_tag(&self, id: u32) -> bool {
        self.strings
            .get(id as usize)
            .is_some_and(|string| string.names > 0)
    }

    /// How many names timer tags have.
    #[must_use]
    pub fn timer_tags(&self) -> usize {
        self.timer_tags
    }

    /// Numbers of strings are below this.
    #[must_use]
    pub fn end(&self) -> usize {
        self.strings.len()
    }

    /// The bytes of a string; empty for [`EMPTY`] and [`NONE`].
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        match id {
            EMPTY | NONE => b"",
            OTHER => OTHER_TEXT.as_bytes(),
            id => {
                let string = self.strings[id as usize];
                self.arena.get(string.place, string.len as usize)
            }
        }
    }

    /// The text of a string. Whatever is interned was made valid UTF-8 by the decoder; should it not be, the valid part.
    #[must_use]
    pub fn text(&self, id: u32) -> &str {
        let bytes = self.bytes(id);
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// How many texts are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many texts became [`OTHER`] for want of room, ever.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// How many texts were forgotten, ever: while this stands still, every number means what it meant.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Bytes of text storage in use, whole chunks.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_lives_as_long_as_someone_holds_it() {
        let mut strings = StringInterner::new(1 << 20, Hasher::new());
        let a = strings.intern(b"/index.php");
        assert_eq!(strings.intern(b"/index.php"), a);
        assert_ne!(strings.intern(b"/other.php"), a);
        assert_eq!(strings.text(a), "/index.php");
        strings.release(a);
        assert_eq!(strings.find(b"/index.php"), Some(a));
        strings.release(a);
        assert_eq!(strings.find(b"/index.php"), None);
        assert_eq!(strings.len(), 1);
        assert_eq!(strings.intern(b"/third.php"), a, "numbers are used again");
    }

    #[test]
    fn what_is_saved_is_the_same_string_elsewhere() {
        let mut here = StringInterner::new(1 << 20, Hasher::new());
        let text = here.intern(OTHER_TEXT.as_bytes());
        let mut there = StringInterner::new(1 << 20, Hasher::new());
        let found = there.restore(&here.save(text)).unwrap();
        assert_eq!(there.find(OTHER_TEXT.as_bytes()), Some(found));
        for id in [EMPTY, OTHER, NONE] {
            assert_eq!(there.restore(&here.save(id)), Ok(id));
        }
        let long = SavedString::Text("x".repeat(TEXT_BYTES_MAX + 1));
        assert!(there.restore(&long).is_err());
        there.release(found);
        assert!(there.is_empty(), "held once");
    }

    #[test]
    fn the_marker_is_not_a_text_that_can_be_sent() {
        let mut strings = StringInterner::new(1 << 20, Hasher::new());
        let sent = strings.intern(OTHER_TEXT.as_bytes());
        assert_ne!(sent, OTHER);
        assert_eq!(strings.text(sent), strings.text(OTHER));
    }

    #[test]
    fn words_have_a_budget_and_so_have_their_texts() {
        let taken = |text: &dyn Fn(u32) -> String| {
            let mut strings = StringInterner::new(1 << 16, Hasher::new());
            for number in 0..5_000 {
                strings.intern(text(number).as_bytes());
            }
            strings.len()
        };
        // One for each 64 bytes of the budget, but no fewer than this; longer ones are as many as fit.
        assert_eq!(taken(&|number| format!("{number}")), 1_024);
        let long = taken(&|number| format!("{number:0>500}"));
        assert!((1..=(1 << 16) / 500).contains(&long), "{long}");
    }

    #[test]
    fn past_the_budget_texts_become_other_and_are_counted() {
        let mut strings = StringInterner::new(1 << 16, Hasher::new());
        let mut ids = Vec::new();
        for i in 0..5_000 {
            ids.push(strings.intern(format!("unique-{i}").as_bytes()));
        }
        assert!(strings.overflowed() > 0);
        assert_eq!(
            ids.iter().filter(|&&id| id == OTHER).count() as u64,
            strings.overflowed()
        );
        for id in ids {
            strings.release(id);
        }
        assert!(strings.is_empty());
        assert_ne!(strings.intern(b"room again"), OTHER);
    }
}
