//! Interned tag sets: the tags of a timer or request in packet order, kept once per distinct
//! sequence.
//!
//! Applications send the same few sets over and over; a raw row holds an id, and reports cache
//! their keys by id. The receiver has hashed the set, so the merger probes once and compares. A set
//! holds its strings; epochs of the pool hold the set (see `pool::reclaim`). Past the budget a set
//! becomes [`OTHER_SET`], and is counted.

use super::arena::Arena;
use super::strings::{NONE, OTHER, StringInterner};
use super::table::{Holds, Table};
use crate::input::record::{Record, TagSet};

/// The set without tags, which always exists.
pub const EMPTY_SET: u32 = 0;

/// Stands for sets that found no room; reports count it under `(other)`.
pub const OTHER_SET: u32 = 1;

/// Bytes of one pair: two string ids.
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

/// Caches which interned string each string of a record equals: a packet's timers repeat the same
/// names, and one comparison of texts is enough for each. Indexed by the string's number in the
/// record; [`NONE`] if unknown.
#[derive(Debug)]
struct Compared([u32; COMPARED_STRINGS]);

/// Strings of a record that are cached: later ones are compared each time.
const COMPARED_STRINGS: usize = 64;

impl Compared {
    /// Whether interned string `id` equals string `sent` of the record.
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

/// Number of sets for a budget.
fn sets_max(budget_bytes: usize) -> usize {
    (budget_bytes / 32).max(1024)
}

impl TagSets {
    /// A store for `budget_bytes` of pairs and one set per 32 bytes of that.
    pub(super) fn new(budget_bytes: usize) -> Self {
        let fixed = Set { hash: 0, place: 0, len: 0, of_timers: false, holds: Holds::default() };
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

    /// Call this before the first set of a record is [interned](Self::intern).
    #[inline]
    pub(super) fn begin_record(&mut self) {
        self.compared.0.fill(NONE);
    }

    /// Most bytes of a store with this budget.
    pub(super) fn bytes_max(budget_bytes: usize) -> usize {
        Arena::bytes_max(budget_bytes) + Table::<Set>::bytes_max(sets_max(budget_bytes), 2)
    }

    /// The id that [`intern`](Self::intern) will most likely find for this hash; [`NONE`] for a new
    /// one.
    pub(super) fn guess(&self, hash: u64) -> u32 {
        self.table.find(hash, |set| set.hash == hash).unwrap_or(NONE)
    }

    /// The id of a record's tag set, which may have been [guessed](Self::guess); interns its
    /// strings if new.
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
        let Self { table, arena, compared, .. } = self;
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
        // It may have been removed since, or its id reused.
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

    /// The id of the set with these texts and their
    /// [hash](crate::input::record::Hasher::hash_tags).
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

    /// Adds a new set.
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
        let mut hash = hash;
        if pairs(&self.scratch).any(|(name, value)| name == OTHER || value == OTHER) {
            // Sets that differ in words for which there was no room are one.
            let texts = pairs(&self.scratch).map(|it| (strings.bytes(it.0), strings.bytes(it.1)));
            hash = strings.hasher().hash_tags(texts);
            let is =
                |set: &Set| set.hash == hash && set.pairs(&self.arena).eq(pairs(&self.scratch));
            if let Some(known) = self.table.find(hash, is) {
                release_all(&self.scratch, strings);
                return known;
            }
        }
        let Some(place) = self.arena.store(&self.scratch) else {
            release_all(&self.scratch, strings);
            self.overflowed += 1;
            return OTHER_SET;
        };
        let set = Set { hash, place, len, of_timers: false, holds: Holds::default() };
        self.table.insert(hash, set, |set| set.hash)
    }

    /// The (name, value) strings of a set, in packet order. Empty for [`OTHER_SET`].
    pub fn pairs(&self, id: u32) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
        let set = self.table[id];
        let bytes = match set.len {
            0 => &[][..],
            len => self.arena.get(set.place, usize::from(len) * PAIR_BYTES),
        };
        pairs(bytes)
    }

    /// Lets an epoch hold a set; returns whether it is new to the epoch.
    #[inline]
    pub(super) fn hold(&mut self, id: u32, epoch: u32) -> bool {
        id > OTHER_SET && self.table[id].holds.hold(epoch)
    }

    /// Likewise for a set of a timer: its names are names of timer tags as long as it exists.
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

    /// Exclusive upper bound of ids.
    pub fn end(&self) -> usize {
        self.table.end()
    }

    /// Releases an epoch's hold; returns whether it was the last, so that the set was removed.
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
            self.arena.free(set.place, usize::from(set.len) * PAIR_BYTES);
        }
        last
    }

    /// Number of sets.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.len() == 0
    }

    /// Sets that became [`OTHER_SET`] for lack of room, since start.
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

fn release_all(scratch: &[u8], strings: &mut StringInterner) {
    for (name, value) in pairs(scratch) {
        strings.release(name);
        strings.release(value);
    }
}

fn pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u32, u32)> + Clone + '_ {
    bytes.as_chunks::<PAIR_BYTES>().0.iter().map(|&[a, b, c, d, e, f, g, h]| {
        (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]))
    })
}
