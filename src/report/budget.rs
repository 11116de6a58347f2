//! The memory budget shared by all reports.
//!
//! The memory of groups, cached groups, tick logs and histograms is measured after every merge; a
//! merge's allocations are added as they are made. A quarter is reserved for the closed ticks (tick
//! logs and histograms of the window); the part they leave unused still counts as used below.
//! Memory comes in chunks of a few hundred groups, so a sixteenth (1 MiB at most) is left out of
//! the calculation. The rest is used up in steps, and sums stay exact at each:
//!
//! | from | |
//! |---|---|
//! | 7/8 | no new group: a new key overflows, at first only in keys with unlimited values |
//! | 15/16 | a new key overflows to `(other)` in all its keys, and no cached group that needs memory is added |
//! | 15/16 | ticks close into the space up to here: if it is too small, the keys with the fewest requests in the tick overflow |
//! | 31/32 | likewise while the tick runs, until usage is back at 15/16; but first the group caches are cleared |

/// Most bytes left out of the calculation.
const CHUNKS_BYTES: usize = 1 << 20;

/// Bytes of closed ticks, and in all, of one aggregate or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MemoryUse {
    pub(super) all: usize,
    pub(super) closed: usize,
}

impl MemoryUse {
    /// Both together.
    pub(super) fn plus(self, other: Self) -> Self {
        Self { all: self.all + other.all, closed: self.closed + other.closed }
    }
}

/// Memory limit and usage of the reports.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) limit: usize,
    /// The limit without the part left out for chunks.
    usable: usize,
    /// The last measurement, plus changes since.
    pub(super) taken: MemoryUse,
    /// Records or keys that found no place of their own, since start.
    pub(super) overflowed: u64,
    /// Whether a key has overflowed since pressure last ended.
    overflows: bool,
    /// Usage at which running ticks are checked next; raised above their share after a check that
    /// found nothing to free.
    looked_at: usize,
    /// Most memory, without closed ticks, at the time when running ticks had to give some back,
    /// since the last tick closed.
    peak: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, usable: limit - (limit / 16).min(CHUNKS_BYTES), ..Self::default() }
    }

    /// Sets the current usage; returns whether pressure ended, so that overflowed keys may unfold.
    pub(super) fn measure(&mut self, taken: MemoryUse) -> bool {
        self.taken = taken;
        self.overflows && !self.exhausted(0) && std::mem::take(&mut self.overflows)
    }

    /// Adds a change since the last [`measure`](Self::measure).
    pub(super) fn replaced(&mut self, before: MemoryUse, after: MemoryUse) {
        self.taken.all = (self.taken.all + after.all).saturating_sub(before.all);
        self.taken.closed = (self.taken.closed + after.closed).saturating_sub(before.closed);
    }

    /// Usage without closed ticks.
    fn open(&self) -> usize {
        self.taken.all.saturating_sub(self.taken.closed)
    }

    /// Usage including the reserve for closed ticks.
    fn charged(&self) -> usize {
        self.taken.all + (self.usable / 4).saturating_sub(self.taken.closed)
    }

    /// Bytes still available to cached groups, and to shared groups for overflowed keys.
    pub(super) fn room(&self) -> usize {
        (self.usable / 16 * 15).saturating_sub(self.charged())
    }

    /// Whether no new group may be created that needs this many bytes.
    pub(super) fn exhausted(&self, more: usize) -> bool {
        self.charged() + more > self.usable / 8 * 7
    }

    /// Records that running ticks are about to give back memory.
    pub(super) fn exceeded(&mut self) {
        self.peak = self.peak.max(self.open());
    }

    /// Bytes that running ticks have to give back, if any.
    pub(super) fn excess(&self) -> Option<usize> {
        let charged = self.charged();
        let is_over = charged > (self.usable / 32 * 31).max(self.looked_at);
        is_over.then(|| charged - self.usable / 16 * 15)
    }

    /// Whether all of it is used.
    pub(super) fn is_full(&self) -> bool {
        self.charged() > self.usable
    }

    /// Whether running ticks had to give back memory since the last one closed.
    pub(super) fn is_short(&self) -> bool {
        self.looked_at > 0
    }

    /// Records that running ticks have given back what they could.
    pub(super) fn looked(&mut self) {
        self.looked_at = self.charged() + self.usable / 64;
    }

    /// Records that ticks were closed: the next ones are checked again.
    pub(super) fn ticks_closed(&mut self) {
        self.looked_at = 0;
        self.peak = 0;
    }

    /// Bytes available to closed ticks, given the rest's current usage.
    pub(super) fn closed_max(&self) -> usize {
        (self.usable / 16 * 15).saturating_sub(self.open())
    }

    /// Free bytes for closed ticks.
    pub(super) fn free_for_closed(&self) -> usize {
        self.closed_max().saturating_sub(self.taken.closed)
    }

    /// Most bytes of an aggregate's samples until the second is cut: a small part of the space for
    /// new groups, or the least that is worthwhile.
    pub(super) fn second_max(&self) -> usize {
        let room = (self.usable / 8 * 7).saturating_sub(self.charged());
        (room / 32).max(self.little() / 4)
    }

    /// A small allowance, once, for a tick that found nothing free.
    pub(super) fn little(&self) -> usize {
        self.usable / 64
    }

    /// Bytes wanted for closed ticks, given what the rest would have used in this tick without
    /// pressure.
    pub(super) fn closed_wanted(&self) -> usize {
        let wanted = (self.usable / 16 * 15).saturating_sub(self.peak);
        self.closed_max().min(wanted.max(self.usable / 4))
    }

    /// Counts records or keys that found no place of their own.
    pub(super) fn overflowed(&mut self, keys: u64) {
        self.overflowed += keys;
        self.overflows |= keys > 0;
    }
}
