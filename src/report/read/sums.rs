//! The sums of some of the rows of a report, as far as they are read.
//!
//! Rows are parted by their numbers, so that parts are read by several threads at once and no two add to the same row.

use std::ops::Range;

use ahash::AHashSet;

use crate::report::aggregate::Aggregate;
use crate::report::definition::Level;
use crate::report::reading::{Extremes, Reading};
use crate::report::row_map::{NO_ROW, RowMap};
use crate::report::totals::Totals;

/// The sums of some rows: those with numbers in a range, so that no two parts add to the same row.
pub(super) struct Sums {
    pub(super) numbers: Range<u32>,
    /// The first group that was not read.
    pub(super) next: u32,
    /// How many of the records since the reading began are added.
    pub(super) counted: usize,
    /// Whether groups are put down for who reads their histograms.
    pub(super) with_groups: bool,
    /// The place of each row.
    pub(super) places: Vec<u32>,
    pub(super) rows: Vec<u32>,
    pub(super) groups: Vec<(u32, u32)>,
    pub(super) reading: Reading,
}

impl Sums {
    /// The place of a row; `None` of what is not among these.
    #[inline]
    pub(super) fn place(&mut self, row: u32, aggregate: &Aggregate) -> Option<usize> {
        if !self.numbers.contains(&row) {
            return None;
        }
        let at = (row - self.numbers.start) as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, NO_ROW);
        }
        if self.places[at] == NO_ROW {
            self.places[at] = self.rows.len() as u32;
            self.rows.push(row);
            self.reading.totals.push(Totals::ZERO);
            if aggregate.groups.extremes.is_some() {
                self.reading.extremes.push(Extremes::NOTHING);
            }
        }
        Some(self.places[at] as usize)
    }

    /// Adds what a group has to the sums of a row.
    #[inline]
    pub(super) fn add_group(&mut self, aggregate: &Aggregate, id: u32, place: usize) {
        let (groups, reading) = (&aggregate.groups, &mut self.reading);
        let totals = &mut reading.totals[place];
        *totals += &groups.get(id).totals;
        if let Some((_, slot)) = groups.running(id) {
            *totals += &slot.totals();
        }
        if let Some(closed) = &groups.extremes {
            let closed = closed[id as usize].iter().map(|(_, seen)| seen);
            for seen in closed.chain(groups.running_extremes(id)) {
                reading.extremes[place].widen(seen);
            }
        }
        if self.with_groups {
            self.groups.push((place as u32, id));
        }
    }

    /// Adds what was counted since the last piece in groups that were read.
    pub(super) fn add_counted(&mut self, aggregate: &Aggregate, row_map: &RowMap) {
        // Several timers of one request count it once; all of them came between two pieces.
        let mut requests = AHashSet::new();
        let of_timers = aggregate.scope.level == Level::Timer;
        let counted = &aggregate.changes.counted;
        for (group, delta) in &counted[self.counted..] {
            if *group >= self.next {
                continue;
            }
            if let Some(place) = self.place(row_map.row_of(*group), aggregate) {
                let is_new = !of_timers || requests.insert((*group, delta.request));
                self.reading.totals[place] += &delta.totals(is_new);
                if let Some(seen) = self.reading.extremes.get_mut(place) {
                    seen.widen(&delta.extremes());
                }
                // Perhaps a new one under a number that was free when it was passed.
                self.groups.push((place as u32, *group));
            }
        }
        self.counted = counted.len();
    }
}
