//! Saves the reports to a snapshot, and restores them.
//!
//! The snapshot writer takes a [`ReportsCut`] under the lock, all reports at the same moment, then
//! copies keys of groups a thousand at a time, and last, without the lock, the tick logs. At start
//! a [`ReportsRestore`] recreates the shared aggregates and adds those reports that are still
//! defined and served by them; the rest are created again, and filled from the raw rows.

use super::{Entry, Reports};
use crate::pool::Pool;
use crate::pool::snapshot::Damage;
use crate::report::aggregate::snapshot::{
    AggregateCut, AggregateRestore, REPORTS_MAX, SavedAggregate, SavedPart, Wanted,
};
use crate::report::aggregate::{Memory, put};
use crate::report::definition::{DefinedBy, Definition};

/// Raw rows added to a new report at once, at start.
const FILL_REQUESTS: usize = 1 << 16;

/// All reports at one moment.
#[derive(Debug)]
pub struct ReportsCut {
    /// Each aggregate, with its reports.
    pub(crate) aggregates: Vec<AggregateCut>,
    /// Number of reports dropped, or resets, before.
    removals: u64,
    /// Keys that had overflowed before.
    pub overflowed: u64,
    /// Requests with this status or a higher one were counted as errors.
    pub error_status: u32,
}

impl Reports {
    /// Cuts all reports. The lock is held for it: some tens of nanoseconds for each group with a
    /// gain in the running tick.
    pub fn cut(&self) -> ReportsCut {
        let aggregates = self.aggregates.iter().enumerate().filter_map(|(at, aggregate)| {
            let aggregate = aggregate.as_ref().filter(|it| !it.is_filling)?;
            let of_aggregate = self.entries.iter().filter(|entry| entry.aggregate == at);
            let reports: Vec<_> =
                of_aggregate.map(|entry| (entry.report, entry.definition.name.as_str())).collect();
            Some(aggregate.cut(at, &reports))
        });
        ReportsCut {
            aggregates: aggregates.collect(),
            removals: self.removals,
            overflowed: self.memory().2,
            error_status: self.error_status,
        }
    }

    /// Whether a cut can still be written: not if a report was dropped since, or all were cleared.
    pub fn is_current(&self, cut: &ReportsCut) -> bool {
        self.removals == cut.removals
    }

    /// Some groups of an aggregate of the cut, and where to continue, `None` after the last.
    pub(crate) fn save_groups(
        &self,
        cut: &AggregateCut,
        from: u32,
        pool: &Pool,
    ) -> Option<(SavedPart, Option<u32>)> {
        Some(self.aggregates.get(cut.at)?.as_ref()?.save_groups(cut, from, &pool.strings))
    }

    /// Restores the count of overflowed keys.
    pub fn restore_overflowed(&mut self, overflowed: u64) {
        self.budget.overflowed += overflowed;
    }
}

/// A report of a snapshot that was not restored, and why.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NotRestored {
    /// The report.
    pub report: String,
    /// Why.
    pub reason: &'static str,
}

/// Restores reports, before anything is merged.
#[derive(Debug)]
pub struct ReportsRestore {
    /// Not created yet.
    remaining: Vec<(Definition, DefinedBy)>,
    /// The names of all, in listing order.
    order: Vec<String>,
    current: Option<AggregateRestore>,
    /// Reports that were not restored.
    not_restored: Vec<NotRestored>,
    /// Whether other requests were counted as errors.
    error_status_differs: bool,
    now_ms: u64,
}

impl ReportsRestore {
    /// For the initial reports, at monotonic time `now_ms`. There must be none yet.
    pub fn new(definitions: Vec<(Definition, DefinedBy)>, now_ms: u64) -> Self {
        let names = definitions.iter().map(|(it, _)| it.name.clone());
        Self {
            order: names.collect(),
            remaining: definitions,
            current: None,
            not_restored: Vec::new(),
            error_status_differs: false,
            now_ms,
        }
    }

    /// Compares the snapshot's `reports.error_status` with the present one: if they differ, no
    /// report is restored.
    pub fn compare_error_status(&mut self, error_status: u32, reports: &Reports) {
        self.error_status_differs = error_status != reports.error_status;
    }

    /// Starts the next aggregate.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub fn aggregate(
        &mut self,
        saved: SavedAggregate,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        self.end_aggregate(reports, pool);
        let mut wanted = Vec::new();
        if saved.reports.len() > REPORTS_MAX {
            return Err(Damage("an aggregate has too many reports"));
        }
        for (place, name) in saved.reports.iter().enumerate() {
            let at = self.remaining.iter().position(|(it, _)| it.name == *name);
            let reason = match at {
                None => "it is not defined any more",
                Some(_) if self.error_status_differs => {
                    "reports.error_status is another now: filled from the raw requests instead"
                }
                Some(at) if saved.scope.serves(&self.remaining[at].0) => {
                    let (definition, defined_by) = self.remaining.remove(at);
                    wanted.push(Wanted { place, definition, defined_by, rows: Vec::new() });
                    continue;
                }
                Some(_) => "it is defined otherwise now: filled from the raw requests instead",
            };
            self.not_restored.push(NotRestored { report: name.clone(), reason });
        }
        if !wanted.is_empty() {
            let begun = AggregateRestore::begin(saved, wanted, self.now_ms, reports.budget.limit)?;
            self.current = Some(begun);
        }
        Ok(())
    }

    /// Restores a part of the aggregate, which is abandoned if it exceeds `reports.memory`.
    ///
    /// # Errors
    /// Fails if it is invalid.
    pub fn part(
        &mut self,
        part: SavedPart,
        reports: &mut Reports,
        pool: &mut Pool,
    ) -> Result<(), Damage> {
        let Some(current) = &mut self.current else { return Ok(()) };
        let budget = &mut reports.budget;
        current.take(part, &mut Memory { pool, budget })?;
        let taken = reports.taken().plus(current.measure());
        reports.budget.measure(taken);
        // Keys overflow before that; this is the limit, whatever the file says.
        if !current.is_too_large && taken.all <= reports.budget.limit {
            return Ok(());
        }
        if let Some(mut current) = self.current.take() {
            current.aggregate.clear(&mut pool.strings);
            for report in current.wanted {
                self.not_restored.push(NotRestored {
                    report: report.definition.name.clone(),
                    reason: "it does not fit into reports.memory: filled from the raw requests instead",
                });
                self.remaining.push((report.definition, report.defined_by));
            }
        }
        Ok(())
    }

    /// Makes the current aggregate live, with its reports.
    fn end_aggregate(&mut self, reports: &mut Reports, pool: &mut Pool) {
        let Some(found) = self.current.take() else { return };
        let (aggregate, joined) = found.finish(reports.rows_max, &mut pool.strings);
        let at = put(&mut reports.aggregates, aggregate);
        let entries = joined.into_iter().enumerate().map(|(report, it)| Entry {
            definition: it.definition.into(),
            defined_by: it.defined_by,
            aggregate: at,
            report,
        });
        reports.entries.extend(entries);
        reports.measure();
    }

    /// Completes the restore, creates the reports that were not restored, and fills them from the
    /// raw rows. Returns what was left out of the snapshot.
    pub fn finish(mut self, reports: &mut Reports, pool: &mut Pool) -> Vec<NotRestored> {
        self.end_aggregate(reports, pool);
        reports.now_ms = self.now_ms;
        self.remaining.sort_by_key(|(definition, _)| std::cmp::Reverse(definition.keys.len()));
        for (definition, by) in self.remaining {
            let mut filling = reports.define(definition.into(), by, pool);
            while let Some(rest) = filling {
                filling = reports.fill(rest, pool, FILL_REQUESTS);
            }
        }
        reports.list_as(&self.order);
        self.not_restored
    }
}
