//! An event: one use of an instrument, and its encoding as machine words.

use std::sync::Arc;

use super::digests::Statement;
use super::registry::Kind;

/// Marks an absent number.
const NONE: u64 = u64::MAX;

/// An event. Times are in units of the instrument's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Number of the thread.
    pub thread: u64,
    /// Number of the event within its thread.
    pub id: u64,
    /// Number of the thread's last event when this one ended.
    pub end_id: Option<u64>,
    /// Index of its instrument's sums.
    pub place: usize,
    /// Kind of its instrument.
    pub kind: Kind,
    /// Start, if the event is timed.
    pub start: Option<u64>,
    /// End, if the event is timed and over.
    pub end: Option<u64>,
    /// Number and kind of the enclosing event.
    pub nesting: Option<(u64, Kind)>,
    /// Bytes of a wait; completed and estimated work of a stage.
    pub numbers: [Option<u64>; 2],
}

/// Number of words that encode an event.
pub(super) const WORDS: usize = 8;

pub(super) fn kind_of(word: u64) -> Kind {
    Kind::ALL[(word & 3) as usize % 3]
}

impl Event {
    pub(super) fn words(&self) -> [u64; WORDS] {
        let or_none = |number: Option<u64>| number.unwrap_or(NONE);
        let nesting = self.nesting.map(|(id, kind)| id << 2 | kind as u64);
        let head = self.thread << 32 | (self.place as u64) << 2 | self.kind as u64;
        let [first, second] = self.numbers;
        let times = [self.start, self.end, nesting, first, second].map(or_none);
        let [start, end, nesting, first, second] = times;
        let end_id = or_none(self.end_id);
        [head, self.id, end_id, start, end, nesting, first, second]
    }

    pub(super) fn of(words: [u64; WORDS]) -> Self {
        let [head, id, end_id, start, end, nesting, first, second] = words;
        let some = |word: u64| (word != NONE).then_some(word);
        Self {
            thread: head >> 32,
            id,
            end_id: some(end_id),
            place: ((head & 0xffff_ffff) >> 2) as usize,
            kind: kind_of(head),
            start: some(start),
            end: some(end),
            nesting: some(nesting).map(|nesting| (nesting >> 2, kind_of(nesting))),
            numbers: [some(first), some(second)],
        }
    }
}

/// An event, with its statement if it is one.
pub type Recorded = (Event, Option<Arc<Statement>>);
