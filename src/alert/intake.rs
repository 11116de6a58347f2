//! Filters the stream of seconds for the rules. Runs on the series thread and passes on only the
//! rows that some rule selects.
//!
//! A row costs a few look-ups, however many rules there are: they are found by the text that they
//! ask for. Objectives need no rows: their requests are counted here. Bounded: when the queue is
//! full the oldest seconds are dropped.

use std::sync::Arc;

use hashbrown::HashMap;

use super::engine::Gain;
use super::objective::{Count, Objective};
use super::rule::Rule;
use super::rule_index::RuleIndex;
use super::windows::{ReportGain, RowGain};
use super::{Alerts, Rules};
use crate::delta::{RowDelta, RowReader, Second};
use crate::report::{OTHER_ID, Watched};

/// Longest gap accepted as lost time, seconds.
const LOST_SECS_MAX: u64 = 86_400;

/// The rules and objectives over a report.
#[derive(Debug, Default)]
struct Watching {
    rules: RuleIndex,
    objectives: Vec<Arc<Objective>>,
}

/// Collects the seconds that rules evaluate.
#[derive(Debug, Default)]
pub struct Intake {
    alerts: Arc<Alerts>,
    rules: Arc<Rules>,
    /// By report number.
    watching: HashMap<u64, Watching, ahash::RandomState>,
    /// Number of the report being read.
    report: u64,
    /// The running second; what is over the report is last in its lists.
    gain: Gain,
    /// End of the last second taken, unix seconds.
    end: Option<u64>,
    /// Seconds after it in which nothing was merged: requests of these come with the next one.
    unmerged: u64,
}

impl Intake {
    /// Creates an intake that feeds `alerts`.
    pub(crate) fn new(alerts: Arc<Alerts>) -> Self {
        Self { rules: alerts.rules(), alerts, ..Self::default() }
    }

    /// Takes a second, whose rows are supplied by `read`; `missed` requests before it were lost.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        let rules = self.alerts.rules();
        if !Arc::ptr_eq(&rules, &self.rules) {
            self.rules = rules;
            self.watching.clear();
        }
        let end = self.end.replace(second.unix_secs + second.secs);
        let lost = second.unix_secs.saturating_sub(end.unwrap_or(second.unix_secs));
        let unmerged = std::mem::replace(&mut self.unmerged, second.secs.saturating_sub(1));
        self.gain = Gain {
            unix: second.unix_secs.saturating_sub(unmerged),
            secs: unmerged + 1,
            covered_secs: unmerged + 1,
            lost_secs: if missed > 0 { lost.clamp(1, LOST_SECS_MAX) } else { 0 },
            ..Gain::default()
        };
        read(self);
        // Without rules, alerts of the last ones are still to be forgotten.
        let is_idle = self.rules.is_empty() && self.alerts.view().alerts.is_empty();
        if !is_idle && second.secs > 0 {
            self.alerts.push(std::mem::take(&mut self.gain));
        }
    }
}

impl RowReader for Intake {
    fn begin(&mut self, report: &Watched) {
        self.report = report.number;
        let watching = self.watching.entry(report.number).or_insert_with(|| {
            let over = self.rules.iter().filter(|it| it.report == *report.definition);
            let over: Vec<Arc<Rule>> = over.cloned().collect();
            let objectives = Objective::each(&over).into_iter().cloned().collect();
            let mut watching = Watching { objectives, ..Watching::default() };
            over.iter().filter(|it| it.objective().is_none()).for_each(|it| watching.rules.add(it));
            watching
        });
        for objective in &watching.objectives {
            // A report that was made anew in this second is there twice.
            let is_covered = self.gain.counts.iter().any(|it| Arc::ptr_eq(&it.0, objective));
            let covered_secs = if is_covered { 0 } else { self.gain.covered_secs };
            let count = Count { covered_secs, ..Count::default() };
            self.gain.counts.push((Arc::clone(objective), count));
        }
        if !watching.rules.rules.is_empty() {
            let report = report.definition.name.clone();
            self.gain.reports.push(ReportGain { report, ..ReportGain::default() });
        }
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Some(Watching { rules, objectives }) = self.watching.get(&self.report) else {
            return;
        };
        if rules.rules.is_empty() && objectives.is_empty() {
            return;
        }
        let (is_other, key) = (row.id == OTHER_ID, row.key.bytes());
        let counts = self.gain.counts.iter_mut().rev().take(objectives.len());
        for (objective, count) in counts.filter(|it| it.0.concerns(&key, is_other)) {
            *count += &objective.count(&row.totals, row.times.clone(), is_other);
        }
        if !rules.rules.is_empty()
            && let Some(gained) = self.gain.reports.last_mut()
        {
            gained.grand += &row.totals;
            gained.has_other |= is_other;
            if !is_other && rules.selecting(&key).next().is_some() {
                let (key, packed) = (key.into(), row.encoded.0.into());
                gained.rows.push(RowGain { id: row.id, key, packed, extremes: row.extremes });
            }
        }
    }
}
