//! The fold: from raw rows to what each row of each tracked report gained in a second.
//!
//! Runs on the series thread alone. Under the lock of [`Live`](crate::merger::Live) it copies a batch of rows and finds out
//! which rows of the reports they belong to; it adds up after it let go. Rows come in the order in which they were
//! merged, so a second is complete as soon as the merger has run in a later one. What left the pool before it was
//! seen is counted as missed, never guessed at.

use std::sync::Arc;

use super::batch::{Batch, Counting, SIGHTS_BYTES};
use super::block::{Block, Draft, Kept, OTHER, TOTAL};
use super::current_second::{CurrentSecond, Gain, OTHER_SLOT, SecondRow};
use super::history::{COARSE_SECS, FINE_SECS, each_row};
use super::{Shared, State};
use crate::merger::SharedLive;
use crate::report::counts::Histogram;
use crate::report::definition::Definition;
use crate::report::totals::Totals;

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
    current: &'a mut CurrentSecond,
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
        self.current.gained(|slot, row, buckets| {
            let SecondRow {
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

/// What bounds the fold, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budgets {
    pub(super) blocks: usize,
    pub(super) names: usize,
    pub(super) current_seconds: usize,
    pub(super) histograms: usize,
}

impl Budgets {
    /// How `memory` is divided: six tenths for blocks, a tenth for the names in them, two for what is busy, one for its histograms.
    pub(super) fn of(memory: usize) -> Self {
        let tenth = memory / 10;
        Self {
            blocks: tenth * 6,
            names: tenth,
            current_seconds: tenth * 2,
            histograms: tenth,
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
    /// The next request to look at.
    next_id: u64,
    missed: u64,
    /// Strings that the pool had released when the last batch was read.
    forgotten: u64,
    batch: Batch,
    /// What the requests of the batch add to their rows, and what its timers do.
    gains: [Vec<Gain>; 2],
    all: Histogram,
    draft: Draft,
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
        let current_bytes = (budgets.current_seconds / reports).saturating_sub(SIGHTS_BYTES);
        let histogram_bytes = budgets.histograms / reports;
        let state = shared.state.read();
        let counting = state.reports.iter().map(|tracked| {
            let name = tracked.definition.name.as_str();
            let mut bounds = sinks.iter().filter_map(|sink| sink.bounds(name));
            let current = CurrentSecond::new(
                current_bytes,
                histogram_bytes,
                bounds.next().unwrap_or_default(),
            );
            Counting::new(Arc::clone(&tracked.definition), current)
        });
        let reports: Vec<Counting> = counting.collect();
        drop(state);
        let shift_ms = unix_ms.wrapping_sub(mono_ms) % 1000;
        // What is there already another process has merged and counted.
        let next_id = live.read().pool.requests.next_id();
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
            next_id,
            missed: 0,
            forgotten: 0,
            batch: Batch::default(),
            gains: [Vec::new(), Vec::new()],
            all: Histogram::new(),
            draft: Draft::default(),
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
            // After a long stop there is no point in a block for each second of it.
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
            report.current.sweep();
        }
        let live = Arc::clone(&self.live);
        let live = live.read();
        let pool = &live.pool;
        let (oldest, end) = (pool.requests.oldest_id(), pool.requests.next_id());
        let from = self.next_id.max(oldest);
        self.missed += from - self.next_id;
        if std::mem::replace(&mut self.forgotten, pool.strings.forgotten())
            != pool.strings.forgotten()
        {
            let on_words = self.reports.iter_mut().filter(|it| it.keys.on_words());
            on_words.for_each(|report| report.current.forget_identities());
        }
        let ids = from..end.max(from);
        self.next_id = self.batch.copy(pool, ids, self.of_timers, now_ms);
        for report in &mut self.reports {
            report.find_rows(pool, &self.batch);
        }
        self.next_id > from
    }

    /// Adds up what [`read_batch`](Self::read_batch) copied; closes a second when a row of a later one comes.
    fn count_batch(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let mut gains = std::mem::take(&mut self.gains);
        let [of_requests, of_timers] = &mut gains;
        of_requests.clear();
        of_requests.extend(batch.requests.iter().map(|it| it.gain(self.error_status)));
        of_timers.clear();
        of_timers.extend(batch.timers.iter().map(|it| it.gain()));
        let mut done = 0;
        while let Some(first) = batch.requests.get(done) {
            self.advance(self.second_of(first.merged_ms));
            let left = batch.requests[done..].iter();
            let of_second = left.take_while(|it| self.second_of(it.merged_ms) <= self.second);
            let requests = done..done + of_second.count().max(1);
            done = requests.end;
            let timers = batch.timers_of(&requests);
            for report in &mut self.reports {
                if report.keys.of_timers() {
                    report.add(timers.clone(), of_timers);
                } else {
                    report.add(requests.clone(), of_requests);
                }
            }
        }
        self.shared.counted(batch.requests.len() as u64);
        (self.batch, self.gains) = (batch, gains);
    }

    fn start_second(&mut self, second: u64) {
        self.second = second;
        for report in &mut self.reports {
            report.current.clear(second);
        }
    }

    /// Makes a block of the running second, and one of ten if it was the last of them.
    fn close_second(&mut self) {
        for sink in &mut self.sinks {
            let mut reports = self.reports.iter_mut().map(|report| {
                let current = &mut report.current;
                (&*report.definition, Gained { current })
            });
            sink.take(&mut reports);
        }
        let missed = std::mem::take(&mut self.missed);
        self.shared.missed(missed);
        if self.budgets.blocks == 0 {
            return;
        }
        self.draft_second();
        let shared = Arc::clone(&self.shared);
        let allowance = {
            let mut state = shared.state.write();
            self.weigh(&mut state);
            state.history.fine.allowance(self.reports.len())
        };
        self.draft.choose(allowance);
        let mut state = shared.state.write();
        self.number_rows(&mut state);
        drop(state);
        let (sheets, fit) = self.draft.finish(self.reports.len());
        let block = Arc::new(Block {
            second: self.second,
            secs: 1,
            missed,
            sheets,
        });
        let mut state = shared.state.write();
        state.history.fine.push(block);
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
            all,
            ..
        } = self;
        draft.clear();
        for (report, number) in reports.iter_mut().zip(0..) {
            let mut sum = Totals::ZERO;
            // The only row of a report without keys is its total.
            let has_keys = !report.definition.keys.is_empty();
            report.current.close(all, |slot, row, histogram| {
                sum += &row.totals;
                if slot == OTHER_SLOT {
                    draft.push_other(number, &row.totals);
                } else if has_keys {
                    let id = (number, row.row, slot);
                    draft.push(id, weight(&row.totals), &row.totals, histogram);
                }
            });
            if sum.requests > 0 {
                draft.push_total(number, &sum, Some(all));
            }
        }
    }

    /// Adds what rows weigh by this second to what they weighed, and puts that into the draft.
    fn weigh(&mut self, state: &mut State) {
        for row in &mut self.draft.rows {
            let names = &mut state.reports[row.report].names;
            if row.row > OTHER {
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
                let on_current = &mut self.reports[row.report].current.rows[row.slot];
                let names = &mut state.reports[row.report].names;
                row.row = names.insert(&on_current.key, row.weight);
                on_current.row = row.row;
            }
        }
        let share = self.budgets.names / self.reports.len().max(1);
        for (report, tracked) in self.reports.iter_mut().zip(&mut state.reports) {
            if tracked.names.prune(share) {
                let names = &tracked.names;
                report
                    .current
                    .forget_numbers(|row| names.key(row).is_some());
            }
        }
    }

    /// Makes a block of the last ten seconds.
    fn close_ten(&mut self) {
        let shared = Arc::clone(&self.shared);
        let first = (self.second + 1).saturating_sub(COARSE_SECS);
        let mut state = shared.state.write();
        for tracked in &mut state.reports {
            tracked.names.fade();
        }
        let allowance = state.history.coarse.allowance(self.reports.len());
        drop(state);
        // Only this thread writes: what is read here is still so when the block is added.
        let state = shared.state.read();
        let blocks = state.history.fine.within(first, self.second + 1);
        let blocks: Vec<_> = blocks.cloned().collect();
        self.draft.clear();
        let draft = &mut self.draft;
        for (tracked, number) in state.reports.iter().zip(0..) {
            each_row(&blocks, number, true, |row, sum| {
                let totals = sum.totals;
                let histogram = sum.histogram();
                match row {
                    TOTAL => draft.push_total(number, &totals, histogram),
                    OTHER => draft.push_other(number, &totals),
                    row => {
                        let weight = tracked.names.weight(row);
                        draft.push((number, row, 0), weight, &totals, histogram);
                    }
                }
            });
        }
        drop(state);
        self.draft.choose(allowance);
        let (sheets, _) = self.draft.finish(self.reports.len());
        let Some(oldest) = blocks.first().map(|block| block.second) else {
            return;
        };
        let block = Arc::new(Block {
            second: oldest,
            secs: self.second + 1 - oldest,
            missed: blocks.iter().map(|block| block.missed).sum(),
            sheets,
        });
        shared.state.write().history.coarse.push(block);
    }
}

/// What a second's gain weighs: its time, and a little for each request, so that requests without time count too.
fn weight(totals: &Totals) -> f64 {
    totals.time as f64 + totals.requests as f64
}
