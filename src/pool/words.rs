//! Words: every distinct text is kept once and goes by a number.
//!
//! Host, server and script names, schemas, tag names and tag values are words. Who uses one holds it by a count
//! (origins, tag sets, report groups); with the last hold its bytes and its number are free again. The bytes live in
//! an `Arena` under a budget and the table is made at start, so ten million unique names cost what the plan says:
//! past the budget a new text becomes [`OTHER`] and is counted. Only the merger thread writes.

use hashbrown::HashTable;

use super::arena::Arena;
use super::table_bytes;
use crate::packed::{Damage, Packer, Unpacker};
use crate::wire::Hasher;

/// The empty text; always there.
pub const EMPTY: u32 = 0;

/// Stands for every text that found no room; shown as `(other)`. No text from outside ever gets this number.
pub const OTHER: u32 = 1;

/// How [`OTHER`] is shown.
pub const OTHER_TEXT: &str = "(other)";

/// No word at all: an absent schema, a tag that is not there.
pub const NONE: u32 = u32::MAX;

/// The store of texts.
#[derive(Debug)]
pub struct Words {
    table: HashTable<u32>,
    words: Vec<Word>,
    unused: Vec<u32>,
    arena: Arena,
    words_max: usize,
    hasher: Hasher,
    overflowed: u64,
    /// How many words are names of timer tags.
    timer_tags: usize,
    forgotten: u64,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    /// Place in the arena.
    place: u32,
    len: u32,
    /// How many hold it.
    holds: u32,
    /// In how many tag sets of timers it is a name.
    names: u32,
}

/// A word as it was written out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Packed<'a> {
    /// One that is always there.
    Fixed(u32),
    /// Any other.
    Text(&'a [u8]),
}

/// Words that a budget is for.
const fn words_max(budget_bytes: usize) -> usize {
    let words = budget_bytes / 64;
    let most = u32::MAX as usize - 2;
    if words < 1024 {
        1024
    } else if words > most {
        most
    } else {
        words
    }
}

impl Words {
    /// Bytes that a store with this budget takes once it was full.
    pub(super) const fn bytes_max(budget_bytes: usize) -> usize {
        let words_max = words_max(budget_bytes);
        Arena::bytes_max(budget_bytes)
            + (words_max + 2) * (size_of::<Word>() + size_of::<u32>())
            + table_bytes(words_max)
    }

    /// A store for `budget_bytes` of text and one word per 64 bytes of that.
    #[must_use]
    pub fn new(budget_bytes: usize, hasher: Hasher) -> Self {
        let words_max = words_max(budget_bytes);
        let mut words = Vec::with_capacity(words_max + 2);
        // EMPTY and OTHER are held for ever and never looked up.
        words.push(Word {
            place: 0,
            len: 0,
            holds: 1,
            names: 0,
        });
        words.push(Word {
            place: 0,
            len: 0,
            holds: 1,
            names: 0,
        });
        Self {
            table: HashTable::with_capacity(words_max),
            words,
            unused: Vec::with_capacity(words_max),
            arena: Arena::new(budget_bytes),
            words_max,
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
            let word = self.words[id as usize];
            word.len as usize == text.len() && self.arena.get(word.place, text.len()) == text
        });
        if let Some(&id) = found {
            self.words[id as usize].holds += 1;
            return id;
        }
        if self.table.len() >= self.words_max {
            self.overflowed += 1;
            return OTHER;
        }
        let Some(place) = self.arena.store(text) else {
            self.overflowed += 1;
            return OTHER;
        };
        let word = Word {
            place,
            len: text.len() as u32,
            holds: 1,
            names: 0,
        };
        let id = match self.unused.pop() {
            Some(id) => {
                self.words[id as usize] = word;
                id
            }
            None => {
                self.words.push(word);
                (self.words.len() - 1) as u32
            }
        };
        let Self {
            table,
            words,
            arena,
            hasher,
            ..
        } = self;
        table.insert_unique(hash, id, |&id| {
            let word = words[id as usize];
            hasher.hash_bytes(arena.get(word.place, word.len as usize))
        });
        id
    }

    /// The hash that receivers and this store agree on.
    pub(super) fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Writes a word out, so that [`unpack`](Self::unpack) finds or makes it in another store.
    pub(crate) fn pack(&self, id: u32, to: &mut Packer) {
        match id {
            EMPTY => to.number(0),
            OTHER => to.number(1),
            NONE => to.number(2),
            id => {
                let text = self.bytes(id);
                to.number(text.len() as u64 + 2);
                to.raw(text);
            }
        }
    }

    /// Reads a word that was written out, and holds it.
    ///
    /// # Errors
    /// When that cannot be a word.
    pub(crate) fn unpack(&mut self, from: &mut Unpacker<'_>) -> Result<u32, Damage> {
        Ok(match Self::unpack_text(from)? {
            Packed::Fixed(id) => id,
            Packed::Text(text) => self.intern(text),
        })
    }

    /// The same without looking for it yet.
    ///
    /// # Errors
    /// When that cannot be a word.
    pub(super) fn unpack_text<'a>(from: &mut Unpacker<'a>) -> Result<Packed<'a>, Damage> {
        let most = crate::limits::TEXT_BYTES_MAX as u64 + 2;
        Ok(match from.at_most(most, "a text is too long")? {
            0 => Packed::Fixed(EMPTY),
            1 => Packed::Fixed(OTHER),
            2 => Packed::Fixed(NONE),
            longer => {
                let text = from.raw((longer - 2) as usize)?;
                std::str::from_utf8(text).map_err(|_| Damage("a text is not UTF-8"))?;
                Packed::Text(text)
            }
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

    /// Holds a word once more.
    pub fn hold(&mut self, id: u32) {
        if id > OTHER && id != NONE {
            self.words[id as usize].holds += 1;
        }
    }

    /// Lets go of a word; with the last hold it is forgotten.
    pub fn release(&mut self, id: u32) {
        if id <= OTHER || id == NONE {
            return;
        }
        let word = &mut self.words[id as usize];
        word.holds -= 1;
        if word.holds > 0 {
            return;
        }
        let word = *word;
        self.forgotten += 1;
        let hash = self
            .hasher
            .hash_bytes(self.arena.get(word.place, word.len as usize));
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.arena.free(word.place, word.len as usize);
        self.unused.push(id);
    }

    /// A tag set of timers has this name.
    pub(super) fn timer_tag(&mut self, id: u32) {
        let word = &mut self.words[id as usize];
        self.timer_tags += usize::from(word.names == 0);
        word.names += 1;
    }

    /// A tag set of timers that had this name is forgotten.
    pub(super) fn no_timer_tag(&mut self, id: u32) {
        let word = &mut self.words[id as usize];
        word.names -= 1;
        self.timer_tags -= usize::from(word.names == 0);
    }

    /// Whether it is the name of a tag that some timer has.
    #[must_use]
    pub fn is_timer_tag(&self, id: u32) -> bool {
        self.words
            .get(id as usize)
            .is_some_and(|word| word.names > 0)
    }

    /// How many names timer tags have.
    #[must_use]
    pub fn timer_tags(&self) -> usize {
        self.timer_tags
    }

    /// Numbers of words are below this.
    #[must_use]
    pub fn end(&self) -> usize {
        self.words.len()
    }

    /// The bytes of a word; empty for [`EMPTY`] and [`NONE`].
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        match id {
            EMPTY | NONE => b"",
            OTHER => OTHER_TEXT.as_bytes(),
            id => {
                let word = self.words[id as usize];
                self.arena.get(word.place, word.len as usize)
            }
        }
    }

    /// The text of a word. Whatever is interned was made valid UTF-8 by the decoder; should it not be, the valid part.
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
        let mut words = Words::new(1 << 20, Hasher::new());
        let a = words.intern(b"/index.php");
        assert_eq!(words.intern(b"/index.php"), a);
        assert_ne!(words.intern(b"/other.php"), a);
        assert_eq!(words.text(a), "/index.php");
        words.release(a);
        assert_eq!(words.find(b"/index.php"), Some(a));
        words.release(a);
        assert_eq!(words.find(b"/index.php"), None);
        assert_eq!(words.len(), 1);
        assert_eq!(words.intern(b"/third.php"), a, "numbers are used again");
    }

    #[test]
    fn what_is_packed_is_the_same_word_elsewhere() {
        let mut here = Words::new(1 << 20, Hasher::new());
        let text = here.intern(OTHER_TEXT.as_bytes());
        let mut packer = Packer::new();
        for id in [text, EMPTY, OTHER, NONE] {
            here.pack(id, &mut packer);
        }
        let mut there = Words::new(1 << 20, Hasher::new());
        let mut unpacker = Unpacker::new(packer.bytes());
        let found = there.unpack(&mut unpacker).unwrap();
        assert_eq!(there.find(OTHER_TEXT.as_bytes()), Some(found));
        for id in [EMPTY, OTHER, NONE] {
            assert_eq!(there.unpack(&mut unpacker), Ok(id));
        }
        assert!(there.unpack(&mut unpacker).is_err());
        there.release(found);
        assert!(there.is_empty(), "held once");
    }

    #[test]
    fn the_marker_is_not_a_text_that_can_be_sent() {
        let mut words = Words::new(1 << 20, Hasher::new());
        let sent = words.intern(OTHER_TEXT.as_bytes());
        assert_ne!(sent, OTHER);
        assert_eq!(words.text(sent), words.text(OTHER));
    }

    #[test]
    fn words_have_a_budget_and_so_have_their_texts() {
        let taken = |text: &dyn Fn(u32) -> String| {
            let mut words = Words::new(1 << 16, Hasher::new());
            for number in 0..5_000 {
                words.intern(text(number).as_bytes());
            }
            words.len()
        };
        // One for each 64 bytes of the budget, but no fewer than this; longer ones are as many as fit.
        assert_eq!(taken(&|number| format!("{number}")), 1_024);
        let long = taken(&|number| format!("{number:0>500}"));
        assert!((1..=(1 << 16) / 500).contains(&long), "{long}");
    }

    #[test]
    fn past_the_budget_texts_become_other_and_are_counted() {
        let mut words = Words::new(1 << 16, Hasher::new());
        let mut ids = Vec::new();
        for i in 0..5_000 {
            ids.push(words.intern(format!("unique-{i}").as_bytes()));
        }
        assert!(words.overflowed() > 0);
        assert_eq!(
            ids.iter().filter(|&&id| id == OTHER).count() as u64,
            words.overflowed()
        );
        for id in ids {
            words.release(id);
        }
        assert!(words.is_empty());
        assert_ne!(words.intern(b"room again"), OTHER);
    }
}
