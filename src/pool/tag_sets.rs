//! Interned tag sets: the tags of a timer or of a request in packet order, kept once per distinct sequence.
//!
//! Applications send the same few sets over and over; a raw row holds a number, and reports remember per number which
//! of their keys it means. The receiver has hashed the set, so the merger probes once and compares. A set holds its
//! strings; epochs of the pool hold the set (see `pool::reclaim`). Past the budget a set becomes [`OTHER_SET`], counted.

use hashbrown::HashTable;

use super::arena::Arena;
use super::strings::{NONE, OTHER, StringInterner};
use super::table_bytes;
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
    table: HashTable<u32>,
    sets: Vec<Set>,
    unused: Vec<u32>,
    arena: Arena,
    sets_max: usize,
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
        let is = strings.bytes(id) == record.string(sent);
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
    epochs: u32,
    last_epoch: u32,
}

const FIXED: Set = Set {
    hash: 0,
    place: 0,
    len: 0,
    of_timers: false,
    epochs: 1,
    last_epoch: 0,
};

/// Sets that a budget is for.
const fn sets_max(budget_bytes: usize) -> usize {
    let sets = budget_bytes / 32;
    if sets < 1024 { 1024 } else { sets }
}

impl TagSets {
    /// A store for `budget_bytes` of pairs and one set per 32 bytes of that.
    pub(super) fn new(budget_bytes: usize) -> Self {
        let sets_max = sets_max(budget_bytes);
        let mut sets = Vec::with_capacity(sets_max + 2);
        sets.extend([FIXED, FIXED]);
        Self {
            table: HashTable::with_capacity(sets_max),
            sets,
            unused: Vec::with_capacity(sets_max),
            arena: Arena::new(budget_bytes),
            sets_max,
            scratch: Vec::new(),
            overflowed: 0,
            compared: Compared([NONE; COMPARED_STRINGS]),
        }
    }

    /// To be called before the first set of a record is [taken in](Self::intern).
    #[inline]
    pub(super) fn begin_record(&mut self) {
        self.compared.0.fill(NONE);
    }

    /// Bytes that a store with this budget takes once it was full.
    pub(super) const fn bytes_max(budget_bytes: usize) -> usize {
        let sets_max = sets_max(budget_bytes);
        Arena::bytes_max(budget_bytes)
            + (sets_max + 2) * (size_of::<Set>() + size_of::<u32>())
            + table_bytes(sets_max)
    }

    /// Reads what [`intern`](Self::intern) will read for this hash.
    pub(super) fn peek(&self, hash: u64) -> u32 {
        let found = self
            .table
            .find(hash, |&id| self.sets[id as usize].hash == hash);
        found.copied().unwrap_or_default()
    }

    /// The number of a record's tag set; its strings are interned when it is new.
    pub(super) fn intern(
        &mut self,
        record: &Record<'_>,
        tags: &TagSet<'_>,
        strings: &mut StringInterner,
    ) -> u32 {
        if tags.is_empty() {
            return EMPTY_SET;
        }
        let hash = tags.hash();
        let Self {
            table,
            sets,
            arena,
            compared,
            ..
        } = self;
        let found = table.find(hash, |&id| {
            let set = &sets[id as usize];
            set.hash == hash
                && set.len as usize == tags.len()
                && pairs(arena.get(set.place, set.len as usize * PAIR_BYTES))
                    .zip(tags.iter())
                    .all(|((name, value), (sent_name, sent_value))| {
                        compared.is(strings, name, record, sent_name)
                            && compared.is(strings, value, record, sent_value)
                    })
        });
        if let Some(&id) = found {
            return id;
        }
        if self.table.len() >= self.sets_max {
            self.overflowed += 1;
            return OTHER_SET;
        }
        self.scratch.clear();
        for (name, value) in tags.iter() {
            let name = strings.intern(record.string(name));
            let value = strings.intern(record.string(value));
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
        self.insert(Set {
            hash,
            place,
            len: tags.len() as u16,
            of_timers: false,
            epochs: 0,
            last_epoch: u32::MAX,
        })
    }

    /// The number of the set with these strings, which the caller goes on holding for itself.
    pub(super) fn intern_pairs(
        &mut self,
        tags: &[(u32, u32)],
        strings: &mut StringInterner,
    ) -> u32 {
        if tags.is_empty() {
            return EMPTY_SET;
        }
        let texts = tags
            .iter()
            .map(|&(name, value)| (strings.bytes(name), strings.bytes(value)));
        let sent = strings.hasher().hash_tags(texts);
        // What a text was that became `(other)` is not known any more: no record may find this set by its texts.
        let other = tags
            .iter()
            .any(|&(name, value)| name == OTHER || value == OTHER);
        let hash = if other { !sent } else { sent };
        let found = self.table.find(hash, |&id| {
            self.sets[id as usize].hash == hash && self.pairs(id).eq(tags.iter().copied())
        });
        if let Some(&id) = found {
            return id;
        }
        if self.table.len() >= self.sets_max {
            self.overflowed += 1;
            return OTHER_SET;
        }
        self.scratch.clear();
        for &(name, value) in tags {
            self.scratch.extend_from_slice(&name.to_le_bytes());
            self.scratch.extend_from_slice(&value.to_le_bytes());
        }
        let Some(place) = self.arena.store(&self.scratch) else {
            self.overflowed += 1;
            return OTHER_SET;
        };
        for &(name, value) in tags {
            strings.hold(name);
            strings.hold(value);
        }
        self.insert(Set {
            hash,
            place,
            len: tags.len() as u16,
            of_timers: false,
            epochs: 0,
            last_epoch: u32::MAX,
        })
    }

    fn insert(&mut self, set: Set) -> u32 {
        let id = match self.unused.pop() {
            Some(id) => {
                self.sets[id as usize] = set;
                id
            }
            None => {
                self.sets.push(set);
                (self.sets.len() - 1) as u32
            }
        };
        let sets = &self.sets;
        self.table
            .insert_unique(set.hash, id, |&id| sets[id as usize].hash);
        id
    }

    /// The keyed hash of a set's texts: the same for as long as the daemon lives, whatever its number.
    #[must_use]
    pub fn hash(&self, id: u32) -> u64 {
        match id {
            // Neither has a hash of its own, and both always have these numbers.
            EMPTY_SET | OTHER_SET => u64::from(id),
            id => self.sets[id as usize].hash,
        }
    }

    /// The (name, value) strings of a set, in packet order. None for [`OTHER_SET`].
    pub fn pairs(&self, id: u32) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        let set = &self.sets[id as usize];
        let bytes = match set.len {
            0 => &[][..],
            len => self.arena.get(set.place, len as usize * PAIR_BYTES),
        };
        pairs(bytes)
    }

    /// Marks a set as used in `epoch`; true when the epoch holds it from now on.
    pub(super) fn use_in(&mut self, id: u32, epoch: u32) -> bool {
        let set = &mut self.sets[id as usize];
        if id <= OTHER_SET || set.last_epoch == epoch {
            return false;
        }
        set.last_epoch = epoch;
        set.epochs += 1;
        true
    }

    /// A timer has this set: its names are names of timer tags for as long as the set is kept.
    pub(super) fn used_by_timer(&mut self, id: u32, strings: &mut StringInterner) {
        let set = &mut self.sets[id as usize];
        if set.of_timers || set.len == 0 {
            return;
        }
        set.of_timers = true;
        for (name, _) in pairs(self.arena.get(set.place, usize::from(set.len) * PAIR_BYTES)) {
            strings.timer_tag(name);
        }
    }

    /// Numbers of sets are below this.
    #[must_use]
    pub fn end(&self) -> usize {
        self.sets.len()
    }

    /// One epoch lets go; true when that was the last and the set is forgotten.
    pub(super) fn let_go(&mut self, id: u32, strings: &mut StringInterner) -> bool {
        let set = &mut self.sets[id as usize];
        set.epochs -= 1;
        if set.epochs > 0 {
            return false;
        }
        let set = *set;
        if let Ok(entry) = self.table.find_entry(set.hash, |&other| other == id) {
            entry.remove();
        }
        let len = set.len as usize * PAIR_BYTES;
        for (name, value) in pairs(self.arena.get(set.place, len)) {
            if set.of_timers {
                strings.no_timer_tag(name);
            }
            strings.release(name);
            strings.release(value);
        }
        self.arena.free(set.place, len);
        self.unused.push(id);
        true
    }

    /// How many sets are kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many sets became [`OTHER_SET`] for want of room, ever.
    #[must_use]
    pub fn overflowed(&self) -> u64 {
        self.overflowed
    }
}

fn pairs(bytes: &[u8]) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
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
