//! The rows of a report in a second: groups of one row added up.
//!
//! Groups are sorted by the ids of their rows, so that rows are put together one after the other and nothing is kept of one
//! but its number. Most rows have one group: what that gained is handed on as it was written.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Second;
use crate::report::packed::{Packed, PairSums, Pairs, write_pairs, write_totals};
use crate::report::reading::Extremes;
use crate::report::totals::Totals;
use crate::report::{Deltas, Watched};

/// Records that are read ahead of their turn, all at once: in the order of ids they lie anywhere, and the memory takes as long
/// for one as for all of them.
const AHEAD: usize = 16;

/// What a row gained.
#[derive(Debug)]
pub struct RowDelta<'a> {
    /// Its id; [`OTHER_ID`](crate::report::OTHER_ID) for what has no row of its own.
    pub id: u64,
    /// Its key: see [`key_texts`](crate::report::row_key::key_texts).
    pub key: &'a [u8],
    /// What it gained, sums and histogram.
    pub packed: Packed<'a>,
    /// The sums of that.
    pub totals: Totals,
    /// Its histogram; `None` when it has none.
    pub times: Option<Pairs<'a>>,
    /// [`Extremes::NOTHING`] where the report keeps none.
    pub extremes: Extremes,
}

/// What takes in the rows of a second, report by report.
pub trait RowReader {
    /// The rows of a report follow.
    fn begin(&mut self, report: &Watched);
    /// One of them.
    fn row(&mut self, row: &RowDelta<'_>);
    /// There are no more of that report.
    fn end(&mut self);
}

impl Second {
    /// Gives every row to all readers: each is put together once.
    pub fn read(&self, readers: &mut [&mut dyn RowReader]) {
        for report in self.reports() {
            readers.iter_mut().for_each(|it| it.begin(report));
            self.rows(report, |row| {
                readers.iter_mut().for_each(|it| it.row(row));
            });
            readers.iter_mut().for_each(|it| it.end());
        }
    }

    /// The reports that were watched in it, each once.
    pub fn reports(&self) -> impl Iterator<Item = &Arc<Watched>> {
        let all = self.gained.iter().flat_map(|it| it.reports.iter());
        let by_number: BTreeMap<u64, &Arc<Watched>> = all.map(|it| (it.number, it)).collect();
        by_number.into_values()
    }

    /// Records of groups that may count in a report and found no room.
    #[must_use]
    pub fn folded(&self, report: &Watched) -> u64 {
        let parts = self.gained.iter().filter_map(|it| it.of(report));
        parts.map(Deltas::folded).sum()
    }

    /// Gives every row of a report that gained something to `each`, in the order of their ids.
    pub fn rows(&self, report: &Watched, mut each: impl FnMut(&RowDelta<'_>)) {
        let parts = self.gained.iter().filter_map(|it| it.of(report));
        let parts: Vec<&Deltas> = parts.collect();
        let mut key = Vec::new();
        // Id of the row, place of the record.
        let mut groups = Vec::new();
        for (part, deltas) in parts.iter().enumerate() {
            // Ids of rows, where they are known by a number.
            let mut known: Vec<Option<Option<u64>>> = Vec::new();
            let mut at = 0;
            while let Some((group, next)) = deltas.at(at) {
                let mut id = || report.row_of(&group, &mut key);
                let id = match report.keys.number(&group) {
                    Some(number) => {
                        known.resize(known.len().max(number + 1), None);
                        *known[number].get_or_insert_with(id)
                    }
                    None => id(),
                };
                groups.extend(id.map(|id| (id, part as u32, at as u32)));
                at = next;
            }
        }
        groups.sort_unstable();
        let mut ahead = 0;
        let mut record = |place: usize| {
            if place >= ahead {
                let coming = groups[place..].iter().take(AHEAD);
                coming.for_each(|it| parts[it.1 as usize].touch(it.2 as usize));
                ahead = place + AHEAD;
            }
            let (_, part, at) = groups[place];
            let found = parts[part as usize].at(at as usize);
            found.map(|(group, _)| group)
        };
        let (mut sums, mut packed) = (PairSums::default(), Vec::new());
        let mut begin = 0;
        for of_row in groups.chunk_by(|a, b| a.0 == b.0) {
            let places = begin..begin + of_row.len();
            begin = places.end;
            let Some(first) = record(places.start) else {
                continue;
            };
            let (mut extremes, mut gained) = first.gained();
            if of_row.len() > 1 {
                let (mut all, mut has_times) = (Totals::ZERO, true);
                for (more, gained) in places.filter_map(&mut record).map(|it| it.gained()) {
                    extremes.widen(&more);
                    let (totals, times) = gained.read();
                    all += &totals;
                    has_times &= times.is_some();
                    times.into_iter().for_each(|times| sums.add(times));
                }
                packed.clear();
                write_totals(&mut packed, &all, has_times);
                if has_times {
                    write_pairs(&mut packed, sums.drain());
                } else {
                    sums = PairSums::default();
                }
                gained = Packed(&packed);
            }
            if !report.definition.extremes {
                extremes = Extremes::NOTHING;
            }
            report.keys.row_of(&first, &mut key);
            let (totals, times) = gained.read();
            each(&RowDelta {
                id: of_row[0].0,
                key: &key,
                packed: gained,
                totals,
                times,
                extremes,
            });
        }
    }
}
