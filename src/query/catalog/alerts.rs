//! Tables `alerts` (what fires, what is about to, what ended in the last quarter of an hour) and
//! `slo` (objectives and what is left of their budgets).

use serde_json::{Map, Value as Json, json};

use super::Catalog;
use crate::alert::objective::Objective;
use crate::alert::rule::{Rule, RuleError};
use crate::alert::{Alert, ObjectiveView, Rules};
use crate::config::Config;
use crate::merger::reading;
use crate::report::row_key::key_of;
use crate::series::EVERYTHING;
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

/// An objective with all its details.
pub(crate) fn objective(it: &ObjectiveView) -> Json {
    let (of, entry) = (&it.objective, &it.objective.entry);
    let burns = it.burns.iter().map(|burn| {
        let state = match burn.holds {
            Some(true) => "firing",
            Some(false) => "ok",
            None => "unknown",
        };
        json!({
            "severity": burn.rate.severity, "long": burn.rate.long, "short": burn.rate.short, "burn_long": burn.long,
            "burn_short": burn.short, "threshold": burn.rate.threshold(), "state": state,
        })
    });
    json!({
        "name": entry.name,
        "report": entry.report,
        "text": of.words(),
        "objective": of.percent(),
        "period": entry.period,
        "covered_seconds": it.count.covered_secs,
        "total": it.count.total,
        "bad": it.count.bad(),
        "exact": it.is_exact,
        "budget_left": it.left,
        "burn": burns.collect::<Vec<_>>(),
    })
}

/// The columns of table `slo`.
pub(super) fn slo(it: &ObjectiveView) -> Json {
    let mut row = objective(it);
    row["slo"] = row["name"].take();
    for (window, burn) in it.burn_windows {
        row[format!("burn_{window}")] = burn.into();
    }
    let firing = it.firing.as_deref();
    row["state"] = firing.map_or(it.quiet_state(), |_| "firing").into();
    row["severity"] = firing.unwrap_or_default().into();
    row
}

/// An alert with all its details.
pub(crate) fn alert(alert: &Alert) -> Json {
    let episode = &alert.episode;
    let moment = |unix: u64| (unix > 0).then_some(unix);
    let key = alert.key_texts().map(|(name, text)| (name.to_owned(), text.into()));
    json!({
        "alert": alert.rule.entry.name,
        "report": alert.rule.entry.report,
        "key": key.collect::<Map<String, Json>>(),
        "state": episode.phase.name(),
        "since": episode.since,
        "started": moment(episode.started),
        "ended": moment(episode.ended),
        "firings": episode.firings,
        "first_started": moment(episode.first_started),
        "reason": episode.reason,
        "value": episode.value,
        "value_text": alert.value_text(),
        "condition": alert.rule.condition_text(),
        "threshold": alert.rule.threshold(),
        "severity": alert.rule.entry.severity,
        "labels": alert.labels,
        "silenced_by": alert.silenced_by,
        "page": alert.link,
    })
}

/// The columns of table `alerts`.
pub(super) fn row(of: &Alert) -> Json {
    let mut row = alert(of);
    let keys: Vec<&str> = of.key_texts().map(|it| name_or_empty(it.1)).collect();
    row["row_key"] = keys.join(", ").into();
    row
}
