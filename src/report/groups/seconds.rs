//! A tick is cut into seconds, on the merger's thread: a slot counts what was gained since the last cut, and the first record
//! after a cut puts aside what it had before. So what groups gained in a second is in the slots that were touched in it.

use super::super::counts::Histogram;
use super::super::reading::Extremes;
use super::super::totals::Totals;
use super::{Groups, Sums};

/// What a group gained in the running tick and before the last cut.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    pub(super) sums: Sums,
    pub(super) extremes: Extremes,
    pub(super) histogram: Histogram,
}

/// Bytes that it takes, histogram aside; 16 are the allocator's.
const EARLIER_BYTES: usize = size_of::<Earlier>() + 16;

impl Groups {
    /// The first record of a slot since the last cut comes: what it has is put aside. False when that takes too much.
    #[inline(never)]
    pub(super) fn touch(&mut self, at: u32) -> bool {
        let slot = &mut self.slots[at as usize];
        slot.cut = self.cut;
        self.touched.push(at);
        if slot.sums == Sums::default() && slot.histogram.len() == 0 {
            return true;
        }
        if slot.earlier.is_none() {
            self.slot_histogram_bytes += EARLIER_BYTES;
        }
        let earlier = slot.earlier.get_or_insert_default();
        earlier.sums.add(&std::mem::take(&mut slot.sums));
        if earlier.histogram.len() == 0 {
            std::mem::swap(&mut earlier.histogram, &mut slot.histogram);
        } else {
            earlier.histogram.add_all(&slot.histogram);
            slot.histogram.clear();
        }
        if let Some(seen) = self.slot_extremes.get_mut(at as usize) {
            earlier.extremes.widen(&std::mem::take(seen));
        }
        earlier.sums.has_room()
    }

    /// What groups gained since the last cut.
    pub(in crate::report) fn gained(
        &self,
    ) -> impl Iterator<Item = (u32, Totals, Option<&Extremes>, &Histogram)> {
        self.touched.iter().map(|&at| {
            let slot = &self.slots[at as usize];
            let seen = self.slot_extremes.get(at as usize);
            (slot.group, slot.sums.totals(), seen, &slot.histogram)
        })
    }

    /// Cuts: what is gained from now on is another second's. Slots can be taken over and moved until they are touched again.
    pub(in crate::report) fn cut(&mut self) {
        self.cut = self.cut.wrapping_add(1);
        self.touched.clear();
        self.touched.shrink_to(1 << 16);
    }

    /// Puts together what was put aside, as if the tick had not been cut.
    pub(in crate::report) fn put_together(&mut self) {
        for at in 0..self.slots_used {
            let slot = &mut self.slots[at];
            let Some(mut earlier) = slot.earlier.take() else {
                continue;
            };
            slot.sums.add(&earlier.sums);
            let before = slot.histogram.heap_bytes() + earlier.histogram.heap_bytes();
            earlier.histogram.add_all(&slot.histogram);
            slot.histogram = earlier.histogram;
            self.slot_histogram_bytes += slot.histogram.heap_bytes();
            self.slot_histogram_bytes -= before + EARLIER_BYTES;
            if let Some(seen) = self.slot_extremes.get_mut(at) {
                seen.widen(&earlier.extremes);
            }
        }
    }
}
