//! Combinations of key ids, each stored once with an id: the groups of an aggregate, the rows of
//! a report.
//!
//! Freed ids are reused, lowest first, so that the end becomes free and its memory can be
//! returned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::RandomState;
use hashbrown::HashTable;

use super::chunked::{CHUNK, Chunked};
use super::definition::DEFINITION_KEYS_MAX;
use super::group_key::KeyIds;
use crate::pool::strings::NONE;

/// Combinations of `stride` key ids.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    stride: usize,
    /// `stride` per combination.
    key_ids: Chunked<u32>,
    /// One more than the largest id.
    pub(super) end: u32,
    by_key: HashTable<u32>,
    hasher: RandomState,
    unused: BinaryHeap<Reverse<u32>>,
}

impl KeyTable {
    pub(super) fn new(stride: usize) -> Self {
        Self { stride, ..Self::default() }
    }

    /// Number of combinations that can be found.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Key id `at` of a combination.
    pub(super) fn key_id(&self, id: u32, at: usize) -> u32 {
        self.key_ids[id as usize * self.stride + at]
    }

    /// The key ids of a combination, one after the other.
    pub(super) fn key(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.stride).map(move |at| self.key_id(id, at))
    }

    /// All key ids of a combination.
    pub(super) fn key_ids(&self, id: u32) -> KeyIds {
        let mut key_ids = [NONE; DEFINITION_KEYS_MAX];
        for (at, key_id) in key_ids.iter_mut().take(self.stride).enumerate() {
            *key_id = self.key_id(id, at);
        }
        key_ids
    }

    /// Whether the id is that of this combination.
    pub(super) fn is(&self, id: u32, key_ids: &KeyIds) -> bool {
        (0..self.stride).all(|at| self.key_id(id, at) == key_ids[at])
    }

    /// The id of a combination.
    pub(super) fn find(&self, key_ids: &KeyIds) -> Option<u32> {
        self.by_key.find(self.hash(key_ids), |&id| self.is(id, key_ids)).copied()
    }

    /// Adds a new combination and returns its id.
    pub(super) fn insert(&mut self, key_ids: &KeyIds) -> u32 {
        let id = match self.unused.pop() {
            Some(Reverse(id)) => {
                for (at, &key_id) in key_ids.iter().take(self.stride).enumerate() {
                    self.key_ids[id as usize * self.stride + at] = key_id;
                }
                id
            }
            None => self.push(key_ids),
        };
        // The table is taken out while it grows.
        let mut by_key = std::mem::take(&mut self.by_key);
        by_key.insert_unique(self.hash(key_ids), id, |&id| self.hash(&self.key_ids(id)));
        self.by_key = by_key;
        id
    }

    /// Gives a combination the next id, without making it findable.
    pub(super) fn push(&mut self, key_ids: &KeyIds) -> u32 {
        for &key_id in key_ids.iter().take(self.stride) {
            self.key_ids.push(key_id);
        }
        self.end += 1;
        self.end - 1
    }

    /// Removes a combination, and frees its id.
    pub(super) fn remove(&mut self, id: u32) {
        self.unlink(id);
        self.free(id);
    }

    /// Removes a combination; its id is not reused before it is [freed](Self::free).
    pub(super) fn unlink(&mut self, id: u32) {
        let hash = self.hash(&self.key_ids(id));
        if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }

    /// Frees an id.
    pub(super) fn free(&mut self, id: u32) {
        self.unused.push(Reverse(id));
    }

    /// Frees the memory of ids from `end` on, all of which are free.
    pub(super) fn free_end(&mut self, end: u32) {
        self.end = end;
        self.unused.retain(|unused| unused.0 < end);
        self.unused.shrink_to_fit();
        self.key_ids.truncate(end as usize * self.stride);
        let mut by_key = std::mem::take(&mut self.by_key);
        by_key.shrink_to(by_key.len() * 2, |&id| self.hash(&self.key_ids(id)));
        self.by_key = by_key;
    }

    /// Most bytes for the next combination: none, or part of a chunk, and a table twice as large;
    /// both copies, while it grows.
    pub(super) fn next_bytes(&self) -> usize {
        let table = match self.by_key.len() == self.by_key.capacity() {
            true => self.by_key.capacity().max(8) * 12,
            false => 0,
        };
        match self.unused.is_empty() && self.end.is_multiple_of(CHUNK as u32) {
            true => table + self.stride * 4 * CHUNK,
            false => table,
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.key_ids.heap_bytes() + self.by_key.capacity() * 6 + self.unused.capacity() * 4
    }

    fn hash(&self, key_ids: &KeyIds) -> u64 {
        self.hasher.hash_one(&key_ids[..self.stride])
    }
}
