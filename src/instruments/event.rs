//! Events: one each time that an instrument is used, from [`Instrument::begin`] to the end of the guard that it gives.
//!
//! The event lives in its thread's current events and, when it has ended, in that thread's history and in the one over all
//! threads. A cell of these is written as a sequence lock: its number is odd while it is written, and a reader that finds another
//! number afterwards takes the cell for overwritten. All of it is atomics; writers never wait, and an event of the long history
//! whose cell is just being written by another thread is left out of it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::digests::{STATEMENT_BYTES, Statement};
use super::registry::{ENABLED, Instrument, Kind, THREAD, TIMED, place_of, registry};
use super::sums::Totals;
use super::thread::{self, Thread};

/// Events over all threads, of each kind: the last ones.
const LONG_EVENTS: usize = 1_000;

/// What they take.
pub(super) const LONG_BYTES: usize = LONG_EVENTS * 3 * size_of::<Cell>();

/// The same at most, with the texts of statements.
pub(super) const LONG_BYTES_MAX: usize = LONG_BYTES + LONG_EVENTS * STATEMENT_BYTES;

/// No number.
const NONE: u64 = u64::MAX;

/// One event. Times are units of the instrument's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The thread's number.
    pub thread: u64,
    /// Counts the events of its thread.
    pub id: u64,
    /// The last event of the thread when this one ended.
    pub end_id: Option<u64>,
    /// The place of its instrument's sums.
    pub place: usize,
    /// Of its instrument.
    pub kind: Kind,
    /// When it began, of one that is timed.
    pub start: Option<u64>,
    /// When it ended, of one that is timed and over.
    pub end: Option<u64>,
    /// The event within which it happened.
    pub nesting: Option<(u64, Kind)>,
    /// Bytes of a wait; how far a stage is, and how far it is to go.
    pub numbers: [Option<u64>; 2],
}

const WORDS: usize = 8;

fn kind_of(word: u64) -> Kind {
    Kind::ALL[(word & 3) as usize % 3]
}

impl Event {
    fn words(&self) -> [u64; WORDS] {
        let or_none = |number: Option<u64>| number.unwrap_or(NONE);
        let nesting = self.nesting.map(|(id, kind)| id << 2 | kind as u64);
        let head = self.thread << 32 | (self.place as u64) << 2 | self.kind as u64;
        let [first, second] = self.numbers;
        let times = [self.start, self.end, nesting, first, second].map(or_none);
        let [start, end, nesting, first, second] = times;
        let end_id = or_none(self.end_id);
        [head, self.id, end_id, start, end, nesting, first, second]
    }

    fn of(words: [u64; WORDS]) -> Self {
        let [head, id, end_id, start, end, nesting, first, second] = words;
        let some = |word: u64| (word != NONE).then_some(word);
        Self {
            thread: head >> 32,
            id,
            end_id: some(end_id),
            place: ((head & 0xffff_ffff) >> 2) as usize,
            kind: kind_of(head),
            start: some(start),
            end: some(end),
            nesting: some(nesting).map(|nesting| (nesting >> 2, kind_of(nesting))),
            numbers: [some(first), some(second)],
        }
    }
}

/// An event with its statement, if it is one.
pub type Recorded = (Event, Option<Arc<Statement>>);

/// Room for one event.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// Twice the number of the event in its ring and two, or one less while it is written; 0: nothing yet.
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
    statement: Mutex<Option<Arc<Statement>>>,
}

impl Cell {
    /// Writes the event with this number, unless another thread is at it.
    fn write(&self, number: u64, words: &[u64; WORDS], statement: Option<&Arc<Statement>>) {
        let before = self.sequence.load(Ordering::Relaxed);
        let writing = number * 2 + 1;
        let is_free = before.is_multiple_of(2);
        let claimed = is_free
            && self
                .sequence
                .compare_exchange(before, writing, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !claimed {
            return;
        }
        // A reader that sees a word of this event sees the odd number too.
        fence(Ordering::Release);
        for (cell, word) in self.words.iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        if kind_of(words[0]) == Kind::Statements {
            *self.statement.lock() = statement.cloned();
        }
        self.sequence.store(writing + 1, Ordering::Release);
    }

    /// What it has, with its number; `None` if that is nothing, or is being overwritten.
    fn read(&self) -> Option<(u64, Recorded)> {
        let before = self.sequence.load(Ordering::Acquire);
        if before == 0 || !before.is_multiple_of(2) {
            return None;
        }
        let words = std::array::from_fn(|at| self.words[at].load(Ordering::Relaxed));
        let event = Event::of(words);
        let is_statement = event.kind == Kind::Statements;
        let statement = is_statement
            .then(|| self.statement.lock().clone())
            .flatten();
        fence(Ordering::Acquire);
        let is_whole = self.sequence.load(Ordering::Relaxed) == before;
        is_whole.then_some((before / 2 - 1, (event, statement)))
    }
}

/// The last events of a kind.
#[derive(Debug)]
pub(super) struct Ring {
    cells: Box<[Cell]>,
    next: AtomicU64,
    /// Events before this one are not shown any more.
    cleared: AtomicU64,
}

impl Ring {
    pub(super) fn new(events: usize) -> Self {
        Self {
            cells: (0..events).map(|_| Cell::default()).collect(),
            next: AtomicU64::new(0),
            cleared: AtomicU64::new(0),
        }
    }

    fn push(&self, words: &[u64; WORDS], statement: Option<&Arc<Statement>>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.cells[(number % self.cells.len() as u64) as usize].write(number, words, statement);
    }

    /// From the oldest to the youngest.
    pub(super) fn recent(&self) -> impl Iterator<Item = Recorded> {
        let next = self.next.load(Ordering::Acquire);
        let kept = next.saturating_sub(self.cells.len() as u64);
        let first = kept.max(self.cleared.load(Ordering::Relaxed));
        (first..next).filter_map(|number| {
            let cell = &self.cells[(number % self.cells.len() as u64) as usize];
            let (found, recorded) = cell.read()?;
            (found == number).then_some(recorded)
        })
    }

    pub(super) fn clear(&self) {
        let next = self.next.load(Ordering::Relaxed);
        self.cleared.store(next, Ordering::Relaxed);
    }
}

/// What a thread does now: the event of each depth that is going on, and those that ended there last.
#[derive(Debug, Default)]
pub(super) struct Current {
    cells: [Cell; DEPTH_MAX],
    written: AtomicU64,
    cleared: AtomicU64,
}

/// Events within events that are shown; those deeper down count in the sums only.
pub(super) const DEPTH_MAX: usize = 6;

impl Current {
    /// For the thread that it belongs to.
    fn write(&self, depth: usize, words: &[u64; WORDS], statement: Option<&Arc<Statement>>) {
        let number = self.written.load(Ordering::Relaxed);
        self.written.store(number + 1, Ordering::Relaxed);
        self.cells[depth].write(number, words, statement);
    }

    /// Of a kind: those that go on, or else the one that ended last.
    pub(super) fn of(&self, kind: Kind) -> Vec<Recorded> {
        let cleared = self.cleared.load(Ordering::Relaxed);
        let read = self.cells.iter().filter_map(Cell::read);
        let (over, mut going): (Vec<_>, Vec<_>) = read
            .filter(|(_, (event, _))| event.kind == kind)
            .partition(|(_, (event, _))| event.end_id.is_some());
        if going.is_empty() {
            let over = over.into_iter().filter(|(number, _)| *number >= cleared);
            going.extend(over.max_by_key(|(_, (event, _))| event.id));
        }
        going.into_iter().map(|(_, recorded)| recorded).collect()
    }

    fn clear(&self) {
        let written = self.written.load(Ordering::Relaxed);
        self.cleared.store(written, Ordering::Relaxed);
    }
}

/// The long history of each kind, made with the registry.
static LONG: std::sync::LazyLock<[Ring; 3]> =
    std::sync::LazyLock::new(|| std::array::from_fn(|_| Ring::new(LONG_EVENTS)));

/// Which events a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Those that go on, and the last of each thread.
    Current,
    /// The last ten of each thread.
    History,
    /// The last 1,000 of all.
    HistoryLong,
}

/// The events that a table shows.
#[must_use]
pub fn events(kind: Kind, span: Span) -> Vec<Recorded> {
    match span {
        Span::Current => thread::all()
            .flat_map(|thread| thread.current.of(kind))
            .collect(),
        Span::History => thread::all()
            .flat_map(|thread| thread.history[kind as usize].recent())
            .collect(),
        Span::HistoryLong => LONG[kind as usize].recent().collect(),
    }
}

/// Shows none of them any more, but those that go on.
pub fn truncate(kind: Kind, span: Span) {
    match span {
        Span::Current => thread::all().for_each(|thread| thread.current.clear()),
        Span::History => thread::all().for_each(|thread| thread.history[kind as usize].clear()),
        Span::HistoryLong => LONG[kind as usize].clear(),
    }
}

/// Takes the memory of the long histories.
pub(super) fn prepare() {
    std::sync::LazyLock::force(&LONG);
}

impl Instrument {
    /// An event on the calling thread, until the guard is dropped.
    #[inline]
    pub fn begin(&'static self) -> Active {
        match self.switch.load(Ordering::Relaxed) & ENABLED {
            0 => Active(None),
            _ => Active(thread::here().and_then(|thread| self.begin_on(thread))),
        }
    }

    /// An event of the connection whose task this is, which may wait; none elsewhere.
    #[inline]
    pub fn begin_in_task(&'static self) -> Active {
        match self.switch.load(Ordering::Relaxed) & ENABLED {
            0 => Active(None),
            _ => Active(thread::of_task().and_then(|thread| self.begin_on(thread))),
        }
    }

    /// Locks a mutex: getting it is the wait.
    pub fn lock<'a, T>(&'static self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let _waiting = self.begin();
        mutex.lock()
    }

    /// The same of a lock that several may read under.
    pub fn read<'a, T>(&'static self, lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        let _waiting = self.begin();
        lock.read()
    }

    /// And to write.
    pub fn write<'a, T>(&'static self, lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        let _waiting = self.begin();
        lock.write()
    }

    fn begin_on(&'static self, thread: &'static Thread) -> Option<Running> {
        let registry = registry()?;
        let kind = self.class.kind()?;
        let consumers = registry.effective.load(Ordering::Relaxed);
        if consumers == 0 {
            return None;
        }
        let switch = self.switch.load(Ordering::Relaxed);
        let place = place_of(switch)?;
        let timer = kind.timer(self.class, &registry.timers);
        let is_timed = switch & TIMED != 0;
        let (depth, id, nesting) = thread.enter(kind);
        let event = Event {
            thread: thread.id,
            id,
            end_id: None,
            place,
            kind,
            start: is_timed.then(|| registry.timers.now(timer)),
            end: None,
            nesting,
            numbers: [None; 2],
        };
        let running = Running {
            thread,
            instrument: self,
            depth,
            event,
            consumers: consumers >> kind.consumer() & 0b111,
            statement: None,
        };
        if consumers & (1 << THREAD) != 0 {
            running.show();
        }
        Some(running)
    }
}

/// How much of a stage is done from one time that it is shown to the next.
const ADVANCE_SHOWN: u64 = 1_024;

/// An event that goes on, if its instrument is on. Dropping it ends the event.
#[derive(Debug)]
#[must_use = "the event ends when this is dropped"]
pub struct Active(Option<Running>);

#[derive(Debug)]
struct Running {
    thread: &'static Thread,
    instrument: &'static Instrument,
    depth: usize,
    event: Event,
    /// Current events, history and long history, as they were on when it began.
    consumers: u32,
    statement: Option<Arc<Statement>>,
}

impl Running {
    fn show(&self) {
        self.show_as(&self.event.words());
    }

    fn show_as(&self, words: &[u64; WORDS]) {
        if self.consumers & 1 != 0 && self.depth < DEPTH_MAX {
            let statement = self.statement.as_ref();
            self.thread.current.write(self.depth, words, statement);
        }
    }
}

impl Active {
    /// No event.
    pub const NONE: Self = Self(None);

    /// Whether there is an event: what it is told is worth making.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// How far a stage is, and how far it is to go.
    pub fn work(&mut self, completed: u64, estimated: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers = [Some(completed), Some(estimated)];
            running.show();
        }
    }

    /// So much more of a stage is done; shown now and then.
    pub fn advance(&mut self, by: u64) {
        if let Some(running) = &mut self.0 {
            let [completed, _] = &mut running.event.numbers;
            let before = completed.unwrap_or(0);
            let now = *completed.insert(before + by);
            if now / ADVANCE_SHOWN != before / ADVANCE_SHOWN {
                running.show();
            }
        }
    }

    /// How much a stage did that is not looked at while it goes on.
    pub fn worked(&mut self, completed: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers = [Some(completed), Some(completed)];
        }
    }

    /// How many bytes a wait was for.
    pub fn bytes(&mut self, bytes: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers[0] = Some(bytes);
        }
    }

    /// What the statement is.
    pub fn statement(&mut self, statement: impl FnOnce() -> Statement) {
        if let Some(running) = &mut self.0 {
            running.statement = Some(Arc::new(statement()));
            running.show();
        }
    }

    /// What became of the statement so far.
    pub fn outcome(&mut self, change: impl FnOnce(&mut Statement)) {
        let running = self.0.as_mut();
        if let Some(statement) = running.and_then(|it| it.statement.as_mut()) {
            change(Arc::make_mut(statement));
        }
    }
}

impl Drop for Active {
    #[inline]
    fn drop(&mut self) {
        if let Some(running) = &mut self.0 {
            running.end();
        }
    }
}

impl Running {
    fn end(&mut self) {
        let Some(registry) = registry() else {
            return;
        };
        let (event, thread) = (&mut self.event, self.thread);
        let timer = event.kind.timer(self.instrument.class, &registry.timers);
        event.end = event
            .start
            .map(|start| registry.timers.now(timer).max(start));
        event.end_id = Some(thread.leave(self.depth));
        let time = event.start.zip(event.end).map(|(start, end)| end - start);
        let statement = self.statement.as_ref();
        let (errors, rows) = statement.map_or((0, 0), |it| (it.errors(), it.rows_sent));
        let totals = Totals::of(time, errors, rows);
        thread.sums[event.place].add(event.kind, &totals);
        if let Some(statement) = statement {
            statement.digest.add(&totals, registry);
        }
        if registry.effective.load(Ordering::Relaxed) & (1 << THREAD) == 0 {
            return;
        }
        let (kind, words) = (self.event.kind as usize, self.event.words());
        self.show_as(&words);
        if self.consumers & 2 != 0 {
            self.thread.history[kind].push(&words, self.statement.as_ref());
        }
        if self.consumers & 4 != 0 {
            LONG[kind].push(&words, self.statement.as_ref());
        }
    }
}

/// What is written to, each time as a wait.
#[derive(Debug)]
pub struct MeasuredWrite<W> {
    /// Where it goes.
    pub to: W,
    wait: &'static Instrument,
}

impl<W> MeasuredWrite<W> {
    /// Writing to `to` is this wait.
    pub fn new(to: W, wait: &'static Instrument) -> Self {
        Self { to, wait }
    }
}

impl<W: Write> Write for MeasuredWrite<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut waiting = self.wait.begin();
        let written = self.to.write(bytes)?;
        waiting.bytes(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
