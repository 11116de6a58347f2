//! The daemon's own numbers as metrics: every [`Reading`] of `/api/v1/status`, with kind, help and
//! unit.
//!
//! A unit that ends a name (`_us`, `_bytes`, `_seconds`) becomes the metric's unit. Counts by
//! reason have the label `reason`; the objects of a list have the labels of their group.

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use serde_json::Value as Json;

use crate::telemetry::reading::{Group, Kind, Place, Reading};

/// Writes all numbers of the status.
pub(super) fn encode(encoder: &mut DescriptorEncoder<'_>, groups: &[Group]) -> std::fmt::Result {
    // One metric of a list after the other, each with the numbers of all objects.
    for alike in groups.chunk_by(|a, b| a.place == b.place) {
        for (at, reading) in alike[0].readings.iter().enumerate() {
            match (&reading.value, reading.kind) {
                (Json::String(text), _) => {
                    let (name, help) = ("pinbad_build", reading.help);
                    encoder
                        .encode_descriptor(name, help, None, MetricType::Info)?
                        .encode_info(&[("version", text.as_str())])?;
                }
                (_, Kind::Alias) => {}
                (_, Kind::Counter | Kind::Gauge) => encode_metric(encoder, alike, at, reading)?,
            }
        }
    }
    Ok(())
}

/// The name of a number among the metrics, without `pinbad_`; its unit, and how many of what it
/// counts are one of that.
pub(super) fn named(place: Place, reading: &Reading) -> (String, Option<Unit>, f64) {
    let prefix = match place {
        Place::Top => None,
        Place::Object(name) | Place::List(_, name) => Some(name),
    };
    let name = match (reading.metric, prefix) {
        (Some(metric), _) => metric.to_owned(),
        (None, None) => reading.name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}_{}", reading.name),
    };
    if let Some(name) = name.strip_suffix("_us") {
        (name.to_owned(), Some(Unit::Seconds), 1e6)
    } else if let Some(name) = name.strip_suffix("_seconds") {
        (name.to_owned(), Some(Unit::Seconds), 1.0)
    } else if name.contains("_bytes") {
        (name.replace("_bytes", ""), Some(Unit::Bytes), 1.0)
    } else {
        (name, None, 1.0)
    }
}

fn encode_metric(
    encoder: &mut DescriptorEncoder<'_>,
    alike: &[Group],
    at: usize,
    reading: &Reading,
) -> std::fmt::Result {
    let (name, unit, per_unit) = named(alike[0].place, reading);
    let (name, help) = (format!("pinbad_{name}"), reading.help.trim_end_matches('.'));
    let metric_type = match reading.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge | Kind::Alias => MetricType::Gauge,
    };
    let mut metric = encoder.encode_descriptor(&name, help, unit.as_ref(), metric_type)?;
    for group in alike {
        let value = &group.readings[at].value;
        match (value, &group.labels[..]) {
            (Json::Object(reasons), []) => {
                for (reason, count) in reasons {
                    let labels = [("reason", reason.as_str())];
                    let mut metric = metric.encode_family(&labels)?;
                    encode_value(&mut metric, reading.kind, count, per_unit)?;
                }
            }
            (value, []) => encode_value(&mut metric, reading.kind, value, per_unit)?,
            (_, labels) => {
                let total = group.readings[at].total().into();
                let mut metric = metric.encode_family(&labels)?;
                encode_value(&mut metric, reading.kind, &total, per_unit)?;
            }
        }
    }
    Ok(())
}

fn encode_value(
    metric: &mut MetricEncoder<'_>,
    kind: Kind,
    value: &Json,
    per_unit: f64,
) -> std::fmt::Result {
    match (value.as_u64(), value.as_f64().unwrap_or(f64::NAN)) {
        (Some(count), _) if kind == Kind::Counter => {
            metric.encode_counter::<NoLabelSet, u64, u64>(&count, None)
        }
        (Some(count), _) if per_unit <= 1.0 => metric.encode_gauge(&count),
        (_, number) => metric.encode_gauge(&(number / per_unit)),
    }
}
