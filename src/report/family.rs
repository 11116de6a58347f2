//! A family: the reports that count the same records over the same window, and the groups they share.
//!
//! Level, window, filters and histogram layout say which records a family counts and how; its dimensions are as fine
//! as its finest report. Each record is counted once, in one group; what the reports of the family show is put together
//! from groups when it is asked for. So the price of a packet grows with the number of families, not of reports.
//!
//! To find the group of a record, the family remembers it per origin or tag set number (a [`Route`]); only what it has
//! not seen yet is looked up by its lanes.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use ahash::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use super::budget::{Budget, Taken};
use super::counts::grown;
use super::definition::{DEFINITION_KEYS_MAX, Definition, Filter, Key, KeySource, Level, Missing};
use super::dimension::{Dimension, Lanes, Names, Parts, Subject, intern_status, is_status};
use super::groups::{Gain, Groups};
use super::histogram::Layout;
use super::journal::{JournalReader, JournalWriter};
use super::projection::Projection;
use super::route::{Known, Route};
use super::totals::Totals;
use super::window::{Coverage, Ticks};
use crate::pool::Freed;
use crate::pool::origins::Origins;
use crate::pool::tag_sets::TagSets;
use crate::pool::words::{OTHER, Words};

pub(super) mod close;
mod identity;
pub(super) mod saved;

/// Groups that budget pressure may still make, with their open dimensions folded to `(other)`.
const FOLDED_GROUPS_MAX: usize = 4096;

/// What families of one store of reports have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scope {
    pub(super) level: Level,
    pub(super) ticks: Ticks,
    pub(super) layout: Layout,
    pub(super) extremes: bool,
}

/// Reports that share groups.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) scope: Scope,
    filters: Vec<Filter>,
    pub(super) dimensions: Vec<Dimension>,
    route: Route,
    pub(super) groups: Groups,
    table: HashTable<u32>,
    hasher: RandomState,
    /// One per report, by the number the report got; `None`: dropped.
    projections: Vec<Option<Projection>>,
    /// The running tick.
    tick: u64,
    journals: VecDeque<Journal>,
    journal_bytes: usize,
    writer: JournalWriter,
    pairs: Vec<(u32, u64)>,
    /// Closed ticks in the window that had to leave their histograms out.
    blind_ticks: usize,
    /// Whether the running tick is one of them already.
    spilled_blind: bool,
    /// Groups made under budget pressure.
    folded: usize,
    /// Pieces of journals in the window whose tick did not find room for all groups.
    folded_journals: usize,
    /// Whether the running tick is one of them already.
    folds: bool,
    /// Groups that lost what they had in the running tick, and had nothing else then.
    emptied: Vec<u32>,
    /// Told of groups that go while a snapshot is written.
    forgotten: Mutex<Weak<saved::Forgotten>>,
    /// Records counted in the running tick.
    gains: usize,
    /// What the group of all that is `(other)` gained in the running tick beside its slot and what is written.
    aside: Option<(u32, Totals)>,
    /// When what it knows came in.
    pub(super) coverage: Coverage,
    /// Counts changes; equal versions mean equal answers.
    pub(super) version: u64,
    /// What came through since the family is there.
    pub(super) flow: Flow,
}

/// What a family was offered, and what of it went into a group. Only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flow {
    /// Requests looked at, back-fill included.
    pub requests_offered: u64,
    /// Requests counted, at timer level with at least one timer.
    pub requests_counted: u64,
    /// Timers looked at; 0 at request level.
    pub timers_offered: u64,
    /// Timers counted; 0 at request level.
    pub timers_counted: u64,
}

/// What one closed tick added.
#[derive(Debug)]
struct Journal {
    tick: u64,
    /// Shared with a snapshot that is being written, never for longer.
    entries: Arc<[u8]>,
    /// How many groups are spoken of.
    groups: usize,
    histograms: bool,
    /// Some of what was counted in this tick lies under `(other)` for want of memory.
    folded: bool,
}

/// The names of the pool, with the words open for writing.
#[derive(Debug)]
pub(super) struct NamesMut<'a> {
    pub(super) words: &'a mut Words,
    pub(super) origins: &'a Origins,
    pub(super) tag_sets: &'a TagSets,
}

impl NamesMut<'_> {
    fn shared(&self) -> Names<'_> {
        Names {
            words: self.words,
            origins: self.origins,
            tag_sets: self.tag_sets,
        }
    }
}

impl Family {
    /// A family whose dimensions serve `keys`, counting from the tick that runs at `now_ms`.
    pub(super) fn new(scope: Scope, filters: Vec<Filter>, keys: &[Key], now_ms: u64) -> Self {
        let mut dimensions: Vec<Dimension> = Vec::new();
        for key in keys {
            if !dimensions.iter().any(|dimension| dimension.serves(key)) {
                dimensions.push(Dimension::of(key));
            }
        }
        Self::with_dimensions(scope, filters, dimensions, now_ms)
    }

    fn with_dimensions(
        scope: Scope,
        filters: Vec<Filter>,
        dimensions: Vec<Dimension>,
        now_ms: u64,
    ) -> Self {
        let parts = Parts::of(&dimensions, &filters);
        let mut groups = Groups::new(dimensions.len(), scope.extremes);
        groups.ticks = scope.ticks.count;
        Self {
            scope,
            filters,
            groups,
            dimensions,
            route: Route::new(parts),
            table: HashTable::new(),
            hasher: RandomState::new(),
            projections: Vec::new(),
            tick: scope.ticks.at(now_ms),
            journals: VecDeque::new(),
            journal_bytes: 0,
            writer: JournalWriter::default(),
            pairs: Vec::new(),
            blind_ticks: 0,
            spilled_blind: false,
            folded: 0,
            folded_journals: 0,
            folds: false,
            emptied: Vec::new(),
            forgotten: Mutex::default(),
            gains: 0,
            aside: None,
            coverage: Coverage::new(scope.ticks),
            version: 0,
            flow: Flow::default(),
        }
    }

    /// Whether a report can be answered from this family's groups.
    pub(super) fn serves(&self, scope: &Scope, definition: &Definition) -> bool {
        let keys = &definition.keys;
        self.scope == *scope
            && self.filters == definition.filters
            && keys
                .iter()
                .all(|key| self.dimensions.iter().any(|d| d.serves(key)))
            && self.dimensions.iter().all(|dimension| {
                // What the family leaves out the report must leave out too, and a request that has several timers in a
                // row must be in one group of that row: at timer level the timer's dimensions have to be the same.
                let wanted = keys.iter().any(|key| dimension.serves(key));
                wanted
                    || dimension.missing == Missing::Empty
                        && !(scope.level == Level::Timer && dimension.of_timer())
            })
    }

    /// Takes a report in; returns its number in this family.
    pub(super) fn join(&mut self, definition: &Definition, rows_max: usize) -> usize {
        let mut projection = Projection::new(definition, &self.dimensions, rows_max);
        for id in (0..self.groups.end()).filter(|&id| self.groups.is_used(id)) {
            projection.add_group(id, &self.groups.lanes(id));
        }
        // The number of one that was dropped is given again: each new group looks at all of them.
        match self.projections.iter().position(Option::is_none) {
            Some(free) => {
                self.projections[free] = Some(projection);
                free
            }
            None => {
                self.projections.push(Some(projection));
                self.projections.len() - 1
            }
        }
    }

    /// Lets a report go; true when it was the last.
    pub(super) fn leave(&mut self, report: usize) -> bool {
        self.projections[report] = None;
        self.projections.iter().all(Option::is_none)
    }

    /// The view of report number `report`.
    pub(super) fn projection(&self, report: usize) -> &Projection {
        self.projections[report]
            .as_ref()
            .expect("only live reports hold their number")
    }

    /// Whether a request or timer of this request time passes the filters on time.
    pub(super) fn time_passes(&self, time_us: u64) -> bool {
        self.filters.iter().all(|filter| match *filter {
            Filter::MinTime(min) => time_us >= min,
            Filter::TimeBelow(bound) => time_us < bound,
            Filter::Field(..) | Filter::RequestTag(..) | Filter::TimerTag(..) => true,
        })
    }

    /// The group in which a record of this family counts; `None` when it is none of its records.
    #[inline]
    pub(super) fn group_of(
        &mut self,
        subject: Subject,
        names: &mut NamesMut<'_>,
        budget: &mut Budget,
    ) -> Option<u32> {
        match self.route.find(subject, &self.groups) {
            Known::Group(group) => Some(group),
            Known::Skipped => None,
            Known::Nothing => {
                let found = self.find_group(subject, names, budget);
                let shared = names.shared();
                let before = self.route.heap_bytes();
                let room = budget.shortcuts();
                self.route
                    .remember(subject, found, &self.groups, room, |side| {
                        shared.side_lanes(side, &self.dimensions, &self.filters, subject)
                    });
                budget.changed(before, self.route.heap_bytes());
                found
            }
        }
    }

    /// Counts records in the groups that [`group_of`](Self::group_of) gave since the last tick began: of each pick the
    /// group, and which of the gains is its.
    pub(super) fn count(
        &mut self,
        picks: &[(u32, u32)],
        gains: &[Gain],
        words: &mut Words,
        budget: &mut Budget,
    ) {
        let layout = self.scope.layout;
        self.groups.foresee(picks, gains, &layout);
        self.gains += picks.len();
        let mut before = self.groups.heap_bytes();
        let mut grown_before = grown();
        for &(group, at) in picks {
            let gain = &gains[at as usize];
            if !self.groups.count(group, gain, &layout) {
                self.groups.slot_histograms_grew(grown_before);
                budget.changed(before, self.groups.heap_bytes());
                self.spill(group, words, budget);
                before = self.groups.heap_bytes();
                grown_before = grown();
                self.groups.count(group, gain, &layout);
            }
        }
        self.groups.slot_histograms_grew(grown_before);
        budget.changed(before, self.groups.heap_bytes());
    }

    /// Takes over a slot whose sums are nearly full, as the end of the tick would.
    #[cold]
    fn spill(&mut self, group: u32, words: &mut Words, budget: &mut Budget) {
        self.end_piece(false);
        let Some((at, _)) = self.groups.running(group) else {
            return;
        };
        if budget.has_room_for_closed(self.groups.closing_bytes(at)) {
            let Self {
                groups,
                writer,
                tick,
                ..
            } = self;
            groups.take_over(at, *tick, true, |slot| {
                writer.entry(slot.group, &slot.totals(), Some(&slot.histogram));
            });
            return;
        }
        // No room for another entry: it goes where all goes that has none, and what that has more than a slot can hold is
        // kept aside, without times, for an entry at the end of the tick.
        self.folds = true;
        let other = self.other_group(words, budget);
        if group != other && self.groups.fold(at, other) {
            return;
        }
        if let Some((full, _)) = self.groups.running(other) {
            let aside = &mut self.aside.get_or_insert((other, Totals::ZERO)).1;
            self.groups
                .take_over(full, self.tick, false, |slot| *aside += &slot.totals());
            self.spilled_blind = true;
        }
        if group != other {
            self.groups.fold(at, other);
        }
    }

    /// The slow path of [`group_of`](Self::group_of): filters, lanes, table.
    #[cold]
    fn find_group(
        &mut self,
        subject: Subject,
        names: &mut NamesMut<'_>,
        budget: &mut Budget,
    ) -> Option<u32> {
        let shared = names.shared();
        if !shared.passes(&self.filters, subject) {
            return None;
        }
        let mut lanes = shared.lanes(&self.dimensions, subject)?;
        let status = names.origins.get(subject.origin).status;
        intern_status(&mut lanes, &self.dimensions, status, names.words);
        let group = self.find_or_make_group(&lanes, names.words, budget);
        for (&lane, dimension) in lanes.iter().zip(&self.dimensions) {
            if is_status(dimension) {
                names.words.release(lane);
            }
        }
        Some(group)
    }

    fn find_or_make_group(&mut self, lanes: &Lanes, words: &mut Words, budget: &mut Budget) -> u32 {
        if let Some(id) = self.find(lanes) {
            return id;
        }
        if !budget.exhausted(self.next_bytes()) {
            return self.make_group(lanes, words, budget);
        }
        budget.folded(1);
        self.fold_target(lanes, words, budget)
    }

    /// The group into which a combination folds that has no memory: what tends to explode becomes `(other)`, the rest is
    /// kept apart as long as that does not explode too.
    fn fold_target(&mut self, lanes: &Lanes, words: &mut Words, budget: &mut Budget) -> u32 {
        let coarse = self.coarse(lanes);
        if let Some(id) = self.find(&coarse) {
            return id;
        }
        if self.folded < FOLDED_GROUPS_MAX && !budget.exhausted_for_folded(self.next_bytes()) {
            self.folded += 1;
            return self.make_group(&coarse, words, budget);
        }
        self.other_group(words, budget)
    }

    /// The group into which one folds that is there already, for some of its time.
    fn fold_target_for_now(
        &mut self,
        lanes: &Lanes,
        words: &mut Words,
        budget: &mut Budget,
    ) -> u32 {
        let coarse = self.coarse(lanes);
        self.find(&coarse)
            .unwrap_or_else(|| self.other_group(words, budget))
    }

    /// A combination with `(other)` where values are without end.
    fn coarse(&self, lanes: &Lanes) -> Lanes {
        let mut coarse = *lanes;
        for (lane, dimension) in coarse.iter_mut().zip(&self.dimensions) {
            if dimension.is_open() {
                *lane = OTHER;
            }
        }
        coarse
    }

    /// The group of all that is `(other)` in every respect.
    fn other_group(&mut self, words: &mut Words, budget: &mut Budget) -> u32 {
        let other = [OTHER; DEFINITION_KEYS_MAX];
        self.find(&other)
            .unwrap_or_else(|| self.make_group(&other, words, budget))
    }

    /// Bytes that what finds and shows groups takes when the next one makes it grow; both copies, while it does.
    fn next_bytes(&self) -> usize {
        let table = match self.table.len() == self.table.capacity() {
            true => self.table.capacity() * 12,
            false => 0,
        };
        let projections = self.projections.iter().flatten();
        let projections: usize = projections.map(Projection::next_bytes).sum();
        self.groups.next_bytes() + table + projections
    }

    fn find(&self, lanes: &Lanes) -> Option<u32> {
        let hash = self.hasher.hash_one(&lanes[..self.dimensions.len()]);
        self.table
            .find(hash, |&id| self.groups.is(id, lanes))
            .copied()
    }

    fn make_group(&mut self, lanes: &Lanes, words: &mut Words, budget: &mut Budget) -> u32 {
        let before = self.group_bytes();
        let stride = self.dimensions.len();
        for &lane in &lanes[..stride] {
            words.hold(lane);
        }
        let id = self.groups.insert(lanes);
        let Self {
            table,
            hasher,
            groups,
            ..
        } = self;
        let hash = hasher.hash_one(&lanes[..stride]);
        table.insert_unique(hash, id, |&id| hasher.hash_one(&groups.lanes(id)[..stride]));
        for projection in self.projections.iter_mut().flatten() {
            projection.add_group(id, lanes);
        }
        budget.changed(before, self.group_bytes());
        id
    }

    /// Forgets a group under whose number nothing is counted any more.
    fn forget_group(&mut self, id: u32, words: &mut Words) {
        let lanes = self.groups.lanes(id);
        let stride = self.dimensions.len();
        let hash = self.hasher.hash_one(&lanes[..stride]);
        if let Ok(entry) = self.table.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        for projection in self.projections.iter_mut().flatten() {
            projection.remove_group(id, &lanes);
        }
        for &lane in &lanes[..stride] {
            words.release(lane);
        }
        if lanes[..stride].contains(&OTHER) {
            self.folded = self.folded.saturating_sub(1);
        }
        self.groups.remove(id);
        if let Some(forgotten) = self.forgotten.get_mut().upgrade() {
            forgotten.note(id);
        }
    }

    /// Something was merged at `now_ms`, whether or not it counts here.
    pub(super) fn merged(&mut self, now_ms: u64) {
        self.coverage.merged(now_ms);
        self.version += 1;
    }

    /// Takes away what a tick that left the window had added.
    fn retire(&mut self, journal: &Journal, words: &mut Words) {
        self.journal_bytes -= journal.entries.len();
        self.blind_ticks -= usize::from(!journal.histograms);
        self.folded_journals -= usize::from(journal.folded);
        let mut pairs = std::mem::take(&mut self.pairs);
        let mut reader = JournalReader::new(&journal.entries);
        while let Some((id, totals)) = reader.next(&mut pairs) {
            let is_running = self.groups.is_running(id);
            let group = self.groups.get_mut(id);
            group.totals -= &totals;
            let before = group.histogram.heap_bytes();
            for &(bucket, count) in &pairs {
                group.histogram.subtract(bucket, count);
            }
            group.histogram.tidy();
            let after = group.histogram.heap_bytes();
            let empty = group.totals == Totals::ZERO && !is_running;
            self.groups.histogram_bytes = self.groups.histogram_bytes + after - before;
            if let Some(extremes) = &mut self.groups.extremes {
                let extremes = &mut extremes[id as usize];
                let before = extremes.len();
                extremes.retain(|&(tick, _)| tick > journal.tick);
                self.groups.extremes_count -= before - extremes.len();
            }
            if empty {
                self.forget_group(id, words);
            }
        }
        self.pairs = pairs;
    }

    /// Whether quantiles are known: no tick in the window had to leave its histograms out.
    pub(super) fn has_histograms(&self) -> bool {
        self.blind_ticks == 0 && !self.spilled_blind
    }

    /// Origins and tag sets whose numbers stand for something else from now on.
    pub(super) fn forget(&mut self, freed: &Freed) {
        self.route.forget(freed);
    }

    /// Forgets all shortcuts, so that everything is looked up anew.
    pub(super) fn forget_routes(&mut self) {
        self.route = Route::new(Parts::of(&self.dimensions, &self.filters));
    }

    /// Drops everything that was counted.
    pub(super) fn clear(&mut self, words: &mut Words) {
        for at in 0..self.groups.dirty() {
            self.groups.close_slot(at, self.tick, false, |_| {});
        }
        self.groups.slots_closed();
        self.emptied.clear();
        for id in 0..self.groups.end() {
            if self.groups.is_used(id) {
                self.forget_group(id, words);
            }
        }
        self.journals.clear();
        self.writer = JournalWriter::default();
        self.coverage.clear();
        self.journal_bytes = 0;
        self.blind_ticks = 0;
        self.spilled_blind = false;
        self.folded_journals = 0;
        self.folds = false;
        self.gains = 0;
        self.aside = None;
        self.give_end_back();
        self.forget_routes();
        self.version += 1;
    }

    /// How many reports share it.
    pub(super) fn reports(&self) -> usize {
        self.projections.iter().flatten().count()
    }

    /// Whether keys lie under `(other)`, for all of the window or for some ticks, because there was no memory for them.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.folded > 0 || self.folded_journals > 0 || self.folds
    }

    /// Bytes that report number `report` takes: its own, and an even share of what all of the family use.
    pub(super) fn heap_bytes_of(&self, report: usize) -> usize {
        let own = |projection: &Projection| projection.heap_bytes();
        let all: usize = self.projections.iter().flatten().map(own).sum();
        let shared = self.heap_bytes() - all;
        shared / self.reports().max(1) + own(self.projection(report))
    }

    /// Bytes taken.
    pub(super) fn heap_bytes(&self) -> usize {
        self.group_bytes()
            + self.journal_bytes
            + self.writer.unfinished().len()
            + self.emptied.capacity() * 4
            + self.coverage.heap_bytes()
            + self.route.heap_bytes()
    }

    /// Bytes taken, and by closed ticks.
    pub(super) fn taken(&self) -> Taken {
        Taken {
            all: self.heap_bytes(),
            closed: self.closed_bytes(),
        }
    }

    /// Bytes that closed ticks take.
    fn closed_bytes(&self) -> usize {
        self.journal_bytes + self.writer.unfinished().len() + self.groups.closed_bytes()
    }

    /// Bytes that groups take, with what finds them and shows them.
    fn group_bytes(&self) -> usize {
        let projections = self.projections.iter().flatten();
        let projections: usize = projections.map(Projection::heap_bytes).sum();
        self.groups.heap_bytes() + self.table.capacity() * 6 + projections
    }
}

/// Keys of a family that serves every report over request fields alone.
pub(super) fn all_fields() -> Vec<Key> {
    use super::definition::{Field, Occurrence};
    [
        Field::Hostname,
        Field::ServerName,
        Field::ScriptName,
        Field::Status,
        Field::Schema,
    ]
    .map(|field| Key {
        source: KeySource::Field(field),
        occurrence: Occurrence::First,
        missing: Missing::Empty,
    })
    .into()
}
