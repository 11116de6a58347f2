//! Groups: the finest rows that an aggregate keeps, exact under add and expire.
//!
//! A group is one combination of key ids. What it gained in the running tick is in a slot (there are only as many slots as
//! groups that gained something); when the tick closes, the slot is written to the tick log and added to the group's sums,
//! and when that tick leaves the window the log's entry is subtracted again. So a packet touches one slot, however many
//! reports there are and however often they are read.

use super::chunked::Chunked;
use super::counts::{Histogram, grown};
use super::group_key::KeyIds;
use super::histogram::BucketLayout;
use super::key_table::KeyTable;
use super::reading::Extremes;
use super::tick_log::TickLogWriter;
use super::totals::Totals;

pub(super) mod overflow;
mod seconds;

/// No slot: the group gained nothing in the running tick.
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

/// What every record looks at of its group: kept apart from the rest, so that a hundred thousand groups have it in a core's
/// cache.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    /// Slot of the running tick, [`NO_SLOT`], or [`UNUSED`].
    slot: u32,
    /// Counts how often this number was given to another combination; who remembers a number remembers this too.
    generation: u32,
}

/// Sums half as wide as [`Totals`]: a slot whose sums could overflow is taken over early (see [`Groups::count`]), and a
/// hundred bytes less of it are two cache lines less a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    requests: u32,
    errors: u32,
    time: u64,
    ru_utime: u64,
    ru_stime: u64,
    traffic: u64,
    memory: u64,
    hits: u64,
}

/// What a group gained in the running tick.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) group: u32,
    /// The cut after which `sums` and `histogram` were put down last; they are again if it is not the last one.
    cut: u32,
    sums: Sums,
    pub(super) histogram: Histogram,
    /// The last request counted, so that several timers of one request count it once.
    last_request: u64,
}

impl Slot {
    pub(super) fn totals(&self) -> Totals {
        self.sums.totals()
    }
}

impl Sums {
    fn totals(&self) -> Totals {
        Totals {
            time: self.time.into(),
            ru_utime: self.ru_utime.into(),
            ru_stime: self.ru_stime.into(),
            traffic: self.traffic.into(),
            memory: self.memory.into(),
            hits: self.hits.into(),
            requests: self.requests.into(),
            errors: self.errors.into(),
        }
    }

    /// Whether any record can be added, and the sum of two such sums kept: no record adds as much as an eighth of what a sum
    /// holds.
    fn has_room(&self) -> bool {
        const FULL: u64 = 1 << 61;
        self.widest() < FULL && self.requests < u32::MAX / 2
    }

    /// As large as the largest of them, less than twice that.
    fn widest(&self) -> u64 {
        let times = self.time | self.ru_utime | self.ru_stime;
        times | self.traffic | self.memory | self.hits | u64::from(self.requests)
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.time += other.time;
        self.ru_utime += other.ru_utime;
        self.ru_stime += other.ru_stime;
        self.traffic += other.traffic;
        self.memory += other.memory;
        self.hits += other.hits;
    }
}

/// What one record adds to a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delta {
    pub(super) request: u64,
    pub(super) time: u64,
    pub(super) ru_utime: u64,
    pub(super) ru_stime: u64,
    /// The time that goes into the histogram, microseconds: the request's, or the timer's per hit.
    pub(super) sample: u64,
    pub(super) hits: u32,
    /// How many samples of it.
    pub(super) weight: u32,
    pub(super) traffic: u32,
    pub(super) memory: u32,
    pub(super) memory_peak: u32,
    /// The bucket of `sample` in the layout that nearly all aggregates have.
    pub(super) log_linear: u32,
    pub(super) error: bool,
}

impl Delta {
    /// Its sums, with its request when that `is_new` where they are added.
    pub(super) fn totals(&self, is_new: bool) -> Totals {
        Totals {
            time: self.time.into(),
            ru_utime: self.ru_utime.into(),
            ru_stime: self.ru_stime.into(),
            traffic: self.traffic.into(),
            memory: self.memory.into(),
            hits: self.hits.into(),
            requests: is_new.into(),
            errors: (is_new && self.error).into(),
        }
    }

    /// Its extremes.
    pub(super) fn extremes(&self) -> Extremes {
        Extremes {
            time_min: self.sample,
            time_max: self.sample,
            memory_peak_max: self.memory_peak,
        }
    }

    /// The bucket of its sample.
    #[inline]
    fn bucket(&self, buckets: &BucketLayout) -> u32 {
        match buckets {
            BucketLayout::LogLinear => self.log_linear,
            other => other.bucket(self.sample),
        }
    }
}

/// All groups of one aggregate.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) keys: KeyTable,
    heads: Chunked<Head>,
    groups: Chunked<Group>,
    /// How many ticks the window has.
    pub(super) ticks: u64,
    slots: Chunked<Slot>,
    slots_used: usize,
    /// The last cut; 0: none yet, nobody wants to know what is gained in a second.
    cut: u32,
    /// What groups that gained something since had then in their slots, in the order of their first record.
    before: TickLogWriter,
    /// Bytes that the histograms of slots hold on the heap.
    pub(super) slot_histogram_bytes: usize,
    /// Per group the extremes of its closed ticks, when the aggregate keeps them.
    pub(super) extremes: Option<Vec<Vec<(u64, Extremes)>>>,
    /// How many of them there are.
    pub(super) extremes_count: usize,
    /// Per slot the extremes of the running tick, and of what came since the last cut, when the aggregate keeps them.
    slot_extremes: Vec<(Extremes, Extremes)>,
    /// Bytes that histograms hold on the heap.
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
        self.heads[id as usize].slot != UNUSED
    }

    /// Whether the group gained something in the running tick.
    pub(super) fn is_running(&self, id: u32) -> bool {
        self.heads[id as usize].slot < UNUSED
    }

    /// How often this number was given to another combination.
    #[inline]
    pub(super) fn generation(&self, id: u32) -> u32 {
        self.heads[id as usize].generation
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
        let at = self.heads[id as usize].slot;
        (at < UNUSED).then(|| (at as usize, &self.slots[at as usize]))
    }

    /// Takes a combination in that is not there and returns its number.
    pub(super) fn insert(&mut self, key_ids: &KeyIds) -> u32 {
        let id = self.keys.insert(key_ids);
        if id as usize == self.groups.len() {
            self.groups.push(Group::default());
            if let Some(extremes) = &mut self.extremes {
                extremes.push(Vec::new());
            }
        }
        // Where it was in use before the end was given back, there is one.
        if id as usize == self.heads.len() {
            self.heads.push(Head::default());
        }
        self.heads[id as usize].slot = NO_SLOT;
        id
    }

    /// Gives a number back. The caller has seen that nothing is counted under it.
    pub(super) fn remove(&mut self, id: u32) {
        self.keys.remove(id);
        let group = &mut self.groups[id as usize];
        self.histogram_bytes -= group.histogram.heap_bytes();
        *group = Group::default();
        let head = &mut self.heads[id as usize];
        head.slot = UNUSED;
        head.generation = head.generation.wrapping_add(1);
        if let Some(extremes) = &mut self.extremes {
            self.extremes_count -= extremes[id as usize].len();
            extremes[id as usize] = Vec::new();
        }
    }

    /// Brings what [`count`](Self::count) will touch for these groups into the processor's caches. The reads of one
    /// group wait for each other, those of different groups do not: done for a batch, they overlap. Their heads are there already:
    /// who found the groups read them.
    pub(super) fn prefetch(
        &self,
        assignments: &[(u32, u32)],
        deltas: &[Delta],
        buckets: &BucketLayout,
    ) {
        let mut seen = 0;
        for (id, at) in assignments {
            if let Some((_, slot)) = self.running(*id) {
                let bucket = deltas[*at as usize].bucket(buckets);
                seen ^= slot.last_request ^ u64::from(slot.histogram.peek(bucket));
            }
        }
        std::hint::black_box(seen);
    }

    /// Counts a record in the running tick; false when the group's slot has no room and must be
    /// [taken over](Self::take_over) first.
    #[inline]
    pub(super) fn count(&mut self, id: u32, delta: &Delta, buckets: &BucketLayout) -> bool {
        let at = match self.heads[id as usize].slot {
            NO_SLOT => self.open_slot(id),
            at => at,
        };
        let slot = &self.slots[at as usize];
        if !slot.sums.has_room() {
            return false;
        }
        if slot.cut != self.cut {
            self.touch(at);
        }
        let slot = &mut self.slots[at as usize];
        let sums = &mut slot.sums;
        sums.time += delta.time;
        sums.ru_utime += delta.ru_utime;
        sums.ru_stime += delta.ru_stime;
        sums.traffic += u64::from(delta.traffic);
        sums.memory += u64::from(delta.memory);
        sums.hits += u64::from(delta.hits);
        if slot.last_request != delta.request {
            slot.last_request = delta.request;
            sums.requests += 1;
            sums.errors += u32::from(delta.error);
        }
        slot.histogram
            .add(delta.bucket(buckets), u64::from(delta.weight));
        if self.extremes.is_some() {
            let seen = delta.extremes();
            let (of_tick, of_second) = &mut self.slot_extremes[at as usize];
            of_tick.widen(&seen);
            of_second.widen(&seen);
        }
        true
    }

    /// Histograms of slots have grown, and no others, since [`grown`] was so much.
    pub(super) fn slot_histograms_grew(&mut self, before: usize) {
        let more = grown().wrapping_sub(before);
        self.slot_histogram_bytes = self.slot_histogram_bytes.wrapping_add(more);
    }

    #[inline(never)]
    fn open_slot(&mut self, id: u32) -> u32 {
        let at = self.slots_used;
        if at == self.slots.len() {
            self.slots.push(Slot::default());
        }
        if self.extremes.is_some() {
            self.slot_extremes.truncate(at);
            self.slot_extremes.push(Default::default());
        }
        self.slots_used += 1;
        let slot = &mut self.slots[at];
        slot.group = id;
        slot.last_request = 0;
        self.heads[id as usize].slot = at as u32;
        at as u32
    }

    /// The extremes of group `id` in the running tick, if it gained something and the aggregate keeps them.
    pub(super) fn running_extremes(&self, id: u32) -> Option<&Extremes> {
        let (at, _) = self.running(id)?;
        self.slot(at).1
    }

    /// Slot `at` of the running tick, and its extremes if the aggregate keeps them.
    pub(super) fn slot(&self, at: usize) -> (&Slot, Option<&Extremes>) {
        let seen = self.slot_extremes.get(at).map(|(of_tick, _)| of_tick);
        (&self.slots[at], seen)
    }

    /// Groups that gained something in the running tick.
    pub(super) fn dirty(&self) -> usize {
        self.slots_used
    }

    /// Takes slot `at` of the running tick over into its group (sums, extremes and, if wanted, the histogram) and
    /// empties it; the group keeps it.
    pub(super) fn take_over(&mut self, at: usize, tick: u64, histogram: bool) {
        let Self {
            groups,
            slots,
            extremes,
            extremes_count,
            slot_extremes,
            histogram_bytes,
            slot_histogram_bytes,
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
            match extremes[slot.group as usize].last_mut() {
                Some((last, all)) if *last == tick => all.widen(&seen),
                _ => {
                    extremes[slot.group as usize].push((tick, seen));
                    *extremes_count += 1;
                }
            }
        }
        let mut counts = std::mem::take(&mut slot.histogram);
        // A wide histogram belongs to a busy group, and the next user of this slot may not be one.
        if counts.heap_bytes() > SLOT_HISTOGRAM_KEPT {
            *slot_histogram_bytes -= counts.heap_bytes();
            counts = Histogram::new();
        } else {
            counts.clear();
        }
        *slot = Slot {
            group: slot.group,
            last_request: slot.last_request,
            histogram: counts,
            ..Slot::default()
        };
    }

    /// [Takes over](Self::take_over) slot `at`, which the group gives back.
    pub(super) fn close_slot(&mut self, at: usize, tick: u64, histogram: bool) {
        self.take_over(at, tick, histogram);
        let group = self.slots[at].group;
        self.heads[group as usize].slot = NO_SLOT;
    }

    /// After the last slot was closed: keeps no more slots than the tick needed, so that one wild tick does not hold
    /// its memory for ever.
    pub(super) fn slots_closed(&mut self) {
        let keep = match self.slots_used {
            0 => 0,
            used => (used * 2).max(1024),
        };
        self.keep_slots(keep);
        self.slots_used = 0;
    }

    /// Keeps so many slots.
    fn keep_slots(&mut self, keep: usize) {
        while self.slots.len() > keep {
            if let Some(slot) = self.slots.pop() {
                self.slot_histogram_bytes -= slot.histogram.heap_bytes();
            }
        }
        if self.slot_extremes.capacity() > keep * 2 {
            self.slot_extremes.shrink_to(keep);
        }
    }

    /// Bytes that extremes take beside those of closed ticks: a list for each group, and those of the running tick.
    fn extremes_bytes(&self) -> usize {
        let Some(extremes) = &self.extremes else {
            return 0;
        };
        let lists = extremes.capacity() * size_of::<Vec<(u64, Extremes)>>();
        lists + self.slot_extremes.capacity() * size_of::<(Extremes, Extremes)>()
    }

    /// Bytes that closed ticks have in groups: histograms, and lists of extremes, which grow by doubling.
    pub(super) fn closed_bytes(&self) -> usize {
        self.histogram_bytes + self.extremes_count * self.extremes_each()
    }

    /// Bytes that the extremes of a group in a closed tick take.
    pub(super) fn extremes_each(&self) -> usize {
        match self.extremes {
            Some(_) => size_of::<(u64, Extremes)>() * 3 / 2,
            None => 0,
        }
    }

    /// Bytes taken, slots and histograms included.
    pub(super) fn heap_bytes(&self) -> usize {
        // 16: what the allocator adds to each histogram.
        self.keys.heap_bytes()
            + self.groups.heap_bytes()
            + self.heads.heap_bytes()
            + self.slots.heap_bytes()
            + self.slots.len() * 16
            + self.slot_histogram_bytes
            + self.before_bytes()
            + self.keys.len() * 16
            + self.extremes_bytes()
            + self.closed_bytes()
    }
}
