//! Storage for many small byte strings under one fixed budget.
//!
//! Texts and tag sets keep their bytes here. The budget is divided into chunks of 64 KiB; a chunk
//! serves one size class at a time and returns to the common heap of chunks when its last slot is
//! freed, so no mix of sizes, however hostile, makes the arena larger than its budget. When nothing
//! is left, [`Arena::store`] returns `None` and the caller counts it. Only the merger thread
//! writes; readers use the lock that covers the whole pool.
//!
//! ```text
//! chunk of class 48:  | slot | slot | free -> 7 | slot | ... never used yet ...
//!                                                        ^ fresh
//! ```
//! A free slot's first two bytes hold the number of the next free slot of the chunk.

/// Bytes in a chunk. Longer strings cannot be stored.
const CHUNK_BYTES: usize = 65_536;

/// Positions are counted in units of 16 bytes, so that 32 bits reach 64 GiB.
const UNIT: usize = 16;
const UNITS_PER_CHUNK: usize = CHUNK_BYTES / UNIT;

/// Slot sizes: steps of a half up to 1 KiB (at most a third is wasted), doubling after that.
const CLASSES: [usize; 18] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16_384, 32_768,
    65_536,
];

const NO_SLOT: u16 = u16::MAX;

/// Fixed-budget storage for byte strings of up to 64 KiB.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    /// Chunks without a class.
    idle: Vec<u32>,
    /// Per class: chunks with a free slot.
    partial: [Vec<u32>; CLASSES.len()],
    chunks_max: usize,
}

#[derive(Debug)]
struct Chunk {
    bytes: Box<[u8]>,
    class: u8,
    /// Slots in use.
    used: u16,
    /// First slot of the free list.
    free: u16,
    /// First slot never used since the chunk got its class.
    fresh: u16,
}

fn class_of(len: usize) -> Option<usize> {
    let class = CLASSES.partition_point(|&size| size < len);
    (class < CLASSES.len()).then_some(class)
}

const fn chunks_max(budget_bytes: usize) -> usize {
    let chunks = budget_bytes / CHUNK_BYTES;
    if chunks == 0 { 1 } else { chunks }
}

impl Arena {
    /// An arena of at most `budget_bytes` (at least one chunk). Chunks are allocated on first use.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            chunks: Vec::new(),
            idle: Vec::new(),
            partial: Default::default(),
            chunks_max: chunks_max(budget_bytes),
        }
    }

    /// Most bytes of an arena with this budget: its chunks and their metadata.
    pub(super) const fn bytes_max(budget_bytes: usize) -> usize {
        chunks_max(budget_bytes) * (CHUNK_BYTES + size_of::<Chunk>())
    }

    /// Stores a copy of `bytes` and returns its position; `None` if the budget is used up or
    /// `bytes` is too long.
    pub(crate) fn store(&mut self, bytes: &[u8]) -> Option<u32> {
        let class = class_of(bytes.len())?;
        let index = match self.partial[class].last() {
            Some(&index) => index,
            None => self.dedicate(class)?,
        };
        let chunk = &mut self.chunks[index as usize];
        let size = CLASSES[class];
        let slot = if chunk.free == NO_SLOT {
            chunk.fresh += 1;
            chunk.fresh - 1
        } else {
            let slot = chunk.free;
            let at = usize::from(slot) * size;
            chunk.free = u16::from_le_bytes([chunk.bytes[at], chunk.bytes[at + 1]]);
            slot
        };
        chunk.used += 1;
        let at = usize::from(slot) * size;
        chunk.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if chunk.free == NO_SLOT && usize::from(chunk.fresh) == CHUNK_BYTES / size {
            self.partial[class].pop();
        }
        Some(index * UNITS_PER_CHUNK as u32 + (at / UNIT) as u32)
    }

    /// The `len` bytes stored at `place`.
    #[inline]
    pub(crate) fn get(&self, place: u32, len: usize) -> &[u8] {
        let at = (place as usize % UNITS_PER_CHUNK) * UNIT;
        &self.chunks[place as usize / UNITS_PER_CHUNK].bytes[at..at + len]
    }

    /// Frees what [`Arena::store`] allocated for `len` bytes at `place`.
    pub(crate) fn free(&mut self, place: u32, len: usize) {
        let index = place / UNITS_PER_CHUNK as u32;
        let at = (place as usize % UNITS_PER_CHUNK) * UNIT;
        let chunk = &mut self.chunks[index as usize];
        let class = usize::from(chunk.class);
        debug_assert_eq!(Some(class), class_of(len), "freed with another length than stored");
        let size = CLASSES[class];
        let was_full = chunk.free == NO_SLOT && usize::from(chunk.fresh) == CHUNK_BYTES / size;
        chunk.bytes[at..at + 2].copy_from_slice(&chunk.free.to_le_bytes());
        chunk.free = (at / size) as u16;
        chunk.used -= 1;
        if chunk.used == 0 {
            if !was_full {
                self.partial[class].retain(|&other| other != index);
            }
            self.idle.push(index);
        } else if was_full {
            self.partial[class].push(index);
        }
    }

    /// Bytes allocated from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.chunks.len() * CHUNK_BYTES
    }

    /// Assigns a chunk to `class`.
    fn dedicate(&mut self, class: usize) -> Option<u32> {
        let index = match self.idle.pop() {
            Some(index) => index,
            None if self.chunks.len() < self.chunks_max => {
                self.chunks.push(Chunk {
                    bytes: vec![0; CHUNK_BYTES].into_boxed_slice(),
                    class: 0,
                    used: 0,
                    free: NO_SLOT,
                    fresh: 0,
                });
                (self.chunks.len() - 1) as u32
            }
            None => return None,
        };
        let chunk = &mut self.chunks[index as usize];
        chunk.class = class as u8;
        chunk.free = NO_SLOT;
        chunk.fresh = 0;
        self.partial[class].push(index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random stores and frees keep every live string intact, within the budget.
    #[test]
    fn keeps_what_it_was_given() {
        let mut arena = Arena::new(1 << 20);
        let mut live: Vec<(u32, Vec<u8>)> = Vec::new();
        let mut seed = 7u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize
        };
        let mut refused = 0;
        for round in 0..50_000 {
            if live.len() > 4_000 || next() % 5 < 2 && !live.is_empty() {
                let (place, bytes) = live.swap_remove(next() % live.len());
                assert_eq!(arena.get(place, bytes.len()), bytes);
                arena.free(place, bytes.len());
            } else {
                let len = if next() % 50 == 0 { next() % 9_000 } else { next() % 300 };
                let bytes: Vec<u8> = (0..len).map(|i| (i + round) as u8).collect();
                match arena.store(&bytes) {
                    Some(place) => live.push((place, bytes)),
                    None => refused += 1,
                }
            }
            assert!(arena.bytes() <= 1 << 20);
        }
        assert!(refused > 0, "the test never reached the budget");
        for (place, bytes) in live.drain(..) {
            assert_eq!(arena.get(place, bytes.len()), bytes);
            arena.free(place, bytes.len());
        }
        assert_eq!(arena.idle.len(), arena.chunks.len(), "every chunk comes back");
    }

    #[test]
    fn refuses_what_no_class_holds() {
        let mut arena = Arena::new(1 << 20);
        assert!(arena.store(&vec![1; CHUNK_BYTES]).is_some());
        assert_eq!(arena.store(&vec![1; CHUNK_BYTES + 1]), None);
    }
}
