//! Taking a reading: a report's rows put together from the groups of its family.
//!
//! Called under the lock by whoever asks, so it only sums, merges and copies; formulas and text come later, without
//! the lock. Time grows with the groups of the family, and is theirs rather than the reports': several reports of a family
//! are read in one go, which takes about half as long as one after the other.

use super::definition::Definition;
use super::dimension::{Names, is_status};
use super::family::Family;
use super::projection::{NO_ROW, OTHER_ROW, Projection};
use super::reading::{Extremes, Lane, Reading, Want};
use super::totals::Totals;
use crate::pool::words::{OTHER, Words};

mod spread;

pub(super) use self::spread::PAIRS_MAX;
use self::spread::{AT_ONCE_ROWS_MAX, Pairs, Scratch, Spread};

/// A report that is asked for: its number in the family, its definition, and what is wanted of it.
pub(super) type Asked<'a> = (usize, &'a Definition, Want);

/// A reading in the making.
struct Sheet<'a> {
    projection: &'a Projection,
    definition: &'a Definition,
    want: Want,
    /// Place of each row of the projection.
    index: Vec<u32>,
    reading: Reading,
    spread: Spread,
}

impl Sheet<'_> {
    /// The place of the row that a group counts in.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let row = self.projection.row_of(id);
        (row != NO_ROW).then(|| self.index[row as usize] as usize)
    }
}

impl Family {
    /// Reports as they stand, in the order in which they are asked for; windows and time are left to the caller. The groups
    /// are walked together for all: they lie all over the memory, and fetching them is most of the work. `pairs_max`: how many
    /// buckets are put in order for one report.
    pub(super) fn read<'a>(
        &'a self,
        asked: &[Asked<'a>],
        names: &Names<'_>,
        pairs_max: usize,
    ) -> Vec<Reading> {
        let sheet = |&(report, definition, want): &Asked<'a>| {
            let projection = self.projection(report);
            let mut reading = Reading {
                keys: definition.keys.len(),
                ..Reading::default()
            };
            let index = self.index_rows(projection, definition, names.words, &mut reading);
            let spread = self.spread(want, reading.totals.len());
            Sheet {
                projection,
                definition,
                want,
                index,
                reading,
                spread,
            }
        };
        let mut sheets: Vec<Sheet<'_>> = asked.iter().map(sheet).collect();
        self.sum(&mut sheets, pairs_max);
        self.gather(&mut sheets);
        let finish = |sheet| self.finish(sheet);
        sheets.into_iter().map(finish).collect()
    }

    /// The histogram of the row in place `place` of a reading made under the same lock: (bucket, count), buckets
    /// ascending. Empty when the family keeps none, or has run out of memory for them.
    pub(super) fn histogram(
        &self,
        report: usize,
        definition: &Definition,
        place: usize,
    ) -> Vec<(u32, u64)> {
        let projection = self.projection(report);
        let mut shown =
            (0..projection.end() as u32).filter(|&row| is_shown(projection, definition, row));
        let mut merged = Vec::new();
        let Some(row) = shown.nth(place).filter(|_| self.has_histograms()) else {
            return merged;
        };
        let mut scratch = Scratch::new(self.scope.layout);
        let mut buckets = Vec::new();
        for id in (0..self.groups.end()).filter(|&id| projection.row_of(id) == row) {
            self.buckets(id, &mut buckets);
            scratch.add(&buckets);
        }
        scratch.take(&mut merged);
        merged
    }

    /// Gives every live row its place in the reading and copies its keys.
    fn index_rows(
        &self,
        projection: &Projection,
        definition: &Definition,
        words: &Words,
        reading: &mut Reading,
    ) -> Vec<u32> {
        let mut index = vec![NO_ROW; projection.end()];
        let status: Vec<bool> = definition
            .keys
            .iter()
            .map(|key| {
                self.dimensions
                    .iter()
                    .any(|d| d.serves(key) && is_status(d) && is_number(d))
            })
            .collect();
        let mut rows = 0;
        for row in 0..projection.end() as u32 {
            if !is_shown(projection, definition, row) {
                continue;
            }
            index[row as usize] = rows;
            rows += 1;
            for (&lane, &status) in projection.row_lanes(row).iter().zip(&status) {
                reading
                    .key_lanes
                    .push(if row == OTHER_ROW || lane == OTHER {
                        Lane::Other
                    } else if status {
                        Lane::Status(words.text(lane).parse().unwrap_or(0))
                    } else {
                        let text = words.text(lane);
                        let at = reading.text.len() as u32;
                        reading.text.push_str(text);
                        Lane::Text {
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
    fn sum(&self, sheets: &mut [Sheet<'_>], pairs_max: usize) {
        for id in 0..self.groups.end() {
            let group = self.groups.get(id);
            let mut gained = group.totals;
            let mut buckets = group.histogram.len();
            if let Some((_, slot)) = self.groups.running(id) {
                gained += &slot.totals();
                buckets += slot.histogram.len();
            }
            for sheet in &mut *sheets {
                let Some(place) = sheet.place(id) else {
                    continue;
                };
                sheet.reading.totals[place] += &gained;
                if let Spread::Pairs(pairs) = &mut sheet.spread {
                    pairs.expect(place, buckets);
                }
                if let Some(closed) = &self.groups.extremes {
                    let extremes = &mut sheet.reading.extremes[place];
                    for (_, seen) in &closed[id as usize] {
                        extremes.widen(seen);
                    }
                    if let Some(seen) = self.groups.running_extremes(id) {
                        extremes.widen(seen);
                    }
                }
            }
        }
        for sheet in sheets {
            let mut grand = Totals::ZERO;
            for totals in &sheet.reading.totals {
                grand += totals;
            }
            sheet.reading.grand = grand;
            if let Spread::Pairs(pairs) = &mut sheet.spread
                && !pairs.make_room(pairs_max)
            {
                sheet.spread = Spread::Walk;
            }
        }
    }

    /// How the histograms of so many rows are put together.
    fn spread(&self, want: Want, rows: usize) -> Spread {
        if !(want.quantiles || want.histograms) || !self.has_histograms() {
            Spread::Nothing
        } else if rows <= AT_ONCE_ROWS_MAX {
            Spread::AtOnce((0..rows).map(|_| Scratch::new(self.scope.layout)).collect())
        } else {
            Spread::Pairs(Pairs::new(rows))
        }
    }

    /// Takes the histograms of all groups, for the reports that can take them in any order.
    fn gather(&self, sheets: &mut [Sheet<'_>]) {
        let waits =
            |sheet: &Sheet<'_>| matches!(sheet.spread, Spread::AtOnce(_) | Spread::Pairs(_));
        if !sheets.iter().any(waits) {
            return;
        }
        // What a group has is taken out of its histograms once.
        let mut buckets = Vec::new();
        for id in 0..self.groups.end() {
            self.buckets(id, &mut buckets);
            for sheet in &mut *sheets {
                let Some(place) = sheet.place(id) else {
                    continue;
                };
                match &mut sheet.spread {
                    Spread::AtOnce(rows) => rows[place].add(&buckets),
                    Spread::Pairs(pairs) => pairs.add(place, &buckets),
                    Spread::Nothing | Spread::Walk => {}
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
    fn finish(&self, sheet: Sheet<'_>) -> Reading {
        let Sheet {
            projection,
            definition,
            want,
            index,
            mut reading,
            spread,
        } = sheet;
        if !(want.quantiles || want.histograms) {
            return reading;
        }
        let rows = reading.totals.len();
        let layout = self.scope.layout;
        let ranks = definition.ranks();
        reading.ranks = ranks.len();
        if want.histograms {
            reading.histograms = vec![Vec::new(); rows];
        }
        if want.quantiles {
            reading.quantiles.reserve_exact(rows * ranks.len());
        }
        let mut scratch = Scratch::new(layout);
        let mut merged = Vec::new();
        let mut row_done = |row: usize, merged: &[(u32, u64)]| {
            if want.quantiles {
                let total = merged.iter().map(|&(_, count)| count).sum();
                let pairs = merged.iter().copied();
                layout.quantiles(&ranks, total, pairs, &mut reading.quantiles);
            }
            if want.histograms {
                reading.histograms[row] = merged.to_vec();
            }
        };
        match spread {
            Spread::Nothing => reading.quantiles = vec![f64::NAN; rows * ranks.len()],
            Spread::AtOnce(scratches) => {
                for (row, mut scratch) in scratches.into_iter().enumerate() {
                    scratch.take(&mut merged);
                    row_done(row, &merged);
                }
            }
            Spread::Pairs(mut pairs) => {
                for row in 0..rows {
                    pairs.take(row, &mut scratch, &mut merged);
                    row_done(row, &merged);
                }
            }
            Spread::Walk => {
                let (starts, members) = self.members_by_row(projection, &index, rows);
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
    fn members_by_row(
        &self,
        projection: &Projection,
        index: &[u32],
        rows: usize,
    ) -> (Vec<u32>, Vec<u32>) {
        let members = || {
            (0..self.groups.end()).filter_map(|id| {
                let row = projection.row_of(id);
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

/// Whether a row of the projection has a place in readings. A report without keys has one row even when nothing was counted.
fn is_shown(projection: &Projection, definition: &Definition, row: u32) -> bool {
    let alone = definition.keys.is_empty() && row == OTHER_ROW && projection.len() == 0;
    projection.groups_in(row) > 0 || alone
}

fn is_number(dimension: &super::dimension::Dimension) -> bool {
    matches!(dimension.source, super::definition::KeySource::Field(_))
}
