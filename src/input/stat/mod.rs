//! Samples of PHP's `stat` extension: from its socket to bytes, and from lines to what they say.
//!
//! PHP is the server. Each `[[stat]]` entry is a [`Source`] with a thread ([`client`]) that connects to it and does nothing but
//! read, because PHP waits for who does not: what it reads goes into a [`Queue`], where the oldest gives way when the profile
//! cannot follow. [`mod@line`] reads a line. What becomes of samples is the affair of [`profile`](crate::profile).

pub mod client;
mod counters;
pub mod line;
mod queue;

use std::sync::Arc;

use parking_lot::Mutex;

use self::counters::StatCounters;
use self::line::BadLine;
pub use self::queue::{Chunk, Lines, QUEUE_BYTES_MAX, Queue};
use super::record::Example;
use crate::config::StatSource;

/// Where samples come from: an entry, and what became of it.
#[derive(Debug)]
pub struct Source {
    /// The entry.
    pub config: StatSource,
    /// What was counted.
    pub counters: StatCounters,
    /// What was read and not yet taken.
    pub queue: Queue,
    /// Why there is no connection, if there is none.
    pub problem: Mutex<Option<String>>,
    /// The last line that was not taken.
    pub example: Mutex<Option<Example>>,
}

impl Source {
    /// Nothing has come yet.
    #[must_use]
    pub fn new(config: StatSource) -> Arc<Self> {
        Arc::new(Self {
            config,
            counters: StatCounters::default(),
            queue: Queue::default(),
            problem: Mutex::new(Some("not connected yet".to_owned())),
            example: Mutex::default(),
        })
    }

    /// Counts a line that is not taken.
    pub fn reject(&self, reason: BadLine, line: &[u8]) {
        self.counters.lines_invalid.add_one(reason as usize);
        *self.example.lock() = Some(Example::of(reason.name(), line));
    }
}

#[cfg(test)]
pub(crate) mod tests;
