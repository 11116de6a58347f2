//! `pinbad_alerts`: how many alerts are pending, firing and silenced, for those who alert in
//! Prometheus; how budgets of objectives burn; and whether receivers take alerts.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::alert::Alerts;
use crate::alert::state::Phase;
use crate::telemetry::reading::{Group, Place, readings};

const ALERTS: Place = Place::List("alerts", "alerts");
const BUDGETS: Place = Place::List("budgets", "slo");
const BURNS: Place = Place::List("burns", "slo");
const RECEIVERS: Place = Place::List("receivers", "alerts");

/// Returns all of them; none if there are neither rules nor receivers.
pub(super) fn groups(alerts: &Alerts) -> Vec<Group> {
    let group = |place, labels, readings| Group { labels, ..Group::new(place, readings) };
    let mut all = Vec::new();
    let mut counts = BTreeMap::<_, u64>::new();
    for alert in &alerts.view().alerts {
        let entry = &alert.rule.entry;
        // Silenced is a state of its own, in addition to those of the state table.
        let state = match (alert.episode.phase, alert.silenced_by) {
            (Phase::Resolved, _) => continue,
            (Phase::Firing, Some(_)) => "silenced",
            (phase, _) => phase.name(),
        };
        *counts.entry((entry.name.clone(), state, entry.severity.clone())).or_default() += 1;
    }
    for ((name, state, severity), count) in counts {
        let state = ("alertstate", state.to_owned());
        let readings = readings! {
            Gauge count as "alerts" = count, "Alerts by name, state and severity.";
        };
        all.push(group(ALERTS, vec![("alertname", name), state, ("severity", severity)], readings));
    }
    for it in &alerts.view().objectives {
        let slo = ("slo", it.objective.entry.name.clone());
        for (window, burn) in &it.burn_windows {
            let readings = readings! {
                Gauge burn = *burn, "Burn rate of an error budget; at 1 it lasts for exactly its period.";
            };
            let window = ("window", (*window).to_owned());
            all.push(group(BURNS, vec![slo.clone(), window], readings));
        }
        let readings = readings! {
            Gauge budget_left = it.left, "Part of an error budget that is left.";
        };
        all.push(group(BUDGETS, vec![slo], readings));
    }
    for it in &alerts.receivers {
        let readings = readings! {
            Counter sent = it.sent.load(Ordering::Relaxed), "Alerts that a receiver has taken.";
            Counter refused = it.refused.load(Ordering::Relaxed), "Alerts that a receiver has refused, which are not repeated.";
            Counter failed = it.failed.load(Ordering::Relaxed), "Attempts to send alerts that failed and are repeated.";
        };
        all.push(group(RECEIVERS, vec![("receiver", it.url.clone())], readings));
    }
    // Those of one metric follow each other.
    let places = [ALERTS, BUDGETS, BURNS, RECEIVERS];
    all.sort_by_key(|it| places.iter().position(|place| *place == it.place));
    all
}
