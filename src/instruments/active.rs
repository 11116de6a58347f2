//! Running events: from [`Instrument::begin`] to the drop of the guard it returns.
//!
//! Meanwhile the event is among its thread's current events. When it ends, it is added to that
//! thread's history and to the long history of all threads, as far as these are switched on, and
//! its time is added to the sums of its thread and instrument.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::digests::Statement;
use super::event::{Event, WORDS};
use super::event_history::LONG;
use super::event_rings::DEPTH_MAX;
use super::registry::{ENABLED, Instrument, THREAD, TIMED, place_of, registry};
use super::sums::Totals;
use super::thread::{self, Thread};

impl Instrument {
    /// Begins an event on the calling thread; it ends when the guard is dropped.
    #[inline]
    pub fn begin(&'static self) -> Active {
        match self.switch.load(Ordering::Relaxed) & ENABLED {
            0 => Active(None),
            _ => Active(thread::here().and_then(|thread| self.begin_on(thread))),
        }
    }

    /// Begins an event of the connection whose task is running, in which the task may wait. Does
    /// nothing outside such a task.
    #[inline]
    pub(crate) fn begin_in_task(&'static self) -> Active {
        match self.switch.load(Ordering::Relaxed) & ENABLED {
            0 => Active(None),
            _ => Active(thread::of_task().and_then(|thread| self.begin_on(thread))),
        }
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
        let is_timed = switch & TIMED != 0;
        let (depth, id, nesting) = thread.enter(kind);
        let event = Event {
            thread: thread.id,
            id,
            end_id: None,
            place,
            kind,
            start: is_timed.then(|| registry.now(self)),
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

/// Progress of a stage between two updates of its event.
const ADVANCE_SHOWN: u64 = 1_024;

/// A running event, if its instrument is on. Dropping it ends the event.
#[derive(Debug)]
#[must_use = "the event ends when this is dropped"]
pub struct Active(Option<Running>);

#[derive(Debug)]
struct Running {
    thread: &'static Thread,
    instrument: &'static Instrument,
    depth: usize,
    event: Event,
    /// Bits of current events, history and long history, as switched on at the beginning.
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
    /// A guard without an event.
    pub const NONE: Self = Self(None);

    /// Returns true if there is an event, so that details are worth computing.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Sets the completed and the estimated work of a stage.
    pub(crate) fn work(&mut self, completed: u64, estimated: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers = [Some(completed), Some(estimated)];
            running.show();
        }
    }

    /// Adds to the completed work of a stage; updates the event now and then.
    pub(crate) fn advance(&mut self, by: u64) {
        if let Some(running) = &mut self.0 {
            let [completed, _] = &mut running.event.numbers;
            let before = completed.unwrap_or(0);
            let now = *completed.insert(before + by);
            if now / ADVANCE_SHOWN != before / ADVANCE_SHOWN {
                running.show();
            }
        }
    }

    /// Sets the completed work of a stage that is not shown while it runs.
    pub fn worked(&mut self, completed: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers = [Some(completed), Some(completed)];
        }
    }

    /// Sets the number of bytes of a wait.
    pub(crate) fn bytes(&mut self, bytes: u64) {
        if let Some(running) = &mut self.0 {
            running.event.numbers[0] = Some(bytes);
        }
    }

    /// Sets the statement.
    pub(crate) fn statement(&mut self, statement: impl FnOnce() -> Statement) {
        if let Some(running) = &mut self.0 {
            running.statement = Some(Arc::new(statement()));
            running.show();
        }
    }

    /// Changes the statement's outcome so far.
    pub(crate) fn outcome(&mut self, change: impl FnOnce(&mut Statement)) {
        if let Some(statement) = self.0.as_mut().and_then(|it| it.statement.as_mut()) {
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
        let Some(registry) = registry() else { return };
        let (event, thread) = (&mut self.event, self.thread);
        event.end = event.start.map(|start| registry.now(self.instrument).max(start));
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
