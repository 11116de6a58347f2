//! A family on its way into a snapshot, and out of one.
//!
//! What a group's sums are is told by the journals of the ticks in the window, so the journals are what is written: those of
//! closed ticks, which never change, and one made on the spot from what the running tick has so far. That moment is
//! the cut; it is taken under the lock, for all families at once, and costs some tens of nanoseconds for each group that
//! gained something in the running tick. What the groups are called is copied afterwards, some thousand at a time.
//! A group that goes meanwhile has either nothing in the window any more, and the journals that speak of it are not written
//! any more, or folded into `(other)` with all that it had, for want of memory: it is written as `(other)` then, whoever has its number
//! now ([`Forgotten`]).
//!
//! On the way back groups get new numbers, and go through the same doors as in a running daemon: past `reports.memory`
//! they fold into `(other)`. What no journal speaks of is forgotten again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::identity::Identity;
use super::{Family, Flow, Journal};
use crate::packed::{Damage, Packer, Unpacker};
use crate::pool::words::{OTHER, Words};
use crate::report::budget::{Budget, Taken};
use crate::report::counts::BUCKET_MAX;
use crate::report::definition::{DEFINITION_KEYS_MAX, Definition};
use crate::report::dimension::NO_LANE;
use crate::report::journal::{JournalReader, JournalWriter};
use crate::report::projection::{NO_ROW, OTHER_ROW, Projection};
use crate::report::reading::Extremes;
use crate::report::totals::Totals;
use crate::report::window::{Coverage, Ticks};

/// A part of a journal ends when it has become longer than this.
const PART_BYTES: usize = 512 << 10;

/// Bytes of budget for each group number that is read back: a group takes far more than that.
const GROUP_BYTES_MIN: usize = 64;

/// Sums of one group in one tick stay below this, so that no number of them overflows.
const SUM_END: u128 = 1 << 96;

/// All samples of a family stay below this.
const SAMPLES_END: u64 = 1 << 62;

/// Samples of one bucket in one tick; so many take megabytes.
const SAMPLES_MAX: u64 = 1 << 54;

/// Reports of a family that are read back.
const REPORTS_MAX: u64 = 4_096;

/// No group behind that number.
const NO_GROUP: u32 = u32::MAX;

/// The groups of a cut that went since: a bit for each number.
#[derive(Debug)]
pub(super) struct Forgotten(Box<[AtomicU64]>);

impl Forgotten {
    fn up_to(end: u32) -> Self {
        let words = (0..end.div_ceil(64)).map(|_| AtomicU64::new(0));
        Self(words.collect())
    }

    /// Called with the lock held for writing, and [`has`](Self::has) for reading: that orders them.
    pub(super) fn note(&self, id: u32) {
        if let Some(word) = self.0.get(id as usize / 64) {
            word.fetch_or(1 << (id % 64), Ordering::Relaxed);
        }
    }

    fn has(&self, id: u32) -> bool {
        let word = self.0.get(id as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (id % 64) != 0)
    }
}

/// A family as it stood at the cut.
#[derive(Debug)]
pub(in crate::report) struct FamilyCut {
    /// Its place among the families.
    pub(in crate::report) at: usize,
    /// Identity, time and names of its reports.
    pub(in crate::report) head: Packer,
    /// Numbers of its reports in the family, in the order of their names in the head.
    reports: Vec<usize>,
    ticks: Ticks,
    tick: u64,
    end: u32,
    journals: Vec<(u64, bool, Weak<[u8]>)>,
    running: Arc<[u8]>,
    running_histograms: bool,
    /// Extremes of the running tick, by group.
    extremes: Vec<(u32, Extremes)>,
    forgotten: Arc<Forgotten>,
}

impl Family {
    /// The family as it stands; `reports` are the numbers and names of those that are live.
    pub(in crate::report) fn cut(&self, at: usize, reports: &[(usize, &str)]) -> FamilyCut {
        let mut head = Packer::new();
        Identity::pack(&self.scope, &self.filters, &self.dimensions, &mut head);
        head.number(self.tick);
        self.coverage.pack(&mut head);
        for count in [
            self.flow.requests_offered,
            self.flow.requests_counted,
            self.flow.timers_offered,
            self.flow.timers_counted,
            // What folded for some ticks only is as good as a group that folded.
            self.folded.max(usize::from(self.is_short_of_memory())) as u64,
        ] {
            head.number(count);
        }
        head.number(reports.len() as u64);
        for (_, name) in reports {
            head.text(name.as_bytes());
        }
        let mut writer = JournalWriter::beginning_with(self.writer.unfinished());
        if let Some((other, totals)) = &self.aside {
            writer.entry(*other, totals, None);
        }
        let mut extremes = Vec::new();
        for at in 0..self.groups.dirty() {
            let (slot, seen) = self.groups.slot(at);
            writer.entry(slot.group, &slot.totals(), Some(&slot.histogram));
            extremes.extend(seen.map(|seen| (slot.group, *seen)));
        }
        extremes.sort_unstable_by_key(|&(group, _)| group);
        let forgotten = Arc::new(Forgotten::up_to(self.groups.end()));
        *self.forgotten.lock() = Arc::downgrade(&forgotten);
        FamilyCut {
            at,
            head,
            reports: reports.iter().map(|&(report, _)| report).collect(),
            ticks: self.scope.ticks,
            tick: self.tick,
            end: self.groups.end(),
            journals: self
                .journals
                .iter()
                .map(|it| (it.tick, it.histograms, Arc::downgrade(&it.entries)))
                .collect(),
            running: writer.finish(),
            running_histograms: !self.spilled_blind,
            extremes,
            forgotten,
        }
    }

    /// Writes what groups are, from number `from` on; returns the number to go on with, `None` after the last.
    pub(in crate::report) fn pack_groups(
        &self,
        cut: &FamilyCut,
        from: u32,
        words: &Words,
        to: &mut Packer,
    ) -> Option<u32> {
        const GROUPS: u32 = 1_024;
        let end = cut.end;
        let until = end.min(from.saturating_add(GROUPS));
        for id in from..until {
            if cut.forgotten.has(id) {
                self.pack_folded(id, cut, words, to);
            } else if id < self.groups.end() && self.groups.is_used(id) {
                self.pack_group(id, cut, words, to);
            }
            if to.len() > PART_BYTES {
                return Some(id + 1);
            }
        }
        (until < end).then_some(until)
    }

    /// A group of the cut that is under `(other)` now, or of which nothing is in the window any more.
    fn pack_folded(&self, id: u32, cut: &FamilyCut, words: &Words, to: &mut Packer) {
        to.number(id.into());
        for _ in &self.dimensions {
            words.pack(OTHER, to);
        }
        for _ in &cut.reports {
            to.number(0);
        }
        if self.groups.extremes.is_some() {
            cut.pack_extremes(id, &[], to);
        }
    }

    fn pack_group(&self, id: u32, cut: &FamilyCut, words: &Words, to: &mut Packer) {
        to.number(id.into());
        for at in 0..self.dimensions.len() {
            words.pack(self.groups.lane(id, at), to);
        }
        for &report in &cut.reports {
            let projection = self.projections.get(report).and_then(Option::as_ref);
            let row = projection.map_or(NO_ROW, |it| it.row_of(id));
            // The row that is none becomes 0.
            to.number(row.wrapping_add(1).into());
        }
        if let Some(closed) = &self.groups.extremes {
            cut.pack_extremes(id, &closed[id as usize], to);
        }
    }
}

impl FamilyCut {
    /// Writes the extremes of a group: those of ticks that were closed, and what it had at the cut.
    fn pack_extremes(&self, id: u32, closed: &[(u64, Extremes)], to: &mut Packer) {
        let before = closed.iter().filter(|&&(tick, _)| tick < self.tick);
        let running = self.extremes.binary_search_by_key(&id, |&(group, _)| group);
        let running = running.ok().map(|at| (self.tick, self.extremes[at].1));
        let mut all: Vec<(u64, Extremes)> = Vec::new();
        for (tick, seen) in before.copied().chain(running) {
            // A tick whose sums did not fit one slot has more than one entry.
            match all.last_mut() {
                Some((last, all)) if *last == tick => all.widen(&seen),
                _ => all.push((tick, seen)),
            }
        }
        to.number(all.len() as u64);
        for (tick, seen) in all {
            to.number(tick);
            to.number(seen.time_min);
            to.number(seen.time_max);
            to.number(seen.memory_peak_max.into());
        }
    }

    /// Gives the journals that are in the window at `now_ms`, in parts: tick, whether it has histograms, entries.
    pub(in crate::report) fn journals<E>(
        &self,
        now_ms: u64,
        mut each: impl FnMut(&Packer) -> Result<(), E>,
    ) -> Result<(), E> {
        let gone = self.ticks.last_gone(self.ticks.at(now_ms));
        let running = (self.tick, self.running_histograms, &self.running);
        let closed = self.journals.iter();
        let closed =
            closed.map(|(tick, histograms, entries)| (*tick, *histograms, entries.upgrade()));
        let all = closed.chain([(running.0, running.1, Some(Arc::clone(running.2)))]);
        let mut part = Packer::new();
        let mut pairs = Vec::new();
        for (tick, histograms, entries) in all {
            // One that is not there any more has left the window since the last look at the clock.
            let Some(entries) = entries.filter(|_| gone.is_none_or(|gone| tick > gone)) else {
                continue;
            };
            let mut reader = JournalReader::new(&entries);
            while !reader.rest().is_empty() {
                let rest = reader.rest();
                while rest.len() - reader.rest().len() < PART_BYTES
                    && reader.next(&mut pairs).is_some()
                {}
                part.clear();
                part.number(tick);
                part.switch(histograms);
                part.raw(&rest[..rest.len() - reader.rest().len()]);
                each(&part)?;
            }
        }
        Ok(())
    }
}

/// Why a family cannot be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Trouble {
    /// It cannot be what was written.
    Damage(Damage),
    /// It is more than `reports.memory` allows.
    TooLarge,
}

impl From<Damage> for Trouble {
    fn from(damage: Damage) -> Self {
        Self::Damage(damage)
    }
}

/// A family that is being read back.
#[derive(Debug)]
pub(in crate::report) struct FamilyRestore {
    pub(in crate::report) family: Box<Family>,
    /// Names of its reports, and which row each group had in each.
    pub(in crate::report) reports: Vec<(String, Vec<(u32, u32)>)>,
    /// Numbers of the groups, by the numbers that they had.
    groups: Vec<u32>,
    folded: usize,
    samples: u64,
    /// Bytes that histograms may take.
    histogram_bytes_max: usize,
}

impl FamilyRestore {
    /// Reads the head.
    pub(in crate::report) fn begin(
        from: &mut Unpacker<'_>,
        now_ms: u64,
        budget: &Budget,
    ) -> Result<Self, Damage> {
        let Identity {
            scope,
            filters,
            dimensions,
        } = Identity::unpack(from)?;
        let mut family = Box::new(Family::with_dimensions(scope, filters, dimensions, now_ms));
        family.tick = from.at_most(scope.ticks.at(now_ms), "a tick lies in the future")?;
        family.coverage = Coverage::unpack(scope.ticks, from, now_ms)?;
        family.flow = Flow {
            requests_offered: from.number()?,
            requests_counted: from.number()?,
            timers_offered: from.number()?,
            timers_counted: from.number()?,
        };
        let folded = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let mut reports = Vec::new();
        for _ in 0..from.at_most(REPORTS_MAX, "there are too many reports")? {
            reports.push((from.name()?.to_owned(), Vec::new()));
        }
        from.finish()?;
        Ok(Self {
            family,
            reports,
            groups: Vec::new(),
            folded,
            samples: 0,
            histogram_bytes_max: budget.limit(),
        })
    }

    /// Bytes that it takes, also while it is being read.
    pub(in crate::report) fn taken(&self) -> Taken {
        let rows: usize = self
            .reports
            .iter()
            .map(|(_, rows)| rows.capacity() * 8)
            .sum();
        let mut taken = self.family.taken();
        taken.all += self.groups.capacity() * 4 + rows;
        taken
    }

    /// Reads what [`Family::pack_groups`] wrote.
    pub(in crate::report) fn groups(
        &mut self,
        from: &mut Unpacker<'_>,
        words: &mut Words,
        budget: &mut Budget,
    ) -> Result<(), Trouble> {
        let numbers_max = budget.limit() / GROUP_BYTES_MIN;
        while !from.is_empty() {
            let number = from.small()?;
            if number as usize >= numbers_max {
                return Err(Trouble::TooLarge);
            }
            let id = self.group(from, words, budget)?;
            let at = number as usize;
            if self.groups.len() <= at {
                self.groups.resize(at + 1, NO_GROUP);
            }
            if std::mem::replace(&mut self.groups[at], id) != NO_GROUP {
                return Err(Damage("a group comes twice").into());
            }
            for (_, rows) in &mut self.reports {
                rows.push((from.small()?.wrapping_sub(1), id));
            }
            if self.family.groups.extremes.is_some() {
                self.extremes(id, from)?;
            }
        }
        Ok(())
    }

    fn group(
        &mut self,
        from: &mut Unpacker<'_>,
        words: &mut Words,
        budget: &mut Budget,
    ) -> Result<u32, Damage> {
        let mut lanes = [NO_LANE; DEFINITION_KEYS_MAX];
        let mut held = 0;
        let mut damage = None;
        for lane in &mut lanes[..self.family.dimensions.len()] {
            match words.unpack(from) {
                Ok(word) => *lane = word,
                Err(found) => {
                    damage = Some(found);
                    break;
                }
            }
            held += 1;
        }
        let made = match damage {
            None => Ok(self.family.find_or_make_group(&lanes, words, budget)),
            Some(damage) => Err(damage),
        };
        for &lane in &lanes[..held] {
            words.release(lane);
        }
        made
    }

    fn extremes(&mut self, id: u32, from: &mut Unpacker<'_>) -> Result<(), Damage> {
        let ticks = self.family.scope.ticks.count + 1;
        for _ in 0..from.at_most(ticks, "a group has too many ticks")? {
            let tick = from.at_most(self.family.tick, "a tick lies in the future")?;
            let seen = Extremes {
                time_min: from.number()?,
                time_max: from.number()?,
                memory_peak_max: from.small()?,
            };
            let Some(extremes) = &mut self.family.groups.extremes else {
                continue;
            };
            // In the order of ticks, one for each: several groups may have become this one.
            let extremes = &mut extremes[id as usize];
            match extremes.binary_search_by_key(&tick, |&(tick, _)| tick) {
                Ok(known) => extremes[known].1.widen(&seen),
                Err(place) => {
                    extremes.insert(place, (tick, seen));
                    self.family.groups.extremes_count += 1;
                }
            }
        }
        Ok(())
    }

    /// Reads a part of a journal as [`FamilyCut::journals`] gave it.
    pub(in crate::report) fn journal(&mut self, from: &mut Unpacker<'_>) -> Result<(), Trouble> {
        let tick = from.at_most(self.family.tick, "a tick lies in the future")?;
        let histograms = from.switch()?;
        let last = self.family.journals.back();
        if last.is_some_and(|last| last.tick > tick) {
            return Err(Damage("ticks are out of order").into());
        }
        while !from.is_empty() {
            self.journal_entry(from)?;
        }
        let groups = self.family.writer.entries();
        let entries = self.family.writer.finish();
        self.family.journal_bytes += entries.len();
        self.family.blind_ticks += usize::from(!histograms);
        self.family.journals.push_back(Journal {
            tick,
            entries,
            groups,
            histograms,
            folded: false,
        });
        Ok(())
    }

    fn journal_entry(&mut self, from: &mut Unpacker<'_>) -> Result<(), Trouble> {
        let number = from.small()? as usize;
        let known = self.groups.get(number).copied();
        let id = known
            .filter(|&id| id != NO_GROUP)
            .ok_or(Damage("a journal names a group that there is not"))?;
        let requests = from.small()?.into();
        let mut sums = [0; 6];
        for sum in &mut sums {
            *sum = from.wide()?;
            if *sum >= SUM_END {
                return Err(Damage("a sum is too large").into());
            }
        }
        let [hits, time, ru_utime, ru_stime, traffic, memory] = sums;
        let totals = Totals {
            requests,
            hits,
            time,
            ru_utime,
            ru_stime,
            traffic,
            memory,
            errors: from.small()?.into(),
        };
        let mut pairs = std::mem::take(&mut self.family.pairs);
        pairs.clear();
        let mut read = self.read_pairs(from, &mut pairs);
        // A group is forgotten when its sums are zero, and its histogram has to be empty then.
        if read.is_ok() && totals == Totals::ZERO && !pairs.is_empty() {
            read = Err(Damage("a histogram has samples of no request").into());
        }
        let family = &mut *self.family;
        if read.is_ok() {
            family
                .writer
                .pairs(id, &totals, pairs.len(), pairs.iter().copied());
            let group = family.groups.get_mut(id);
            group.totals += &totals;
            let before = group.histogram.heap_bytes();
            for &(bucket, count) in &pairs {
                group.histogram.add(bucket, count);
                // Counts that are short in the file may be long in memory.
                if group.histogram.heap_bytes() > self.histogram_bytes_max {
                    read = Err(Trouble::TooLarge);
                    break;
                }
            }
            let after = group.histogram.heap_bytes();
            family.groups.histogram_bytes = family.groups.histogram_bytes + after - before;
        }
        family.pairs = pairs;
        read
    }

    fn read_pairs(
        &mut self,
        from: &mut Unpacker<'_>,
        pairs: &mut Vec<(u32, u64)>,
    ) -> Result<(), Trouble> {
        let mut bucket = 0u32;
        for _ in 0..from.number()? {
            let step = from.small()?;
            bucket = bucket
                .checked_add(step)
                .filter(|bucket| *bucket <= BUCKET_MAX)
                .ok_or(Damage("a histogram has a bucket that cannot be"))?;
            let count = from.number()?;
            self.samples = self.samples.saturating_add(count);
            if count == 0 {
                return Err(Damage("a histogram has an empty bucket").into());
            }
            if count > SAMPLES_MAX || self.samples >= SAMPLES_END {
                return Err(Trouble::TooLarge);
            }
            pairs.push((bucket, count));
        }
        Ok(())
    }

    /// Ends the reading: forgets groups of which no journal speaks, and lets the reports in that are `wanted` (place among
    /// those of the head, definition). Returns the family and the numbers of these.
    pub(in crate::report) fn finish(
        mut self,
        wanted: &[(usize, &Definition)],
        rows_max: usize,
        words: &mut Words,
    ) -> (Box<Family>, Vec<usize>) {
        let mut short = 0;
        for id in 0..self.family.groups.end() {
            let groups = &self.family.groups;
            if !groups.is_used(id) {
                continue;
            }
            if groups.get(id).totals == Totals::ZERO && !groups.is_running(id) {
                self.family.forget_group(id, words);
            } else {
                let stride = self.family.dimensions.len();
                short += usize::from(self.family.groups.lanes(id)[..stride].contains(&OTHER));
            }
        }
        self.family.folded = self.folded.min(short);
        let numbers = wanted
            .iter()
            .map(|&(place, definition)| {
                let rows = std::mem::take(&mut self.reports[place].1);
                self.join_in_order(definition, rows_max, rows)
            })
            .collect();
        (self.family, numbers)
    }

    /// Lets a report in so that its rows are in the order in which they were, and those that were under `(other)` for want
    /// of rows are so again.
    fn join_in_order(
        &mut self,
        definition: &Definition,
        rows_max: usize,
        mut rows: Vec<(u32, u32)>,
    ) -> usize {
        let family = &mut *self.family;
        let mut projection = Projection::new(definition, &family.dimensions, rows_max);
        rows.sort_by_key(|&(row, _)| match row {
            OTHER_ROW | NO_ROW => NO_ROW,
            own => own,
        });
        let mut added = vec![false; family.groups.end() as usize];
        for (_, id) in rows {
            if family.groups.is_used(id) && !std::mem::replace(&mut added[id as usize], true) {
                projection.add_group(id, &family.groups.lanes(id));
            }
        }
        family.projections.push(Some(projection));
        family.projections.len() - 1
    }
}
