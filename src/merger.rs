//! The merger: one thread that turns the requests in the temporary ring into rows and report sums.
//!
//! Every gathering period it advances time (ticks close, data that left a window is removed), then
//! drains the ring block by block: appends to the pool, adds to the reports. It alone writes this
//! data; readers share it under one lock, [`Live`], which the merger takes for one block at a time
//! (a few hundred requests), so neither side waits long. When it falls behind, the ring fills and
//! its oldest requests are overwritten and counted; the merger itself never drops anything.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam::atomic::AtomicCell;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::clock::Clock;
use crate::delta::{Reader, Stream};
use crate::input::record::Record;
use crate::instruments::{IDLE, Instrument};
use crate::pool::Pool;
use crate::pool::strings::StringInterner;
use crate::report::read::ReadLock;
use crate::report::{Arrivals, Reports, Ticks, WatchSettings, Watchlist};
use crate::ring::Consumer;
use crate::shutdown::Shutdown;
use crate::telemetry::MergeCounters;
use crate::telemetry::counters::LockCounters;

mod restore;
#[cfg(any(test, fuzzing))]
pub(crate) mod test_harness;

pub(crate) static LIVE_READ: Instrument =
    Instrument::wait("wait/synch/rwlock/live/read", "read_lock");
pub(crate) static LIVE_WRITE: Instrument =
    Instrument::wait("wait/synch/rwlock/live/write", "write_lock");
/// Turns the records of a block into rows and counts them in the reports.
pub static MERGE_BLOCK: Instrument = Instrument::new("stage/merge/merge block");
/// Removes raw rows that left the raw window.
pub(crate) static EXPIRE_ROWS: Instrument = Instrument::new("stage/merge/reclaim rows");

/// Records processed together, so that their memory reads overlap.
const BATCH: usize = 64;

/// Bytes of records prefetched at once. They lie in another core's cache, and the end of a record
/// is only known from its header: read one after the other, each would stall.
const READ_AHEAD: usize = 16 << 10;

/// Longest single sleep, so that a stop is noticed soon even with a long gathering period.
const NAP_MAX: Duration = Duration::from_millis(50);

/// How long a report is read before others get the lock.
const HOLD: Duration = Duration::from_micros(700);

/// The data that the merger writes and readers see: always as of the end of some block.
#[derive(Debug)]
pub struct Live {
    /// Raw rows and names.
    pub pool: Pool,
    /// The reports.
    pub reports: Reports,
    /// Gains of groups, second by second.
    pub deltas: Stream,
    /// Times for which the lock is held.
    pub holds: LockCounters,
    raw_window: Ticks,
    /// Requests that are in the pool but not in the reports yet; empty between merges.
    arrivals: Arrivals,
    /// The latest minute of the wall clock, since 1970; 0 before the first second is over.
    minute: u64,
    on_turn: OnTurn,
}

/// A turn of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// To a minute in which nothing was counted before.
    Minute,
    /// To any other second, also to an earlier one.
    Second,
}

/// Runs once, at the turn to this unix second.
type AtTurn = Box<dyn FnOnce(&Live, u64) + Send>;

/// The caller of [`Live::on_turn`] that waits, if there is one.
#[derive(Default)]
struct OnTurn(Mutex<Option<(Turn, AtTurn)>>);

impl std::fmt::Debug for OnTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OnTurn").finish_non_exhaustive()
    }
}

/// The lock under which [`Live`] is shared. Hold it for microseconds where you can, for
/// milliseconds at most.
pub type SharedLive = Arc<RwLock<Live>>;

/// Takes the lock for reading.
pub fn reading(live: &RwLock<Live>) -> RwLockReadGuard<'_, Live> {
    LIVE_READ.read(live)
}

/// Takes the lock for writing.
pub fn writing(live: &RwLock<Live>) -> RwLockWriteGuard<'_, Live> {
    LIVE_WRITE.write(live)
}

/// Takes the lock for an answer; the time it is held goes to [`Live::holds`].
pub fn answering(live: &SharedLive) -> Answering<'_> {
    let live = reading(live);
    let since = Instant::now();
    Answering { live, since }
}

/// The lock while an answer is read.
#[derive(Debug)]
pub struct Answering<'a> {
    live: RwLockReadGuard<'a, Live>,
    since: Instant,
}

impl Deref for Answering<'_> {
    type Target = Live;

    fn deref(&self) -> &Live {
        &self.live
    }
}

impl Answering<'_> {
    fn end(&self) {
        let longest = &self.live.holds.lock_hold_answers_us;
        longest.raise_to_us_since(self.since);
    }
}

impl Drop for Answering<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl ReadLock for Answering<'_> {
    fn live(&self) -> (&Reports, &StringInterner) {
        (&self.live.reports, &self.live.pool.strings)
    }

    fn is_over(&self) -> bool {
        self.since.elapsed() >= HOLD
    }

    fn unlocked(&mut self, work: impl FnOnce()) {
        self.end();
        RwLockReadGuard::unlocked(&mut self.live, work);
        self.since = Instant::now();
    }
}

impl Live {
    /// An empty pool and the reports over it.
    pub fn new(pool: Pool, reports: Reports, raw_window: Ticks) -> Self {
        Self {
            pool,
            reports,
            deltas: Stream::default(),
            holds: LockCounters::default(),
            raw_window,
            arrivals: Arrivals::default(),
            minute: 0,
            on_turn: OnTurn::default(),
        }
    }

    /// Runs `run` once, at the next such turn of the wall clock, when the second before it has just
    /// ended: at the turn of a minute everything merged so far was counted in seconds before it,
    /// and everything merged later will be counted in it or after it, unless the clock is set back.
    /// It gets the unix second that begins, and keeps the merger waiting. A later call takes the
    /// place of one that has not run.
    pub fn on_turn(&self, turn: Turn, run: impl FnOnce(&Self, u64) + Send + 'static) {
        *self.on_turn.0.lock() = Some((turn, Box::new(run)));
    }

    /// Advances time.
    pub fn advance(&mut self, now_ms: u64) {
        while self.advance_reports(now_ms) {}
        while self.expire_rows(now_ms) {}
    }

    /// Advances time for some of the reports. Returns false when nothing is left to do.
    fn advance_reports(&mut self, now_ms: u64) -> bool {
        self.reports.advance_some(now_ms, &mut self.pool, &self.holds)
    }

    /// Advances time for some of the raw rows. Returns false when nothing is left to do.
    fn expire_rows(&mut self, now_ms: u64) -> bool {
        let begun = Instant::now();
        let Some(gone) = self.raw_window.last_gone(self.raw_window.at(now_ms)) else {
            return false;
        };
        let _stage = EXPIRE_ROWS.begin();
        let is_more = self.pool.expire(gone, now_ms);
        self.notify_freed();
        self.holds.lock_hold_leaving_us.raise_to_us_since(begun);
        is_more
    }

    /// Starts to record the gains of these reports' groups; returns the list of reports, and a
    /// reader. A quarter of the bytes is for completed seconds, the rest for the running one and
    /// for known groups.
    pub fn watch(
        &mut self,
        mut choice: WatchSettings,
        now_ms: u64,
        unix_ms: u64,
    ) -> (Watchlist, Reader) {
        let waiting = choice.bytes_max / 4;
        choice.bytes_max -= waiting;
        let reader = self.deltas.subscribe(waiting, now_ms, unix_ms);
        (self.reports.watch(choice, &self.pool), reader)
    }

    /// Cuts the running second of some groups if the wall clock has moved on. Returns false when
    /// nothing is left to do.
    fn cut_second(&mut self, unix_ms: u64) -> bool {
        self.deltas.is_over(unix_ms) && self.reports.cut_some(&self.pool)
    }

    /// Sets the wall clock to `unix_ms`: a new second ends the one before.
    pub fn advance_second(&mut self, now_ms: u64, unix_ms: u64) {
        if !self.deltas.is_over(unix_ms) {
            return;
        }
        self.end_second(now_ms, unix_ms);
        let before = self.minute;
        // A clock that is set back repeats minutes, in which something was counted already.
        self.minute = before.max(unix_ms / 60_000);
        let is_minute = (1..self.minute).contains(&before);
        let is_due = |(turn, _): &mut (Turn, AtTurn)| is_minute || *turn == Turn::Second;
        if let Some((turn, run)) = self.on_turn.0.get_mut().take_if(is_due) {
            let begins = match turn {
                Turn::Minute => self.minute * 60,
                Turn::Second => unix_ms / 1000,
            };
            run(self, begins);
        }
    }

    /// Ends the running second, even if nothing more is merged.
    pub fn end_second(&mut self, now_ms: u64, unix_ms: u64) {
        let Self { deltas, reports, pool, .. } = self;
        let is_known = deltas
            .end_second(now_ms, unix_ms, || (reports.take_second(pool), pool.requests.next_id()));
        if !is_known {
            reports.begin_directories(pool);
        }
    }

    /// Merges the records of one block; returns the number of requests and timers.
    pub fn merge(&mut self, records: &[u8], now_ms: u64) -> (u64, u64) {
        let mut stage = MERGE_BLOCK.begin();
        let merged = self.merge_records(records, now_ms);
        stage.worked(merged.0);
        merged
    }

    // Not inlined: next to the guard of a stage the compiler generates worse code.
    #[inline(never)]
    fn merge_records(&mut self, mut records: &[u8], now_ms: u64) -> (u64, u64) {
        let tick = self.raw_window.at(now_ms);
        let (mut requests, mut timers) = (0, 0);
        let mut batch = Vec::with_capacity(BATCH);
        let mut read = records.len();
        loop {
            batch.clear();
            if records.len() <= read {
                read = records.len().saturating_sub(READ_AHEAD);
                let lines = records[..records.len() - read].chunks(64);
                std::hint::black_box(lines.fold(0, |seen, line| seen ^ line[0]));
            }
            batch.extend(std::iter::from_fn(|| Record::next(&mut records)).take(BATCH));
            if batch.is_empty() {
                break;
            }
            self.pool.prefetch(&batch);
            for record in &batch {
                timers += self.append(record, tick, now_ms);
            }
            self.count_arrivals();
            requests += batch.len() as u64;
        }
        if requests > 0 {
            self.reports.merged(now_ms);
            self.deltas.merged(requests);
        }
        (requests, timers)
    }

    /// Appends a record to the pool and to the arrivals; returns the number of its timers.
    fn append(&mut self, record: &Record<'_>, tick: u64, now_ms: u64) -> u64 {
        if self.pool.begins_epoch() {
            // Ids of the current arrivals are held by the epoch that ends here.
            self.count_arrivals();
        }
        let timers = self.arrivals.timers();
        let (id, row) = self.pool.append(record, tick, now_ms, timers);
        // Freed ids may be reused by the next append.
        self.notify_freed();
        let timers = match record.is_counted() {
            true => self.arrivals.leave_out(),
            false => self.arrivals.push(id, row),
        };
        timers as u64
    }

    /// Passes the arrivals to the reports.
    fn count_arrivals(&mut self) {
        self.reports.add(&self.arrivals, &mut self.pool);
        self.arrivals.clear();
    }

    fn notify_freed(&mut self) {
        self.pool.notify_freed(|freed| self.reports.forget(freed));
    }

    /// Empties pools and reports; the reports stay defined.
    pub fn clear(&mut self) {
        self.reports.clear(&mut self.pool);
        self.pool.clear();
        self.notify_freed();
    }
}

/// When the merger last ran: its sign of life.
#[derive(Debug, Default)]
pub struct Pulse {
    last_ms: AtomicU64,
}

impl Pulse {
    /// For a merger about to run for the first time, at this monotonic time.
    pub fn new(now_ms: u64) -> Self {
        Self { last_ms: AtomicU64::new(now_ms) }
    }

    /// Monotonic milliseconds of the last run.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Relaxed)
    }
}

/// When the merger's next run is due.
#[derive(Debug)]
struct Schedule {
    /// The time it was due, by the period.
    due: Instant,
    /// The earliest time it can begin.
    begins: Instant,
}

impl Schedule {
    fn new(now: Instant) -> Self {
        Self { due: now, begins: now }
    }

    /// Schedules the next run after one has ended. It begins at once if already due, but missed
    /// ones are not made up for.
    fn next(&mut self, now: Instant, period: Duration) {
        self.due = self.begins + period;
        self.begins = self.due.max(now);
    }

    /// Lag of a run that begins now.
    fn lag(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.due)
    }
}

/// The merger's state apart from [`Live`].
#[derive(Debug)]
pub struct Merger {
    /// The ring's consuming end.
    pub consumer: Consumer,
    /// The data it writes.
    pub live: SharedLive,
    /// Its counters.
    pub counters: Arc<MergeCounters>,
    /// Its sign of life.
    pub pulse: Arc<Pulse>,
    /// The source of ticks.
    pub clock: Arc<dyn Clock>,
    /// The interval between runs.
    pub period: Arc<GatheringPeriod>,
}

/// The interval between runs; may change at run time.
pub type GatheringPeriod = AtomicCell<Duration>;

impl Merger {
    /// Merges every period until a stop is requested, then once more to drain the ring. Runs on its
    /// own thread.
    pub fn run(mut self, shutdown: &Shutdown) {
        let mut schedule = Schedule::new(Instant::now());
        loop {
            let stopping = shutdown.requested();
            self.merge();
            if stopping {
                let (now_ms, unix_ms) = (self.clock.mono_ms(), self.clock.unix_ms());
                writing(&self.live).end_second(now_ms, unix_ms);
                return;
            }
            schedule.next(Instant::now(), self.period.load());
            let idle = IDLE.begin();
            while let Some(left) = schedule.begins.checked_duration_since(Instant::now()) {
                if left.is_zero() || shutdown.requested() {
                    break;
                }
                std::thread::sleep(left.min(NAP_MAX));
            }
            drop(idle);
            let lag = schedule.lag(Instant::now());
            self.counters.merge_lag_us.set(lag.as_micros() as u64);
        }
    }

    /// Runs once.
    pub fn merge(&mut self) {
        let now_ms = self.clock.mono_ms();
        let unix_ms = self.clock.unix_ms();
        let mut live = writing(&self.live);
        // Lets threads that wait for the lock have it in between.
        let bump = |live: &mut RwLockWriteGuard<'_, Live>| {
            let _waiting = LIVE_WRITE.begin();
            RwLockWriteGuard::bump(live);
        };
        while live.cut_second(unix_ms) {
            bump(&mut live);
        }
        live.advance_second(now_ms, unix_ms);
        while live.advance_reports(now_ms) {
            bump(&mut live);
        }
        while live.expire_rows(now_ms) {
            bump(&mut live);
        }
        drop(live);
        while self.merge_block(now_ms) {}
        self.counters.merges.add(1);
        self.pulse.last_ms.store(now_ms, Ordering::Relaxed);
    }

    /// Merges the next block; returns false if there is none. Takes and counts it under the lock,
    /// so that readers see counters and rows change together, and a snapshot saves both.
    fn merge_block(&mut self, now_ms: u64) -> bool {
        let mut live = writing(&self.live);
        let Some(block) = self.consumer.pop() else { return false };
        let (evicted, overflowed) = (live.pool.rows_evicted(), live.pool.overflowed());
        let (requests, timers) = live.merge(&block.bytes, now_ms);
        let evicted = live.pool.rows_evicted() - evicted;
        let overflowed = live.pool.overflowed() - overflowed;
        self.counters.rows_evicted.add(evicted);
        self.counters.words_overflowed.add(overflowed);
        self.counters.timers_merged.add(timers);
        self.counters.requests_merged.add(requests);
        drop(live);
        self.consumer.give_back(block);
        true
    }
}

#[cfg(test)]
mod tests;
