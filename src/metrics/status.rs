//! The daemon's own numbers as metrics: every [`Reading`] of `/api/v1/status`, with kind, help and
//! unit.
//!
//! A unit that ends a name (`_us`, `_bytes`, `_seconds`) becomes the metric's unit. The objects of
//! a list have the labels of their group; counts by reason have the label `reason` too. What only
//! scrapes show comes in the same form.

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use serde_json::Value as Json;

use crate::telemetry::reading::{Group, Kind, Place, Reading, SeriesCounts};

/// Writes all numbers of these groups, counters without the part that is `unscraped`.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    groups: &[Group],
    unscraped: &SeriesCounts,
) -> std::fmt::Result {
    for mut number in numbers(groups) {
        number.leave_out(unscraped);
        let (kind, help) = (number.reading.kind, number.reading.help);
        if let Json::String(text) = &number.reading.value {
            encoder
                .encode_descriptor("pinbad_build", help, None, MetricType::Info)?
                .encode_info(&[("version", text.as_str())])?;
            continue;
        }
        let metric_type = match kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge | Kind::Alias => MetricType::Gauge,
        };
        let (name, help) = (format!("{prefix}_{}", number.name), help.trim_end_matches('.'));
        let mut metric =
            encoder.encode_descriptor(&name, help, number.unit.as_ref(), metric_type)?;
        for (labels, value) in &number.values {
            match labels.is_empty() {
                true => encode_value(&mut metric, kind, value, number.per_unit)?,
                false => {
                    let mut metric = metric.encode_family(labels)?;
                    encode_value(&mut metric, kind, value, number.per_unit)?;
                }
            }
        }
    }
    Ok(())
}

/// A number of the status.
pub(super) struct Number<'a> {
    /// Its name among the metrics, without the prefix.
    pub(super) name: String,
    pub(super) unit: Option<Unit>,
    /// How many of what it counts are one of the unit.
    pub(super) per_unit: f64,
    pub(super) reading: &'a Reading,
    /// Its values by labels.
    pub(super) values: Vec<(Labels, Json)>,
}

impl Number<'_> {
    /// Subtracts counts of the same series from a counter.
    fn leave_out(&mut self, counts: &SeriesCounts) {
        if self.reading.kind != Kind::Counter || counts.is_empty() {
            return;
        }
        for (labels, value) in &mut self.values {
            let series = (self.name.clone(), std::mem::take(labels));
            if let (Some(left_out), Some(count)) = (counts.get(&series), value.as_u64()) {
                *value = count.saturating_sub(*left_out).into();
            }
            *labels = series.1;
        }
    }
}

/// Returns the counters among the numbers that are not 0; of a series that is there twice the last.
pub(crate) fn counts(groups: &[Group]) -> SeriesCounts {
    let counters = numbers(groups).filter(|it| it.reading.kind == Kind::Counter);
    let counts = counters.flat_map(|number| {
        let Number { name, values, .. } = number;
        let values = values.into_iter().filter_map(|(labels, it)| Some((labels, it.as_u64()?)));
        values.map(move |(labels, count)| ((name.clone(), labels), count)).collect::<Vec<_>>()
    });
    let mut counts: SeriesCounts = counts.collect();
    counts.retain(|_, count| *count > 0);
    counts
}

/// Names and values of labels.
pub(super) type Labels = Vec<(String, String)>;

/// Returns all numbers, one of a list after the other, each with the values of all objects.
pub(super) fn numbers(groups: &[Group]) -> impl Iterator<Item = Number<'_>> {
    let alike = groups.chunk_by(|a, b| a.place == b.place);
    let readings = alike.flat_map(|alike| {
        alike[0].readings.iter().enumerate().map(move |(at, reading)| (alike, at, reading))
    });
    let readings = readings.filter(|(_, _, reading)| reading.kind != Kind::Alias);
    readings.map(|(alike, at, reading)| {
        let (name, unit, per_unit) = named(alike[0].place, reading);
        let values = alike.iter().flat_map(|group| {
            let labels = group.labels.iter();
            let labels: Labels =
                labels.map(|(name, is)| ((*name).to_owned(), is.clone())).collect();
            match &group.readings[at].value {
                // Of sockets there are many, and their reasons are among those of all.
                Json::Object(_) if matches!(group.place, Place::List(_, "socket")) => {
                    vec![(labels, group.readings[at].total().into())]
                }
                Json::Object(reasons) => {
                    let label = |reason: &String| [("reason".to_owned(), reason.clone())];
                    let with = |reason| [&*labels, &label(reason)].concat();
                    reasons.iter().map(|(reason, count)| (with(reason), count.clone())).collect()
                }
                // Not known.
                Json::Null => Vec::new(),
                value => vec![(labels, value.clone())],
            }
        });
        Number { name, unit, per_unit, reading, values: values.collect() }
    })
}

/// Returns name, unit and the divisor into it.
fn named(place: Place, reading: &Reading) -> (String, Option<Unit>, f64) {
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
        (None, number) if kind == Kind::Counter => {
            metric.encode_counter::<NoLabelSet, f64, u64>(&number, None)
        }
        (Some(count), _) if per_unit <= 1.0 => metric.encode_gauge(&count),
        (_, number) => metric.encode_gauge(&(number / per_unit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_without_what_is_left_out() {
        let groups = |merged: u64, invalid: u64| {
            let reasons = serde_json::json!({"empty": invalid});
            let top = [
                Reading::new(Kind::Counter, "requests_merged", "", merged),
                Reading::new(Kind::Counter, "requests_invalid", "", reasons),
                Reading::new(Kind::Gauge, "request_rows", "", merged),
            ];
            [Group::new(Place::Top, top.into())]
        };
        let left_out = counts(&groups(7, 2));
        assert_eq!(left_out.len(), 2, "{left_out:?}");
        let seen = |merged, invalid| {
            let groups = groups(merged, invalid);
            let numbers = numbers(&groups).map(|mut number| {
                number.leave_out(&left_out);
                number.values[0].1.as_u64().unwrap()
            });
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(seen(7, 2), [0, 0, 7]);
        assert_eq!(seen(10, 5), [3, 3, 10]);
        assert_eq!(seen(6, 2), [0, 0, 6]);
    }
}
