//! From the stream of seconds to the rules: the rows that one of them concerns, on the series thread.
//!
//! Whether a row is one of those is remembered by its id, so a row that is none costs a look-up. Bounded: ids are forgotten when
//! there are [`IDS_MAX`], and seconds that nobody takes give way, oldest first.

use std::sync::Arc;

use hashbrown::HashMap;

use super::engine::Gain;
use super::rule::Rule;
use super::windows::{ReportGain, RowGain};
use super::{Alerts, Rules};
use crate::delta::{RowDelta, RowReader, Second};
use crate::report::{OTHER_ID, Watched};

/// Ids that are remembered.
pub const IDS_MAX: usize = 1 << 18;
/// Longest time that is believed to have been lost, seconds.
const LOST_SECS_MAX: u64 = 86_400;

/// What takes seconds for the rules.
#[derive(Debug)]
pub struct Intake {
    alerts: Alerts,
    rules: Arc<Rules>,
    /// By number of the report and id of the row: whether a rule concerns it.
    ids: HashMap<(u64, u64), bool, ahash::RandomState>,
    gain: Gain,
    /// The report whose rows come, and the rules over it.
    report: Option<u64>,
    concerned: Vec<Arc<Rule>>,
    /// The wall clock's second behind the last one.
    end: u64,
}

impl Intake {
    /// One for these alerts.
    #[must_use]
    pub fn new(alerts: Alerts) -> Self {
        Self {
            rules: alerts.rules(),
            alerts,
            ids: HashMap::default(),
            gain: Gain::default(),
            report: None,
            concerned: Vec::new(),
            end: 0,
        }
    }

    /// Takes in a second, whose rows come from `read`; `missed` requests before it were lost.
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
        }
        let lost = second
            .unix_secs
            .saturating_sub(self.end)
            .clamp(1, LOST_SECS_MAX);
        self.end = second.unix_secs + second.secs;
        self.gain = Gain {
            unix: second.unix_secs,
            secs: second.secs,
            covered_secs: second.secs,
            lost_secs: if missed > 0 { lost } else { 0 },
            reports: Vec::new(),
        };
        read(self);
        if !self.rules.is_empty() && second.secs > 0 {
            // A report without a row in it was counted all the same.
            let watched = second
                .reports()
                .filter(|it| self.rules.iter().any(|rule| rule.is_over(it)));
            let names: Vec<String> = watched.map(|it| it.definition.name.clone()).collect();
            for report in names {
                if !self.gain.reports.iter().any(|it| it.report == report) {
                    self.gain.reports.push(ReportGain {
                        report,
                        ..ReportGain::default()
                    });
                }
            }
            self.alerts.push(std::mem::take(&mut self.gain));
        }
    }
}

impl Rule {
    /// Whether it is about this report, as it is defined now.
    fn is_over(&self, report: &Watched) -> bool {
        self.report == *report.definition
    }
}

impl RowReader for Intake {
    fn begin(&mut self, report: &Watched) {
        let concerned = self.rules.iter().filter(|it| it.is_over(report)).cloned();
        self.concerned = concerned.collect();
        self.report = (!self.concerned.is_empty()).then_some(report.number);
        if self.report.is_some() {
            self.gain.reports.push(ReportGain {
                report: report.definition.name.clone(),
                ..ReportGain::default()
            });
        }
    }

    fn row(&mut self, row: &RowDelta<'_>) {
        let (Some(report), Some(gain)) = (self.report, self.gain.reports.last_mut()) else {
            return;
        };
        gain.grand += &row.totals;
        if row.id == OTHER_ID {
            gain.has_other = true;
            return;
        }
        let concerned = &self.concerned;
        let is_concerned = || concerned.iter().any(|it| it.concerns(row.key));
        if *self
            .ids
            .entry((report, row.id))
            .or_insert_with(is_concerned)
        {
            gain.rows.push(RowGain {
                id: row.id,
                key: row.key.into(),
                packed: row.packed.0.into(),
                extremes: row.extremes,
            });
        }
    }

    fn end(&mut self) {
        self.report = None;
    }
}
