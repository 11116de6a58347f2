//! The past of an objective: read from history when a daemon starts, and after a reload that adds
//! the objective.
//!
//! Read by the thread `alerts` step by step, between evaluations.

use std::ops::Range;
use std::sync::Arc;

use super::objective::{Budget, Count, Objective};

/// Source of an objective's past.
pub trait Past: Send + Sync {
    /// Returns everything counted up to this call, `None` while that cannot be read, or
    /// `Some(None)` if no past is kept.
    fn of(&self, objective: &Arc<Objective>) -> Option<Option<Counts>>;
}

/// Returns the count over a span of whole minutes, unix seconds, and the end of what was counted.
/// Where only longer steps are kept, that end is later, and a first step that begins before the
/// span is left out.
pub type Counts = Box<dyn Fn(&Range<u64>) -> (Count, u64) + Send>;

/// An objective's past, being read.
pub(super) struct Refill {
    /// Has the part read so far.
    pub(super) budget: Budget,
    pub(super) counts: Counts,
    /// Beginning of the next span to read, unix seconds.
    pub(super) at: u64,
    /// Unix second at which reading began.
    pub(super) now: u64,
}

impl Refill {
    /// Reads a span; its length grows with age as the steps of windows do, and where a window
    /// begins, so does a span.
    pub(super) fn step(&mut self) {
        let (at, minute) = (self.at, self.now - self.now % 60);
        let (step, window) = match minute.saturating_sub(at) {
            ..=3_600 => (60, 0),
            3_601..=21_600 => (300, 3_600),
            21_601..=259_200 => (3_600, 21_600),
            _ => (21_600, 259_200),
        };
        // Of the running minute, history has only the part before now.
        let end = if at < minute { (at - at % step + step).min(minute - window) } else { at + 60 };
        let (count, end) = (self.counts)(&(at..end));
        self.budget.total += &count;
        (at..end.min(self.now)).for_each(|second| self.budget.pass(second + 1));
        self.at = end;
    }
}
