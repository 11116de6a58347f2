//! Samples of PHP's `stat` extension: from its socket to bytes, and from lines to their content.
//!
//! PHP is the server. Each `[[stat]]` entry is a [`Source`] with a thread ([`client`]) that
//! connects to it and only reads, because PHP blocks otherwise: the data goes into a [`Queue`],
//! which drops the oldest when the profile cannot keep up. [`mod@line`] parses a line. Samples are
//! processed by [`profile`](crate::profile).

pub mod client;
mod counters;
pub mod line;
mod queue;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use self::counters::StatCounters;
use self::line::BadLine;
pub use self::queue::{Chunk, Lines, QUEUE_BYTES_MAX, Queue};
use super::record::Example;
use crate::config::StatSource;

/// A source of samples: an entry and its state.
#[derive(Debug)]
pub struct Source {
    /// The entry.
    pub config: StatSource,
    /// Its counters.
    pub counters: StatCounters,
    /// Data read but not yet processed.
    pub queue: Queue,
    /// Why there is no connection, if so.
    pub problem: Mutex<Option<String>>,
    /// Whether that is because nothing has made its Unix socket, as before PHP starts.
    pub absent: AtomicBool,
    /// The last rejected line.
    pub example: Mutex<Option<Example>>,
}

impl Source {
    /// A source without data.
    pub fn new(config: StatSource) -> Arc<Self> {
        Arc::new(Self {
            config,
            counters: StatCounters::default(),
            queue: Queue::default(),
            problem: Mutex::new(Some("not connected yet".to_owned())),
            absent: AtomicBool::new(false),
            example: Mutex::default(),
        })
    }

    /// Counts a rejected line.
    pub fn reject(&self, reason: BadLine, line: &[u8]) {
        self.counters.lines_invalid.add_one(reason as usize);
        *self.example.lock() = Some(Example::of(reason.name(), line));
    }
}

#[cfg(test)]
pub(crate) mod tests;
