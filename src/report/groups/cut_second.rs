//! The cut between two seconds, on the merger's thread: fronts are settled into their slots, and
//! gains of the second are passed to readers.
//!
//! Slots must be settled before they are closed or moved.

use super::super::totals::{Extremes, Totals};
use super::running_tick::RunningTick;

/// Slots prefetched before their turn: their histograms and blocks lie anywhere.
const AHEAD: usize = 8;

/// The gain of a group since the last cut.
pub(in crate::report) struct GroupGain<'a> {
    pub(in crate::report) group: u32,
    pub(in crate::report) totals: Totals,
    /// Present if the aggregate keeps them.
    pub(in crate::report) extremes: Option<&'a Extremes>,
    /// The histogram, buckets ascending.
    pub(in crate::report) pairs: &'a [(u32, u64)],
}

impl RunningTick {
    /// Settles up to `slots` further slots; passes gains of their groups to `each`. Returns false
    /// if none is left: the next call starts another second.
    pub(in crate::report) fn cut_some(
        &mut self,
        slots: usize,
        mut each: impl FnMut(&GroupGain<'_>),
    ) -> bool {
        let end = self.used.min(self.cut.saturating_add(slots));
        let (mut pairs, mut sums) = std::mem::take(&mut self.cut_scratch);
        for at in self.cut..end {
            self.look_ahead((at + AHEAD).min(end - 1));
            let (front, slot) = (&self.fronts[at], &self.slots[at]);
            if !front.is_touched {
                continue;
            }
            pairs.clear();
            if front.blocks == 0 && slot.second.len() == 0 {
                // As samples they sort faster than as pairs.
                let mut samples = front.samples;
                let samples = &mut samples[..front.len.into()];
                samples.sort_unstable();
                for (bucket, count) in samples.iter().map(|it| it.pair()) {
                    match pairs.last_mut() {
                        Some(last) if last.0 == bucket => last.1 += count,
                        _ => pairs.push((bucket, count)),
                    }
                }
            } else {
                for samples in self.recent_samples(at) {
                    sums.add(samples.iter().map(|it| it.pair()));
                }
                sums.add(slot.second.iter());
                pairs.extend(sums.drain());
            }
            let gained = GroupGain {
                group: slot.group,
                totals: front.sums.totals(),
                extremes: self.extremes.as_ref().map(|all| &all[at].1),
                pairs: &pairs,
            };
            each(&gained);
            self.settle(at, &pairs);
        }
        self.cut = end;
        let more = end < self.used;
        match more {
            true => self.cut_scratch = (pairs, sums),
            false => {
                self.cut = 0;
                self.blocks.clear();
            }
        }
        more
    }

    /// Prefetches memory for the cut of slot `at`.
    fn look_ahead(&self, at: usize) {
        let block = self.blocks.of(&self.fronts[at]).next().map(|it| it[0]);
        std::hint::black_box((self.slots[at].histogram.touch(), block));
    }

    /// Adds front `at` to its slot; `pairs` are all its samples.
    fn settle(&mut self, at: usize, pairs: &[(u32, u64)]) {
        self.change_slot(at, |slot| {
            slot.histogram.add_pairs(pairs);
            slot.second.clear();
        });
        let (front, slot) = (&mut self.fronts[at], &mut self.slots[at]);
        slot.sums.add(&front.sums);
        front.sums = Default::default();
        (front.len, front.blocks) = (0, 0);
        front.is_touched = false;
        if let Some(all) = &mut self.extremes {
            all[at].1 = Extremes::NOTHING;
        }
        self.widen_if_full(at);
    }
}
