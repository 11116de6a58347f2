//! A table of things that are kept once each: found by a hash, known by a number.
//!
//! What the string interner, the request dimensions, the tag sets and the current second of the last hour have in common.
//! Memory for entries is reserved at start, for all that it may ever hold; the index grows with what it holds, so that a few
//! thousand entries are not spread over megabytes of it. The first numbers are those of fixed entries, which are always there and never found by hash; a number
//! that was removed is given again.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;

/// The entries of one kind.
#[derive(Debug)]
pub(crate) struct Table<E> {
    by_hash: HashTable<u32>,
    entries: Vec<E>,
    unused: Vec<u32>,
    entries_max: usize,
}

impl<E> Table<E> {
    /// A table for `entries_max` entries beside the fixed ones.
    pub(crate) fn new<const FIXED: usize>(entries_max: usize, fixed: [E; FIXED]) -> Self {
        let mut entries = Vec::with_capacity(entries_max + FIXED);
        entries.extend(fixed);
        Self {
            by_hash: HashTable::new(),
            entries,
            unused: Vec::with_capacity(entries_max),
            entries_max,
        }
    }

    /// Bytes that such a table takes once it was full.
    pub(crate) const fn bytes_max(entries_max: usize, fixed: usize) -> usize {
        (entries_max + fixed) * (size_of::<E>() + size_of::<u32>()) + index_bytes(entries_max)
    }

    /// The number of the entry with this hash that `is` the one.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(&E) -> bool) -> Option<u32> {
        let found = self
            .by_hash
            .find(hash, |&id| is(&self.entries[id as usize]));
        found.copied()
    }

    /// How many further entries fit.
    pub(crate) fn room(&self) -> usize {
        self.entries_max - self.by_hash.len()
    }

    /// Adds an entry. `hash_of` gives the hash that an entry was added with.
    pub(crate) fn insert(&mut self, hash: u64, entry: E, hash_of: impl Fn(&E) -> u64) -> u32 {
        let id = match self.unused.pop() {
            Some(id) => {
                self.entries[id as usize] = entry;
                id
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let entries = &self.entries;
        self.by_hash
            .insert_unique(hash, id, |&id| hash_of(&entries[id as usize]));
        id
    }

    /// Removes the entry with this hash and number; false if it is not there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) -> bool {
        let Ok(entry) = self.by_hash.find_entry(hash, |&other| other == id) else {
            return false;
        };
        entry.remove();
        self.unused.push(id);
        true
    }

    /// How many there are beside the fixed ones.
    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Numbers are below this.
    pub(crate) fn end(&self) -> usize {
        self.entries.len()
    }
}

impl<E> Index<u32> for Table<E> {
    type Output = E;

    #[inline]
    fn index(&self, id: u32) -> &E {
        &self.entries[id as usize]
    }
}

impl<E> IndexMut<u32> for Table<E> {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut E {
        &mut self.entries[id as usize]
    }
}

/// How many epochs (see `pool::reclaim`) hold an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    epochs: u32,
    /// The youngest that does.
    last_epoch: u32,
}

/// Held by no epoch yet.
impl Default for Holds {
    fn default() -> Self {
        Self {
            epochs: 0,
            last_epoch: u32::MAX,
        }
    }
}

impl Holds {
    /// Whether some epoch holds it.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.epochs > 0
    }

    /// Lets an epoch hold it; true if it did not yet.
    #[inline]
    pub(crate) fn hold(&mut self, epoch: u32) -> bool {
        if self.last_epoch == epoch {
            return false;
        }
        self.last_epoch = epoch;
        self.epochs += 1;
        true
    }

    /// One epoch lets go; true when that was the last.
    pub(crate) fn let_go(&mut self) -> bool {
        self.epochs -= 1;
        self.epochs == 0
    }
}

/// Bytes of an index of `entries` numbers: four for each place and one to know it by. Slots are a power of two of
/// which at most seven eighths are taken, and both copies are there while it grows, or is laid out anew after many entries
/// came and went.
const fn index_bytes(entries: usize) -> usize {
    2 * (entries / 7 * 8 + 8).next_power_of_two() * (size_of::<u32>() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_take_what_is_planned_for_them() {
        for entries in [1024, 100_000, 131_072, 786_432, 1_016_384] {
            let index: HashTable<u32> = HashTable::with_capacity(entries);
            let (taken, planned) = (index.allocation_size(), index_bytes(entries));
            assert!(taken <= planned / 2 + 64, "{entries}: {taken} of {planned}");
            assert!(taken > planned / 4, "{entries}: {taken} of {planned}");
        }
    }
}
