//! The events that tables show: those that go on, the last of each thread, and the last over all
//! threads.

use std::sync::LazyLock;

use super::digests::STATEMENT_BYTES;
use super::event::Recorded;
use super::event_rings::{Cell, Ring};
use super::registry::Kind;
use super::thread;

/// Events over all threads, of each kind: the last ones.
const LONG_EVENTS: usize = 1_000;

/// Bytes of the long history.
pub(super) const LONG_BYTES: usize = LONG_EVENTS * 3 * size_of::<Cell>();

/// The same at most, with the texts of statements.
pub(super) const LONG_BYTES_MAX: usize = LONG_BYTES + LONG_EVENTS * STATEMENT_BYTES;

/// The long history of each kind, made with the registry.
pub(super) static LONG: LazyLock<[Ring; 3]> =
    LazyLock::new(|| std::array::from_fn(|_| Ring::new(LONG_EVENTS)));

/// Which events a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Those that go on, and the last of each thread.
    Current,
    /// The last ten of each thread.
    History,
    /// The last 1,000 of all.
    HistoryLong,
}

/// The events that a table shows.
#[must_use]
pub fn events(kind: Kind, span: Span) -> Vec<Recorded> {
    match span {
        Span::Current => thread::all()
            .flat_map(|thread| thread.current.of(kind))
            .collect(),
        Span::History => thread::all()
            .flat_map(|thread| thread.history[kind as usize].recent())
            .collect(),
        Span::HistoryLong => LONG[kind as usize].recent().collect(),
    }
}

/// Shows none of them any more, but those that go on.
pub fn truncate(kind: Kind, span: Span) {
    match span {
        Span::Current => thread::all().for_each(|thread| thread.current.clear()),
        Span::History => thread::all().for_each(|thread| thread.history[kind as usize].clear()),
        Span::HistoryLong => LONG[kind as usize].clear(),
    }
}

/// Takes the memory of the long histories.
pub(super) fn prepare() {
    LazyLock::force(&LONG);
}
