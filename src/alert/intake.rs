//! Filters the stream of seconds for the rules. Runs on the series thread and passes on only the
//! rows that some rule selects.
//!
//! The decision is cached by row id, so a row that no rule selects costs one look-up. That of a new
//! row costs a few, however many rules there are: they are found by the text that they ask for.
//! Objectives need no rows: their requests are counted here. Bounded: the cache is emptied when it
//! holds [`IDS_MAX`] ids, and when the queue is full the oldest seconds are dropped.

use std::sync::Arc;

use hashbrown::HashMap;

use super::objective::{Count, Objective};
use super::rule::Rule;
use super::rule_index::RuleIndex;
use super::windows::{Gain, ReportGain, RowGain};
use super::{Alerts, Rules};
use crate::delta::{RowDelta, RowReader, Second};
use crate::limits::SLOS_MAX;
use crate::report::{OTHER_ID, Watched};

/// Maximum number of cached ids.
pub const IDS_MAX: usize = 1 << 18;
/// Longest gap accepted as lost time, seconds.
const LOST_SECS_MAX: u64 = 86_400;

/// The bit of rules, beside one for each objective.
const BY_RULE: u64 = 1 << SLOS_MAX;

/// The rules and objectives over a report.
#[derive(Debug, Default)]
struct Watching {
    rules: RuleIndex,
    objectives: Vec<Arc<Objective>>,
    /// By row id: the bits of the objectives that count the row, and of rules if one selects it.
    ids: HashMap<u64, u64, ahash::RandomState>,
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

    /// Takes a second, whose rows are supplied by `read`; `lost` requests before it were lost.
    pub fn take_rows(&mut self, second: &Second, lost: u64, read: impl FnOnce(&mut dyn RowReader)) {
        let rules = self.alerts.rules();
        let ids: usize = self.watching.values().map(|it| it.ids.len()).sum();
        if !Arc::ptr_eq(&rules, &self.rules) || ids > IDS_MAX {
            self.rules = rules;
            self.watching.clear();
        }
        let end = self.end.replace(second.unix_secs + second.secs);
        let gap = second.unix_secs.saturating_sub(end.unwrap_or(second.unix_secs));
        let unmerged = std::mem::replace(&mut self.unmerged, second.secs.saturating_sub(1));
        self.gain = Gain {
            unix: second.unix_secs.saturating_sub(unmerged),
            secs: unmerged + 1,
            covered_secs: unmerged + 1,
            lost_secs: if lost > 0 { gap.clamp(1, LOST_SECS_MAX) } else { 0 },
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
            self.gain.reports.push(ReportGain::nothing(&report.definition.name));
        }
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Some(Watching { rules, objectives, ids }) = self.watching.get_mut(&self.report) else {
            return;
        };
        if rules.rules.is_empty() && objectives.is_empty() {
            return;
        }
        let is_other = row.id == OTHER_ID;
        let selected = *ids.entry(row.id).or_insert_with(|| {
            let key = row.key.bytes();
            let of_row = objectives.iter().enumerate().filter(|it| it.1.concerns(&key, is_other));
            let by_rule = !is_other && rules.selecting(&key).next().is_some();
            of_row.fold(if by_rule { BY_RULE } else { 0 }, |bits, (at, _)| bits | 1 << at)
        });
        let counts = self.gain.counts.iter_mut().rev().take(objectives.len()).rev();
        for (at, (objective, count)) in counts.enumerate() {
            if selected & 1 << at != 0 {
                *count += &objective.count(&row.totals, row.times.clone(), is_other);
            }
        }
        if !rules.rules.is_empty()
            && let Some(gained) = self.gain.reports.last_mut()
        {
            gained.grand += &row.totals;
            gained.has_other |= is_other;
            if selected & BY_RULE != 0 {
                let (key, packed) = (row.key.bytes().into(), row.encoded.0.into());
                gained.rows.push(RowGain { id: row.id, key, packed, extremes: row.extremes });
            }
        }
    }
}
