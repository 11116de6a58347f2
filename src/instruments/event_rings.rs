//! Storage of events: the current ones of a thread, and rings of finished ones.
//!
//! Each cell is written as a sequence lock: its number is odd during a write, and a reader that
//! finds a different number afterwards treats the cell as overwritten. Everything is atomic and
//! writers never wait; the long history omits an event if another thread is just writing to its
//! cell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::Mutex;

use super::digests::Statement;
use super::event::{Event, Recorded, WORDS, kind_of};
use super::registry::Kind;

/// Storage of one event.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// Twice the event's number in its ring, plus two; one less during a write; 0 if empty.
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
    statement: Mutex<Option<Arc<Statement>>>,
}

impl Cell {
    /// Writes the event with this number, unless another thread is writing to the cell.
    fn write(&self, number: u64, words: &[u64; WORDS], statement: Option<&Arc<Statement>>) {
        let before = self.sequence.load(Ordering::Relaxed);
        let writing = number * 2 + 1;
        let is_free = before.is_multiple_of(2);
        let claimed = is_free
            && self
                .sequence
                .compare_exchange(before, writing, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !claimed {
            return;
        }
        // A reader that sees a word of this event sees the odd number too.
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        if kind_of(words[0]) == Kind::Statements {
            *self.statement.lock() = statement.cloned();
        }
        self.sequence.store(writing + 1, Ordering::Release);
    }

    /// Returns the event with its number; `None` if the cell is empty or being overwritten.
    fn read(&self) -> Option<(u64, Recorded)> {
        let before = self.sequence.load(Ordering::Acquire);
        if before == 0 || !before.is_multiple_of(2) {
            return None;
        }
        let words = std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
        let event = Event::of(words);
        let is_statement = event.kind == Kind::Statements;
        let statement = is_statement.then(|| self.statement.lock().clone()).flatten();
        fence(Ordering::Acquire);
        let is_whole = self.sequence.load(Ordering::Relaxed) == before;
        is_whole.then_some((before / 2 - 1, (event, statement)))
    }
}

/// The last events of a kind.
#[derive(Debug)]
pub(super) struct Ring {
    cells: Box<[Cell]>,
    next: AtomicU64,
    /// Number of the first event that is still shown.
    cleared: AtomicU64,
}

impl Ring {
    pub(super) fn new(events: usize) -> Self {
        Self {
            cells: (0..events).map(|_| Cell::default()).collect(),
            next: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
        }
    }

    pub(super) fn push(&self, words: &[u64; WORDS], statement: Option<&Arc<Statement>>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.cells[(number % self.cells.len() as u64) as usize].write(number, words, statement);
    }

    /// Returns the events, oldest first.
    pub(super) fn recent(&self) -> impl Iterator<Item = Recorded> {
        let next = self.next.load(Ordering::Acquire);
        let kept = next.saturating_sub(self.cells.len() as u64);
        let first = kept.max(self.cleared.load(Ordering::Relaxed));
        (first..next).filter_map(|number| {
            let cell = &self.cells[(number % self.cells.len() as u64) as usize];
            let (found, recorded) = cell.read()?;
            (found == number).then_some(recorded)
        })
    }

    pub(super) fn clear(&self) {
        let next = self.next.load(Ordering::Relaxed);
        self.cleared.store(next, Ordering::Relaxed);
    }
}

/// Running events of a thread, by depth, and those that ended there last.
#[derive(Debug, Default)]
pub(super) struct Current {
    cells: [Cell; DEPTH_MAX],
    written: AtomicU64,
    cleared: AtomicU64,
}

/// Maximum depth of nested events that are shown; deeper ones only count in the sums.
pub(super) const DEPTH_MAX: usize = 6;

impl Current {
    /// Writes an event. Only for the thread that owns these events.
    pub(super) fn write(
        &self,
        depth: usize,
        words: &[u64; WORDS],
        statement: Option<&Arc<Statement>>,
    ) {
        let number = self.written.load(Ordering::Relaxed);
        self.written.store(number + 1, Ordering::Relaxed);
        self.cells[depth].write(number, words, statement);
    }

    /// Returns the running events of a kind, or else the one that ended last.
    pub(super) fn of(&self, kind: Kind) -> Vec<Recorded> {
        let cleared = self.cleared.load(Ordering::Relaxed);
        let read = self.cells.iter().filter_map(Cell::read);
        let (over, mut going): (Vec<_>, Vec<_>) = read
            .filter(|(_, (event, _))| event.kind == kind)
            .partition(|(_, (event, _))| event.end_id.is_some());
        if going.is_empty() {
            let over = over.into_iter().filter(|(number, _)| *number >= cleared);
            going.extend(over.max_by_key(|(_, (event, _))| event.id));
        }
        going.into_iter().map(|(_, recorded)| recorded).collect()
    }

    pub(super) fn clear(&self) {
        let written = self.written.load(Ordering::Relaxed);
        self.cleared.store(written, Ordering::Relaxed);
    }
}
