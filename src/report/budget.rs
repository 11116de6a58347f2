//! The memory budget that all reports share.
//!
//! What groups, cached groups, tick logs and histograms take is measured after every merge; what a merge makes is added as
//! it is made. A quarter is kept for the closed ticks (tick logs and histograms of the window); what they leave unused still
//! counts as used below. Memory comes in chunks of some hundred groups, so a sixteenth (1 MiB at most) is left out of the
//! reckoning. The rest is used up in steps, and sums stay exact at each:
//!
//! | from | |
//! |---|---|
//! | 7/8 | no new group: a new key overflows, at first only in the keys whose values are without end |
//! | 15/16 | a new key overflows into `(other)` in all its keys, and no cached group that needs memory is added |
//! | 15/16 | ticks close into what is left up to here: of what does not fit, the keys with the fewest requests in the tick overflow |
//! | 31/32 | the same while the tick runs, until it takes 15/16 again; but first the group caches are emptied |

/// Left out of the reckoning at most, bytes.
const CHUNKS_BYTES: usize = 1 << 20;

/// Bytes that closed ticks take, and all there is, of one aggregate or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) all: usize,
    pub(super) closed: usize,
}

impl std::ops::Add for Taken {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            closed: self.closed + other.closed,
        }
    }
}

/// How much the reports may take, and how much they do.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) limit: usize,
    /// The limit without what is left for chunks.
    usable: usize,
    /// What was measured last, with what was added since.
    pub(super) taken: Taken,
    /// How often a record or key found no place of its own, ever.
    pub(super) overflowed: u64,
    /// A key was overflowed since pressure ended last.
    overflows: bool,
    /// Running ticks may take this much before they are looked at again: more than their share after a look that found
    /// nothing to give back.
    looked_at: usize,
    /// The most that all but closed ticks took when they had to give back, since a tick closed last.
    peak: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            usable: limit - (limit / 16).min(CHUNKS_BYTES),
            ..Self::default()
        }
    }

    /// Sets what is used now; true when pressure ended, so that what was overflowed may unfold.
    pub(super) fn measure(&mut self, taken: Taken) -> bool {
        self.taken = taken;
        self.overflows && !self.exhausted(0) && std::mem::take(&mut self.overflows)
    }

    /// Adds what was taken or given back since the last [`measure`](Self::measure), none of it by closed ticks.
    pub(super) fn changed(&mut self, before: usize, after: usize) {
        self.taken.all = (self.taken.all + after).saturating_sub(before);
    }

    /// The same, of which some may be of closed ticks.
    pub(super) fn replaced(&mut self, before: Taken, after: Taken) {
        self.changed(before.all, after.all);
        self.taken.closed = (self.taken.closed + after.closed).saturating_sub(before.closed);
    }

    /// What is used, with what is kept for closed ticks.
    fn charged(&self) -> usize {
        self.taken.all + (self.usable / 4).saturating_sub(self.taken.closed)
    }

    /// Bytes that cached groups may still take.
    pub(super) fn cache_room(&self) -> usize {
        (self.usable / 16 * 15).saturating_sub(self.charged())
    }

    /// Whether no new group may be made that takes so many bytes more.
    pub(super) fn exhausted(&self, more: usize) -> bool {
        self.charged() + more > self.usable / 8 * 7
    }

    /// Whether not even groups may be made that a few of what overflows share.
    pub(super) fn exhausted_for_overflow(&self, more: usize) -> bool {
        self.charged() + more > self.usable / 16 * 15
    }

    /// Running ticks are about to give back.
    pub(super) fn exceeded(&mut self) {
        self.peak = self.peak.max(self.taken.all - self.taken.closed);
    }

    /// Bytes that running ticks have to give back, if they have to.
    pub(super) fn excess(&self) -> Option<usize> {
        let charged = self.charged();
        let is_over = charged > (self.usable / 32 * 31).max(self.looked_at);
        is_over.then(|| charged - self.usable / 16 * 15)
    }

    /// Whether all of it is used.
    pub(super) fn is_full(&self) -> bool {
        self.charged() > self.usable
    }

    /// Whether running ticks had to give back since the last one closed.
    pub(super) fn is_short(&self) -> bool {
        self.looked_at > 0
    }

    /// Running ticks have given back what they could.
    pub(super) fn looked(&mut self) {
        self.looked_at = self.charged() + self.usable / 64;
    }

    /// Ticks were closed: the next ones are looked at anew.
    pub(super) fn ticks_closed(&mut self) {
        self.looked_at = 0;
        self.peak = 0;
    }

    /// Bytes that closed ticks may take beside what the rest takes now.
    pub(super) fn closed_max(&self) -> usize {
        (self.usable / 16 * 15).saturating_sub(self.taken.all - self.taken.closed)
    }

    /// How much of it is free.
    pub(super) fn free_for_closed(&self) -> usize {
        self.closed_max().saturating_sub(self.taken.closed)
    }

    /// Bytes that samples of an aggregate may take until the second is cut: a small part of what new groups may take, or the
    /// least that is worth it.
    pub(super) fn second_max(&self) -> usize {
        let room = (self.usable / 8 * 7).saturating_sub(self.charged());
        (room / 32).max(self.little() / 4)
    }

    /// What a tick may take that has found nothing free, once.
    pub(super) fn little(&self) -> usize {
        self.usable / 64
    }

    /// The same beside what the rest would have taken in this tick, had there been more.
    pub(super) fn closed_wanted(&self) -> usize {
        let wanted = (self.usable / 16 * 15).saturating_sub(self.peak);
        self.closed_max().min(wanted.max(self.usable / 4))
    }

    /// So many records or keys found no place of their own.
    pub(super) fn overflowed(&mut self, keys: u64) {
        self.overflowed += keys;
        self.overflows |= keys > 0;
    }
}
