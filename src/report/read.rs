//! Reads a report: its rows are summed from the groups of its aggregate, piece by piece.
//!
//! Runs on the reader's thread, which releases the lock between pieces. Records that the merger
//! counts meanwhile in groups already read are added at the next piece (see `counted_meanwhile`),
//! so all sums are of one moment, that of the last piece, also those of several reports that are
//! read together. Keys and histograms follow, for selected rows only; histograms include anything
//! counted after that moment. Quantiles are computed without the lock.
//! If sums were removed or moved in between, reading starts again, and after some such attempts
//! everything is read in one piece.

use std::sync::Arc;
use std::time::Duration;

use ahash::AHashSet;

use self::reading::{Reading, Want, push_quantiles};
use self::selection::RowSelection;

use super::aggregate::Aggregate;
use super::definition::Level;
use super::encoded_gain::PairSums;
use super::histogram::Rank;
use super::registry::{Entry, Reports, Version};
use super::row_map::{NO_ROW, OTHER_ROW};
use super::totals::{Extremes, Totals};
use crate::pool::Pool;
use crate::pool::strings::{OTHER, StringInterner};

pub mod reading;
pub mod selection;

/// Groups or rows read between checks of the duration.
const AT_ONCE: usize = 128;
/// Cached values of one key, so that a name is not stored again for each row.
const NAMES: usize = 1024;
/// Bytes reserved for the keys of a piece.
const TEXT_AT_ONCE: usize = 1 << 20;
/// Attempts before everything is read in one piece.
const ATTEMPTS: usize = 3;
/// Number and length of a reader's waits for an expiring tick.
const WAITS: (usize, Duration) = (500, Duration::from_micros(200));

/// The lock under which reports are read, while held.
pub trait ReadLock {
    /// The reports, and the texts of their keys.
    fn live(&self) -> (&Reports, &StringInterner);

    /// Whether it has been held long enough.
    fn is_over(&self) -> bool {
        false
    }

    /// Runs `work` without it.
    fn unlocked(&mut self, work: impl FnOnce()) {
        work();
    }
}

/// A lock that nobody else waits for.
impl ReadLock for (&Reports, &StringInterner) {
    fn live(&self) -> (&Reports, &StringInterner) {
        *self
    }
}

/// A report that was read.
#[derive(Debug)]
pub struct ReadResult {
    /// Its rows, or those that were selected, in their order.
    pub reading: Reading,
    /// The version of the report that all of it is of, if it is of one.
    pub version: Option<Version>,
    /// How rows were selected, unless the reading has all.
    pub selected: Option<Selected>,
}

/// How rows of a report were selected.
#[derive(Debug)]
pub struct Selected {
    /// All rows, as far as they had to be known.
    pub from: Reading,
    /// How far that is.
    pub want: Want,
    /// Rows that matched, before they were cut.
    pub total: usize,
}

/// Reads a report. `None`: some report was dropped meanwhile, perhaps this one.
pub fn read(held: &mut impl ReadLock, entry: &Entry, want: Want, as_of_ms: u64) -> Option<Reading> {
    read_together(held, &[(entry, want)], as_of_ms)?.pop()
}

/// Reads reports, all as of one moment.
pub fn read_together(
    held: &mut impl ReadLock,
    asked: &[(&Entry, Want)],
    as_of_ms: u64,
) -> Option<Vec<Reading>> {
    let read = read_selected(Reading::default(), held, asked, None, as_of_ms)?;
    Some(read.into_iter().map(|read| read.reading).collect())
}

/// Reads a report in the memory of another reading, whose pages are there already. With a
/// selection, what is wanted is read of its rows alone, if they can be found without histograms.
pub fn read_into(
    memory: Reading,
    held: &mut impl ReadLock,
    entry: &Entry,
    want: Want,
    selection: Option<&RowSelection<'_>>,
    as_of_ms: u64,
) -> Option<ReadResult> {
    let layout = &entry.definition.layout;
    let selection = selection.map(|selection| (layout.want(selection.chosen_by()), selection));
    let selection = selection.filter(|(by, _)| !by.has_histograms());
    read_selected(memory, held, &[(entry, want)], selection, as_of_ms)?.pop()
}

fn read_selected(
    mut memory: Reading,
    held: &mut impl ReadLock,
    asked: &[(&Entry, Want)],
    selection: Option<(Want, &RowSelection<'_>)>,
    as_of_ms: u64,
) -> Option<Vec<ReadResult>> {
    let removals = held.live().0.removals;
    for attempt in 0..=ATTEMPTS {
        for (entry, _) in asked {
            wait_while_leaving(held, entry, removals)?;
        }
        let (memory, reports) = (&mut memory, held.live().0);
        let readers = asked.iter().map(|&(entry, want)| {
            Reader::new(std::mem::take(memory), reports, entry, want, as_of_ms)
        });
        let readers = readers.collect();
        let read = match attempt {
            ATTEMPTS => Reader::read(readers, &mut held.live(), selection),
            _ => Reader::read(readers, held, selection),
        };
        if read.is_some() || held.live().0.removals != removals {
            return read;
        }
    }
    None
}

impl Reports {
    /// Reads the whole report, including keys.
    pub fn read(&self, entry: &Entry, want: Want, pool: &Pool, unix_ms: u64) -> Reading {
        let want = Want { keys: true, ..want };
        let mut held = (self, &pool.strings);
        read(&mut held, entry, want, unix_ms).expect("nothing is dropped meanwhile")
    }
}

/// Waits while a tick leaves the window, which the merger does piece by piece: in between, rows are
/// of different windows. `None`: a report was dropped meanwhile.
fn wait_while_leaving(held: &mut impl ReadLock, entry: &Entry, removals: u64) -> Option<()> {
    let (times, each) = WAITS;
    for _ in 0..times {
        let (reports, _) = held.live();
        if reports.removals != removals {
            return None;
        }
        if !reports.aggregate(entry).is_leaving {
            break;
        }
        held.unlocked(|| std::thread::sleep(each));
    }
    Some(())
}

/// A read in progress.
struct Reader<'a> {
    entry: &'a Entry,
    want: Want,
    /// Reports dropped before it began.
    removals: u64,
    /// Keeps records stored meanwhile until all sums are read.
    meanwhile: Option<Arc<()>>,
    /// How often its sums had moved when it began, and how many records since then have been added.
    moves: u64,
    counted: usize,
    /// The place of each row.
    places: Vec<u32>,
    /// The row in each place.
    rows: Vec<u32>,
    /// Groups with the places of their rows.
    groups: Vec<(u32, u32)>,
    /// Parts read in addition to sums.
    has: Want,
    reading: Reading,
}

impl<'a> Reader<'a> {
    fn new(
        mut reading: Reading,
        reports: &Reports,
        entry: &'a Entry,
        want: Want,
        as_of_ms: u64,
    ) -> Self {
        let aggregate = reports.aggregate(entry);
        let row_map = aggregate.row_map(entry.report);
        reading.clear();
        reading.totals.reserve_exact(row_map.len() + 1);
        let mut reader = Self {
            removals: reports.removals,
            meanwhile: Some(Arc::clone(&aggregate.meanwhile.reader)),
            moves: aggregate.meanwhile.moves,
            counted: aggregate.meanwhile.counted.len(),
            places: vec![NO_ROW; row_map.end()],
            rows: Vec::with_capacity(row_map.len() + 1),
            groups: Vec::new(),
            has: Want::default(),
            reading: Reading {
                window_secs: entry.definition.window.as_secs_f64(),
                as_of_ms,
                keys: entry.definition.keys.len(),
                ranks: entry.definition.ranks().len(),
                ..reading
            },
            entry,
            want,
        };
        if row_map.groups_in(OTHER_ROW) > 0 {
            reader.place(OTHER_ROW);
        }
        reader
    }

    /// Returns the results; `None` if reading must start again.
    fn read(
        mut readers: Vec<Self>,
        held: &mut impl ReadLock,
        selection: Option<(Want, &RowSelection<'_>)>,
    ) -> Option<Vec<ReadResult>> {
        readers.iter_mut().try_for_each(|reader| reader.read_sums(held))?;
        let end = |mut reader: Self| Some((reader.end_sums(held)?, reader));
        let ended = readers.into_iter().map(end).collect::<Option<Vec<_>>>()?;
        let finish = |(version, reader): (Version, Self)| reader.finish(held, version, selection);
        ended.into_iter().map(finish).collect()
    }

    /// Reads keys and histograms; the sums are of this version.
    fn finish(
        mut self,
        held: &mut impl ReadLock,
        version: Version,
        selection: Option<(Want, &RowSelection<'_>)>,
    ) -> Option<ReadResult> {
        let want = self.want;
        self.read_rows(held, selection.map_or(want, |(by, _)| by))?;
        let mut selected = None;
        held.unlocked(|| {
            self.reading.text.shrink_to_fit();
            selected = selection.and_then(|(_, selection)| self.select(selection));
        });
        self.read_rows(held, want)?;
        let now = held.live().0.version(self.entry);
        Some(ReadResult {
            reading: self.reading,
            version: (now == version).then_some(version),
            selected,
        })
    }

    /// The aggregate now, if the data read is still of use.
    fn aggregate<'b>(
        &self,
        held: &'b impl ReadLock,
    ) -> Option<(&'b Aggregate, &'b StringInterner)> {
        let (reports, strings) = held.live();
        let is_there = reports.removals == self.removals;
        let aggregate = is_there.then(|| reports.aggregate(self.entry));
        let aggregate = aggregate.filter(|it| it.meanwhile.moves == self.moves);
        aggregate.map(|aggregate| (aggregate, strings))
    }

    /// Reads the sums of all rows.
    fn read_sums(&mut self, held: &mut impl ReadLock) -> Option<()> {
        if self.want.has_histograms() {
            let end = self.aggregate(held)?.0.groups.end();
            self.groups.reserve_exact(end as usize);
        }
        let mut next = 0;
        loop {
            let (aggregate, _) = self.aggregate(held)?;
            let row_map = aggregate.row_map(self.entry.report);
            self.add_counted(aggregate, next);
            let end = aggregate.groups.end();
            while next < end && !held.is_over() {
                let first = next;
                next = (first + AT_ONCE as u32).min(end);
                for id in first..next {
                    if let Some(place) = self.place(row_map.row_of(id)) {
                        self.add_group(aggregate, id, place);
                        if self.want.has_histograms() {
                            self.groups.push((place as u32, id));
                        }
                    }
                }
            }
            if next == end {
                return Some(());
            }
            held.unlocked(|| ());
        }
    }

    /// Adds records counted since, so that the sums are of this moment. Returns their version.
    fn end_sums(&mut self, held: &impl ReadLock) -> Option<Version> {
        self.add_counted(self.aggregate(held)?.0, u32::MAX);
        // A report without keys has one row even if nothing was counted.
        if self.rows.is_empty() && self.reading.keys == 0 {
            self.place(OTHER_ROW);
        }
        let reports = held.live().0;
        self.reading.covered_secs = reports.covered_secs(self.entry);
        drop(self.meanwhile.take());
        Some(reports.version(self.entry))
    }

    /// The place of a row; `None` if it has none.
    #[inline]
    fn place(&mut self, row: u32) -> Option<usize> {
        let at = row as usize;
        if row == NO_ROW {
            return None;
        }
        if self.places.len() <= at {
            self.places.resize(at + 1, NO_ROW);
        }
        if self.places[at] == NO_ROW {
            self.places[at] = self.rows.len() as u32;
            self.rows.push(row);
            self.reading.totals.push(Totals::ZERO);
            if self.entry.definition.extremes {
                self.reading.extremes.push(Extremes::NOTHING);
            }
        }
        Some(self.places[at] as usize)
    }

    /// Adds the sums of a group to a row.
    #[inline]
    fn add_group(&mut self, aggregate: &Aggregate, id: u32, place: usize) {
        let (groups, reading) = (&aggregate.groups, &mut self.reading);
        let totals = groups.totals(id);
        reading.totals[place] += &totals;
        reading.grand += &totals;
        if let Some(all) = reading.extremes.get_mut(place) {
            let closed = groups.closed.extremes(id).iter().map(|(_, seen)| seen);
            let running = groups.slot_of(id).and_then(|at| groups.running.extremes(at));
            closed.chain(running).for_each(|seen| all.widen(seen));
        }
    }

    /// Adds records counted since the last piece in groups before this one.
    fn add_counted(&mut self, aggregate: &Aggregate, next: u32) {
        let row_map = aggregate.row_map(self.entry.report);
        // Several timers of one request count it once; all of them arrived between two pieces.
        let mut requests = AHashSet::new();
        let of_timers = aggregate.scope.level == Level::Timer;
        let counted = &aggregate.meanwhile.counted;
        for (group, delta) in &counted[self.counted..] {
            if *group >= next {
                continue;
            }
            if let Some(place) = self.place(row_map.row_of(*group)) {
                let totals = delta.totals(!of_timers || requests.insert((*group, delta.request)));
                self.reading.totals[place] += &totals;
                self.reading.grand += &totals;
                if let Some(seen) = self.reading.extremes.get_mut(place) {
                    seen.widen(&delta.extremes());
                }
                // Perhaps a new group with a number that was free when it was passed.
                self.groups.push((place as u32, *group));
            }
        }
        self.counted = counted.len();
    }

    /// From now on the selected rows are read alone, unless they are all in their order.
    fn select(&mut self, selection: &RowSelection<'_>) -> Option<Selected> {
        let (all, layout) = (&self.reading, &self.entry.definition.layout);
        let value = |row, column| layout.value(all, row, column);
        let (rows, total) = selection.rows(all.len(), &value);
        if rows.len() == all.len() && rows.is_sorted() {
            return None;
        }
        let mut places = vec![NO_ROW; self.rows.len()];
        for (&row, place) in rows.iter().zip(0..) {
            places[row] = place;
        }
        self.groups.retain_mut(|(place, _)| {
            *place = places[*place as usize];
            *place != NO_ROW
        });
        self.rows = rows.iter().map(|&row| self.rows[row]).collect();
        let only = all.only(&rows);
        Some(Selected { from: std::mem::replace(&mut self.reading, only), want: self.has, total })
    }

    /// Reads the missing parts of all rows.
    fn read_rows(&mut self, held: &mut impl ReadLock, want: Want) -> Option<()> {
        if want.keys && !self.has.keys {
            self.read_keys(held)?;
        }
        if want.has_histograms() && !self.has.has_histograms() {
            self.read_histograms(held, want)?;
        }
        self.has = want;
        Some(())
    }

    fn read_keys(&mut self, held: &mut impl ReadLock) -> Option<()> {
        let keys = self.reading.keys;
        self.reading.key_cells.reserve_exact(self.rows.len() * keys);
        let mut names = vec![None; keys * NAMES];
        for first in (0..self.rows.len()).step_by(AT_ONCE) {
            if held.is_over() {
                held.unlocked(|| self.reading.text.reserve(TEXT_AT_ONCE));
                // The ids may stand for other strings now.
                names.fill(None);
            }
            let (aggregate, strings) = self.aggregate(held)?;
            let row_map = aggregate.row_map(self.entry.report);
            for &row in self.rows[first..].iter().take(AT_ONCE) {
                let names = names.chunks_exact_mut(NAMES);
                for (key_id, names) in row_map.row_key(row).zip(names) {
                    let name = &mut names[key_id as usize % NAMES];
                    let cell = match *name {
                        _ if row == OTHER_ROW || key_id == OTHER => None,
                        Some((id, cell)) if id == key_id => cell,
                        _ => {
                            let cell = self.reading.cell(strings.text(key_id));
                            *name = Some((key_id, cell));
                            cell
                        }
                    };
                    self.reading.key_cells.push(cell);
                }
            }
        }
        Some(())
    }

    /// Reads the histograms of all rows, and computes the wanted parts.
    fn read_histograms(&mut self, held: &mut impl ReadLock, want: Want) -> Option<()> {
        let mut groups = std::mem::take(&mut self.groups);
        if !groups.is_sorted() {
            held.unlocked(|| groups.sort_unstable());
        }
        groups.dedup();
        let ranks = self.entry.definition.ranks();
        let quantiles = self.rows.len() * ranks.len();
        self.reading.quantiles.reserve_exact(quantiles);
        let (mut pairs, mut sums) = (Vec::new(), PairSums::default());
        for first in (0..groups.len()).step_by(AT_ONCE) {
            if held.is_over() {
                held.unlocked(|| ());
            }
            let (aggregate, _) = self.aggregate(held)?;
            for at in first..groups.len().min(first + AT_ONCE) {
                let (place, id) = (groups[at].0 as usize, groups[at].1);
                let histogram = aggregate.groups.closed.histogram(id);
                let running = aggregate.groups.slot_of(id);
                let is_of_row = |at: usize| groups.get(at).is_some_and(|it| it.0 as usize == place);
                let is_last = !is_of_row(at + 1);
                if is_last && running.is_none() && !is_of_row(at.wrapping_sub(1)) {
                    self.finish_row(place, &ranks, want, histogram.iter());
                    continue;
                }
                sums.add(histogram.iter());
                if let Some(at) = running {
                    sums.add(aggregate.groups.running.samples(at));
                }
                if is_last {
                    pairs.clear();
                    pairs.extend(sums.drain());
                    self.finish_row(place, &ranks, want, pairs.iter().copied());
                }
            }
        }
        if groups.is_empty() {
            // Perhaps there is the row of a report without keys.
            let rows = 0..self.rows.len();
            rows.for_each(|row| self.finish_row(row, &ranks, want, std::iter::empty()));
        }
        // A tick that had none is in the window until the sums move.
        if !self.aggregate(held)?.0.has_histograms() {
            self.reading.quantiles.fill(f64::NAN);
            self.reading.histograms.fill(Vec::new());
        }
        Some(())
    }

    /// Computes the quantiles and keeps the histogram of the next row, as far as they are wanted.
    fn finish_row(
        &mut self,
        place: usize,
        ranks: &[Rank],
        want: Want,
        pairs: impl Iterator<Item = (u32, u64)> + Clone,
    ) {
        let (definition, reading) = (&self.entry.definition, &mut self.reading);
        if want.quantiles {
            let (ends, time) = (|it| definition.buckets.ends(it), reading.totals[place].time);
            let to = &mut reading.quantiles;
            push_quantiles(to, definition, ranks, time, pairs.clone(), |secs| secs, ends);
        }
        if want.histograms {
            reading.histograms.push(pairs.collect());
        }
    }
}
