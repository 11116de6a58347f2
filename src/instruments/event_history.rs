//! Events shown in tables: the running ones, the last of each thread, and the last of all threads.

use std::sync::LazyLock;

use super::digests::STATEMENT_BYTES;
use super::event::Recorded;
use super::event_rings::{Cell, Ring};
use super::registry::Kind;
use super::thread;

/// Number of last events of each kind over all threads.
const LONG_EVENTS: usize = 1_000;

/// Size of the long histories, bytes.
pub(super) const LONG_BYTES: usize = LONG_EVENTS * 3 * size_of::<Cell>();

/// Maximum size of the long histories with the texts of statements, bytes.
pub(super) const LONG_BYTES_MAX: usize = LONG_BYTES + LONG_EVENTS * STATEMENT_BYTES;

/// Long history of each kind, created with the registry.
pub(super) static LONG: LazyLock<[Ring; 3]> =
    LazyLock::new(|| std::array::from_fn(|_| Ring::new(LONG_EVENTS)));

/// Selection of events in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// The running events, and the last of each thread.
    Current,
    /// The last ten of each thread.
    History,
    /// The last 1,000 of all threads.
    HistoryLong,
}

/// Returns the events of a table.
pub(crate) fn events(kind: Kind, span: Span) -> Vec<Recorded> {
    match span {
        Span::Current => thread::all().flat_map(|thread| thread.current.of(kind)).collect(),
        Span::History => {
            thread::all().flat_map(|thread| thread.history[kind as usize].recent()).collect()
        }
        Span::HistoryLong => LONG[kind as usize].recent().collect(),
    }
}

/// Clears a table, except for running events.
pub(crate) fn truncate(kind: Kind, span: Span) {
    match span {
        Span::Current => thread::all().for_each(|thread| thread.current.clear()),
        Span::History => thread::all().for_each(|thread| thread.history[kind as usize].clear()),
        Span::HistoryLong => LONG[kind as usize].clear(),
    }
}
