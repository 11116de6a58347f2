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
    pub(super) numbers: Box<[u32]>,
    /// Fewest requests with which one of them can judge the row.
    pub(super) min_requests: u64,
}

impl RuleSet {
    /// Returns the number of each.
    pub(super) fn each(&self) -> impl Iterator<Item = usize> {
        self.numbers.iter().map(|number| *number as usize)
    }

    /// Size in memory, including its place in a hash table, bytes.
    pub(super) fn bytes(&self) -> usize {
        2 * size_of::<Self>() + size_of_val(&*self.numbers)
    }
}

/// Gain of a row in a step.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) step: u64,
    pub(super) packed: Box<[u8]>,
    pub(super) extremes: Extremes,
}

/// Adds up frames.
fn sum<'a>(frames: impl IntoIterator<Item = &'a Frame>) -> Sum {
    let mut sum = Sum::default();
    frames.into_iter().for_each(|it| sum.add(EncodedGain(&it.packed)));
    sum
}

/// Gain of a row in the running step: that of its first second as it came, since a step is mostly no
/// longer than that, and the sum of all if there were more.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) frame: Frame,
    pub(super) sum: Option<Box<Sum>>,
}

impl Running {
    /// Adds the gain of another second.
    pub(super) fn add(&mut self, packed: &[u8], extremes: &Extremes) {
        self.frame.extremes.widen(extremes);
        let sum = self.sum.get_or_insert_with(|| Box::new(sum([&self.frame])));
        sum.add(EncodedGain(packed));
    }

    /// Returns it as a frame.
    pub(super) fn frame(mut self) -> Frame {
        if let Some(sum) = self.sum {
            let mut packed = Vec::new();
            sum.encode(&mut packed, true);
            self.frame.packed = packed.into();
        }
        self.frame
    }
}

/// A row in a window.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) key: Box<[u8]>,
    /// Rules that select the row, as indexes into those of its windows.
    pub(super) rules: Arc<RuleSet>,
    pub(super) frames: VecDeque<Frame>,
    /// Sums of the frames.
    pub(super) totals: Totals,
    /// The place of its gain among those of the running step, from 1; 0 if there is none.
    pub(super) running: u32,
    /// The step from which on the row is complete: before, some of its gain did not fit, or no rule
    /// selected it.
    pub(super) whole_from: u64,
}

impl Row {
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
