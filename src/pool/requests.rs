//! Raw requests: cyclic columns, made at start.
//!
//! Row `id` lies in slot `id % size`; ids count up from 1 and are never used again. The columns are zeroed pages
//! that the system hands over when they are first written, so an empty pool costs next to nothing. Only the merger
//! appends and evicts; readers look on under the lock that covers the whole pool.
//!
//! A row that is evicted stays where it is for a while: there are more slots than rows, and a query that began before the
//! eviction may still read it ([`RequestPool::slices`]). It is gone when its slot is written again, or a little later.
//!
//! ```text
//!       held      oldest          next
//!         v         v               v
//!   [ new | left left | old old old old |   ]   wraps: slot of `next` comes after the last slot
//! ```

/// One raw request as it is appended and read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestRow {
    /// Number in [`Origins`](super::origins::Origins).
    pub origin: u32,
    /// Number in [`TagSets`](super::tag_sets::TagSets).
    pub request_tags: u32,
    /// Monotonic milliseconds of its merge, low 32 bits.
    pub merged_ms: u32,
    /// Unix second in which it was received.
    pub timestamp: u32,
    /// Field 4 as sent (0 is shown as 1).
    pub request_count: u32,
    /// Bytes.
    pub document_size: u32,
    /// Bytes.
    pub memory_peak: u32,
    /// Bytes.
    pub memory_footprint: u32,
    /// Seconds as sent, made valid; [`micros`](crate::wire::micros) gives the number that counts.
    pub request_time: f32,
    /// Seconds, user CPU.
    pub ru_utime: f32,
    /// Seconds, system CPU.
    pub ru_stime: f32,
    /// Low 32 bits of the id of its first timer.
    pub first_timer: u32,
    /// How many timers it has.
    pub timers: u16,
}

impl RequestRow {
    /// Monotonic milliseconds of its merge; rows are kept for less than the 49 days that 32 bits span.
    #[must_use]
    pub fn merged_at(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::from((now_ms as u32).wrapping_sub(self.merged_ms)))
    }
}

/// Bytes a row takes over all columns.
pub const REQUEST_ROW_BYTES: usize = 12 * 4 + 2;

macro_rules! columns {
    ($($name:ident: $type:ty),+ $(,)?) => {
        /// The columns, each `size` long.
        #[derive(Debug)]
        struct Columns { $($name: Box<[$type]>),+ }

        impl Columns {
            fn new(size: usize) -> Self {
                // `vec![0; n]` asks for zeroed pages, which cost nothing until they are written.
                Self { $($name: vec![<$type>::default(); size].into_boxed_slice()),+ }
            }

            fn set(&mut self, slot: usize, row: &RequestRow) {
                $(self.$name[slot] = row.$name;)+
            }

            fn get(&self, slot: usize) -> RequestRow {
                RequestRow { $($name: self.$name[slot]),+ }
            }

            fn slices(&self, slots: std::ops::Range<usize>) -> RequestSlices<'_> {
                RequestSlices { $($name: &self.$name[slots.clone()]),+ }
            }
        }

        /// Columns of rows that lie side by side.
        #[derive(Debug, Clone, Copy)]
        #[expect(missing_docs, reason = "they are the columns of RequestRow")]
        pub struct RequestSlices<'a> { $(pub $name: &'a [$type]),+ }

        impl RequestSlices<'_> {
            /// Rows in it.
            #[must_use]
            pub fn len(&self) -> usize {
                self.origin.len()
            }

            /// Whether there is none.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.origin.is_empty()
            }
        }
    };
}

columns! {
    origin: u32,
    request_tags: u32,
    merged_ms: u32,
    timestamp: u32,
    request_count: u32,
    document_size: u32,
    memory_peak: u32,
    memory_footprint: u32,
    request_time: f32,
    ru_utime: f32,
    ru_stime: f32,
    first_timer: u32,
    timers: u16,
}

/// The raw requests.
#[derive(Debug)]
pub struct RequestPool {
    columns: Columns,
    /// Rows that are kept at most.
    size: u64,
    /// Slots: rows and spares.
    slots: u64,
    /// The oldest row whose slot still has it; never after `oldest`.
    held: u64,
    oldest: u64,
    next: u64,
    /// Slot of `next`.
    slot: usize,
}

impl RequestPool {
    /// A pool for `size` rows, and `spare` that left and may still be read; 0 keeps none.
    pub(super) fn new(size: usize, spare: usize) -> Self {
        let slots = if size == 0 { 0 } else { size + spare };
        Self {
            columns: Columns::new(slots),
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

    /// Rows that it has room for.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether another row needs the oldest to go first.
    pub(super) fn is_full(&self) -> bool {
        self.next - self.oldest >= self.size
    }

    /// Whether another row needs the slot of the oldest that is held.
    pub(super) fn needs_slot(&self) -> bool {
        self.next - self.held >= self.slots
    }

    /// Appends a row and returns its id. With size 0 the id counts on and nothing is kept.
    pub(super) fn append(&mut self, row: &RequestRow) -> u64 {
        let id = self.next;
        self.next += 1;
        if self.size == 0 {
            self.oldest = self.next;
            self.held = self.next;
            return id;
        }
        debug_assert!(id - self.oldest < self.size, "evict before you append");
        debug_assert!(id - self.held < self.slots, "let go before you append");
        self.columns.set(self.slot, row);
        self.slot += 1;
        if self.slot as u64 == self.slots {
            self.slot = 0;
        }
        id
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

    /// Id of the oldest row that is kept; equals [`next_id`](Self::next_id) when there is none.
    #[must_use]
    pub fn oldest_id(&self) -> u64 {
        self.oldest
    }

    /// Id that the next row will get.
    #[must_use]
    pub fn next_id(&self) -> u64 {
        self.next
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
    pub fn get(&self, id: u64) -> Option<RequestRow> {
        (self.oldest..self.next)
            .contains(&id)
            .then(|| self.columns.get((id % self.slots) as usize))
    }

    /// The row of `id`, if it is held: kept, or evicted a moment ago.
    pub(super) fn held(&self, id: u64) -> Option<RequestRow> {
        (self.held..self.next)
            .contains(&id)
            .then(|| self.columns.get((id % self.slots) as usize))
    }

    /// The columns of these rows, in two parts where they wrap; `None` when one of them is not held any more.
    #[must_use]
    pub fn slices(&self, ids: std::ops::Range<u64>) -> Option<[RequestSlices<'_>; 2]> {
        let [first, second] = super::parts(&ids, self.held..self.next, self.slots)?;
        Some([self.columns.slices(first), self.columns.slices(second)])
    }

    /// What [`RequestRow`] has as the first timer of a held row.
    #[must_use]
    pub fn first_timer(&self, id: u64) -> Option<u32> {
        (self.held..self.next)
            .contains(&id)
            .then(|| self.columns.first_timer[(id % self.slots) as usize])
    }

    /// The second in which the request of a held row was received; it does not fall from one row to the next.
    #[must_use]
    pub fn timestamp(&self, id: u64) -> Option<u32> {
        (self.held..self.next)
            .contains(&id)
            .then(|| self.columns.timestamp[(id % self.slots) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u32) -> RequestRow {
        RequestRow {
            origin: n,
            request_tags: n + 1,
            merged_ms: n + 2,
            timestamp: n + 3,
            request_count: n + 4,
            document_size: n + 5,
            memory_peak: n + 6,
            memory_footprint: n + 7,
            request_time: n as f32,
            ru_utime: 0.5,
            ru_stime: 0.25,
            first_timer: n + 8,
            timers: (n % 7) as u16,
        }
    }

    #[test]
    fn wraps_and_keeps_the_newest() {
        let mut pool = RequestPool::new(3, 2);
        for n in 1..=10u32 {
            if pool.is_full() {
                pool.evict_before(pool.oldest_id() + 1);
            }
            if pool.needs_slot() {
                pool.let_go_before(pool.held_id() + 1);
            }
            assert_eq!(pool.append(&row(n)), u64::from(n));
        }
        assert_eq!(pool.len(), 3);
        assert_eq!(pool.get(7), None);
        assert_eq!(pool.get(11), None);
        for n in 8..=10u32 {
            assert_eq!(pool.get(u64::from(n)), Some(row(n)));
        }
        assert_eq!(pool.held_id(), 6, "two more can be read");
        assert!(pool.slices(5..11).is_none() && pool.slices(6..12).is_none());
        let [first, second] = pool.slices(6..11).unwrap();
        let origins: Vec<u32> = [first.origin, second.origin].concat();
        assert_eq!(origins, [6, 7, 8, 9, 10]);
        assert_eq!((pool.timestamp(6), pool.timestamp(5)), (Some(9), None));
        assert_eq!(
            (pool.first_timer(7), pool.first_timer(11)),
            (Some(15), None)
        );
        pool.let_go_before(9);
        assert_eq!(pool.held_id(), 8, "what is kept is held");
    }

    #[test]
    fn without_rows_ids_still_count() {
        let mut pool = RequestPool::new(0, 2);
        assert_eq!(pool.append(&row(1)), 1);
        assert_eq!(pool.append(&row(2)), 2);
        assert_eq!(pool.get(1), None);
        assert!(pool.is_empty());
    }
}
