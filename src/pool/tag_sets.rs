//! Interned tag sets: the tags of a timer or of a request in packet order, kept once per distinct sequence.
//!
//! Applications send the same few sets over and over; a raw row holds a number, and reports remember per number which
//! of their keys it means. The receiver has hashed the set, so the merger probes once and compares. A set holds its
//! strings; epochs of the pool hold the set (see `pool::reclaim`). Past the budget a set becomes [`OTHER_SET`], counted.

use super::arena::Arena;
use super::strings::{NONE, StringInterner};
use super::table::{Holds, Table};
use crate::input::record::{Record, TagSet};

/// The set without tags; always there.
pub const EMPTY_SET: u32 = 0;

/// Stands for sets that found no room; reports count it under `(other)`.
pub const OTHER_SET: u32 = 1;

/// Bytes of one pair: two string numbers.
const PAIR_BYTES: usize = 8;

/// The store of tag sets.
#[derive(Debug)]
pub struct TagSets {
    table: Table<Set>,
    arena: Arena,
    scratch: Vec<u8>,
    overflowed: u64,
    compared: Compared,
}

/// Which string of the store each string of a record was found to be: a packet's timers have the same names over and over,
/// and one comparison of texts is enough for each. By the string's number in the record; [`NONE`]: not known.
#[derive(Debug)]
struct Compared([u32; COMPARED_STRINGS]);

/// Strings of a record for which it is remembered: those that come later are compared each time.
const COMPARED_STRINGS: usize = 64;

impl Compared {
    /// Whether string `id` of the store is string `sent` of the record.
    #[inline(always)]
    fn is(&mut self, strings: &StringInterner, id: u32, record: &Record<'_>, sent: u16) -> bool {
        if self.0.get(usize::from(sent)) == Some(&id) {
            return true;
        }
        let is = strings.is(id, record.string(sent));
        if is && let Some(known) = self.0.get_mut(usize::from(sent)) {
            *known = id;
        }
        is
    }
}

#[derive(Debug, Clone, Copy)]
struct Set {
    hash: u64,
    place: u32,
    /// Number of pairs: of eight bytes, in the 64 KiB that an arena stores at most.
    len: u16,
    /// Whether a timer has it, so that its names are names of timer tags.
    of_timers: bool,
    holds: Holds,
}

impl Set {
    #[inline]
    fn pairs(self, arena: &Arena) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        pairs(arena.get(self.place, usize::from(self.len) * PAIR_BYTES))
    }
}

/// Sets that a budget is for.
fn sets_max(budget_bytes: usize) -> usize {
    (budget_bytes / 32).max(1024)
}

impl TagSets {
    /// A store for `budget_bytes` of pairs and one set per 32 bytes of that.
    pub(super) fn new(budget_bytes: usize) -> Self {
        let fixed = Set {
            hash: 0,
            place: 0,
            len: 0,
            of_timers: false,
            holds: Holds::default(),
        };
        Self {
            table: Table::new(sets_max(budget_bytes), [fixed; 2]),
            arena: Arena::new(budget_bytes),
            scratch: Vec::new(),
            overflowed: 0,
            compared: Compared([NONE; COMPARED_STRINGS]),
        }
    }

    /// Bytes of the arena.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// To be called before the first set of a record is [taken in](Self::intern).
    #[inline]
    pub(super) fn begin_record(&mut self) {
        self.compared.0.fill(NONE);
    }

    /// Bytes that a store with this budget takes once it was full.
    pub(super) fn bytes_max(budget_bytes: usize) -> usize {
        Arena::bytes_max(budget_bytes) + Table::<Set>::bytes_max(sets_max(budget_bytes), 2)
    }

    /// The number that [`intern`](Self::intern) will find for this hash, most likely; [`NONE`] of a new one.
    pub(super) fn guess(&self, hash: u64) -> u32 {
        let found = self.table.find(hash, |set| set.hash == hash);
        found.unwrap_or(NONE)
    }

    /// The number of a record's tag set, which may be the one that was [guessed](Self::guess); its strings are interned when
    /// it is new.
    pub(super) fn intern(
        &mut self,
        record: &Record<'_>,
        tags: &TagSet<'_>,
        guess: u32,
        strings: &mut StringInterner,
    ) -> u32 {
        if tags.is_empty() {
            return EMPTY_SET;
        }
        let hash = tags.hash();
        let Self {
            table,
            arena,
            compared,
            ..
        } = self;
        let mut is = |set: &Set| {
            if set.hash != hash || usize::from(set.len) != tags.len() {
                return false;
            }
            for ((name, value), (sent_name, sent_value)) in set.pairs(arena).zip(tags.iter()) {
                let is = compared.is(strings, name, record, sent_name)
                    && compared.is(strings, value, record, sent_value);
                if !is {
                    return false;
                }
            }
            true
        };
        // It may have gone since, or its number have been given to another.
        if guess != NONE && table[guess].holds.is_held() && is(&table[guess]) {
            return guess;
        }
        let found = table.find(hash, is);
        found.unwrap_or_else(|| {
            let tags = tags.iter();
            let tags = tags.map(|(name, value)| (record.string(name), record.string(value)));
            self.insert(hash, tags, strings)
        })
    }

    /// The number of the set with these texts and the [hash](crate::input::record::Hasher::hash_tags) of them.
    pub(super) fn intern_texts(
        &mut self,
        hash: u64,
        tags: &[(&[u8], &[u8])],
        strings: &mut StringInterner,
    ) -> u32 {
        if tags.is_empty() {
            return EMPTY_SET;
        }
        let text = |(name, value)| (strings.bytes(name), strings.bytes(value));
        let found = self.table.find(hash, |set| {
            let kept = set.pairs(&self.arena).map(text);
            set.hash == hash && kept.eq(tags.iter().copied())
        });
        found.unwrap_or_else(|| self.insert(hash, tags.iter().copied(), strings))
    }

    /// Adds a set that there is not yet.
    fn insert<'t>(
        &mut self,
        hash: u64,
        tags: impl ExactSizeIterator<Item = (&'t [u8], &'t [u8])>,
        strings: &mut StringInterner,
    ) -> u32 {
        if self.table.room() == 0 {
            self.overflowed += 1;
            return OTHER_SET;
        }
        let len = tags.len() as u16;
        self.scratch.clear();
        for (name, value) in tags {
            let (name, value) = (strings.intern(name), strings.intern(value));
            self.scratch.extend_from_slice(&name.to_le_bytes());
            self.scratch.extend_from_slice(&value.to_le_bytes());
        }
        let Some(place) = self.arena.store(&self.scratch) else {
            for (name, value) in pairs(&self.scratch) {
                strings.release(name);
                strings.release(value);
            }
            self.overflowed += 1;
            return OTHER_SET;
        };
        let set = Set {
            hash,
            place,
            len,
            of_timers: false,
            holds: Holds::default(),
        };
        self.table.insert(hash, set, |set| set.hash)
    }

    /// The (name, value) strings of a set, in packet order. None for [`OTHER_SET`].
    pub fn pairs(&self, id: u32) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
        let set = self.table[id];
        let bytes = match set.len {
            0 => &[][..],
            len => self.arena.get(set.place, usize::from(len) * PAIR_BYTES),
        };
        pairs(bytes)
    }

    /// Lets an epoch hold a set; true if it did not yet.
    #[inline]
    pub(super) fn hold(&mut self, id: u32, epoch: u32) -> bool {
        id > OTHER_SET && self.table[id].holds.hold(epoch)
    }

    /// The same of a set that a timer has: its names are names of timer tags for as long as it is kept.
    #[inline]
    pub(super) fn hold_for_timer(
        &mut self,
        id: u32,
        epoch: u32,
        strings: &mut StringInterner,
    ) -> bool {
        if id <= OTHER_SET {
            return false;
        }
        let set = &mut self.table[id];
        if !set.of_timers {
            set.of_timers = true;
            for (name, _) in set.pairs(&self.arena) {
                strings.timer_tag(name);
            }
        }
        set.holds.hold(epoch)
    }

    /// Numbers of sets are below this.
    #[must_use]
    pub fn end(&self) -> usize {
        self.table.end()
    }

    /// One epoch lets go; true when that was the last and the set is forgotten.
    pub(super) fn let_go(&mut self, id: u32, strings: &mut StringInterner) -> bool {
        let last = self.table[id].holds.let_go();
        if last {
            let set = self.table[id];
            self.table.remove(set.hash, id);
            for (name, value) in set.pairs(&self.arena) {
                if set.of_timers {
                    strings.no_timer_tag(name);
                }
                strings.release(name);
                strings.release(value);
            }
            self.arena
                .free(set.place, usize::from(set.len) * PAIR_BYTES);
        }
        last
    }

    /// How many sets are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// How many sets became [`OTHER_SET`] for want of room, ever.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

fn pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
    bytes
        .as_chunks::<PAIR_BYTES>()
        .0
        .iter()
        .map(|&[a, b, c, d, e, f, g, h]| {
            (
                u32::from_le_bytes([a, b, c, d]),
                u32::from_le_bytes([e, f, g, h]),
            )
        })
}
