//! Sums over the daemon's instruments as metrics: events and seconds, for each that has counted.

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::instruments::registry::registry;
use crate::instruments::summary;

/// Writes them.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let Some(registry) = registry() else {
        return Ok(());
    };
    let all = summary::since_start();
    let help = "Events of the daemon's own instruments";
    let kind = MetricType::Counter;
    let mut metric = encoder.encode_descriptor("pinbad_instrument_events", help, None, kind)?;
    for (instrument, totals) in &all {
        let labels = [("instrument", instrument.name)];
        let mut metric = metric.encode_family(&labels)?;
        metric.encode_counter::<NoLabelSet, u64, u64>(&totals.count, None)?;
    }
    let help = "Time of those events that were timed";
    let (name, unit) = ("pinbad_instrument_time", Unit::Seconds);
    let mut metric = encoder.encode_descriptor(name, help, Some(&unit), MetricType::Counter)?;
    for (instrument, totals) in &all {
        let labels = [("instrument", instrument.name)];
        let mut metric = metric.encode_family(&labels)?;
        let seconds = registry.picos(instrument, totals.sum) as f64 / 1e12;
        metric.encode_counter::<NoLabelSet, f64, u64>(&seconds, None)?;
    }
    Ok(())
}
