//! Advances time: ends ticks, and divides memory among them.
//!
//! Called by the merger before every merge, and for every row from which a new report is filled.
//! First, expired data is removed; the memory for closed ticks is then shared in two halves:
//!
//! - one is divided evenly among all ticks, so that none finds nothing left: first among the
//!   windows, then among the ticks of a window;
//! - the other is first come, first served, so that uneven traffic that fits never overflows. It
//!   covers what ticks have beyond their share, and the histograms.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Reports;
use crate::instruments::Instrument;
use crate::pool::Pool;
use crate::report::aggregate::close::{Allowance, SLOTS_AT_ONCE, close_together};
use crate::report::aggregate::{Aggregate, Memory};
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
    /// of all with its window are closed together. Returns false if nothing is due.
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
        if closed == due {
            self.budget.ticks_closed();
        }
        stage.work(closed as u64, due as u64);
        self.measure();
        holds.lock_hold_closing_us.raise_to_us_since(begun);
        true
    }

    /// Settles or closes some slots of the first of `due` aggregates, or all slots of all with its
    /// window if it needs more than its share of the room. Returns the number of ticks that ended.
    fn close_some(&mut self, now_ms: u64, due: usize, pool: &mut Pool) -> usize {
        let Some(first) = self.live().find(|it| it.is_due(now_ms)) else { return 0 };
        if first.closing.is_settled {
            if first.close_some(SLOTS_AT_ONCE) {
                return 0;
            }
            first.end_tick();
            first.begin_tick(now_ms, &mut pool.strings);
            return 1;
        }
        let Some(bytes) = first.settle_some(SLOTS_AT_ONCE, &pool.strings) else { return 0 };
        let ticks = first.scope.ticks;
        match self.allowance(ticks).share(1, due).has(bytes) {
            true => 0,
            false => self.end_ticks(ticks, now_ms, pool, |_, it| !it.is_filling),
        }
    }

    /// Ends the running ticks of due aggregates with this window, together; returns how many.
    pub(super) fn end_ticks(
        &mut self,
        ticks: Ticks,
        now_ms: u64,
        pool: &mut Pool,
        is_one: impl Fn(usize, &Aggregate) -> bool,
    ) -> usize {
        let share = self.allowance(ticks);
        let all = self.aggregates.iter_mut().enumerate();
        let all = all.filter_map(|(at, it)| Some((at, it.as_deref_mut()?)));
        let due =
            all.filter(|(at, it)| it.scope.ticks == ticks && it.is_due(now_ms) && is_one(*at, it));
        let mut due: Vec<&mut Aggregate> = due.map(|(_, it)| it).collect();
        let memory = &mut Memory { pool, budget: &mut self.budget };
        close_together(&mut due, share, memory);
        for aggregate in &mut due {
            aggregate.begin_tick(now_ms, &mut memory.pool.strings);
            aggregate.charge(memory.budget);
        }
        due.len()
    }

    /// The memory for an ending tick of this window.
    fn allowance(&self, ticks: Ticks) -> Allowance {
        let budget = &self.budget;
        let mut windows: BTreeMap<Ticks, BTreeMap<u64, usize>> = BTreeMap::new();
        let mut open = 0;
        for aggregate in self.aggregates.iter().flatten() {
            let window = windows.entry(aggregate.scope.ticks).or_default();
            let mut rest = aggregate.closed_bytes();
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
}
