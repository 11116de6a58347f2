//! Raw requests: cyclic columns, made at start.
//!
//! Row `id` lies in slot `id % size`; ids count up from 1 and are never used again. The columns are zeroed pages
//! that the system hands over when they are first written, so an empty pool costs next to nothing. Only the merger
//! appends and evicts; readers look on under the lock that covers the whole pool.
//!
//! ```text
//!            oldest          next
//!              v               v
//!   [ new new | old old old old |     ]   wraps: slot of `next` comes after the last slot
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
    size: u64,
    oldest: u64,
    next: u64,
    /// Slot of `next`.
    slot: usize,
}

impl RequestPool {
    /// A pool for `size` rows; 0 keeps none.
    pub(super) fn new(size: usize) -> Self {
        Self {
            columns: Columns::new(size),
            size: size as u64,
            oldest: 1,
            next: 1,
            slot: 1 % size.max(1),
        }
    }

    /// Whether another row needs the oldest to go first.
    pub(super) fn is_full(&self) -> bool {
        self.next - self.oldest >= self.size
    }

    /// Appends a row and returns its id. With size 0 the id counts on and nothing is kept.
    pub(super) fn append(&mut self, row: &RequestRow) -> u64 {
        let id = self.next;
        self.next += 1;
        if self.size == 0 {
            self.oldest = self.next;
            return id;
        }
        debug_assert!(id - self.oldest < self.size, "evict before you append");
        self.columns.set(self.slot, row);
        self.slot += 1;
        if self.slot as u64 == self.size {
            self.slot = 0;
        }
        id
    }

    /// Drops every row with an id below `id`.
    pub(super) fn evict_before(&mut self, id: u64) {
        self.oldest = id.clamp(self.oldest, self.next);
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
            .then(|| self.columns.get((id % self.size) as usize))
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
        let mut pool = RequestPool::new(3);
        for n in 1..=10u32 {
            if pool.is_full() {
                pool.evict_before(pool.oldest_id() + 1);
            }
            assert_eq!(pool.append(&row(n)), u64::from(n));
        }
        assert_eq!(pool.len(), 3);
        assert_eq!(pool.get(7), None);
        assert_eq!(pool.get(11), None);
        for n in 8..=10u32 {
            assert_eq!(pool.get(u64::from(n)), Some(row(n)));
        }
    }

    #[test]
    fn without_rows_ids_still_count() {
        let mut pool = RequestPool::new(0);
        assert_eq!(pool.append(&row(1)), 1);
        assert_eq!(pool.append(&row(2)), 2);
        assert_eq!(pool.get(1), None);
        assert!(pool.is_empty());
    }
}
