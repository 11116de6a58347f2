//! Taking a reading: a report's rows put together from the groups of its family.
//!
//! Called under the lock by whoever asks, so it only sums, merges and copies; formulas and text come later, without
//! the lock. Time grows with the groups of the family: about ten nanoseconds a group for the sums, and about two per
//! histogram bucket when quantiles are wanted.

use super::definition::Definition;
use super::dimension::{Names, is_status};
use super::family::Family;
use super::groups::Group;
use super::histogram::{LOG_LINEAR_BUCKETS, Layout};
use super::projection::{NO_ROW, OTHER_ROW, Projection};
use super::reading::{Extremes, Lane, Reading, Want};
use super::totals::Totals;
use crate::pool::words::{OTHER, Words};

impl Family {
    /// Report number `report` as it stands; window and time are left to the caller.
    pub(super) fn read(
        &self,
        report: usize,
        definition: &Definition,
        want: Want,
        names: &Names<'_>,
    ) -> Reading {
        let projection = self.projection(report);
        let mut reading = Reading {
            keys: definition.keys.len(),
            ..Reading::default()
        };
        let index = self.index_rows(projection, definition, names.words, &mut reading);
        self.sum(projection, &index, &mut reading);
        if want.quantiles || want.histograms {
            self.merge_histograms(projection, definition, &index, want, &mut reading);
        }
        reading
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
        for id in (0..self.groups.end()).filter(|&id| projection.row_of(id) == row) {
            let group = self.groups.get(id);
            scratch.add(group.histogram.iter());
            if let Some((_, slot)) = self.groups.running(id) {
                scratch.add(slot.histogram.iter());
            }
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

    /// Groups that count in the report: (number, group, place of its row).
    fn members<'a>(
        &'a self,
        projection: &'a Projection,
        index: &'a [u32],
    ) -> impl Iterator<Item = (u32, &'a Group, usize)> + 'a {
        (0..self.groups.end()).filter_map(move |id| {
            let row = projection.row_of(id);
            (row != NO_ROW).then(|| (id, self.groups.get(id), index[row as usize] as usize))
        })
    }

    fn sum(&self, projection: &Projection, index: &[u32], reading: &mut Reading) {
        for (id, group, place) in self.members(projection, index) {
            let totals = &mut reading.totals[place];
            *totals += &group.totals;
            if let Some((_, slot)) = self.groups.running(id) {
                *totals += &slot.totals();
            }
            if let Some(closed) = &self.groups.extremes {
                let extremes = &mut reading.extremes[place];
                for (_, seen) in &closed[id as usize] {
                    extremes.widen(seen);
                }
                if let Some(seen) = self.groups.running_extremes(id) {
                    extremes.widen(seen);
                }
            }
        }
        let mut grand = Totals::ZERO;
        for totals in &reading.totals {
            grand += totals;
        }
        reading.grand = grand;
    }

    fn merge_histograms(
        &self,
        projection: &Projection,
        definition: &Definition,
        index: &[u32],
        want: Want,
        reading: &mut Reading,
    ) {
        let rows = reading.totals.len();
        let ranks = definition.ranks();
        reading.ranks = ranks.len();
        if want.histograms {
            reading.histograms = vec![Vec::new(); rows];
        }
        if !self.has_histograms() {
            reading.quantiles = vec![f64::NAN; rows * ranks.len()];
            return;
        }
        let (starts, members) = self.members_by_row(projection, index, rows);
        let layout = self.scope.layout;
        let mut scratch = Scratch::new(layout);
        let mut merged = Vec::new();
        for row in 0..rows {
            for &id in &members[starts[row] as usize..starts[row + 1] as usize] {
                let group = self.groups.get(id);
                scratch.add(group.histogram.iter());
                if let Some((_, slot)) = self.groups.running(id) {
                    scratch.add(slot.histogram.iter());
                }
            }
            scratch.take(&mut merged);
            if want.quantiles {
                let total = merged.iter().map(|&(_, count)| count).sum();
                layout.quantiles(
                    &ranks,
                    total,
                    merged.iter().copied(),
                    &mut reading.quantiles,
                );
            }
            if want.histograms {
                reading.histograms[row] = merged.clone();
            }
        }
    }

    /// Group numbers sorted by row: those of row `r` are `members[starts[r]..starts[r + 1]]`.
    fn members_by_row(
        &self,
        projection: &Projection,
        index: &[u32],
        rows: usize,
    ) -> (Vec<u32>, Vec<u32>) {
        let mut starts = vec![0u32; rows + 1];
        for (_, _, place) in self.members(projection, index) {
            starts[place + 1] += 1;
        }
        for row in 0..rows {
            starts[row + 1] += starts[row];
        }
        let mut next = starts.clone();
        let mut members = vec![0; starts[rows] as usize];
        for (id, _, place) in self.members(projection, index) {
            members[next[place] as usize] = id;
            next[place] += 1;
        }
        (starts, members)
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

/// Where histograms of one row are added up.
#[derive(Debug)]
enum Scratch {
    /// Counts by bucket, and the span of buckets in use: for layouts of a few thousand buckets.
    Dense {
        counts: Vec<u64>,
        low: usize,
        high: usize,
    },
    /// Pairs, sorted when taken: for pinba2's, which may be millions.
    Loose(Vec<(u32, u64)>),
}

impl Scratch {
    fn new(layout: Layout) -> Self {
        let dense = |buckets: u32| Self::Dense {
            counts: vec![0; buckets as usize],
            low: usize::MAX,
            high: 0,
        };
        match layout {
            Layout::LogLinear => dense(LOG_LINEAR_BUCKETS),
            Layout::Linear { size, .. } => dense(size),
            Layout::V2(_) => Self::Loose(Vec::new()),
        }
    }

    fn add(&mut self, pairs: impl Iterator<Item = (u32, u64)>) {
        match self {
            Self::Dense { counts, low, high } => {
                for (bucket, count) in pairs {
                    let bucket = (bucket as usize).min(counts.len() - 1);
                    counts[bucket] += count;
                    *low = (*low).min(bucket);
                    *high = (*high).max(bucket);
                }
            }
            Self::Loose(loose) => loose.extend(pairs),
        }
    }

    /// Moves the sum into `merged`, buckets ascending, and is empty again.
    fn take(&mut self, merged: &mut Vec<(u32, u64)>) {
        merged.clear();
        match self {
            Self::Dense { counts, low, high } => {
                if *low <= *high {
                    for (bucket, count) in counts[*low..=*high].iter_mut().enumerate() {
                        if *count > 0 {
                            merged.push(((*low + bucket) as u32, std::mem::take(count)));
                        }
                    }
                }
                (*low, *high) = (usize::MAX, 0);
            }
            Self::Loose(loose) => {
                loose.sort_unstable_by_key(|&(bucket, _)| bucket);
                for (bucket, count) in loose.drain(..) {
                    match merged.last_mut() {
                        Some((last, sum)) if *last == bucket => *sum += count,
                        _ => merged.push((bucket, count)),
                    }
                }
            }
        }
    }
}
