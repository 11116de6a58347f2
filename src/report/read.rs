//! Taking a reading: a report's rows are added up from the groups of its aggregate.
//!
//! Runs on the reader's thread under the lock, so it only sums, merges and copies; formulas and text come later, without
//! it. Time grows with the groups of the aggregate, not with the reports: several reports of one aggregate are read in one
//! walk.

use super::aggregate::Aggregate;
use super::definition::Definition;
use super::group_key::{Names, is_status};
use super::reading::{Extremes, KeyCell, Reading, Want};
use super::row_map::{NO_ROW, OTHER_ROW, RowMap};
use super::totals::Totals;
use crate::pool::strings::{OTHER, StringInterner};

mod distribution;

pub(super) use self::distribution::PAIRS_MAX;
use self::distribution::{AT_ONCE_ROWS_MAX, Distribution, Pairs, Scratch};

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
    distribution: Distribution,
}

impl ReadingBuilder<'_> {
    /// The place of the row that a group counts in.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let row = self.row_map.row_of(id);
        (row != NO_ROW).then(|| self.index[row as usize] as usize)
    }
}

impl Aggregate {
    /// Reports as they stand, in the order in which they are asked for; windows and time are left to the caller. The groups
    /// are walked together for all: they lie all over the memory, and fetching them is most of the work. `pairs_max`: how many
    /// buckets are put in order for one report.
    pub(super) fn read<'a>(
        &'a self,
        requested: &[Requested<'a>],
        names: &Names<'_>,
        pairs_max: usize,
    ) -> Vec<Reading> {
        let builder = |&(report, definition, want): &Requested<'a>| {
            let row_map = self.row_map(report);
            let mut reading = Reading {
                keys: definition.keys.len(),
                ..Reading::default()
            };
            let index = self.index_rows(row_map, definition, names.strings, &mut reading);
            let distribution = self.distribution(want, reading.totals.len());
            ReadingBuilder {
                row_map,
                definition,
                want,
                index,
                reading,
                distribution,
            }
        };
        let mut builders: Vec<ReadingBuilder<'_>> = requested.iter().map(builder).collect();
        self.sum(&mut builders, pairs_max);
        self.gather(&mut builders);
        let finish = |builder| self.finish(builder);
        builders.into_iter().map(finish).collect()
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
        let mut merged = Vec::new();
        let Some(row) = shown.nth(place).filter(|_| self.has_histograms()) else {
            return merged;
        };
        let mut scratch = Scratch::new(self.scope.buckets);
        let mut buckets = Vec::new();
        for id in (0..self.groups.end()).filter(|&id| row_map.row_of(id) == row) {
            self.buckets(id, &mut buckets);
            scratch.add(&buckets);
        }
        scratch.take(&mut merged);
        merged
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

    /// Adds up the sums of all groups, and counts the buckets that will be gathered by row.
    fn sum(&self, builders: &mut [ReadingBuilder<'_>], pairs_max: usize) {
        for id in 0..self.groups.end() {
            let group = self.groups.get(id);
            let mut gained = group.totals;
            let mut buckets = group.histogram.len();
            if let Some((_, slot)) = self.groups.running(id) {
                gained += &slot.totals();
                buckets += slot.histogram.len();
            }
            for builder in &mut *builders {
                let Some(place) = builder.place(id) else {
                    continue;
                };
                builder.reading.totals[place] += &gained;
                if let Distribution::Pairs(pairs) = &mut builder.distribution {
                    pairs.expect(place, buckets);
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
        for builder in builders {
            let mut grand = Totals::ZERO;
            for totals in &builder.reading.totals {
                grand += totals;
            }
            builder.reading.grand = grand;
            if let Distribution::Pairs(pairs) = &mut builder.distribution
                && !pairs.make_room(pairs_max)
            {
                builder.distribution = Distribution::Walk;
            }
        }
    }

    /// How the histograms of so many rows are put together.
    fn distribution(&self, want: Want, rows: usize) -> Distribution {
        if !(want.quantiles || want.histograms) || !self.has_histograms() {
            Distribution::Nothing
        } else if rows <= AT_ONCE_ROWS_MAX {
            Distribution::AtOnce(
                (0..rows)
                    .map(|_| Scratch::new(self.scope.buckets))
                    .collect(),
            )
        } else {
            Distribution::Pairs(Pairs::new(rows))
        }
    }

    /// Takes the histograms of all groups, for the reports that can take them in any order.
    fn gather(&self, builders: &mut [ReadingBuilder<'_>]) {
        let waits = |builder: &ReadingBuilder<'_>| {
            matches!(
                builder.distribution,
                Distribution::AtOnce(_) | Distribution::Pairs(_)
            )
        };
        if !builders.iter().any(waits) {
            return;
        }
        // What a group has is taken out of its histograms once.
        let mut buckets = Vec::new();
        for id in 0..self.groups.end() {
            self.buckets(id, &mut buckets);
            for builder in &mut *builders {
                let Some(place) = builder.place(id) else {
                    continue;
                };
                match &mut builder.distribution {
                    Distribution::AtOnce(rows) => rows[place].add(&buckets),
                    Distribution::Pairs(pairs) => pairs.add(place, &buckets),
                    Distribution::Nothing | Distribution::Walk => {}
                }
            }
        }
    }

    /// The histogram of a group: (bucket, count), a bucket perhaps twice.
    fn buckets(&self, id: u32, buckets: &mut Vec<(u32, u64)>) {
        let group = self.groups.get(id);
        buckets.clear();
        buckets.extend(group.histogram.iter());
        if let Some((_, slot)) = self.groups.running(id) {
            buckets.extend(slot.histogram.iter());
        }
    }

    /// What is read from the histograms.
    fn finish(&self, builder: ReadingBuilder<'_>) -> Reading {
        let ReadingBuilder {
            row_map,
            definition,
            want,
            index,
            mut reading,
            distribution,
        } = builder;
        if !(want.quantiles || want.histograms) {
            return reading;
        }
        let rows = reading.totals.len();
        let buckets = self.scope.buckets;
        let ranks = definition.ranks();
        reading.ranks = ranks.len();
        if want.histograms {
            reading.histograms = vec![Vec::new(); rows];
        }
        if want.quantiles {
            reading.quantiles.reserve_exact(rows * ranks.len());
        }
        let mut scratch = Scratch::new(buckets);
        let mut merged = Vec::new();
        let mut row_done = |row: usize, merged: &[(u32, u64)]| {
            if want.quantiles {
                let total = merged.iter().map(|&(_, count)| count).sum();
                let pairs = merged.iter().copied();
                buckets.quantiles(&ranks, total, pairs, &mut reading.quantiles);
            }
            if want.histograms {
                reading.histograms[row] = merged.to_vec();
            }
        };
        match distribution {
            Distribution::Nothing => reading.quantiles = vec![f64::NAN; rows * ranks.len()],
            Distribution::AtOnce(scratches) => {
                for (row, mut scratch) in scratches.into_iter().enumerate() {
                    scratch.take(&mut merged);
                    row_done(row, &merged);
                }
            }
            Distribution::Pairs(mut pairs) => {
                for row in 0..rows {
                    pairs.take(row, &mut scratch, &mut merged);
                    row_done(row, &merged);
                }
            }
            Distribution::Walk => {
                let (starts, members) = self.members_by_row(row_map, &index, rows);
                let mut buckets = Vec::new();
                for row in 0..rows {
                    for &id in &members[starts[row] as usize..starts[row + 1] as usize] {
                        self.buckets(id, &mut buckets);
                        scratch.add(&buckets);
                    }
                    scratch.take(&mut merged);
                    row_done(row, &merged);
                }
            }
        }
        reading
    }

    /// Group numbers sorted by row: those of row `r` are `members[starts[r]..starts[r + 1]]`.
    fn members_by_row(&self, row_map: &RowMap, index: &[u32], rows: usize) -> (Vec<u32>, Vec<u32>) {
        let members = || {
            (0..self.groups.end()).filter_map(|id| {
                let row = row_map.row_of(id);
                (row != NO_ROW).then(|| (id, index[row as usize] as usize))
            })
        };
        let mut starts = vec![0u32; rows + 1];
        for (_, place) in members() {
            starts[place + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut sorted = vec![0; starts[rows] as usize];
        for (id, place) in members() {
            sorted[next[place] as usize] = id;
            next[place] += 1;
        }
        (starts, sorted)
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
