//! A reading: one report at one moment, independent of the engine.
//!
//! The engine fills it under its lock; layouts, sorting and output use it afterwards, without the
//! lock.

use crate::pool::strings::OTHER_TEXT;
use crate::report::definition::Definition;
use crate::report::histogram::{BucketLayout, Histogram, Rank, within};
use crate::report::row_key::key_texts;
use crate::report::totals::{Extremes, Totals};

/// Bytes of a report's row in an answer in progress, with all columns and their percentiles:
/// measured.
pub(crate) const ANSWER_ROW_BYTES: usize = 230;

/// The parts wanted in addition to totals; each costs time, and some of it under the lock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Want {
    /// Keys.
    pub keys: bool,
    /// Quantiles at `Reading::ranks`.
    pub quantiles: bool,
    /// Whole histograms, as (bucket, count).
    pub histograms: bool,
}

impl Want {
    /// Whether any wanted part needs histograms.
    pub const fn has_histograms(&self) -> bool {
        self.quantiles || self.histograms
    }
}

/// One report at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The report's window in seconds.
    pub window_secs: f64,
    /// Whole seconds from the oldest data to now: at least 1, at most the window; 0 without data.
    pub covered_secs: u64,
    /// Wall-clock milliseconds since 1970 at the moment of reading.
    pub as_of_ms: u64,
    /// Sum over all rows.
    pub grand: Totals,
    /// One per row.
    pub totals: Vec<Totals>,
    /// Empty, or one per row.
    pub extremes: Vec<Extremes>,
    /// Row-major: `keys` values per row.
    pub(in crate::report) key_cells: Vec<KeyCell>,
    /// The text that key cells refer to.
    pub(in crate::report) text: String,
    /// Keys per row.
    pub(in crate::report) keys: usize,
    /// Row-major, [`Reading::ranks`] values per row, in seconds; NaN if unknown (there was no
    /// memory for the row's histogram).
    pub(in crate::report) quantiles: Vec<f64>,
    /// Number of quantiles per row: the median first, then the definition's percentiles in order.
    pub(in crate::report) ranks: usize,
    /// Empty, or one sparse histogram per row: (bucket, count), buckets ascending.
    pub histograms: Vec<Vec<(u32, u64)>>,
}

/// Place and length of the text of one key value of a [`Reading`]; `None` in the overflow row.
pub(in crate::report) type KeyCell = Option<(u32, u32)>;

impl Reading {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.totals.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.totals.is_empty()
    }

    /// Removes all rows, keeps the memory.
    pub(in crate::report) fn clear(&mut self) {
        self.grand = Totals::ZERO;
        self.totals.clear();
        self.extremes.clear();
        self.key_cells.clear();
        self.text.clear();
        self.quantiles.clear();
        self.histograms = Vec::new();
    }

    /// These rows alone, in this order.
    pub(in crate::report) fn only(&self, rows: &[usize]) -> Self {
        fn of<T: Clone>(items: &[T], each: usize, rows: &[usize]) -> Vec<T> {
            let rows = rows.iter().filter(|_| !items.is_empty());
            rows.flat_map(|row| &items[row * each..][..each]).cloned().collect()
        }
        Self {
            totals: of(&self.totals, 1, rows),
            extremes: of(&self.extremes, 1, rows),
            key_cells: of(&self.key_cells, self.keys, rows),
            text: self.text.clone(),
            quantiles: of(&self.quantiles, self.ranks, rows),
            histograms: of(&self.histograms, 1, rows),
            ..*self
        }
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        fn of<T>(items: &Vec<T>) -> usize {
            items.capacity() * size_of::<T>()
        }
        of(&self.totals)
            + of(&self.extremes)
            + of(&self.key_cells)
            + self.text.capacity()
            + of(&self.quantiles)
            + of(&self.histograms)
            + self.histograms.iter().map(of).sum::<usize>()
    }

    /// The text of key number `key` of row `row`, also of a status; `None` in the overflow row.
    ///
    /// # Panics
    /// If either is out of range: callers take both from this reading and its definition.
    pub fn key(&self, row: usize, key: usize) -> Option<&str> {
        let (at, len) = self.key_cells[row * self.keys + key]?;
        Some(self.text.get(at as usize..(at + len) as usize).unwrap_or_default())
    }

    /// Whether it is the overflow row.
    pub fn is_other(&self, row: usize) -> bool {
        (0..self.keys).any(|key| self.key(row, key).is_none())
    }

    /// Quantile number `rank` of a row in seconds: 0 is the median, 1.. are the definition's
    /// percentiles. `None` if the histogram is unknown (out of memory budget) or was not requested.
    ///
    /// A bucket may extend beyond the times in it: where the shortest and the longest are kept,
    /// quantiles stay between them.
    pub fn quantile(&self, row: usize, rank: usize) -> Option<f64> {
        let value = *self.quantiles.get(row * self.ranks + rank)?;
        let bounds = self.extremes.get(row).and_then(Extremes::times_secs);
        (!value.is_nan()).then(|| within(value, bounds))
    }

    /// Rows that were added up elsewhere: the texts of their keys, whether those that read
    /// `(other)` stand for others, sums and extremes. No histogram is known yet.
    pub(crate) fn of_rows<'a>(
        definition: &Definition,
        rows: impl Iterator<Item = (&'a [u8], bool, Totals, Extremes)>,
    ) -> Self {
        let mut reading = Self {
            keys: definition.keys.len(),
            ranks: definition.ranks().len(),
            ..Self::default()
        };
        for (key, is_other, totals, extremes) in rows {
            reading.grand += &totals;
            reading.totals.push(totals);
            if definition.extremes {
                reading.extremes.push(extremes);
            }
            for text in key_texts(key).take(reading.keys) {
                let is_other = is_other && text == OTHER_TEXT;
                let cell = if is_other { None } else { reading.cell(text) };
                reading.key_cells.push(cell);
            }
        }
        reading.quantiles = vec![f64::NAN; reading.len() * reading.ranks];
        reading
    }

    /// Makes the histogram of a row known; its quantiles are what `settle` makes of them.
    pub(crate) fn know(
        &mut self,
        row: usize,
        definition: &Definition,
        histogram: &Histogram,
        settle: impl Fn(f64) -> f64,
        ends: impl Fn(u32) -> (u64, u64),
    ) {
        let mut quantiles = Vec::with_capacity(self.ranks);
        let (ranks, time_us) = (definition.ranks(), self.totals[row].time);
        push_quantiles(&mut quantiles, definition, &ranks, time_us, histogram.iter(), settle, ends);
        self.quantiles[row * self.ranks..][..self.ranks].copy_from_slice(&quantiles);
    }

    /// Stores the text of a key and returns its cell.
    pub(in crate::report) fn cell(&mut self, text: &str) -> KeyCell {
        let at = self.text.len() as u32;
        self.text.push_str(text);
        Some((at, text.len() as u32))
    }
}

/// Appends the quantiles of a row with this histogram, which are what `settle` makes of them, and
/// between the shortest and the longest time as far as these can be told; where they are kept,
/// [`Reading::quantile`] limits them.
pub(in crate::report) fn push_quantiles(
    to: &mut Vec<f64>,
    definition: &Definition,
    ranks: &[Rank],
    time_us: u128,
    pairs: impl Iterator<Item = (u32, u64)> + Clone,
    settle: impl Fn(f64) -> f64,
    ends: impl Fn(u32) -> (u64, u64),
) {
    let (begin, total) = (to.len(), pairs.clone().map(|(_, count)| count).sum());
    definition.buckets.quantiles(ranks, total, pairs.clone(), to);
    let quantiles = &mut to[begin..];
    if total > 0 {
        quantiles.iter_mut().for_each(|quantile| *quantile = settle(*quantile));
    }
    let from = definition.bounded_from().min(quantiles.len());
    let bounded = &mut quantiles[from..];
    if definition.extremes || bounded.is_empty() {
        return;
    }
    let bounds = BucketLayout::bounds_of(time_us, pairs, ends);
    bounded.iter_mut().for_each(|quantile| *quantile = within(*quantile, bounds));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quantile_is_beyond_the_shortest_and_the_longest_time() {
        let seen = |time_min| Extremes { time_min, time_max: 2_000_000, memory_peak_max: 0 };
        let mut reading = Reading {
            quantiles: vec![0.5, 2.01, 0.5, f64::NAN, 0.0, 0.005],
            ranks: 2,
            extremes: vec![seen(502_000), seen(1), Extremes::NOTHING],
            ..Reading::default()
        };
        let all = |reading: &Reading| -> Vec<Option<f64>> {
            let cells = (0..3).flat_map(|row| [(row, 0), (row, 1)]);
            cells.map(|(row, rank)| reading.quantile(row, rank)).collect()
        };
        let (half, none, zero) = (Some(0.5), None, Some(0.0));
        let empty = Some(0.005);
        assert_eq!(all(&reading), [Some(0.502), Some(2.0), half, none, zero, empty]);
        // Pinba's kinds keep no extremes: they show their buckets.
        reading.extremes.clear();
        assert_eq!(all(&reading), [half, Some(2.01), half, none, zero, empty]);
    }
}
