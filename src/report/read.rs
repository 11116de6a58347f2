//! Taking a reading: a report's rows are added up from the groups of its aggregate.
//!
//! Runs on the reader's thread under the lock, so it only sums, merges and copies; formulas and text come later, without
//! it. Time grows with the groups of the aggregate, not with the reports: several reports of one aggregate are read in one
//! walk.

use super::aggregate::Aggregate;
use super::counts::Histogram;
use super::definition::Definition;
use super::group_key::is_status;
use super::histogram::{BucketLayout, Ranks};
use super::reading::{Extremes, KeyCell, Reading, Want};
use super::row_map::{NO_ROW, OTHER_ROW, RowMap};
use super::totals::Totals;
use crate::pool::strings::{OTHER, StringInterner};

/// Histograms that are put together at a time for one report, bytes.
pub(super) const HISTOGRAM_BYTES_MAX: usize = 16 << 20;

/// What the histogram of one row takes at most, bytes: no layout tells more than some thousand times apart.
const ROW_BYTES_MAX: usize = 64 << 10;

/// A report that is asked for: its number in the aggregate, its definition, and what is wanted of it.
pub(super) type Requested<'a> = (usize, &'a Definition, Want);

/// A reading in the making.
struct ReadingBuilder<'a> {
    row_map: &'a RowMap,
    definition: &'a Definition,
    want: Want,
    /// Place of each row of the row_map.
    index: Vec<u32>,
    reading: Reading,
    /// Bytes of the histograms that are added up for each row; empty when none are wanted, or there are none.
    expected: Vec<usize>,
    /// Histograms of the rows at hand, and the first of these rows.
    histograms: Vec<Histogram>,
    first: usize,
}

impl ReadingBuilder<'_> {
    /// The place of the row that a group counts in.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let row = self.row_map.row_of(id);
        (row != NO_ROW).then(|| self.index[row as usize] as usize)
    }

    /// Goes on to the next rows: as many as together take `bytes_max`, at least one; false when there are none.
    fn next_rows(&mut self, bytes_max: usize) -> bool {
        let mut bytes = 0;
        let rest = &self.expected[self.first..];
        let fits = |&expected: &usize| {
            let fits = bytes == 0 || bytes + expected <= bytes_max;
            bytes += expected.clamp(1, ROW_BYTES_MAX);
            fits
        };
        let rows = rest.iter().copied().take_while(fits).count();
        self.histograms.resize_with(rows, Histogram::default);
        rows > 0
    }

    /// Adds what a group has to its row, if that is at hand.
    #[inline]
    fn add(&mut self, id: u32, histograms: [Option<&Histogram>; 2]) {
        let Some(place) = self.place(id) else { return };
        let row = place.checked_sub(self.first);
        let Some(row) = row.and_then(|row| self.histograms.get_mut(row)) else {
            return;
        };
        for histogram in histograms.into_iter().flatten() {
            row.add_all(histogram);
        }
    }

    /// Reads from the histograms at hand what is wanted.
    fn finish_rows(&mut self, buckets: BucketLayout, ranks: &Ranks) {
        let mut pairs = Vec::new();
        self.first += self.histograms.len();
        for histogram in self.histograms.drain(..) {
            histogram.pairs(&mut pairs);
            if self.want.quantiles {
                let total = pairs.iter().map(|&(_, count)| count).sum();
                let quantiles = &mut self.reading.quantiles;
                buckets.quantiles(ranks, total, pairs.iter().copied(), quantiles);
            }
            if self.want.histograms {
                self.reading.histograms.push(pairs.clone());
            }
        }
    }
}

impl Aggregate {
    /// Reports as they stand, in the order in which they are asked for; windows and time are left to the caller. The groups
    /// are walked together for all: they lie all over the memory, and fetching them is most of the work. `bytes_max`: what
    /// histograms that are put together may take at a time for one report; there is another walk for the rows that are left.
    pub(super) fn read<'a>(
        &'a self,
        requested: &[Requested<'a>],
        strings: &StringInterner,
        bytes_max: usize,
    ) -> Vec<Reading> {
        let builder = |&(report, definition, want): &Requested<'a>| {
            let row_map = self.row_map(report);
            let mut reading = Reading {
                keys: definition.keys.len(),
                ..Reading::default()
            };
            let index = self.index_rows(row_map, definition, strings, &mut reading);
            let wanted = want.quantiles || want.histograms;
            let rows = reading.totals.len();
            let expected = match wanted && self.has_histograms() {
                true => vec![0; rows],
                false => Vec::new(),
            };
            if wanted {
                reading.ranks = definition.ranks().len();
            }
            if wanted && !self.has_histograms() {
                reading.quantiles = vec![f64::NAN; rows * reading.ranks];
                reading.histograms = vec![Vec::new(); if want.histograms { rows } else { 0 }];
            }
            ReadingBuilder {
                row_map,
                definition,
                want,
                index,
                reading,
                expected,
                histograms: Vec::new(),
                first: 0,
            }
        };
        let mut builders: Vec<ReadingBuilder<'_>> = requested.iter().map(builder).collect();
        self.sum(&mut builders);
        self.distribute(&mut builders, bytes_max);
        builders
            .into_iter()
            .map(|builder| builder.reading)
            .collect()
    }

    /// The histogram of the row in place `place` of a reading made under the same lock: (bucket, count), buckets
    /// ascending. Empty when the aggregate keeps none, or has run out of memory for them.
    pub(super) fn histogram(
        &self,
        report: usize,
        definition: &Definition,
        place: usize,
    ) -> Vec<(u32, u64)> {
        let row_map = self.row_map(report);
        let mut shown = (0..row_map.end() as u32).filter(|&row| is_shown(row_map, definition, row));
        let mut pairs = Vec::new();
        if let Some(row) = shown.nth(place).filter(|_| self.has_histograms()) {
            let mut histogram = Histogram::default();
            for id in (0..self.groups.end()).filter(|&id| row_map.row_of(id) == row) {
                let of_group = self.histograms_of(id).into_iter().flatten();
                of_group.for_each(|of_group| histogram.add_all(of_group));
            }
            histogram.pairs(&mut pairs);
        }
        pairs
    }

    /// Gives every live row its place in the reading and copies its keys.
    fn index_rows(
        &self,
        row_map: &RowMap,
        definition: &Definition,
        strings: &StringInterner,
        reading: &mut Reading,
    ) -> Vec<u32> {
        let mut index = vec![NO_ROW; row_map.end()];
        let status: Vec<bool> = definition
            .keys
            .iter()
            .map(|key| {
                self.group_keys
                    .iter()
                    .any(|d| d.serves(key) && is_status(d) && is_number(d))
            })
            .collect();
        let mut rows = 0;
        for row in 0..row_map.end() as u32 {
            if !is_shown(row_map, definition, row) {
                continue;
            }
            index[row as usize] = rows;
            rows += 1;
            for (&key_id, &status) in row_map.row_key_ids(row).iter().zip(&status) {
                reading
                    .key_cells
                    .push(if row == OTHER_ROW || key_id == OTHER {
                        KeyCell::Other
                    } else if status {
                        KeyCell::Status(strings.text(key_id).parse().unwrap_or(0))
                    } else {
                        let text = strings.text(key_id);
                        let at = reading.text.len() as u32;
                        reading.text.push_str(text);
                        KeyCell::Text {
                            at,
                            len: text.len() as u32,
                        }
                    });
            }
        }
        reading.totals = vec![Totals::ZERO; rows as usize];
        if self.groups.extremes.is_some() {
            reading.extremes = vec![Extremes::NOTHING; rows as usize];
        }
        index
    }

    /// Adds up the sums of all groups, and what their histograms take.
    fn sum(&self, builders: &mut [ReadingBuilder<'_>]) {
        for id in 0..self.groups.end() {
            let mut gained = self.groups.get(id).totals;
            if let Some((_, slot)) = self.groups.running(id) {
                gained += &slot.totals();
            }
            let histograms = self.histograms_of(id).into_iter().flatten();
            let bytes: usize = histograms.map(Histogram::heap_bytes).sum();
            for builder in &mut *builders {
                let Some(place) = builder.place(id) else {
                    continue;
                };
                builder.reading.totals[place] += &gained;
                if let Some(expected) = builder.expected.get_mut(place) {
                    *expected += bytes;
                }
                if let Some(closed) = &self.groups.extremes {
                    let extremes = &mut builder.reading.extremes[place];
                    for (_, seen) in &closed[id as usize] {
                        extremes.widen(seen);
                    }
                    if let Some(seen) = self.groups.running_extremes(id) {
                        extremes.widen(seen);
                    }
                }
            }
        }
        for ReadingBuilder { reading, .. } in builders {
            for totals in &reading.totals {
                reading.grand += totals;
            }
        }
    }

    /// Adds up the histograms of all rows, some rows after the other.
    fn distribute(&self, builders: &mut [ReadingBuilder<'_>], bytes_max: usize) {
        let ranks: Vec<Ranks> = builders.iter().map(|it| it.definition.ranks()).collect();
        loop {
            let mut left = false;
            for builder in &mut *builders {
                left |= builder.next_rows(bytes_max);
            }
            if !left {
                return;
            }
            for id in 0..self.groups.end() {
                for builder in &mut *builders {
                    builder.add(id, self.histograms_of(id));
                }
            }
            for (builder, ranks) in builders.iter_mut().zip(&ranks) {
                builder.finish_rows(self.scope.buckets, ranks);
            }
        }
    }

    /// The histograms of a group: of its closed ticks and, if it has one, of the running tick.
    #[inline]
    fn histograms_of(&self, id: u32) -> [Option<&Histogram>; 2] {
        let running = self.groups.running(id).map(|(_, slot)| &slot.histogram);
        [Some(&self.groups.get(id).histogram), running]
    }
}

/// Whether a row of the row_map has a place in readings. A report without keys has one row even when nothing was counted.
fn is_shown(row_map: &RowMap, definition: &Definition, row: u32) -> bool {
    let alone = definition.keys.is_empty() && row == OTHER_ROW && row_map.len() == 0;
    row_map.groups_in(row) > 0 || alone
}

fn is_number(group_key: &super::group_key::GroupKey) -> bool {
    matches!(group_key.source, super::definition::KeySource::Field(_))
}
