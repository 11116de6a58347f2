//! Raw timers: cyclic columns, made at start, filled in step with the requests that own them.
//!
//! A timer's request is found through the requests' `first_timer` column, which ascends, so a timer costs twenty
//! bytes and no back reference. A request is evicted with all its timers, whichever pool was full. As there, evicted rows
//! are held for a while, in spare slots.

/// One raw timer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimerRow {
    /// How many times it ran.
    pub hit_count: u32,
    /// Seconds over all hits, made valid.
    pub value: f32,
    /// Seconds, user CPU.
    pub ru_utime: f32,
    /// Seconds, system CPU.
    pub ru_stime: f32,
    /// Number in [`TagSets`](super::tag_sets::TagSets).
    pub tags: u32,
}

/// Bytes a row takes.
pub const TIMER_ROW_BYTES: usize = 5 * 4;

/// Columns of timers that lie side by side, those that tables show.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "they are columns of TimerRow")]
pub struct TimerSlices<'a> {
    pub hit_count: &'a [u32],
    pub value: &'a [f32],
    pub tags: &'a [u32],
}

/// The raw timers.
#[derive(Debug)]
pub struct TimerPool {
    hit_count: Box<[u32]>,
    value: Box<[f32]>,
    ru_utime: Box<[f32]>,
    ru_stime: Box<[f32]>,
    tags: Box<[u32]>,
    /// Rows that are kept at most.
    size: u64,
    /// Slots: rows and spares.
    slots: u64,
    /// The oldest row whose slot still has it.
    held: u64,
    oldest: u64,
    next: u64,
    slot: usize,
}

impl TimerPool {
    /// A pool for `size` rows, and `spare` that left and may still be read.
    pub(super) fn new(size: usize, spare: usize) -> Self {
        let slots = if size == 0 { 0 } else { size + spare };
        Self {
            hit_count: vec![0; slots].into_boxed_slice(),
            value: vec![0.0; slots].into_boxed_slice(),
            ru_utime: vec![0.0; slots].into_boxed_slice(),
            ru_stime: vec![0.0; slots].into_boxed_slice(),
            tags: vec![0; slots].into_boxed_slice(),
            size: size as u64,
            slots: slots as u64,
            held: 1,
            oldest: 1,
            next: 1,
            slot: 1 % slots.max(1),
        }
    }

    /// Goes on with this id after whatever came before; no row is left.
    pub(super) fn go_on_from(&mut self, id: u64) {
        self.held = id;
        self.oldest = id;
        self.next = id;
        self.slot = (id % self.slots.max(1)) as usize;
    }

    /// Rows there are in all.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Rows that can be appended before something must go.
    pub(super) fn room(&self) -> u64 {
        self.size - (self.next - self.oldest)
    }

    /// Slots that can be written before held rows must be let go.
    pub(super) fn slots_left(&self) -> u64 {
        self.slots - (self.next - self.held)
    }

    /// Appends a row. The caller has made room.
    pub(super) fn append(&mut self, row: &TimerRow) {
        debug_assert!(self.room() > 0, "evict before you append");
        debug_assert!(self.slots_left() > 0, "let go before you append");
        self.hit_count[self.slot] = row.hit_count;
        self.value[self.slot] = row.value;
        self.ru_utime[self.slot] = row.ru_utime;
        self.ru_stime[self.slot] = row.ru_stime;
        self.tags[self.slot] = row.tags;
        self.next += 1;
        self.slot += 1;
        if self.slot as u64 == self.slots {
            self.slot = 0;
        }
    }

    /// Takes every row with an id below `id` out of the pool; it is held for those who look at it already.
    pub(super) fn evict_before(&mut self, id: u64) {
        self.oldest = id.clamp(self.oldest, self.next);
    }

    /// Lets go of rows with ids below `id` that were evicted.
    pub(super) fn let_go_before(&mut self, id: u64) {
        self.held = id.clamp(self.held, self.oldest);
    }

    /// Id of the oldest row that can still be read by who began to when it was kept.
    #[must_use]
    pub fn held_id(&self) -> u64 {
        self.held
    }

    /// The columns of these rows, in two parts where they wrap; `None` when one of them is not held any more.
    #[must_use]
    pub fn slices(&self, ids: std::ops::Range<u64>) -> Option<[TimerSlices<'_>; 2]> {
        let parts = super::parts(&ids, self.held..self.next, self.slots)?;
        Some(parts.map(|slots| TimerSlices {
            hit_count: &self.hit_count[slots.clone()],
            value: &self.value[slots.clone()],
            tags: &self.tags[slots],
        }))
    }

    /// Id of the oldest row that is kept.
    #[must_use]
    pub fn oldest_id(&self) -> u64 {
        self.oldest
    }

    /// Id that the next row will get.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// The full id of which a request row kept the low half.
    #[must_use]
    pub fn full_id(&self, low: u32) -> u64 {
        // Fewer than 2^32 timers are kept, so the distance to `next` is unambiguous.
        self.next - u64::from((self.next as u32).wrapping_sub(low))
    }

    /// Rows kept now.
    #[must_use]
    pub fn len(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Whether no row is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == self.oldest
    }

    /// The row of `id`, if it is kept.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<TimerRow> {
        if !(self.oldest..self.next).contains(&id) {
            return None;
        }
        let slot = (id % self.slots) as usize;
        Some(TimerRow {
            hit_count: self.hit_count[slot],
            value: self.value[slot],
            ru_utime: self.ru_utime[slot],
            ru_stime: self.ru_stime[slot],
            tags: self.tags[slot],
        })
    }
}
