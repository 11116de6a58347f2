//! The queue between the reading thread and the one that processes samples, and the splitting into
//! lines.
//!
//! Bounded in bytes ([`QUEUE_BYTES_MAX`]); when it is full the oldest chunk is dropped and counted,
//! so reading PHP's samples never waits.

use std::collections::VecDeque;
use std::mem;

use memchr::memchr;
use parking_lot::Mutex;

use crate::limits::LINE_BYTES_MAX;

/// Most bytes waiting, for the memory plan.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Overhead of a chunk, in bytes.
const CHUNK_BYTES: usize = 64;

/// The result of one read.
#[derive(Debug)]
pub struct Chunk {
    /// The number of the connection, from 1.
    pub connection: u64,
    /// When it was read, in monotonic milliseconds.
    pub received_ms: u64,
    /// Whether data before it was dropped.
    pub after_gap: bool,
    /// Whether the connection brings a dump.
    pub is_dump: bool,
    /// The bytes.
    pub bytes: Box<[u8]>,
}

/// The waiting chunks.
#[derive(Debug, Default)]
pub struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    gap: bool,
}

impl Queue {
    /// Adds a chunk. Returns the bytes and line ends dropped for it.
    pub fn push(&self, chunk: Chunk) -> (u64, u64) {
        let (mut bytes, mut lines) = (0_u64, 0_u64);
        let mut waiting = self.0.lock();
        let room = |chunk: &Chunk| chunk.bytes.len().saturating_add(CHUNK_BYTES);
        waiting.bytes = waiting.bytes.saturating_add(room(&chunk));
        waiting.chunks.push_back(chunk);
        while waiting.bytes > QUEUE_BYTES_MAX {
            let Some(oldest) = waiting.chunks.pop_front() else { break };
            waiting.bytes = waiting.bytes.saturating_sub(room(&oldest));
            waiting.gap = true;
            bytes = bytes.saturating_add(oldest.bytes.len() as u64);
            let ends = memchr::memchr_iter(b'\n', &oldest.bytes).count();
            lines = lines.saturating_add(ends as u64);
        }
        (bytes, lines)
    }

    /// Whether a reader that can wait has to.
    pub fn is_half_full(&self) -> bool {
        self.0.lock().bytes > QUEUE_BYTES_MAX / 2
    }

    /// Takes the oldest chunk.
    pub fn pop(&self) -> Option<Chunk> {
        let mut waiting = self.0.lock();
        let mut chunk = waiting.chunks.pop_front()?;
        let room = chunk.bytes.len().saturating_add(CHUNK_BYTES);
        waiting.bytes = waiting.bytes.saturating_sub(room);
        chunk.after_gap = mem::take(&mut waiting.gap);
        Some(chunk)
    }
}

/// Splits bytes into lines, which end with a newline only; the rest of one that is too long is
/// skipped.
#[derive(Debug, Default)]
pub struct Lines {
    /// An incomplete line.
    begun: Vec<u8>,
    /// Whether to skip to the next newline.
    skips: bool,
}

impl Lines {
    /// Passes the lines that end in these bytes to `take`; with false, the line is longer than
    /// [`LINE_BYTES_MAX`], and this is its start.
    pub fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&[u8], bool)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            if mem::take(&mut self.skips) {
                continue;
            }
            match self.begun.is_empty() {
                true => take(line, line.len() <= LINE_BYTES_MAX),
                false => {
                    self.begun.extend_from_slice(line);
                    take(&self.begun, self.begun.len() <= LINE_BYTES_MAX);
                    self.begun.clear();
                }
            }
        }
        if self.skips {
            return;
        }
        self.begun.extend_from_slice(bytes);
        if self.begun.len() > LINE_BYTES_MAX {
            take(&self.begun, false);
            self.skips = true;
            self.begun = Vec::new();
        }
    }

    /// Discards an incomplete line; returns whether there was one.
    pub fn cut(&mut self) -> bool {
        let began = !self.begun.is_empty();
        self.begun.clear();
        self.skips = false;
        began
    }

    /// Skips to the next newline, because data is missing; returns whether a line was incomplete.
    pub fn resume(&mut self) -> bool {
        let began = self.cut();
        self.skips = true;
        began
    }
}
