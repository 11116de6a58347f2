//! Advances time: ends ticks, and divides memory among them.
//!
//! Called by the merger before every merge, and for every row from which a new report is filled.
//! First, expired data is removed; the memory for closed ticks is then shared in two halves:
//!
//! - one is divided evenly among all ticks, so that none finds nothing left: first among the
//!   windows, then among the ticks of a window;
//! - the other is first come, first served, so that uneven traffic that fits never overflows. It
//!   covers what ticks have beyond their share, and the histograms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::Reports;
use crate::instruments::Instrument;
use crate::pool::Pool;
use crate::report::aggregate::close::{Allowance, SLOTS_AT_ONCE, close_together};
use crate::report::aggregate::{Aggregate, Memory};
use crate::report::budget::Budget;
use crate::report::window::Ticks;
use crate::telemetry::counters::LockCounters;

/// Ends running ticks: gains of groups go to the tick log. Counts the aggregates whose ticks ended.
pub(crate) static CLOSE_TICK: Instrument = Instrument::new("stage/merge/close tick");
/// Subtracts expired ticks from the sums of a report.
pub(crate) static EXPIRE_GROUPS: Instrument = Instrument::new("stage/merge/expire groups");

impl Reports {
    /// Cuts the running second of some groups; readers may run after it. Returns false if all are
    /// cut.
    pub fn cut_some(&mut self, pool: &Pool) -> bool {
        let Some(aggregate) = self.aggregates.get_mut(self.cut) else {
            self.cut = 0;
            return false;
        };
        // One that is being filled counts more between two calls, and nobody reads its seconds yet.
        let cut =
            |it: &mut Box<Aggregate>| !it.is_filling && it.cut_some(SLOTS_AT_ONCE, &pool.strings);
        if !aggregate.as_mut().is_some_and(cut) {
            self.cut += 1;
        }
        true
    }

    /// Advances time for some groups of one aggregate; readers may run after it: removes expired
    /// data, or closes its tick. If its tick takes more than an even share of the room, the ticks
    /// of all are closed together. Returns false if nothing is due.
    pub fn advance_some(&mut self, now_ms: u64, pool: &mut Pool, holds: &LockCounters) -> bool {
        let begun = Instant::now();
        self.now_ms = now_ms;
        let leaving = self.live().find(|it| it.is_due(now_ms) && it.can_retire(now_ms));
        if let Some(leaving) = leaving {
            let _stage = EXPIRE_GROUPS.begin();
            leaving.retire_some(now_ms, &mut pool.strings);
            self.measure();
            holds.lock_hold_leaving_us.raise_to_us_since(begun);
            return true;
        }
        let due = self.live().filter(|it| it.is_due(now_ms)).count();
        if due == 0 {
            return false;
        }
        let mut stage = CLOSE_TICK.begin();
        let closed = self.close_some(now_ms, due, pool);
        stage.work(closed as u64, due as u64);
        self.measure();
        holds.lock_hold_closing_us.raise_to_us_since(begun);
        true
    }

    /// Settles or closes some slots of the first of `due` aggregates, or all slots of all of them if
    /// it needs more than its share of the room. Returns the number of ticks that ended.
    fn close_some(&mut self, now_ms: u64, due: usize, pool: &mut Pool) -> usize {
        let Some(first) = self.live().find(|it| it.is_due(now_ms)) else { return 0 };
        if !first.closing.is_writing {
            let Some(bytes) = first.settle_some(SLOTS_AT_ONCE, &pool.strings) else { return 0 };
            let ticks = first.scope.ticks;
            let all = self.aggregates.iter().flatten().map(|it| &**it);
            if !allowance(ticks, all, &self.budget).share(1, due).has(bytes) {
                self.end_ticks(now_ms, pool, |_, it| !it.is_filling && it.is_due(now_ms));
                return due;
            }
            let first = self.live().find(|it| it.is_due(now_ms));
            first.into_iter().for_each(|it| it.closing.is_writing = true);
            return 0;
        }
        if first.close_some(SLOTS_AT_ONCE) {
            return 0;
        }
        first.end_tick();
        first.begin_tick(now_ms, &mut pool.strings);
        self.budget.ticks_closed();
        1
    }

    /// Ends the running ticks of aggregates for which `is_due` returns true, together.
    pub(super) fn end_ticks(
        &mut self,
        now_ms: u64,
        pool: &mut Pool,
        is_due: impl Fn(usize, &Aggregate) -> bool,
    ) {
        let (mut due, mut others) = (Vec::new(), Vec::new());
        for (at, aggregate) in self.aggregates.iter_mut().enumerate() {
            let Some(aggregate) = aggregate else { continue };
            match is_due(at, aggregate) {
                true => due.push(aggregate.as_mut()),
                false => others.push(&**aggregate),
            }
        }
        let budget = &mut self.budget;
        let memory = &mut Memory { pool, budget };
        for aggregate in &mut due {
            aggregate.retire_until(now_ms, &mut memory.pool.strings);
            aggregate.charge(memory.budget);
        }
        let windows: BTreeSet<Ticks> = due.iter().map(|it| it.scope.ticks).collect();
        for ticks in windows {
            let all = due.iter().map(|it| &**it).chain(others.iter().copied());
            let share = allowance(ticks, all, memory.budget);
            let of_window = due.iter_mut().filter(|it| it.scope.ticks == ticks);
            let mut together: Vec<&mut Aggregate> = of_window.map(|it| &mut **it).collect();
            close_together(&mut together, share, memory);
        }
        for aggregate in &mut due {
            aggregate.begin_tick(now_ms, &mut memory.pool.strings);
            aggregate.charge(memory.budget);
        }
        memory.budget.ticks_closed();
    }
}

/// The memory for an ending tick of this window, given what `all` aggregates have.
fn allowance<'a>(
    ticks: Ticks,
    all: impl Iterator<Item = &'a Aggregate>,
    budget: &Budget,
) -> Allowance {
    let mut windows: BTreeMap<Ticks, BTreeMap<u64, usize>> = BTreeMap::new();
    let mut open = 0;
    for aggregate in all {
        let window = windows.entry(aggregate.scope.ticks).or_default();
        let mut rest = aggregate.taken().closed;
        for (tick, bytes) in aggregate.leaving() {
            *window.entry(tick).or_default() += bytes;
            // Less than calculated: a group may be counted twice.
            rest = rest.saturating_sub(bytes);
        }
        open += rest;
    }
    let half = budget.closed_wanted() / 2;
    let part = |of: &Ticks| half / windows.len() / of.count as usize;
    for (of, taken) in &windows {
        open += taken.values().map(|bytes| bytes.saturating_sub(part(of))).sum::<usize>();
    }
    let open = half.saturating_sub(open);
    let part = part(&ticks);
    Allowance {
        all: (part + open).min(budget.free_for_closed()).max(part.min(budget.little())),
        histograms: open.min(budget.free_for_closed()),
    }
}
