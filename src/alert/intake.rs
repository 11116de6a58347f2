//! Filters the stream of seconds for the rules. Runs on the series thread and passes on only the
//! rows that some rule selects.
//!
//! The decision is cached by row id, so a row that no rule selects costs one look-up. That of a new
//! row costs a few, however many rules there are: they are found by the text that they ask for.
//! Objectives need no rows: their requests are counted here. Bounded: the cache is emptied when it
//! holds [`IDS_MAX`] ids, and when the queue is full the oldest seconds are dropped.

use std::sync::Arc;

use hashbrown::HashMap;

use super::engine::Gain;
use super::objective::{Count, Objective};
use super::rule::Rule;
use super::rule_index::RuleIndex;
use super::windows::{ReportGain, RowGain};
use super::{Alerts, Rules};
use crate::delta::{RowDelta, RowReader, Second};
use crate::limits::SLOS_MAX;
use crate::report::{OTHER_ID, Watched};

/// Maximum number of cached ids.
pub const IDS_MAX: usize = 1 << 18;
/// Longest gap accepted as lost time, seconds.
const LOST_SECS_MAX: u64 = 86_400;

/// Cached decision for a row: which rules and objectives select it.
#[derive(Debug, Clone, Copy, Default)]
struct Concerned {
    rules: bool,
    /// One bit for each counted objective.
    objectives: u64,
}

const _: () = assert!(SLOS_MAX <= u64::BITS as usize);

/// Collects the seconds that rules evaluate.
#[derive(Debug)]
pub struct Intake {
    alerts: Alerts,
    rules: Arc<Rules>,
    /// By report number and row id.
    ids: HashMap<(u64, u64), Concerned, ahash::RandomState>,
    gain: Gain,
    /// Number of the report being read, if any rule or objective watches it.
    report: Option<u64>,
    /// The rules over each report, by its number.
    over: HashMap<u64, Arc<RulesOver>, ahash::RandomState>,
    /// Those over the report being read.
    concerned: Arc<RulesOver>,
    /// Objectives over this report, as indexes into the counted ones.
    objectives: Vec<usize>,
    /// The objective behind each bit of [`Concerned::objectives`].
    counted: Vec<Arc<Objective>>,
    /// End of the last second taken, unix seconds.
    end: u64,
}

impl Intake {
    /// Creates an intake that feeds `alerts`.
    #[must_use]
    pub fn new(alerts: Alerts) -> Self {
        Self {
            rules: alerts.rules(),
            alerts,
            ids: HashMap::default(),
            gain: Gain::default(),
            report: None,
            over: HashMap::default(),
            concerned: Arc::default(),
            objectives: Vec::new(),
            counted: Vec::new(),
            end: 0,
        }
    }

    /// Takes a second, whose rows are supplied by `read`; `missed` requests before it were lost.
    pub fn take_rows(
        &mut self,
        second: &Second,
        missed: u64,
        read: impl FnOnce(&mut dyn RowReader),
    ) {
        let rules = self.alerts.rules();
        if !Arc::ptr_eq(&rules, &self.rules) || self.ids.len() > IDS_MAX {
            self.rules = rules;
            self.ids.clear();
            self.over.clear();
        }
        let lost = second.unix_secs.saturating_sub(self.end).clamp(1, LOST_SECS_MAX);
        self.end = second.unix_secs + second.secs;
        self.gain = Gain {
            unix: second.unix_secs,
            secs: second.secs,
            covered_secs: second.secs,
            lost_secs: if missed > 0 { lost } else { 0 },
            ..Gain::default()
        };
        let objectives = self.rules.iter().filter_map(|it| it.objective()).cloned();
        let mut objectives: Vec<_> = objectives.collect();
        objectives.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let of_watched = |it: &Arc<Objective>| {
            let mut watched = second.reports();
            watched.any(|report| it.report == *report.definition)
        };
        let watched = objectives.into_iter().filter(of_watched);
        let nothing = Count { covered_secs: second.secs, ..Count::default() };
        self.gain.counts = watched.map(|it| (it, nothing)).collect();
        let counted = self.gain.counts.iter().map(|it| &it.0);
        let is_same = |(a, b): (&Arc<Objective>, &Arc<Objective>)| Arc::ptr_eq(a, b);
        if self.counted.len() != counted.len() || !self.counted.iter().zip(counted).all(is_same) {
            // The bits now stand for other objectives.
            self.ids.clear();
            let counted = self.gain.counts.iter().map(|it| Arc::clone(&it.0));
            self.counted = counted.collect();
        }
        read(self);
        if !self.rules.is_empty() && second.secs > 0 {
            // A watched report without rows was still covered.
            for watched in second.reports() {
                let name = &watched.definition.name;
                let is_there = self.gain.reports.iter().any(|it| it.report == *name);
                if !is_there && self.over(watched).has_any {
                    self.gain
                        .reports
                        .push(ReportGain { report: name.clone(), ..ReportGain::default() });
                }
            }
            self.alerts.push(std::mem::take(&mut self.gain));
        }
    }

    fn over(&mut self, report: &Watched) -> Arc<RulesOver> {
        let found = self.over.entry(report.number);
        let over = found.or_insert_with(|| {
            let rules = self.rules.iter().filter(|it| it.is_over(report));
            Arc::new(RulesOver::of(rules.cloned()))
        });
        Arc::clone(over)
    }
}

/// The rules over a report.
#[derive(Debug, Default)]
pub(super) struct RulesOver {
    /// Whether there is any, including those of objectives.
    has_any: bool,
    /// Those over its rows.
    rules: Vec<Arc<Rule>>,
    index: RuleIndex,
}

impl RulesOver {
    pub(super) fn of(rules: impl Iterator<Item = Arc<Rule>>) -> Self {
        let mut over = Self::default();
        for rule in rules {
            over.has_any = true;
            if rule.objective().is_none() {
                over.index.add(over.rules.len() as u32, &rule);
                over.rules.push(rule);
            }
        }
        over
    }

    /// Whether a rule selects the row with this key.
    pub(super) fn selects(&self, key: &[u8]) -> bool {
        let mut possible = self.index.possible(key);
        possible.any(|number| self.rules[number as usize].concerns(key))
    }
}

impl Rule {
    /// Returns true if the rule watches this report in its present definition.
    fn is_over(&self, report: &Watched) -> bool {
        self.report == *report.definition
    }
}

impl RowReader for Intake {
    fn begin(&mut self, report: &Watched) {
        self.concerned = self.over(report);
        let objectives = self.gain.counts.iter().enumerate();
        let objectives = objectives.filter(|(_, it)| it.0.report == *report.definition);
        self.objectives = objectives.map(|it| it.0).collect();
        let is_wanted = !self.concerned.rules.is_empty() || !self.objectives.is_empty();
        self.report = is_wanted.then_some(report.number);
        if is_wanted {
            self.gain.reports.push(ReportGain {
                report: report.definition.name.clone(),
                ..ReportGain::default()
            });
        }
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let Self { gain, concerned, .. } = self;
        let Some(report) = self.report else { return };
        let is_other = row.id == OTHER_ID;
        let is_concerned = || {
            let key = row.key.bytes();
            let of_report = self.objectives.iter().map(|at| (*at, &gain.counts[*at].0));
            let objectives = of_report.filter(|it| it.1.concerns(&key, is_other));
            Concerned {
                rules: !is_other && concerned.selects(&key),
                objectives: objectives.fold(0, |bits, (at, _)| bits | 1 << at),
            }
        };
        let found = *self.ids.entry((report, row.id)).or_insert_with(is_concerned);
        for (at, (objective, count)) in gain.counts.iter_mut().enumerate() {
            if found.objectives & 1 << at != 0 {
                *count += &objective.count(&row.totals, row.times.clone());
            }
        }
        let Some(gain) = gain.reports.last_mut() else {
            return;
        };
        gain.grand += &row.totals;
        gain.has_other |= is_other;
        if found.rules {
            gain.rows.push(RowGain {
                id: row.id,
                key: row.key.bytes().into(),
                packed: row.encoded.0.into(),
                extremes: row.extremes,
            });
        }
    }

    fn end(&mut self) {
        self.report = None;
    }
}
