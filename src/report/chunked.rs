//! A vector that grows without moving what it holds.
//!
//! Doubling a vector of a million rows needs both copies for a moment; here growth is one chunk, so the memory taken
//! is what is used, and the budget of the reports means what it says.

use std::ops::{Index, IndexMut};

const CHUNK: usize = 1024;

/// Items in chunks of 1,024.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Chunked<T> {
    pub(super) const fn new() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, item: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(item);
            self.len += 1;
        }
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.chunks.last_mut()?.pop()?;
        self.len -= 1;
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.pop();
        }
        Some(item)
    }

    /// Bytes on the heap, without what the items hold.
    pub(super) fn heap_bytes(&self) -> usize {
        self.chunks.len() * CHUNK * size_of::<T>()
    }
}

impl<T> Index<usize> for Chunked<T> {
    type Output = T;

    fn index(&self, at: usize) -> &T {
        &self.chunks[at / CHUNK][at % CHUNK]
    }
}

impl<T> IndexMut<usize> for Chunked<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / CHUNK][at % CHUNK]
    }
}
