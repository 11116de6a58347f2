//! Sums the rows of a span by key: sums first, histograms only for rows that are looked at.
//!
//! Parts are read on as many threads as there are processors. While summing, the positions of each
//! key's rows in the files are recorded, so that only the pages with its histograms are read later.
//! Memory: a row per key, at most [`KEYS_MAX`], and no more than the memory that all answers share;
//! further ones are added to `(other)`. Histograms are read for [`ROWS_AT_ONCE`] rows at a time.

use std::fmt;
use std::sync::{Arc, LazyLock};

use ahash::RandomState;
use datafusion::execution::memory_pool::{
    GreedyMemoryPool, MemoryConsumer, MemoryPool, MemoryReservation,
};
use indexmap::IndexMap;

use super::Dataset;
use super::columns::Want;
use super::histogram::{add_to_sum, unfold};
use super::read_plan::ReadPlan;
use super::read_unit::{ReadUnit, RowsSnapshot, Run, on_all_processors};
use crate::config::units::exact_bytes;
use crate::limits::PAST_ANSWERS_BYTES_MAX;
use crate::report::encoded_gain::Sum;
use crate::report::histogram::{Histogram, LOG_LINEAR_BITS};
use crate::report::totals::{Extremes, Totals};

/// Most rows of an answer.
pub(crate) const KEYS_MAX: usize = 250_000;
/// Rows that do not count against the memory of all answers, for small answers and coverage.
const KEYS_FREE: usize = 1_000;
/// Bytes of a row in addition to its key, with its slot in a table and its display.
const ROW_BYTES: usize = 2 * size_of::<(u64, Box<[u8]>, SumRow)>() + 64;
/// Rows whose histograms are in memory at a time, with 64 buckets per doubling; with fewer,
/// proportionally more rows.
const ROWS_AT_ONCE: usize = 4_096;
/// No row.
const NONE: u32 = u32::MAX;

/// The memory of all answers.
static MEMORY: LazyLock<Arc<dyn MemoryPool>> =
    LazyLock::new(|| Arc::new(GreedyMemoryPool::new(PAST_ANSWERS_BYTES_MAX)));

/// The rows of a span.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) rows: Rows,
    histograms: Box<dyn Histograms>,
    /// Buckets of histograms per doubling, as a power of two.
    pub(crate) bits: u32,
    /// Remarks on unreadable data, and on rows without room.
    pub(crate) lacking: Vec<String>,
}

/// Takes the histogram of a row; `None` if unknown.
pub(crate) type TakeCounts<'t> = dyn FnMut(usize, Option<&Histogram>) + 't;

/// The source of histograms, read on demand.
pub(crate) trait Histograms: fmt::Debug + Send + Sync {
    /// Sums the histograms of some of the rows, and passes each to `each`. Returns an error message
    /// on failure.
    fn read(&self, from: &Rows, wanted: &[usize], each: &mut TakeCounts<'_>) -> Result<(), String>;
}

/// Histograms of this machine.
#[derive(Debug)]
struct LocalHistograms {
    dataset: Arc<Dataset>,
    /// Each with the sums that its rows are in.
    units: Vec<(ReadUnit, Vec<Run>)>,
    /// Buckets per doubling to which histograms are folded, as a power of two.
    bits: u32,
}

/// Rows by key.
#[derive(Debug)]
pub(crate) struct Rows {
    /// By key once they are summed, so that pages of an answer fit together.
    pub(crate) all: IndexMap<Box<[u8]>, SumRow, RandomState>,
    /// The key of the overflow row.
    other_key: Vec<u8>,
    memory: MemoryReservation,
    /// Whether keys have been added to `(other)` for lack of memory, as all further ones are then.
    pub(crate) is_full: bool,
}

/// A row.
#[derive(Debug)]
pub(crate) struct SumRow {
    pub(crate) is_other: bool,
    /// Its place before all were sorted.
    place: u32,
    pub(crate) totals: Totals,
    pub(crate) extremes: Extremes,
}

impl Rows {
    /// Without rows.
    pub(crate) fn new(dataset: &Dataset) -> Self {
        Self {
            other_key: dataset.other_key(),
            all: IndexMap::default(),
            memory: MemoryConsumer::new("answer over the past").register(&MEMORY),
            is_full: false,
        }
    }

    /// The row of a key, created if missing.
    pub(crate) fn of(&mut self, key: &[u8], is_other: bool) -> u32 {
        if let Some(found) = self.all.get_index_of(key) {
            return found as u32;
        }
        let has_room = |bytes: usize| match self.all.len() {
            ..KEYS_FREE => true,
            KEYS_FREE..KEYS_MAX => self.memory.try_grow(bytes).is_ok(),
            KEYS_MAX.. => false,
        };
        if !is_other && (self.is_full || !has_room(ROW_BYTES + 2 * key.len())) {
            self.is_full = true;
            return self.of(&self.other_key.clone(), true);
        }
        let place = self.all.len() as u32;
        let (totals, extremes) = (Totals::ZERO, Extremes::NOTHING);
        self.all.insert(key.into(), SumRow { is_other, place, totals, extremes });
        place
    }

    /// Adds to a row.
    pub(crate) fn add(&mut self, row: u32, totals: &Totals, extremes: &Extremes) {
        let row = &mut self.all[row as usize];
        row.totals += totals;
        row.extremes.widen(extremes);
    }

    /// Adds all rows of others; returns which row each of them is in.
    fn take(&mut self, rows: Self) -> Vec<u32> {
        if self.all.is_empty() {
            *self = rows;
            return (0..self.all.len() as u32).collect();
        }
        self.is_full |= rows.is_full;
        let moved = rows.all.iter().map(|(key, row)| {
            let to = self.of(key, row.is_other);
            self.add(to, &row.totals, &row.extremes);
            to
        });
        moved.collect()
    }

    /// Sorts the rows by key; returns the new place of each.
    pub(crate) fn sort(&mut self) -> Vec<u32> {
        self.all.sort_unstable_keys();
        let mut places = vec![NONE; self.all.len()];
        for (place, row) in (0..).zip(self.all.values()) {
            places[row.place as usize] = place;
        }
        places
    }
}

impl Sums {
    /// Sums the rows of a plan, and those that are not on disk yet.
    pub(crate) fn read(from: RowsSnapshot, dataset: &Arc<Dataset>, plan: &ReadPlan) -> Self {
        let (units, mut lacking) = ReadUnit::all(from, dataset, plan, None);
        let empty = || (Rows::new(dataset), Vec::new());
        let done = on_all_processors(units.len(), empty, |unit, (rows, found)| {
            let mut runs: Vec<Run> = Vec::new();
            let read = units[unit].rows(dataset, Want::Sums, &mut |number, row| {
                let key_of = |to: &u32| rows.all.get_index(*to as usize).map(|(key, _)| &**key);
                let last = runs.last().map(|run| run.to).filter(|to| key_of(to) == Some(row.key));
                let to = last.unwrap_or_else(|| rows.of(row.key, row.is_other));
                Run::note(&mut runs, to, number);
                rows.add(to, &row.totals, &row.extremes);
            });
            found.push((unit, runs, read));
        });
        let mut units: Vec<_> = units.into_iter().map(|unit| (unit, Vec::new())).collect();
        let mut all = Rows::new(dataset);
        for (rows, found) in done {
            let moved = all.take(rows);
            for (unit, mut runs, read) in found {
                runs.iter_mut().for_each(|run| run.to = moved[run.to as usize]);
                units[unit].1 = runs;
                lacking.extend(read.err());
            }
        }
        let places = all.sort();
        let runs = units.iter_mut().flat_map(|(_, runs)| runs);
        runs.for_each(|run| run.to = places[run.to as usize]);
        let bits = match dataset.is_log_linear() {
            true => plan.resolution.bucket_bits(),
            false => LOG_LINEAR_BITS,
        };
        let local = LocalHistograms { dataset: Arc::clone(dataset), units, bits };
        Self::of(dataset, all, Box::new(local), bits, lacking)
    }

    /// From rows summed elsewhere.
    pub(crate) fn of(
        dataset: &Dataset,
        mut rows: Rows,
        histograms: Box<dyn Histograms>,
        bits: u32,
        mut lacking: Vec<String>,
    ) -> Self {
        if dataset.keys.is_empty() {
            // It has its one row even if nothing was counted.
            rows.of(&[], false);
        }
        if rows.is_full {
            let keys = rows.all.len().saturating_sub(1);
            lacking.push(format!(
                "more than {keys} keys, for which there is no room (an answer has {KEYS_MAX} at most, all answers over the past together \
                 {}): others are in (other); ask for a shorter span",
                exact_bytes(PAST_ANSWERS_BYTES_MAX as u64)
            ));
        }
        Self { rows, histograms, bits, lacking }
    }

    /// Passes the histograms of these rows to `each`.
    pub(crate) fn histograms(&self, of: &[usize], each: &mut TakeCounts<'_>) -> Result<(), String> {
        self.histograms.read(&self.rows, of, each)
    }
}

impl Histograms for LocalHistograms {
    fn read(&self, from: &Rows, wanted: &[usize], each: &mut TakeCounts<'_>) -> Result<(), String> {
        for rows in wanted.chunks(ROWS_AT_ONCE << (LOG_LINEAR_BITS - self.bits)) {
            let mut place_of = vec![NONE; from.all.len()];
            for (place, row) in rows.iter().enumerate() {
                place_of[*row] = place as u32;
            }
            let empty = || vec![Sum::default(); rows.len()];
            let work = |unit: usize, gathered: &mut Vec<Sum>| {
                let (unit, runs) = &self.units[unit];
                let wanted = runs.iter().filter(|run| place_of[run.to as usize] != NONE);
                let read = unit.histograms(&self.dataset, wanted, &mut |row, encoded| {
                    let sum = &mut gathered[place_of[row as usize] as usize];
                    add_to_sum(sum, encoded, &self.dataset.buckets, self.bits);
                });
                // Then its sums are known, and its histograms are not.
                for sum in gathered.iter_mut().filter(|_| read.is_err()) {
                    sum.histogram = None;
                }
            };
            let gathered = on_all_processors(self.units.len(), empty, work);
            let all = gathered.into_iter().reduce(|mut all, gathered| {
                for (to, from) in all.iter_mut().zip(&gathered) {
                    to.add_sum(from);
                }
                all
            });
            for (row, mut gathered) in rows.iter().zip(all.unwrap_or_default()) {
                unfold(&mut gathered, self.bits);
                each(*row, gathered.histogram());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
