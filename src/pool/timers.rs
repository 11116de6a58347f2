//! Raw timers: cyclic columns, made at start, filled in step with the requests that own them.
//!
//! A timer's request is found through the requests' `first_timer` column, which ascends, so a timer costs twenty
//! bytes and no back reference. A request is evicted with all its timers, whichever pool was full.

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

/// The raw timers.
#[derive(Debug)]
pub struct TimerPool {
    hit_count: Box<[u32]>,
    value: Box<[f32]>,
    ru_utime: Box<[f32]>,
    ru_stime: Box<[f32]>,
    tags: Box<[u32]>,
    size: u64,
    oldest: u64,
    next: u64,
    slot: usize,
}

impl TimerPool {
    /// A pool for `size` rows.
    pub(super) fn new(size: usize) -> Self {
        Self {
            hit_count: vec![0; size].into_boxed_slice(),
            value: vec![0.0; size].into_boxed_slice(),
            ru_utime: vec![0.0; size].into_boxed_slice(),
            ru_stime: vec![0.0; size].into_boxed_slice(),
            tags: vec![0; size].into_boxed_slice(),
            size: size as u64,
            oldest: 1,
            next: 1,
            slot: 1 % size.max(1),
        }
    }

    /// Rows there are in all.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Rows that can be appended before something must go.
    pub(super) fn room(&self) -> u64 {
        self.size - (self.next - self.oldest)
    }

    /// Appends a row. The caller has made room.
    pub(super) fn append(&mut self, row: &TimerRow) {
        debug_assert!(self.room() > 0, "evict before you append");
        self.hit_count[self.slot] = row.hit_count;
        self.value[self.slot] = row.value;
        self.ru_utime[self.slot] = row.ru_utime;
        self.ru_stime[self.slot] = row.ru_stime;
        self.tags[self.slot] = row.tags;
        self.next += 1;
        self.slot += 1;
        if self.slot as u64 == self.size {
            self.slot = 0;
        }
    }

    /// Drops every row with an id below `id`.
    pub(super) fn evict_before(&mut self, id: u64) {
        self.oldest = id.clamp(self.oldest, self.next);
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
        let slot = (id % self.size) as usize;
        Some(TimerRow {
            hit_count: self.hit_count[slot],
            value: self.value[slot],
            ru_utime: self.ru_utime[slot],
            ru_stime: self.ru_stime[slot],
            tags: self.tags[slot],
        })
    }
}
