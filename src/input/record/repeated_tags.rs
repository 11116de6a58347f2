//! Tags that repeat: an application sends the same tags of timers, in the same order, with most of
//! its requests.
//!
//! A record [names](super::Record::repeat) tags that are likely to come again. Once the merger has
//! [confirmed](Confirmed::confirm) the name, later records of the same receiver give the name alone
//! ([`leaves_out_tags`](super::Record::leaves_out_tags)). The merger takes the records of a
//! receiver in their order, so it knows every name that is used alone, also when the ring has
//! overwritten some of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The name of the tags of a request and of its timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// A place in the tables of names; each belongs to one receiver.
    pub number: u32,
    /// How often the place has been taken: 1 for the first tags there.
    pub turn: u32,
}

/// For each number the turn that the merger knows. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Confirmed(Arc<[AtomicU32]>);

impl Confirmed {
    /// None is confirmed yet of so many numbers.
    pub fn new(numbers: usize) -> Self {
        Self(std::iter::repeat_with(AtomicU32::default).take(numbers).collect())
    }

    /// How many numbers there are.
    pub fn numbers(&self) -> usize {
        self.0.len()
    }

    /// Says that the merger knows these tags, and not those that had the number before.
    pub fn confirm(&self, repeat: Repeat) {
        if let Some(turn) = self.0.get(repeat.number as usize) {
            turn.store(repeat.turn, Ordering::Relaxed);
        }
    }

    /// Whether the merger knows these tags.
    #[inline]
    pub fn has(&self, repeat: Repeat) -> bool {
        let turn = self.0.get(repeat.number as usize);
        turn.is_some_and(|turn| turn.load(Ordering::Relaxed) == repeat.turn)
    }
}
