//! Taking a reading: a report's rows are added up from the groups of its aggregate.
//!
//! Runs on the reader's thread under the lock, so it only sums, merges and copies; formulas and text come later, without
//! it. Time grows with the groups of the aggregate. Histograms are put together row by row, so that no more than one is in
//! memory that was not asked for.

use super::aggregate::Aggregate;
use super::counts::Histogram;
use super::definition::{Definition, Field, KeySource};
use super::reading::{Extremes, KeyCell, Reading, Want};
use super::row_key::key_texts;
use super::row_map::{NO_ROW, OTHER_ROW, RowMap};
use super::totals::Totals;
use crate::pool::strings::{OTHER, StringInterner};

impl Aggregate {
    /// Report number `report` as it stands; windows and time are left to the caller.
    pub(super) fn read(
        &self,
        report: usize,
        definition: &Definition,
        want: Want,
        strings: &StringInterner,
    ) -> Reading {
        let mut reading = Reading {
            keys: definition.keys.len(),
            ..Reading::default()
        };
        let row_map = self.row_map(report);
        let places = read_keys(row_map, definition, strings, &mut reading);
        if self.groups.extremes.is_some() {
            reading.extremes = vec![Extremes::NOTHING; reading.len()];
        }
        let has_histograms = want.quantiles || want.histograms;
        let mut groups = Vec::new();
        for id in 0..self.groups.end() {
            let row = row_map.row_of(id);
            if row == NO_ROW {
                continue;
            }
            let place = places[row as usize];
            if has_histograms {
                groups.push((place, id));
            }
            self.add_sums(id, place as usize, &mut reading);
        }
        for totals in &reading.totals {
            reading.grand += totals;
        }
        if has_histograms {
            groups.sort_unstable();
            self.read_histograms(&groups, definition, want, &mut reading);
        }
        reading
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
        let row = shown_rows(row_map, definition).nth(place);
        let groups = (0..self.groups.end()).filter(|&id| row == Some(row_map.row_of(id)));
        let mut pairs = Vec::new();
        if self.has_histograms() {
            self.add_histograms(groups, &mut pairs);
        }
        pairs
    }

    /// Adds what a group has to the sums of a row.
    #[inline]
    fn add_sums(&self, id: u32, place: usize, reading: &mut Reading) {
        reading.totals[place] += &self.groups.get(id).totals;
        if let Some((_, slot)) = self.groups.running(id) {
            reading.totals[place] += &slot.totals();
        }
        if let Some(closed) = &self.groups.extremes {
            let closed = closed[id as usize].iter().map(|(_, seen)| seen);
            for seen in closed.chain(self.groups.running_extremes(id)) {
                reading.extremes[place].widen(seen);
            }
        }
    }

    /// Reads from the histograms of all rows what is wanted; `groups` are (place, group), places ascending.
    fn read_histograms(
        &self,
        groups: &[(u32, u32)],
        definition: &Definition,
        want: Want,
        reading: &mut Reading,
    ) {
        let ranks = definition.ranks();
        reading.ranks = ranks.len();
        let rows = reading.len();
        if !self.has_histograms() {
            reading.quantiles = vec![f64::NAN; rows * ranks.len()];
            reading.histograms = vec![Vec::new(); if want.histograms { rows } else { 0 }];
            return;
        }
        let mut groups = groups.iter().copied().peekable();
        let mut pairs = Vec::new();
        for place in 0..rows as u32 {
            let of_row = std::iter::from_fn(|| groups.next_if(|&(it, _)| it == place));
            self.add_histograms(of_row.map(|(_, id)| id), &mut pairs);
            if want.quantiles {
                let total = pairs.iter().map(|&(_, count)| count).sum();
                let (buckets, quantiles) = (self.scope.buckets, &mut reading.quantiles);
                buckets.quantiles(&ranks, total, pairs.iter().copied(), quantiles);
            }
            if want.histograms {
                reading.histograms.push(pairs.clone());
            }
        }
    }

    /// Puts (bucket, count) of all these groups together into `pairs`.
    fn add_histograms(&self, groups: impl Iterator<Item = u32>, pairs: &mut Vec<(u32, u64)>) {
        let mut all = Histogram::default();
        for id in groups {
            all.add_all(&self.groups.get(id).histogram);
            if let Some((_, slot)) = self.groups.running(id) {
                all.add_all(&slot.histogram);
            }
        }
        pairs.clear();
        pairs.extend(all.iter());
    }
}

impl Reading {
    /// Rows that were added up elsewhere: the texts of their keys, whether they stand for others, sums and extremes. No
    /// histogram is known yet.
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
            for (key, text) in definition.keys.iter().zip(key_texts(key)) {
                reading.push_key(&key.source, is_other, text);
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
    ) {
        let total = histogram.iter().map(|(_, count)| count).sum();
        let mut quantiles = Vec::with_capacity(self.ranks);
        let buckets = &definition.buckets;
        buckets.quantiles(&definition.ranks(), total, histogram.iter(), &mut quantiles);
        let places = self.quantiles[row * self.ranks..].iter_mut();
        for (place, quantile) in places.zip(quantiles) {
            *place = if total > 0 {
                settle(quantile)
            } else {
                quantile
            };
        }
    }

    fn push_key(&mut self, source: &KeySource, is_other: bool, text: &str) {
        self.key_cells.push(match source {
            _ if is_other => KeyCell::Other,
            KeySource::Field(Field::Status) => KeyCell::Status(text.parse().unwrap_or(0)),
            _ => {
                let at = self.text.len() as u32;
                self.text.push_str(text);
                KeyCell::Text {
                    at,
                    len: text.len() as u32,
                }
            }
        });
    }
}

/// Gives every live row a place in the reading, copies its keys, and returns the places by row.
fn read_keys(
    row_map: &RowMap,
    definition: &Definition,
    strings: &StringInterner,
    reading: &mut Reading,
) -> Vec<u32> {
    let mut places = vec![NO_ROW; row_map.end()];
    for (row, place) in shown_rows(row_map, definition).zip(0..) {
        places[row as usize] = place;
        reading.totals.push(Totals::ZERO);
        for (&key_id, key) in row_map.row_key_ids(row).iter().zip(&definition.keys) {
            let is_other = row == OTHER_ROW || key_id == OTHER;
            reading.push_key(&key.source, is_other, strings.text(key_id));
        }
    }
    places
}

/// The rows of the row_map that have a place in readings. A report without keys has one row even when nothing was counted.
fn shown_rows(row_map: &RowMap, definition: &Definition) -> impl Iterator<Item = u32> {
    let alone = definition.keys.is_empty() && row_map.len() == 0;
    let rows = 0..row_map.end() as u32;
    rows.filter(move |&row| row_map.groups_in(row) > 0 || alone && row == OTHER_ROW)
}
