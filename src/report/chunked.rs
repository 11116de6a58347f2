//! A vector that grows without moving its items.
//!
//! Doubling a vector of a million rows needs both copies for a moment; here growth is one chunk, so
//! memory used is memory needed, and the budget of the reports is accurate.

use std::ops::{Index, IndexMut};

/// Items allocated at once.
pub(super) const CHUNK: usize = 256;

/// Items in chunks of [`CHUNK`]. Chunks are arrays of a length known to the compiler, so that
/// access is two reads.
#[derive(Debug, Default)]
pub(super) struct Chunked<T> {
    chunks: Vec<Box<[T; CHUNK]>>,
    len: usize,
}

impl<T: Default> Chunked<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, item: T) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(Box::new(std::array::from_fn(|_| T::default())));
        }
        let at = self.len;
        self.len += 1;
        self[at] = item;
    }

    /// Removes all items from this length on.
    pub(super) fn truncate(&mut self, len: usize) {
        let len = len.min(self.len);
        let chunks = len.div_ceil(CHUNK);
        self.chunks.truncate(chunks);
        for at in len..self.len.min(chunks * CHUNK) {
            self[at] = T::default();
        }
        self.len = len;
    }

    /// Bytes by which the next item makes it grow.
    pub(super) fn next_bytes(&self) -> usize {
        if self.len.is_multiple_of(CHUNK) { CHUNK * size_of::<T>() } else { 0 }
    }

    /// Bytes on the heap, without those of the items.
    pub(super) fn heap_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>()
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}
