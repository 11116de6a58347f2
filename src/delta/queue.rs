//! Seconds on their way from the merger to the reader. If the reader falls behind, the gains of the
//! oldest are dropped, and their requests counted.

use std::collections::VecDeque;

use super::Second;
use crate::input::squid::sums::Moves;
use crate::report::SecondPart;

/// Seconds that wait for the reader.
#[derive(Debug, Default)]
pub(super) struct Queue {
    seconds: VecDeque<Second>,
    /// Number of the oldest ones that are dropped: only their directory changes are kept.
    dropped: usize,
    bytes: usize,
    bytes_max: usize,
    /// Requests of dropped seconds.
    missed: u64,
    /// Objects that moved in these: the next second that is read has them.
    moves: Moves,
}

impl Queue {
    /// Keeps up to `bytes_max` bytes of them.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Adds one; gains of the oldest are dropped for it, if there is no room. Returns false if there
    /// are so many directory changes that even those are dropped.
    pub(super) fn push(&mut self, second: Second) -> bool {
        let newest = second.bytes();
        self.bytes += newest;
        self.seconds.push_back(second);
        while self.bytes > self.bytes_max && self.dropped + 1 < self.seconds.len() {
            let second = &mut self.seconds[self.dropped];
            self.bytes -= second.bytes();
            second.parts.iter_mut().for_each(SecondPart::drop_gains);
            self.moves.absorb(&mut second.moves);
            self.bytes += second.bytes();
            self.missed += second.requests;
            self.dropped += 1;
        }
        let is_known = self.bytes - newest <= self.bytes_max;
        if !is_known {
            for mut lost in self.seconds.drain(..).skip(self.dropped) {
                self.moves.absorb(&mut lost.moves);
                self.missed += lost.requests;
            }
            (self.dropped, self.bytes) = (0, 0);
        }
        is_known
    }

    /// The oldest second, and the requests of those before it that were dropped; `None` if it is
    /// one of them.
    pub(super) fn pop(&mut self) -> Option<(Second, Option<u64>)> {
        let mut second = self.seconds.pop_front()?;
        self.bytes -= second.bytes();
        let is_dropped = self.dropped > 0;
        self.dropped -= usize::from(is_dropped);
        if !is_dropped {
            second.moves.absorb(&mut self.moves);
        }
        let missed = (!is_dropped).then(|| std::mem::take(&mut self.missed));
        Some((second, missed))
    }
}
