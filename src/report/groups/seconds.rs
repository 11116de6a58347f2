//! A tick is cut into seconds, on the merger's thread: the first record of a slot after a cut puts down what the slot has, packed
//! as in a tick log, and what it has more at the next cut is what its group gained in between.

use super::super::reading::Extremes;
use super::super::tick_log::TickLogReader;
use super::super::totals::Totals;
use super::Groups;

impl Groups {
    /// The first record of a slot since the last cut comes: what it has is put down.
    #[inline(never)]
    pub(super) fn touch(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.cut = self.cut;
        self.before
            .entry(slot.group, &slot.totals(), Some(&slot.histogram));
        if let Some((_, of_second)) = self.slot_extremes.get_mut(at as usize) {
            *of_second = Extremes::NOTHING;
        }
    }

    /// Gives what groups gained since the last cut to `each`, in the order of their first record: sums, extremes, and the histogram as
    /// (bucket, count), buckets ascending.
    pub(in crate::report) fn each_gained(
        &self,
        mut each: impl FnMut(u32, &Totals, Option<&Extremes>, &[(u32, u64)]),
    ) {
        let mut entries = TickLogReader::new(self.before.unfinished());
        let (mut had, mut pairs) = (Vec::new(), Vec::new());
        while let Some((group, before)) = entries.next(&mut had) {
            let Some((at, slot)) = self.running(group) else {
                continue;
            };
            let mut totals = slot.totals();
            totals -= &before;
            let mut had = had.iter().peekable();
            pairs.clear();
            pairs.extend(slot.histogram.iter().filter_map(|(bucket, count)| {
                let less = had.next_if(|it| it.0 == bucket).map_or(0, |it| it.1);
                (count > less).then(|| (bucket, count - less))
            }));
            let seen = self.slot_extremes.get(at).map(|(_, of_second)| of_second);
            each(group, &totals, seen, &pairs);
        }
    }

    /// Cuts: what is gained from now on is another second's. Slots can be taken over and moved until they are touched again.
    pub(in crate::report) fn cut(&mut self) {
        self.cut = self.cut.wrapping_add(1).max(1);
        self.before.clear();
        self.before.shrink();
    }

    /// Bytes that were put down since the last cut take.
    pub(in crate::report) fn before_bytes(&self) -> usize {
        self.before.heap_bytes()
    }
}
