//! The string interner: every distinct string is kept once and referred to by an id.
//!
//! Host, server and script names, schemas, tag names and tag values are interned. Users hold a
//! string by a count (origins, tag sets, report groups); with the last hold its bytes and its id
//! are freed. The bytes live in an `Arena` under a budget and the table is allocated at start, so
//! ten million unique names cost what the plan says: past the budget a new string becomes [`OTHER`]
//! and is counted. Only the merger thread writes.

use super::arena::Arena;
use super::table::Table;
use crate::input::record::{Hasher, is_same};

/// The empty text, which always exists.
pub const EMPTY: u32 = 0;

/// Stands for every text that found no room; shown as `(other)`. No text from outside ever gets
/// this id.
pub const OTHER: u32 = 1;

/// The text shown for [`OTHER`].
pub const OTHER_TEXT: &str = "(other)";

/// No string: an absent schema or tag.
pub const NONE: u32 = u32::MAX;

/// The store of strings.
#[derive(Debug)]
pub struct StringInterner {
    table: Table<Entry>,
    arena: Arena,
    hasher: Hasher,
    overflowed: u64,
    /// Number of strings that are names of timer tags.
    timer_tags: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Position in the arena.
    place: u32,
    len: u32,
    /// The number of holders.
    holds: u32,
    /// Number of timer tag sets in which it is a name.
    names: u32,
}

impl Entry {
    #[inline]
    fn bytes(self, arena: &Arena) -> &[u8] {
        arena.get(self.place, self.len as usize)
    }
}

/// Whether a string is permanent and never looked up: [`EMPTY`], [`OTHER`] or [`NONE`].
pub(super) const fn is_fixed(id: u32) -> bool {
    id <= OTHER || id == NONE
}

/// Number of strings for a budget.
fn strings_max(budget_bytes: usize) -> usize {
    (budget_bytes / 64).clamp(1024, u32::MAX as usize - 2)
}

impl StringInterner {
    /// Most bytes of a store with this budget.
    pub(super) fn bytes_max(budget_bytes: usize) -> usize {
        Arena::bytes_max(budget_bytes) + Table::<Entry>::bytes_max(strings_max(budget_bytes), 2)
    }

    /// A store for `budget_bytes` of text and one string per 64 bytes of that.
    pub fn new(budget_bytes: usize, hasher: Hasher) -> Self {
        Self {
            table: Table::new(strings_max(budget_bytes), [Entry::default(); 2]),
            arena: Arena::new(budget_bytes),
            hasher,
            overflowed: 0,
            timer_tags: 0,
        }
    }

    /// The id of `text`, held once more. [`OTHER`] if there is no room for a new text.
    pub fn intern(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return EMPTY;
        }
        let hash = self.hasher.hash_bytes(text);
        let found = self.table.find(hash, |string| {
            string.len as usize == text.len() && string.bytes(&self.arena) == text
        });
        if let Some(id) = found {
            self.table[id].holds += 1;
            return id;
        }
        let place = match self.table.room() {
            0 => None,
            _ => self.arena.store(text),
        };
        let Some(place) = place else {
            self.overflowed += 1;
            return OTHER;
        };
        let string = Entry { place, len: text.len() as u32, holds: 1, names: 0 };
        let hash_of = |string: &Entry| self.hasher.hash_bytes(string.bytes(&self.arena));
        self.table.insert(hash, string, hash_of)
    }

    /// The hasher of texts.
    pub(super) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The id of `text` if it exists; does not hold it.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return Some(EMPTY);
        }
        let hash = self.hasher.hash_bytes(text);
        self.table.find(hash, |string| string.bytes(&self.arena) == text)
    }

    /// Holds a string once more.
    pub fn hold(&mut self, id: u32) {
        if !is_fixed(id) {
            self.table[id].holds += 1;
        }
    }

    /// Releases a hold; the last one removes the string.
    pub fn release(&mut self, id: u32) {
        if is_fixed(id) {
            return;
        }
        let string = &mut self.table[id];
        string.holds -= 1;
        if string.holds > 0 {
            return;
        }
        let string = *string;
        let hash = self.hasher.hash_bytes(string.bytes(&self.arena));
        self.table.remove(hash, id);
        self.arena.free(string.place, string.len as usize);
    }

    /// Counts this name in a new tag set of timers.
    pub(super) fn timer_tag(&mut self, id: u32) {
        let string = &mut self.table[id];
        self.timer_tags += usize::from(string.names == 0);
        string.names += 1;
    }

    /// Uncounts this name in a removed tag set of timers.
    pub(super) fn no_timer_tag(&mut self, id: u32) {
        let string = &mut self.table[id];
        string.names -= 1;
        self.timer_tags -= usize::from(string.names == 0);
    }

    /// Whether it is the name of some timer's tag.
    pub fn is_timer_tag(&self, id: u32) -> bool {
        (id as usize) < self.table.end() && self.table[id].names > 0
    }

    /// Number of names of timer tags.
    pub fn timer_tags(&self) -> usize {
        self.timer_tags
    }

    /// Exclusive upper bound of ids.
    pub fn end(&self) -> usize {
        self.table.end()
    }

    /// The bytes of a string; empty for [`EMPTY`] and [`NONE`].
    #[inline]
    pub fn bytes(&self, id: u32) -> &[u8] {
        match id {
            EMPTY | NONE => b"",
            OTHER => OTHER_TEXT.as_bytes(),
            id => self.table[id].bytes(&self.arena),
        }
    }

    /// Whether string `id` has this text.
    #[inline(always)]
    pub(super) fn is(&self, id: u32, text: &[u8]) -> bool {
        is_same(self.bytes(id), text)
    }

    /// The text of a string. Interned texts were made valid UTF-8 by the decoder; otherwise, the
    /// valid part.
    pub fn text(&self, id: u32) -> &str {
        let bytes = self.bytes(id);
        match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        }
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Texts that became [`OTHER`] for lack of room, since start.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Bytes of text storage in use, in whole chunks.
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
        // One for each 64 bytes of the budget, but no fewer than this; longer ones are limited by
        // bytes.
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
        assert_eq!(ids.iter().filter(|&&id| id == OTHER).count() as u64, strings.overflowed());
        for id in ids {
            strings.release(id);
        }
        assert!(strings.is_empty());
        assert_ne!(strings.intern(b"room again"), OTHER);
    }
}
