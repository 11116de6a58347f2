//! A table of unique entries, found by hash and referred to by id.
//!
//! Shared by the string interner, the request dimensions, the tag sets and the current second of
//! the last hour. Memory for entries is reserved at start, at full size; the index grows with its
//! content, so that a few thousand entries are not spread over megabytes of it. The first ids
//! belong to fixed entries, which always exist and are never found by hash; ids of removed entries
//! are reused.

use std::ops::{Index, IndexMut};

use hashbrown::HashTable;

/// Entries of one kind.
#[derive(Debug)]
pub(crate) struct Table<E> {
    by_hash: HashTable<u32>,
    entries: Vec<E>,
    unused: Vec<u32>,
    entries_max: usize,
}

impl<E> Table<E> {
    /// A table for `entries_max` entries in addition to the fixed ones.
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

    /// Most bytes of such a table.
    pub(crate) const fn bytes_max(entries_max: usize, fixed: usize) -> usize {
        (entries_max + fixed) * (size_of::<E>() + size_of::<u32>()) + index_bytes(entries_max)
    }

    /// The id of the entry with this hash for which `is` returns true.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(&E) -> bool) -> Option<u32> {
        self.by_hash.find(hash, |&id| is(&self.entries[id as usize])).copied()
    }

    /// How many more entries fit.
    pub(crate) fn room(&self) -> usize {
        self.entries_max - self.by_hash.len()
    }

    /// Adds an entry. `hash_of` returns the hash of an existing entry.
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
        self.by_hash.insert_unique(hash, id, |&id| hash_of(&entries[id as usize]));
        id
    }

    /// Removes the entry with this hash and id; returns false if it does not exist.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) -> bool {
        let Ok(entry) = self.by_hash.find_entry(hash, |&other| other == id) else { return false };
        entry.remove();
        self.unused.push(id);
        true
    }

    /// Number of entries, without the fixed ones.
    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Exclusive upper bound of ids.
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

/// Number of epochs (see `pool::reclaim`) that hold an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    epochs: u32,
    /// The latest epoch that holds it.
    last_epoch: u32,
}

/// Held by no epoch yet.
impl Default for Holds {
    fn default() -> Self {
        Self { epochs: 0, last_epoch: u32::MAX }
    }
}

impl Holds {
    /// Whether any epoch holds it.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.epochs > 0
    }

    /// Lets an epoch hold it; returns whether it is new to the epoch.
    #[inline]
    pub(crate) fn hold(&mut self, epoch: u32) -> bool {
        if self.last_epoch == epoch {
            return false;
        }
        self.last_epoch = epoch;
        self.epochs += 1;
        true
    }

    /// Releases an epoch's hold; returns whether it was the last.
    pub(crate) fn let_go(&mut self) -> bool {
        self.epochs -= 1;
        self.epochs == 0
    }
}

/// Bytes of an index of `entries` ids: four for each slot and one control byte. Slots are a power
/// of two of which at most seven eighths are used, and both copies exist while it grows, or is
/// rebuilt after many entries came and went.
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
