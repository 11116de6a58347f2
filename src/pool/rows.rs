//! Cyclic columns of rows, allocated at start, for raw requests and raw timers.
//!
//! Row `id` lies in slot `id % slots`; ids count up from 1 and are never reused. The columns are
//! zeroed pages that the system provides on first write, so an empty pool costs next to nothing.
//! Only the merger appends and evicts; readers use the lock that covers the whole pool.
//!
//! An evicted row stays in place for a while: there are more slots than rows, and a query that
//! began before the eviction may still read it ([`Rows::slices`]). It is gone when its slot is
//! written again, or a little later.
//!
//! ```text
//!       held      oldest          next
//!         v         v               v
//!   [ new | left left | old old old old |   ]   wraps: slot of `next` comes after the last slot
//! ```

use std::ops::Range;

/// The columns of one kind of row, all of equal length.
pub trait Columns {
    /// A row as appended and read.
    type Row;
    /// The columns of adjacent rows.
    type Slices<'a>
    where
        Self: 'a;
    /// Bytes of a row over all columns.
    const ROW_BYTES: usize;
    /// Columns with this many slots.
    fn new(slots: usize) -> Self;
    /// Writes a row.
    fn set(&mut self, slot: usize, row: &Self::Row);
    /// Reads a row.
    fn get(&self, slot: usize) -> Self::Row;
    /// Reads adjacent rows.
    fn slices(&self, slots: Range<usize>) -> Self::Slices<'_>;
}

/// Declares a row, its columns and slices of them, from one list.
macro_rules! columns {
    (
        $(#[$row_doc:meta])* $row:ident, $columns:ident, $slices:ident;
        $( $(#[$doc:meta])* $name:ident: $type:ty, )+
    ) => {
        $(#[$row_doc])*
        #[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $row { $( $(#[$doc])* pub $name: $type, )+ }

        #[doc = concat!("The columns of [`", stringify!($row), "`].")]
        #[derive(Debug)]
        pub struct $columns { $($name: Box<[$type]>),+ }

        impl $crate::pool::rows::Columns for $columns {
            type Row = $row;
            type Slices<'a> = $slices<'a>;
            const ROW_BYTES: usize = 0 $(+ size_of::<$type>())+;

            fn new(slots: usize) -> Self {
                // `vec![0; n]` asks for zeroed pages, which cost nothing until they are written.
                Self { $($name: vec![<$type>::default(); slots].into_boxed_slice()),+ }
            }

            #[inline]
            fn set(&mut self, slot: usize, row: &$row) {
                $(self.$name[slot] = row.$name;)+
            }

            #[inline]
            fn get(&self, slot: usize) -> $row {
                $row { $($name: self.$name[slot]),+ }
            }

            fn slices(&self, slots: std::ops::Range<usize>) -> $slices<'_> {
                $slices { $($name: &self.$name[slots.clone()]),+ }
            }
        }

        /// Columns of adjacent rows.
        #[derive(Debug, Clone, Copy)]
        pub struct $slices<'a> { $( $(#[$doc])* pub $name: &'a [$type], )+ }
    };
}
pub(super) use columns;

/// Rows of one kind.
#[derive(Debug)]
pub struct Rows<C> {
    pub(super) columns: C,
    /// Most rows.
    size: u64,
    /// Slots: rows and spares.
    slots: u64,
    /// The oldest row still in its slot; never after `oldest`.
    held: u64,
    oldest: u64,
    next: u64,
    /// Slot of `next`.
    slot: usize,
}

impl<C: Columns> Rows<C> {
    /// Room for `size` rows, and `spare` evicted ones that may still be read; 0 keeps none.
    pub(super) fn new(size: usize, spare: usize) -> Self {
        let slots = if size == 0 { 0 } else { size + spare };
        Self {
            columns: C::new(slots),
            size: size as u64,
            slots: slots as u64,
            held: 1,
            oldest: 1,
            next: 1,
            slot: 1 % slots.max(1),
        }
    }

    /// Continues with this id, without rows.
    pub(super) fn go_on_from(&mut self, id: u64) {
        self.held = id;
        self.oldest = id;
        self.next = id;
        self.slot = (id % self.slots.max(1)) as usize;
    }

    /// Capacity in rows.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Rows that can be appended before the oldest have to be evicted.
    pub(super) fn room(&self) -> u64 {
        self.size - (self.next - self.oldest)
    }

    /// Slots that can be written before held rows have to be released.
    pub(super) fn slots_left(&self) -> u64 {
        self.slots - (self.next - self.held)
    }

    /// Appends rows and returns the id of the first; the caller has made room. With size 0 the ids
    /// count on and nothing is kept.
    #[inline]
    pub(super) fn append(&mut self, rows: &[C::Row]) -> u64 {
        let id = self.next;
        self.next += rows.len() as u64;
        if self.size == 0 {
            self.oldest = self.next;
            self.held = self.next;
            return id;
        }
        debug_assert!(self.next - self.oldest <= self.size, "evict before you append");
        debug_assert!(self.next - self.held <= self.slots, "let go before you append");
        for row in rows {
            self.columns.set(self.slot, row);
            self.slot += 1;
            if self.slot as u64 == self.slots {
                self.slot = 0;
            }
        }
        id
    }

    /// Evicts every row with an id below `id`; running queries may still read them.
    pub(super) fn evict_before(&mut self, id: u64) {
        self.oldest = id.clamp(self.oldest, self.next);
    }

    /// Releases evicted rows with ids below `id`.
    pub(super) fn let_go_before(&mut self, id: u64) {
        self.held = id.clamp(self.held, self.oldest);
    }

    /// Id of the oldest row that running queries can still read.
    pub fn held_id(&self) -> u64 {
        self.held
    }

    /// Id of the oldest live row; equals [`next_id`](Self::next_id) if there is none.
    pub fn oldest_id(&self) -> u64 {
        self.oldest
    }

    /// Id of the next row.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Number of live rows.
    pub fn len(&self) -> usize {
        (self.next - self.oldest) as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.next == self.oldest
    }

    /// The row of `id`, if it is live.
    pub fn get(&self, id: u64) -> Option<C::Row> {
        let slot = self.held_slot(id).filter(|_| id >= self.oldest)?;
        Some(self.columns.get(slot))
    }

    /// The row of `id`, if it is held: live, or recently evicted.
    pub fn held(&self, id: u64) -> Option<C::Row> {
        Some(self.columns.get(self.held_slot(id)?))
    }

    /// The slot of row `id`, if it is held.
    pub(super) fn held_slot(&self, id: u64) -> Option<usize> {
        (self.held..self.next).contains(&id).then(|| (id % self.slots) as usize)
    }

    /// The columns of these rows, in two parts where they wrap; `None` if one of them is no longer
    /// held.
    pub fn slices(&self, ids: Range<u64>) -> Option<[C::Slices<'_>; 2]> {
        if ids.start >= ids.end {
            return Some([0..0, 0..0].map(|slots| self.columns.slices(slots)));
        }
        if ids.start < self.held || ids.end > self.next {
            return None;
        }
        let first = (ids.start % self.slots) as usize;
        let rows = (ids.end - ids.start) as usize;
        let unwrapped = rows.min(self.slots as usize - first);
        let parts = [first..first + unwrapped, 0..rows - unwrapped];
        Some(parts.map(|slots| self.columns.slices(slots)))
    }
}

/// The first of these ids for which `is_before` is false; the ids are sorted by it. `None` if
/// that is not known of one of them.
pub fn first_from(ids: Range<u64>, is_before: impl Fn(u64) -> Option<bool>) -> Option<u64> {
    let Range { mut start, mut end } = ids;
    while start < end {
        let middle = start + (end - start) / 2;
        match is_before(middle)? {
            true => start = middle + 1,
            false => end = middle,
        }
    }
    Some(start)
}
