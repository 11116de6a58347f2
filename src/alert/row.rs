//! The gain of a row over a window: frames of one step each.
//!
//! Kept by [`windows`](super::windows), judged by rules.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::report::encoded_gain::{EncodedGain, Sum};
use crate::report::histogram::Histogram;
use crate::report::totals::{Extremes, Totals};

/// The rules that select a row; rows that the same ones select share it.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RuleSet {
    /// Their numbers.
    pub(super) numbers: Box<[usize]>,
    /// Fewest requests with which one of them can judge the row.
    pub(super) min_requests: u64,
}

impl RuleSet {
    /// Size in memory, including its place in a hash table, bytes.
    pub(super) fn bytes(&self) -> usize {
        2 * size_of::<Self>() + size_of_val(&*self.numbers)
    }
}

/// Gain of a row in a step.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    pub(super) step: u64,
    pub(super) packed: Box<[u8]>,
    pub(super) extremes: Extremes,
}

impl Frame {
    pub(super) fn totals(&self) -> Totals {
        EncodedGain(&self.packed).read().0
    }

    /// Adds the gain of another second of the step.
    pub(super) fn add(&mut self, packed: &[u8], extremes: &Extremes) {
        let (mut all, mut bytes) = (sum([&*self]), Vec::new());
        all.add(EncodedGain(packed));
        all.encode(&mut bytes, true);
        self.packed = bytes.into();
        self.extremes.widen(extremes);
    }

    /// Size in memory, including the allocator's overhead and the id of its row in a list, bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + 24 + self.packed.len()
    }
}

/// Adds up frames.
fn sum<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Sum {
    let mut sum = Sum::default();
    frames.into_iter().for_each(|it| sum.add(EncodedGain(&it.packed)));
    sum
}

/// A row in a window.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) key: Box<[u8]>,
    /// Rules that select the row, as indexes into those of its windows.
    pub(super) rules: Arc<RuleSet>,
    /// Those of the window's steps in which it gained something, and of the running one.
    pub(super) frames: VecDeque<Frame>,
    /// Sums of the frames.
    pub(super) totals: Totals,
    /// The last step in which it gained something.
    pub(super) gained_in: u64,
    /// The step from which on the row is complete: before, some of its gain did not fit, or no rule
    /// selected it.
    pub(super) whole_from: u64,
}

impl Row {
    /// Returns it without its gain in a step.
    pub(super) fn without(&self, step: u64) -> Self {
        let (key, rules, mut totals) = (self.key.clone(), Arc::clone(&self.rules), self.totals);
        self.frames.iter().filter(|it| it.step == step).for_each(|it| totals -= &it.totals());
        let frames = self.frames.iter().filter(|it| it.step != step).cloned().collect();
        Self { key, rules, frames, totals, ..*self }
    }

    pub(super) fn extremes(&self) -> Extremes {
        let mut extremes = Extremes::NOTHING;
        self.frames.iter().for_each(|it| extremes.widen(&it.extremes));
        extremes
    }

    /// Returns its histogram; `None` without gain, or if some of it was dropped before it got here.
    pub(super) fn histogram(&self) -> Option<Histogram> {
        sum(&self.frames).histogram().filter(|_| !self.frames.is_empty()).cloned()
    }
}
