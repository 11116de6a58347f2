//! Tables `alerts` (what fires, what is about to, what ended in the last quarter of an hour) and
//! `slo` (objectives and what is left of their budgets).

use serde_json::json;

use super::Catalog;
use crate::alert::objective::Objective;
use crate::alert::rule::{Rule, RuleError};
use crate::alert::{Alert, ObjectiveView, Rules};
use crate::config::Config;
use crate::merger::reading;
use crate::query::tables::{Row, float, int, text};
use crate::report::row_key::key_of;
use crate::series::EVERYTHING;
use crate::value::Value;
use crate::value::text::name_or_empty;

impl Catalog {
    /// The rules of a configuration over the reports that there are.
    ///
    /// # Errors
    /// All that is wrong.
    pub fn rules_of(&self, config: &Config) -> Result<Rules, Vec<RuleError>> {
        let live = reading(&self.live);
        let entries = live.reports.iter();
        let reports = entries.map(|it| ((*it.definition).clone(), it.defined_by.clone()));
        let reports: Vec<_> = reports.collect();
        drop(live);
        Rule::all(config, &reports, &self.defaults)
    }

    /// The objectives that count all requests of a row and call long ones bad: name, and time from
    /// which a request is slow, microseconds. `key` is `None` for all rows; those of the total over
    /// all requests are counted by every report without filters.
    pub fn time_limits(&self, report: &str, key: Option<&[String]>) -> Vec<(String, u64)> {
        let bytes = key_of(key.into_iter().flatten());
        let is_total = report == EVERYTHING && key.is_none();
        let concerns = |it: &Objective| {
            let has_all = it.entry.report == report || is_total && it.report.filters.is_empty();
            has_all && it.concerns(&bytes, key.is_none())
        };
        let rules = self.alerts.rules();
        let all = Objective::each(&rules).into_iter().filter(|it| concerns(it));
        all.filter_map(|it| Some((it.entry.name.clone(), it.slow_from_us?))).collect()
    }
}

/// A row of table `slo`.
pub(super) fn slo(objective: &ObjectiveView) -> Row {
    let (of, entry) = (&objective.objective, &objective.objective.entry);
    let firing = objective.firing.as_deref();
    let mut values = vec![
        text(&entry.name),
        text(&entry.report),
        Value::Float(of.percent()),
        int(entry.period),
        int(objective.count.covered_secs),
        int(objective.count.total),
        int(objective.count.bad()),
        Value::Int(objective.is_exact.into()),
        float(objective.left),
    ];
    values.extend(objective.burn_windows.iter().map(|it| float(it.1)));
    values.push(text(firing.map_or(objective.quiet_state(), |_| "firing")));
    values.push(text(firing.unwrap_or_default()));
    values
}

/// A row of table `alerts`.
pub(super) fn row(alert: &Alert) -> Row {
    let moment = |unix: u64| match unix {
        0 => Value::Null,
        unix => int(unix),
    };
    let (entry, episode) = (&alert.rule.entry, &alert.episode);
    let keys: Vec<&str> = alert.key_texts().map(|it| name_or_empty(it.1)).collect();
    vec![
        text(&entry.name),
        text(&entry.report),
        text(keys.join(", ")),
        text(episode.phase.name()),
        moment(episode.since),
        moment(episode.started),
        moment(episode.ended),
        text(&episode.reason),
        float(episode.value),
        text(alert.rule.threshold()),
        text(&entry.severity),
        text(json!(alert.labels).to_string()),
        alert.silenced_by.map_or(Value::Null, int),
        text(&alert.link),
    ]
}
