//! The rows of one time, in little memory: the gain of each key.
//!
//! A row has a fixed size, and one allocation. Each second adds a few times to it, appended as a
//! run; only when there is no room for another are all runs merged, leaving as much room after it.
//! Rows are identified by ids, 64 bits of a keyed hash: keys are not compared.
//!
//! ```text
//!   bytes of a row:  | key | length | pairs | length | pairs | ..          pairs as `report::encoded_gain` has them
//! ```

use std::hint::black_box;
use std::iter;
use std::ops::Range;

use ahash::RandomState;
use hashbrown::HashTable;

use crate::delta::RowKey;
use crate::history::dataset::Coverage;
use crate::history::histogram::lead;
use crate::history::row::StoredRow;
use crate::report::OTHER_ID;
use crate::report::encoded_gain::{PairSums, Pairs, write_pairs};
use crate::report::histogram::BucketLayout;
use crate::report::totals::{Extremes, NarrowTotals, Totals};
use crate::value::row_memory::Weight;
use crate::value::varint;

/// Bytes of a row without its own: itself, its id, its slot in the index, and the allocator's
/// overhead.
pub(super) const ROW_BYTES: usize = size_of::<KeptRow>() + size_of::<u64>() + 8 + 16;

/// Rows after the last one to check before using the index.
const NEAR: usize = 4;
/// Rows prefetched at once: memory takes as long for one as for all of them.
const AHEAD: usize = 16;
/// Smallest room for later runs.
const SPARE_MIN: usize = 32;

/// An addition to a row: sums, extremes and pairs; `None` if these are unknown.
pub(super) type Gained<'a> = (&'a Totals, &'a Extremes, Option<&'a [u8]>);

/// Rows by id.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<KeptRow>,
    /// Ids of the rows.
    ids: Vec<u64>,
    /// Index of rows by id.
    index: HashTable<u32>,
    /// Index after the row last added to, since additions come in the same order each time.
    next: usize,
    /// Rows that were prefetched.
    ahead: Range<usize>,
    /// Bytes allocated by rows.
    heap_bytes: usize,
}

/// A row: two cache lines, since each second writes to all of them.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::history) struct KeptRow {
    sums: NarrowTotals,
    /// What does not fit there.
    beyond: Option<Box<Totals>>,
    extremes: Extremes,
    bytes: Vec<u8>,
    key_len: u32,
    /// Whether all additions had a histogram.
    has_histogram: bool,
    /// The file of the log of seconds that has its key: a short number, or 0.
    logged_in: u16,
}

const _: () = assert!(size_of::<KeptRow>() == 128);

/// Working memory.
#[derive(Debug, Default)]
pub(in crate::history) struct Scratch {
    run: Vec<u8>,
    sums: PairSums,
}

impl Rows {
    /// Adds to the row with this id and key. Returns whether this file of the log of seconds, if
    /// there is one, has the key already; from now on it has.
    pub(super) fn add(
        &mut self,
        (id, key): (u64, &RowKey<'_>),
        gained: Gained<'_>,
        scratch: &mut Scratch,
        file: u16,
    ) -> bool {
        let place = self.place(id, key);
        if !self.ahead.contains(&place) {
            self.ahead = place..place + AHEAD;
            self.rows[place..].iter().take(AHEAD).for_each(|row| {
                black_box((row.sums.requests, row.bytes.last().copied()));
            });
        }
        let row = &mut self.rows[place];
        self.heap_bytes -= row.heap_bytes();
        row.add(gained, scratch);
        self.heap_bytes += row.heap_bytes();
        std::mem::replace(&mut row.logged_in, file) == file
    }

    /// The index of a row, created if missing.
    fn place(&mut self, id: u64, key: &RowKey<'_>) -> usize {
        let near = self.ids[self.next..].iter().take(NEAR).position(|&it| it == id);
        let place = near.map(|near| self.next + near).or_else(|| {
            self.index.find(id, |&at| self.ids[at as usize] == id).map(|&at| at as usize)
        });
        let place = place.unwrap_or_else(|| self.push(id, KeptRow::new(&key.bytes())));
        self.next = place + 1;
        place
    }

    fn push(&mut self, id: u64, row: KeptRow) -> usize {
        let place = self.rows.len();
        if place == self.rows.capacity() {
            self.rows.reserve_exact((place / 4).max(1));
            self.ids.reserve_exact((place / 4).max(1));
        }
        self.heap_bytes += row.heap_bytes();
        self.rows.push(row);
        self.ids.push(id);
        let ids = &self.ids;
        self.index.insert_unique(id, place as u32, |&at| ids[at as usize]);
        place
    }

    /// The rows, and of each whether it is the overflow row.
    pub(super) fn rows(&self) -> impl Iterator<Item = (bool, &KeptRow)> {
        self.ids.iter().map(|id| *id == OTHER_ID).zip(&self.rows)
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.rows.capacity() * size_of::<KeptRow>()
            + self.ids.capacity() * size_of::<u64>()
            + self.index.allocation_size()
            + self.heap_bytes
    }

    /// Merges the rows up to one weight into the overflow row, and drops the histograms of those up
    /// to another; returns how many these were, as missing.
    pub(super) fn fold(
        &mut self,
        other_key: &[u8],
        [folded_to, dropped_to]: [Option<Weight>; 2],
        tie: &RandomState,
    ) -> Coverage {
        let (mut scratch, mut times) = (Scratch::default(), Scratch::default());
        let mut cover = Coverage::default();
        let all = std::mem::take(self);
        for (id, mut row) in all.ids.into_iter().zip(all.rows) {
            let weight = Some(row.weight(tie));
            let is_other = id == OTHER_ID;
            if is_other || weight <= folded_to {
                let times = row.has_histogram.then(|| row.merged(&[], &[], &mut times));
                let gained = (&row.totals(), &row.extremes, times);
                self.add((OTHER_ID, &RowKey::Bytes(other_key)), gained, &mut scratch, 0);
                cover.keys_folded += u64::from(!is_other);
                continue;
            }
            if weight <= dropped_to && row.drop_histogram() {
                cover.histograms_dropped += 1;
            }
            self.push(id, row);
        }
        cover
    }
}

impl KeptRow {
    fn new(key: &[u8]) -> Self {
        Self {
            sums: NarrowTotals::ZERO,
            beyond: None,
            extremes: Extremes::NOTHING,
            bytes: key.to_vec(),
            key_len: key.len() as u32,
            has_histogram: true,
            logged_in: 0,
        }
    }

    pub(in crate::history) fn key(&self) -> &[u8] {
        &self.bytes[..self.key_len as usize]
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + 16 + self.beyond.iter().len() * size_of::<Totals>()
    }

    /// Bytes freed by dropping the histogram.
    pub(super) fn histogram_bytes(&self) -> usize {
        self.bytes.capacity() - self.key_len as usize
    }

    fn add(&mut self, (totals, extremes, times): Gained<'_>, scratch: &mut Scratch) {
        let sums = &mut self.sums;
        let fits = |more: &NarrowTotals| {
            // Rows of coverage may have more errors than requests.
            sums.has_room() && sums.errors.checked_add(more.errors).is_some()
        };
        match NarrowTotals::of(totals).filter(fits) {
            Some(more) => sums.add(&more),
            None => **self.beyond.get_or_insert_default() += totals,
        }
        self.extremes.widen(extremes);
        match times {
            Some(times) if self.has_histogram => self.add_run(times, scratch),
            _ => {
                self.drop_histogram();
            }
        }
    }

    fn add_run(&mut self, times: &[u8], scratch: &mut Scratch) {
        if times.is_empty() {
            return;
        }
        let len = varint::bytes(times.len() as u64) + times.len();
        let mut run = times;
        if self.bytes.len() + len > self.bytes.capacity() {
            run = self.merged(&[], times, scratch);
            self.bytes.truncate(self.key_len as usize);
            self.bytes.reserve_exact(2 * run.len() + SPARE_MIN);
        }
        varint::push(&mut self.bytes, run.len() as u128);
        self.bytes.extend_from_slice(run);
    }

    /// Its runs, and one more, merged into one behind some bytes.
    fn merged<'s>(&self, lead: &[u8], more: &[u8], scratch: &'s mut Scratch) -> &'s [u8] {
        let Scratch { run, sums } = scratch;
        run.clear();
        run.extend_from_slice(lead);
        let mut runs = self.runs();
        match (runs.next(), runs.next()) {
            (Some(only), None) if more.is_empty() => run.extend_from_slice(only.bytes),
            _ => {
                self.runs().for_each(|run| sums.add(run));
                sums.add(Pairs::of(more));
                write_pairs(run, sums.drain());
            }
        }
        run
    }

    fn runs(&self) -> impl Iterator<Item = Pairs<'_>> {
        let mut rest = &self.bytes[self.key_len as usize..];
        iter::from_fn(move || {
            let len = (!rest.is_empty()).then(|| varint::take(&mut rest))?;
            let (run, behind) = rest.split_at_checked(len as usize)?;
            rest = behind;
            Some(Pairs::of(run))
        })
    }

    /// Drops its histogram; returns whether it had one.
    fn drop_histogram(&mut self) -> bool {
        self.bytes.truncate(self.key_len as usize);
        self.bytes.shrink_to_fit();
        std::mem::replace(&mut self.has_histogram, false)
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = self.sums.totals();
        self.beyond.iter().for_each(|beyond| totals += beyond);
        totals
    }

    /// The row of a time, with its histogram encoded.
    pub(in crate::history) fn encoded<'s>(
        &'s self,
        (time, is_other): (u64, bool),
        buckets: &BucketLayout,
        scratch: &'s mut Scratch,
    ) -> StoredRow<'s> {
        StoredRow {
            time,
            key: self.key(),
            is_other,
            totals: self.totals(),
            extremes: self.extremes,
            histogram: self.has_histogram.then(|| self.merged(&[lead(buckets)], &[], scratch)),
        }
    }

    /// Decides which rows stay: time and requests, then chance.
    pub(super) fn weight(&self, tie: &RandomState) -> Weight {
        let totals = self.totals();
        let time = u64::try_from(totals.time).unwrap_or(u64::MAX);
        (time.saturating_add(totals.requests), tie.hash_one(self.key()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Rows {
        /// The same as [`bytes`](Self::bytes), with those of each row counted again.
        pub(in crate::history) fn counted_bytes(&self) -> usize {
            let of_rows: usize = self.rows.iter().map(KeptRow::heap_bytes).sum();
            self.bytes() - self.heap_bytes + of_rows
        }
    }
}
