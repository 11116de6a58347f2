//! The fold: from raw rows to what each row of each tracked report gained in a second.
//!
//! Runs on the series thread alone. Under the lock of [`Live`](crate::merger::Live) it copies a batch of rows and finds out
//! which rows of the reports they belong to; it adds up after it let go. Rows come in the order in which they were
//! merged, so a second is complete as soon as the merger has run in a later one. What left the pool before it was
//! seen is counted as missed, never guessed at.

use std::sync::Arc;

use super::desk::{Desk, DeskRow, Gain, NOT_COUNTED, OTHER_SLOT};
use super::frame::{Draft, Frame, Kept};
use super::history::{COARSE_SECS, Dense, FINE_SECS, Merging};
use super::{Shared, State};
use crate::merger::SharedLive;
use crate::pool::Pool;
use crate::pool::origins::Origin;
use crate::pool::requests::RequestRow;
use crate::report::definition::Definition;
use crate::report::histogram::Layout;
use crate::report::row_key::{Numbers, RowKeys};
use crate::report::totals::Totals;
use crate::wire::micros;

/// Rows looked at under one hold of the lock.
const BATCH: u64 = 2_048;

/// Timers looked at under one hold of the lock, those of the last request apart: what is copied of them is bounded too.
const TIMERS_MAX: usize = 16_384;

/// Places on a desk that must be free before a batch.
const DESK_ROOM: usize = 2_048;

/// Who else wants to know what rows gained: the metrics. Called on the series thread when a second closes.
pub trait Sink: Send + std::fmt::Debug {
    /// The bounds of a report's buckets in microseconds, ascending; `None`: it is not wanted at all.
    fn bounds(&self, report: &str) -> Option<Arc<[u64]>>;

    /// What the rows of the reports gained in a second: of all of them at once, so that whoever reads the sink can
    /// see whole seconds only.
    fn take<'a>(&mut self, reports: &mut dyn Iterator<Item = (&'a Definition, Gained<'a>)>);
}

/// The rows of one report that gained something in a second.
#[derive(Debug)]
pub struct Gained<'a> {
    desk: &'a mut Desk,
}

/// What one row gained.
#[derive(Debug)]
pub struct RowGain<'a> {
    /// Its key, see [`key_texts`](crate::report::row_key::key_texts); `None`: what found no room.
    pub key: Option<&'a [u8]>,
    /// The sink's own, 0 at first: for as long as it is not 0 the row is not added up with others.
    pub mark: &'a mut u32,
    /// What it gained.
    pub totals: &'a Totals,
    /// Times by bound, the last above all bounds.
    pub buckets: &'a [u64],
}

impl Gained<'_> {
    /// Each of them, once.
    pub fn for_each(&mut self, mut each: impl FnMut(RowGain<'_>)) {
        self.desk.gained(|slot, row, buckets| {
            let DeskRow {
                key, mark, totals, ..
            } = row;
            each(RowGain {
                key: (slot != OTHER_SLOT).then_some(&**key),
                mark,
                totals,
                buckets,
            });
        });
    }
}

/// A tracked report as the fold sees it.
#[derive(Debug)]
struct Counting {
    definition: Arc<Definition>,
    keys: RowKeys,
    desk: Desk,
}

/// A request of a batch.
#[derive(Debug)]
struct Seen {
    id: u64,
    merged_ms: u64,
    time: u64,
    ru_utime: u64,
    ru_stime: u64,
    traffic: u32,
    memory: u32,
    timers: u16,
    error: bool,
    /// How many of the batch's timers are its own.
    counted_timers: u32,
}

/// A timer of a batch that a report counts.
#[derive(Debug)]
struct SeenTimer {
    report: u32,
    slot: u32,
    value: u64,
    ru_utime: u64,
    ru_stime: u64,
    hits: u32,
}

/// What bounds the fold, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budgets {
    pub(super) frames: usize,
    pub(super) names: usize,
    pub(super) desks: usize,
    pub(super) events: usize,
}

impl Budgets {
    /// How `memory` is divided: six tenths for frames, a tenth for the names in them, two for what is busy, one for times.
    pub(super) fn of(memory: usize) -> Self {
        let tenth = memory / 10;
        Self {
            frames: tenth * 6,
            names: tenth,
            desks: tenth * 2,
            events: tenth,
        }
    }
}

/// The state of the series thread.
#[derive(Debug)]
pub(super) struct Fold {
    shared: Arc<Shared>,
    live: SharedLive,
    sinks: Vec<Box<dyn Sink>>,
    reports: Vec<Counting>,
    of_timers: bool,
    budgets: Budgets,
    error_status: u32,
    /// Added to monotonic milliseconds so that seconds begin when those of the wall clock do.
    shift_ms: u64,
    /// The running second.
    second: u64,
    /// The next request to look at; 0: none was seen yet.
    next_id: u64,
    missed: u64,
    /// Words that the pool had forgotten when the last batch was read.
    forgotten: u64,
    rows: Vec<RequestRow>,
    origins: Vec<Origin>,
    seen: Vec<Seen>,
    /// For each request of the batch the row in each report that counts requests.
    slots: Vec<u32>,
    timers: Vec<SeenTimer>,
    key: Vec<u8>,
    pairs: Vec<(u32, u64)>,
    all: Dense,
    draft: Draft,
    merging: Merging,
}

impl Fold {
    /// A fold that begins now.
    pub(super) fn new(
        shared: Arc<Shared>,
        live: SharedLive,
        sinks: Vec<Box<dyn Sink>>,
        (budgets, error_status): (Budgets, u32),
        (mono_ms, unix_ms): (u64, u64),
    ) -> Self {
        let reports = shared.state.read().reports.len().max(1);
        let desk_bytes = budgets.desks / reports;
        // Sorting takes as much again.
        let events_max = budgets.events / reports / (2 * size_of::<u64>());
        let state = shared.state.read();
        let counting = state.reports.iter().map(|tracked| {
            let name = tracked.definition.name.as_str();
            let mut bounds = sinks.iter().filter_map(|sink| sink.bounds(name));
            Counting {
                keys: RowKeys::of(&tracked.definition),
                desk: Desk::new(desk_bytes, events_max, bounds.next().unwrap_or_default()),
                definition: Arc::clone(&tracked.definition),
            }
        });
        let reports: Vec<Counting> = counting.collect();
        drop(state);
        let shift_ms = unix_ms.wrapping_sub(mono_ms) % 1000;
        let mut fold = Self {
            of_timers: reports.iter().any(|report| report.keys.of_timers()),
            shared,
            live,
            sinks,
            reports,
            budgets,
            error_status,
            shift_ms,
            second: (mono_ms + shift_ms) / 1000,
            next_id: 0,
            missed: 0,
            forgotten: 0,
            rows: Vec::new(),
            origins: Vec::new(),
            seen: Vec::new(),
            slots: Vec::new(),
            timers: Vec::new(),
            key: Vec::new(),
            pairs: Vec::new(),
            all: Dense::new(),
            draft: Draft::default(),
            merging: Merging::new(),
        };
        fold.start_second(fold.second);
        fold
    }

    /// Takes in what was merged since the last call, and closes the seconds that are complete: those before the moment
    /// `merged_ms` at which the merger's last finished run began. That is to be read before this is called.
    pub(super) fn poll(&mut self, merged_ms: u64, (mono_ms, unix_ms): (u64, u64)) {
        self.shared.set_base(self.shift_ms, mono_ms, unix_ms);
        while self.read_batch(mono_ms) {
            self.count_batch();
        }
        self.advance(self.second_of(merged_ms));
    }

    /// Closes seconds until this one runs.
    fn advance(&mut self, second: u64) {
        if second.saturating_sub(self.second) > FINE_SECS {
            // After a long stop there is no point in a frame for each second of it.
            self.close_second();
            self.start_second(second - FINE_SECS);
        }
        while self.second < second {
            self.close_second();
            self.start_second(self.second + 1);
        }
    }

    fn second_of(&self, mono_ms: u64) -> u64 {
        (mono_ms + self.shift_ms) / 1000
    }

    /// Copies the next rows and finds their rows in the reports; false when there are none.
    fn read_batch(&mut self, now_ms: u64) -> bool {
        for report in &mut self.reports {
            if report.desk.is_full(DESK_ROOM) {
                report.desk.sweep();
            }
        }
        self.seen.clear();
        self.slots.clear();
        self.timers.clear();
        let live = Arc::clone(&self.live);
        let live = live.read();
        let pool = &live.pool;
        let (oldest, end) = (pool.requests.oldest_id(), pool.requests.next_id());
        // What was merged before this daemon's first look (none, but for a pool handed over) is no concern of ours.
        let next = if self.next_id == 0 { 1 } else { self.next_id };
        let from = next.max(oldest);
        self.missed += from - next;
        let mut to = end.min(from + BATCH);
        if std::mem::replace(&mut self.forgotten, pool.words.forgotten()) != pool.words.forgotten()
        {
            let on_words = self.reports.iter_mut().filter(|it| it.keys.on_words());
            on_words.for_each(|report| report.desk.forget_identities());
        }
        // One column of work after the other: what is far away in memory is then waited for together.
        let (mut rows, mut origins) = (
            std::mem::take(&mut self.rows),
            std::mem::take(&mut self.origins),
        );
        rows.clear();
        let mut timers = 0;
        for row in (from..to).map_while(|id| pool.requests.get(id)) {
            rows.push(row);
            timers += usize::from(row.timers);
            if self.of_timers && timers >= TIMERS_MAX {
                break;
            }
        }
        to = from + rows.len() as u64;
        self.next_id = to;
        origins.clear();
        origins.extend(rows.iter().map(|row| *pool.origins.get(row.origin)));
        for ((id, row), origin) in (from..to).zip(&rows).zip(&origins) {
            self.see(pool, (id, now_ms), row, origin);
        }
        (self.rows, self.origins) = (rows, origins);
        to > from
    }

    /// Finds the rows of one request and its timers in the reports.
    fn see(&mut self, pool: &Pool, (id, now_ms): (u64, u64), row: &RequestRow, origin: &Origin) {
        let mut seen = Seen {
            id,
            merged_ms: row.merged_at(now_ms),
            time: micros(row.request_time),
            ru_utime: micros(row.ru_utime),
            ru_stime: micros(row.ru_stime),
            traffic: row.document_size,
            memory: row.memory_footprint,
            timers: row.timers,
            error: origin.status >= self.error_status,
            counted_timers: 0,
        };
        let mut numbers = Numbers {
            origin: row.origin,
            request_tags: row.request_tags,
            timer_tags: 0,
        };
        for report in &mut self.reports {
            if !report.keys.of_timers() {
                let of = (pool, origin, numbers);
                let slot = report.slot_of(of, seen.time, &mut self.key);
                self.slots.push(slot);
            }
        }
        if self.of_timers {
            let before = self.timers.len();
            for (_, timer) in pool.timers_of(row) {
                numbers.timer_tags = timer.tags;
                for (report, number) in self.reports.iter_mut().zip(0..) {
                    if !report.keys.of_timers() {
                        continue;
                    }
                    let of = (pool, origin, numbers);
                    let slot = report.slot_of(of, seen.time, &mut self.key);
                    if slot != NOT_COUNTED {
                        self.timers.push(SeenTimer {
                            report: number,
                            slot,
                            value: micros(timer.value),
                            ru_utime: micros(timer.ru_utime),
                            ru_stime: micros(timer.ru_stime),
                            hits: timer.hit_count,
                        });
                    }
                }
            }
            seen.counted_timers = (self.timers.len() - before) as u32;
        }
        self.seen.push(seen);
    }

    /// Adds up what [`read_batch`](Self::read_batch) copied; closes a second when a row of a later one comes.
    fn count_batch(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        let mut all_timers = std::mem::take(&mut self.timers);
        let mut timers = all_timers.drain(..);
        let slots = std::mem::take(&mut self.slots);
        let mut slots_left = slots.as_slice();
        for request in &seen {
            self.advance(self.second_of(request.merged_ms));
            let gain = Gain {
                request: request.id,
                time: request.time,
                ru_utime: request.ru_utime,
                ru_stime: request.ru_stime,
                traffic: request.traffic,
                memory: request.memory,
                hits: u64::from(request.timers),
                error: request.error,
                sample: request.time,
                bucket: Layout::LogLinear.bucket(request.time),
                weight: 1,
            };
            for report in &mut self.reports {
                if !report.keys.of_timers()
                    && let Some((&slot, others)) = slots_left.split_first()
                {
                    slots_left = others;
                    if slot != NOT_COUNTED {
                        report.desk.add(slot, &gain);
                    }
                }
            }
            for timer in timers.by_ref().take(request.counted_timers as usize) {
                let sample = crate::report::per_hit(timer.value, timer.hits);
                let gain = Gain {
                    request: request.id,
                    time: timer.value,
                    ru_utime: timer.ru_utime,
                    ru_stime: timer.ru_stime,
                    traffic: 0,
                    memory: 0,
                    hits: u64::from(timer.hits),
                    error: false,
                    sample,
                    bucket: Layout::LogLinear.bucket(sample),
                    weight: timer.hits,
                };
                self.reports[timer.report as usize]
                    .desk
                    .add(timer.slot, &gain);
            }
        }
        self.shared.counted(seen.len() as u64);
        drop(timers);
        all_timers.shrink_to(TIMERS_MAX);
        (self.seen, self.slots, self.timers) = (seen, slots, all_timers);
    }

    fn start_second(&mut self, second: u64) {
        self.second = second;
        for report in &mut self.reports {
            report.desk.clear(second);
        }
    }

    /// Makes a frame of the running second, and one of ten if it was the last of them.
    fn close_second(&mut self) {
        for sink in &mut self.sinks {
            let mut reports = self.reports.iter_mut().map(|report| {
                let desk = &mut report.desk;
                (&*report.definition, Gained { desk })
            });
            sink.take(&mut reports);
        }
        let missed = std::mem::take(&mut self.missed);
        self.shared.missed(missed);
        if self.budgets.frames == 0 {
            return;
        }
        self.draft_second();
        let shared = Arc::clone(&self.shared);
        let allowance = {
            let mut state = shared.state.write();
            self.weigh(&mut state);
            state.history.fine_allowance(self.reports.len())
        };
        self.draft.choose(allowance);
        let mut state = shared.state.write();
        self.number_rows(&mut state);
        drop(state);
        let (sheets, fit) = self.draft.finish(self.reports.len());
        let frame = Arc::new(Frame {
            second: self.second,
            secs: 1,
            missed,
            sheets,
        });
        let mut state = shared.state.write();
        state.history.push_fine(frame);
        state.fit = fit;
        let last_of_ten = (shared.unix_of(self.second) + 1).is_multiple_of(COARSE_SECS);
        drop(state);
        if last_of_ten {
            self.close_ten();
        }
        self.draft.clear();
    }

    /// Puts what all rows gained into the draft.
    fn draft_second(&mut self) {
        let Self {
            reports,
            draft,
            pairs,
            all,
            ..
        } = self;
        draft.clear();
        for (report, number) in reports.iter_mut().zip(0..) {
            let mut sum = Totals::ZERO;
            // The only row of a report without keys is its total.
            let has_keys = !report.definition.keys.is_empty();
            report.desk.close(all, pairs, |slot, row, pairs| {
                sum += &row.totals;
                if slot == OTHER_SLOT {
                    draft.push_other(number, &row.totals);
                } else if has_keys {
                    let id = (number, row.row, slot);
                    draft.push(id, weight(&row.totals), &row.totals, pairs);
                }
            });
            all.take(pairs);
            if sum.requests > 0 {
                draft.push_total(number, &sum, Some(pairs));
            }
        }
    }

    /// Adds what rows weigh by this second to what they weighed, and puts that into the draft.
    fn weigh(&mut self, state: &mut State) {
        for row in &mut self.draft.rows {
            let names = &mut state.reports[row.report].names;
            if row.row > super::frame::OTHER {
                names.add_weight(row.row, row.weight);
                row.weight = names.weight(row.row);
            } else if row.weight < names.lightest() {
                row.kept = Kept::Folded;
            }
        }
        for tracked in &mut state.reports {
            tracked.names.fade_threshold();
        }
    }

    /// Gives numbers to rows that are kept for the first time.
    fn number_rows(&mut self, state: &mut State) {
        for row in &mut self.draft.rows {
            if row.row == 0 && row.kept != Kept::Folded {
                let on_desk = &mut self.reports[row.report].desk.rows[row.slot as usize];
                let names = &mut state.reports[row.report].names;
                row.row = names.insert(&on_desk.key, row.weight);
                on_desk.row = row.row;
            }
        }
        let share = self.budgets.names / self.reports.len().max(1);
        for (report, tracked) in self.reports.iter_mut().zip(&mut state.reports) {
            if tracked.names.prune(share) {
                let names = &tracked.names;
                report.desk.forget_numbers(|row| names.key(row).is_some());
            }
        }
    }

    /// Makes a frame of the last ten seconds.
    fn close_ten(&mut self) {
        let shared = Arc::clone(&self.shared);
        let first = (self.second + 1).saturating_sub(COARSE_SECS);
        let mut state = shared.state.write();
        for tracked in &mut state.reports {
            tracked.names.fade();
        }
        let allowance = state.history.coarse_allowance(self.reports.len());
        drop(state);
        // Only this thread writes: what is read here is still so when the frame is added.
        let state = shared.state.read();
        let mut frames = state.history.last(COARSE_SECS);
        frames.retain(|frame| frame.second >= first);
        self.draft.clear();
        for (tracked, number) in state.reports.iter().zip(0..) {
            let weight = |row| tracked.names.weight(row);
            self.merging.draft(&frames, number, weight, &mut self.draft);
        }
        drop(state);
        self.draft.choose(allowance);
        let (sheets, _) = self.draft.finish(self.reports.len());
        let (Some(oldest), missed) = (
            frames.first().map(|frame| frame.second),
            frames.iter().map(|frame| frame.missed).sum(),
        ) else {
            return;
        };
        let frame = Arc::new(Frame {
            second: oldest,
            secs: self.second + 1 - oldest,
            missed,
            sheets,
        });
        shared.state.write().history.push_coarse(frame);
    }
}

impl Counting {
    /// The row of a record, [`NOT_COUNTED`] when it is none of this report's.
    #[inline]
    fn slot_of(
        &mut self,
        (pool, origin, of): (&Pool, &Origin, Numbers),
        time_us: u64,
        key: &mut Vec<u8>,
    ) -> u32 {
        if !self.keys.time_passes(time_us) {
            return NOT_COUNTED;
        }
        let identity = self.keys.identity(pool, origin, of);
        match self.desk.cached(identity) {
            Some(slot) => slot,
            None => self.find_slot(pool, of, identity, key),
        }
    }

    #[cold]
    fn find_slot(&mut self, pool: &Pool, of: Numbers, identity: u64, key: &mut Vec<u8>) -> u32 {
        if self.keys.read(pool, of, key) {
            self.desk.row_of(identity, key)
        } else {
            self.desk.skip(identity);
            NOT_COUNTED
        }
    }
}

/// What a second's gain weighs: its time, and a little for each request, so that requests without time count too.
fn weight(totals: &Totals) -> f64 {
    totals.time as f64 + totals.requests as f64
}
