//! `pinbad_alerts`: how many alerts are pending, firing and silenced, for those who alert in
//! Prometheus; how budgets of objectives burn; and whether receivers take alerts.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::alert::Alerts;
use crate::alert::receiver::Receiver;

/// Name, help and number of each counter of a receiver.
type Counter = (&'static str, &'static str, fn(&Receiver) -> &AtomicU64);

#[rustfmt::skip]
const COUNTERS: [Counter; 3] = [
    ("pinbad_alerts_sent", "Alerts that a receiver has taken", |it| &it.sent),
    ("pinbad_alerts_refused", "Alerts that a receiver has refused, which are not repeated", |it| &it.refused),
    ("pinbad_alerts_failed", "Attempts to send alerts that failed and are repeated", |it| &it.failed),
];

/// Writes all metrics; nothing if there are neither rules nor receivers.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, alerts: &Alerts) -> std::fmt::Result {
    if !alerts.rules().is_empty() {
        let (name, help) = ("pinbad_alerts", "Alerts by name, state and severity");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((name, state, severity), count) in alerts.counts() {
            let labels = [
                ("alertname", name.as_str()),
                ("alertstate", state),
                ("severity", severity.as_str()),
            ];
            metric.encode_family(&labels)?.encode_gauge(&count)?;
        }
    }
    let view = alerts.view();
    if !view.objectives.is_empty() {
        let (name, help) = ("pinbad_slo_budget_left", "Part of an error budget that is left");
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for it in &view.objectives {
            if let Some(left) = it.left {
                let labels = [("slo", it.objective.entry.name.as_str())];
                metric.encode_family(&labels)?.encode_gauge(&left)?;
            }
        }
        let help = "Burn rate of an error budget; at 1 it lasts for exactly its period";
        let mut metric =
            encoder.encode_descriptor("pinbad_slo_burn", help, None, MetricType::Gauge)?;
        for it in &view.objectives {
            for (window, burn) in &it.burn_windows {
                let slo = it.objective.entry.name.as_str();
                if let Some(burn) = burn {
                    let labels = [("slo", slo), ("window", window)];
                    metric.encode_family(&labels)?.encode_gauge(burn)?;
                }
            }
        }
    }
    let has_receivers = !alerts.receivers.is_empty();
    for (name, help, number) in COUNTERS.into_iter().filter(|_| has_receivers) {
        let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for receiver in &alerts.receivers {
            let labels = [("receiver", receiver.url.as_str())];
            let count = number(receiver).load(Ordering::Relaxed);
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
    }
    Ok(())
}
