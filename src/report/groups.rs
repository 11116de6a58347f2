//! Groups: the finest rows of an aggregate, exact under add and expire.
//!
//! A group is one combination of key ids. Its gain in the running tick is in a slot (there are only
//! as many slots as groups with a gain). A record only writes to the two cache lines of the slot's
//! front: sums, and its sample after earlier ones. The front is settled when its samples are full
//! and when a second is cut; when the tick closes, the slot is written to the tick log and added to
//! the group's sums, and when that tick leaves the window the log's entry is subtracted again. So a
//! packet touches one front per aggregate, however many reports there are and however often they
//! are read.
//!
//! ```text
//!   record --> Front { sums, samples } --(full, second over)--> Slot { sums, histogram } --(tick over)--> Group
//! ```

use self::front::{Block, Front, SAMPLES, Slot, Sums};
use super::arrivals::Delta;
use super::chunked::{CHUNK, Chunked};
use super::counts::{Histogram, Sample, grown};
use super::group_key::KeyIds;
use super::histogram::BucketLayout;
use super::key_table::KeyTable;
use super::reading::Extremes;
use super::totals::Totals;

mod cut_second;
mod front;
pub(super) mod overflow;

/// No slot: the group has no gain in the running tick.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// Bytes of a histogram that a slot keeps from one tick to the next.
const SLOT_HISTOGRAM_KEPT: usize = 128;

/// The group is not in use.
const UNUSED: u32 = u32::MAX - 1;

/// One combination of key ids.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Sums over the closed ticks of the window.
    pub(super) totals: Totals,
    /// Histogram over the closed ticks of the window.
    pub(super) histogram: Histogram,
}

/// Fewest blocks allocated at once.
const BLOCKS_AT_ONCE: usize = 256;

/// All groups of one aggregate.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) keys: KeyTable,
    /// Slot of each group in the running tick, [`NO_SLOT`] or [`UNUSED`]: read for every record.
    slot_of: Chunked<u32>,
    /// How often each number was reused for another combination.
    generations: Chunked<u32>,
    groups: Chunked<Group>,
    /// Numbers of removed groups, not to be reused before the caches have forgotten them.
    gone: Vec<u32>,
    /// Number of ticks in the window.
    pub(super) ticks: u64,
    fronts: Chunked<Front>,
    blocks: Vec<Block>,
    blocks_max: usize,
    slots: Chunked<Slot>,
    slots_used: usize,
    /// Most slots in use in this tick.
    slots_peak: usize,
    /// Whether somebody reads gains by second.
    pub(super) is_watched: bool,
    /// Slots before this one have been cut in the ending second.
    cut: usize,
    /// Heap bytes of the histograms of slots.
    pub(super) slot_histogram_bytes: usize,
    /// Per group the extremes of its closed ticks, if the aggregate keeps them: ticks exceeded in
    /// all of them by a later one are left out, since they leave the window first.
    pub(super) extremes: Option<Vec<Vec<(u64, Extremes)>>>,
    /// Number of these.
    pub(super) extremes_count: usize,
    /// Per slot the extremes of the running tick and second, if the aggregate keeps them.
    slot_extremes: Vec<(Extremes, Extremes)>,
    /// Heap bytes of histograms.
    pub(super) histogram_bytes: usize,
}

impl Groups {
    pub(super) fn new(stride: usize, extremes: bool) -> Self {
        Self {
            keys: KeyTable::new(stride),
            ticks: 1,
            extremes: extremes.then(Vec::new),
            ..Self::default()
        }
    }

    /// One more than the largest number in use.
    pub(super) fn end(&self) -> u32 {
        self.keys.end()
    }

    pub(super) fn is_used(&self, id: u32) -> bool {
        self.slot_of[id as usize] != UNUSED
    }

    /// Whether the group has a gain in the running tick.
    pub(super) fn is_running(&self, id: u32) -> bool {
        self.slot_of[id as usize] < UNUSED
    }

    /// How often this number was reused for another combination.
    pub(super) fn generation(&self, id: u32) -> u32 {
        self.generations[id as usize]
    }

    pub(super) fn get(&self, id: u32) -> &Group {
        &self.groups[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Group {
        &mut self.groups[id as usize]
    }

    /// The slot of a group in the running tick, and its number.
    #[inline]
    pub(super) fn running(&self, id: u32) -> Option<(usize, &Slot)> {
        let at = self.slot_of[id as usize];
        (at < UNUSED).then(|| (at as usize, &self.slots[at as usize]))
    }

    /// The gain of group `id` in the running tick.
    pub(super) fn running_totals(&self, id: u32) -> Option<Totals> {
        let (at, slot) = self.running(id)?;
        let mut totals = slot.totals();
        totals += &self.fronts[at].sums.totals();
        Some(totals)
    }

    /// The samples of slot `at` in the running tick, in any order.
    pub(super) fn running_samples(&self, at: usize) -> impl Iterator<Item = (u32, u64)> + '_ {
        let slot = &self.slots[at];
        let recent = self.recent_samples(at).map(|it| it.pair());
        slot.histogram
            .iter()
            .chain(slot.second.iter())
            .chain(recent)
    }

    /// The samples of a front and its blocks.
    fn recent_samples(&self, at: usize) -> impl Iterator<Item = Sample> + '_ {
        let front = &self.fronts[at];
        let block = |place: u32| self.blocks.get((place as usize).wrapping_sub(1));
        let blocks = std::iter::successors(block(front.blocks), move |it| block(it.before));
        let of_blocks = blocks.flat_map(|it| it.samples);
        front.samples().iter().copied().chain(of_blocks)
    }

    /// Sets the bytes that full fronts may take until the second is cut.
    pub(super) fn allow_blocks(&mut self, bytes: usize) {
        self.blocks_max = bytes / size_of::<Block>();
    }

    /// Adds a new combination and returns its number.
    pub(super) fn insert(&mut self, key_ids: &KeyIds) -> u32 {
        let id = self.keys.insert(key_ids);
        if id as usize == self.groups.len() {
            self.groups.push(Group::default());
            if let Some(extremes) = &mut self.extremes {
                extremes.push(Vec::new());
            }
        }
        // If it was in use before the end was freed, it exists.
        if id as usize == self.slot_of.len() {
            self.slot_of.push(NO_SLOT);
            self.generations.push(0);
        }
        self.slot_of[id as usize] = NO_SLOT;
        id
    }

    /// Removes a group that no longer counts anything. The number is not reused before
    /// [`free_gone`](Self::free_gone).
    pub(super) fn remove(&mut self, id: u32) {
        self.keys.unlink(id);
        self.gone.push(id);
        let group = &mut self.groups[id as usize];
        self.histogram_bytes -= group.histogram.heap_bytes();
        *group = Group::default();
        self.slot_of[id as usize] = UNUSED;
        let generation = &mut self.generations[id as usize];
        *generation = generation.wrapping_add(1);
        if let Some(extremes) = &mut self.extremes {
            self.extremes_count -= extremes[id as usize].len();
            extremes[id as usize] = Vec::new();
        }
    }

    /// Whether groups were removed whose numbers caches may still have.
    #[inline]
    pub(super) fn has_gone(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Makes the numbers of removed groups available.
    pub(super) fn free_gone(&mut self) {
        std::mem::take(&mut self.gone)
            .into_iter()
            .for_each(|id| self.keys.free(id));
    }

    /// Prefetches what [`count`](Self::count) will touch for these groups: the reads of one group
    /// depend on each other, those of different groups do not.
    pub(super) fn prefetch(&self, assignments: &[(u32, u32)]) {
        let mut seen = 0;
        for (id, _) in assignments {
            let at = self.slot_of[*id as usize];
            if at < UNUSED {
                let front = &self.fronts[at as usize];
                seen ^= front.last_request ^ u64::from(front.len);
            }
        }
        std::hint::black_box(seen);
    }

    /// Counts a record in the running tick; returns false if the group's slot has no room and must
    /// be [taken over](Self::take_over) first.
    #[inline]
    pub(super) fn count(&mut self, id: u32, delta: &Delta, buckets: &BucketLayout) -> bool {
        let at = match self.slot_of[id as usize] {
            NO_SLOT => self.open_slot(id),
            at => at,
        } as usize;
        let mut front = &mut self.fronts[at];
        if usize::from(front.len) == SAMPLES || front.is_locked {
            if !self.make_room(at) {
                return false;
            }
            front = &mut self.fronts[at];
        }
        front.is_touched = true;
        let sums = &mut front.sums;
        sums.time += delta.time;
        sums.ru_utime += delta.ru_utime;
        sums.ru_stime += delta.ru_stime;
        sums.traffic += u64::from(delta.traffic);
        sums.memory += u64::from(delta.memory);
        sums.hits += u64::from(delta.hits);
        if front.last_request != delta.request {
            front.last_request = delta.request;
            sums.requests += 1;
            sums.errors += u32::from(delta.error);
        }
        let sample = delta.sample(buckets);
        if sample.fits() {
            front.samples[usize::from(front.len)] = sample;
            front.len += 1;
        } else {
            self.count_heavy(at, delta, buckets);
        }
        if delta.is_unmeasured {
            self.count_unmeasured(at, delta);
        }
        if self.extremes.is_some() {
            let seen = delta.extremes();
            let (of_tick, of_second) = &mut self.slot_extremes[at];
            of_tick.widen(&seen);
            of_second.widen(&seen);
        }
        true
    }

    /// Counts a record without CPU times and memory. Beside the front, which has no room: a record
    /// that has them touches nothing for it.
    #[inline(never)]
    fn count_unmeasured(&mut self, at: usize, delta: &Delta) {
        let slot = &mut self.slots[at];
        slot.unmeasured += u64::from(delta.unmeasured());
        slot.unmeasured_second += u64::from(delta.unmeasured());
    }

    /// Counts a sample with a weight too large for a front.
    #[cold]
    fn count_heavy(&mut self, at: usize, delta: &Delta, buckets: &BucketLayout) {
        if delta.weight > 0 {
            let bucket = buckets.bucket(delta.sample);
            self.settled_samples(at).add(bucket, delta.weight.into());
        }
    }

    /// The destination of samples that leave the front of slot `at` before the second is cut.
    fn settled_samples(&mut self, at: usize) -> &mut Histogram {
        let slot = &mut self.slots[at];
        match self.is_watched {
            true => &mut slot.second,
            false => &mut slot.histogram,
        }
    }

    /// Makes room for samples in front `at`; returns false if its sums, or those of the slot, are
    /// nearly full.
    #[inline(never)]
    fn make_room(&mut self, at: usize) -> bool {
        let front = &mut self.fronts[at];
        if front.is_locked || !front.sums.has_room() {
            return false;
        }
        front.len = 0;
        let mut samples = front.samples;
        if self.blocks.len() < self.blocks_max {
            if self.blocks.len() == self.blocks.capacity() {
                // They are copied each time: grows by an eighth, but not beyond the limit.
                let more = BLOCKS_AT_ONCE.max(self.blocks.len() / 8);
                let most = self.blocks_max - self.blocks.len();
                self.blocks.reserve_exact(more.min(most));
            }
            let before = front.blocks;
            self.blocks.push(Block { samples, before });
            front.blocks = self.blocks.len() as u32;
        } else {
            self.settled_samples(at).add_samples(&mut samples);
        }
        true
    }

    /// Accounts for growth of slot histograms, and no others, since [`grown`] was `before`.
    pub(super) fn slot_histograms_grew(&mut self, before: usize) {
        let more = grown().wrapping_sub(before);
        self.slot_histogram_bytes = self.slot_histogram_bytes.wrapping_add(more);
    }

    #[inline(never)]
    fn open_slot(&mut self, id: u32) -> u32 {
        let at = self.slots_used;
        if at == self.slots.len() {
            self.slots.push(Slot::default());
            self.fronts.push(Front::default());
        }
        if self.extremes.is_some() {
            self.slot_extremes.truncate(at);
            self.slot_extremes.push(Default::default());
        }
        self.slots_used += 1;
        self.slots_peak = self.slots_peak.max(self.slots_used);
        self.slots[at].group = id;
        self.fronts[at] = Front::default();
        self.slot_of[id as usize] = at as u32;
        at as u32
    }

    /// The extremes of group `id` in the running tick, if it has a gain and the aggregate keeps
    /// them.
    pub(super) fn running_extremes(&self, id: u32) -> Option<&Extremes> {
        let (at, _) = self.running(id)?;
        self.slot(at).1
    }

    /// Slot `at` of the running tick, and its extremes if the aggregate keeps them.
    pub(super) fn slot(&self, at: usize) -> (&Slot, Option<&Extremes>) {
        let seen = self.slot_extremes.get(at).map(|(of_tick, _)| of_tick);
        (&self.slots[at], seen)
    }

    /// Groups with a gain in the running tick.
    pub(super) fn dirty(&self) -> usize {
        self.slots_used
    }

    /// Moves the settled slot `at` into its group (sums, extremes and, if wanted, the histogram)
    /// and empties it; the group keeps the slot.
    pub(super) fn take_over(&mut self, at: usize, tick: u64, histogram: bool) {
        let Self {
            groups,
            slots,
            extremes,
            extremes_count,
            slot_extremes,
            histogram_bytes,
            slot_histogram_bytes,
            fronts,
            ..
        } = self;
        let slot = &mut slots[at];
        let group = &mut groups[slot.group as usize];
        group.totals += &slot.totals();
        if histogram {
            let before = group.histogram.heap_bytes();
            group.histogram.add_all(&slot.histogram);
            *histogram_bytes = *histogram_bytes + group.histogram.heap_bytes() - before;
        }
        if let Some(extremes) = extremes {
            let (seen, _) = slot_extremes[at];
            let of_group = &mut extremes[slot.group as usize];
            *extremes_count -= of_group.len();
            match of_group.last_mut() {
                Some((last, all)) if *last == tick => all.widen(&seen),
                _ => {
                    of_group.retain(|(_, before)| !seen.spans(before));
                    // Most lists stay short: doubling would waste memory.
                    of_group.reserve_exact(1);
                    of_group.push((tick, seen));
                }
            }
            *extremes_count += of_group.len();
        }
        slot.sums = Sums::default();
        slot.unmeasured = 0;
        for counts in [&mut slot.histogram, &mut slot.second] {
            // A wide histogram belongs to a busy group, and the next user of this slot may not be
            // one.
            if counts.heap_bytes() > SLOT_HISTOGRAM_KEPT {
                *slot_histogram_bytes -= counts.heap_bytes();
                *counts = Histogram::new();
            } else {
                counts.clear();
            }
        }
        fronts[at].is_locked = false;
    }

    /// [Takes over](Self::take_over) slot `at` and releases it.
    pub(super) fn close_slot(&mut self, at: usize, tick: u64, histogram: bool) {
        self.take_over(at, tick, histogram);
        let group = self.slots[at].group;
        self.slot_of[group as usize] = NO_SLOT;
    }

    /// After the last slot was closed: keeps no more slots than the tick needed, so that one wild
    /// tick does not hold its memory forever.
    pub(super) fn slots_closed(&mut self) {
        let keep = match std::mem::take(&mut self.slots_peak) {
            0 => 0,
            used => (used * 2).max(CHUNK),
        };
        self.slots_used = 0;
        self.keep_slots(keep);
    }

    /// Keeps this many slots.
    fn keep_slots(&mut self, keep: usize) {
        while self.slots.len() > keep {
            if let Some(slot) = self.slots.pop() {
                self.slot_histogram_bytes -= slot.heap_bytes();
                self.fronts.pop();
            }
        }
        if self.slot_extremes.capacity() > keep * 2 {
            self.slot_extremes.shrink_to(keep);
        }
    }

    /// Bytes of extremes, without closed ticks: a list for each group, and those of the running
    /// tick.
    fn extremes_bytes(&self) -> usize {
        let Some(extremes) = &self.extremes else {
            return 0;
        };
        let lists = extremes.capacity() * size_of::<Vec<(u64, Extremes)>>();
        lists + self.slot_extremes.capacity() * size_of::<(Extremes, Extremes)>()
    }

    /// Bytes of closed ticks in groups: histograms, and lists of extremes.
    pub(super) fn closed_bytes(&self) -> usize {
        self.histogram_bytes + self.extremes_count * self.extremes_each()
    }

    /// Bytes of a group's extremes in a closed tick.
    pub(super) fn extremes_each(&self) -> usize {
        match self.extremes {
            Some(_) => size_of::<(u64, Extremes)>() * 3 / 2,
            None => 0,
        }
    }

    /// Bytes on the heap, including slots and histograms.
    pub(super) fn heap_bytes(&self) -> usize {
        // 16: the allocator's overhead per histogram.
        self.keys.heap_bytes()
            + self.groups.heap_bytes()
            + self.slot_of.heap_bytes()
            + self.generations.heap_bytes()
            + self.gone.capacity() * 4
            + self.fronts.heap_bytes()
            + self.blocks.capacity() * size_of::<Block>()
            + self.slots.heap_bytes()
            + self.slots.len() * 16
            + self.slot_histogram_bytes
            + self.keys.len() * 16
            + self.extremes_bytes()
            + self.closed_bytes()
    }
}
