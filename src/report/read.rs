//! Taking a reading: a report's rows are added up from the groups of its aggregate, piece by piece.
//!
//! Runs on the reader's thread, of large reports on as many as there are processors, each with some of the rows; they let go of
//! the lock between pieces. What the merger counts meanwhile in groups that were read already is added at the next piece (see
//! `changes`), so all sums are of one moment: that of the last piece of them. Keys and histograms follow, of the rows that were
//! chosen by then alone; what histograms count after that moment is in them. Quantiles are worked out without the lock. When
//! sums went or moved in between, all begins anew, and after some such attempts is read in one piece.

use std::sync::Arc;

use super::aggregate::Aggregate;
#[cfg(feature = "sql")]
use super::counts::Histogram;
#[cfg(feature = "sql")]
use super::definition::Definition;
use super::definition::{Field, KeySource};
use super::histogram::Ranks;
#[cfg(feature = "sql")]
use super::reading::Extremes;
use super::reading::{KeyCell, Reading, Want};
use super::registry::{Entry, Reports};
#[cfg(feature = "sql")]
use super::row_key::key_texts;
use super::row_map::{NO_ROW, OTHER_ROW};
#[cfg(feature = "sql")]
use super::totals::Totals;
use crate::pool::strings::{OTHER, StringInterner};

mod histograms;
mod sums;

use histograms::Histograms;
use sums::Sums;

/// Groups or rows that are read before it is looked whether the piece is long enough.
const AT_ONCE: usize = 128;
/// Buckets that are copied before quantiles are worked out.
const BUCKETS_MAX: usize = 1 << 16;
/// Values of one key that are remembered, so that a name is not put down for each row again.
const NAMES: usize = 1 << 13;
/// Room that is made for the keys of a piece, bytes.
const TEXT_AT_ONCE: usize = 1 << 20;
/// Attempts before all is read in one piece.
const ATTEMPTS: usize = 3;

/// The lock under which reports are read, while it is held.
pub trait Held {
    /// The reports, and the texts of their keys.
    fn live(&self) -> (&Reports, &StringInterner);

    /// Whether it was held for long enough.
    fn is_over(&self) -> bool {
        false
    }

    /// Works without it.
    fn unlocked(&mut self, work: impl FnOnce()) {
        work();
    }

    /// In how many parts so many groups or rows are read.
    fn parts(&self, items: usize) -> usize {
        let _one_after_the_other = items;
        1
    }

    /// Works on all parts, perhaps on several at once, each with a lock of its own, and takes it again in the end.
    fn each<P: Send>(&mut self, parts: &mut [P], work: impl Fn(&mut Self, &mut P) + Sync) {
        for part in parts {
            work(self, part);
        }
    }
}

/// A lock that nobody else waits for.
impl Held for (&Reports, &StringInterner) {
    fn live(&self) -> (&Reports, &StringInterner) {
        *self
    }
}

/// Which rows are wanted: what must be there of all rows to choose among them, no histograms, and what chooses, without the lock: the
/// rows in their order, or all (`None`). It may be asked again: the last time counts.
pub type Choice<'a> = (Want, &'a mut dyn FnMut(&Arc<Reading>) -> Option<Vec<usize>>);

/// Reads a report, and says of which version all of it is, if it is of one. `None`: some report was dropped meanwhile, perhaps
/// this one.
pub fn read(
    held: &mut impl Held,
    entry: &Entry,
    want: Want,
    choice: Option<Choice<'_>>,
    as_of_ms: u64,
) -> Option<(Reading, Option<(usize, u64)>)> {
    read_into(Reading::default(), held, entry, want, choice, as_of_ms)
}

/// The same in the memory of another reading, whose pages are there already.
pub fn read_into(
    mut memory: Reading,
    held: &mut impl Held,
    entry: &Entry,
    want: Want,
    mut choice: Option<Choice<'_>>,
    as_of_ms: u64,
) -> Option<(Reading, Option<(usize, u64)>)> {
    let removals = held.live().0.removals();
    for _ in 0..ATTEMPTS {
        let memory = std::mem::take(&mut memory);
        let reader = Reader::new(memory, held.live().0, entry, as_of_ms);
        let read = reader.read(held, want, choice.as_mut());
        if read.is_some() || held.live().0.removals() != removals {
            return read;
        }
    }
    let reader = Reader::new(memory, held.live().0, entry, as_of_ms);
    reader.read(&mut held.live(), want, choice.as_mut())
}

/// A reading under way.
struct Reader<'a> {
    entry: &'a Entry,
    /// How often reports had been dropped when it began.
    removals: u64,
    /// Makes the aggregate write down what it counts, while sums are read.
    changes: Option<Arc<()>>,
    /// How often its sums had moved when it began.
    moves: u64,
    /// The row in each place.
    rows: Vec<u32>,
    /// Groups with the places of their rows.
    groups: Vec<(u32, u32)>,
    /// What was read beside sums.
    has: Want,
    reading: Reading,
}

/// What there is of some rows beside sums.
struct Details<'a> {
    rows: &'a [u32],
    /// Their groups, in the order of their places.
    groups: &'a [(u32, u32)],
    /// The place of the first row.
    first: usize,
    /// Whether their histograms are known.
    are_known: bool,
    reading: Reading,
}

impl<'a> Reader<'a> {
    fn new(memory: Reading, reports: &Reports, entry: &'a Entry, as_of_ms: u64) -> Self {
        let aggregate = reports.aggregate(entry);
        Self {
            removals: reports.removals(),
            changes: Some(aggregate.changes.reader()),
            moves: aggregate.changes.moves,
            rows: Vec::new(),
            groups: Vec::new(),
            has: Want::default(),
            reading: Reading {
                window_secs: entry.definition.window.as_secs_f64(),
                as_of_ms,
                keys: entry.definition.keys.len(),
                ranks: entry.definition.ranks().len(),
                ..memory.emptied()
            },
            entry,
        }
    }

    /// What is read, and its version; `None` when it must begin anew.
    fn read(
        mut self,
        held: &mut impl Held,
        want: Want,
        choice: Option<&mut Choice<'_>>,
    ) -> Option<(Reading, Option<(usize, u64)>)> {
        let mut parts = self.read_sums(held, want)?;
        let version = held.live().0.version(self.entry);
        // What is counted from now on is not waited for.
        self.changes = None;
        let by = choice.as_ref().map_or(want, |(by, _)| *by);
        if by != Want::default() {
            held.unlocked(|| self.append(std::mem::take(&mut parts)));
            self.read_rows(held, by)?;
        }
        held.unlocked(|| {
            self.append(parts);
            if let Some((_, choose)) = choice {
                let all = Arc::new(std::mem::take(&mut self.reading));
                self.reading = match choose(&all) {
                    Some(rows) => self.choose(&all, &rows),
                    None => Arc::unwrap_or_clone(all),
                };
            }
        });
        self.read_rows(held, want)?;
        let now = held.live().0.version(self.entry);
        Some((self.reading, (now == version).then_some(version)))
    }

    /// The aggregate as it is now, if what was read is of any use still.
    fn aggregate<'b>(&self, held: &'b impl Held) -> Option<(&'b Aggregate, &'b StringInterner)> {
        let (reports, strings) = held.live();
        let is_there = reports.removals() == self.removals;
        let aggregate = is_there.then(|| reports.aggregate(self.entry));
        let aggregate = aggregate.filter(|it| it.changes.moves == self.moves);
        aggregate.map(|aggregate| (aggregate, strings))
    }

    /// Reads the sums of all rows, as they are when this returns.
    fn read_sums(&mut self, held: &mut impl Held, want: Want) -> Option<Vec<Sums>> {
        let (aggregate, _) = self.aggregate(held)?;
        let row_map = aggregate.row_map(self.entry.report);
        let count = held.parts(aggregate.groups.end() as usize);
        let share = |at: usize| (at * row_map.end() / count) as u32;
        let mut parts = Vec::new();
        for at in 0..count {
            let numbers = share(at)..share(at + 1);
            let mut part = Sums {
                next: 0,
                counted: aggregate.changes.counted.len(),
                with_groups: want.has_histograms(),
                places: vec![NO_ROW; numbers.len()],
                rows: Vec::with_capacity(numbers.len()),
                groups: Vec::new(),
                reading: std::mem::take(&mut self.reading),
                numbers,
            };
            if at == 0 {
                part.reading.totals.reserve_exact(row_map.len() + 1);
            }
            if at == 0 && row_map.groups_in(OTHER_ROW) > 0 {
                part.place(OTHER_ROW, aggregate);
            }
            // Rows that come meanwhile are behind all others.
            if at + 1 == count {
                part.numbers.end = NO_ROW;
            }
            parts.push(part);
        }
        // Where one gives up, the aggregate is of no use below either.
        held.each(&mut parts, |held, part| {
            self.read_part(held, part);
        });
        for part in &mut parts {
            self.read_part(&mut held.live(), part)?;
        }
        let (aggregate, _) = self.aggregate(held)?;
        let window_ms = self.entry.definition.window.as_millis() as u64;
        let first = &mut parts[0];
        first.reading.covered_secs = aggregate.covered_secs(window_ms);
        // A report without keys has one row even when nothing was counted.
        if first.rows.is_empty() && self.entry.definition.keys.is_empty() {
            first.place(OTHER_ROW, aggregate);
        }
        Some(parts)
    }

    /// Reads the sums of some rows, as they are when this returns.
    fn read_part(&self, held: &mut impl Held, part: &mut Sums) -> Option<()> {
        loop {
            let (aggregate, _) = self.aggregate(held)?;
            let row_map = aggregate.row_map(self.entry.report);
            part.add_counted(aggregate, row_map);
            let end = aggregate.groups.end();
            while part.next < end && !held.is_over() {
                let first = part.next;
                part.next = (first + AT_ONCE as u32).min(end);
                for id in first..part.next {
                    if let Some(place) = part.place(row_map.row_of(id), aggregate) {
                        part.add_group(aggregate, id, place);
                    }
                }
            }
            if part.next >= end {
                return Some(());
            }
            held.unlocked(|| ());
        }
    }

    /// Puts the sums of all parts, where there are any, one behind the other, and adds them up.
    fn append(&mut self, parts: Vec<Sums>) {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return };
        (self.rows, self.groups) = (first.rows, first.groups);
        self.reading = first.reading;
        for mut part in parts {
            let first = self.rows.len() as u32;
            let groups = part.groups.drain(..);
            let groups = groups.map(|(place, group)| (first + place, group));
            self.groups.extend(groups);
            self.rows.append(&mut part.rows);
            self.reading.append(part.reading);
        }
        self.reading.add_up();
    }

    /// From now on these rows are read alone: what is there of them.
    fn choose(&mut self, all: &Reading, rows: &[usize]) -> Reading {
        let mut places = vec![NO_ROW; self.rows.len()];
        for (&row, place) in rows.iter().zip(0..) {
            places[row] = place;
        }
        self.groups.retain_mut(|(place, _)| {
            *place = places[*place as usize];
            *place != NO_ROW
        });
        self.rows = rows.iter().map(|&row| self.rows[row]).collect();
        all.only(rows)
    }

    /// Groups by the places of their rows, each once.
    fn by_place(&self) -> Vec<(u32, u32)> {
        let mut next = vec![0; self.rows.len() + 1];
        for (place, _) in &self.groups {
            next[*place as usize + 1] += 1;
        }
        for place in 1..next.len() {
            next[place] += next[place - 1];
        }
        let mut sorted = vec![(0, 0); self.groups.len()];
        for group in &self.groups {
            let next = &mut next[group.0 as usize];
            sorted[*next] = *group;
            *next += 1;
        }
        for of_row in sorted.chunk_by_mut(|a, b| a.0 == b.0) {
            of_row.sort_unstable();
        }
        sorted
    }

    /// Reads of all rows what is wanted and not there.
    fn read_rows(&mut self, held: &mut impl Held, want: Want) -> Option<()> {
        let new = Want {
            keys: want.keys && !self.has.keys,
            quantiles: want.quantiles && !self.has.has_histograms(),
            histograms: want.histograms && !self.has.has_histograms(),
        };
        self.has = want;
        if new == Want::default() {
            return Some(());
        }
        if new.has_histograms() && !self.groups.is_sorted() {
            held.unlocked(|| self.groups = self.by_place());
        }
        self.groups.dedup();
        let are_known = self.aggregate(held)?.0.has_histograms();
        let step = self.rows.len().div_ceil(held.parts(self.rows.len()));
        let mut parts = Vec::new();
        for (rows, first) in self
            .rows
            .chunks(step.max(1))
            .zip((0..).step_by(step.max(1)))
        {
            let place = |row| self.groups.partition_point(|it| it.0 < row);
            parts.push(Details {
                rows,
                groups: &self.groups[place(first)..place(first + rows.len() as u32)],
                first: first as usize,
                are_known,
                reading: std::mem::take(&mut self.reading),
            });
        }
        held.each(&mut parts, |held, part| {
            self.read_details(held, part, new);
        });
        self.aggregate(held)?;
        held.unlocked(|| {
            let are_known = parts.iter().all(|part| part.are_known);
            let mut parts = parts.into_iter().map(|part| part.reading);
            if let Some(first) = parts.next() {
                self.reading = first;
            }
            parts.for_each(|part| self.reading.append(part));
            self.reading.text.shrink_to_fit();
            if !are_known {
                self.reading.quantiles.fill(f64::NAN);
                self.reading.histograms.fill(Vec::new());
            }
        });
        Some(())
    }

    /// Reads of some rows what is wanted; `None` when it is of no use any more.
    fn read_details(&self, held: &mut impl Held, part: &mut Details<'_>, want: Want) -> Option<()> {
        if want.keys {
            self.read_keys(held, part)?;
        }
        if want.has_histograms() {
            self.read_histograms(held, part, want)?;
        }
        Some(())
    }

    fn read_keys(&self, held: &mut impl Held, part: &mut Details<'_>) -> Option<()> {
        let keys = &self.entry.definition.keys;
        let reading = &mut part.reading;
        reading
            .key_cells
            .reserve_exact(part.rows.len() * keys.len());
        let many = part.rows.len().next_power_of_two().min(NAMES);
        let mut names = vec![None; keys.len() * many];
        for rows in part.rows.chunks(AT_ONCE) {
            if held.is_over() {
                held.unlocked(|| reading.text.reserve(TEXT_AT_ONCE));
                // Other strings may have the numbers now.
                names.fill(None);
            }
            let (aggregate, strings) = self.aggregate(held)?;
            let row_map = aggregate.row_map(self.entry.report);
            for &row in rows {
                let key_ids = row_map.row_key_ids(row);
                let names = names.chunks_exact_mut(many);
                for ((&key_id, key), names) in key_ids.iter().zip(keys).zip(names) {
                    let name = &mut names[key_id as usize % many];
                    let cell = match *name {
                        _ if row == OTHER_ROW || key_id == OTHER => KeyCell::Other,
                        Some((id, cell)) if id == key_id => cell,
                        _ => {
                            let cell = reading.cell(&key.source, strings.text(key_id));
                            *name = Some((key_id, cell));
                            cell
                        }
                    };
                    reading.key_cells.push(cell);
                }
            }
        }
        Some(())
    }

    /// Reads histograms, and from them what is wanted.
    fn read_histograms(
        &self,
        held: &mut impl Held,
        part: &mut Details<'_>,
        want: Want,
    ) -> Option<()> {
        let mut rows = Histograms::default();
        let ranks = self.entry.definition.ranks();
        let quantiles = part.rows.len() * ranks.len();
        part.reading.quantiles.reserve_exact(quantiles);
        for groups in part.groups.chunks(AT_ONCE) {
            if held.is_over() || rows.pairs.len() >= BUCKETS_MAX {
                held.unlocked(|| self.work_out(&mut rows, &ranks, &mut part.reading, want));
            }
            let (aggregate, _) = self.aggregate(held)?;
            part.are_known &= aggregate.has_histograms();
            // These reads overlap, those below wait for each other.
            let groups_of = &aggregate.groups;
            let near = groups
                .iter()
                .map(|&(_, id)| groups_of.get(id).histogram.peek(0));
            std::hint::black_box(near.fold(0, |all, it| all ^ it));
            for &(place, id) in groups {
                rows.begin(place as usize - part.first);
                rows.add(&groups_of.get(id).histogram);
                if let Some((_, slot)) = groups_of.running(id) {
                    rows.add(&slot.histogram);
                }
            }
        }
        rows.begin(part.rows.len());
        held.unlocked(|| self.work_out(&mut rows, &ranks, &mut part.reading, want));
        Some(())
    }

    /// Reads what is wanted from the histograms of rows.
    fn work_out(&self, rows: &mut Histograms, ranks: &Ranks, reading: &mut Reading, want: Want) {
        let mut first = 0;
        for end in rows.ends.drain(..) {
            let pairs = &rows.pairs[first..end];
            first = end;
            if want.quantiles {
                let total = pairs.iter().map(|&(_, count)| count).sum();
                let (buckets, quantiles) = (self.entry.definition.buckets, &mut reading.quantiles);
                buckets.quantiles(ranks, total, pairs.iter().copied(), quantiles);
            }
            if want.histograms {
                reading.histograms.push(pairs.to_vec());
            }
        }
        // What is left is of the row at hand.
        rows.pairs.drain(..first);
    }
}

impl Reading {
    /// Rows that were added up elsewhere: the texts of their keys, whether they stand for others, sums and extremes. No
    /// histogram is known yet.
    #[cfg(feature = "sql")]
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
    #[cfg(feature = "sql")]
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

    #[cfg(feature = "sql")]
    fn push_key(&mut self, source: &KeySource, is_other: bool, text: &str) {
        let cell = match is_other {
            true => KeyCell::Other,
            false => self.cell(source, text),
        };
        self.key_cells.push(cell);
    }

    /// The value of a key, of which the text is put down.
    fn cell(&mut self, source: &KeySource, text: &str) -> KeyCell {
        if let KeySource::Field(Field::Status) = source {
            return KeyCell::Status(text.parse().unwrap_or(0));
        }
        let at = self.text.len() as u32;
        self.text.push_str(text);
        KeyCell::Text {
            at,
            len: text.len() as u32,
        }
    }
}
