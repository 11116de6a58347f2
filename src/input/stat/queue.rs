//! Between the thread that reads and the one that takes samples: what was read, oldest first, and lines made of it.
//!
//! Bounded in bytes ([`QUEUE_BYTES_MAX`]); when it is full the oldest chunk gives way and is counted, so reading never waits.

use std::collections::VecDeque;
use std::mem;

use memchr::memchr;
use parking_lot::Mutex;

use crate::limits::LINE_BYTES_MAX;

/// Bytes that wait at most, for the memory plan.
pub const QUEUE_BYTES_MAX: usize = 16 << 20;

/// What a chunk is reckoned with beside its bytes.
const CHUNK_BYTES: usize = 64;

/// What was read at once.
#[derive(Debug)]
pub struct Chunk {
    /// The number of the connection, from 1.
    pub connection: u64,
    /// When it was read, monotonic milliseconds.
    pub received_ms: u64,
    /// Whether something between it and the chunk before gave way.
    pub after_gap: bool,
    /// The bytes.
    pub bytes: Box<[u8]>,
}

/// Chunks that wait.
#[derive(Debug, Default)]
pub struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    chunks: VecDeque<Chunk>,
    bytes: usize,
    gap: bool,
}

impl Queue {
    /// Puts a chunk in. Gives the bytes and line ends that gave way to it.
    pub fn push(&self, chunk: Chunk) -> (u64, u64) {
        let (mut bytes, mut lines) = (0_u64, 0_u64);
        let mut waiting = self.0.lock();
        let room = |chunk: &Chunk| chunk.bytes.len().saturating_add(CHUNK_BYTES);
        waiting.bytes = waiting.bytes.saturating_add(room(&chunk));
        waiting.chunks.push_back(chunk);
        while waiting.bytes > QUEUE_BYTES_MAX {
            let Some(oldest) = waiting.chunks.pop_front() else {
                break;
            };
            waiting.bytes = waiting.bytes.saturating_sub(room(&oldest));
            waiting.gap = true;
            bytes = bytes.saturating_add(oldest.bytes.len() as u64);
            let ends = memchr::memchr_iter(b'\n', &oldest.bytes).count();
            lines = lines.saturating_add(ends as u64);
        }
        (bytes, lines)
    }

    /// Takes the oldest one out.
    pub fn pop(&self) -> Option<Chunk> {
        let mut waiting = self.0.lock();
        let mut chunk = waiting.chunks.pop_front()?;
        let room = chunk.bytes.len().saturating_add(CHUNK_BYTES);
        waiting.bytes = waiting.bytes.saturating_sub(room);
        chunk.after_gap = mem::take(&mut waiting.gap);
        Some(chunk)
    }
}

/// Makes lines of bytes. They end with a newline and with nothing else; of one that is too long the rest is passed over.
#[derive(Debug, Default)]
pub struct Lines {
    /// The beginning of a line whose end has not come.
    begun: Vec<u8>,
    /// Whether what comes up to the next newline is passed over.
    skips: bool,
}

impl Lines {
    /// Gives `take` the lines that end in these bytes; false: the line is longer than [`LINE_BYTES_MAX`], and that is its beginning.
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

    /// What was begun does not go on: true if there was something.
    pub fn cut(&mut self) -> bool {
        let began = !self.begun.is_empty();
        self.begun.clear();
        self.skips = false;
        began
    }

    /// The next line begins at the next newline, because something before it is missing: true if a line was begun.
    pub fn resume(&mut self) -> bool {
        let began = self.cut();
        self.skips = true;
        began
    }
}
